//! Sessions in our own API (spec 2-api, `/groundwork/v1/sessions`), and as the console shows them.

use domain::{
    ids::{EnvironmentId, OrganizationId, SessionId, SetupRunId, UserId},
    process::Sample,
    session::{Status, Wish},
    timestamp::Timestamp,
};
use serde::{Deserialize, Serialize};

/// The body of a new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// What to start it from.
    pub environment_id: EnvironmentId,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Session {
    /// Owner.
    pub organization_id: OrganizationId,
    /// Id.
    pub session_id: SessionId,
    /// What it was started from.
    pub environment_id: EnvironmentId,
    /// The environment's name then.
    pub environment_name: String,
    /// The environment's revision then.
    pub environment_revision: i64,
    /// Where it is.
    pub status: Status,
    /// What was asked of it and is not done yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Wish>,
    /// One sentence on how it stands.
    pub message: String,
    /// Who started it.
    pub requested_by_user_id: UserId,
    /// The machine that has its disk.
    pub worker: String,
    /// Its size.
    pub resources: SessionResources,
    /// The setup image it was started from; left out without a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<SessionImage>,
    /// The setup run that it waits for, or failed with, because the runner image below its setup image has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_run_id: Option<SetupRunId>,
    /// The port that it shows over HTTP; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_port: Option<u16>,
    /// Stopped after this many seconds without a command and without terminal input or output.
    pub idle_stop_after_seconds: u32,
    /// Seconds that its workspace is kept once it is stopped.
    pub stopped_delete_after_seconds: u32,
    /// What it uses; left out unless it runs and was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Creation.
    pub created_at: Timestamp,
    /// When its sandbox last came up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its sandbox last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Timestamp>,
}

/// A session's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SessionResources {
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// GiB.
    pub disk_gi: u32,
}

/// The setup image that a session was started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SessionImage {
    /// The image.
    pub image_id: String,
    /// Which of the environment's images, from 1.
    pub generation: i64,
    /// The run that made it.
    pub setup_run_id: SetupRunId,
}

/// What a session uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Usage {
    /// When.
    pub at: Timestamp,
    /// Thousandths of a core since the measurement before; 0 for the first.
    pub cpu_milli: u64,
    /// Bytes of memory in use.
    pub memory_used: u64,
    /// Its limit in bytes.
    pub memory_limit: u64,
    /// Bytes of the disk in use.
    pub disk_used: u64,
    /// Size of the disk in bytes.
    pub disk_size: u64,
    /// Processes and threads.
    pub processes: u64,
}

impl Usage {
    /// From a sample and the one before it.
    pub fn of(before: Option<(Timestamp, Sample)>, at: Timestamp, sample: Sample) -> Self {
        let cpu_milli = before.map_or(0, |(then, before)| {
            let elapsed = u64::try_from(at.millis_since(then)).unwrap_or(0).max(1);
            sample.cpu_millis.saturating_sub(before.cpu_millis) * 1_000 / elapsed
        });
        Self {
            at,
            cpu_milli,
            memory_used: sample.memory_used,
            memory_limit: sample.memory_limit,
            disk_used: sample.disk_used,
            disk_size: sample.disk_size,
            processes: sample.processes,
        }
    }
}

/// Sessions of an organization, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SessionList {
    /// Those that are not deleted.
    pub sessions: Vec<Session>,
}

/// What a session used in the last hour, oldest first, measured every 5 s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SessionSamples {
    /// Measurements.
    pub samples: Vec<Usage>,
}

/// How a collected command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ExecResult {
    /// 124 by the timer, 128 + signal for a signal, 126 or 127 where it could not be started.
    pub exit_code: i32,
    /// The beginning of its standard output, at most 1 MiB; bytes that are no UTF-8 became U+FFFD.
    pub stdout: String,
    /// The beginning of its standard error, likewise.
    pub stderr: String,
    /// Whether something of either was left out.
    pub truncated: bool,
    /// Whether the timer ended it.
    pub timed_out: bool,
    /// How long it took.
    pub duration_ms: u64,
}

/// What a session's page shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The session.
    pub session: Session,
    /// Who started it, for people.
    pub started_by: String,
    /// What it used in the last hour.
    pub samples: Vec<Usage>,
    /// Whether its environment is still there.
    pub environment_exists: bool,
    /// Whether the viewer may use, stop, resume and delete it.
    pub may_use: bool,
}

/// What the page of all sessions shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsPage {
    /// Newest first.
    pub sessions: Vec<Session>,
    /// Who started which, for people; by user id.
    pub people: std::collections::BTreeMap<String, String>,
    /// Environments to start one from.
    pub environments: Vec<Startable>,
    /// Whether the viewer may start one.
    pub may_use: bool,
    /// Why none can be started by anybody; empty: one can.
    pub unavailable: String,
}

/// An environment, and whether a session may start from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Startable {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Its name.
    pub name: String,
    /// Why not; empty: it may.
    pub reason: String,
    /// The run to wait for, if that mends it.
    pub wait_for: Option<SetupRunId>,
}
