//! The real clock and the real source of ids.

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use control::ports::{Clock, Ids};
use domain::timestamp::Timestamp;
use uuid::Uuid;

/// The system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts counting monotonic time now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the port")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970: nothing is deleted or timed out by that (`control`'s trusted time).
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

impl worker::Time for SystemClock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }
    fn monotonic(&self) -> Duration {
        Clock::monotonic(self)
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Clock::sleep(self, duration)
    }
}

/// UUIDv7 from the system's clock and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[allow(clippy::disallowed_methods, reason = "this is the port")]
    fn next_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}
