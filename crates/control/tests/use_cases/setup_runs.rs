//! Setup runs: admission and its limits, reading with a wait, the log by page, cancelling.

use std::time::Duration;

use control::setup_runs::LogQuery;
use domain::setup_run::{LogLine, Phase, Status, Stream};
use serde_json::json;
use testkit::{TestApp, TestWorker};
use wire::{error::Code, worker::Order};

use crate::{code, refused};

#[tokio::test]
async fn a_started_run_is_queued_and_its_log_begins() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let answer = app
        .control
        .start_setup_run(&app.admin, id, None)
        .await
        .unwrap();
    assert_eq!(answer.status, 202);
    let run = answer.value;
    assert_eq!(run.status, Status::Queued);
    assert_eq!(run.phase, Some(Phase::Provision));
    assert_eq!(run.log_lines, Some(1));
    let next = run.next_action.clone().unwrap();
    assert_eq!(next.operation_id, "managedAgentsGetEnvironmentSetupRun");
    assert_eq!(
        next.path,
        format!(
            "/managed-agents/v1/environments/{id}/setup-runs/{}",
            run.setup_run_id
        )
    );
    let read = app
        .control
        .get_setup_run(&app.admin, id, run.setup_run_id, None)
        .await
        .unwrap();
    assert_eq!(read, run);
    let log = app
        .control
        .setup_run_log(&app.admin, id, run.setup_run_id, LogQuery::default())
        .await
        .unwrap();
    assert_eq!(log.lines.len(), 1);
    let first = &log.lines[0];
    assert_eq!((first.seq, first.stream), (1, Stream::System));
    assert!(
        first
            .text
            .starts_with("Queued by admin@example.com: revision 1, no internet access")
    );
    assert_eq!((log.next_after, log.status), (1, Status::Queued));
}

#[tokio::test]
async fn an_environment_without_a_script_cannot_be_tested() {
    let app = TestApp::start().await;
    let id = app.environment("plain", "").await;
    let error = refused(app.control.start_setup_run(&app.admin, id, None).await);
    assert_eq!(error.code(), Code::InvalidRequest);
    assert_eq!(error.api().details["field"], "setup.script");
}

#[tokio::test]
async fn one_run_in_flight_for_each_environment() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let error = refused(app.control.start_setup_run(&app.admin, id, None).await);
    assert_eq!(error.code(), Code::SetupRunInProgress);
    assert_eq!(error.api().details["setup_run_id"], run.to_string());
}

#[tokio::test]
async fn two_starts_at_once_admit_one() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let starts = (0..4).map(|_| app.control.start_setup_run(&app.admin, id, None));
    let answers = futures::future::join_all(starts).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for answer in answers.into_iter().filter(Result::is_err) {
        assert_eq!(code(answer), Code::SetupRunInProgress);
    }
}

#[tokio::test]
async fn four_manual_runs_in_flight_for_each_organization() {
    let app = TestApp::start().await;
    let mut runs = Vec::new();
    for n in 0..4 {
        let id = app.environment(&format!("e{n}"), "true").await;
        runs.push(app.run(id).await.to_string());
    }
    let fifth = app.environment("fifth", "true").await;
    let error = refused(app.control.start_setup_run(&app.admin, fifth, None).await);
    assert_eq!(error.code(), Code::SetupRunLimit);
    assert!(error.api().retry_after.is_some());
    let in_flight = error.api().details["in_flight"].as_array().unwrap();
    assert_eq!(in_flight.len(), 4);
    for run in runs {
        assert!(in_flight.contains(&json!(run)));
    }
    // One ends, and there is room.
    let worker = app.worker("w").await;
    worker.fail(worker.claim().await.held).await;
    assert!(
        app.control
            .start_setup_run(&app.admin, fifth, None)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn runs_are_listed_newest_first_up_to_a_limit() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = app.run(id).await;
        app.control
            .cancel_setup_run(&app.admin, id, run)
            .await
            .unwrap();
        app.clock.advance(Duration::from_secs(1));
        runs.push(run);
    }
    let list = async |limit| app.control.list_setup_runs(&app.admin, id, limit).await;
    let all: Vec<_> = list(None)
        .await
        .unwrap()
        .setup_runs
        .into_iter()
        .map(|r| r.setup_run_id)
        .collect();
    runs.reverse();
    assert_eq!(all, runs);
    assert_eq!(list(Some(2)).await.unwrap().setup_runs.len(), 2);
    for wrong in [0, 51] {
        assert_eq!(code(list(Some(wrong)).await), Code::InvalidRequest);
    }
}

