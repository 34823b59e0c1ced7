//! One run, from its claim to the release of its compute.

use std::{sync::Arc, time::Duration};

use domain::{
    ids::SandboxId,
    network_policy::NetworkPolicy,
    setup_run::{FailureCode, Phase},
};
use execution::runtime::{Event, RuntimeError, SandboxSpec, SavedLayer, ScriptEnd, ScriptSpec};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use uuid::Uuid;
use wire::worker::{Assignment, Fault, Held, Plan, Reached, RunOutcome};

use crate::{
    agent::Shared,
    calls::{Caller, Gone},
    log::RunLog,
    mounts::{self, Gathered},
    outcome,
    wish::{Wish, WishSender, Wishes},
};

/// Events on their way from a script to its log; when they are so many, the script waits.
const EVENTS_WAITING: usize = 64;
/// Tries to release compute before it is left to the next start of the worker.
const DESTROY_TRIES: u32 = 5;
/// How long a sandbox that was told to stop may take to say so.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How driving a run came to its end.
enum Ending {
    /// To be reported.
    Finish(Box<RunOutcome>),
    /// A fault of ours: to be tried again.
    GiveBack(Fault),
    /// Not ours any more.
    Gone,
}

impl From<Gone> for Ending {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// A run being driven.
pub(crate) struct Run {
    shared: Arc<Shared>,
    held: Held,
    plan: Plan,
    sandbox: SandboxId,
    caller: Caller,
    wishes: Wishes,
    log: RunLog,
    phase: Phase,
}

/// What can still be done for a run when driving it broke off.
pub(crate) struct Rescue {
    shared: Arc<Shared>,
    held: Held,
    sandbox: SandboxId,
    caller: Caller,
}

impl Rescue {
    /// Releases compute and gives the run back.
    pub(crate) async fn give_back(self) {
        release(&self.shared, self.sandbox).await;
        let fault = fault("worker_fault", "The worker failed while it drove this run.");
        let call = || self.shared.gateway.give_back(self.held, fault.clone());
        let _ = self.caller.persist(call).await;
    }
}

/// The sandbox's id follows from run and attempt, so that what is left on a machine tells whose it was.
fn sandbox_id(held: Held) -> SandboxId {
    let mut hash = Sha256::new();
    hash.update(held.setup_run_id.uuid().as_bytes());
    hash.update(held.attempt.to_be_bytes());
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8: made by rules of our own (RFC 9562).
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    SandboxId::from_uuid(Uuid::from_bytes(bytes))
}

fn fault(reason: &str, message: impl Into<String>) -> Fault {
    Fault {
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// Removes a sandbox from the machine. What can't be removed now is removed at the worker's next start.
async fn release(shared: &Shared, sandbox: SandboxId) {
    for attempt in 1..=DESTROY_TRIES {
        match shared.runtime.destroy(sandbox).await {
            Ok(()) => return,
            Err(error) => {
                tracing::error!(%error, %sandbox, attempt, "a sandbox could not be removed")
            }
        }
        shared.time.sleep(Duration::from_millis(200)).await;
    }
}

impl Run {
    pub(crate) fn new(
        shared: Arc<Shared>,
        assignment: Assignment,
        wish: WishSender,
        wishes: Wishes,
    ) -> Self {
        let caller = Caller {
            time: Arc::clone(&shared.time),
            wishes: wishes.clone(),
            wish,
        };
        let log = RunLog::new(
            Arc::clone(&shared.gateway),
            caller.clone(),
            &assignment,
            shared.config.log,
        );
        Self {
            sandbox: sandbox_id(assignment.held),
            held: assignment.held,
            plan: assignment.plan,
            caller,
            wishes,
            log,
            phase: Phase::Provision,
            shared,
        }
    }

    /// What to do should [`Run::drive`] break off.
    pub(crate) fn rescue(&self) -> Rescue {
        Rescue {
            shared: Arc::clone(&self.shared),
            held: self.held,
            sandbox: self.sandbox,
            caller: self.caller.clone(),
        }
    }

    /// Drives the run. Its end is reported only when its compute is gone.
    pub(crate) async fn drive(mut self) {
        let ending = match self.attempt().await {
            // What could not be told before the end does not change what was wished for.
            Err(Ending::Gone) => match self.stopped() {
                Err(wished) => wished,
                Ok(()) => Ending::Gone,
            },
            Ok(ending) | Err(ending) => ending,
        };
        release(&self.shared, self.sandbox).await;
        let gateway = Arc::clone(&self.shared.gateway);
        let held = self.held;
        let reported = match ending {
            Ending::Finish(outcome) => {
                let outcome = self.log.masked(*outcome);
                let noted = self.log.note(&outcome.message).await;
                if noted.is_err() && self.wishes.now() == Wish::Abandon {
                    return;
                }
                let call = || gateway.finish(held, outcome.clone());
                self.caller.insist(call).await
            }
            Ending::GiveBack(fault) => {
                let call = || gateway.give_back(held, fault.clone());
                // Where this cannot be told, the lease runs out.
                self.caller.persist(call).await
            }
            Ending::Gone => Err(Gone),
        };
        if reported.is_err() {
            tracing::info!(run = %held.setup_run_id, "let go of a run that is no longer this worker's");
        }
    }

    /// All phases until the sandbox is of no more use.
    async fn attempt(&mut self) -> Result<Ending, Ending> {
        self.provision().await?;
        self.reach(Phase::Setup, "Running the setup script.")
            .await?;
        let end = self.setup().await?;
        if end.exit_code != 0 || end.timed_out {
            let outcome = outcome::failed(&self.plan, &end, &self.log);
            return Ok(Ending::Finish(Box::new(outcome)));
        }
        self.reach(Phase::Profile, "Checking the prepared sandbox.")
            .await?;
        let profile = outcome::profile(&self.plan, &end, self.shared.runtime.name());
        self.log
            .note(&outcome::profile_note(&self.plan, &end))
            .await?;
        self.reach(Phase::Commit, "Saving the prepared file system.")
            .await?;
        let saved = self.commit().await?;
        self.reach(Phase::Cleanup, "Releasing the sandbox.").await?;
        let outcome = outcome::passed(&end, saved, profile);
        Ok(Ending::Finish(Box::new(outcome)))
    }

    async fn reach(&mut self, phase: Phase, message: &str) -> Result<(), Ending> {
        self.phase = phase;
        let detail = Reached {
            compute_id: (phase > Phase::Provision).then(|| self.sandbox.to_string()),
            message: Some(message.to_owned()),
        };
        let gateway = &self.shared.gateway;
        let held = self.held;
        self.caller
            .persist(|| gateway.reach(held, phase, detail.clone()))
            .await?;
        self.stopped()
    }

    /// How the run ends if something else than going on is wanted.
    fn stopped(&self) -> Result<(), Ending> {
        match self.wishes.now() {
            Wish::Go => Ok(()),
            Wish::GiveBack => Err(Ending::GiveBack(fault(
                "worker_stopped",
                "The worker was shut down.",
            ))),
            Wish::Cancel => Err(Ending::Finish(Box::new(outcome::cancelled(self.phase)))),
            Wish::Abandon => Err(Ending::Gone),
        }
    }

    /// Fetches the files that the environment mounts, and says so in the log.
    async fn gather(&mut self) -> Result<Gathered, Ending> {
        let mut wishes = self.wishes.clone();
        let gathered = tokio::select! {
            gathered = mounts::gather(
                &*self.shared.runtime,
                &*self.shared.time,
                &self.plan.mounts,
            ) => gathered,
            () = wishes.stop() => {
                self.stopped()?;
                return Err(Ending::Gone);
            }
        };
        let gathered = gathered.map_err(|error| self.not_made(&error))?;
        for note in &gathered.notes {
            self.log.note(note).await?;
        }
        Ok(gathered)
    }

    /// Makes the sandbox.
    async fn provision(&mut self) -> Result<(), Ending> {
        // The files are needed until the sandbox has them.
        let gathered = self.gather().await?;
        let plan = &self.plan;
        let spec = SandboxSpec {
            id: self.sandbox,
            runner_image: plan.runner_image.clone(),
            layers: Vec::new(),
            base_digest: None,
            cpu_milli: plan.cpu_milli,
            memory_mib: plan.memory_mib,
            disk_mib: plan.disk_gi.saturating_mul(1_024),
            env_vars: plan.env_vars.clone(),
            secrets: plan.secrets.clone(),
            network_policy: plan.network_policy.clone(),
            privileged: plan.privileged,
            mounts: gathered.mounts.clone(),
            life: (plan.sandbox_timeout_seconds > 0)
                .then(|| Duration::from_secs(plan.sandbox_timeout_seconds.into())),
            keep_disk: false,
        };
        let started = self.shared.time.monotonic();
        let runtime = Arc::clone(&self.shared.runtime);
        // In a task of its own: a sandbox half made is not dropped, but made or refused, and then removed.
        let mut making = tokio::spawn(async move { runtime.prepare(&spec).await });
        let timeout = self.shared.config.provision_timeout;
        let mut wishes = self.wishes.clone();
        let prepared = tokio::select! {
            made = &mut making => made,
            () = wishes.stop() => {
                let _ = self.shared.runtime.stop(self.sandbox).await;
                tokio::select! {
                    _ = &mut making => {}
                    () = self.shared.time.sleep(STOP_PATIENCE) => making.abort(),
                }
                return self.stopped();
            }
            () = self.shared.time.sleep(timeout) => {
                making.abort();
                let message = format!("The sandbox was not ready within {} seconds.", timeout.as_secs());
                return Err(self.not_provided(FailureCode::SandboxProvisionTimeout, message));
            }
        };
        let error = match prepared {
            Ok(Ok(())) => {
                let took = self.shared.time.monotonic().saturating_sub(started);
                let ready = outcome::ready_note(&self.plan, took);
                self.log.note(&ready).await?;
                self.log
                    .note(&policy_note(&self.plan.network_policy))
                    .await?;
                return self.stopped();
            }
            Ok(Err(error)) => error,
            Err(broken) => RuntimeError::Other(broken.to_string()),
        };
        Err(self.not_made(&error))
    }

    /// How the run ends without a sandbox.
    fn not_made(&self, error: &RuntimeError) -> Ending {
        tracing::warn!(%error, run = %self.held.setup_run_id, "a sandbox could not be made");
        match error {
            RuntimeError::Capacity(why) => self.not_provided(
                FailureCode::SandboxCapacityUnavailable,
                format!("No sandbox could be started: {why}."),
            ),
            // The machine is to be mended, not the environment.
            RuntimeError::NoImage(_) => self.not_provided(
                FailureCode::SandboxCapacityUnavailable,
                format!(
                    "{} Ask your operator to get it there (groundwork runner-image), then test again.",
                    outcome::sentence(&error.to_string())
                ),
            ),
            // The environment is to be mended, not the machine: to try again as it is would end in the same way.
            RuntimeError::Unsupported(why) | RuntimeError::Mount(why) => self.not_provided(
                FailureCode::EnvironmentSetupFailed,
                format!("{} The script was not run.", outcome::sentence(why)),
            ),
            RuntimeError::Lost(_)
            | RuntimeError::Refused(_)
            | RuntimeError::Save { .. }
            | RuntimeError::Other(_) => Ending::GiveBack(fault(
                "provision_failed",
                "The sandbox could not be started.",
            )),
        }
    }

    fn not_provided(&self, code: FailureCode, message: String) -> Ending {
        Ending::Finish(Box::new(outcome::not_provided(code, message)))
    }

    /// Runs the script.
    async fn setup(&mut self) -> Result<ScriptEnd, Ending> {
        let script = ScriptSpec {
            script: self.plan.script.clone(),
            timeout: Duration::from_secs(self.plan.setup_timeout_seconds.into()),
        };
        let started = self.shared.time.monotonic();
        let (sink, mut events) = mpsc::channel::<Event>(EVENTS_WAITING);
        let shared = Arc::clone(&self.shared);
        let sandbox = self.sandbox;
        let mut wishes = self.wishes.clone();
        let script_end = async {
            let mut running = std::pin::pin!(shared.runtime.run_script(sandbox, &script, sink));
            tokio::select! {
                end = &mut running => return end,
                () = wishes.stop() => {}
            }
            if let Err(error) = shared.runtime.stop(sandbox).await {
                tracing::error!(%error, %sandbox, "a sandbox could not be stopped");
            }
            tokio::select! {
                end = running => end,
                () = shared.time.sleep(STOP_PATIENCE) => {
                    Err(RuntimeError::Lost("it did not stop in time".to_owned()))
                }
            }
        };
        let (end, ()) = tokio::join!(script_end, self.log.pump(&mut events));
        self.log.end_of_output().await?;
        if let Ok(end) = &end {
            self.log.tell_all(end).await?;
        }
        self.stopped()?;
        let end = match end {
            Ok(end) => end,
            Err(error) => return Err(self.lost(&error, started)),
        };
        if !end.left_behind.is_empty() {
            let note = format!(
                "Ended with the script, which had left {} running: what setup starts does not last.",
                end.left_behind.join(", ")
            );
            self.log.note(&note).await?;
        }
        Ok(end)
    }

    /// The sandbox went away under the script.
    fn lost(&self, error: &RuntimeError, started: Duration) -> Ending {
        tracing::warn!(%error, run = %self.held.setup_run_id, "a sandbox was lost");
        let life = Duration::from_secs(self.plan.sandbox_timeout_seconds.into());
        let lived = self.shared.time.monotonic().saturating_sub(started);
        if !life.is_zero() && lived + Duration::from_secs(1) >= life {
            // Trying again would end in the same way.
            let message = format!(
                "The sandbox's whole life of {} seconds (resources.timeout_seconds) was over before the script ended.",
                life.as_secs()
            );
            let outcome = outcome::life_over(message);
            return Ending::Finish(Box::new(outcome));
        }
        let message = match error {
            RuntimeError::Lost(why) => lost_sentence(why),
            _ => "The script could not be run.".to_owned(),
        };
        Ending::GiveBack(fault("sandbox_lost", message))
    }

    /// Saves the prepared file system. That it could not be saved does not make the script fail; that it was lost does not
    /// count as saved or not saved.
    async fn commit(&mut self) -> Result<Result<SavedLayer, Fault>, Ending> {
        let started = self.shared.time.monotonic();
        let runtime = Arc::clone(&self.shared.runtime);
        let sandbox = self.sandbox;
        let mut saving = tokio::spawn(async move { runtime.save_image(sandbox).await });
        let mut wishes = self.wishes.clone();
        let saved = tokio::select! {
            saved = &mut saving => saved,
            () = wishes.stop() => {
                let _ = self.shared.runtime.stop(sandbox).await;
                tokio::select! {
                    _ = &mut saving => {}
                    () = self.shared.time.sleep(STOP_PATIENCE) => saving.abort(),
                }
                self.stopped()?;
                return Err(Ending::Gone);
            }
        };
        let failure = match saved {
            Ok(Ok(layer)) => {
                let took = self.shared.time.monotonic().saturating_sub(started);
                self.log.note(&outcome::saved_note(&layer, took)).await?;
                return Ok(Ok(layer));
            }
            Ok(Err(RuntimeError::Lost(why))) => {
                // It may be lost because it was to be.
                self.stopped()?;
                tracing::warn!(why, run = %self.held.setup_run_id, "a sandbox was lost while it was saved");
                return Err(Ending::GiveBack(fault("sandbox_lost", lost_sentence(&why))));
            }
            Ok(Err(RuntimeError::Save { reason, message })) => {
                fault(&reason, outcome::sentence(&message))
            }
            Ok(Err(RuntimeError::Capacity(why))) => fault("no_space", outcome::sentence(&why)),
            Ok(Err(error)) => {
                tracing::error!(%error, run = %self.held.setup_run_id, "an image could not be saved");
                fault("io_error", "The prepared file system could not be read.")
            }
            Err(broken) => {
                tracing::error!(%broken, run = %self.held.setup_run_id, "saving an image broke off");
                fault("io_error", "The prepared file system could not be read.")
            }
        };
        self.log
            .note(&format!(
                "The prepared file system was not saved: {}",
                failure.message
            ))
            .await?;
        Ok(Err(failure))
    }
}

fn lost_sentence(why: &str) -> String {
    format!("The sandbox was lost: {why}.")
}

/// Which policy is in force, so that one can see that an edit has taken effect.
fn policy_note(policy: &NetworkPolicy) -> String {
    let text = serde_json::to_string(policy).unwrap_or_default();
    let hash = Sha256::digest(text.as_bytes());
    outcome::policy_sentence(policy, [hash[0], hash[1], hash[2], hash[3]])
}
