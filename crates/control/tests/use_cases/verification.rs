//! The verdict as runs start, end and are cancelled, and as definitions change meanwhile.

use domain::{ids::EnvironmentId, setup_run::Phase, verification::SetupBadge};
use serde_json::json;
use testkit::{TestApp, TestWorker};
use wire::{managed_agents::SetupVerification, worker::Gateway as _};

async fn verdict(app: &TestApp, id: EnvironmentId) -> SetupVerification {
    app.control
        .get_environment(&app.admin, id)
        .await
        .unwrap()
        .setup_verification
}

async fn badge(app: &TestApp, id: EnvironmentId) -> SetupBadge {
    app.control
        .environment_page(&app.admin, id)
        .await
        .unwrap()
        .badge
}

async fn edit(app: &TestApp, id: EnvironmentId, script: &str) {
    app.control
        .update_environment(&app.admin, id, &json!({"setup": {"script": script}}), None)
        .await
        .unwrap();
}

/// An environment, verified.
async fn verified(app: &TestApp, worker: &TestWorker) -> EnvironmentId {
    let id = app.environment("one", "true").await;
    app.run(id).await;
    worker.pass(worker.claim().await.held).await;
    id
}

#[tokio::test]
async fn from_never_over_running_to_verified_with_an_image() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    assert_eq!(verdict(&app, id).await.status, "never");
    assert_eq!(badge(&app, id).await, SetupBadge::NotTested);
    let run = app.run(id).await;
    let running = verdict(&app, id).await;
    assert_eq!(running.status, "running");
    assert_eq!(running.active_setup_run_id, Some(run));
    assert_eq!(badge(&app, id).await, SetupBadge::Testing);
    worker.pass(worker.claim().await.held).await;
    let done = verdict(&app, id).await;
    assert_eq!(done.status, "verified");
    assert!(!done.stale);
    assert_eq!(done.active_setup_run_id, None);
    assert_eq!(done.setup_run_id, Some(run));
    assert_eq!(
        done.verified_by_user_id,
        Some(app.admin.member().unwrap().user_id)
    );
    let image = done.image.unwrap();
    assert_eq!(image.generation, 1);
    assert!(image.usable);
    assert!(image.image.ends_with("@sha256:layer"));
    assert_eq!(image.runner_image, "groundwork/runner:full");
    assert_eq!(done.last_run.unwrap().exit_code, Some(0));
    assert_eq!(badge(&app, id).await, SetupBadge::Verified);
}

#[tokio::test]
async fn a_failed_run_makes_it_failed_and_says_why() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "nope").await;
    app.run(id).await;
    worker.fail(worker.claim().await.held).await;
    let verdict = verdict(&app, id).await;
    assert_eq!(verdict.status, "failed");
    assert_eq!(verdict.verified_by_user_id, None);
    assert_eq!(verdict.last_run.unwrap().failed_line, Some(1));
    assert_eq!(badge(&app, id).await, SetupBadge::Failed);
}

#[tokio::test]
async fn testing_again_what_is_verified_keeps_it_verified_until_the_new_verdict() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = verified(&app, &worker).await;
    let run = app.run(id).await;
    let again = verdict(&app, id).await;
    assert_eq!(again.status, "verified");
    assert_eq!(again.active_setup_run_id, Some(run));
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.badge, SetupBadge::Retesting);
    assert!(page.usable, "sessions go on starting");
    worker.fail(worker.claim().await.held).await;
    assert_eq!(verdict(&app, id).await.status, "failed");
}

#[tokio::test]
async fn each_image_is_one_generation_further_whatever_happens_in_between() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = verified(&app, &worker).await;
    app.run(id).await;
    worker.fail(worker.claim().await.held).await;
    let run = app.run(id).await;
    app.control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    app.run(id).await;
    worker.pass(worker.claim().await.held).await;
    assert_eq!(verdict(&app, id).await.image.unwrap().generation, 2);
}

