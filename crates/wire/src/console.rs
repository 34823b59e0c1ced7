//! What the console's pages show beyond the shapes of the reference API: view models, made by the application layer
//! and read by the pages (spec 3-console). Our own shapes; free to change with the console.

use domain::{
    environment::Catalog,
    ids::{
        ApiKeyId, AuditId, EnvironmentId, InvitationId, OrganizationId, SetupRunId, UserId,
        WorkerId,
    },
    issues::Issue,
    roles::Role,
    setup_run::{FailureCode, HintCode, Kind, LogLine, Phase, Status},
    timestamp::Timestamp,
    verification::{SetupBadge, SetupImage},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::managed_agents::{Environment, EnvironmentTemplate, SandboxProvider, SetupWarning};

/// What the viewer may do: drives what pages offer. The application layer asks the same table again at every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct May {
    /// Create, change, delete environments.
    pub change: bool,
    /// Start and cancel setup runs.
    pub test: bool,
    /// Start, use and stop sessions.
    pub use_sessions: bool,
    /// Members, invitations, roles.
    pub manage_members: bool,
    /// Everyone's API keys.
    pub manage_api_keys: bool,
    /// See workers.
    pub manage_workers: bool,
    /// Read the audit log.
    pub read_audit: bool,
}

/// Who looks at the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewer {
    /// The member.
    pub user_id: UserId,
    /// Lower case.
    pub email: String,
    /// May be empty.
    pub display_name: String,
    /// Organization.
    pub organization_id: OrganizationId,
    /// Its name.
    pub organization_name: String,
    /// Role.
    pub role: Role,
    /// What that allows.
    pub may: May,
}

/// Column to sort the environments table by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortBy {
    /// Last change.
    #[default]
    Updated,
    /// Creation.
    Created,
    /// Name, without case.
    Name,
    /// Size: CPU, then memory, then disk.
    Resources,
    /// Setup badge.
    Setup,
}

/// Order of the environments table; newest first unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sort {
    /// Column.
    pub by: SortBy,
    /// Smallest (oldest) first.
    pub ascending: bool,
}

/// The environments table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentsTable {
    /// Rows that match the query, sorted.
    pub rows: Vec<EnvironmentItem>,
    /// Environments of the organization, whatever the query.
    pub total: usize,
    /// What the viewer may do.
    pub may: May,
}

/// A row of the environments table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentItem {
    /// Id.
    pub environment_id: EnvironmentId,
    /// The id's last eight characters (the first are its time, alike for neighbours).
    pub short_id: String,
    /// Name.
    pub name: String,
    /// May be empty.
    pub description: String,
    /// `2 vCPU · 4 GiB · 10 GiB disk`
    pub resources: String,
    /// Setup column.
    pub badge: SetupBadge,
    /// Its label.
    pub badge_label: String,
    /// Whether there is a script that can be tested.
    pub testable: bool,
    /// The run in flight.
    pub active_setup_run_id: Option<SetupRunId>,
    /// Last change of the definition.
    pub updated_at: Timestamp,
    /// Creation.
    pub created_at: Timestamp,
}

/// News of the environments table: rows that changed or came, and those that went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableNews {
    /// Changed or new.
    pub changed: Vec<EnvironmentItem>,
    /// Deleted.
    pub gone: Vec<EnvironmentId>,
}

/// What the create page needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEnvironmentPage {
    /// What is offered.
    pub offer: Offer,
    /// Starting points.
    pub templates: Vec<EnvironmentTemplate>,
    /// What the viewer may do.
    pub may: May,
}

/// What the deployment offers, for forms and for the live checks in the browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// What input is checked against (`domain::environment::parse_create` runs in the browser with it).
    pub catalog: Catalog,
    /// Providers, the default first.
    pub providers: Vec<SandboxProvider>,
    /// One-click sizes.
    pub presets: Vec<PresetView>,
}

/// A one-click size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetView {
    /// The button's label.
    pub name: String,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// `2 vCPU · 4 GiB`
    pub text: String,
    /// Why it is not offered; `None`: it is.
    pub refused: Option<String>,
}

/// One environment's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentPage {
    /// As the API shows it.
    pub environment: Environment,
    /// Send it back as `base_revision` when saving the form.
    pub revision: i64,
    /// The id's last eight characters (the first are its time, alike for neighbours).
    pub short_id: String,
    /// `2 vCPU · 4 GiB · 10 GiB disk`
    pub resources: String,
    /// Setup column.
    pub badge: SetupBadge,
    /// Its label.
    pub badge_label: String,
    /// Whether a session could start.
    pub usable: bool,
    /// What differs from what was verified; only where the verdict is stale.
    pub staleness: Option<Staleness>,
    /// Who changed the script last, for people.
    pub setup_updated_by: Option<String>,
    /// The run in flight.
    pub active_run: Option<RunView>,
    /// The newest run: the panel shows it when none is in flight.
    pub last_run: Option<RunView>,
    /// Newest first.
    pub recent_runs: Vec<RunItem>,
    /// What is offered.
    pub offer: Offer,
    /// What the viewer may do.
    pub may: May,
}

