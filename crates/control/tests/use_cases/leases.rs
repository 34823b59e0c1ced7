//! What happens when somebody dies: leases run out, runs are tried again or end, the queue has a deadline, old things go.

use std::time::Duration;

use control::{
    ports::{Clock as _, rows::WebSessionRow},
    setup_runs::LogQuery,
};
use domain::{
    roles::Role,
    setup_run::{FailureCode, Phase, Status, Stream},
};
use testkit::TestApp;
use wire::{
    error::Code,
    worker::{Fault, Gateway as _, Order},
};

const LOST: Duration = Duration::from_secs(20);

async fn system_lines(
    app: &TestApp,
    id: domain::ids::EnvironmentId,
    run: domain::ids::SetupRunId,
) -> Vec<String> {
    let query = LogQuery::default();
    let page = app
        .control
        .setup_run_log(&app.admin, id, run, query)
        .await
        .unwrap();
    page.lines
        .into_iter()
        .filter(|line| line.stream == Stream::System)
        .map(|line| line.text)
        .collect()
}

#[tokio::test]
async fn heartbeats_keep_a_lease() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    for _ in 0..20 {
        app.clock.advance(Duration::from_secs(15));
        assert_eq!(worker.beat(held).await, Order::Continue);
        assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn reports_keep_a_lease_too() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    for seq in (assignment.next_seq..).take(5) {
        app.clock.advance(Duration::from_secs(15));
        worker.write(assignment.held, seq, &["x"]).await.unwrap();
        assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_lost_worker_is_replaced_twice_with_a_note_and_then_the_run_ends() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    for attempt in 1..=3 {
        let worker = app.worker(&format!("w{attempt}")).await;
        let held = worker.claim().await.held;
        assert_eq!(held.attempt, attempt);
        worker.reach(held, Phase::Setup).await.unwrap();
        app.clock.advance(LOST);
        assert_eq!(app.control.tick_leases().await.unwrap(), 1);
        assert_eq!(worker.beat(held).await, Order::Abandon);
        let read = app
            .control
            .get_setup_run(&app.admin, id, run, None)
            .await
            .unwrap();
        if attempt < 3 {
            assert_eq!(read.status, Status::Provisioning);
        } else {
            assert_eq!(read.status, Status::Failed);
            assert_eq!(read.failure_code, Some(FailureCode::SandboxLost));
            assert!(read.finished_at.is_some());
        }
    }
    let notes = system_lines(&app, id, run).await;
    assert_eq!(
        notes
            .iter()
            .filter(|note| note.contains("Trying again"))
            .count(),
        2,
        "{notes:?}"
    );
    assert!(notes.last().unwrap().contains("Not tried again"));
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.environment.setup_verification.status, "failed");
}

#[tokio::test]
async fn a_run_given_back_is_tried_again_at_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let fault = Fault {
        reason: "io_error".to_owned(),
        message: "The disk of the worker failed.".to_owned(),
    };
    worker.gateway.give_back(held, fault).await.unwrap();
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.status_label, "Waiting to be tried again");
    assert!(view.phases.iter().all(|step| step.started_at.is_none()));
    let again = worker.claim().await;
    assert_eq!(again.held.attempt, 2);
    assert_eq!(again.next_seq, 5);
    let notes = system_lines(&app, id, run).await;
    assert_eq!(
        notes[2],
        "The disk of the worker failed. Trying again (try 2 of 3)."
    );
    worker.pass(again.held).await;
}

#[tokio::test]
async fn a_cancelled_run_whose_worker_is_lost_ends_as_cancelled() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.claim().await;
    app.control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    app.clock.advance(LOST);
    app.control.tick_leases().await.unwrap();
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Cancelled);
    assert_eq!(read.failure_code, None);
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.environment.setup_verification.status, "never");
}

#[tokio::test]
async fn a_run_that_waits_to_be_tried_again_can_be_cancelled() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.claim().await;
    app.clock.advance(LOST);
    app.control.tick_leases().await.unwrap();
    let read = app
        .control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Cancelled);
}

