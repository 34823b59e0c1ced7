//! The runner image below a verified image has changed: one run prepares it anew, for all who wait.

use domain::{
    ids::{EnvironmentId, SessionId},
    session::Status,
    setup_run::{Kind, Phase},
};
use testkit::{TestApp, TestWorker};
use wire::{
    sessions::Session,
    worker::{CapturedImage, Gateway, Held, RunOutcome},
};

use crate::sessions::{settled, start};

fn passed(digest: &str, base: &str) -> RunOutcome {
    RunOutcome {
        image: Some(CapturedImage {
            digest: format!("sha256:{digest}"),
            size_bytes: 10,
            base_image_digest: format!("sha256:{base}"),
        }),
        ..TestWorker::passed()
    }
}

async fn finish(worker: &TestWorker, held: Held, outcome: RunOutcome) {
    for phase in [Phase::Setup, Phase::Profile, Phase::Commit, Phase::Cleanup] {
        worker.reach(held, phase).await.unwrap();
    }
    worker.gateway.finish(held, outcome).await.unwrap();
}

/// An environment that was verified on a runner image which the worker no longer has.
async fn outdated(app: &TestApp) -> (TestWorker, EnvironmentId) {
    // The session host's own name.
    let worker = app.worker("worker-1").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    finish(&worker, worker.claim().await.held, passed("old", "before")).await;
    (worker, id)
}

async fn read(app: &TestApp, id: SessionId) -> Session {
    app.control.get_session(&app.admin, id, None).await.unwrap()
}

#[tokio::test]
async fn one_run_prepares_the_image_anew_for_all_who_wait() {
    let app = TestApp::start().await;
    let (worker, environment) = outdated(&app).await;
    let first = start(&app, environment).await;
    let second = start(&app, environment).await;
    let waiting = read(&app, first).await;
    assert_eq!(waiting.status, Status::Provisioning);
    assert!(waiting.message.contains("runner image has changed"));
    let run = waiting.setup_run_id.unwrap();
    assert_eq!(read(&app, second).await.setup_run_id, Some(run));
    app.control.tick_sessions().await.unwrap();
    assert_eq!(read(&app, first).await.status, Status::Provisioning);
    let assignment = worker.claim().await;
    assert_eq!(assignment.kind, Kind::RunnerRefresh);
    assert_eq!(assignment.held.setup_run_id, run);
    assert!(worker.try_claim().await.is_none(), "one run for both");
    let verdict = app.control.get_environment(&app.admin, environment).await;
    assert_eq!(verdict.unwrap().setup_verification.status, "verified");
    finish(&worker, assignment.held, passed("new", "runner")).await;
    // At once: nothing else looks at them meanwhile.
    for id in [first, second] {
        let session = settled(&app, id).await;
        assert_eq!(session.status, Status::Running, "{}", session.message);
        assert_eq!(session.image.unwrap().setup_run_id, run);
    }
    let row = app.control.store().session(app.organization, first).await;
    assert_eq!(row.unwrap().unwrap().record.layers, ["sha256:new"]);
    // From now on nothing is to be waited for.
    let third = settled(&app, start(&app, environment).await).await;
    assert_eq!((third.status, third.setup_run_id), (Status::Running, None));
}

#[tokio::test]
async fn a_refresh_that_fails_fails_those_who_wait_with_its_link_and_leaves_the_verdict() {
    let app = TestApp::start().await;
    let (worker, environment) = outdated(&app).await;
    let waiting = start(&app, environment).await;
    let held = worker.claim().await.held;
    worker.fail(held).await;
    app.control.tick_sessions().await.unwrap();
    let session = settled(&app, waiting).await;
    assert_eq!(session.status, Status::Failed);
    assert_eq!(session.setup_run_id, Some(held.setup_run_id));
    assert!(
        session.message.contains("Line 1 failed with exit code 127"),
        "{}",
        session.message
    );
    let verdict = app
        .control
        .get_environment(&app.admin, environment)
        .await
        .unwrap()
        .setup_verification;
    assert_eq!(verdict.status, "verified");
    assert!(verdict.image.unwrap().image.ends_with("sha256:old"));
}

#[tokio::test]
async fn a_manual_run_in_flight_is_waited_for_and_cancelling_it_fails_the_session() {
    let app = TestApp::start().await;
    let (worker, environment) = outdated(&app).await;
    let run = app.run(environment).await;
    let waiting = start(&app, environment).await;
    assert_eq!(read(&app, waiting).await.setup_run_id, Some(run));
    app.control
        .cancel_setup_run(&app.admin, environment, run)
        .await
        .unwrap();
    assert!(worker.try_claim().await.is_none());
    app.control.tick_sessions().await.unwrap();
    let session = settled(&app, waiting).await;
    assert_eq!(session.status, Status::Failed);
    assert!(session.message.contains("cancelled"), "{}", session.message);
}

#[tokio::test]
async fn a_session_that_waits_can_be_stopped() {
    let app = TestApp::start().await;
    let (_worker, environment) = outdated(&app).await;
    let waiting = start(&app, environment).await;
    app.control
        .delete_session(&app.admin, waiting)
        .await
        .unwrap();
    app.eventually("the session is deleted", || async {
        let found = app.control.get_session(&app.admin, waiting, None).await;
        found.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_runner_image_that_is_replaced_beside_a_working_worker_counts_from_its_next_report() {
    let app = TestApp::start().await;
    let worker = app.worker("worker-1").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    finish(&worker, worker.claim().await.held, passed("a", "runner")).await;
    let before = settled(&app, start(&app, id).await).await;
    assert_eq!(
        (before.status, before.setup_run_id),
        (Status::Running, None)
    );
    // Its layers are mounted over the image that they were made on, whatever bears the reference by then.
    let plans = app.host.plans();
    let plan = plans.last().unwrap();
    assert_eq!(plan.layers, ["sha256:a"]);
    assert_eq!(plan.base_digest.as_deref(), Some("sha256:runner"));

    let held = ["sha256:a".to_owned(), "sha256:runner".to_owned()];
    let newer = TestWorker::runner_image("newer");
    let report = worker.gateway.report_images(worker.id, &held, Some(&newer));
    report.await.unwrap();
    let waiting = start(&app, id).await;
    let run = read(&app, waiting).await.setup_run_id.unwrap();
    let assignment = worker.claim().await;
    assert_eq!(
        (assignment.held.setup_run_id, assignment.kind),
        (run, Kind::RunnerRefresh)
    );
    finish(&worker, assignment.held, passed("b", "newer")).await;
    assert_eq!(settled(&app, waiting).await.status, Status::Running);
    let plans = app.host.plans();
    assert_eq!(
        plans.last().unwrap().base_digest.as_deref(),
        Some("sha256:newer")
    );
    // And no session waits for another one.
    let after = settled(&app, start(&app, id).await).await;
    assert_eq!((after.status, after.setup_run_id), (Status::Running, None));
}