/// What differs from what was verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// Whether the verdict is about another definition.
    pub stale: bool,
    /// The run whose verdict it is.
    pub setup_run_id: Option<SetupRunId>,
    /// When it fell.
    pub verified_at: Option<Timestamp>,
    /// Each differing field.
    pub fields: Vec<FieldChange>,
}

/// A field that differs: from what was verified, or from the saved definition before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Such as `setup.script` or `env_vars.API_URL`: as issues name it.
    pub field: String,
    /// The field's name for people.
    pub label: String,
    /// Then, for people.
    pub before: String,
    /// Now, for people.
    pub after: String,
    /// Whether the difference makes a verdict stale.
    pub affects_verdict: bool,
    /// Who gave it the present value; `None`: not known any more.
    pub by: Option<String>,
    /// Their id.
    pub by_user_id: Option<UserId>,
    /// When.
    pub at: Option<Timestamp>,
}

/// A saved definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    /// From 1.
    pub revision: i64,
    /// Who, for people.
    pub by: String,
    /// Their id.
    pub by_user_id: UserId,
    /// When.
    pub at: Timestamp,
    /// What it changed against the one before; empty for the first.
    pub changes: Vec<FieldChange>,
    /// Whether it is today's.
    pub current: bool,
}

/// The saved definitions of an environment, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Newest first.
    pub revisions: Vec<Revision>,
}

/// A live check of a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Rejected fields.
    pub issues: Vec<Issue>,
    /// Advice on the script.
    pub warnings: Vec<SetupWarning>,
    /// What saving does to the verdict; `None`: nothing, or the form is refused.
    pub effect: Option<VerdictEffect>,
}

/// What saving does to the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictEffect {
    /// It becomes stale: sessions cannot start until setup was tested again.
    BecomesStale,
    /// It becomes current again.
    BecomesCurrent,
    /// There was no script: setup must be tested before sessions can start.
    NeedsTest,
    /// The script goes: nothing to verify, sessions can start.
    NothingToVerify,
}

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
    /// What the viewer may do.
    pub may: May,
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
    /// Whether the viewer can cancel it now.
    pub may_cancel: bool,
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

/// A member in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberItem {
    /// Id.
    pub user_id: UserId,
    /// Lower case.
    pub email: String,
    /// May be empty.
    pub display_name: String,
    /// Role.
    pub role: Role,
    /// Can sign in with a password.
    pub has_password: bool,
    /// Creation.
    pub created_at: Timestamp,
    /// Whether it is the viewer.
    pub is_you: bool,
}

/// An open invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationItem {
    /// Id.
    pub invitation_id: InvitationId,
    /// Lower case.
    pub email: String,
    /// Role offered.
    pub role: Role,
    /// Who invited, for people.
    pub invited_by: String,
    /// Creation.
    pub created_at: Timestamp,
    /// End.
    pub expires_at: Timestamp,
    /// Past its end.
    pub expired: bool,
}

/// What the page of an invitation shows before anybody signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationPage {
    /// The invited address.
    pub email: String,
    /// Role offered.
    pub role: Role,
    /// Of what.
    pub organization_name: String,
    /// End.
    pub expires_at: Timestamp,
}

/// An API key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyItem {
    /// Id.
    pub api_key_id: ApiKeyId,
    /// For people.
    pub name: String,
    /// `rma_…abcd`
    pub shown: String,
    /// Role.
    pub role: Role,
    /// Owner, for people.
    pub owner: String,
    /// Owner.
    pub user_id: UserId,
    /// Creation.
    pub created_at: Timestamp,
    /// End.
    pub expires_at: Option<Timestamp>,
    /// Past its end.
    pub expired: bool,
    /// Last use, to the minute.
    pub last_used_at: Option<Timestamp>,
}

/// A worker in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerItem {
    /// Id.
    pub worker_id: WorkerId,
    /// Name.
    pub name: String,
    /// Runtime word.
    pub runtime: String,
    /// Program version.
    pub version: String,
    /// Runs at once.
    pub capacity: u32,
    /// Runs it holds.
    pub running: u32,
    /// Runner image reference.
    pub runner_image: Option<String>,
    /// Its digest.
    pub runner_image_digest: Option<String>,
    /// First seen.
    pub registered_at: Timestamp,
    /// Last heard of.
    pub seen_at: Timestamp,
    /// Heard of lately.
    pub alive: bool,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditItem {
    /// Id; pass the last one's as `before` for the next page.
    pub audit_id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Who, for people.
    pub actor: String,
    /// From where.
    pub source: Option<String>,
    /// Such as `environment.update`.
    pub action: String,
    /// What it was about: an id.
    pub subject: String,
    /// Before and after; secrets left out.
    pub detail: Value,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditPage {
    /// Newest first.
    pub items: Vec<AuditItem>,
    /// Pass as `before` for the next page; `None`: this is the last.
    pub next_before: Option<AuditId>,
}
