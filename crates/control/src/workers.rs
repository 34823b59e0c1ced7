//! Workers, and whether the deployment is ready.

use std::time::Duration;

use domain::{ids::WorkerId, roles::Action, timestamp::Timestamp};
use wire::console::WorkerItem;

use crate::{Control, OpCtx, Result, accounts::lock};

/// A worker that was heard of within this time, by this process or another, is there.
const ALIVE_WITHIN: Duration = Duration::from_secs(60);

/// Whether the deployment is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The database answers.
    pub database: bool,
    /// A worker was heard of lately.
    pub worker: bool,
    /// A worker that was heard of lately has a runner image.
    pub runner_image: bool,
}

impl Readiness {
    /// All of it.
    pub const fn ready(self) -> bool {
        self.database && self.worker && self.runner_image
    }
}

impl Control {
    fn alive(&self, worker: WorkerId, seen_at: Timestamp) -> bool {
        let now = self.0.clock.monotonic();
        let heard_here = lock(&self.0.leases)
            .workers
            .get(&worker)
            .is_some_and(|heard| now.saturating_sub(*heard) < ALIVE_WITHIN);
        let since_row = self.0.clock.now().millis_since(seen_at);
        heard_here || u128::try_from(since_row).is_ok_and(|ms| ms < ALIVE_WITHIN.as_millis())
    }

    /// Workers, newest first.
    pub async fn workers(&self, ctx: &OpCtx) -> Result<Vec<WorkerItem>> {
        ctx.require(Action::ManageWorkers)?;
        let driven = self.0.store.driven_runs().await?;
        let running = |id: WorkerId| {
            let count = driven
                .iter()
                .filter(|run| run.worker_id == Some(id))
                .count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let rows = self.0.store.workers().await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let (runner_image, runner_image_digest) = row.runner_image.unzip();
                WorkerItem {
                    worker_id: row.worker_id,
                    name: row.name,
                    runtime: row.runtime,
                    version: row.version,
                    capacity: row.capacity,
                    running: running(row.worker_id),
                    runner_image,
                    runner_image_digest,
                    registered_at: row.registered_at,
                    seen_at: row.seen_at,
                    alive: self.alive(row.worker_id, row.seen_at),
                }
            })
            .collect())
    }

    /// For `/readyz`; anyone may ask.
    pub async fn readiness(&self) -> Readiness {
        let database = self.0.store.ping().await.is_ok();
        let rows = self.0.store.workers().await.unwrap_or_default();
        let mut alive = rows
            .into_iter()
            .filter(|row| self.alive(row.worker_id, row.seen_at))
            .peekable();
        Readiness {
            database,
            worker: alive.peek().is_some(),
            runner_image: alive.any(|row| row.runner_image.is_some()),
        }
    }
}
