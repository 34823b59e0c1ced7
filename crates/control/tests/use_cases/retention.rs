//! Old things go when they are old, not when the wall clock says so for a moment.

use std::time::Duration;

use control::{
    Keyed,
    ports::{Clock as _, rows::WebSessionRow},
    setup_runs::LogQuery,
};
use domain::ids::{EnvironmentId, SetupRunId};
use testkit::{Moment, TestApp, create_body};
use wire::error::Code;

use crate::code;

const DAY: i64 = 86_400;

fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

fn key() -> Option<Keyed> {
    Some(Keyed::new("k", "POST", "/managed-agents/v1/environments", "", b"a").unwrap())
}

/// A run that has ended.
async fn ended(app: &TestApp) -> (EnvironmentId, SetupRunId) {
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    (id, run)
}

async fn has_log(app: &TestApp, (id, run): (EnvironmentId, SetupRunId)) -> bool {
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    let query = LogQuery::default();
    let page = app.control.setup_run_log(&app.admin, id, run, query).await;
    let lines = page.unwrap().lines.len();
    assert_eq!(view.log.removed_at.is_none(), lines > 1, "{lines}");
    view.log.removed_at.is_none()
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_removes_no_log_no_receipt_and_no_sign_in() {
    let app = TestApp::start().await;
    let run = ended(&app).await;
    let body = create_body("two", "");
    let create = || app.control.create_environment(&app.admin, &body, key());
    assert!(!create().await.unwrap().replayed);
    let before = app.clock.now();
    let row = WebSessionRow {
        id_hash: "h".to_owned(),
        data: "{}".to_owned(),
        expires_at: before.plus_seconds(60),
    };
    app.store.inner().save_web_session(&row).await.unwrap();
    for jump in [91 * DAY, -180 * DAY, 89 * DAY] {
        app.clock.jump_wall(jump);
        assert_eq!(app.control.tick_retention().await.unwrap(), 0, "{jump}");
        assert!(has_log(&app, run).await, "{jump}");
        assert!(create().await.unwrap().replayed, "{jump}");
        let kept = app.store.inner().web_session("h", before).await.unwrap();
        assert_eq!(kept, Some(row.clone()), "{jump}");
    }
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_hands_no_request_under_way_to_another() {
    let app = TestApp::start().await;
    let body = create_body("one", "");
    let (control, ctx, twin) = (app.control.clone(), app.admin.clone(), body.clone());
    let clock = app.clock.clone();
    app.store
        .once(Moment::Before("insert_environment"), move || async move {
            clock.jump_wall(2 * DAY);
            let answer = control.create_environment(&ctx, &twin, key()).await;
            assert_eq!(code(answer), Code::IdempotencyInProgress);
            Ok(())
        });
    let first = app.control.create_environment(&app.admin, &body, key());
    assert!(!first.await.unwrap().replayed);
    assert!(app.store.all_used());
}

#[tokio::test]
async fn a_restart_does_not_make_a_jump_of_the_wall_clock_true_but_days_do() {
    let mut app = TestApp::start().await;
    let run = ended(&app).await;
    assert_eq!(app.control.tick_retention().await.unwrap(), 0);
    app.clock.jump_wall(91 * DAY);
    for _ in 0..3 {
        app.restart();
        assert_eq!(app.control.tick_retention().await.unwrap(), 0);
        assert!(has_log(&app, run).await);
    }
    // Nobody puts the clock right, so that it must be.
    app.clock.advance(days(10));
    app.control.tick_retention().await.unwrap();
    assert!(has_log(&app, run).await, "not yet");
    app.clock.advance(days(2));
    app.control.tick_retention().await.unwrap();
    assert!(!has_log(&app, run).await);
}

#[tokio::test]
async fn a_server_that_was_off_for_a_month_removes_what_is_past_its_time_within_days() {
    let mut app = TestApp::start().await;
    let run = ended(&app).await;
    app.clock.advance(days(70));
    app.control.tick_retention().await.unwrap();
    app.clock.jump_wall(30 * DAY);
    app.restart();
    app.control.tick_retention().await.unwrap();
    assert!(has_log(&app, run).await);
    app.clock.advance(days(3));
    app.control.tick_retention().await.unwrap();
    assert!(!has_log(&app, run).await);
}