#[tokio::test]
async fn a_read_that_waits_is_answered_when_the_run_ends() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    let waiting = tokio::spawn(async move { control.get_setup_run(&ctx, id, run, Some(5)).await });
    worker.pass(worker.claim().await.held).await;
    let read = waiting.await.unwrap().unwrap();
    assert_eq!(read.status, Status::Succeeded);
}

#[tokio::test]
async fn a_read_that_waits_is_held_at_most_five_seconds() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    let waiting = tokio::spawn(async move { control.get_setup_run(&ctx, id, run, Some(60)).await });
    app.eventually("the call waits", || async {
        (app.clock.sleepers() > 0).then_some(())
    })
    .await;
    assert!(!waiting.is_finished());
    app.eventually("the call is answered", || async {
        app.clock.advance(Duration::from_secs(1));
        waiting.is_finished().then_some(())
    })
    .await;
    assert_eq!(waiting.await.unwrap().unwrap().status, Status::Queued);
    let wrong = app
        .control
        .get_setup_run(&app.admin, id, run, Some(61))
        .await;
    assert_eq!(code(wrong), Code::InvalidRequest);
}

#[tokio::test]
async fn the_log_comes_in_pages_by_cursor_until_the_run_has_ended_and_the_page_is_empty() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let held = assignment.held;
    let texts: Vec<String> = (0..10).map(|n| format!("line {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    worker
        .write(held, assignment.next_seq, &texts)
        .await
        .unwrap();
    worker.pass(held).await;
    let mut after = 0;
    let mut seen = Vec::new();
    loop {
        let query = LogQuery {
            after,
            limit: Some(4),
            wait_seconds: Some(5),
        };
        let page = app
            .control
            .setup_run_log(&app.admin, id, run, query)
            .await
            .unwrap();
        assert_eq!(page.status, Status::Succeeded);
        if page.lines.is_empty() {
            assert_eq!(page.next_after, after);
            break;
        }
        seen.extend(page.lines.iter().map(|line| line.seq));
        after = page.next_after;
    }
    let wanted: Vec<u64> = (1..=seen.len() as u64).collect();
    assert_eq!(seen, wanted);
    assert_eq!(seen.len(), 12, "queued, preparing, ten lines");
    for wrong in [0, 2_001] {
        let query = LogQuery {
            limit: Some(wrong),
            ..LogQuery::default()
        };
        assert_eq!(
            code(app.control.setup_run_log(&app.admin, id, run, query).await),
            Code::InvalidRequest
        );
    }
}

#[tokio::test]
async fn a_log_read_is_held_while_there_is_nothing_new() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    let query = LogQuery {
        after: assignment.next_seq - 1,
        limit: None,
        wait_seconds: Some(5),
    };
    let waiting = tokio::spawn(async move { control.setup_run_log(&ctx, id, run, query).await });
    app.eventually("the call waits", || async {
        (app.clock.sleepers() > 0).then_some(())
    })
    .await;
    worker
        .write(assignment.held, assignment.next_seq, &["hello"])
        .await
        .unwrap();
    let page = waiting.await.unwrap().unwrap();
    assert_eq!(page.lines.len(), 1);
    assert_eq!(page.lines[0].text, "hello");
}

#[tokio::test]
async fn the_whole_log_as_text() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    worker
        .write(
            assignment.held,
            assignment.next_seq,
            &["\u{1b}[31mred\u{1b}[0m", "plain"],
        )
        .await
        .unwrap();
    let text = app
        .control
        .setup_run_log_text(&app.admin, id, run)
        .await
        .unwrap();
    assert!(text.starts_with("# Queued by"), "{text}");
    assert!(text.ends_with("\nred\nplain\n"), "{text}");
}

#[tokio::test]
async fn cancelling_a_waiting_run_ends_it_at_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let cancelled = app
        .control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    assert!(cancelled.finished_at.is_some());
    assert_eq!(cancelled.log_lines, Some(2));
    let again = app.control.cancel_setup_run(&app.admin, id, run).await;
    assert_eq!(code(again), Code::SetupRunFinished);
    let worker = app.worker("w").await;
    assert!(
        worker.try_claim().await.is_none(),
        "nobody gets it any more"
    );
}