#[tokio::test]
async fn an_edit_makes_it_stale_and_undoing_the_edit_makes_it_current() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = verified(&app, &worker).await;
    edit(&app, id, "false").await;
    let stale = verdict(&app, id).await;
    assert_eq!((stale.status.as_str(), stale.stale), ("verified", true));
    assert_eq!(badge(&app, id).await, SetupBadge::Stale);
    edit(&app, id, "true").await;
    assert!(!verdict(&app, id).await.stale);
    // What is not part of the fingerprint changes nothing.
    app.control
        .update_environment(
            &app.admin,
            id,
            &json!({"name": "other", "description": "d", "metadata": {"a": 1}, "http_port": 80}),
            None,
        )
        .await
        .unwrap();
    assert!(!verdict(&app, id).await.stale);
}

#[tokio::test]
async fn a_run_of_what_is_stale_shows_as_running() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = verified(&app, &worker).await;
    edit(&app, id, "false").await;
    app.run(id).await;
    assert_eq!(verdict(&app, id).await.status, "running");
}

#[tokio::test]
async fn an_edit_while_a_run_is_in_flight_leaves_its_verdict_stale_at_once() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let held = worker.claim().await.held;
    edit(&app, id, "false").await;
    worker.pass(held).await;
    let done = verdict(&app, id).await;
    assert_eq!((done.status.as_str(), done.stale), ("verified", true));
    edit(&app, id, "true").await;
    assert!(
        !verdict(&app, id).await.stale,
        "the verdict is about what it tested"
    );
}

#[tokio::test]
async fn the_plan_is_what_was_saved_when_the_run_was_admitted() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    edit(&app, id, "false").await;
    assert_eq!(worker.claim().await.plan.script, "true\n");
}

#[tokio::test]
async fn removing_the_script_while_a_run_is_in_flight_records_nothing() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let held = worker.claim().await.held;
    edit(&app, id, "").await;
    assert_eq!(verdict(&app, id).await.status, "not_applicable");
    worker.pass(held).await;
    let done = verdict(&app, id).await;
    assert_eq!(done.status, "not_applicable");
    assert_eq!(done.active_setup_run_id, None);
    assert_eq!(done.image, None);
}

#[tokio::test]
async fn adding_a_script_where_there_was_none_makes_it_never() {
    let app = TestApp::start().await;
    let id = app.environment("plain", "").await;
    edit(&app, id, "true").await;
    assert_eq!(verdict(&app, id).await.status, "never");
}

#[tokio::test]
async fn a_cancelled_run_records_nothing() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    // Never tested: back to never.
    let fresh = app.environment("fresh", "true").await;
    let run = app.run(fresh).await;
    app.control
        .cancel_setup_run(&app.admin, fresh, run)
        .await
        .unwrap();
    let never = verdict(&app, fresh).await;
    assert_eq!(
        (never.status.as_str(), never.active_setup_run_id),
        ("never", None)
    );
    // Verified and unchanged: still verified, by its old run.
    let id = verified(&app, &worker).await;
    let before = verdict(&app, id).await;
    let run = app.run(id).await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    app.control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    worker
        .gateway
        .finish(held, TestWorker::cancelled())
        .await
        .unwrap();
    assert_eq!(verdict(&app, id).await, before);
}

#[tokio::test]
async fn a_script_that_passed_without_an_image_is_verified_and_not_usable() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Commit).await.unwrap();
    worker
        .gateway
        .finish(held, TestWorker::passed_without_image())
        .await
        .unwrap();
    let done = verdict(&app, id).await;
    assert_eq!(done.status, "verified");
    let capture = done.image_capture.unwrap();
    assert_eq!(
        (capture.status.as_str(), capture.setup_run_id),
        ("failed", run)
    );
    assert_eq!(capture.reason.as_deref(), Some("no_space"));
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.badge, SetupBadge::NoImage);
    assert!(!page.usable);
    let view = page.last_run.unwrap();
    assert_eq!(
        view.outcome.as_deref(),
        Some("Setup passed, but its reusable image failed.")
    );
}
