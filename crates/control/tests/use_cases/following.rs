//! Following a run: no gap, no repeat, whatever the reader does; and the table.

use std::time::Duration;

use control::setup_runs::LogQuery;
use domain::{
    ids::{EnvironmentId, SetupRunId},
    roles::Role,
    setup_run::{LogLine, Phase, Status},
};
use futures::StreamExt as _;
use testkit::{Moment, TestApp};
use wire::{
    console::{Frame, RunView},
    worker::{Gateway as _, LogBatch},
};

/// What a reader has on its screen.
#[derive(Default)]
struct Screen {
    lines: Vec<LogLine>,
    states: Vec<RunView>,
    grown: usize,
    ended: bool,
}

impl Screen {
    /// Takes a frame as the console does; a gap or a repeat that is no growth fails the test.
    fn take(&mut self, frame: Frame) {
        assert!(!self.ended, "nothing follows the end");
        match frame {
            Frame::Lines(lines) => {
                for line in lines {
                    let last = self.lines.last().map_or(0, |last| last.seq);
                    if line.seq == last {
                        let old = self.lines.pop().unwrap();
                        assert!(
                            line.text.len() > old.text.len(),
                            "sent again without growth"
                        );
                        self.grown += 1;
                    } else {
                        assert_eq!(line.seq, last + 1, "a gap or a repeat");
                    }
                    self.lines.push(line);
                }
            }
            Frame::State(view) => {
                if let Some(before) = self.states.last() {
                    assert!(view.version >= before.version, "older news");
                }
                self.states.push(*view);
            }
            Frame::Beat => {}
            Frame::End => self.ended = true,
            Frame::Stopped(text) => panic!("stopped: {text}"),
        }
    }
    fn texts(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.text.as_str()).collect()
    }
}

async fn read_all(app: &TestApp, id: EnvironmentId, run: SetupRunId, after: u64) -> Screen {
    let mut frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, after)
        .await
        .unwrap();
    let mut screen = Screen::default();
    while let Some(frame) = frames.next().await {
        screen.take(frame);
    }
    screen
}

#[tokio::test]
async fn a_finished_run_is_its_state_all_lines_and_the_end() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let texts: Vec<String> = (0..1_234).map(|n| format!("line {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    worker
        .write(assignment.held, assignment.next_seq, &texts)
        .await
        .unwrap();
    worker.pass(assignment.held).await;
    let screen = read_all(&app, id, run, 0).await;
    assert!(screen.ended);
    assert_eq!(screen.lines.len(), 1_236);
    assert_eq!(screen.states.len(), 1);
    assert_eq!(screen.states[0].status, Status::Succeeded);
    assert_eq!(screen.states[0].outcome.as_deref(), Some("Setup verified."));
}

#[tokio::test]
async fn three_readers_at_their_own_pace_all_see_every_line_once() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let mut readers = Vec::new();
    for pause in [0usize, 3, 17] {
        let mut frames = app
            .control
            .follow_setup_run(app.admin.clone(), id, run, 0)
            .await
            .unwrap();
        readers.push(tokio::spawn(async move {
            let mut screen = Screen::default();
            while let Some(frame) = frames.next().await {
                screen.take(frame);
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
            }
            screen
        }));
    }
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let held = assignment.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    let mut written = Vec::new();
    for (n, seq) in (0..200).zip(assignment.next_seq..) {
        // An open line that grows, then the next.
        let half = format!("{n} wor");
        let whole = format!("{n} working");
        worker.write(held, seq, &[half.as_str()]).await.unwrap();
        worker.write(held, seq, &[whole.as_str()]).await.unwrap();
        written.push(whole);
        if n % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    worker.pass(held).await;
    for reader in readers {
        let screen = tokio::time::timeout(Duration::from_secs(30), reader)
            .await
            .expect("every reader comes to the end")
            .unwrap();
        assert!(screen.ended);
        assert_eq!(&screen.texts()[2..], written.as_slice());
        assert_eq!(screen.states.last().unwrap().status, Status::Succeeded);
    }
}

#[tokio::test]
async fn a_reader_that_comes_back_goes_on_after_its_last_line() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    worker
        .write(assignment.held, assignment.next_seq, &["a", "b", "c"])
        .await
        .unwrap();
    worker.pass(assignment.held).await;
    for after in 0..=5 {
        let mut frames = app
            .control
            .follow_setup_run(app.admin.clone(), id, run, after)
            .await
            .unwrap();
        let mut next = after + 1;
        let mut ended = false;
        while let Some(frame) = frames.next().await {
            match frame {
                Frame::Lines(lines) => {
                    for line in lines {
                        assert_eq!(line.seq, next);
                        next += 1;
                    }
                }
                Frame::End => ended = true,
                _ => {}
            }
        }
        assert!(ended);
        assert_eq!(next, 6, "after {after}");
    }
}

