//! The time port of a worker.

use std::{future::Future, pin::Pin, time::Duration};

use domain::timestamp::Timestamp;

/// Where a worker has its time from. Waiting and leases go by [`Time::monotonic`]; the wall clock is only written into
/// log lines.
pub trait Time: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start in this process, never going back.
    fn monotonic(&self) -> Duration;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
