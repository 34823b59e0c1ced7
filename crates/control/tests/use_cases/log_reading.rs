//! Finding a text in a whole log, its outline, what is told when it is gone, and mending what made a run fail.

use std::time::Duration;

use control::{ports::Clock as _, setup_runs::LogQuery};
use domain::{
    ids::{EnvironmentId, SetupRunId},
    mending::Raise,
    roles::Role,
    setup_run::{HintCode, LogLine, Phase, Stream},
};
use testkit::{TestApp, TestWorker};
use wire::{
    error::Code,
    worker::{Gateway as _, LogBatch, RunOutcome},
};

use super::code;

/// A run whose worker wrote these lines after our first one.
async fn written(
    app: &TestApp,
    lines: Vec<(Stream, Option<u32>, String)>,
) -> (EnvironmentId, SetupRunId) {
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    let lines: Vec<LogLine> = (1..)
        .zip(lines)
        .map(|(seq, (stream, line, text))| LogLine {
            stream,
            line,
            ..worker.line(seq, &text)
        })
        .collect();
    for (number, batch) in (1..).zip(lines.chunks(700)) {
        let batch = LogBatch {
            number,
            lines: batch.to_vec(),
            truncated: false,
            open: false,
        };
        worker.gateway.append_log(held, batch).await.unwrap();
    }
    (id, run)
}

fn out(text: &str) -> (Stream, Option<u32>, String) {
    (Stream::Stdout, Some(1), text.to_owned())
}

#[tokio::test]
async fn a_text_is_found_in_the_whole_log_without_case_and_through_colours() {
    let app = TestApp::start().await;
    let mut lines = vec![out("Hello"), out("he\u{1b}[31mLLo\u{1b}[0m"), out("a.c")];
    lines.extend((0..4_000).map(|n| out(&format!("filler {n}"))));
    lines.push(out("the last HELLO"));
    let (id, run) = written(&app, lines).await;
    let find = |text: &'static str, after| {
        let app = &app;
        async move {
            app.control
                .find_in_setup_run_log(&app.admin, id, run, text, after)
                .await
                .unwrap()
        }
    };
    // The first two are ours: who queued it, and which worker took it.
    let found = find("hello", 0).await;
    assert_eq!(
        (found.lines, found.total, found.through),
        (vec![3, 4, 4_006], 3, 4_006)
    );
    assert_eq!(find("hello", 4).await.lines, [4_006]);
    assert_eq!(find("a.c", 0).await.total, 1, "no pattern");
    assert_eq!(find("nowhere", 0).await.total, 0);
    let fillers = find("filler", 0).await;
    assert_eq!(fillers.total, 4_000);
    assert_eq!(find("queued by", 0).await.lines, [1]);
}

#[tokio::test]
async fn many_matches_are_counted_and_the_first_named() {
    let app = TestApp::start().await;
    let (id, run) = written(&app, (0..5_010).map(|_| out("many")).collect()).await;
    let found = app
        .control
        .find_in_setup_run_log(&app.admin, id, run, "many", 0)
        .await
        .unwrap();
    assert_eq!((found.lines.len(), found.total), (5_000, 5_010));
}

#[tokio::test]
async fn a_search_for_nothing_is_refused_and_a_stranger_sees_no_run() {
    let app = TestApp::start().await;
    let (id, run) = written(&app, vec![out("needle")]).await;
    let control = &app.control;
    for text in ["", &"x".repeat(2_000)] {
        let found = control.find_in_setup_run_log(&app.admin, id, run, text, 0);
        assert_eq!(code(found.await), Code::InvalidRequest);
    }
    let stranger = TestApp::stranger();
    let found = control.find_in_setup_run_log(&stranger, id, run, "needle", 0);
    assert_eq!(code(found.await), Code::NotFound);
    let outline = control.setup_run_log_outline(&stranger, id, run);
    assert_eq!(code(outline.await), Code::NotFound);
    let user = app.member(Role::User, "user@example.com").await;
    let found = control.find_in_setup_run_log(&user, id, run, "needle", 0);
    assert_eq!(found.await.unwrap().total, 1);
}

