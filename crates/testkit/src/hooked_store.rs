//! A store in front of another, into which tests put themselves: to fail a call, to change something between a read and
//! the write that rests upon it, or to stop at a moment of a use case as a crash would.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use control::ports::{
    Admission, Appended, Effects, LogAppend, ReceiptClaim, RequestKey, RunChange, Store,
    StoreError, StoredLog, Written,
    rows::{
        ApiKeyRow, AuditFilter, AuditRow, EnvironmentRow, InvitationRow, OrganizationRow,
        RevisionRow, SetupRunRow, UserRow, WebSessionRow, WorkerRow,
    },
};
use domain::{
    ids::{
        ApiKeyId, AuditId, EnvironmentId, InvitationId, OrganizationId, SetupRunId, UserId,
        WorkerId,
    },
    setup_run::LogLine,
    timestamp::Timestamp,
};

/// A moment of a storage call, by the method's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing has happened yet.
    Before(&'static str),
    /// The inner store has answered.
    After(&'static str),
}

type Hook =
    Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>> + Send>;

/// The store in front.
pub struct HookedStore {
    inner: Arc<dyn Store>,
    hooks: Mutex<VecDeque<(Moment, Hook)>>,
}

impl HookedStore {
    /// In front of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            hooks: Mutex::default(),
        })
    }
    /// The store behind, without hooks.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }
    /// Does `work` once, at the next such moment.
    pub fn once<F, Fut>(&self, moment: Moment, work: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back((moment, Box::new(move || Box::pin(work()))));
    }
    /// Fails the next such moment as a database that is gone.
    pub fn fail_once(&self, moment: Moment) {
        self.once(moment, || async {
            Err(StoreError::Unavailable("gone".into()))
        });
    }
    /// Panics at the next such moment: what comes after it does not happen, as if the process were killed there.
    #[allow(clippy::panic, reason = "that is what it is for")]
    pub fn die_once(&self, moment: Moment) {
        self.once(moment, || async { panic!("killed here by the test") });
    }
    /// Whether every hook was used.
    pub fn all_used(&self) -> bool {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    pub(crate) async fn hook(&self, moment: Moment) -> Result<(), StoreError> {
        let hook = {
            let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
            let index = hooks.iter().position(|(when, _)| *when == moment);
            index.and_then(|index| hooks.remove(index))
        };
        match hook {
            Some((_, work)) => work().await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Store for HookedStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.hook(Moment::Before("ping")).await?;
        let answer = self.inner.ping().await;
        self.hook(Moment::After("ping")).await?;
        answer
    }
    async fn bootstrap(
        &self,
        org: &OrganizationRow,
        admin: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("bootstrap")).await?;
        let answer = self.inner.bootstrap(org, admin, fx).await;
        self.hook(Moment::After("bootstrap")).await?;
        answer
    }
    async fn organizations(&self) -> Result<Vec<OrganizationRow>, StoreError> {
        self.hook(Moment::Before("organizations")).await?;
        let answer = self.inner.organizations().await;
        self.hook(Moment::After("organizations")).await?;
        answer
    }
    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError> {
        self.hook(Moment::Before("user_by_email")).await?;
        let answer = self.inner.user_by_email(email).await;
        self.hook(Moment::After("user_by_email")).await?;
        answer
    }
    async fn user(&self, id: UserId) -> Result<Option<UserRow>, StoreError> {
        self.hook(Moment::Before("user")).await?;
        let answer = self.inner.user(id).await;
        self.hook(Moment::After("user")).await?;
        answer
    }
    async fn users(&self, org: OrganizationId) -> Result<Vec<UserRow>, StoreError> {
        self.hook(Moment::Before("users")).await?;
        let answer = self.inner.users(org).await;
        self.hook(Moment::After("users")).await?;
        answer
    }
    async fn insert_user(
        &self,
        user: &UserRow,
        invitation: Option<(InvitationId, Timestamp)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("insert_user")).await?;
        let answer = self.inner.insert_user(user, invitation, fx).await;
        self.hook(Moment::After("insert_user")).await?;
        answer
    }
    async fn update_user(
        &self,
        expected_epoch: i64,
        user: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("update_user")).await?;
        let answer = self.inner.update_user(expected_epoch, user, fx).await;
        self.hook(Moment::After("update_user")).await?;
        answer
    }
    async fn insert_invitation(
        &self,
        invitation: &InvitationRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        self.hook(Moment::Before("insert_invitation")).await?;
        let answer = self.inner.insert_invitation(invitation, fx).await;
        self.hook(Moment::After("insert_invitation")).await?;
        answer
    }
    async fn invitation_by_token(
        &self,
        token_hash: &str,
    ) -> Result<Option<InvitationRow>, StoreError> {
        self.hook(Moment::Before("invitation_by_token")).await?;
        let answer = self.inner.invitation_by_token(token_hash).await;
        self.hook(Moment::After("invitation_by_token")).await?;
        answer
    }
    async fn invitations(&self, org: OrganizationId) -> Result<Vec<InvitationRow>, StoreError> {
        self.hook(Moment::Before("invitations")).await?;
        let answer = self.inner.invitations(org).await;
        self.hook(Moment::After("invitations")).await?;
        answer
    }
    async fn close_invitation(
        &self,
        org: OrganizationId,
        id: InvitationId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("close_invitation")).await?;
        let answer = self.inner.close_invitation(org, id, at, fx).await;
        self.hook(Moment::After("close_invitation")).await?;
        answer
    }
    async fn insert_api_key(&self, key: &ApiKeyRow, fx: Effects) -> Result<(), StoreError> {
        self.hook(Moment::Before("insert_api_key")).await?;
        let answer = self.inner.insert_api_key(key, fx).await;
        self.hook(Moment::After("insert_api_key")).await?;
        answer
    }
    async fn api_key_by_hash(&self, secret_hash: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        self.hook(Moment::Before("api_key_by_hash")).await?;
        let answer = self.inner.api_key_by_hash(secret_hash).await;
        self.hook(Moment::After("api_key_by_hash")).await?;
        answer
    }
    async fn api_keys(
        &self,
        org: OrganizationId,
        user: Option<UserId>,
    ) -> Result<Vec<ApiKeyRow>, StoreError> {
        self.hook(Moment::Before("api_keys")).await?;
        let answer = self.inner.api_keys(org, user).await;
        self.hook(Moment::After("api_keys")).await?;
        answer
    }
    async fn revoke_api_key(
        &self,
        org: OrganizationId,
        id: ApiKeyId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("revoke_api_key")).await?;
        let answer = self.inner.revoke_api_key(org, id, at, fx).await;
        self.hook(Moment::After("revoke_api_key")).await?;
        answer
    }
    async fn touch_api_key(&self, id: ApiKeyId, at: Timestamp) -> Result<(), StoreError> {
        self.hook(Moment::Before("touch_api_key")).await?;
        let answer = self.inner.touch_api_key(id, at).await;
        self.hook(Moment::After("touch_api_key")).await?;
        answer
    }
    async fn save_web_session(&self, session: &WebSessionRow) -> Result<(), StoreError> {
        self.hook(Moment::Before("save_web_session")).await?;
        let answer = self.inner.save_web_session(session).await;
        self.hook(Moment::After("save_web_session")).await?;
        answer
    }
    async fn create_web_session(&self, session: &WebSessionRow) -> Result<Written, StoreError> {
        self.hook(Moment::Before("create_web_session")).await?;
        let answer = self.inner.create_web_session(session).await;
        self.hook(Moment::After("create_web_session")).await?;
        answer
    }
    async fn web_session(
        &self,
        id_hash: &str,
        now: Timestamp,
    ) -> Result<Option<WebSessionRow>, StoreError> {
        self.hook(Moment::Before("web_session")).await?;
        let answer = self.inner.web_session(id_hash, now).await;
        self.hook(Moment::After("web_session")).await?;
        answer
    }
    async fn delete_web_session(&self, id_hash: &str) -> Result<(), StoreError> {
        self.hook(Moment::Before("delete_web_session")).await?;
        let answer = self.inner.delete_web_session(id_hash).await;
        self.hook(Moment::After("delete_web_session")).await?;
        answer
    }
    async fn delete_expired_web_sessions(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.hook(Moment::Before("delete_expired_web_sessions"))
            .await?;
        let answer = self.inner.delete_expired_web_sessions(now).await;
        self.hook(Moment::After("delete_expired_web_sessions"))
            .await?;
        answer
    }
    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.hook(Moment::Before("setting")).await?;
        let answer = self.inner.setting(name).await;
        self.hook(Moment::After("setting")).await?;
        answer
    }
    async fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        self.hook(Moment::Before("set_setting")).await?;
        let answer = self.inner.set_setting(name, value).await;
        self.hook(Moment::After("set_setting")).await?;
        answer
    }
    async fn claim_receipt(
        &self,
        key: &RequestKey,
        now: Timestamp,
        receipts_before: Timestamp,
        claims_before: Timestamp,
    ) -> Result<ReceiptClaim, StoreError> {
        self.hook(Moment::Before("claim_receipt")).await?;
        let answer = self
            .inner
            .claim_receipt(key, now, receipts_before, claims_before)
            .await;
        self.hook(Moment::After("claim_receipt")).await?;
        answer
    }
    async fn release_receipt(&self, key: &RequestKey) -> Result<(), StoreError> {
        self.hook(Moment::Before("release_receipt")).await?;
        let answer = self.inner.release_receipt(key).await;
        self.hook(Moment::After("release_receipt")).await?;
        answer
    }
    async fn delete_receipts(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.hook(Moment::Before("delete_receipts")).await?;
        let answer = self.inner.delete_receipts(before).await;
        self.hook(Moment::After("delete_receipts")).await?;
        answer
    }
    async fn insert_environment(
        &self,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        self.hook(Moment::Before("insert_environment")).await?;
        let answer = self.inner.insert_environment(row, fx).await;
        self.hook(Moment::After("insert_environment")).await?;
        answer
    }
    async fn environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<EnvironmentRow>, StoreError> {
        self.hook(Moment::Before("environment")).await?;
        let answer = self.inner.environment(org, id).await;
        self.hook(Moment::After("environment")).await?;
        answer
    }
    async fn environments(&self, org: OrganizationId) -> Result<Vec<EnvironmentRow>, StoreError> {
        self.hook(Moment::Before("environments")).await?;
        let answer = self.inner.environments(org).await;
        self.hook(Moment::After("environments")).await?;
        answer
    }
    async fn update_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("update_environment")).await?;
        let answer = self.inner.update_environment(expected, row, fx).await;
        self.hook(Moment::After("update_environment")).await?;
        answer
    }
    async fn delete_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        at: Timestamp,
        run: Option<RunChange<'_>>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("delete_environment")).await?;
        let answer = self
            .inner
            .delete_environment(expected, row, at, run, fx)
            .await;
        self.hook(Moment::After("delete_environment")).await?;
        answer
    }
    async fn revisions(&self, id: EnvironmentId) -> Result<Vec<RevisionRow>, StoreError> {
        self.hook(Moment::Before("revisions")).await?;
        let answer = self.inner.revisions(id).await;
        self.hook(Moment::After("revisions")).await?;
        answer
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
        self.hook(Moment::Before("admit_run")).await?;
        let answer = self
            .inner
            .admit_run(run, first_line, expected, environment, limit, fx)
            .await;
        self.hook(Moment::After("admit_run")).await?;
        answer
    }
    async fn run(&self, id: SetupRunId) -> Result<Option<SetupRunRow>, StoreError> {
        self.hook(Moment::Before("run")).await?;
        let answer = self.inner.run(id).await;
        self.hook(Moment::After("run")).await?;
        answer
    }
    async fn runs(
        &self,
        environment: EnvironmentId,
        limit: u32,
    ) -> Result<Vec<SetupRunRow>, StoreError> {
        self.hook(Moment::Before("runs")).await?;
        let answer = self.inner.runs(environment, limit).await;
        self.hook(Moment::After("runs")).await?;
        answer
    }
    async fn waiting_run(&self) -> Result<Option<SetupRunRow>, StoreError> {
        self.hook(Moment::Before("waiting_run")).await?;
        let answer = self.inner.waiting_run().await;
        self.hook(Moment::After("waiting_run")).await?;
        answer
    }
    async fn driven_runs(&self) -> Result<Vec<SetupRunRow>, StoreError> {
        self.hook(Moment::Before("driven_runs")).await?;
        let answer = self.inner.driven_runs().await;
        self.hook(Moment::After("driven_runs")).await?;
        answer
    }
    async fn update_run(
        &self,
        change: RunChange<'_>,
        environment: Option<(i64, &EnvironmentRow)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("update_run")).await?;
        let answer = self.inner.update_run(change, environment, fx).await;
        self.hook(Moment::After("update_run")).await?;
        answer
    }
    async fn append_log(&self, append: &LogAppend) -> Result<Appended, StoreError> {
        self.hook(Moment::Before("append_log")).await?;
        let answer = self.inner.append_log(append).await;
        self.hook(Moment::After("append_log")).await?;
        answer
    }
    async fn log_lines(
        &self,
        id: SetupRunId,
        after: u64,
        limit: u32,
    ) -> Result<StoredLog, StoreError> {
        self.hook(Moment::Before("log_lines")).await?;
        let answer = self.inner.log_lines(id, after, limit).await;
        self.hook(Moment::After("log_lines")).await?;
        answer
    }
    async fn delete_logs(
        &self,
        ended_before: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.hook(Moment::Before("delete_logs")).await?;
        let answer = self.inner.delete_logs(ended_before, now).await;
        self.hook(Moment::After("delete_logs")).await?;
        answer
    }
    async fn register_worker(&self, worker: &WorkerRow) -> Result<WorkerId, StoreError> {
        self.hook(Moment::Before("register_worker")).await?;
        let answer = self.inner.register_worker(worker).await;
        self.hook(Moment::After("register_worker")).await?;
        answer
    }
    async fn touch_worker(&self, id: WorkerId, at: Timestamp) -> Result<(), StoreError> {
        self.hook(Moment::Before("touch_worker")).await?;
        let answer = self.inner.touch_worker(id, at).await;
        self.hook(Moment::After("touch_worker")).await?;
        answer
    }
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.hook(Moment::Before("workers")).await?;
        let answer = self.inner.workers().await;
        self.hook(Moment::After("workers")).await?;
        answer
    }
    async fn audit_matching(
        &self,
        org: OrganizationId,
        filter: &AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        self.hook(Moment::Before("audit")).await?;
        let answer = self.inner.audit_matching(org, filter, before, limit).await;
        self.hook(Moment::After("audit")).await?;
        answer
    }
}
