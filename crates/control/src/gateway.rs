//! The control plane as workers in this process see it. Leases are kept here, on this process's monotonic clock; every
//! report carries its attempt and is fenced by the run's state (architecture, invariant 5).

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use domain::{
    ids::{ImageId, SetupRunId, WorkerId},
    limits,
    setup_run::{Command, End, FailureCode, Phase, Refusal, Status},
    timestamp::Timestamp,
    verification::{ImageCaptureFailure, SetupImage},
};
use wire::worker::{
    Assignment, Directive, Fault, Gateway, GatewayError, Held, Hello, LogBatch, Order, Plan,
    Reached, RunOutcome, RunResult,
};

use crate::{
    Control, RACES_MAX,
    accounts::lock,
    ending::conclude,
    environments::system_line,
    ports::{
        Appended, Effects, LogAppend, RunChange, StoreError, Topic, Written,
        rows::{SetupRunRow, WorkerRow},
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

/// [`Gateway`] without a wire between.
#[derive(Clone)]
pub struct LocalGateway(Control);

impl LocalGateway {
    /// Of this application layer.
    pub const fn new(control: Control) -> Self {
        Self(control)
    }
}

fn unavailable(error: StoreError) -> GatewayError {
    // The chain goes to the log here, once; the worker only needs to know to try again.
    tracing::error!(error = ?error, "a worker's call failed");
    GatewayError::Unavailable("the database failed".to_owned())
}

fn too_many_races() -> GatewayError {
    GatewayError::Unavailable("the run kept changing".to_owned())
}

/// A text cut to at most `most` bytes at a character's boundary, its end kept.
fn last_bytes(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
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

    fn renew(&self, held: Held) {
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

    fn forget(&self, run: SetupRunId) {
        let mut leases = lock(&self.0.leases);
        leases.driven.remove(&run);
        leases.waiting.remove(&run);
    }

    async fn heard_of(&self, worker: WorkerId) -> Result<(), GatewayError> {
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

    /// Takes the oldest waiting run, if there is one.
    async fn take(&self, worker: WorkerId) -> Result<Option<Assignment>, GatewayError> {
        for _ in 0..RACES_MAX {
            let Some(row) = self.0.store.waiting_run().await.map_err(unavailable)? else {
                return Ok(None);
            };
            let Ok(state) = row.state.decide(&Command::Claim) else {
                return Ok(None);
            };
            let now = self.0.clock.now();
            let held = Held {
                worker_id: worker,
                setup_run_id: row.setup_run_id,
                attempt: state.attempt,
            };
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            next.worker_id = Some(worker);
            next.started_at = row.started_at.or(Some(now));
            next.record.phases = vec![(Phase::Provision, now)];
            next.record.compute_id = None;
            next.record.message = "Preparing a sandbox.".to_owned();
            let line = system_line(
                now,
                if held.attempt > 1 {
                    format!("Preparing a sandbox (try {}).", held.attempt)
                } else {
                    "Preparing a sandbox.".to_owned()
                },
            );
            // Before the write: a lease must never look lost because its grant is still being written.
            self.renew(held);
            let written = self
                .0
                .store
                .update_run(
                    RunChange {
                        expected: row.version,
                        row: &next,
                        system_line: Some(&line),
                    },
                    None,
                    Effects::default(),
                )
                .await;
            match written {
                Ok(Written::Done) => return self.assignment(held).await.map(Some),
                Ok(Written::Stale) => self.forget(row.setup_run_id),
                Err(error) => {
                    self.forget(row.setup_run_id);
                    return Err(unavailable(error));
                }
            }
        }
        Ok(None)
    }

    async fn assignment(&self, held: Held) -> Result<Assignment, GatewayError> {
        let row = self
            .0
            .store
            .run(held.setup_run_id)
            .await
            .map_err(unavailable)?
            .ok_or(GatewayError::Fenced)?;
        let definition = row.definition;
        Ok(Assignment {
            held,
            renew_after: self.0.config.lease_renew_after,
            lost_after: self.0.config.lease_lost_after,
            kind: row.kind,
            environment_id: row.environment_id,
            next_seq: row.log.lines + 1,
            log_bytes: row.log.bytes,
            plan: Plan {
                setup_timeout_seconds: definition.effective_setup_timeout(),
                cpu_milli: definition.resources.effective_cpu_milli(),
                memory_mib: definition.resources.effective_memory_mib(),
                disk_gi: definition.effective_disk_gi(),
                sandbox_timeout_seconds: definition.resources.timeout_seconds,
                script: definition.setup.script,
                env_vars: definition.env_vars,
                network_policy: definition.network_policy,
                privileged: definition.privileged,
                mounts: definition.mounts,
                runner_image: definition.image,
            },
        })
    }

    /// The run, if `held` is its lease.
    async fn held_run(&self, held: Held) -> Result<SetupRunRow, GatewayError> {
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
    async fn write_run(
        &self,
        row: &SetupRunRow,
        next: &SetupRunRow,
        line: Option<&domain::setup_run::LogLine>,
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
                Effects::default(),
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
                .write_run(&row, &next, Some(&system_line(now, text)))
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

    /// Ends a waiting run that no worker took in time.
    pub(crate) async fn give_up_waiting(
        &self,
        row: &SetupRunRow,
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
        next.record.failure_code = Some(FailureCode::SandboxCapacityUnavailable);
        next.record.message = text.to_owned();
        let written = self
            .write_run(row, &next, Some(&system_line(now, text)))
            .await?;
        if written == Written::Done {
            self.forget(row.setup_run_id);
        }
        Ok(written == Written::Done)
    }

    fn record_outcome(&self, next: &mut SetupRunRow, outcome: &RunOutcome, now: Timestamp) {
        let passed = next.state.status == Status::Succeeded;
        let (run, fingerprint) = (next.setup_run_id, next.fingerprint.clone());
        let (environment, runner_image) = (next.environment_id, next.definition.image.clone());
        let record = &mut next.record;
        record.message.clone_from(&outcome.message);
        record.exit_code = outcome.exit_code;
        record.failed_line = outcome.failed_line;
        record.failed_command.clone_from(&outcome.failed_command);
        record.hint_code = outcome.hint_code;
        record.hint.clone_from(&outcome.hint);
        record.stderr_tail = outcome
            .stderr_tail
            .as_deref()
            .map(|tail| last_bytes(tail, limits::STDERR_TAIL_MAX_BYTES).to_owned());
        record.failure_code = match next.state.status {
            Status::Failed => Some(
                outcome
                    .failure_code
                    .unwrap_or(FailureCode::EnvironmentSetupFailed),
            ),
            _ => None,
        };
        record.compute_profile =
            (!outcome.compute_profile.is_empty()).then(|| outcome.compute_profile.clone());
        if !passed {
            return;
        }
        if let Some(image) = &outcome.image {
            record.image_generation += 1;
            let id: ImageId = self.0.ids.next();
            record.image = Some(SetupImage {
                image_id: id.to_string(),
                compute_id: record.compute_id.clone().unwrap_or_else(|| run.to_string()),
                setup_run_id: run,
                image: format!("groundwork/setup-{environment}@{}", image.digest),
                base_image_digest: image.base_image_digest.clone(),
                fingerprint,
                runner_image,
                generation: record.image_generation,
                size_bytes: i64::try_from(image.size_bytes).unwrap_or(i64::MAX),
                captured_at: now,
                usable: true,
            });
        } else {
            let fault = outcome.capture_failure.clone();
            record.image_capture = Some(ImageCaptureFailure {
                setup_run_id: run,
                at: now,
                reason: fault.as_ref().map(|fault| fault.reason.clone()),
                message: fault.map(|fault| fault.message),
            });
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

#[async_trait]
impl Gateway for LocalGateway {
    async fn register(&self, hello: Hello) -> Result<WorkerId, GatewayError> {
        let control = &self.0;
        let now = control.0.clock.now();
        let row = WorkerRow {
            worker_id: control.0.ids.next(),
            name: hello.name,
            runtime: hello.runtime,
            version: hello.version,
            capacity: hello.capacity,
            runner_image: hello
                .runner_image
                .map(|image| (image.reference, image.digest)),
            registered_at: now,
            seen_at: now,
        };
        let store = &control.0.store;
        let id = store.register_worker(&row).await.map_err(unavailable)?;
        let monotonic = control.0.clock.monotonic();
        lock(&control.0.leases).workers.insert(id, monotonic);
        // A worker that announces itself has just started: what it held before is lost, and needs no waiting for.
        for run in store.driven_runs().await.map_err(unavailable)? {
            if run.worker_id == Some(id) {
                let fault = Fault {
                    reason: "worker_restarted".to_owned(),
                    message: "The worker was started anew while it drove this run.".to_owned(),
                };
                control
                    .lose(run.setup_run_id, run.state.attempt, &fault)
                    .await
                    .map_err(unavailable)?;
            }
        }
        Ok(id)
    }

    async fn claim(
        &self,
        worker: WorkerId,
        wait: Duration,
    ) -> Result<Option<Assignment>, GatewayError> {
        let control = &self.0;
        let end = control.0.clock.monotonic() + wait;
        let mut bell = control.0.bell.listen(Topic::Queue);
        loop {
            bell.mark_unchanged();
            control.heard_of(worker).await?;
            if let Some(assignment) = control.take(worker).await? {
                return Ok(Some(assignment));
            }
            let left = end.saturating_sub(control.0.clock.monotonic());
            if left.is_zero() {
                return Ok(None);
            }
            control.wait(&mut bell, left).await;
        }
    }

    async fn heartbeat(
        &self,
        worker: WorkerId,
        held: &[Held],
    ) -> Result<Vec<Directive>, GatewayError> {
        let control = &self.0;
        control.heard_of(worker).await?;
        let mut directives = Vec::with_capacity(held.len());
        for lease in held {
            let order = if lease.worker_id == worker {
                match control.held_run(*lease).await {
                    Ok(run) => {
                        control.renew(*lease);
                        if run.state.cancel_requested {
                            Order::Cancel
                        } else {
                            Order::Continue
                        }
                    }
                    Err(GatewayError::Fenced) => Order::Abandon,
                    Err(error) => return Err(error),
                }
            } else {
                Order::Abandon
            };
            directives.push(Directive {
                setup_run_id: lease.setup_run_id,
                order,
            });
        }
        Ok(directives)
    }

    async fn reach(&self, held: Held, phase: Phase, detail: Reached) -> Result<(), GatewayError> {
        let control = &self.0;
        for _ in 0..RACES_MAX {
            let row = control.held_run(held).await?;
            let command = Command::Reach {
                attempt: held.attempt,
                phase,
            };
            let state = match row.state.decide(&command) {
                Ok(state) => state,
                // A report that comes late says nothing new: a later phase was reached.
                Err(Refusal::Illegal { .. }) if phase < row.state.phase => return Ok(()),
                Err(_) => return Err(GatewayError::Fenced),
            };
            let mut next = row.clone();
            next.state = state;
            if next.record.phases.last().map(|(last, _)| *last) != Some(phase) {
                next.record.phases.push((phase, control.0.clock.now()));
            }
            if let Some(compute) = &detail.compute_id {
                next.record.compute_id = Some(compute.clone());
            }
            if let Some(message) = &detail.message {
                next.record.message.clone_from(message);
            }
            control.renew(held);
            if next == row {
                return Ok(());
            }
            next.version += 1;
            let written = control
                .write_run(&row, &next, None)
                .await
                .map_err(unavailable)?;
            if written == Written::Done {
                return Ok(());
            }
        }
        Err(too_many_races())
    }

    async fn append_log(&self, held: Held, batch: LogBatch) -> Result<(), GatewayError> {
        let control = &self.0;
        let append = LogAppend {
            setup_run_id: held.setup_run_id,
            attempt: Some(held.attempt),
            lines: batch.lines,
            truncated: batch.truncated,
        };
        match control
            .0
            .store
            .append_log(&append)
            .await
            .map_err(unavailable)?
        {
            Appended::Done => {
                control.renew(held);
                Ok(())
            }
            Appended::Fenced => Err(GatewayError::Fenced),
        }
    }

    async fn finish(&self, held: Held, outcome: RunOutcome) -> Result<(), GatewayError> {
        let control = &self.0;
        let end = match outcome.result {
            RunResult::Succeeded => End::Succeeded,
            RunResult::Failed => End::Failed(outcome.phase),
            RunResult::Cancelled => End::Cancelled,
        };
        for _ in 0..RACES_MAX {
            let row = control
                .0
                .store
                .run(held.setup_run_id)
                .await
                .map_err(unavailable)?
                .ok_or(GatewayError::Fenced)?;
            // Safe to repeat: this attempt's end is on record.
            if row.state.status.is_terminal()
                && row.state.attempt == held.attempt
                && row.worker_id == Some(held.worker_id)
            {
                return Ok(());
            }
            let row = control.held_run(held).await?;
            let command = Command::Finish {
                attempt: held.attempt,
                end,
            };
            let Ok(state) = row.state.decide(&command) else {
                return Err(GatewayError::Fenced);
            };
            let now = control.0.clock.now();
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            next.finished_at = Some(now);
            control.record_outcome(&mut next, &outcome, now);
            let written = control
                .write_run(&row, &next, None)
                .await
                .map_err(unavailable)?;
            if written == Written::Done {
                control.forget(held.setup_run_id);
                return Ok(());
            }
        }
        Err(too_many_races())
    }

    async fn give_back(&self, held: Held, fault: Fault) -> Result<(), GatewayError> {
        let control = &self.0;
        control.held_run(held).await?;
        let lost = control
            .lose(held.setup_run_id, held.attempt, &fault)
            .await
            .map_err(unavailable)?;
        if lost {
            Ok(())
        } else {
            Err(GatewayError::Fenced)
        }
    }
}
