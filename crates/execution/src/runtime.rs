//! The runtime contract: every way of making a sandbox implements [`Runtime`], and every caller knows only it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
pub use domain::run_records::EgressOutcome;
use domain::{
    ids::SandboxId,
    network_policy::NetworkPolicy,
    process::{Command, CommandEnd, Input, Output, Sample},
    secrets::SecretVars,
    setup_run::Stream,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

use crate::fetch::FetchedFile;

/// What a sandbox is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Names everything that belongs to it on the machine.
    pub id: SandboxId,
    /// Runner image reference.
    pub runner_image: String,
    /// Digests of saved layers above the runner image, lowest first.
    pub layers: Vec<String>,
    /// Digest of the runner image below the layers, of those that the machine has or still keeps; `None` = the one that
    /// bears the reference now.
    pub base_digest: Option<String>,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// MiB.
    pub disk_mib: u32,
    /// Variables of every process inside.
    pub env_vars: BTreeMap<String, String>,
    /// Secret variables of every process inside; they win over `env_vars`.
    #[serde(skip)]
    pub secrets: SecretVars,
    /// Hosts that may be reached.
    pub network_policy: NetworkPolicy,
    /// Docker inside.
    pub privileged: bool,
    /// Volumes and files.
    pub mounts: Vec<SandboxMount>,
    /// The sandbox's whole life; `None`: unbounded.
    pub life: Option<Duration>,
    /// A session's sandbox: its disk outlives it, also a crash of its worker, until [`Runtime::destroy`]; `prepare` with
    /// the same id takes that disk up again.
    pub keep_disk: bool,
}

/// Something of the machine that appears in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxMount {
    /// What.
    pub source: MountSource,
    /// Where: absolute, under `/workspace/` or `/mnt/`, without `..`.
    pub path: String,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A volume that the machine's configuration declares, by name.
    Volume(String),
    /// A file that was fetched for this sandbox.
    File {
        /// Where it lies on the machine; needed until [`Runtime::prepare`] has returned.
        at: PathBuf,
        /// Where it is from, as messages name it.
        from: String,
    },
}

impl MountSource {
    /// As messages name it.
    pub fn shown(&self) -> String {
        match self {
            Self::Volume(name) => format!("volume:{name}"),
            Self::File { from, .. } => from.clone(),
        }
    }
}

/// A setup script to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptSpec {
    /// Normalised script.
    pub script: String,
    /// After this everything in the sandbox is killed, and the exit code is 124.
    pub timeout: Duration,
}

/// Something that happened in a sandbox, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A statement is about to run.
    Marker {
        /// Its first line, from 1.
        line: u32,
        /// Its source text as written. Empty: the line was announced often enough already (20 times), and only what
        /// follows belongs to it.
        text: String,
    },
    /// Bytes the script wrote, as read.
    Output {
        /// `Stdout` or `Stderr`.
        stream: Stream,
        /// The bytes.
        bytes: Bytes,
    },
    /// A note of ours.
    System {
        /// A sentence.
        text: String,
    },
    /// The egress gateway refused or let through a connection (first of its kind per host and port).
    Egress(EgressEvent),
}

/// A host that was asked for, with this outcome. As an event: the first of its kind, told at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressEvent {
    /// Host name, or address when dialled by address.
    pub host: String,
    /// Port; 0 = a name lookup.
    pub port: u16,
    /// Whether the policy let it through. What it let through can still have failed: see `outcome`.
    pub allowed: bool,
    /// Index of the deciding rule; `None`: no rule matched (or the policy is unrestricted).
    pub rule: Option<usize>,
    /// How it ended. Only [`EgressOutcome::Denied`] is mended by a rule.
    pub outcome: EgressOutcome,
    /// The host whose HTTP redirect led here.
    pub redirected_from: Option<String>,
    /// More on why, for the log; may be empty.
    pub detail: String,
    /// How often (packets, for what the kernel refused).
    pub count: u64,
}

impl EgressEvent {
    /// A first attempt.
    pub fn new(host: impl Into<String>, port: u16, outcome: EgressOutcome) -> Self {
        Self {
            host: host.into(),
            port,
            allowed: !outcome.blocked(),
            rule: None,
            outcome,
            redirected_from: None,
            detail: String::new(),
            count: 1,
        }
    }

