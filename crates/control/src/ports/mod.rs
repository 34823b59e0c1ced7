//! What the application layer needs from outside: storage, time, ids, secrets, doorbells. Implemented in `store`,
//! `server` and, for tests, `testkit`.

mod images;
pub mod rows;
mod secrets;
mod sessions;
mod storage;

use std::{future::Future, pin::Pin, time::Duration};

use domain::{
    ids::{Id, SetupRunId},
    timestamp::Timestamp,
};
pub use images::*;
pub use secrets::*;
pub use sessions::*;
pub use storage::*;
use uuid::Uuid;

/// Wall-clock time for what is stored and shown, and waiting. Leases and timeouts are decided against [`Clock::monotonic`],
/// retention against a wall clock that goes only about as fast as it (`trusted_time`), so that a jump of the wall clock
/// moves none of them (spec 4-execution, *Faults*).
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start in this process, never going back.
    fn monotonic(&self) -> Duration;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// New ids.
pub trait Ids: Send + Sync {
    /// A fresh UUIDv7.
    fn next_uuid(&self) -> Uuid;
}

impl dyn Ids {
    /// A fresh id of any kind.
    pub fn next<K>(&self) -> Id<K> {
        Id::from_uuid(self.next_uuid())
    }
}

/// What a doorbell is about. Bells carry no content and may be lost: whoever hears one reads the rows again
/// (architecture, invariant 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A run changed, or its log grew.
    Run(SetupRunId),
    /// A run waits for a worker.
    Queue,
    /// Something in an environments table changed.
    Environments,
    /// A session changed.
    Sessions,
    /// A cancellation was asked for, or another order waits for workers.
    Orders,
}

/// Rings and listens.
pub trait Doorbell: Send + Sync {
    /// Wakes whoever listens to `topic`.
    fn ring(&self, topic: Topic);
    /// A receiver that is marked changed whenever `topic` rings after this call.
    fn listen(&self, topic: Topic) -> tokio::sync::watch::Receiver<u64>;
}