#[tokio::test]
async fn a_reader_that_comes_back_with_an_open_line_asks_from_before_it_and_sees_it_grow() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let (held, seq) = (assignment.held, assignment.next_seq);
    worker.write(held, seq, &["wor"]).await.unwrap();
    let mut frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, seq - 1)
        .await
        .unwrap();
    let mut lines = async || loop {
        if let Frame::Lines(lines) = frames.next().await.unwrap() {
            break lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
        }
    };
    assert_eq!(lines().await, ["wor"]);
    worker.write(held, seq, &["working", "next"]).await.unwrap();
    assert_eq!(lines().await, ["working", "next"]);
}

#[tokio::test]
async fn lost_bells_are_made_up_for_by_the_backup_poll() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let mut frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, 2)
        .await
        .unwrap();
    assert!(matches!(frames.next().await, Some(Frame::State(_))));
    let reader = tokio::spawn(async move { frames.next().await });
    app.eventually("the reader waits", || async {
        (app.clock.sleepers() > 0).then_some(())
    })
    .await;
    worker
        .write(assignment.held, assignment.next_seq, &["x"])
        .await
        .unwrap();
    app.eventually("the reader reads", || async {
        app.clock.advance(Duration::from_secs(1));
        reader.is_finished().then_some(())
    })
    .await;
    assert!(matches!(reader.await.unwrap(), Some(Frame::Lines(_))));
}

#[tokio::test]
async fn a_silent_run_sends_beats() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let mut frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, 1)
        .await
        .unwrap();
    assert!(matches!(frames.next().await, Some(Frame::State(_))));
    let reader = tokio::spawn(async move { frames.next().await });
    app.eventually("a beat comes", || async {
        app.clock.advance(Duration::from_secs(1));
        reader.is_finished().then_some(())
    })
    .await;
    assert_eq!(reader.await.unwrap(), Some(Frame::Beat));
}

#[tokio::test]
async fn a_member_who_is_removed_stops_seeing_the_run() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let user = app.member(Role::User, "u@example.com").await;
    let mut frames = app
        .control
        .follow_setup_run(user.clone(), id, run, 1)
        .await
        .unwrap();
    assert!(matches!(frames.next().await, Some(Frame::State(_))));
    app.control
        .remove_member(&app.admin, user.member().unwrap().user_id)
        .await
        .unwrap();
    let reader = tokio::spawn(async move {
        loop {
            match frames.next().await {
                Some(Frame::Beat) => {}
                other => return (other, frames.next().await),
            }
        }
    });
    app.eventually("the stream ends", || async {
        app.clock.advance(Duration::from_secs(1));
        reader.is_finished().then_some(())
    })
    .await;
    let (last, nothing) = reader.await.unwrap();
    assert!(matches!(last, Some(Frame::Stopped(_))));
    assert_eq!(nothing, None);
}

#[tokio::test]
async fn following_has_no_effect_on_the_run() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let before = app.store.inner().run(run).await.unwrap();
    let frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, 0)
        .await
        .unwrap();
    drop(frames);
    assert_eq!(app.store.inner().run(run).await.unwrap(), before);
}

