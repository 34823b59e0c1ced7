//! Who drives which run: leases on this process's monotonic clock, and what happens when one is lost. Whether a report
//! counts is not decided here but by the run's stored state and attempt (architecture, invariant 5).

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    time::Duration,
};

use domain::{
    ids::{SetupRunId, WorkerId},
    limits,
    setup_run::{Command, FailureCode, LogLine, Status},
    timestamp::Timestamp,
};
use wire::worker::{Fault, GatewayError, Held};

use crate::{
    Control, RACES_MAX,
    accounts::lock,
    ending::conclude,
    environments::system_line,
    ports::{
        Effects, RunChange, StoreError, Topic, Written,
        rows::{AuditRow, SetupRunRow, WorkerRow},
    },
};

/// That a worker was heard of is noted in its row at most this often: an idle worker should not keep the disk busy.
const NOTE_AFTER: Duration = Duration::from_secs(5);

/// What this process remembers of runs and workers; a restart forgets it, and gives everybody time anew.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// Since when a run is driven without news of its worker.
    pub(crate) driven: HashMap<SetupRunId, Lease>,
    /// Since when a run waits for a worker.
    pub(crate) waiting: HashMap<SetupRunId, Duration>,
    /// When a worker was last heard of.
    pub(crate) workers: HashMap<WorkerId, Duration>,
    /// When that was last noted in the worker's row.
    noted: HashMap<WorkerId, Duration>,
    /// What the workers' rows said at the last look.
    rows: HashMap<WorkerId, SeenRow>,
}

/// A worker's row as this process saw it last.
#[derive(Debug, Clone, Copy)]
struct SeenRow {
    seen_at: Timestamp,
    /// When it was found changed, monotonic: somebody hears that worker, this process or another.
    changed: Option<Duration>,
}

impl Leases {
    /// Takes note of the workers' rows. One that is seen for the first time says nothing yet: its worker may be long gone.
    pub(crate) fn look_at(&mut self, workers: &[WorkerRow], now: Duration) {
        for worker in workers {
            let seen_at = worker.seen_at;
            match self.rows.entry(worker.worker_id) {
                Entry::Vacant(entry) => {
                    let changed = None;
                    entry.insert(SeenRow { seen_at, changed });
                }
                Entry::Occupied(mut entry) if entry.get().seen_at != seen_at => {
                    let changed = Some(now);
                    entry.insert(SeenRow { seen_at, changed });
                }
                Entry::Occupied(_) => {}
            }
        }
    }

    /// Workers that this process heard of within this time, or that another one did as far as their rows tell.
    pub(crate) fn alive(&self, now: Duration, within: Duration) -> HashSet<WorkerId> {
        let here = self.workers.iter().map(|(id, heard)| (*id, *heard));
        let rows = self
            .rows
            .iter()
            .filter_map(|(id, row)| Some((*id, row.changed?)));
        here.chain(rows)
            .filter(|(_, heard)| now.saturating_sub(*heard) < within)
            .map(|(id, _)| id)
            .collect()
    }
}

/// A lease as this process knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// The attempt that holds it.
    pub(crate) attempt: u32,
    /// Last news, monotonic.
    pub(crate) heard: Duration,
    /// What the worker's row said then: another process may be the one that hears the worker.
    pub(crate) worker_seen_at: Option<Timestamp>,
}

pub(crate) fn unavailable(error: StoreError) -> GatewayError {
    // The chain goes to the log here, once; the worker only needs to know whether to try again.
    tracing::error!(error = ?error, "a worker's call failed");
    match error {
        StoreError::Unavailable(_) => {
            GatewayError::Unavailable("the database is unavailable".to_owned())
        }
        StoreError::Constraint(_) | StoreError::Corrupt { .. } | StoreError::Other(_) => {
            GatewayError::Refused("the database refused it".to_owned())
        }
    }
}

fn failure_code(reason: &str) -> FailureCode {
    if reason.contains("capacity") {
        FailureCode::SandboxCapacityUnavailable
    } else if reason.contains("timeout") {
        FailureCode::SandboxProvisionTimeout
    } else {
        FailureCode::SandboxLost
    }
}

impl Control {
    /// Notes that a run waits for a worker from now on.
    pub(crate) fn waits(&self, run: SetupRunId) {
        let now = self.0.clock.monotonic();
        let mut leases = lock(&self.0.leases);
        leases.driven.remove(&run);
        leases.waiting.insert(run, now);
    }

    /// Notes that a run does not wait any more.
    pub(crate) fn not_waiting(&self, run: SetupRunId) {
        lock(&self.0.leases).waiting.remove(&run);
    }

    /// News of a lease's holder.
    pub(crate) fn renew(&self, held: Held) {
        let heard = self.0.clock.monotonic();
        let mut leases = lock(&self.0.leases);
        leases.workers.insert(held.worker_id, heard);
        leases.waiting.remove(&held.setup_run_id);
        leases.driven.insert(
            held.setup_run_id,
            Lease {
                attempt: held.attempt,
                heard,
                worker_seen_at: None,
            },
        );
    }

    /// The run needs no watching any more.
    pub(crate) fn forget(&self, run: SetupRunId) {
        let mut leases = lock(&self.0.leases);
        leases.driven.remove(&run);
        leases.waiting.remove(&run);
    }

