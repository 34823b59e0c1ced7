//! The control plane as workers in this process see it. Every report carries its attempt and is fenced by the run's state
//! (architecture, invariant 5).

use std::time::Duration;

use async_trait::async_trait;
use domain::{
    fingerprint,
    ids::{ImageId, WorkerId},
    limits,
    run_records::{RunRecords, kept_host},
    secrets::SecretVars,
    setup_run::{Command, End, FailureCode, Phase, Refusal, Status},
    timestamp::Timestamp,
    verification::{ImageCaptureFailure, SetupImage, Warmup},
};
use wire::worker::{
    Assignment, Directive, Fault, Gateway, GatewayError, Held, Hello, LogBatch, Order, Plan,
    Reached, RunOutcome, RunResult, RunnerImage,
};

use crate::{
    Control, RACES_MAX,
    accounts::lock,
    environments::system_line,
    leases::unavailable,
    ports::{
        Appended, Effects, LogAppend, RunChange, Topic, Written,
        rows::{SetupRunRow, WorkerRow},
    },
    secrets::CLOSED_SECRETS,
};

/// [`Gateway`] without a wire between.
#[derive(Clone)]
pub struct LocalGateway(Control);

impl LocalGateway {
    /// Of this application layer.
    pub const fn new(control: Control) -> Self {
        Self(control)
    }
}

fn unavailable_because(error: &crate::Error) -> GatewayError {
    GatewayError::Unavailable(error.chain().join(": "))
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
    /// Takes the oldest waiting run, if there is one.
    async fn take(&self, worker: WorkerId) -> Result<Option<Assignment>, GatewayError> {
        for _ in 0..RACES_MAX {
            let Some(row) = self.0.store.waiting_run().await.map_err(unavailable)? else {
                return Ok(None);
            };
            let Ok(state) = row.state.decide(&Command::Claim) else {
                return Ok(None);
            };
            let values = self.secret_values(row.organization_id, row.environment_id);
            let (secrets, hashes) = match values.await {
                Ok(found) => found,
                Err(error) if error.retryable() => return Err(unavailable_because(&error)),
                Err(error) => {
                    tracing::error!(run = %row.setup_run_id, chain = ?error.chain(), "secret variables do not open");
                    // Whoever sets the values again mends it; to try again as it is would end in the same way.
                    let code = FailureCode::EnvironmentSetupFailed;
                    self.give_up_waiting(&row, code, CLOSED_SECRETS)
                        .await
                        .map_err(unavailable)?;
                    continue;
                }
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
            // A secret may have been set anew since the run was admitted: it tests the values that it is given.
            next.fingerprint = fingerprint::of_with_secrets(&next.definition, &hashes);
            next.record.secret_hashes = hashes;
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
                Ok(Written::Done) => return self.assignment(held, secrets).await.map(Some),
                Ok(Written::Stale) => self.forget(row.setup_run_id),
                Err(error) => {
                    self.forget(row.setup_run_id);
                    return Err(unavailable(error));
                }
            }
        }
        Ok(None)
    }

    async fn assignment(
        &self,
        held: Held,
        secrets: SecretVars,
    ) -> Result<Assignment, GatewayError> {
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
                secrets,
                network_policy: definition.network_policy,
                privileged: definition.privileged,
                mounts: definition.mounts,
                runner_image: definition.image,
            },
        })
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
        record.hint_host = outcome.hint_host.as_deref().map(kept_host);
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
                warmup: Some(Warmup::Ready),
                warmup_message: None,
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
            session_slots: hello.session_slots,
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
            open: batch.open,
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

    async fn record(&self, held: Held, records: RunRecords) -> Result<(), GatewayError> {
        let control = &self.0;
        let store = &control.0.store;
        // A worker is told what to keep within, but not trusted to.
        let records = records.bounded();
        match store
            .record_run(held.setup_run_id, held.attempt, &records)
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

    async fn report_images(
        &self,
        worker: WorkerId,
        layers: &[String],
        runner: Option<&RunnerImage>,
    ) -> Result<Vec<String>, GatewayError> {
        let control = &self.0;
        control
            .note_runner(worker, runner)
            .await
            .map_err(unavailable)?;
        control
            .judge_layers(worker, layers)
            .await
            .map_err(unavailable)
    }
}
