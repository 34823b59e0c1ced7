//! What a worker and the control plane say to each other. Every call is safe to repeat; times cross as durations,
//! never as clock readings (architecture, invariants 5 and 6).

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use domain::{
    ids::{EnvironmentId, SetupRunId, WorkerId},
    mounts::Mount,
    network_policy::NetworkPolicy,
    run_records::RunRecords,
    secrets::SecretVars,
    setup_run::{FailureCode, HintCode, Kind, LogLine, Phase},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The control plane as a worker sees it.
#[async_trait]
pub trait Gateway: Send + Sync {
    /// Announces a worker, or a worker's new start.
    async fn register(&self, hello: Hello) -> Result<WorkerId, GatewayError>;
    /// Takes the oldest waiting run, waiting up to `wait` for one.
    async fn claim(
        &self,
        worker: WorkerId,
        wait: Duration,
    ) -> Result<Option<Assignment>, GatewayError>;
    /// Renews the leases held and learns what to do about each.
    async fn heartbeat(
        &self,
        worker: WorkerId,
        held: &[Held],
    ) -> Result<Vec<Directive>, GatewayError>;
    /// Says that a run reached a phase.
    async fn reach(&self, held: Held, phase: Phase, detail: Reached) -> Result<(), GatewayError>;
    /// Stores log lines; a batch stored already is accepted again and changes nothing.
    async fn append_log(&self, held: Held, batch: LogBatch) -> Result<(), GatewayError>;
    /// Stores what was learnt of a run beside its log; a report stored already is accepted again and changes nothing.
    async fn record(&self, held: Held, records: RunRecords) -> Result<(), GatewayError>;
    /// Says how a run ended.
    async fn finish(&self, held: Held, outcome: RunOutcome) -> Result<(), GatewayError>;
    /// Gives a run back after a fault of ours, to be tried again (or ended, past the retries).
    async fn give_back(&self, held: Held, fault: Fault) -> Result<(), GatewayError>;
    /// Says which saved layers (`sha256:…`) are on the worker's machine, and its runner image as it is now: it may be built
    /// or pulled anew at any time. Answers the layers that nothing needs any more and that the worker is to delete, unless
    /// a sandbox of its own uses them.
    async fn report_images(
        &self,
        worker: WorkerId,
        layers: &[String],
        runner: Option<&RunnerImage>,
    ) -> Result<Vec<String>, GatewayError> {
        let _ = (worker, layers, runner);
        Ok(Vec::new())
    }
}

/// Why a gateway call did nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum GatewayError {
    /// The lease is somebody else's now, or the run has ended: stop and clean up.
    #[error("the run is no longer this worker's")]
    Fenced,
    /// The control plane cannot be reached or failed; try again.
    #[error("the control plane did not answer: {0}")]
    Unavailable(String),
    /// The control plane cannot keep what it was told, and would not the next time.
    #[error("the control plane refused the call: {0}")]
    Refused(String),
}

/// A worker's announcement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// A stable name (host name unless configured).
    pub name: String,
    /// The runtime's word: `oci`, `scripted`.
    pub runtime: String,
    /// Program version.
    pub version: String,
    /// Runs it takes at once.
    pub capacity: u32,
    /// Sessions that it runs at once, beside its runs.
    pub session_slots: u32,
    /// Reference and digest of the runner image it has, if any.
    pub runner_image: Option<RunnerImage>,
}

/// A runner image a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerImage {
    /// Reference, such as `groundwork/runner:full`.
    pub reference: String,
    /// `sha256:…`
    pub digest: String,
}

/// A lease: which run, and which attempt of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The worker.
    pub worker_id: WorkerId,
    /// The run.
    pub setup_run_id: SetupRunId,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// A run to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The lease.
    pub held: Held,
    /// Send a heartbeat at least this often.
    pub renew_after: Duration,
    /// Without a successful heartbeat for this long, stop: the lease is lost.
    pub lost_after: Duration,
    /// What for.
    pub kind: Kind,
    /// Of which environment.
    pub environment_id: EnvironmentId,
    /// What to do.
    pub plan: Plan,
    /// The sequence number of the next log line (lines before it are stored already).
    pub next_seq: u64,
    /// Log bytes stored already.
    pub log_bytes: u64,
}

/// What to run, as saved when the run was admitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Normalised script.
    pub script: String,
    /// Seconds.
    pub setup_timeout_seconds: u32,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// GiB.
    pub disk_gi: u32,
    /// Seconds of the whole sandbox; 0 = unbounded.
    pub sandbox_timeout_seconds: u32,
    /// Variables.
    pub env_vars: BTreeMap<String, String>,
    /// Secret variables; passed by value in this process, and never written anywhere.
    #[serde(skip)]
    pub secrets: SecretVars,
    /// Hosts.
    pub network_policy: NetworkPolicy,
    /// Docker inside.
    pub privileged: bool,
    /// Volumes and files.
    pub mounts: Vec<Mount>,
    /// Runner image reference.
    pub runner_image: String,
}

/// What came with reaching a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reached {
    /// The sandbox.
    #[serde(default)]
    pub compute_id: Option<String>,
    /// One sentence for `message`.
    #[serde(default)]
    pub message: Option<String>,
}

/// Log lines in order. A batch may repeat the last stored line with a longer text (an open line that was extended).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBatch {
    /// Sequence of the batch for this attempt, from 1: makes repeats harmless.
    pub number: u64,
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Whether the limit was passed, so that later lines were left out.
    pub truncated: bool,
    /// Whether the last line may still change: it is shown although no line end has come.
    #[serde(default)]
    pub open: bool,
}

/// What to do about a held run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directive {
    /// The run.
    pub setup_run_id: SetupRunId,
    /// What to do.
    pub order: Order,
}

/// An order to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Go on; the lease is renewed.
    Continue,
    /// Stop it: a member cancelled.
    Cancel,
    /// Stop and clean up: the lease is lost or the run is over.
    Abandon,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Passed, failed or cancelled.
    pub result: RunResult,
    /// The phase it ended in.
    pub phase: Phase,
    /// One sentence.
    pub message: String,
    /// The script's exit code, where it ran.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// 0 = unknown.
    #[serde(default)]
    pub failed_line: Option<u32>,
    /// As written.
    #[serde(default)]
    pub failed_command: Option<String>,
    /// Likely cause.
    #[serde(default)]
    pub hint_code: Option<HintCode>,
    /// In words.
    #[serde(default)]
    pub hint: Option<String>,
    /// The host to allow, with `egress_blocked` and where it is known.
    #[serde(default)]
    pub hint_host: Option<String>,
    /// Last of stderr, redacted.
    #[serde(default)]
    pub stderr_tail: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub failure_code: Option<FailureCode>,
    /// The saved file system, where it was saved.
    #[serde(default)]
    pub image: Option<CapturedImage>,
    /// Why it was not, where the script passed.
    #[serde(default)]
    pub capture_failure: Option<Fault>,
    /// Measured of the sandbox (seconds, bytes).
    #[serde(default)]
    pub compute_profile: Map<String, Value>,
}

/// The ways a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunResult {
    /// Exit code 0.
    Succeeded,
    /// Anything else.
    Failed,
    /// Somebody asked.
    Cancelled,
}

/// A saved file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedImage {
    /// `sha256:…` of the layer.
    pub digest: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// Digest of the runner image below it.
    pub base_image_digest: String,
}

/// Something of ours that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A word, such as `no_space`, `io_error`.
    pub reason: String,
    /// A sentence, safe to show.
    pub message: String,
}
