//! Background work: idempotent, without input, at intervals; each round can be called by tests.

use std::{future::Future, time::Duration};

use domain::{ids::WorkerId, limits, setup_run::FailureCode};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use wire::worker::Fault;

use crate::{
    Control, Result,
    accounts::lock,
    leases::Lease,
    ports::{StoreError, rows::SetupRunRow},
};

/// Between looks at leases and the queue.
const LEASES_EVERY: Duration = Duration::from_secs(2);
/// Between looks at sessions; also how often what they use is measured.
const SESSIONS_EVERY: Duration = Duration::from_secs(limits::SAMPLE_SECONDS);
/// Between removals of what is past its time.
const RETENTION_EVERY: Duration = Duration::from_secs(600);

impl Control {
    /// Starts all of them; they stop when `stop` is cancelled, and the tracker then becomes empty.
    pub fn spawn_reconcilers(&self, stop: CancellationToken) -> TaskTracker {
        let tracker = TaskTracker::new();
        let control = self.clone();
        tracker.spawn(every(
            self.clone(),
            LEASES_EVERY,
            "lease-reaper",
            stop.clone(),
            move || {
                let control = control.clone();
                async move { control.tick_leases().await.map(|n| n as u64) }
            },
        ));
        if self.0.host.is_some() {
            let control = self.clone();
            tracker.spawn(every(
                self.clone(),
                SESSIONS_EVERY,
                "sessions",
                stop.clone(),
                move || {
                    let control = control.clone();
                    async move { control.tick_sessions().await.map(|n| n as u64) }
                },
            ));
        }
        let control = self.clone();
        tracker.spawn(every(
            self.clone(),
            RETENTION_EVERY,
            "retention",
            stop,
            move || {
                let control = control.clone();
                async move { control.tick_retention().await }
            },
        ));
        tracker.close();
        tracker
    }

    /// Ends or retries runs whose lease is lost, and runs that waited past the queue deadline; answers how many.
    pub async fn tick_leases(&self) -> Result<usize> {
        let mut count = 0;
        for run in self.lost_runs().await? {
            let fault = Fault {
                reason: "worker_lost".to_owned(),
                message: "The worker that drove this run was lost.".to_owned(),
            };
            if self
                .lose(run.setup_run_id, run.state.attempt, &fault)
                .await?
            {
                count += 1;
            }
        }
        count += self.overdue_waiting().await?;
        Ok(count)
    }

    /// Driven runs of whose workers nothing was heard for too long. A run that this process knows nothing of (it was
    /// started anew, or another process granted the lease) gets the whole time from the first look at it.
    async fn lost_runs(&self) -> std::result::Result<Vec<SetupRunRow>, StoreError> {
        let driven = self.0.store.driven_runs().await?;
        let workers = if driven.is_empty() {
            Vec::new()
        } else {
            self.0.store.workers().await?
        };
        let now = self.0.clock.monotonic();
        let mut leases = lock(&self.0.leases);
        leases
            .driven
            .retain(|id, _| driven.iter().any(|run| run.setup_run_id == *id));
        let heard_here: Vec<WorkerId> = leases
            .workers
            .iter()
            .filter(|(_, heard)| now.saturating_sub(**heard) < self.0.config.lease_lost_after)
            .map(|(id, _)| *id)
            .collect();
        let mut lost = Vec::new();
        for run in driven {
            let seen_at = workers
                .iter()
                .find(|worker| Some(worker.worker_id) == run.worker_id)
                .map(|worker| worker.seen_at);
            let fresh = Lease {
                attempt: run.state.attempt,
                heard: now,
                worker_seen_at: seen_at,
            };
            let lease = leases.driven.entry(run.setup_run_id).or_insert(fresh);
            // Heard by another process since the last look. A worker that this process hears says itself what it holds.
            let heard_elsewhere = lease.worker_seen_at.is_some()
                && lease.worker_seen_at != seen_at
                && !run.worker_id.is_some_and(|id| heard_here.contains(&id));
            if lease.attempt != run.state.attempt || heard_elsewhere {
                *lease = fresh;
            }
            if now.saturating_sub(lease.heard) >= self.0.config.lease_lost_after {
                lost.push(run);
            }
        }
        Ok(lost)
    }

    /// Fails runs that waited too long: sooner while there is no worker at all.
    async fn overdue_waiting(&self) -> std::result::Result<usize, StoreError> {
        let waiting = self.0.store.waiting_runs().await?;
        let workers = if waiting.is_empty() {
            Vec::new()
        } else {
            self.0.store.workers().await?
        };
        let now = self.0.clock.monotonic();
        let (waited, worker_alive) = {
            let mut leases = lock(&self.0.leases);
            leases
                .waiting
                .retain(|id, _| waiting.iter().any(|run| run.setup_run_id == *id));
            leases.look_at(&workers, now);
            // Runs that another process admitted, or this one before a restart, wait from the first look at them.
            let waited: Vec<Duration> = waiting
                .iter()
                .map(|run| *leases.waiting.entry(run.setup_run_id).or_insert(now))
                .map(|since| now.saturating_sub(since))
                .collect();
            let alive = leases.alive(now, self.0.config.lease_lost_after);
            (waited, !alive.is_empty())
        };
        let (deadline, text) = if worker_alive {
            (
                self.0.config.queue_deadline_busy,
                "No worker had room for this run in time. Try again, or ask your operator for more workers.",
            )
        } else {
            (
                self.0.config.queue_deadline,
                "No worker is there to take this run. Ask your operator to start one, then test again.",
            )
        };
        let code = FailureCode::SandboxCapacityUnavailable;
        let mut count = 0;
        for (run, waited) in waiting.iter().zip(waited) {
            // One that changed meanwhile was taken or cancelled: it waits no more, or is looked at again.
            if waited >= deadline && self.give_up_waiting(run, code, text).await? {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Removes old idempotency receipts, expired sign-ins and logs past their retention, as far as time is trusted; answers
    /// how many.
    pub async fn tick_retention(&self) -> Result<u64> {
        let now = self.trusted_now().await?;
        self.keep_trusted_time().await?;
        let store = &self.0.store;
        let receipts = store
            .delete_receipts(now.plus_seconds(-limits::RECEIPT_SECONDS))
            .await?;
        let sessions = store.delete_expired_web_sessions(now).await?;
        let logs = store
            .delete_logs(
                now.plus_seconds(-self.0.config.log_retention_seconds),
                self.0.clock.now(),
            )
            .await?;
        Ok(receipts + sessions + logs)
    }
}

/// Calls `round` at once and then after every `pause`, until stopped. A round that fails is logged; the next one tries
/// again.
async fn every<F, Fut>(
    control: Control,
    pause: Duration,
    name: &'static str,
    stop: CancellationToken,
    round: F,
) where
    F: Fn() -> Fut + Send,
    Fut: Future<Output = Result<u64>> + Send,
{
    loop {
        match round().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(reconciler = name, count, "reconciled"),
            Err(error) => {
                tracing::error!(reconciler = name, error = %error, chain = ?error.chain(), "a round failed");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = control.0.clock.sleep(pause) => {}
        }
    }
}
