//! A store in front of another, into which tests put themselves: to fail a call, to change something between a read and
//! the write that rests upon it, or to stop at a moment of a use case as a crash would.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

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
    calls: AtomicU64,
    elsewhere: Mutex<Option<(UserId, OrganizationRow)>>,
}

impl HookedStore {
    /// In front of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            hooks: Mutex::default(),
            calls: AtomicU64::new(0),
            elsewhere: Mutex::default(),
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
    /// Makes a member one of another organization for everyone who asks from now on, as in a deployment with several: a
    /// deployment's own first start makes one alone. What the database refuses to write for it stays refused, but for the
    /// claim of an idempotency key.
    pub fn put_elsewhere(&self, user: UserId, organization: OrganizationRow) {
        *self.elsewhere() = Some((user, organization));
    }
    fn elsewhere(&self) -> std::sync::MutexGuard<'_, Option<(UserId, OrganizationRow)>> {
        self.elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
    /// Whether every hook was used.
    pub fn all_used(&self) -> bool {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    pub(crate) async fn hook(&self, moment: Moment) -> Result<(), StoreError> {
        if matches!(moment, Moment::Before(_)) {
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
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

/// A call of the inner store with its two moments.
macro_rules! hooked {
    ($self:ident, $method:ident($($argument:expr),* $(,)?)) => {{
        $self.hook(Moment::Before(stringify!($method))).await?;
        let answer = $self.inner.$method($($argument),*).await;
        $self.hook(Moment::After(stringify!($method))).await?;
        answer
    }};
}

#[async_trait]
impl Store for HookedStore {
    async fn ping(&self) -> Result<(), StoreError> {
        hooked!(self, ping())
    }
    async fn bootstrap(
        &self,
        org: &OrganizationRow,
        admin: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, bootstrap(org, admin, fx))
    }
    async fn organizations(&self) -> Result<Vec<OrganizationRow>, StoreError> {
        let mut all = hooked!(self, organizations())?;
        all.extend(self.elsewhere().iter().map(|(_, other)| other.clone()));
        Ok(all)
    }
    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError> {
        hooked!(self, user_by_email(email))
    }
    async fn user(&self, id: UserId) -> Result<Option<UserRow>, StoreError> {
        let mut found = hooked!(self, user(id))?;
        if let (Some(row), Some((user, other))) = (&mut found, &*self.elsewhere())
            && *user == id
        {
            row.organization_id = other.organization_id;
        }
        Ok(found)
    }
    async fn users(&self, org: OrganizationId) -> Result<Vec<UserRow>, StoreError> {
        hooked!(self, users(org))
    }
    async fn insert_user(
        &self,
        user: &UserRow,
        invitation: Option<(InvitationId, Timestamp)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, insert_user(user, invitation, fx))
    }
    async fn update_user(
        &self,
        before: &UserRow,
        user: &UserRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, update_user(before, user, fx))
    }
    async fn insert_invitation(
        &self,
        invitation: &InvitationRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        hooked!(self, insert_invitation(invitation, fx))
    }
    async fn invitation_by_token(
        &self,
        token_hash: &str,
    ) -> Result<Option<InvitationRow>, StoreError> {
        hooked!(self, invitation_by_token(token_hash))
    }
    async fn invitations(&self, org: OrganizationId) -> Result<Vec<InvitationRow>, StoreError> {
        hooked!(self, invitations(org))
    }
    async fn close_invitation(
        &self,
        org: OrganizationId,
        id: InvitationId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, close_invitation(org, id, at, fx))
    }
    async fn insert_api_key(&self, key: &ApiKeyRow, fx: Effects) -> Result<(), StoreError> {
        hooked!(self, insert_api_key(key, fx))
    }
    async fn api_key_by_hash(&self, secret_hash: &str) -> Result<Option<OwnedApiKey>, StoreError> {
        let mut found = hooked!(self, api_key_by_hash(secret_hash))?;
        if let (Some(owned), Some((user, other))) = (&mut found, &*self.elsewhere())
            && *user == owned.key.user_id
        {
            owned.key.organization_id = other.organization_id;
        }
        Ok(found)
    }
    async fn api_keys(
        &self,
        org: OrganizationId,
        user: Option<UserId>,
    ) -> Result<Vec<ApiKeyRow>, StoreError> {
        hooked!(self, api_keys(org, user))
    }
    async fn revoke_api_key(
        &self,
        org: OrganizationId,
        id: ApiKeyId,
        at: Timestamp,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, revoke_api_key(org, id, at, fx))
    }
    async fn touch_api_key(&self, id: ApiKeyId, at: Timestamp) -> Result<(), StoreError> {
        hooked!(self, touch_api_key(id, at))
    }
    async fn save_web_session(&self, session: &WebSessionRow) -> Result<(), StoreError> {
        hooked!(self, save_web_session(session))
    }
    async fn create_web_session(&self, session: &WebSessionRow) -> Result<Written, StoreError> {
        hooked!(self, create_web_session(session))
    }
    async fn web_session(
        &self,
        id_hash: &str,
        now: Timestamp,
    ) -> Result<Option<WebSessionRow>, StoreError> {
        hooked!(self, web_session(id_hash, now))
    }
    async fn delete_web_session(&self, id_hash: &str) -> Result<(), StoreError> {
        hooked!(self, delete_web_session(id_hash))
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
        hooked!(self, setting(name))
    }
    async fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        hooked!(self, set_setting(name, value))
    }
    async fn claim_receipt(
        &self,
        key: &RequestKey,
        now: Timestamp,
        receipts_before: Timestamp,
        claims_before: Timestamp,
    ) -> Result<ReceiptClaim, StoreError> {
        let is_elsewhere =
            |other: &(UserId, OrganizationRow)| other.1.organization_id == key.organization_id;
        if self.elsewhere().as_ref().is_some_and(is_elsewhere) {
            return Ok(ReceiptClaim::Claimed);
        }
        hooked!(
            self,
            claim_receipt(key, now, receipts_before, claims_before)
        )
    }
    async fn release_receipt(&self, key: &RequestKey) -> Result<(), StoreError> {
        hooked!(self, release_receipt(key))
    }
    async fn delete_receipts(&self, before: Timestamp) -> Result<u64, StoreError> {
        hooked!(self, delete_receipts(before))
    }
    async fn insert_environment(
        &self,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<(), StoreError> {
        hooked!(self, insert_environment(row, fx))
    }
    async fn shared_environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<Arc<EnvironmentRow>>, StoreError> {
        hooked!(self, shared_environment(org, id))
    }
    async fn environment(
        &self,
        org: OrganizationId,
        id: EnvironmentId,
    ) -> Result<Option<EnvironmentRow>, StoreError> {
        hooked!(self, environment(org, id))
    }
    async fn environments(&self, org: OrganizationId) -> Result<Vec<EnvironmentRow>, StoreError> {
        hooked!(self, environments(org))
    }
    async fn update_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, update_environment(expected, row, fx))
    }
    async fn delete_environment(
        &self,
        expected: i64,
        row: &EnvironmentRow,
        at: Timestamp,
        run: Option<RunChange<'_>>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, delete_environment(expected, row, at, run, fx))
    }
    async fn revisions(&self, id: EnvironmentId) -> Result<Vec<RevisionRow>, StoreError> {
        hooked!(self, revisions(id))
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
        hooked!(
            self,
            admit_run(run, first_line, expected, environment, limit, fx)
        )
    }
    async fn run(&self, id: SetupRunId) -> Result<Option<SetupRunRow>, StoreError> {
        hooked!(self, run(id))
    }
    async fn runs(
        &self,
        environment: EnvironmentId,
        limit: u32,
    ) -> Result<Vec<SetupRunRow>, StoreError> {
        hooked!(self, runs(environment, limit))
    }
    async fn waiting_run(&self) -> Result<Option<SetupRunRow>, StoreError> {
        hooked!(self, waiting_run())
    }
    async fn waiting_runs(&self) -> Result<Vec<SetupRunRow>, StoreError> {
        hooked!(self, waiting_runs())
    }
    async fn driven_runs(&self) -> Result<Vec<SetupRunRow>, StoreError> {
        hooked!(self, driven_runs())
    }
    async fn update_run(
        &self,
        change: RunChange<'_>,
        environment: Option<(i64, &EnvironmentRow)>,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        hooked!(self, update_run(change, environment, fx))
    }
    async fn append_log(&self, append: &LogAppend) -> Result<Appended, StoreError> {
        hooked!(self, append_log(append))
    }
    async fn log_lines(
        &self,
        id: SetupRunId,
        after: u64,
        limit: u32,
    ) -> Result<StoredLog, StoreError> {
        hooked!(self, log_lines(id, after, limit))
    }
    async fn record_run(
        &self,
        id: SetupRunId,
        attempt: u32,
        records: &RunRecords,
    ) -> Result<Appended, StoreError> {
        hooked!(self, record_run(id, attempt, records))
    }
    async fn run_records(&self, id: SetupRunId) -> Result<RunRecords, StoreError> {
        hooked!(self, run_records(id))
    }
    async fn run_times(&self, id: SetupRunId) -> Result<Vec<LineTime>, StoreError> {
        hooked!(self, run_times(id))
    }
    async fn delete_logs(
        &self,
        ended_before: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        hooked!(self, delete_logs(ended_before, now))
    }
    async fn register_worker(&self, worker: &WorkerRow) -> Result<WorkerId, StoreError> {
        hooked!(self, register_worker(worker))
    }
    async fn touch_worker(&self, id: WorkerId, at: Timestamp) -> Result<(), StoreError> {
        hooked!(self, touch_worker(id, at))
    }
    async fn workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        hooked!(self, workers())
    }
    async fn audit_matching(
        &self,
        org: OrganizationId,
        filter: &AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        hooked!(self, audit_matching(org, filter, before, limit))
    }
}
