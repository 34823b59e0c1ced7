//! Keyed requests: replay, conflict, in progress, and crashes at every moment.

use std::time::Duration;

use control::{Keyed, ports::Clock as _};
use serde_json::json;
use testkit::{Moment, TestApp, create_body};
use wire::error::Code;

use crate::{code, refused};

fn key(name: &str, body: &str) -> Option<Keyed> {
    Some(
        Keyed::new(
            name,
            "POST",
            "/managed-agents/v1/environments",
            "",
            body.as_bytes(),
        )
        .unwrap(),
    )
}

async fn count(app: &TestApp) -> usize {
    app.control
        .list_environments(&app.admin)
        .await
        .unwrap()
        .environments
        .map_or(0, |list| list.len())
}

#[tokio::test]
async fn the_same_request_is_answered_again_byte_for_byte_and_done_once() {
    let app = TestApp::start().await;
    let body = create_body("one", "true");
    let first = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    app.clock.advance(Duration::from_secs(600));
    let second = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.body, second.body);
    assert_eq!(first.status, second.status);
    assert_eq!(first.value, second.value);
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn a_key_used_for_another_request_is_a_conflict() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    app.control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    let other = app
        .control
        .create_environment(&app.admin, &body, key("k", "b"))
        .await;
    assert_eq!(code(other), Code::IdempotencyConflict);
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn a_request_under_way_is_told_with_a_time_to_try_again() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    let (control, ctx, twin) = (app.control.clone(), app.admin.clone(), body.clone());
    app.store
        .once(Moment::Before("insert_environment"), move || async move {
            let error = refused(control.create_environment(&ctx, &twin, key("k", "a")).await);
            assert_eq!(error.code(), Code::IdempotencyInProgress);
            assert_eq!(error.api().retry_after, Some(1));
            assert_eq!(error.api().details["retryable"], true);
            Ok(())
        });
    app.control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    assert!(app.store.all_used());
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn a_refused_request_lets_go_of_its_key() {
    let app = TestApp::start().await;
    let wrong = app
        .control
        .create_environment(&app.admin, &json!({"name": ""}), key("k", "a"))
        .await;
    assert_eq!(code(wrong), Code::InvalidRequest);
    let right = app
        .control
        .create_environment(&app.admin, &create_body("one", ""), key("k", "b"))
        .await
        .unwrap();
    assert!(!right.replayed);
}

#[tokio::test]
async fn killed_before_the_effect_nothing_is_done_and_the_claim_can_be_taken_over_after_an_hour() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    app.store.die_once(Moment::Before("insert_environment"));
    let killed = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await;
    assert_eq!(code(killed), Code::InternalError);
    assert_eq!(count(&app).await, 0);
    let soon = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await;
    assert_eq!(code(soon), Code::IdempotencyInProgress);
    app.clock.advance(Duration::from_secs(3_601));
    let later = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    assert!(!later.replayed);
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn killed_after_the_effect_the_receipt_is_there_and_nothing_is_doubled() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    app.store.die_once(Moment::After("insert_environment"));
    let killed = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await;
    assert_eq!(code(killed), Code::InternalError);
    let again = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    assert!(again.replayed);
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn an_answer_lost_after_the_commit_does_not_take_the_receipt_with_it() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    app.store.fail_once(Moment::After("insert_environment"));
    let lost = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await;
    assert_eq!(code(lost), Code::ServiceUnavailable);
    let again = app
        .control
        .create_environment(&app.admin, &body, key("k", "a"))
        .await
        .unwrap();
    assert!(
        again.replayed,
        "the effect had been committed with its receipt"
    );
    assert_eq!(count(&app).await, 1);
}

#[tokio::test]
async fn receipts_live_a_day() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    for (seconds, replayed) in [(0, false), (86_399, true), (2, false)] {
        app.clock.advance(Duration::from_secs(seconds));
        let answer = app
            .control
            .create_environment(&app.admin, &body, key("k", "a"))
            .await
            .unwrap();
        assert_eq!(answer.replayed, replayed, "after {seconds} s more");
    }
    assert!(app.control.tick_retention().await.is_ok());
    assert!(app.clock.monotonic() > Duration::ZERO);
}

#[tokio::test]
async fn updates_and_runs_are_keyed_too() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let patch = json!({"description": "d"});
    for replayed in [false, true] {
        let answer = app
            .control
            .update_environment(&app.admin, id, &patch, key("u", "a"))
            .await
            .unwrap();
        assert_eq!(answer.replayed, replayed);
    }
    // Even an update that changes nothing has its receipt.
    for replayed in [false, true] {
        let answer = app
            .control
            .update_environment(&app.admin, id, &patch, key("same", "a"))
            .await
            .unwrap();
        assert_eq!(answer.replayed, replayed);
    }
    let mut bodies = Vec::new();
    for replayed in [false, true] {
        let answer = app
            .control
            .start_setup_run(&app.admin, id, key("r", "a"))
            .await
            .unwrap();
        assert_eq!((answer.status, answer.replayed), (202, replayed));
        bodies.push(answer.body);
    }
    assert_eq!(bodies[0], bodies[1]);
    let runs = app
        .control
        .list_setup_runs(&app.admin, id, None)
        .await
        .unwrap();
    assert_eq!(runs.setup_runs.len(), 1);
}

#[tokio::test]
async fn a_run_admitted_just_before_a_crash_is_admitted_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.store.die_once(Moment::After("admit_run"));
    assert_eq!(
        code(
            app.control
                .start_setup_run(&app.admin, id, key("r", "a"))
                .await
        ),
        Code::InternalError
    );
    let again = app
        .control
        .start_setup_run(&app.admin, id, key("r", "a"))
        .await
        .unwrap();
    assert!(again.replayed);
    app.store.die_once(Moment::Before("admit_run"));
    let other = app.environment("two", "true").await;
    assert_eq!(
        code(
            app.control
                .start_setup_run(&app.admin, other, key("s", "a"))
                .await
        ),
        Code::InternalError
    );
    let read = app
        .control
        .get_environment(&app.admin, other)
        .await
        .unwrap();
    assert_eq!(read.setup_verification.status, "never");
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_leave_its_key_in_the_way() {
    let app = TestApp::start().await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    let (reached, at_insert) = tokio::sync::oneshot::channel::<()>();
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    app.store
        .once(Moment::Before("insert_environment"), move || async move {
            let _ = reached.send(());
            let _ = wait.await;
            Ok(())
        });
    let call = tokio::spawn(async move {
        control
            .create_environment(&ctx, &create_body("one", ""), key("k", "a"))
            .await
    });
    at_insert.await.unwrap();
    call.abort();
    let _ = call.await;
    let _ = go_on.send(());
    app.eventually("the effect happens although its caller is gone", || async {
        (count(&app).await == 1).then_some(())
    })
    .await;
    let again = app
        .control
        .create_environment(&app.admin, &create_body("one", ""), key("k", "a"))
        .await
        .unwrap();
    assert!(again.replayed);
}
