//! What is stored, as the application layer sees it. Doors never see rows; they see `wire` shapes.

use std::collections::BTreeMap;

use domain::{
    environment::Definition,
    fingerprint::Fingerprint,
    ids::{
        ApiKeyId, AuditId, EnvironmentId, InvitationId, OrganizationId, SessionId, SetupRunId,
        UserId, WorkerId,
    },
    roles::Role,
    setup_run::{FailureCode, HintCode, Kind, RunState},
    timestamp::Timestamp,
    verification::{ImageCaptureFailure, SetupImage, Verification},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrganizationRow {
    /// Id.
    pub organization_id: OrganizationId,
    /// Name.
    pub name: String,
    /// Creation.
    pub created_at: Timestamp,
}

/// A member with a password. The hash is a PHC string (argon2id); never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct UserRow {
    /// Id.
    pub user_id: UserId,
    /// Organization.
    pub organization_id: OrganizationId,
    /// Lower case, unique over all organizations.
    pub email: String,
    /// For people; may be empty.
    pub display_name: String,
    /// Role.
    pub role: Role,
    /// PHC string; `None`: cannot sign in with a password (made by the command line for API keys only).
    pub password_hash: Option<String>,
    /// Grows when the password changes or all sign-ins are ended: sign-ins of an older epoch are over.
    pub session_epoch: i64,
    /// Creation.
    pub created_at: Timestamp,
    /// Removed members keep their row, for history.
    pub removed_at: Option<Timestamp>,
}

/// An invitation; its token is stored as a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvitationRow {
    /// Id.
    pub invitation_id: InvitationId,
    /// Organization.
    pub organization_id: OrganizationId,
    /// Lower case.
    pub email: String,
    /// Role offered.
    pub role: Role,
    /// SHA-256 of the token, hex.
    pub token_hash: String,
    /// Who invited.
    pub invited_by: UserId,
    /// Creation.
    pub created_at: Timestamp,
    /// Not valid from then on.
    pub expires_at: Timestamp,
    /// Accepted or withdrawn.
    pub closed_at: Option<Timestamp>,
}

/// An API key; its secret is stored as a keyed hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Id.
    pub api_key_id: ApiKeyId,
    /// Organization.
    pub organization_id: OrganizationId,
    /// Owner.
    pub user_id: UserId,
    /// For people.
    pub name: String,
    /// At most the maker's.
    pub role: Role,
    /// Keyed hash of the secret, hex.
    pub secret_hash: String,
    /// The secret's last four characters, to recognise it.
    pub last_four: String,
    /// Creation.
    pub created_at: Timestamp,
    /// Not valid from then on.
    pub expires_at: Option<Timestamp>,
    /// Updated at most once a minute.
    pub last_used_at: Option<Timestamp>,
    /// Revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An API key with what counts of its owner: all that decides whether a request with it is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedApiKey {
    /// The key.
    pub key: ApiKeyRow,
    /// The owner's address.
    pub email: String,
    /// The owner's role.
    pub owner_role: Role,
    /// The owner was removed.
    pub owner_removed_at: Option<Timestamp>,
}

/// A console sign-in, as tower-sessions keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSessionRow {
    /// SHA-256 of the cookie's id, hex.
    pub id_hash: String,
    /// The session's data as JSON.
    pub data: String,
    /// Gone from then on.
    pub expires_at: Timestamp,
}

/// An environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentRow {
    /// Owner.
    pub organization_id: OrganizationId,
    /// Id.
    pub environment_id: EnvironmentId,
    /// Grows with every change of the row; compare-and-set key.
    pub version: i64,
    /// Grows with every change of the definition, from 1.
    pub revision: i64,
    /// What members set.
    pub definition: Definition,
    /// Keyed hashes of its secret variables, by name: part of the fingerprint.
    pub secret_hashes: BTreeMap<String, String>,
    /// The verdict.
    pub verification: Verification,
    /// Who set the script last.
    pub setup_updated_by: Option<UserId>,
    /// When.
    pub setup_updated_at: Option<Timestamp>,
    /// Creation.
    pub created_at: Timestamp,
    /// Last change of the definition.
    pub updated_at: Timestamp,
}

