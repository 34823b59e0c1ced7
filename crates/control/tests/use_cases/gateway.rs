//! What workers may do: claims, fencing, reports that come twice or late.

use std::time::Duration;

use domain::setup_run::{FailureCode, Phase, Status, Stream};
use testkit::{TestApp, TestWorker};
use wire::worker::{Fault, Gateway as _, GatewayError, LogBatch, Order, Reached, RunResult};

use control::setup_runs::LogQuery;

#[tokio::test]
async fn a_claim_carries_the_plan_with_defaults_resolved_and_the_lease_as_durations() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    assert_eq!(assignment.held.setup_run_id, run);
    assert_eq!(assignment.held.attempt, 1);
    assert_eq!(assignment.environment_id, id);
    assert_eq!(assignment.next_seq, 3);
    assert!(assignment.log_bytes > 0);
    assert!(assignment.renew_after * 3 <= assignment.lost_after);
    let plan = assignment.plan;
    assert_eq!(
        (
            plan.cpu_milli,
            plan.memory_mib,
            plan.disk_gi,
            plan.setup_timeout_seconds
        ),
        (2_000, 4_096, 10, 600)
    );
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Provisioning);
    assert!(read.started_at.is_some());
}

#[tokio::test]
async fn the_oldest_run_goes_first_and_to_one_worker_only() {
    let app = TestApp::start().await;
    let (a, b) = (
        app.environment("a", "true").await,
        app.environment("b", "true").await,
    );
    let first = app.run(a).await;
    app.clock.advance(Duration::from_secs(1));
    let second = app.run(b).await;
    let (one, two) = (app.worker("one").await, app.worker("two").await);
    assert_eq!(one.claim().await.held.setup_run_id, first);
    assert_eq!(two.claim().await.held.setup_run_id, second);
    assert!(one.try_claim().await.is_none());
}

#[tokio::test]
async fn a_claim_waits_for_a_run_and_gets_it_when_it_comes() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let worker = app.worker("w").await;
    let (gateway, worker_id) = (worker.gateway.clone(), worker.id);
    let waiting =
        tokio::spawn(async move { gateway.claim(worker_id, Duration::from_secs(30)).await });
    app.eventually("the claim waits", || async {
        (app.clock.sleepers() > 0).then_some(())
    })
    .await;
    let run = app.run(id).await;
    let got = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(got.held.setup_run_id, run);
}

#[tokio::test]
async fn a_claim_without_a_run_ends_after_its_wait() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let (gateway, worker_id) = (worker.gateway.clone(), worker.id);
    let waiting =
        tokio::spawn(async move { gateway.claim(worker_id, Duration::from_secs(10)).await });
    app.eventually("the claim ends", || async {
        app.clock.advance(Duration::from_secs(1));
        waiting.is_finished().then_some(())
    })
    .await;
    assert!(waiting.await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn phases_are_recorded_with_their_times_in_order() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    app.clock.advance(Duration::from_secs(3));
    worker.reach(held, Phase::Setup).await.unwrap();
    app.clock.advance(Duration::from_secs(7));
    // Said twice, and said late: neither changes anything.
    worker.reach(held, Phase::Setup).await.unwrap();
    worker.reach(held, Phase::Commit).await.unwrap();
    worker.reach(held, Phase::Setup).await.unwrap();
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.phase, Phase::Commit);
    let times: Vec<_> = view
        .phases
        .iter()
        .map(|step| (step.phase, step.duration_ms))
        .collect();
    assert_eq!(
        times,
        [
            (Phase::Provision, Some(3_000)),
            (Phase::Setup, Some(7_000)),
            (Phase::Profile, None),
            (Phase::Commit, Some(0)),
            (Phase::Cleanup, None),
        ]
    );
}

#[tokio::test]
async fn what_is_reached_with_a_sandbox_and_a_message_shows() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let detail = Reached {
        compute_id: Some("sandbox-1".to_owned()),
        message: Some("The script runs.".to_owned()),
    };
    worker
        .gateway
        .reach(held, Phase::Setup, detail)
        .await
        .unwrap();
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.compute_id.as_deref(), Some("sandbox-1"));
    assert_eq!(read.message.as_deref(), Some("The script runs."));
    assert_eq!(read.status, Status::Running);
}

#[tokio::test]
async fn a_batch_sent_twice_is_stored_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    for _ in 0..2 {
        worker
            .write(assignment.held, assignment.next_seq, &["a", "b"])
            .await
            .unwrap();
    }
    let log = app
        .control
        .setup_run_log(&app.admin, id, run, LogQuery::default())
        .await
        .unwrap();
    let texts: Vec<_> = log
        .lines
        .iter()
        .filter(|line| line.stream == Stream::Stdout)
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(texts, ["a", "b"]);
}

