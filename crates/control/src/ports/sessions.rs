//! What is stored of sessions.

use async_trait::async_trait;
use domain::{
    environment::Definition,
    ids::{EnvironmentId, OrganizationId, SandboxId, SessionId, SetupRunId, UserId},
    session::SessionState,
    timestamp::Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Effects, StoreError, Written};

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// Owner.
    pub organization_id: OrganizationId,
    /// What it was started from.
    pub environment_id: EnvironmentId,
    /// Id.
    pub session_id: SessionId,
    /// The environment's definition when the session was started.
    pub definition: Definition,
    /// The moving part.
    pub state: SessionState,
    /// Grows with every change of the row except [`SessionStore::note_kept`]; compare-and-set key.
    pub version: i64,
    /// Its sandbox: the same one when it is resumed.
    pub sandbox_id: SandboxId,
    /// Name of the worker that has its disk.
    pub host: String,
    /// Everything else that is recorded.
    pub record: SessionRecord,
    /// Who started it.
    pub requested_by: UserId,
    /// Seconds that it has been stopped or failed for, as last noted.
    pub kept_seconds: i64,
    /// Creation.
    pub created_at: Timestamp,
    /// When its sandbox last came up.
    pub started_at: Option<Timestamp>,
    /// When its sandbox last ended.
    pub stopped_at: Option<Timestamp>,
    /// When nothing was left of it.
    pub deleted_at: Option<Timestamp>,
    /// When its environment was deleted. Read, never written through this row.
    pub environment_deleted_at: Option<Timestamp>,
}

/// What is recorded of a session beside its state; stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRecord {
    /// One sentence on how it stands.
    pub message: String,
    /// Runner image reference.
    pub runner_image: String,
    /// Digests of the setup image's layers above it, lowest first.
    pub layers: Vec<String>,
    /// The setup image it was started from.
    pub image: Option<ImageOrigin>,
    /// The environment's revision when the session was started.
    pub revision: i64,
    /// The run that prepares its image anew on a changed runner image: it waits for it, or failed with it.
    pub refresh: Option<SetupRunId>,
}

/// Which setup image a session was started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageOrigin {
    /// The image.
    pub image_id: String,
    /// Which of the environment's images.
    pub generation: i64,
    /// The run that made it.
    pub setup_run_id: SetupRunId,
    /// Digest of the runner image that it was prepared on, and that its layers make sense over alone. Sessions of earlier
    /// versions do not know it.
    #[serde(default)]
    pub base_digest: Option<String>,
}

/// Result of admitting or resuming a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAdmission {
    /// Written.
    Admitted,
    /// The environment, or the session to resume, changed since it was read.
    Stale,
    /// This many sessions of the organization are live, which is the most.
    LimitReached(usize),
}

/// The part of the storage port that is about sessions.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Admits a session if its environment is still at version `environment` and fewer than `limit` sessions of the
    /// organization are live.
    async fn admit_session(
        &self,
        row: &SessionRow,
        environment: i64,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError>;
    /// Replaces a session that becomes live again if its version is still `expected` and fewer than `limit` others are.
    async fn resume_session(
        &self,
        expected: i64,
        row: &SessionRow,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError>;
    /// Replaces one if its version is still `expected`; the row's own `version` is the new one.
    async fn update_session(
        &self,
        expected: i64,
        row: &SessionRow,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Notes for how many seconds a stopped session has been kept; touches nothing else.
    async fn note_kept(&self, id: SessionId, seconds: i64) -> Result<(), StoreError>;
    /// One, deleted ones left out.
    async fn session(
        &self,
        org: OrganizationId,
        id: SessionId,
    ) -> Result<Option<SessionRow>, StoreError>;
    /// All of an organization (of one environment, if given), newest first, deleted ones left out.
    async fn sessions(
        &self,
        org: OrganizationId,
        environment: Option<EnvironmentId>,
    ) -> Result<Vec<SessionRow>, StoreError>;
    /// Those that a worker looks after, oldest first, deleted ones left out.
    async fn sessions_on(&self, host: &str) -> Result<Vec<SessionRow>, StoreError>;
}