/// A secret variable, sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    /// Environment.
    pub environment_id: EnvironmentId,
    /// Name.
    pub name: String,
    /// Nonce and ciphertext, base64.
    pub sealed: String,
    /// Of the value in clear, for the limit.
    pub bytes: usize,
    /// Who set it.
    pub set_by: UserId,
    /// When.
    pub set_at: Timestamp,
}

/// A saved definition, for history and staleness.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionRow {
    /// Environment.
    pub environment_id: EnvironmentId,
    /// From 1.
    pub revision: i64,
    /// As saved then.
    pub definition: Definition,
    /// Who.
    pub by: UserId,
    /// When.
    pub at: Timestamp,
}

/// A setup run.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupRunRow {
    /// Owner.
    pub organization_id: OrganizationId,
    /// Environment.
    pub environment_id: EnvironmentId,
    /// Id.
    pub setup_run_id: SetupRunId,
    /// What for.
    pub kind: Kind,
    /// The moving part.
    pub state: RunState,
    /// Grows with every change of the row except log appends; compare-and-set key.
    pub version: i64,
    /// Who asked.
    pub requested_by: UserId,
    /// Of a session run.
    pub session_id: Option<SessionId>,
    /// The definition when it was admitted.
    pub definition: Definition,
    /// Of that definition.
    pub fingerprint: Fingerprint,
    /// Everything else that is recorded.
    pub record: RunRecord,
    /// The lease's holder, while driven.
    pub worker_id: Option<WorkerId>,
    /// Log counters, kept by log appends.
    pub log: LogCounters,
    /// Creation.
    pub created_at: Timestamp,
    /// First claim.
    pub started_at: Option<Timestamp>,
    /// End.
    pub finished_at: Option<Timestamp>,
}

/// What is recorded of a run beside its state; stored as JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// One sentence.
    pub message: String,
    /// The script's.
    pub exit_code: Option<i32>,
    /// 0 = unknown.
    pub failed_line: Option<u32>,
    /// As written.
    pub failed_command: Option<String>,
    /// Likely cause.
    pub hint_code: Option<HintCode>,
    /// In words.
    pub hint: Option<String>,
    /// The host to allow, with `egress_blocked`.
    pub hint_host: Option<String>,
    /// Last of stderr.
    pub stderr_tail: Option<String>,
    /// Why it failed.
    pub failure_code: Option<FailureCode>,
    /// The captured image.
    pub image: Option<SetupImage>,
    /// Why there is none.
    pub image_capture: Option<ImageCaptureFailure>,
    /// The sandbox.
    pub compute_id: Option<String>,
    /// Measured.
    pub compute_profile: Option<Map<String, Value>>,
    /// Generation of the environment's newest image when the run was admitted, or of the run's own once it made one;
    /// 0: there is none. Handed from run to run, so that counting needs no search.
    pub image_generation: i64,
    /// Keyed hashes of the secret variables that the run was given, by name.
    pub secret_hashes: BTreeMap<String, String>,
    /// When each phase was reached, in order.
    pub phases: Vec<(domain::setup_run::Phase, Timestamp)>,
}

/// Counters of a run's stored log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogCounters {
    /// Lines stored; also the last sequence number.
    pub lines: u64,
    /// Bytes of text stored.
    pub bytes: u64,
    /// The limit was passed.
    pub truncated: bool,
    /// The line that may still change, if there is one.
    pub open: Option<u64>,
    /// Removed after the retention.
    pub removed_at: Option<Timestamp>,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
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
    /// Sessions that run at once.
    pub session_slots: u32,
    /// Runner image reference and digest.
    pub runner_image: Option<(String, String)>,
    /// First seen.
    pub registered_at: Timestamp,
    /// Last heard of.
    pub seen_at: Timestamp,
}

/// What entries of the audit log are chosen by; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// The actor, exactly.
    pub actor: Option<String>,
    /// The action; one that ends with a dot means all that begin so.
    pub action: Option<String>,
    /// The subject, exactly.
    pub subject: Option<String>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// Id.
    pub audit_id: AuditId,
    /// Organization.
    pub organization_id: OrganizationId,
    /// When.
    pub at: Timestamp,
    /// Who; `None`: a part of ours.
    pub user_id: Option<UserId>,
    /// The actor for people: an e-mail address, or the part's name. Kept when the member leaves.
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