#[tokio::test]
async fn a_log_past_its_limit_says_so() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let batch = LogBatch {
        number: 1,
        lines: vec![worker.line(assignment.next_seq, "last")],
        truncated: true,
        open: false,
    };
    worker
        .gateway
        .append_log(assignment.held, batch)
        .await
        .unwrap();
    let page = app
        .control
        .setup_run_log(&app.admin, id, run, LogQuery::default())
        .await
        .unwrap();
    assert_eq!(page.truncated, Some(true));
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.log_truncated, Some(true));
    let text = app
        .control
        .setup_run_log_text(&app.admin, id, run)
        .await
        .unwrap();
    assert!(text.contains("cut off"));
}

#[tokio::test]
async fn a_lost_attempt_can_change_nothing() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let (old, new) = (app.worker("old").await, app.worker("new").await);
    let assignment = old.claim().await;
    let lost = assignment.held;
    app.clock.advance(Duration::from_secs(21));
    assert_eq!(app.control.tick_leases().await.unwrap(), 1);
    let again = new.claim().await;
    assert_eq!(again.held.attempt, 2);
    let before = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(
        old.reach(lost, Phase::Setup).await,
        Err(GatewayError::Fenced)
    );
    assert_eq!(
        old.write(lost, assignment.next_seq, &["ghost"]).await,
        Err(GatewayError::Fenced)
    );
    assert_eq!(
        old.gateway.finish(lost, TestWorker::passed()).await,
        Err(GatewayError::Fenced)
    );
    let fault = Fault {
        reason: "io_error".to_owned(),
        message: "It broke.".to_owned(),
    };
    assert_eq!(
        old.gateway.give_back(lost, fault).await,
        Err(GatewayError::Fenced)
    );
    assert_eq!(old.beat(lost).await, Order::Abandon);
    let after = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(
        (after.version, after.attempt),
        (before.version, before.attempt)
    );
    new.pass(again.held).await;
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Succeeded);
}

#[tokio::test]
async fn another_worker_cannot_report_for_a_lease() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let (mine, theirs) = (app.worker("mine").await, app.worker("theirs").await);
    let mut held = mine.claim().await.held;
    assert_eq!(theirs.beat(held).await, Order::Abandon);
    held.worker_id = theirs.id;
    assert_eq!(theirs.beat(held).await, Order::Abandon);
    assert_eq!(
        theirs.reach(held, Phase::Setup).await,
        Err(GatewayError::Fenced)
    );
    assert_eq!(
        theirs.gateway.finish(held, TestWorker::passed()).await,
        Err(GatewayError::Fenced)
    );
}

#[tokio::test]
async fn an_end_said_twice_is_accepted_and_recorded_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.fail(held).await;
    assert_eq!(
        worker.gateway.finish(held, TestWorker::passed()).await,
        Ok(()),
        "this attempt's end is on record"
    );
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Failed);
    assert_eq!(worker.beat(held).await, Order::Abandon);
}

#[tokio::test]
async fn a_worker_cannot_cancel_by_itself_nor_pass_before_the_script_ran() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    for outcome in [TestWorker::passed(), TestWorker::cancelled()] {
        assert_eq!(
            worker.gateway.finish(held, outcome).await,
            Err(GatewayError::Fenced)
        );
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_fails_the_run_in_provision() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let outcome = wire::worker::RunOutcome {
        result: RunResult::Failed,
        phase: Phase::Provision,
        message: "The machine has no room.".to_owned(),
        failure_code: Some(FailureCode::SandboxCapacityUnavailable),
        exit_code: None,
        ..TestWorker::failed()
    };
    worker.gateway.finish(held, outcome).await.unwrap();
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.phase, Some(Phase::Provision));
    assert_eq!(
        read.failure_code,
        Some(FailureCode::SandboxCapacityUnavailable)
    );
    assert_eq!(
        read.next_action.unwrap().operation_id,
        "managedAgentsCreateEnvironmentSetupRun"
    );
}

#[tokio::test]
async fn the_end_of_stderr_is_kept_to_its_limit() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    let outcome = wire::worker::RunOutcome {
        stderr_tail: Some(format!("{}end", "é".repeat(4_000))),
        ..TestWorker::failed()
    };
    worker.gateway.finish(held, outcome).await.unwrap();
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    let tail = read.stderr_tail.unwrap();
    assert!(tail.len() <= 2_048 && tail.ends_with("éend"));
}
