//! Server processes on one database, each with what it hears itself and what the rows tell of the others.

use std::time::Duration;

use control::Control;
use domain::{
    ids::SetupRunId,
    setup_run::{FailureCode, Phase, Status},
};
use testkit::{TestApp, TestWorker};
use wire::worker::{CapturedImage, Gateway as _, Order, RunOutcome};

const STEP: Duration = Duration::from_secs(10);

/// The other process: the test's own one is made anew over the same database, and both go on.
fn another(app: &mut TestApp) -> Control {
    let first = app.control.clone();
    app.restart();
    first
}

async fn status(app: &TestApp, run: SetupRunId) -> Status {
    let row = app.store.inner().run(run).await.unwrap().unwrap();
    row.state.status
}

#[tokio::test]
async fn every_run_that_waits_ends_at_its_deadline_whoever_admitted_it() {
    let mut app = TestApp::start().await;
    let mut runs = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let id = app.environment(name, "true").await;
        runs.push(app.run(id).await);
    }
    another(&mut app);
    assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    app.clock.advance(Duration::from_secs(599));
    assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.control.tick_leases().await.unwrap(), 4);
    for run in runs {
        let row = app.store.inner().run(run).await.unwrap().unwrap();
        let code = row.record.failure_code;
        assert_eq!(code, Some(FailureCode::SandboxCapacityUnavailable));
    }
}

#[tokio::test]
async fn a_run_that_waits_anew_holds_up_no_deadline_of_those_behind_it() {
    let app = TestApp::start().await;
    let (a, b) = (
        app.environment("a", "true").await,
        app.environment("b", "true").await,
    );
    let tried = app.run(a).await;
    let behind = app.run(b).await;
    app.clock.advance(Duration::from_secs(570));
    let held = app.worker("w").await.claim().await.held;
    assert_eq!(held.setup_run_id, tried);
    app.clock.advance(Duration::from_secs(20));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1, "it is lost");
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
    assert_eq!(status(&app, tried).await, Status::Provisioning);
    assert_eq!(status(&app, behind).await, Status::Failed);
}

#[tokio::test]
async fn a_run_waits_for_the_busy_worker_of_another_server_as_for_ones_own() {
    let mut app = TestApp::start().await;
    let worker = app.worker("w").await;
    another(&mut app);
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let mut waited = Duration::ZERO;
    while waited < Duration::from_secs(1_800) {
        // Busy with other things: heard of, but takes nothing.
        worker.gateway.heartbeat(worker.id, &[]).await.unwrap();
        assert_eq!(app.control.tick_leases().await.unwrap(), 0, "{waited:?}");
        app.clock.advance(STEP);
        waited += STEP;
    }
    assert_eq!(status(&app, run).await, Status::Queued);
    // Nobody hears it any more.
    app.control.tick_leases().await.unwrap();
    app.clock.advance(Duration::from_secs(20));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
    assert_eq!(status(&app, run).await, Status::Failed);
}

#[tokio::test]
async fn a_wall_clock_that_is_put_back_makes_no_worker_of_another_server_look_lost() {
    let mut app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    another(&mut app);
    for round in 0..12 {
        if round == 3 {
            app.clock.jump_wall(-3_600);
        }
        assert_eq!(worker.beat(held).await, Order::Continue, "{round}");
        assert_eq!(app.control.tick_leases().await.unwrap(), 0, "{round}");
        app.clock.advance(STEP);
    }
    // Silence is still silence.
    app.control.tick_leases().await.unwrap();
    app.clock.advance(Duration::from_secs(20));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
}

async fn report(worker: &TestWorker, layers: &[&str]) {
    let layers: Vec<String> = layers.iter().map(|name| (*name).to_owned()).collect();
    let runner = TestWorker::runner_image("runner");
    let condemned = worker
        .gateway
        .report_images(worker.id, &layers, Some(&runner))
        .await;
    assert_eq!(condemned.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_image_on_a_worker_of_another_server_is_not_missing_while_that_worker_lives_or_is_started_anew()
 {
    let mut app = TestApp::start().await;
    let theirs = app.worker("theirs").await;
    another(&mut app);
    let ours = app.worker("ours").await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let held = theirs.claim().await.held;
    for phase in [Phase::Setup, Phase::Profile, Phase::Commit, Phase::Cleanup] {
        theirs.reach(held, phase).await.unwrap();
    }
    let outcome = RunOutcome {
        image: Some(CapturedImage {
            digest: "sha256:a".to_owned(),
            size_bytes: 10,
            base_image_digest: "sha256:runner".to_owned(),
        }),
        ..TestWorker::passed()
    };
    theirs.gateway.finish(held, outcome).await.unwrap();
    let usable = async || {
        let read = app.control.get_environment(&app.admin, id).await.unwrap();
        read.setup_verification.image.unwrap().usable
    };
    for _ in 0..10 {
        app.clock.advance(Duration::from_secs(60));
        for worker in [&theirs, &ours] {
            worker.gateway.heartbeat(worker.id, &[]).await.unwrap();
        }
        report(&theirs, &["sha256:a"]).await;
        report(&ours, &[]).await;
        assert!(usable().await);
    }
    // Their server goes; ours looks on.
    let mut away = 0;
    while usable().await {
        app.clock.advance(Duration::from_secs(60));
        report(&ours, &[]).await;
        away += 1;
        assert!(away < 100);
    }
    // An hour, and the time that an image is looked for.
    assert_eq!(away, 62);
}
