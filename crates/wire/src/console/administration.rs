//! Members, invitations, API keys, workers, the audit log.

use domain::{
    ids::{ApiKeyId, AuditId, EnvironmentId, InvitationId, SetupRunId, UserId, WorkerId},
    roles::Role,
    setup_run::Phase,
    timestamp::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A member in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
    /// Those of the viewer's organization.
    pub held: Vec<HeldRun>,
    /// Sessions that run at once.
    pub session_slots: u32,
    /// Sessions that run there or are being started.
    pub sessions: u32,
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

/// A run that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct HeldRun {
    /// Id.
    pub setup_run_id: SetupRunId,
    /// What it tests.
    pub environment_id: EnvironmentId,
    /// Its name; empty: it was deleted.
    pub environment_name: String,
    /// Where the run is.
    pub phase: Phase,
    /// Which try, from 1.
    pub attempt: u32,
    /// A member asked for it to be stopped.
    pub cancelling: bool,
    /// Seconds since its worker last said something of it.
    pub silent_seconds: u64,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct AuditPage {
    /// Newest first.
    pub items: Vec<AuditItem>,
    /// Pass as `before` for the next page; `None`: this is the last.
    pub next_before: Option<AuditId>,
}