    /// News of a worker.
    pub(crate) async fn heard_of(&self, worker: WorkerId) -> Result<(), GatewayError> {
        let now = self.0.clock.monotonic();
        {
            let mut leases = lock(&self.0.leases);
            leases.workers.insert(worker, now);
            let fresh = leases
                .noted
                .get(&worker)
                .is_some_and(|noted| now.saturating_sub(*noted) < NOTE_AFTER);
            if fresh {
                return Ok(());
            }
            leases.noted.insert(worker, now);
        }
        self.0
            .store
            .touch_worker(worker, self.0.clock.now())
            .await
            .map_err(unavailable)
    }

    /// The run, if `held` is its lease.
    pub(crate) async fn held_run(&self, held: Held) -> Result<SetupRunRow, GatewayError> {
        let row = self
            .0
            .store
            .run(held.setup_run_id)
            .await
            .map_err(unavailable)?
            .ok_or(GatewayError::Fenced)?;
        let theirs = row.state.driven
            && row.state.attempt == held.attempt
            && row.worker_id == Some(held.worker_id);
        if theirs {
            Ok(row)
        } else {
            Err(GatewayError::Fenced)
        }
    }

    /// Writes a run's next state with what its end means for the environment.
    pub(crate) async fn write_run(
        &self,
        row: &SetupRunRow,
        next: &SetupRunRow,
        line: Option<&LogLine>,
    ) -> Result<Written, StoreError> {
        self.write_run_with(row, next, line, Vec::new()).await
    }

    async fn write_run_with(
        &self,
        row: &SetupRunRow,
        next: &SetupRunRow,
        line: Option<&LogLine>,
        audit: Vec<AuditRow>,
    ) -> Result<Written, StoreError> {
        let environment = if next.state.status.is_terminal() {
            self.0
                .store
                .environment(row.organization_id, row.environment_id)
                .await?
        } else {
            None
        };
        let now = self.0.clock.now();
        let verdict = conclude(next, environment.as_ref(), now);
        let pair = match (&environment, &verdict) {
            (Some(before), Some(after)) => Some((before.version, after)),
            _ => None,
        };
        self.0
            .store
            .update_run(
                RunChange {
                    expected: row.version,
                    row: next,
                    system_line: line,
                },
                pair,
                Effects {
                    audit,
                    ..Effects::default()
                },
            )
            .await
    }

    /// Nobody drives this attempt any more: the run waits to be tried again, or ends. Answers whether it was so.
    pub(crate) async fn lose(
        &self,
        run: SetupRunId,
        attempt: u32,
        fault: &Fault,
    ) -> Result<bool, StoreError> {
        self.lose_as(run, attempt, fault, Vec::new()).await
    }

    /// The same, written to the audit log.
    pub(crate) async fn lose_as(
        &self,
        run: SetupRunId,
        attempt: u32,
        fault: &Fault,
        audit: Vec<AuditRow>,
    ) -> Result<bool, StoreError> {
        for _ in 0..RACES_MAX {
            let Some(row) = self.0.store.run(run).await? else {
                return Ok(false);
            };
            let Ok(state) = row.state.decide(&Command::Lose { attempt }) else {
                return Ok(false);
            };
            let now = self.0.clock.now();
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            next.worker_id = None;
            let text = match next.state.status {
                Status::Cancelled => {
                    next.record.message = "Cancelled.".to_owned();
                    format!("{} Cancelled.", fault.message)
                }
                Status::Failed => {
                    next.record.failure_code = Some(failure_code(&fault.reason));
                    next.record.message =
                        format!("{} It was tried {attempt} times.", fault.message);
                    format!("{} Not tried again: this was try {attempt}.", fault.message)
                }
                _ => {
                    // The next try begins at the beginning, with a sandbox of its own.
                    next.record.phases.clear();
                    next.record.compute_id = None;
                    next.record.message = format!("{} Trying again.", fault.message);
                    format!(
                        "{} Trying again (try {} of {}).",
                        fault.message,
                        attempt + 1,
                        limits::RUN_RETRIES_MAX + 1
                    )
                }
            };
            if next.state.status.is_terminal() {
                next.finished_at = Some(now);
            }
            if self
                .write_run_with(&row, &next, Some(&system_line(now, text)), audit.clone())
                .await?
                == Written::Done
            {
                if next.state.status.is_terminal() {
                    self.forget(run);
                } else {
                    self.waits(run);
                    self.0.bell.ring(Topic::Queue);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends a waiting run that no worker took in time, or that none can take; with the code and the sentence that say why.
    pub(crate) async fn give_up_waiting(
        &self,
        row: &SetupRunRow,
        code: FailureCode,
        text: &str,
    ) -> Result<bool, StoreError> {
        let Ok(state) = row.state.decide(&Command::GiveUp) else {
            return Ok(false);
        };
        let now = self.0.clock.now();
        let mut next = row.clone();
        next.version += 1;
        next.state = state;
        next.finished_at = Some(now);
        next.record.failure_code = Some(code);
        next.record.message = text.to_owned();
        let written = self
            .write_run(row, &next, Some(&system_line(now, text)))
            .await?;
        if written == Written::Done {
            self.forget(row.setup_run_id);
        }
        Ok(written == Written::Done)
    }
}
