//! The port, method by method.

use std::sync::Arc;

use async_trait::async_trait;
use control::ports::{
    Admission, Appended, Effects, LogAppend, ReceiptClaim, RequestKey, RunChange, Store,
    StoreError, StoredLog, Written,
    rows::{
        ApiKeyRow, AuditFilter, AuditRow, EnvironmentRow, InvitationRow, OrganizationRow,
        OwnedApiKey, RevisionRow, SetupRunRow, UserRow, WebSessionRow, WorkerRow,
    },
};
use domain::{
    ids::{
        ApiKeyId, AuditId, EnvironmentId, InvitationId, OrganizationId, SetupRunId, UserId,
        WorkerId,
    },
    run_records::{LineTime, RunRecords},
    setup_run::LogLine,
    timestamp::Timestamp,
};

use super::{access, audit, environments, logs, members, records, runs, workers};
use crate::{Database, db::values};

#[async_trait]
impl Store for Database {
    async fn ping(&self) -> Result<(), StoreError> {
        self.row("SELECT 1", values![]).await.map(drop)
    }
    async fn bootstrap(
        &self,
        org: &OrganizationRow,
        admin: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        members::bootstrap(self, org, admin, fx).await
    }
    async fn organizations(&self) -> Result<Vec<OrganizationRow>, StoreError> {
        members::organizations(self).await
    }
    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError> {
        members::by_email(self, email).await
    }
    async fn user(&self, id: UserId) -> Result<Option<UserRow>, StoreError> {
        members::user(self, id).await
    }
    async fn users(&self, org: OrganizationId) -> Result<Vec<UserRow>, StoreError> {
        members::users(self, org).await
    }
    async fn insert_user(
        &self,
        user: &UserRow,
        invitation: Option<(InvitationId, Timestamp)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        members::insert_user(self, user, invitation, fx).await
    }
    async fn update_user(
        &self,
        before: &UserRow,
        user: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        members::update_user(self, before, user, fx).await
    }
    async fn insert_invitation(
        &self,
        invitation: &InvitationRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        members::insert_invitation(self, invitation, fx).await
    }
    async fn invitation_by_token(
        &self,
        token_hash: &str,
    ) -> Result<Option<InvitationRow>, StoreError> {
        members::invitation_by_token(self, token_hash).await
    }
    async fn invitations(&self, org: OrganizationId) -> Result<Vec<InvitationRow>, StoreError> {
        members::invitations(self, org).await
    }
    async fn close_invitation(
        &self,
        org: OrganizationId,
        id: InvitationId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        members::close_invitation(self, org, id, at, fx).await
    }
    async fn insert_api_key(&self, key: &ApiKeyRow, fx: Effects) -> Result<(), StoreError> {
        members::insert_api_key(self, key, fx).await
    }
    async fn api_key_by_hash(&self, secret_hash: &str) -> Result<Option<OwnedApiKey>, StoreError> {
        members::api_key_by_hash(self, secret_hash).await
    }
    async fn api_keys(
        &self,
        org: OrganizationId,
        user: Option<UserId>,
    ) -> Result<Vec<ApiKeyRow>, StoreError> {
        members::api_keys(self, org, user).await
    }
    async fn revoke_api_key(
        &self,
        org: OrganizationId,
        id: ApiKeyId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        members::revoke_api_key(self, org, id, at, fx).await
    }
    async fn touch_api_key(&self, id: ApiKeyId, at: Timestamp) -> Result<(), StoreError> {
        members::touch_api_key(self, id, at).await
    }
    async fn save_web_session(&self, session: &WebSessionRow) -> Result<(), StoreError> {
        access::save_web_session(self, session).await
    }
    async fn create_web_session(&self, session: &WebSessionRow) -> Result<Written, StoreError> {
        access::create_web_session(self, session).await
    }
    async fn web_session(
        &self,
        id_hash: &str,
        now: Timestamp,
    ) -> Result<Option<WebSessionRow>, StoreError> {
        access::web_session(self, id_hash, now).await
    }
    async fn delete_web_session(&self, id_hash: &str) -> Result<(), StoreError> {
        access::delete_web_session(self, id_hash).await
    }
    async fn delete_expired_web_sessions(&self, now: Timestamp) -> Result<u64, StoreError> {
        access::delete_expired_web_sessions(self, now).await
    }
    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        access::setting(self, name).await
    }
    async fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        access::set_setting(self, name, value).await
    }
    async fn claim_receipt(
        &self,
        key: &RequestKey,
        now: Timestamp,
        receipts_before: Timestamp,
        claims_before: Timestamp,
    ) -> Result<ReceiptClaim, StoreError> {
        access::claim_receipt(self, key, now, receipts_before, claims_before).await
    }
    async fn release_receipt(&self, key: &RequestKey) -> Result<(), StoreError> {
        access::release_receipt(self, key).await
    }
    async fn delete_receipts(&self, before: Timestamp) -> Result<u64, StoreError> {
        access::delete_receipts(self, before).await
    }
    async fn insert_environment(
        &self,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        environments::insert(self, row, fx).await
    }
    async fn shared_environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<Arc<EnvironmentRow>>, StoreError> {
        environments::one(self, org, id).await
    }
    async fn environments(&self, org: OrganizationId) -> Result<Vec<EnvironmentRow>, StoreError> {
        environments::list(self, org).await
    }
    async fn update_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        environments::update(self, expected, row, fx).await
    }
    async fn delete_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        at: Timestamp,
        run: Option<RunChange<'_>>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        environments::delete(self, expected, row, at, run, fx).await
    }
    async fn revisions(&self, id: EnvironmentId) -> Result<Vec<RevisionRow>, StoreError> {
        environments::revisions(self, id).await
    }
    async fn admit_run(
        &self,
        run: &SetupRunRow,
        first_line: &LogLine,
        expected: i64,
        environment: &EnvironmentRow,
        limit: usize,
        fx: Effects,
    ) -> Result<Admission, StoreError> {
        runs::admit(self, run, first_line, expected, environment, limit, fx).await
    }
    async fn run(&self, id: SetupRunId) -> Result<Option<SetupRunRow>, StoreError> {
        runs::one(self, id).await
    }
    async fn runs(
        &self,
        environment: EnvironmentId,
        limit: u32,
    ) -> Result<Vec<SetupRunRow>, StoreError> {
        runs::list(self, environment, limit).await
    }
    async fn waiting_run(&self) -> Result<Option<SetupRunRow>, StoreError> {
        runs::waiting(self).await
    }
    async fn waiting_runs(&self) -> Result<Vec<SetupRunRow>, StoreError> {
        runs::all_waiting(self).await
    }
    async fn driven_runs(&self) -> Result<Vec<SetupRunRow>, StoreError> {
        runs::driven(self).await
    }
    async fn update_run(
        &self,
        change: RunChange<'_>,
        environment: Option<(i64, &EnvironmentRow)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        runs::update(self, change, environment, fx).await
    }
    async fn append_log(&self, append: &LogAppend) -> Result<Appended, StoreError> {
        logs::append(self, append).await
    }
    async fn log_lines(
        &self,
        id: SetupRunId,
        after: u64,
        limit: u32,
    ) -> Result<StoredLog, StoreError> {
        logs::page(self, id, after, limit).await
    }
    async fn record_run(
        &self,
        id: SetupRunId,
        attempt: u32,
        records: &RunRecords,
    ) -> Result<Appended, StoreError> {
        records::record(self, id, attempt, records).await
    }
    async fn run_records(&self, id: SetupRunId) -> Result<RunRecords, StoreError> {
        records::read(self, id).await
    }
    async fn run_times(&self, id: SetupRunId) -> Result<Vec<LineTime>, StoreError> {
        records::times(self, id).await
    }
    async fn delete_logs(
        &self,
        ended_before: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        logs::delete(self, ended_before, now).await
    }
    async fn register_worker(&self, worker: &WorkerRow) -> Result<WorkerId, StoreError> {
        workers::register(self, worker).await
    }
    async fn touch_worker(&self, id: WorkerId, at: Timestamp) -> Result<(), StoreError> {
        workers::touch(self, id, at).await
    }
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        workers::list(self).await
    }
    async fn audit_matching(
        &self,
        org: OrganizationId,
        filter: &AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        audit::list(self, org, filter, before, limit).await
    }
}