#[tokio::test]
async fn an_admin_takes_a_run_from_a_worker_that_hangs() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let release = || app.control.release_setup_run(&app.admin, id, run);
    let waiting = release().await.unwrap_err();
    assert_eq!(waiting.code(), Code::InvalidRequest);
    let worker = app.worker("w").await;
    for attempt in 1..=3 {
        let held = worker.claim().await.held;
        assert_eq!(held.attempt, attempt);
        worker.reach(held, Phase::Setup).await.unwrap();
        app.clock.advance(Duration::from_secs(7));
        let listed = app.control.workers(&app.admin).await.unwrap();
        let [holds] = listed[0].held.as_slice() else {
            panic!("{listed:?}");
        };
        assert_eq!((holds.setup_run_id, holds.phase), (run, Phase::Setup));
        assert_eq!((holds.attempt, holds.silent_seconds), (attempt, 7));
        assert_eq!(holds.environment_name, "one");
        let released = release().await.unwrap();
        let expected = match attempt {
            3 => Status::Failed,
            _ => Status::Provisioning,
        };
        assert_eq!(released.status, expected);
        // Whatever it still says of the run counts no more.
        assert_ne!(worker.beat(held).await, Order::Continue);
        assert!(worker.write(held, 90, &["x"]).await.is_err());
    }
    let ended = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(ended.failure_code, Some(FailureCode::SandboxLost));
    let over = release().await.unwrap_err();
    assert_eq!(over.code(), Code::SetupRunFinished);
    let lines = system_lines(&app, id, run).await;
    assert!(
        lines.contains(
            &"An admin took this run away from its worker. Trying again (try 2 of 3).".to_owned()
        ),
        "{lines:#?}"
    );
    let audit = app.control.audit_log(&app.admin, None).await.unwrap();
    let releases = audit
        .items
        .iter()
        .filter(|item| item.action == "setup_run.release");
    assert_eq!(releases.count(), 3);
}

#[tokio::test]
async fn a_run_whose_environment_was_deleted_is_taken_from_a_worker_that_hangs_too() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    app.control
        .delete_environment(&app.admin, id)
        .await
        .unwrap();
    let listed = app.control.workers(&app.admin).await.unwrap();
    let holds = &listed[0].held[0];
    assert_eq!((holds.setup_run_id, holds.cancelling), (run, true));
    assert_eq!(holds.environment_name, "");
    // Nobody else learns that it was there.
    let developer = app.member(Role::Developer, "dev@example.com").await;
    for other in [&developer, &TestApp::stranger()] {
        let refused = app.control.release_setup_run(other, id, run).await;
        assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    }
    let elsewhere = app.environment("two", "true").await;
    let refused = app.control.release_setup_run(&app.admin, elsewhere, run);
    assert_eq!(refused.await.unwrap_err().code(), Code::NotFound);
    let released = app.control.release_setup_run(&app.admin, id, run).await;
    assert_eq!(released.unwrap().status, Status::Cancelled);
    assert_ne!(worker.beat(held).await, Order::Continue);
    let listed = app.control.workers(&app.admin).await.unwrap();
    assert!(listed[0].held.is_empty(), "{listed:?}");
}

#[tokio::test]
async fn after_a_restart_a_worker_that_goes_on_keeps_its_run_and_one_that_does_not_loses_it() {
    let mut app = TestApp::start().await;
    let (a, b) = (
        app.environment("a", "true").await,
        app.environment("b", "true").await,
    );
    app.run(a).await;
    app.run(b).await;
    let worker = app.worker("w").await;
    let kept = worker.claim().await.held;
    let dropped = worker.claim().await.held;
    app.restart();
    assert_eq!(
        app.control.tick_leases().await.unwrap(),
        0,
        "time anew for everybody"
    );
    // The same worker process, talking to the new control plane.
    let gateway = control::LocalGateway::new(app.control.clone());
    for _ in 0..3 {
        app.clock.advance(Duration::from_secs(10));
        let directives = gateway.heartbeat(worker.id, &[kept]).await.unwrap();
        assert_eq!(directives[0].order, Order::Continue);
        app.control.tick_leases().await.unwrap();
    }
    let row = app
        .store
        .inner()
        .run(kept.setup_run_id)
        .await
        .unwrap()
        .unwrap();
    assert!(row.state.driven);
    // The other run was of a worker that is heard of, but not of this run: this process cannot tell it apart from one
    // that another process hears, until the worker is silent or announces itself anew.
    app.clock.advance(LOST);
    let again = app.worker("w").await;
    assert_eq!(again.id, worker.id, "a known name keeps its id");
    let row = app
        .store
        .inner()
        .run(dropped.setup_run_id)
        .await
        .unwrap()
        .unwrap();
    assert!(!row.state.driven);
    assert_eq!(row.state.status, Status::Provisioning);
}

