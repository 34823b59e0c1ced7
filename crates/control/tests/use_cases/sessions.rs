//! Sessions: who starts them, from what, how they end, and that rows and worker agree.

use std::time::Duration;

use control::{Control, OpCtx, ports::SessionRow};
use domain::{
    exec::ExecRequest,
    ids::{EnvironmentId, SessionId},
    roles::Role,
    session::Status,
};
use serde_json::json;
use testkit::{TestApp, TestOptions};
use wire::{
    error::Code,
    session_host::{HostError, Presence},
    sessions::Session,
};

pub(crate) async fn settled(app: &TestApp, id: SessionId) -> Session {
    app.eventually("the session rests", || async {
        let session = app.control.get_session(&app.admin, id, None).await.unwrap();
        let rests = session.status != Status::Provisioning && session.pending.is_none();
        // The reconciler leaves alone what is still driven.
        (rests && !app.control.is_driving(id)).then_some(session)
    })
    .await
}

pub(crate) async fn start(app: &TestApp, environment: EnvironmentId) -> SessionId {
    app.control
        .start_session(&app.admin, environment, None)
        .await
        .unwrap()
        .value
        .session_id
}

/// A running session of an environment without a script.
pub(crate) async fn running(app: &TestApp) -> SessionId {
    let environment = app.environment("Plain", "").await;
    let id = start(app, environment).await;
    assert_eq!(settled(app, id).await.status, Status::Running);
    id
}

pub(crate) async fn gone(app: &TestApp, id: SessionId) {
    app.eventually("the session is deleted", || async {
        let found = app.control.get_session(&app.admin, id, None).await;
        found.is_err().then_some(())
    })
    .await;
}

pub(crate) async fn row(app: &TestApp, id: SessionId) -> SessionRow {
    let found = app.control.store().session(app.organization, id).await;
    found.unwrap().unwrap()
}

pub(crate) fn sh(line: &str) -> ExecRequest {
    ExecRequest {
        command: Some(line.to_owned()),
        ..ExecRequest::default()
    }
}

async fn actions(app: &TestApp) -> Vec<(String, String)> {
    let page = app.control.audit_log(&app.admin, None).await.unwrap();
    page.items
        .into_iter()
        .rev()
        .filter(|item| item.action.starts_with("session."))
        .map(|item| (item.action, item.actor))
        .collect()
}

#[tokio::test]
async fn a_session_goes_through_its_whole_life() {
    let app = TestApp::start().await;
    let environment = app.environment("Plain", "").await;
    app.host.let_start(false);
    let begun = app
        .control
        .start_session(&app.admin, environment, None)
        .await
        .unwrap();
    assert_eq!(
        (begun.status, begun.value.status),
        (202, Status::Provisioning)
    );
    let id = begun.value.session_id;
    let refused = app
        .control
        .exec(&app.admin, id, sh("echo x"))
        .await
        .err()
        .unwrap();
    assert_eq!(refused.code(), Code::SessionNotRunning);
    app.host.let_start(true);
    let session = settled(&app, id).await;
    assert_eq!(session.status, Status::Running);
    assert!(session.started_at.is_some());
    let plan = app.host.plans().pop().unwrap();
    assert_eq!(plan.layers, Vec::<String>::new());
    assert_eq!(
        (plan.cpu_milli, plan.memory_mib, plan.disk_gi),
        (2_000, 4_096, 10)
    );

    let stopping = app.control.stop_session(&app.admin, id).await.unwrap();
    assert_eq!(stopping.message, "Stopped by admin@example.com.");
    let stopped = settled(&app, id).await;
    assert_eq!((stopped.status, stopped.pending), (Status::Stopped, None));
    assert_eq!(stopped.message, "Stopped by admin@example.com.");
    // Stopping what is stopped changes nothing.
    app.control.stop_session(&app.admin, id).await.unwrap();

    app.control.resume_session(&app.admin, id).await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
    let plans = app.host.plans();
    assert_eq!(plans[0].sandbox_id, plans[1].sandbox_id, "the same disk");

    app.control.delete_session(&app.admin, id).await.unwrap();
    gone(&app, id).await;
    assert_eq!(app.host.presence_of(plans[0].sandbox_id), Presence::Absent);
    let admin = "admin@example.com".to_owned();
    assert_eq!(
        actions(&app).await,
        [
            "session.start",
            "session.stop",
            "session.resume",
            "session.delete"
        ]
        .map(|action| (action.to_owned(), admin.clone()))
    );
}

