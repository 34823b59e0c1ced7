//! The storage port. Methods are shaped like use cases, not like tables: each is one transaction with all its
//! consequences, and rings its doorbells after the commit (practice, *Store*).

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    ids::{ApiKeyId, EnvironmentId, InvitationId, OrganizationId, SetupRunId, UserId, WorkerId},
    run_records::{LineTime, RunRecords},
    setup_run::LogLine,
    timestamp::Timestamp,
};

use super::rows::{
    ApiKeyRow, AuditFilter, AuditRow, EnvironmentRow, InvitationRow, OrganizationRow, OwnedApiKey,
    RevisionRow, SetupRunRow, UserRow, WebSessionRow, WorkerRow,
};
use super::{images::ImageStore, secrets::SecretStore, sessions::SessionStore};

/// What storage can go wrong with. An absent row is `Ok(None)`; a lost race is [`Written::Stale`]: neither is an error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique or foreign key refused it; names the constraint.
    #[error("constraint {0} refused the write")]
    Constraint(String),
    /// Busy, out of connections, connection lost: try again.
    #[error("the database is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row that cannot be read back; names table, column and id.
    #[error("{table}.{column} of {id} cannot be read: {reason}")]
    Corrupt {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
        /// Row.
        id: String,
        /// Why.
        reason: String,
    },
    /// Anything else.
    #[error("the database failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Result of a compare-and-set.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Done.
    Done,
    /// The row changed since it was read, or is gone; nothing was written.
    Stale,
}

/// What is written in the same transaction as an effect.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Completes an idempotency claim with the answer.
    pub receipt: Option<Receipt>,
    /// Audit rows.
    pub audit: Vec<AuditRow>,
    /// A new saved definition.
    pub revision: Option<RevisionRow>,
}

/// A keyed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Owner of the key's namespace.
    pub organization_id: OrganizationId,
    /// The `Idempotency-Key`.
    pub key: String,
    /// Hash of method, path, raw query and raw body, hex.
    pub request_hash: String,
}

/// The answer of a keyed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The request.
    pub key: RequestKey,
    /// HTTP status.
    pub status: u16,
    /// Body as sent.
    pub body: String,
    /// When.
    pub at: Timestamp,
}

/// What a claim of a key found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiptClaim {
    /// Nobody used it: it is claimed for this request now.
    Claimed,
    /// The same request succeeded: its answer.
    Replay {
        /// HTTP status.
        status: u16,
        /// Body as sent.
        body: String,
    },
    /// Another request used the key.
    Conflict,
    /// The same request is under way.
    InProgress,
}

/// Result of admitting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Admitted; run, environment, receipt, audit and first log line are written.
    Admitted,
    /// The environment changed since it was read.
    Stale,
    /// A run of this environment is in flight.
    InProgress(SetupRunId),
    /// Too many manual runs of the organization are in flight: these.
    LimitReached(Vec<SetupRunId>),
}

/// Result of appending to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// Stored, or was stored already.
    Done,
    /// The attempt no longer holds the run.
    Fenced,
}

/// A page of stored log lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredLog {
    /// In order.
    pub lines: Vec<LogLine>,
}

/// Lines to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogAppend {
    /// Whether the last line may still change.
    pub open: bool,
    /// Run.
    pub setup_run_id: SetupRunId,
    /// The appender's attempt; `None`: the control plane itself (system lines), which is never fenced and gets its
    /// sequence numbers from the store (the given `seq`s are ignored).
    pub attempt: Option<u32>,
    /// Lines; the first may repeat the last stored `seq` with longer text (an open line that grew).
    pub lines: Vec<LogLine>,
    /// The limit was passed.
    pub truncated: bool,
}

/// Everything the application layer stores.
#[async_trait]
pub trait Store: ImageStore + SecretStore + SessionStore + Send + Sync {
    /// Answers when the database does.
    async fn ping(&self) -> Result<(), StoreError>;

    // Organizations and members

