//! Slow-down of repeated failures, on the monotonic clock, in the memory of this process: for each account and address
//! together (so that nobody can lock a member out from elsewhere), and for each address over all accounts.

use std::{collections::HashMap, time::Duration};

/// Failures of one account from one address that are free of delay.
const FREE_PER_ACCOUNT: u32 = 5;
/// Failures from one address, over all accounts, that are free of delay.
const FREE_PER_ADDRESS: u32 = 30;
/// The longest delay for an account from an address.
const LONGEST: Duration = Duration::from_secs(300);
/// The longest delay for a whole address: many people may share one, and must not be kept out by one of them.
const LONGEST_PER_ADDRESS: Duration = Duration::from_secs(10);
/// Failures are forgotten after this long without another.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);
/// Counters kept; past it the oldest go, so that a flood of addresses cannot fill the memory.
const COUNTERS_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Counter {
    failures: u32,
    last: Duration,
}

/// Counts failures and says how long to wait.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    counters: HashMap<String, Counter>,
}

/// What a counter allows.
#[derive(Clone, Copy)]
struct Limit {
    /// Failures without delay.
    free: u32,
    /// The longest delay.
    longest: Duration,
}

impl Limit {
    /// How long to wait after so many failures: 1 s, 2 s, 4 s, … up to the longest.
    fn delay(self, failures: u32) -> Duration {
        match failures.checked_sub(self.free) {
            None => Duration::ZERO,
            Some(over) => Duration::from_secs(1u64 << over.min(16)).min(self.longest),
        }
    }
}

fn keys(account: &str, address: &str) -> [(String, Limit); 2] {
    [
        (
            format!("{account}\n{address}"),
            Limit {
                free: FREE_PER_ACCOUNT,
                longest: LONGEST,
            },
        ),
        (
            format!("\n{address}"),
            Limit {
                free: FREE_PER_ADDRESS,
                longest: LONGEST_PER_ADDRESS,
            },
        ),
    ]
}

impl Throttle {
    /// Begins a try: counts it as failed until [`Self::succeeded`] (so that tries at the same time count too), or says
    /// how long to wait first.
    pub(crate) fn begin(
        &mut self,
        account: &str,
        address: &str,
        now: Duration,
    ) -> Result<(), Duration> {
        let keys = keys(account, address);
        for (key, limit) in &keys {
            if let Some(counter) = self.counters.get(key) {
                let since = now.saturating_sub(counter.last);
                let wait = limit.delay(counter.failures);
                if since < wait {
                    return Err(wait - since);
                }
            }
        }
        if self.counters.len() >= COUNTERS_MAX {
            self.make_room(now);
        }
        for (key, _) in keys {
            let counter = self.counters.entry(key).or_insert(Counter {
                failures: 0,
                last: now,
            });
            if now.saturating_sub(counter.last) > FORGET_AFTER {
                counter.failures = 0;
            }
            counter.failures = counter.failures.saturating_add(1);
            counter.last = now;
        }
        Ok(())
    }

    /// The try succeeded: it did not fail, and the account's earlier failures from this address are forgiven.
    pub(crate) fn succeeded(&mut self, account: &str, address: &str) {
        let [(pair, _), (whole, _)] = keys(account, address);
        self.counters.remove(&pair);
        if let Some(counter) = self.counters.get_mut(&whole) {
            counter.failures = counter.failures.saturating_sub(1);
        }
    }

    fn make_room(&mut self, now: Duration) {
        self.counters
            .retain(|_, counter| now.saturating_sub(counter.last) <= FORGET_AFTER);
        if self.counters.len() < COUNTERS_MAX {
            return;
        }
        let mut ages: Vec<Duration> = self.counters.values().map(|c| c.last).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or_default();
        self.counters.retain(|_, counter| counter.last > middle);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn five_failures_are_free_and_then_the_wait_doubles() {
        let mut throttle = Throttle::default();
        let mut now = Duration::ZERO;
        for _ in 0..5 {
            assert_eq!(throttle.begin("a", "1.2.3.4", now), Ok(()));
        }
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(throttle.begin("a", "1.2.3.4", now), Err(wait));
            now += wait;
            assert_eq!(throttle.begin("a", "1.2.3.4", now), Ok(()));
        }
    }

    #[test]
    fn another_account_or_address_is_not_slowed_down() {
        let mut throttle = Throttle::default();
        for _ in 0..5 {
            throttle.begin("a", "1.2.3.4", SECOND).unwrap();
        }
        assert!(throttle.begin("a", "1.2.3.4", SECOND).is_err());
        assert!(throttle.begin("a", "5.6.7.8", SECOND).is_ok());
        assert!(throttle.begin("b", "1.2.3.4", SECOND).is_ok());
    }

    #[test]
    fn an_address_that_tries_many_accounts_is_slowed_down() {
        let mut throttle = Throttle::default();
        for n in 0..30 {
            throttle
                .begin(&format!("user{n}"), "1.2.3.4", SECOND)
                .unwrap();
        }
        assert!(throttle.begin("fresh", "1.2.3.4", SECOND).is_err());
        // Not for long: others may sit behind the same address.
        let mut now = SECOND;
        for n in 0..20 {
            now += LONGEST_PER_ADDRESS;
            assert!(throttle.begin(&format!("later{n}"), "1.2.3.4", now).is_ok());
        }
    }

    #[test]
    fn success_forgives_the_account() {
        let mut throttle = Throttle::default();
        for _ in 0..5 {
            throttle.begin("a", "x", SECOND).unwrap();
        }
        throttle.succeeded("a", "x");
        assert!(throttle.begin("a", "x", SECOND).is_ok());
    }

    #[test]
    fn failures_are_forgotten_after_an_hour() {
        let mut throttle = Throttle::default();
        for _ in 0..5 {
            throttle.begin("a", "x", SECOND).unwrap();
        }
        let later = SECOND + FORGET_AFTER + SECOND;
        for _ in 0..5 {
            assert!(throttle.begin("a", "x", later).is_ok());
        }
    }

    #[test]
    fn memory_stays_bounded_under_a_flood() {
        let mut throttle = Throttle::default();
        for n in 0..25_000 {
            let _ = throttle.begin("a", &format!("10.0.{}.{}", n / 256, n % 256), SECOND * n);
        }
        assert!(throttle.counters.len() <= COUNTERS_MAX + 2);
    }
}
