//! The environments table, one environment's page, its history.

use domain::{
    environment::Catalog,
    ids::{EnvironmentId, SetupRunId, UserId},
    issues::Issue,
    timestamp::Timestamp,
    verification::SetupBadge,
};
use serde::{Deserialize, Serialize};

use super::{May, RunItem, RunView};
use crate::managed_agents::{Environment, EnvironmentTemplate, SandboxProvider, SetupWarning};

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
    /// Why no session may start from it; empty: one may.
    pub session_refusal: String,
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
    /// Why no session may start from it; empty: one may.
    pub session_refusal: String,
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