#[tokio::test]
async fn the_outline_gathers_neighbours_that_are_alike() {
    let app = TestApp::start().await;
    let (id, run) = written(
        &app,
        vec![
            (Stream::Marker, Some(1), "make".to_owned()),
            out("a"),
            out("b"),
            (Stream::Stderr, Some(1), "c".to_owned()),
            (Stream::Marker, Some(2), "true".to_owned()),
        ],
    )
    .await;
    let outline = app
        .control
        .setup_run_log_outline(&app.admin, id, run)
        .await
        .unwrap();
    assert_eq!(
        outline.0,
        [
            (Stream::System, None, 2),
            (Stream::Marker, Some(1), 1),
            (Stream::Stdout, Some(1), 2),
            (Stream::Stderr, Some(1), 1),
            (Stream::Marker, Some(2), 1),
        ]
    );
}

async fn failed_by(app: &TestApp, hint: HintCode) -> (EnvironmentId, SetupRunId, TestWorker) {
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    let outcome = RunOutcome {
        hint_code: Some(hint),
        hint_host: (hint == HintCode::EgressBlocked).then(|| "files.example.com".to_owned()),
        ..TestWorker::failed()
    };
    worker.gateway.finish(held, outcome).await.unwrap();
    (id, run, worker)
}

#[tokio::test]
async fn a_limit_that_was_reached_is_raised_and_tested_again() {
    let app = TestApp::start().await;
    let (id, run, worker) = failed_by(&app, HintCode::Timeout).await;
    let control = &app.control;
    let view = control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.raise, Some(Raise::Timeout(1_200)));
    let again = control
        .raise_limit_and_test(&app.admin, id, run, None)
        .await
        .unwrap();
    assert_ne!(again.value.setup_run_id, run);
    let saved = control.get_environment(&app.admin, id).await.unwrap();
    assert_eq!(saved.setup.timeout_seconds, Some(1_200));
    assert_eq!(worker.claim().await.plan.setup_timeout_seconds, 1_200);
    // Somebody else has raised it meanwhile: nothing is saved twice.
    let history = control.environment_history(&app.admin, id).await.unwrap();
    let twice = control.raise_limit_and_test(&app.admin, id, run, None);
    assert_eq!(code(twice.await), Code::SetupRunInProgress);
    let after = control.environment_history(&app.admin, id).await.unwrap();
    assert_eq!(history.revisions.len(), after.revisions.len());
}

#[tokio::test]
async fn only_a_limit_is_raised_and_only_by_those_who_may_change() {
    let app = TestApp::start().await;
    let (id, run, _) = failed_by(&app, HintCode::EgressBlocked).await;
    let control = &app.control;
    let view = control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.raise, None);
    assert_eq!(view.hint_host.as_deref(), Some("files.example.com"));
    assert!(view.may_change);
    let raised = control.raise_limit_and_test(&app.admin, id, run, None);
    assert_eq!(code(raised.await), Code::InvalidRequest);
    let user = app.member(Role::User, "user@example.com").await;
    assert!(!control.run_view(&user, id, run).await.unwrap().may_change);
    let raised = control.raise_limit_and_test(&user, id, run, None);
    assert_eq!(code(raised.await), Code::Forbidden);
    let stranger = TestApp::stranger();
    let raised = control.raise_limit_and_test(&stranger, id, run, None);
    assert_eq!(code(raised.await), Code::NotFound);
}

