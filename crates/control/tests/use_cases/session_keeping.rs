//! Sessions: what is kept of them, for how long, and that rows and worker agree.

use std::time::Duration;

use control::Secret;
use domain::{
    process::Sample,
    session::{Status, Wish},
};
use serde_json::json;
use testkit::TestApp;
use wire::{error::Code, session_host::Presence};

use crate::sessions::{gone, row, running, settled, sh, start};

#[tokio::test]
async fn a_stopped_workspace_is_kept_as_long_as_said_also_over_a_restart() {
    let mut app = TestApp::start().await;
    let environment = app
        .control
        .create_environment(
            &app.admin,
            &json!({"name": "Kept", "stopped_delete_after_seconds": 3_600}),
            None,
        )
        .await
        .unwrap()
        .value
        .environment_id;
    let id = start(&app, environment).await;
    settled(&app, id).await;
    app.control.stop_session(&app.admin, id).await.unwrap();
    settled(&app, id).await;
    app.control.tick_sessions().await.unwrap();
    app.clock.advance(Duration::from_secs(1_800));
    app.control.tick_sessions().await.unwrap();
    app.restart();
    app.control.tick_sessions().await.unwrap();
    app.clock.jump_wall(1_000_000);
    app.control.tick_sessions().await.unwrap();
    app.clock.advance(Duration::from_secs(1_799));
    app.control.tick_sessions().await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Stopped);
    app.clock.advance(Duration::from_secs(1));
    app.control.tick_sessions().await.unwrap();
    gone(&app, id).await;
}

#[tokio::test]
async fn after_a_restart_rows_and_worker_agree() {
    let mut app = TestApp::start().await;
    let kept = running(&app).await;
    let lost = running(&app).await;
    let deleted = running(&app).await;
    let half = running(&app).await;
    app.host.put_all(Presence::Kept);
    app.host
        .put(row(&app, lost).await.sandbox_id, Presence::Absent);
    // Asked for, and the process died before it was done.
    let store = app.control.store().clone();
    for (id, status, wish) in [
        (deleted, Status::Running, Some(Wish::Delete)),
        (half, Status::Provisioning, None),
    ] {
        let mut row = row(&app, id).await;
        let expected = row.version;
        row.version += 1;
        row.state.status = status;
        row.state.wish = wish;
        let written = store
            .update_session(expected, &row, control::ports::Effects::default())
            .await;
        assert_eq!(written.unwrap(), control::ports::Written::Done);
    }
    app.restart();
    app.control.tick_sessions().await.unwrap();
    let stopped = settled(&app, kept).await;
    assert_eq!(stopped.status, Status::Stopped);
    assert!(
        stopped.message.contains("files are kept"),
        "{}",
        stopped.message
    );
    let failed = settled(&app, lost).await;
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.message.contains("lost"), "{}", failed.message);
    gone(&app, deleted).await;
    assert_eq!(settled(&app, half).await.status, Status::Running);
    app.control.resume_session(&app.admin, kept).await.unwrap();
    assert_eq!(settled(&app, kept).await.status, Status::Running);
}

#[tokio::test]
async fn deleting_an_environment_deletes_its_sessions_also_when_the_process_dies_in_between() {
    let mut app = TestApp::start().await;
    let id = running(&app).await;
    let environment = row(&app, id).await.environment_id;
    let other = running(&app).await;
    // Dies right after the environment is gone.
    app.store
        .die_once(testkit::Moment::After("delete_environment"));
    let control = app.control.clone();
    let ctx = app.admin.clone();
    let died = tokio::spawn(async move { control.delete_environment(&ctx, environment).await });
    app.eventually("the environment is gone", || async {
        let found = app.control.get_environment(&app.admin, environment).await;
        found.is_err().then_some(())
    })
    .await;
    died.abort();
    app.restart();
    app.control.tick_sessions().await.unwrap();
    gone(&app, id).await;
    let second = row(&app, other).await.environment_id;
    app.control
        .delete_environment(&app.admin, second)
        .await
        .unwrap();
    gone(&app, other).await;
}

