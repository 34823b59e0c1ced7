//! What the control plane asks of the worker in its own process about sessions. Where a session's row says *running* and
//! its host says otherwise, the host is right: the sandbox ended.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    ids::SandboxId,
    mounts::Mount,
    network_policy::NetworkPolicy,
    process::{Command, CommandEnd, Input, Output, Sample},
    secrets::SecretVars,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// What a session's sandbox is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPlan {
    /// The sandbox; the same one when a stopped session is resumed.
    pub sandbox_id: SandboxId,
    /// Runner image reference.
    pub runner_image: String,
    /// Digests of the setup image's layers above it, lowest first; empty without a setup script.
    pub layers: Vec<String>,
    /// Digest of the runner image that the layers were made over, whichever bears the reference now; `None` without layers.
    pub base_digest: Option<String>,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// GiB.
    pub disk_gi: u32,
    /// Seconds of the sandbox's whole life; 0 = unbounded.
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
}

/// Where a session's sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// It runs here.
    Running,
    /// Its disk is kept here; it can be started again.
    Kept,
    /// Nothing of it is here.
    Absent,
}

/// Why a host did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum HostError {
    /// No room; a sentence safe to show.
    #[error("no capacity: {0}")]
    Capacity(String),
    /// A layer or the runner image is not on this machine; a sentence safe to show.
    #[error("an image is missing: {0}")]
    NoImage(String),
    /// Something asked for cannot be given safely on this machine; a sentence safe to show.
    #[error("{0}")]
    Unsupported(String),
    /// The sandbox is not running, or died meanwhile.
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// Nothing inside listens on that port.
    #[error("nothing listens on port {0}")]
    Refused(u16),
    /// Anything else; for the log.
    #[error("{0}")]
    Other(String),
}

/// A connection into a sandbox.
pub trait Tunnel: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Tunnel for T {}

/// A worker's sessions. All calls are idempotent by sandbox id; `suspend` and `destroy` never fail because the thing is
/// already gone.
#[async_trait]
pub trait SessionHost: Send + Sync {
    /// The worker's name: a session stays on the machine where it was started.
    fn name(&self) -> String;
    /// Makes the sandbox, or starts it again on its kept disk; commands can run when this returns.
    async fn start(&self, plan: SessionPlan) -> Result<(), HostError>;
    /// Ends everything inside and keeps the disk.
    async fn suspend(&self, id: SandboxId) -> Result<(), HostError>;
    /// Removes it with its disk.
    async fn destroy(&self, id: SandboxId) -> Result<(), HostError>;
    /// Where it is.
    async fn presence(&self, id: SandboxId) -> Result<Presence, HostError>;
    /// Runs a command; see `domain::process`. Dropping the future kills the command.
    async fn exec(
        &self,
        id: SandboxId,
        command: Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, HostError>;
    /// What it uses now.
    async fn sample(&self, id: SandboxId) -> Result<Sample, HostError>;
    /// Connects to a TCP port on its own loopback.
    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, HostError>;
}