#[tokio::test]
async fn a_reader_of_pages_misses_nothing_of_a_line_that_grows() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let (held, seq) = (assignment.held, assignment.next_seq);
    let write = |number: u64, text: &'static str, open: bool| {
        let batch = LogBatch {
            number,
            lines: vec![worker.line(seq, text)],
            truncated: false,
            open,
        };
        worker.gateway.append_log(held, batch)
    };
    let page = |after: u64, wait_seconds: Option<u32>| {
        let query = LogQuery {
            after,
            limit: None,
            wait_seconds,
        };
        app.control.setup_run_log(&app.admin, id, run, query)
    };
    write(1, "work", true).await.unwrap();
    let first = page(0, Some(5)).await.unwrap();
    assert_eq!(
        first.lines.last().unwrap().text,
        "work",
        "it is seen while it is open"
    );
    assert_eq!(first.next_after, seq - 1, "and comes again");

    // Nothing but the open line: held, but not for ever.
    let held_back = || async { (app.clock.sleepers() > 0).then_some(()) };
    let (paced, ()) = tokio::join!(page(first.next_after, Some(5)), async {
        app.eventually("the reader waits", held_back).await;
        app.clock.advance(Duration::from_secs(1));
    });
    assert_eq!(paced.unwrap().lines.len(), 1);
    let (grown, ()) = tokio::join!(page(first.next_after, Some(5)), async {
        app.eventually("the reader waits", held_back).await;
        write(2, "working", true).await.unwrap();
    });
    let grown = grown.unwrap();
    assert_eq!(
        (grown.lines[0].text.as_str(), grown.next_after),
        ("working", seq - 1)
    );

    write(3, "working", false).await.unwrap();
    let whole = page(grown.next_after, Some(5)).await.unwrap();
    assert_eq!((whole.lines.len(), whole.next_after), (1, seq));
    assert!(page(whole.next_after, None).await.unwrap().lines.is_empty());

    // What is open when the run ends is whole then.
    let batch = LogBatch {
        number: 4,
        lines: vec![worker.line(seq + 1, "the end")],
        truncated: false,
        open: true,
    };
    worker.gateway.append_log(held, batch).await.unwrap();
    assert_eq!(page(seq, None).await.unwrap().next_after, seq);
    worker.pass(held).await;
    assert_eq!(page(seq, None).await.unwrap().next_after, seq + 1);
}

#[tokio::test]
async fn old_logs_go_and_say_when_and_the_runs_summary_stays() {
    let app = TestApp::start().await;
    let id = app.environment("one", "nope").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.fail(worker.claim().await.held).await;
    app.clock.advance(Duration::from_secs(89 * 86_400));
    app.control.tick_retention().await.unwrap();
    let before = app
        .control
        .setup_run_log(&app.admin, id, run, LogQuery::default())
        .await
        .unwrap();
    let lines = before.next_after;
    assert_eq!(before.lines.len() as u64, lines);
    app.clock.advance(Duration::from_secs(2 * 86_400));
    let now = app.clock.now();
    assert!(app.control.tick_retention().await.unwrap() >= 1);
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!(view.log.removed_at, Some(now));
    assert_eq!(view.exit_code, Some(127));
    assert!(view.stderr_tail.is_some());
    let page = app
        .control
        .setup_run_log(&app.admin, id, run, LogQuery::default())
        .await
        .unwrap();
    let note = &page.lines[0];
    assert_eq!((page.lines.len(), note.stream), (1, Stream::System));
    assert_eq!(note.text, format!("The log was removed on {now}."));
    assert_eq!(
        (note.seq, page.next_after, note.at),
        (lines + 1, lines + 1, now)
    );
    let query = LogQuery {
        after: page.next_after,
        ..LogQuery::default()
    };
    let rest = app
        .control
        .setup_run_log(&app.admin, id, run, query)
        .await
        .unwrap();
    assert_eq!((rest.lines.len(), rest.next_after), (0, lines + 1), "once");
    let text = app
        .control
        .setup_run_log_text(&app.admin, id, run)
        .await
        .unwrap();
    assert!(text.starts_with("The log was removed on "));
    assert_eq!(app.control.tick_retention().await.unwrap(), 0, "once");
}
