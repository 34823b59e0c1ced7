//! Setup runs and their logs.

use domain::{
    ids::{EnvironmentId, SetupRunId},
    mending::Raise,
    setup_run::{FailureCode, HintCode, Kind, LogLine, Phase, Status, Stream},
    timestamp::Timestamp,
    verification::SetupImage,
};
use serde::{Deserialize, Serialize};

use super::May;
use crate::run_records::EgressHost;

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunItem {
    /// Id.
    pub setup_run_id: SetupRunId,
    /// The id's last eight characters.
    pub short_id: String,
    /// Status.
    pub status: Status,
    /// For people: *Succeeded*, *Cancelling*, …
    pub status_label: String,
    /// What for.
    pub kind: Kind,
    /// Who asked, for people.
    pub by: String,
    /// Creation.
    pub created_at: Timestamp,
    /// From start to end.
    pub duration_ms: Option<i64>,
    /// Likely cause.
    pub hint_code: Option<HintCode>,
    /// In words.
    pub hint: Option<String>,
    /// When its log was removed.
    pub log_removed_at: Option<Timestamp>,
}

/// A run's own page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPage {
    /// The run.
    pub run: RunView,
    /// The environment's name.
    pub environment_name: String,
    /// The script that this run tested.
    pub script: String,
    /// How long the run before it took that passed, milliseconds.
    pub previous_ms: Option<i64>,
    /// What the viewer may do.
    pub may: May,
}

/// A named set of hosts that would be allowed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintGroup {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<String>,
}

/// A run as the panel shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// Environment.
    pub environment_id: EnvironmentId,
    /// Id.
    pub setup_run_id: SetupRunId,
    /// The id's last eight characters.
    pub short_id: String,
    /// What for.
    pub kind: Kind,
    /// Status.
    pub status: Status,
    /// For people; *Cancelling* while a cancelled run's compute is let go.
    pub status_label: String,
    /// Whether it has ended.
    pub finished: bool,
    /// Grows with every change of the run: a view with a smaller one is older news.
    pub version: i64,
    /// Counts tries, from 1; 0 before the first.
    pub attempt: u32,
    /// Somebody asked to stop it, and it has not ended yet.
    pub cancelling: bool,
    /// The step it is in or ended in.
    pub phase: Phase,
    /// The stepper.
    pub phases: Vec<PhaseStep>,
    /// One sentence; empty: none.
    pub message: String,
    /// *Setup verified.*, *Cancelled.*, …; `None` while it runs.
    pub outcome: Option<String>,
    /// Who asked, for people.
    pub by: String,
    /// Creation.
    pub created_at: Timestamp,
    /// First claim.
    pub started_at: Option<Timestamp>,
    /// End.
    pub finished_at: Option<Timestamp>,
    /// The server's time when this view was made: count on from here, not from the reader's clock.
    pub now: Timestamp,
    /// Milliseconds since it started (or since creation, while queued), at `now` or at its end.
    pub elapsed_ms: i64,
    /// Milliseconds in the script so far, against `timeout_seconds`; `None` before it.
    pub script_elapsed_ms: Option<i64>,
    /// The script's.
    pub timeout_seconds: u32,
    /// Script line now running (or that ran last).
    pub running_line: Option<u32>,
    /// Lines of the script.
    pub script_lines: u32,
    /// When the last log line came.
    pub last_output_at: Option<Timestamp>,
    /// The script's.
    pub exit_code: Option<i32>,
    /// `None`: unknown.
    pub failed_line: Option<u32>,
    /// As written.
    pub failed_command: Option<String>,
    /// Likely cause.
    pub hint_code: Option<HintCode>,
    /// In words.
    pub hint: Option<String>,
    /// The host to allow, with `egress_blocked` and where it is known.
    pub hint_host: Option<String>,
    /// The host group that names this host beside others which the policy does not allow either.
    pub hint_group: Option<HintGroup>,
    /// The limit that would mend it, with its next value.
    pub raise: Option<Raise>,
    /// Last of stderr.
    pub stderr_tail: Option<String>,
    /// Why it failed.
    pub failure_code: Option<FailureCode>,
    /// The log's counters.
    pub log: LogView,
    /// The captured image.
    pub image: Option<SetupImage>,
    /// Why there is none, where the script passed.
    pub image_capture_message: Option<String>,
    /// Bytes that the sandbox's disk held at the end, and its size, where they were measured.
    pub disk: Option<(u64, u64)>,
    /// Whether the viewer can cancel it now.
    pub may_cancel: bool,
    /// Whether the viewer may change the environment, to mend what made it fail.
    pub may_change: bool,
}

/// A run's log as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogView {
    /// Lines kept; also the last sequence number.
    pub lines: u64,
    /// Bytes kept.
    pub bytes: u64,
    /// The limit was passed: the beginning is kept.
    pub truncated: bool,
    /// Removed after the retention.
    pub removed_at: Option<Timestamp>,
}

/// A step of the stepper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseStep {
    /// Phase.
    pub phase: Phase,
    /// For people.
    pub label: String,
    /// How it stands.
    pub state: StepState,
    /// When it was reached.
    pub started_at: Option<Timestamp>,
    /// How long it took, or has taken so far.
    pub duration_ms: Option<i64>,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not reached yet.
    Waiting,
    /// In it.
    Active,
    /// Done.
    Done,
    /// The run failed in it.
    Failed,
    /// The run was cancelled in it.
    Cancelled,
    /// The run ended before it.
    Skipped,
}

/// What a follower of a run is sent. Lines carry `seq`; a line may repeat the last one sent with a longer text (it was
/// open, and grew): replace it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "frame", content = "data")]
pub enum Frame {
    /// Lines in order.
    Lines(Vec<LogLine>),
    /// The run changed.
    State(Box<RunView>),
    /// Nothing happened for a while; the connection lives.
    Beat,
    /// Over: the run has ended and every line was sent. Nothing follows.
    End,
    /// The viewer lost access, or we failed: nothing follows; the text says what to do.
    Stopped(String),
}

/// The hosts that a run asked for, as the panel shows them beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHosts {
    /// Blocked ones first, then in order of first attempt; as many as a page shows.
    pub hosts: Vec<RunHost>,
    /// How many there are besides.
    pub more: u64,
    /// How many of all were blocked.
    pub blocked: u64,
    /// Whether the run has ended.
    pub complete: bool,
    /// When the list was removed, with the run's log.
    pub removed_at: Option<Timestamp>,
    /// Whether the viewer may start a test of the environment now that a host was allowed.
    pub may_test: bool,
}

/// A host of [`RunHosts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHost {
    /// The host.
    pub asked: EgressHost,
    /// How it ended, for people.
    pub label: String,
    /// Whether the viewer can allow it with one more rule of the environment's present policy.
    pub may_allow: bool,
    /// It was blocked in this run, and the present policy allows it.
    pub allowed_since: bool,
}

/// Lines of a log that hold a text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Found {
    /// Their numbers in order: the first ones, where there are more.
    pub lines: Vec<u64>,
    /// How many there are.
    pub total: u64,
    /// The last line that was looked at.
    pub through: u64,
}

/// What a log is made of, without its text: neighbours that are alike together, from line 1 without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogOutline(pub Vec<Stretch>);

/// Lines in a row of one stream and one script line: stream, script line, how many.
pub type Stretch = (Stream, Option<u32>, u64);