#[tokio::test]
async fn what_a_session_uses_is_measured_and_kept_for_an_hour() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    for round in 0..725_u64 {
        app.host.uses(Sample {
            cpu_millis: round * 2_500,
            memory_used: round,
            memory_limit: 9,
            disk_used: 1,
            disk_size: 2,
            processes: 3,
        });
        app.control.tick_sessions().await.unwrap();
        // Someone works in it.
        app.control
            .exec_collected(&app.admin, id, sh("echo x"))
            .await
            .unwrap();
        app.clock.advance(Duration::from_secs(5));
    }
    let samples = app
        .control
        .session_samples(&app.admin, id)
        .await
        .unwrap()
        .samples;
    assert_eq!(samples.len(), 720);
    let last = samples.last().unwrap();
    assert_eq!(
        (last.memory_used, last.cpu_milli, last.processes),
        (724, 500, 3)
    );
    let shown = app.control.get_session(&app.admin, id, None).await.unwrap();
    assert_eq!(shown.usage.as_ref(), Some(last));
}

#[tokio::test]
async fn a_keyed_start_is_replayed() {
    let app = TestApp::start().await;
    let environment = app.environment("Plain", "").await;
    let key = || control::Keyed::new("k", "POST", "/sessions", "", b"{}").ok();
    let first = app
        .control
        .start_session(&app.admin, environment, key())
        .await
        .unwrap();
    let again = app
        .control
        .start_session(&app.admin, environment, key())
        .await
        .unwrap();
    assert!(again.replayed);
    assert_eq!(first.body, again.body);
    assert_eq!(
        app.control
            .list_sessions(&app.admin, None)
            .await
            .unwrap()
            .sessions
            .len(),
        1
    );
}

#[tokio::test]
async fn a_stop_that_comes_before_anything_was_begun_leaves_what_can_be_resumed() {
    let mut app = TestApp::start().await;
    let id = running(&app).await;
    let mut row = row(&app, id).await;
    app.host.put(row.sandbox_id, Presence::Absent);
    // As it is written down between the two calls.
    let expected = row.version;
    row.version += 1;
    row.state.status = Status::Provisioning;
    row.state.wish = Some(Wish::Stop);
    row.started_at = None;
    let store = app.control.store().clone();
    let written = store
        .update_session(expected, &row, control::ports::Effects::default())
        .await;
    assert_eq!(written.unwrap(), control::ports::Written::Done);
    app.restart();
    app.control.tick_sessions().await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Stopped);
    app.control.resume_session(&app.admin, id).await.unwrap();
    assert_eq!(settled(&app, id).await.status, Status::Running);
}

#[tokio::test]
async fn a_wish_that_comes_while_it_starts_is_fulfilled() {
    let app = TestApp::start().await;
    let environment = app.environment("Plain", "").await;
    app.host.let_start(false);
    let stopped = start(&app, environment).await;
    let deleted = start(&app, environment).await;
    app.control.stop_session(&app.admin, stopped).await.unwrap();
    app.control
        .delete_session(&app.admin, deleted)
        .await
        .unwrap();
    let error = app
        .control
        .resume_session(&app.admin, stopped)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionNotRunning);
    app.host.let_start(true);
    assert_eq!(settled(&app, stopped).await.status, Status::Stopped);
    gone(&app, deleted).await;
}

#[tokio::test]
async fn a_resumed_session_is_given_the_secrets_that_are_set_now() {
    let app = TestApp::start().await;
    let environment = app.environment("E", "").await;
    let set = async |value: &str| {
        let value = Secret::new(value);
        let set = app
            .control
            .set_secret(&app.admin, environment, "TOKEN", &value);
        set.await.unwrap();
    };
    let given = || {
        let plans = app.host.plans();
        plans.last().unwrap().secrets.expose().get("TOKEN").cloned()
    };
    set("the first value").await;
    let id = start(&app, environment).await;
    assert_eq!(settled(&app, id).await.status, Status::Running);
    assert_eq!(given().as_deref(), Some("the first value"));
    set("another value").await;
    for now in [Some("another value"), None] {
        app.control.stop_session(&app.admin, id).await.unwrap();
        assert_eq!(settled(&app, id).await.status, Status::Stopped);
        if now.is_none() {
            let removed = app.control.delete_secret(&app.admin, environment, "TOKEN");
            removed.await.unwrap();
        }
        app.control.resume_session(&app.admin, id).await.unwrap();
        assert_eq!(settled(&app, id).await.status, Status::Running);
        assert_eq!(given().as_deref(), now);
    }
}
