//! How much one caller may ask for: a token bucket per API key and per address.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control::ports::Clock;
use domain::ids::ApiKeyId;
use wire::error::Code;

use super::problem::Problem;

/// Buckets kept at most; past that, full ones are dropped, since a new one is full too.
const BUCKETS_MAX: usize = 100_000;

/// Who is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// An API key.
    Key(ApiKeyId),
    /// An address; of IPv6 the first 64 bits, since one customer commonly has all the rest.
    Address(IpAddr),
}

impl Who {
    /// The counted part of an address.
    pub fn address(address: IpAddr) -> Self {
        Self::Address(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => {
                let mut octets = v6.octets();
                octets[8..].fill(0);
                IpAddr::from(octets)
            }
        })
    }
}

/// A bucket's size and refill.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Time in which one token comes back.
    pub interval: Duration,
    /// Tokens of a full bucket.
    pub burst: u32,
}

impl Rate {
    /// `burst` at once, `per_second` sustained; both at least 1.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_secs(1) / per_second.max(1),
            burst: burst.max(1),
        }
    }
}

/// The buckets. Each is one number, the time at which it is full again (the generic cell rate algorithm).
pub struct RateLimiter {
    clock: Arc<dyn Clock>,
    key: Rate,
    address: Rate,
    full_at: Mutex<HashMap<Who, Duration>>,
}

impl RateLimiter {
    /// With these rates.
    pub fn new(clock: Arc<dyn Clock>, key: Rate, address: Rate) -> Self {
        Self {
            clock,
            key,
            address,
            full_at: Mutex::new(HashMap::new()),
        }
    }

    /// Takes a token, or says how long to wait for one.
    pub fn take(&self, who: Who) -> Result<(), Duration> {
        let rate = match who {
            Who::Key(_) => self.key,
            Who::Address(_) => self.address,
        };
        let now = self.clock.monotonic();
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX {
            buckets.retain(|_, full_at| *full_at > now);
        }
        let full_at = buckets.get(&who).map_or(now, |at| (*at).max(now)) + rate.interval;
        let capacity = rate.interval * rate.burst;
        match full_at.checked_sub(now + capacity) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                buckets.insert(who, full_at);
                Ok(())
            }
        }
    }
}

/// The refusal.
pub fn too_many(wait: Duration) -> Problem {
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000))
        .unwrap_or(u32::MAX)
        .max(1);
    Problem::new(
        Code::RateLimitExceeded,
        format!("Too many requests. Try again in {seconds} s."),
    )
    .detail("retryable", true)
    .retry_after(seconds)
}

/// The refusal of a body over the limit.
pub fn too_large() -> Problem {
    Problem::new(
        Code::PayloadTooLarge,
        "The request's body is over 1 MiB. Send less.",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_ipv6_customers_64_bits_share_one_bucket_and_ipv4_addresses_do_not() {
        let clock = Arc::new(testkit::ManualClock::default());
        let rate = Rate::new(1, 1);
        let limiter = RateLimiter::new(clock, rate, rate);
        let take = |address: &str| limiter.take(Who::address(address.parse().unwrap())).is_ok();
        for (address, free) in [
            ("2001:db8:0:1::1", true),
            ("2001:db8:0:1::2", false),
            ("2001:db8:0:1:ffff:ffff:ffff:ffff", false),
            ("2001:db8:0:2::1", true),
            ("2001:db8:1:1::1", true),
            ("192.0.2.1", true),
            ("192.0.2.2", true),
            ("192.0.2.1", false),
        ] {
            assert_eq!(take(address), free, "{address}");
        }
    }
}