#[tokio::test]
async fn a_database_that_hiccups_costs_the_reader_nothing_but_time() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let frames = app
        .control
        .follow_setup_run(app.admin.clone(), id, run, 0)
        .await
        .unwrap();
    app.store.fail_once(Moment::Before("log_lines"));
    let reader = tokio::spawn(frames.collect::<Vec<_>>());
    app.eventually("the reader comes to the end", || async {
        app.clock.advance(Duration::from_secs(1));
        reader.is_finished().then_some(())
    })
    .await;
    assert_eq!(reader.await.unwrap().last(), Some(&Frame::End));
}

#[tokio::test]
async fn a_truncated_and_a_removed_log_are_told() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let batch = LogBatch {
        number: 1,
        lines: vec![worker.line(assignment.next_seq, "x")],
        truncated: true,
        open: false,
    };
    worker
        .gateway
        .append_log(assignment.held, batch)
        .await
        .unwrap();
    worker.pass(assignment.held).await;
    let screen = read_all(&app, id, run, 0).await;
    assert!(screen.states.last().unwrap().log.truncated);
    app.clock.advance(Duration::from_secs(91 * 86_400));
    app.control.tick_retention().await.unwrap();
    let screen = read_all(&app, id, run, 0).await;
    assert!(screen.ended && screen.lines.is_empty());
    assert!(screen.states.last().unwrap().log.removed_at.is_some());
    assert_eq!(screen.states.last().unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn the_view_names_the_line_that_runs_and_when_it_last_said_something() {
    let app = TestApp::start().await;
    let id = app.environment("one", "echo a\necho b\necho c").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    let held = assignment.held;
    app.clock.advance(Duration::from_secs(4));
    worker.reach(held, Phase::Setup).await.unwrap();
    app.clock.advance(Duration::from_secs(6));
    let mut line = worker.line(assignment.next_seq, "b");
    line.line = Some(2);
    let said_at = line.at;
    let batch = LogBatch {
        number: 1,
        lines: vec![line],
        truncated: false,
        open: false,
    };
    worker.gateway.append_log(held, batch).await.unwrap();
    app.clock.advance(Duration::from_secs(30));
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    assert_eq!((view.running_line, view.script_lines), (Some(2), 3));
    assert_eq!(view.last_output_at, Some(said_at));
    assert_eq!(view.script_elapsed_ms, Some(36_000));
    assert_eq!(view.elapsed_ms, 40_000);
    assert_eq!(view.timeout_seconds, 600);
}

#[tokio::test]
async fn the_table_tells_what_moves() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let mut news = app
        .control
        .follow_environments(app.admin.clone())
        .await
        .unwrap();
    let run = app.run(id).await;
    let next = tokio::spawn(async move { (news.next().await, news) });
    app.eventually("news come", || async {
        app.clock.advance(Duration::from_millis(100));
        next.is_finished().then_some(())
    })
    .await;
    let (first, mut news) = next.await.unwrap();
    let first = first.unwrap();
    assert_eq!(first.changed.len(), 1);
    assert_eq!(first.changed[0].active_setup_run_id, Some(run));
    assert_eq!(first.changed[0].badge_label, "Testing");
    app.control
        .delete_environment(&app.admin, id)
        .await
        .unwrap();
    let next = tokio::spawn(async move { news.next().await });
    app.eventually("news come", || async {
        app.clock.advance(Duration::from_millis(100));
        next.is_finished().then_some(())
    })
    .await;
    assert_eq!(next.await.unwrap().unwrap().gone, [id]);
}

#[tokio::test]
async fn pages_and_followers_agree() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let page = app
        .control
        .setup_run_log(&app.admin, id, run, LogQuery::default())
        .await
        .unwrap();
    assert_eq!(read_all(&app, id, run, 0).await.lines, page.lines);
}