#[tokio::test]
async fn a_verified_environment_gives_its_image_and_any_other_gives_no_session() {
    let app = TestApp::start().await;
    let environment = app.environment("Scripted", "echo hi\n").await;
    let refusal = |ctx: OpCtx, control: Control| async move {
        let error = control
            .start_session(&ctx, environment, None)
            .await
            .map(|outcome| outcome.value)
            .expect_err("no session starts");
        assert_eq!(error.code(), Code::EnvironmentNotVerified);
        error.api().details["next_action"]["path"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let tree = format!("/managed-agents/v1/environments/{environment}");
    assert_eq!(
        refusal(app.admin.clone(), app.control.clone()).await,
        format!("{tree}/setup-runs"),
        "never tested: start a run"
    );
    let run = app.run(environment).await;
    assert_eq!(
        refusal(app.admin.clone(), app.control.clone()).await,
        format!("{tree}/setup-runs/{run}"),
        "testing: wait for it"
    );
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let id = start(&app, environment).await;
    let session = settled(&app, id).await;
    assert_eq!(session.image.unwrap().setup_run_id, run);
    assert_eq!(app.host.plans()[0].layers, ["sha256:layer"]);

    app.control
        .update_environment(
            &app.admin,
            environment,
            &json!({"env_vars": {"A": "1"}}),
            None,
        )
        .await
        .unwrap();
    assert_eq!(
        refusal(app.admin.clone(), app.control.clone()).await,
        format!("{tree}/setup-runs"),
        "stale: start a run"
    );
    let row = row(&app, id).await;
    assert!(
        row.definition.env_vars.is_empty(),
        "a session keeps what it was started from"
    );
}

#[tokio::test]
async fn only_developers_and_admins_use_sessions_and_strangers_see_none() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let environment = row(&app, id).await.environment_id;
    let control = &app.control;
    let user = app.member(Role::User, "user@example.com").await;
    let stranger = TestApp::stranger();
    assert_eq!(
        control
            .list_sessions(&user, None)
            .await
            .unwrap()
            .sessions
            .len(),
        1
    );
    assert_eq!(
        control
            .list_sessions(&stranger, None)
            .await
            .unwrap()
            .sessions
            .len(),
        0
    );
    for (ctx, code) in [
        (&user, Code::Forbidden),
        (&stranger, Code::NotFound),
        (&TestApp::anonymous(), Code::Unauthorized),
    ] {
        let codes = [
            control.start_session(ctx, environment, None).await.err(),
            control.stop_session(ctx, id).await.err(),
            control.resume_session(ctx, id).await.err(),
            control.delete_session(ctx, id).await.err(),
            control.exec(ctx, id, sh("echo x")).await.err(),
            control.open_http_door(ctx, id).await.err(),
            control
                .open_terminal(
                    ctx,
                    id,
                    None,
                    domain::process::PtySize { cols: 80, rows: 24 },
                )
                .await
                .err(),
        ]
        .map(|error| error.unwrap().code());
        assert_eq!(codes, [code; 7]);
    }
    let developer = app.member(Role::Developer, "dev@example.com").await;
    control
        .exec_collected(&developer, id, sh("echo x"))
        .await
        .unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
}

#[tokio::test]
async fn live_sessions_of_an_organization_have_a_limit() {
    let app = TestApp::with(TestOptions {
        configure: |config| config.sessions_live_max = 1,
        ..TestOptions::default()
    })
    .await;
    let first = running(&app).await;
    let environment = app.environment("Other", "").await;
    let error = app
        .control
        .start_session(&app.admin, environment, None)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionLimit);
    assert_eq!(error.api().retry_after, Some(30));
    app.control.stop_session(&app.admin, first).await.unwrap();
    settled(&app, first).await;
    start(&app, environment).await;
    let error = app
        .control
        .resume_session(&app.admin, first)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionLimit);
}