    /// What the log shows, such as `egress: blocked example.org, no rule allows it`.
    pub fn sentence(&self) -> String {
        let verb = match self.outcome {
            EgressOutcome::Allowed => "allowed",
            EgressOutcome::UpstreamFailed => "could not reach",
            _ => "blocked",
        };
        let place = match (self.port, self.host.contains(':')) {
            (0, _) => self.host.clone(),
            (port, true) => format!("[{}]:{port}", self.host),
            (port, false) => format!("{}:{port}", self.host),
        };
        let why = match (self.outcome, self.rule) {
            (EgressOutcome::Allowed, _) => String::new(),
            (EgressOutcome::Denied, Some(rule)) => format!(", rules[{rule}] denies it"),
            (EgressOutcome::Denied, None) => ", no rule allows it".to_owned(),
            (EgressOutcome::Protocol, _) => ", only TCP and our DNS leave a sandbox".to_owned(),
            _ => format!(", {}", self.detail),
        };
        let more = match self.outcome {
            EgressOutcome::Denied if !self.detail.is_empty() => format!(" ({})", self.detail),
            _ => String::new(),
        };
        let from = self
            .redirected_from
            .as_ref()
            .map_or_else(String::new, |from| format!(" ({from} redirected to it)"));
        format!("egress: {verb} {place}{why}{more}{from}")
    }
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScriptEnd {
    /// From `wait`; 124 by our timer, 128 + signal for a signal.
    pub exit_code: i32,
    /// Ended by our timer.
    pub timed_out: bool,
    /// Ended because the caller asked.
    pub cancelled: bool,
    /// First line of the failing statement; 0 = unknown.
    pub failed_line: u32,
    /// The failing statement as written.
    pub failed_command: String,
    /// Where in another file it failed, such as `/etc/profile.d/x.sh:3`.
    pub failed_in: Option<String>,
    /// Line that was running when it ended, and for how long.
    pub last_line: u32,
    /// How long that line had been running.
    pub last_line_for: Duration,
    /// The memory limit killed a process while the last statement ran.
    pub out_of_memory: bool,
    /// Bytes of the disk: used and size, as the file system says.
    pub disk_used: u64,
    /// Size of the disk in bytes.
    pub disk_size: u64,
    /// Peak memory of the sandbox in bytes, where known.
    pub memory_peak: u64,
    /// CPU time used, in milliseconds, where known.
    pub cpu_millis: u64,
    /// Processes that the script left behind and that were ended with it, by name.
    pub left_behind: Vec<String>,
    /// Seconds per script line, in order of first run: (line, total).
    pub timings: Vec<(u32, Duration)>,
    /// Hosts asked for since the sandbox began, in order of first attempt, counted.
    pub egress: Vec<EgressEvent>,
}

/// A saved file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedLayer {
    /// `sha256:…`
    pub digest: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Digest of the runner image below.
    pub base_digest: String,
}

/// What the engine can fail with. "We stopped it" is not an error: see [`ScriptEnd`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RuntimeError {
    /// No room: disk, memory or slots; a sentence safe to show.
    #[error("no capacity: {0}")]
    Capacity(String),
    /// The runner image is not there.
    #[error("the runner image {0} is not on this machine")]
    NoImage(String),
    /// Something asked for cannot be given safely on this machine; a sentence safe to show.
    #[error("{0}")]
    Unsupported(String),
    /// A mount cannot be given as the environment wants it; a sentence safe to show that names the source.
    #[error("{0}")]
    Mount(String),
    /// Nothing inside listens on this port.
    #[error("nothing listens on port {0}")]
    Refused(u16),
    /// The sandbox died or its shim did.
    #[error("the sandbox was lost: {0}")]
    Lost(String),
    /// Saving failed: a word and a sentence safe to show.
    #[error("saving failed ({reason}): {message}")]
    Save {
        /// Such as `no_space`, `io_error`.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// Anything else; for the log.
    #[error("{0}")]
    Other(String),
}

/// A check of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Such as `id-mapped mounts`.
    pub name: String,
    /// What was found.
    pub found: String,
    /// How it stands.
    pub state: CheckState,
    /// How to mend it; empty when fine.
    pub mend: String,
}