#[tokio::test]
async fn cancelling_a_driven_run_is_an_intent_that_its_worker_carries_out() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    assert_eq!(worker.beat(held).await, Order::Continue);
    for _ in 0..2 {
        // Asking again changes nothing.
        let asked = app
            .control
            .cancel_setup_run(&app.admin, id, run)
            .await
            .unwrap();
        assert_eq!(asked.status, Status::Running);
    }
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert!(view.cancelling && !view.may_cancel);
    assert_eq!(view.status_label, "Cancelling");
    assert_eq!(worker.beat(held).await, Order::Cancel);
    use wire::worker::Gateway as _;
    worker
        .gateway
        .finish(held, TestWorker::cancelled())
        .await
        .unwrap();
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Cancelled);
    assert_eq!(read.failure_code, None);
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.outcome.as_deref(), Some("Cancelled."));
}

#[tokio::test]
async fn a_run_whose_session_it_is_cannot_be_cancelled_by_itself() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    app.control
        .cancel_setup_run(&app.admin, id, run)
        .await
        .unwrap();
    // Sessions start such runs; here the row is made as they will make it.
    let store = app.store.inner();
    let mut row = store.run(run).await.unwrap().unwrap();
    row.setup_run_id = domain::ids::SetupRunId::from_uuid(uuid::Uuid::from_u128(9));
    row.kind = domain::setup_run::Kind::Session;
    row.state = domain::setup_run::RunState::queued();
    row.finished_at = None;
    let mut env = store
        .environment(app.organization, id)
        .await
        .unwrap()
        .unwrap();
    env.version += 1;
    let line = LogLine {
        seq: 1,
        stream: Stream::System,
        line: None,
        text: "Queued.".to_owned(),
        at: row.created_at,
    };
    let admission = store
        .admit_run(
            &row,
            &line,
            env.version - 1,
            &env,
            4,
            control::ports::Effects::default(),
        )
        .await
        .unwrap();
    assert_eq!(admission, control::ports::Admission::Admitted);
    let answer = app
        .control
        .cancel_setup_run(&app.admin, id, row.setup_run_id)
        .await;
    assert_eq!(code(answer), Code::InvalidRequest);
}

#[tokio::test]
async fn deleting_an_environment_cancels_its_run() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let waiting = app.environment("waiting", "true").await;
    let run = app.run(waiting).await;
    app.control
        .delete_environment(&app.admin, waiting)
        .await
        .unwrap();
    let row = app.store.inner().run(run).await.unwrap().unwrap();
    assert_eq!(row.state.status, Status::Cancelled);
    assert!(worker.try_claim().await.is_none());

    let driven = app.environment("driven", "true").await;
    let run = app.run(driven).await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    app.control
        .delete_environment(&app.admin, driven)
        .await
        .unwrap();
    assert_eq!(worker.beat(held).await, Order::Cancel);
    use wire::worker::Gateway as _;
    worker
        .gateway
        .finish(held, TestWorker::cancelled())
        .await
        .unwrap();
    let row = app.store.inner().run(run).await.unwrap().unwrap();
    assert_eq!(row.state.status, Status::Cancelled);
}

#[tokio::test]
async fn a_failed_run_tells_why_and_what_to_call_next() {
    let app = TestApp::start().await;
    let id = app.environment("one", "nope").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.fail(worker.claim().await.held).await;
    let read = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_eq!(read.status, Status::Failed);
    assert_eq!(read.exit_code, Some(127));
    assert_eq!(read.failed_line, Some(1));
    assert_eq!(read.hint.as_deref(), Some("Line 1: nope is not installed."));
    assert_eq!(
        read.next_action.unwrap().operation_id,
        "managedAgentsGetEnvironmentSetupRunLog"
    );
}

#[tokio::test]
async fn a_database_that_is_gone_while_admitting_says_that_the_run_was_not_started() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    app.store.fail_once(testkit::Moment::Before("admit_run"));
    let error = refused(app.control.start_setup_run(&app.admin, id, None).await);
    assert_eq!(error.code(), Code::SetupRunNotStarted);
    assert!(error.retryable());
    assert!(!error.api().message.contains("gone"), "no internal text");
    assert!(
        error.chain().iter().any(|text| text.contains("gone")),
        "{:?}",
        error.chain()
    );
}