#[tokio::test]
async fn after_a_restart_with_a_dead_worker_every_run_it_drove_is_lost_in_time() {
    let mut app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    app.worker("w").await.claim().await;
    app.restart();
    assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    app.clock.advance(LOST - Duration::from_secs(1));
    assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Provisioning);
}

#[tokio::test]
async fn a_worker_that_starts_anew_gives_up_what_it_held_at_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let held = app.worker("w").await.claim().await.held;
    let reborn = app.worker("w").await;
    assert_eq!(reborn.beat(held).await, Order::Abandon);
    let again = reborn.claim().await;
    assert_eq!((again.held.setup_run_id, again.held.attempt), (run, 2));
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_moves_no_lease_and_no_deadline() {
    let app = TestApp::start().await;
    let (a, b) = (
        app.environment("a", "true").await,
        app.environment("b", "true").await,
    );
    app.run(a).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let waiting = app.run(b).await;
    for jump in [86_400 * 365, -86_400 * 730] {
        app.clock.jump_wall(jump);
        assert_eq!(app.control.tick_leases().await.unwrap(), 0);
        assert_eq!(worker.beat(held).await, Order::Continue);
    }
    let row = app.store.inner().run(waiting).await.unwrap().unwrap();
    assert_eq!(row.state.status, Status::Queued);
}

#[tokio::test]
async fn a_run_that_no_worker_is_there_for_fails_after_ten_minutes() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    app.clock.advance(Duration::from_secs(599));
    assert_eq!(app.control.tick_leases().await.unwrap(), 0);
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Failed);
    assert_eq!(read.phase, Some(Phase::Provision));
    assert_eq!(
        read.failure_code,
        Some(FailureCode::SandboxCapacityUnavailable)
    );
    let notes = system_lines(&app, id, run).await;
    assert!(notes.last().unwrap().contains("No worker is there"));
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.environment.setup_verification.status, "failed");
    assert_eq!(
        page.environment.setup_verification.active_setup_run_id,
        None
    );
}

#[tokio::test]
async fn a_run_goes_on_waiting_while_workers_are_there_but_not_for_ever() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let mut minutes = 0;
    loop {
        app.clock.advance(Duration::from_secs(60));
        minutes += 1;
        // Busy with other things: heard of, but takes nothing.
        worker.gateway.heartbeat(worker.id, &[]).await.unwrap();
        app.control.tick_leases().await.unwrap();
        let row = app.store.inner().run(run).await.unwrap().unwrap();
        if row.state.status == Status::Failed {
            break;
        }
        assert!(minutes < 200);
    }
    assert_eq!(minutes, 120);
}

#[tokio::test]
async fn expired_sign_ins_go() {
    let app = TestApp::start().await;
    let row = WebSessionRow {
        id_hash: "h".to_owned(),
        data: "{}".to_owned(),
        expires_at: app.clock.now().plus_seconds(60),
    };
    app.store.inner().save_web_session(&row).await.unwrap();
    assert_eq!(app.control.tick_retention().await.unwrap(), 0);
    app.clock.advance(Duration::from_secs(61));
    assert_eq!(app.control.tick_retention().await.unwrap(), 1);
}

#[tokio::test]
async fn reconcilers_run_by_themselves_and_stop_when_told() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.claim().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let tracker = app.control.spawn_reconcilers(stop.clone());
    app.eventually("the lost run is noticed", || async {
        app.clock.advance(Duration::from_secs(5));
        let row = app.store.inner().run(run).await.unwrap().unwrap();
        (!row.state.driven).then_some(())
    })
    .await;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), tracker.wait())
        .await
        .expect("they stop");
}

#[tokio::test]
async fn a_deployment_is_ready_with_a_database_a_worker_and_a_runner_image() {
    let app = TestApp::start().await;
    let before = app.control.readiness().await;
    assert!(before.database && !before.worker && !before.ready());
    app.worker("w").await;
    assert!(app.control.readiness().await.ready());
    let workers = app.control.workers(&app.admin).await.unwrap();
    assert_eq!((workers.len(), workers[0].alive), (1, true));
    app.clock.advance(Duration::from_secs(61));
    assert!(!app.control.readiness().await.worker);
    app.store.fail_once(testkit::Moment::Before("ping"));
    assert!(!app.control.readiness().await.database);
}