/// How a check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckState {
    /// Fine.
    Ok,
    /// Works, with a drawback.
    Warning,
    /// Isolation or function rests upon it: a worker refuses to start.
    Failed,
}

/// Something left on the machine by a process that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Such as `cgroup`, `mount`, `loop device`, `process`, `directory`.
    pub kind: String,
    /// Which.
    pub what: String,
}

/// A connection into a sandbox.
pub trait Tunnel: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Tunnel for T {}

/// A kind of sandbox. All methods are idempotent by sandbox id; `stop` and `destroy` never fail because the thing is
/// already gone.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// The runtime's word: `oci`, `scripted`.
    fn name(&self) -> &'static str;
    /// Checks the machine.
    async fn check(&self) -> Vec<Check>;
    /// Digest of a runner image, if it is on the machine.
    async fn runner_image_digest(&self, reference: &str) -> Result<Option<String>, RuntimeError>;
    /// Fetches a file that an environment mounts, for the [`MountSource::File`] of a sandbox. Dropping the future ends it.
    async fn fetch(&self, source: &str) -> Result<FetchedFile, RuntimeError> {
        Err(RuntimeError::Mount(format!(
            "Files cannot be mounted here, so {} cannot be fetched.",
            domain::mounts::shown_source(source)
        )))
    }
    /// Makes the sandbox and starts its init; network is ready when this returns.
    async fn prepare(&self, spec: &SandboxSpec) -> Result<(), RuntimeError>;
    /// Runs a setup script, sending what happens to `events` in order. A full channel makes the script wait. Ends when
    /// the shell ends (plus at most 2 s), at the timeout, or when [`Runtime::stop`] is called.
    async fn run_script(
        &self,
        id: SandboxId,
        script: &ScriptSpec,
        events: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError>;
    /// Kills everything inside at once, and breaks off a save, which then ends in [`RuntimeError::Lost`] and leaves nothing;
    /// the sandbox's disk stays until `destroy`.
    async fn stop(&self, id: SandboxId) -> Result<(), RuntimeError>;
    /// Stops everything inside and keeps the prepared file system as a content-addressed layer.
    async fn save_image(&self, id: SandboxId) -> Result<SavedLayer, RuntimeError>;
    /// Runs a command in a prepared sandbox; any number may run at once. Ends when the command has ended and its output
    /// was sent; dropping the future kills the command and everything it started. A full `output` makes it wait.
    async fn exec(
        &self,
        id: SandboxId,
        command: &Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, RuntimeError>;
    /// What the sandbox uses now.
    async fn sample(&self, id: SandboxId) -> Result<Sample, RuntimeError>;
    /// Connects to a TCP port on the sandbox's own loopback.
    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, RuntimeError>;
    /// Ends everything inside and the sandbox itself, and keeps the disk of one made with `keep_disk`, synced, for a later
    /// `prepare`.
    async fn suspend(&self, id: SandboxId) -> Result<(), RuntimeError>;
    /// Whether processes can run inside: it was prepared, and neither it nor what holds it has ended since.
    async fn is_running(&self, id: SandboxId) -> Result<bool, RuntimeError>;
    /// Sandboxes whose disk is kept while they do not run.
    async fn suspended(&self) -> Result<Vec<SandboxId>, RuntimeError>;
    /// Digests of the saved layers on this machine, and of runner images of which newer ones have taken the place.
    async fn saved_layers(&self) -> Result<Vec<String>, RuntimeError> {
        Ok(Vec::new())
    }
    /// Deletes one of those unless a sandbox or a kept disk is made from it; answers whether it is gone.
    async fn delete_layer(&self, digest: &str) -> Result<bool, RuntimeError> {
        let _ = digest;
        Ok(false)
    }
    /// Removes everything of the sandbox from the machine.
    async fn destroy(&self, id: SandboxId) -> Result<(), RuntimeError>;
    /// What processes that are gone left behind (sandboxes of live shims left out).
    async fn leftovers(&self) -> Result<Vec<Leftover>, RuntimeError>;
    /// Removes those.
    async fn reclaim(&self) -> Result<Vec<Leftover>, RuntimeError>;
    /// Where its state is on the machine.
    fn state_dir(&self) -> PathBuf;
}