#[tokio::test]
async fn without_a_worker_none_starts_and_the_answer_says_why() {
    let app = TestApp::with(TestOptions {
        sessions: false,
        ..TestOptions::default()
    })
    .await;
    let environment = app.environment("Plain", "").await;
    let error = app
        .control
        .start_session(&app.admin, environment, None)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::ServiceUnavailable);
    assert!(error.api().message.contains("no worker"), "{error}");
    let page = app.control.sessions_page(&app.admin).await.unwrap();
    assert!(page.unavailable.contains("no worker"));
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_leaves_nothing() {
    let app = TestApp::start().await;
    let environment = app.environment("Plain", "").await;
    app.host
        .refuse_start(HostError::Capacity("2 of 2 are taken.".to_owned()));
    let id = start(&app, environment).await;
    let failed = settled(&app, id).await;
    assert_eq!(failed.status, Status::Failed);
    assert!(
        failed.message.contains("2 of 2 are taken."),
        "{}",
        failed.message
    );
    let error = app
        .control
        .resume_session(&app.admin, id)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionNotRunning);
    app.control.delete_session(&app.admin, id).await.unwrap();
    gone(&app, id).await;
}

#[tokio::test]
async fn a_resume_that_fails_keeps_the_disk() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    app.control.stop_session(&app.admin, id).await.unwrap();
    settled(&app, id).await;
    app.host
        .refuse_start(HostError::Other("secret path".to_owned()));
    app.control.resume_session(&app.admin, id).await.unwrap();
    let stopped = settled(&app, id).await;
    assert_eq!(stopped.status, Status::Stopped);
    assert!(!stopped.message.contains("secret path"));
    app.control.resume_session(&app.admin, id).await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_stopped_and_one_in_use_is_not() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    app.clock.advance(Duration::from_secs(1_799));
    app.control.tick_sessions().await.unwrap();
    app.control
        .exec_collected(&app.admin, id, sh("echo x"))
        .await
        .unwrap();
    app.clock.advance(Duration::from_secs(1_799));
    app.control.tick_sessions().await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
    let mut busy = app.control.exec(&app.admin, id, sh("sleep")).await.unwrap();
    assert!(futures::poll!(std::pin::pin!(busy.next())).is_pending());
    app.clock.advance(Duration::from_secs(7_200));
    app.control.tick_sessions().await.unwrap();
    assert_eq!(
        settled(&app, id).await.status,
        Status::Running,
        "a command runs"
    );
    drop(busy);
    assert_eq!(app.host.killed(), 1);
    // The wall clock alone stops nothing.
    app.clock.jump_wall(86_400);
    app.control.tick_sessions().await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
    app.clock.advance(Duration::from_secs(1_800));
    app.control.tick_sessions().await.unwrap();
    let stopped = settled(&app, id).await;
    assert_eq!(stopped.status, Status::Stopped);
    assert!(
        stopped.message.contains("30 minutes"),
        "{}",
        stopped.message
    );
    let last = actions(&app).await.pop().unwrap();
    assert_eq!(last, ("session.stop".to_owned(), "sessions".to_owned()));
}

#[tokio::test]
async fn a_sandboxs_whole_life_ends_it_however_busy_it_is() {
    let app = TestApp::start().await;
    let environment = app
        .control
        .create_environment(
            &app.admin,
            &json!({"name": "Short", "resources": {"timeout_seconds": 600}}),
            None,
        )
        .await
        .unwrap()
        .value
        .environment_id;
    let id = start(&app, environment).await;
    settled(&app, id).await;
    app.clock.advance(Duration::from_secs(599));
    app.control
        .exec_collected(&app.admin, id, sh("echo x"))
        .await
        .unwrap();
    app.control.tick_sessions().await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
    app.clock.advance(Duration::from_secs(1));
    app.control.tick_sessions().await.unwrap();
    let stopped = settled(&app, id).await;
    assert_eq!(stopped.status, Status::Stopped);
    assert!(
        stopped.message.contains("its life of 10 minutes"),
        "{}",
        stopped.message
    );
}
