//! Background work: idempotent, without input, at intervals.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Control, Result};

impl Control {
    /// Starts all of them; they stop when `stop` is cancelled, and the tracker then becomes empty.
    pub fn spawn_reconcilers(&self, stop: CancellationToken) -> TaskTracker {
        let _ = stop;
        TaskTracker::new()
    }
    /// Ends or retries runs whose lease is lost, and runs that waited past the queue deadline; answers how many.
    pub async fn tick_leases(&self) -> Result<usize> {
        Ok(0)
    }
    /// Removes old idempotency receipts, expired sign-ins and logs past their retention; answers how many.
    pub async fn tick_retention(&self) -> Result<u64> {
        Ok(0)
    }
}