    /// Makes the first organization with its first admin; `Stale` if there is one already.
    async fn bootstrap(
        &self,
        org: &OrganizationRow,
        admin: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// The deployment's organizations, oldest first.
    async fn organizations(&self) -> Result<Vec<OrganizationRow>, StoreError>;
    /// A member by address (lower case), removed ones left out.
    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError>;
    /// A member, removed ones included.
    async fn user(&self, id: UserId) -> Result<Option<UserRow>, StoreError>;
    /// Members of an organization, oldest first, removed ones left out.
    async fn users(&self, org: OrganizationId) -> Result<Vec<UserRow>, StoreError>;
    /// Adds a member and closes the invitation, if any. `Constraint` if the address is taken.
    async fn insert_user(
        &self,
        user: &UserRow,
        invitation: Option<(InvitationId, Timestamp)>,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Replaces a member's row if everything in it is still as in `before`; refuses (`Stale`) a change that would leave the
    /// organization without an admin.
    async fn update_user(
        &self,
        before: &UserRow,
        user: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError>;

    // Invitations

    /// Adds one.
    async fn insert_invitation(
        &self,
        invitation: &InvitationRow,
        fx: Effects,
    ) -> Result<(), StoreError>;
    /// By token hash.
    async fn invitation_by_token(
        &self,
        token_hash: &str,
    ) -> Result<Option<InvitationRow>, StoreError>;
    /// Open ones of an organization, newest first.
    async fn invitations(&self, org: OrganizationId) -> Result<Vec<InvitationRow>, StoreError>;
    /// Withdraws one; `Stale` if it is closed.
    async fn close_invitation(
        &self,
        org: OrganizationId,
        id: InvitationId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError>;

    // API keys

    /// Adds one.
    async fn insert_api_key(&self, key: &ApiKeyRow, fx: Effects) -> Result<(), StoreError>;
    /// By secret hash, with its owner; revoked ones and those of removed members included. In one statement, since every
    /// request of the API begins with it.
    async fn api_key_by_hash(&self, secret_hash: &str) -> Result<Option<OwnedApiKey>, StoreError>;
    /// Keys of an organization (of one member, if given), newest first, revoked ones left out.
    async fn api_keys(
        &self,
        org: OrganizationId,
        user: Option<UserId>,
    ) -> Result<Vec<ApiKeyRow>, StoreError>;
    /// Revokes one; `Stale` if it is not there or revoked already.
    async fn revoke_api_key(
        &self,
        org: OrganizationId,
        id: ApiKeyId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Notes a use.
    async fn touch_api_key(&self, id: ApiKeyId, at: Timestamp) -> Result<(), StoreError>;

    // Console sign-ins

    /// Adds or replaces one.
    async fn save_web_session(&self, session: &WebSessionRow) -> Result<(), StoreError>;
    /// Adds one; `Stale` if the id is taken.
    async fn create_web_session(&self, session: &WebSessionRow) -> Result<Written, StoreError>;
    /// Reads one that has not expired.
    async fn web_session(
        &self,
        id_hash: &str,
        now: Timestamp,
    ) -> Result<Option<WebSessionRow>, StoreError>;
    /// Ends one.
    async fn delete_web_session(&self, id_hash: &str) -> Result<(), StoreError>;
    /// Removes expired ones.
    async fn delete_expired_web_sessions(&self, now: Timestamp) -> Result<u64, StoreError>;

    // Small values of the deployment

    /// A value by name (such as the hash of the setup token).
    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError>;
    /// Sets a value; `None` removes it.
    async fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), StoreError>;

    // Idempotency

    /// Claims a key. Receipts older than `receipts_before` and pending claims older than `claims_before` do not count.
    async fn claim_receipt(
        &self,
        key: &RequestKey,
        now: Timestamp,
        receipts_before: Timestamp,
        claims_before: Timestamp,
    ) -> Result<ReceiptClaim, StoreError>;
    /// Lets go of a claim whose request did not succeed.
    async fn release_receipt(&self, key: &RequestKey) -> Result<(), StoreError>;
    /// Removes receipts and claims from before a moment.
    async fn delete_receipts(&self, before: Timestamp) -> Result<u64, StoreError>;

    // Environments

    /// Adds one (version 1, revision 1).
    async fn insert_environment(&self, row: &EnvironmentRow, fx: Effects)
    -> Result<(), StoreError>;
    /// One, deleted ones left out, shared with whoever reads the same row: two answers that are one allocation
    /// ([`Arc::ptr_eq`]) are the same row unchanged. The other way round says nothing.
    async fn shared_environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<Arc<EnvironmentRow>>, StoreError>;
    /// The same for callers that change it.
    async fn environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<EnvironmentRow>, StoreError> {
        let row = self.shared_environment(org, id).await?;
        Ok(row.map(Arc::unwrap_or_clone))
    }
    /// All of an organization, newest first.
    async fn environments(&self, org: OrganizationId) -> Result<Vec<EnvironmentRow>, StoreError>;
    /// Replaces one if its version is still `expected`; the row's own `version` is the new one.
    async fn update_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Deletes one at this version, with the change of its run in flight, if any.
    async fn delete_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        at: Timestamp,
        run: Option<RunChange<'_>>,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Saved definitions, newest first.
    async fn revisions(&self, id: EnvironmentId) -> Result<Vec<RevisionRow>, StoreError>;

    // Setup runs

    /// Admits a run: checks that none of the environment's runs is in flight and (for a manual run) that fewer than
    /// `limit` manual runs of the organization are, then writes the run, the environment (at version `expected`), the
    /// first log line and `fx`.
    async fn admit_run(
        &self,
        run: &SetupRunRow,
        first_line: &LogLine,
        expected: i64,
        environment: &EnvironmentRow,
        limit: usize,
        fx: Effects,
    ) -> Result<Admission, StoreError>;
    /// One run of an environment.
    async fn run(&self, id: SetupRunId) -> Result<Option<SetupRunRow>, StoreError>;
    /// An environment's runs, newest first.
    async fn runs(
        &self,
        environment: EnvironmentId,
        limit: u32,
    ) -> Result<Vec<SetupRunRow>, StoreError>;
    /// The oldest run that waits for a worker (queued, or provisioning and undriven); not taken yet.
    async fn waiting_run(&self) -> Result<Option<SetupRunRow>, StoreError>;
    /// All of those, oldest first.
    async fn waiting_runs(&self) -> Result<Vec<SetupRunRow>, StoreError>;
    /// Runs that a worker holds.
    async fn driven_runs(&self) -> Result<Vec<SetupRunRow>, StoreError>;
    /// Compare-and-set of a run, and of its environment where given (with its expected version); `Stale` if either
    /// changed.
    async fn update_run(
        &self,
        change: RunChange<'_>,
        environment: Option<(i64, &EnvironmentRow)>,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Appends to a run's log, in the order given, and counts.
    async fn append_log(&self, append: &LogAppend) -> Result<Appended, StoreError>;
    /// Lines with `seq` over `after`, at most `limit`.
    async fn log_lines(
        &self,
        id: SetupRunId,
        after: u64,
        limit: u32,
    ) -> Result<StoredLog, StoreError>;
    /// Adds to what is kept of a run beside its log, for the attempt that holds it.
    async fn record_run(
        &self,
        id: SetupRunId,
        attempt: u32,
        records: &RunRecords,
    ) -> Result<Appended, StoreError>;
    /// What is kept of a run beside its log.
    async fn run_records(&self, id: SetupRunId) -> Result<RunRecords, StoreError>;
    /// The times among them alone: the hosts of a run can be thousands.
    async fn run_times(&self, id: SetupRunId) -> Result<Vec<LineTime>, StoreError>;
    /// Removes the logs and records of runs that ended before a moment, and notes `now` as the time of removal.
    async fn delete_logs(&self, ended_before: Timestamp, now: Timestamp)
    -> Result<u64, StoreError>;

    // Workers

    /// Adds a worker or, by name, replaces it; answers the id that counts (a known name keeps its id).
    async fn register_worker(&self, worker: &WorkerRow) -> Result<WorkerId, StoreError>;
    /// Notes that a worker was heard of; the time may go back, as clocks do: that it changed is the news.
    async fn touch_worker(&self, id: WorkerId, at: Timestamp) -> Result<(), StoreError>;
    /// All workers, newest first.
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    // Audit

    /// Entries of an organization that match, newest first, before an entry if given.
    async fn audit_matching(
        &self,
        org: OrganizationId,
        filter: &AuditFilter,
        before: Option<domain::ids::AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError>;
    /// Entries of an organization, newest first, before an entry if given.
    async fn audit(
        &self,
        org: OrganizationId,
        before: Option<domain::ids::AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        self.audit_matching(org, &AuditFilter::default(), before, limit)
            .await
    }
}

/// A run's compare-and-set.
#[derive(Debug, Clone, Copy)]
pub struct RunChange<'a> {
    /// The version it must still have.
    pub expected: i64,
    /// The new row; its own `version` is the new one.
    pub row: &'a SetupRunRow,
    /// A system line to append in the same transaction (`seq` assigned by the store).
    pub system_line: Option<&'a LogLine>,
}
