//! A whole application layer over a real database: SQLite in a temporary directory unless told otherwise.

use std::{future::Future, sync::Arc, time::Duration};

use control::{
    Caller, Config, Control, LocalGateway, Member, OpCtx, Parts, Secret, ServerKey,
    accounts::Bootstrap, ports::Store,
};
use domain::{
    environment::Catalog,
    ids::{EnvironmentId, OrganizationId, SetupRunId},
    roles::Role,
};
use tempfile::TempDir;

use crate::{
    HookedStore, ManualClock, PASSWORD, ScriptedHost, TestIds, TestWorker, catalog, create_body,
};

/// What a test application is started with.
pub struct TestOptions {
    /// What the deployment offers.
    pub catalog: Catalog,
    /// Changes of the settings.
    pub configure: fn(&mut Config),
    /// An empty database's URL; without it a SQLite file in the temporary directory.
    pub database: Option<String>,
    /// Whether there is a worker for sessions in this process.
    pub sessions: bool,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self {
            catalog: catalog(),
            configure: |_| {},
            database: None,
            sessions: true,
        }
    }
}

/// The application layer with an organization, its first admin, a clock that tests move, and real SQLite.
pub struct TestApp {
    /// The application layer.
    pub control: Control,
    /// Time.
    pub clock: Arc<ManualClock>,
    /// Storage with hooks.
    pub store: Arc<HookedStore>,
    /// The worker that sessions are on; no sandboxes.
    pub host: Arc<ScriptedHost>,
    /// The organization.
    pub organization: OrganizationId,
    /// The first admin.
    pub admin: OpCtx,
    database: Arc<store::Database>,
    options: TestOptions,
    directory: TempDir,
}

fn config(options: &TestOptions) -> Config {
    let mut config = Config::new(ServerKey::new([7; 32]));
    // Cheap hashes: what they cost is argon2's business, not these tests'.
    config.password_cost = (64, 1);
    (options.configure)(&mut config);
    config
}

fn build(
    database: &Arc<store::Database>,
    clock: &Arc<ManualClock>,
    options: &TestOptions,
    host: &Arc<ScriptedHost>,
) -> (Control, Arc<HookedStore>) {
    let store = HookedStore::new(Arc::clone(database) as Arc<dyn Store>);
    let control = Control::new(Parts {
        store: Arc::clone(&store) as Arc<dyn Store>,
        clock: Arc::clone(clock) as _,
        ids: Arc::new(TestIds::default()),
        doorbell: Arc::clone(database) as _,
        catalog: Arc::new(options.catalog.clone()),
        sessions: options.sessions.then(|| Arc::clone(host) as _),
        config: config(options),
    });
    (control, store)
}

/// A member's context as the console makes it.
fn console(member: Member) -> OpCtx {
    OpCtx {
        caller: Caller::Member(member),
        request_id: "req-test".to_owned(),
        source: Some("192.0.2.1".to_owned()),
    }
}

impl TestApp {
    /// With the usual options.
    pub async fn start() -> Self {
        Self::with(TestOptions::default()).await
    }

    /// With these options.
    pub async fn with(options: TestOptions) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let url = options
            .database
            .clone()
            .unwrap_or_else(|| format!("sqlite://{}/test.db", directory.path().display()));
        let database = store::open(&url, store::OpenOptions { migrate: true })
            .await
            .expect("the database opens");
        let clock = Arc::new(ManualClock::default());
        let host = ScriptedHost::new("worker-1");
        let (control, store) = build(&database, &clock, &options, &host);
        let token = control
            .issue_setup_token()
            .await
            .expect("the database answers")
            .expect("there is no organization yet");
        let first = control
            .bootstrap(
                &Self::anonymous(),
                &token,
                Bootstrap {
                    organization_name: "Test organization".to_owned(),
                    email: "admin@example.com".to_owned(),
                    display_name: String::new(),
                    password: Secret::new(PASSWORD),
                },
            )
            .await
            .expect("the first admin is made");
        Self {
            organization: first.member.organization_id,
            admin: console(first.member),
            control,
            clock,
            store,
            host,
            database,
            options,
            directory,
        }
    }

    /// Forgets everything that is only in memory, as a restart of the process does; the database, the wall clock and the
    /// members stay.
    pub fn restart(&mut self) {
        // Ids go on counting elsewhere, so that none comes twice.
        let store = HookedStore::new(Arc::clone(&self.database) as Arc<dyn Store>);
        self.control = Control::new(Parts {
            store: Arc::clone(&store) as Arc<dyn Store>,
            clock: Arc::clone(&self.clock) as _,
            ids: Arc::new(TestIds::after_restart()),
            doorbell: Arc::clone(&self.database) as _,
            catalog: Arc::new(self.options.catalog.clone()),
            sessions: self.options.sessions.then(|| Arc::clone(&self.host) as _),
            config: config(&self.options),
        });
        self.store = store;
    }

    /// As [`Self::restart`], with other options.
    pub fn restart_with(&mut self, options: TestOptions) {
        self.options = options;
        self.restart();
    }

    /// The database's directory.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Nobody we know.
    pub fn anonymous() -> OpCtx {
        OpCtx {
            caller: Caller::Anonymous,
            request_id: "req-test".to_owned(),
            source: Some("192.0.2.1".to_owned()),
        }
    }

    /// An admin of another organization (which is not even stored: nothing of ours is theirs).
    pub fn stranger() -> OpCtx {
        console(Member {
            organization_id: OrganizationId::from_uuid(uuid::Uuid::from_u128(0xdead)),
            user_id: domain::ids::UserId::from_uuid(uuid::Uuid::from_u128(0xbeef)),
            email: "stranger@example.org".to_owned(),
            role: Role::Admin,
            via: control::Via::Console(control::SignIn {
                epoch: 1,
                browser: None,
            }),
        })
    }

    /// A new member with this role, who came by invitation and has [`PASSWORD`].
    pub async fn member(&self, role: Role, email: &str) -> OpCtx {
        let invitation = self
            .control
            .invite(&self.admin, email, role)
            .await
            .expect("the invitation is made");
        let signed_in = self
            .control
            .accept_invitation(
                &Self::anonymous(),
                &invitation.token,
                "",
                &Secret::new(PASSWORD),
            )
            .await
            .expect("the invitation is accepted");
        console(signed_in.member)
    }

    /// A new environment without access and with this script, unless empty.
    pub async fn environment(&self, name: &str, script: &str) -> EnvironmentId {
        self.control
            .create_environment(&self.admin, &create_body(name, script), None)
            .await
            .expect("the environment is made")
            .value
            .environment_id
    }

    /// A new run of it.
    pub async fn run(&self, environment: EnvironmentId) -> SetupRunId {
        self.control
            .start_setup_run(&self.admin, environment, None)
            .await
            .expect("the run is admitted")
            .value
            .setup_run_id
    }

    /// A worker that the test plays.
    pub async fn worker(&self, name: &str) -> TestWorker {
        TestWorker::register(LocalGateway::new(self.control.clone()), &self.clock, name).await
    }

    /// Waits, in real time, until `check` answers something: for what happens in other tasks.
    pub async fn eventually<T, F, Fut>(&self, what: &str, mut check: F) -> T
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Option<T>>,
    {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = check().await {
                return found;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "never came to be: {what}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
