//! Commands, terminals and ports of sessions.

use std::{collections::BTreeMap, time::Duration};

use control::sessions::{ExecEvent, Terminal, TerminalEvent};
use domain::{exec::ExecRequest, limits, process::PtySize, roles::Role, setup_run::Stream};
use serde_json::json;
use testkit::TestApp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::error::Code;

use crate::sessions::{running, settled, start};

const SIZE: PtySize = PtySize { cols: 80, rows: 24 };

fn sh(line: &str) -> ExecRequest {
    ExecRequest {
        command: Some(line.to_owned()),
        ..ExecRequest::default()
    }
}

#[tokio::test]
async fn a_commands_output_and_exit_code_are_collected_up_to_a_limit() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let run = |request| app.control.exec_collected(&app.admin, id, request);
    let fine = run(sh("echo hi")).await.unwrap();
    assert_eq!(
        (fine.exit_code, fine.stdout.as_str(), fine.truncated),
        (0, "hi\n", false)
    );
    let warned = run(sh("warn oh")).await.unwrap();
    assert_eq!(
        (warned.stdout.as_str(), warned.stderr.as_str()),
        ("", "oh\n")
    );
    assert_eq!(run(sh("exit 3")).await.unwrap().exit_code, 3);
    let long = run(sh("spam 3000000")).await.unwrap();
    assert_eq!(
        (long.stdout.len(), long.truncated),
        (limits::EXEC_OUTPUT_MAX_BYTES, true)
    );
    let mut with_input = sh("cat");
    with_input.stdin = Some("é".repeat(100_000));
    assert_eq!(run(with_input).await.unwrap().stdout.len(), 200_000);
    let argv = run(ExecRequest {
        argv: Some(vec!["ls".to_owned(), "$HOME".to_owned()]),
        env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
        ..ExecRequest::default()
    });
    assert_eq!(argv.await.unwrap().stdout, "ls|$HOME\n");
    let wrong = run(ExecRequest::default()).await.unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidRequest);
    assert_eq!(app.host.running(), 0);
}

#[tokio::test]
async fn output_comes_as_it_is_written_and_leaving_kills_the_command() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut exec = app
        .control
        .exec(&app.admin, id, sh("echo hi"))
        .await
        .unwrap();
    let Some(ExecEvent::Output(output)) = exec.next().await.unwrap() else {
        panic!("no output came");
    };
    assert_eq!(
        (output.stream, output.bytes.as_slice()),
        (Stream::Stdout, b"hi\n".as_slice())
    );
    assert!(
        matches!(exec.next().await.unwrap(), Some(ExecEvent::End(end, _)) if end.exit_code == 0)
    );
    assert_eq!(exec.next().await.unwrap(), None);
    let mut exec = app.control.exec(&app.admin, id, sh("sleep")).await.unwrap();
    assert!(futures::poll!(std::pin::pin!(exec.next())).is_pending());
    assert_eq!(app.host.running(), 1);
    drop(exec);
    assert_eq!((app.host.running(), app.host.killed()), (0, 1));
}

#[tokio::test]
async fn a_session_that_dies_under_a_command_says_so() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let error = app
        .control
        .exec_collected(&app.admin, id, sh("die"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::SessionNotRunning);
    app.control.tick_sessions().await.unwrap();
    assert_eq!(
        settled(&app, id).await.status,
        domain::session::Status::Stopped
    );
}

#[tokio::test]
async fn commands_of_one_session_have_a_limit() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut held = Vec::new();
    for _ in 0..limits::SESSION_COMMANDS_MAX {
        held.push(app.control.exec(&app.admin, id, sh("sleep")).await.unwrap());
    }
    let error = app
        .control
        .exec(&app.admin, id, sh("sleep"))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionLimit);
    held.pop();
    app.control.exec(&app.admin, id, sh("sleep")).await.unwrap();
}

async fn open(app: &TestApp, id: domain::ids::SessionId) -> Terminal {
    app.control
        .open_terminal(&app.admin, id, None, SIZE)
        .await
        .unwrap()
}

/// Reads until the text came.
async fn shows(terminal: &mut Terminal, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        match terminal.next().await {
            TerminalEvent::Output(bytes) => all.push_str(&String::from_utf8(bytes).unwrap()),
            other => panic!("{other:?} came after {all:?}"),
        }
    }
    all
}

#[tokio::test]
async fn a_terminal_echoes_resizes_and_ends() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut terminal = open(&app, id).await;
    let input = terminal.input();
    input.send(b"one\n".to_vec()).await;
    shows(&mut terminal, "[one]").await;
    input
        .resize(PtySize {
            cols: 100,
            rows: 5_000,
        })
        .await;
    input.send(b"exit\n".to_vec()).await;
    assert!(matches!(terminal.next().await, TerminalEvent::Exit(7)));
    assert_eq!(app.host.sizes(), [(80, 24), (100, 1_000)]);
}

#[tokio::test]
async fn a_terminal_survives_a_lost_connection_for_two_minutes_and_replays() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut first = open(&app, id).await;
    let name = first.id();
    first.input().send(b"one\n".to_vec()).await;
    shows(&mut first, "[one]").await;
    let input = first.input();
    drop(first);
    // Goes on while nobody looks.
    input.send(b"two\n".to_vec()).await;
    app.clock.advance(Duration::from_secs(119));
    let mut again = app
        .control
        .open_terminal(&app.admin, id, Some(name), SIZE)
        .await
        .unwrap();
    assert!(again.reattached);
    assert!(shows(&mut again, "[two]").await.contains("[one]"));
    drop(again);
    app.eventually("the terminal is given up", || async {
        app.clock.advance(Duration::from_secs(60));
        (app.host.running() == 0).then_some(())
    })
    .await;
    let error = app
        .control
        .open_terminal(&app.admin, id, Some(name), SIZE)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionNotRunning);
}

#[tokio::test]
async fn a_newer_connection_takes_a_terminal_over() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut first = open(&app, id).await;
    let mut second = app
        .control
        .open_terminal(&app.admin, id, Some(first.id()), SIZE)
        .await
        .unwrap();
    assert!(matches!(first.next().await, TerminalEvent::Over(_)));
    drop(first);
    second.input().send(b"still\n".to_vec()).await;
    shows(&mut second, "[still]").await;
}

#[tokio::test]
async fn a_terminals_last_64_kib_are_replayed_and_a_slow_reader_loses_nothing() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let mut terminal = open(&app, id).await;
    let input = terminal.input();
    let writer = tokio::spawn(async move {
        for number in 0..2_000 {
            let line = format!("{number:0>500}\n");
            assert!(input.send(line.into_bytes()).await);
        }
    });
    // Reads late, and gets all of it: 2,000 lines of 500 characters.
    let all = shows(&mut terminal, "1999]").await;
    writer.await.unwrap();
    assert_eq!(all.len(), 2_000 * 504);
    let name = terminal.id();
    drop(terminal);
    let mut again = app
        .control
        .open_terminal(&app.admin, id, Some(name), SIZE)
        .await
        .unwrap();
    let replayed = shows(&mut again, "1999]").await;
    assert!(
        replayed.len() <= 64 * 1024 && replayed.len() > 60 * 1024,
        "{}",
        replayed.len()
    );
    assert!(
        replayed.starts_with("[0"),
        "a replay begins with a whole line"
    );
}

#[tokio::test]
async fn terminals_of_one_session_are_bounded_also_those_that_ended_unheard() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let first = {
        let terminal = open(&app, id).await;
        terminal.input().send(b"exit\n".to_vec()).await;
        terminal.id()
    };
    app.eventually("it has ended", || async {
        (app.host.running() == 0).then_some(())
    })
    .await;
    for _ in 0..2 * limits::SESSION_TERMINALS_MAX {
        app.clock.advance(Duration::from_secs(1));
        let mut terminal = open(&app, id).await;
        terminal.input().send(b"exit\n".to_vec()).await;
        while !matches!(terminal.next().await, TerminalEvent::Exit(7)) {}
    }
    let error = app.control.open_terminal(&app.admin, id, Some(first), SIZE);
    assert_eq!(
        error.await.err().unwrap().code(),
        Code::SessionNotRunning,
        "it made room"
    );
    let mut held = Vec::new();
    for _ in 0..limits::SESSION_TERMINALS_MAX {
        held.push(open(&app, id).await);
    }
    let refused = app.control.open_terminal(&app.admin, id, None, SIZE).await;
    assert_eq!(refused.err().unwrap().code(), Code::SessionLimit);
    held.pop();
    let refused = app.control.open_terminal(&app.admin, id, None, SIZE).await;
    assert!(
        refused.is_err(),
        "one without a connection lives on and counts"
    );
}

#[tokio::test]
async fn input_that_a_terminal_does_not_read_is_not_kept_without_bounds() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let terminal = open(&app, id).await;
    let input = terminal.input();
    input.send(b"deaf\n".to_vec()).await;
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = taken.clone();
    let pasting = tokio::spawn(async move {
        while input.send(vec![b'x'; 1 << 20]).await {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let quiet = std::sync::atomic::AtomicUsize::new(0);
    app.eventually("the paste waits", || async {
        let looks = quiet.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (looks > 50).then_some(())
    })
    .await;
    let taken = taken.load(std::sync::atomic::Ordering::SeqCst);
    assert!(taken <= 3 && !pasting.is_finished(), "{taken} MiB");
    pasting.abort();
}

#[tokio::test]
async fn a_stop_ends_terminals_and_a_lost_right_ends_the_connection() {
    let app = TestApp::start().await;
    let id = running(&app).await;
    let developer = app.member(Role::Developer, "dev@example.com").await;
    let mut theirs = app
        .control
        .open_terminal(&developer, id, None, SIZE)
        .await
        .unwrap();
    let user = developer.member().unwrap().user_id;
    app.control.remove_member(&app.admin, user).await.unwrap();
    let waiting = tokio::spawn(async move { theirs.next().await });
    app.eventually("the connection ends", || async {
        app.clock.advance(Duration::from_secs(5));
        waiting.is_finished().then_some(())
    })
    .await;
    assert!(matches!(waiting.await.unwrap(), TerminalEvent::Over(_)));
    let mut ours = open(&app, id).await;
    app.control.stop_session(&app.admin, id).await.unwrap();
    assert!(matches!(ours.next().await, TerminalEvent::Over(_)));
    settled(&app, id).await;
    assert_eq!(app.host.running(), 0);
}

#[tokio::test]
async fn a_port_opens_for_whoever_holds_a_token_until_the_session_stops() {
    let app = TestApp::start().await;
    let plain = running(&app).await;
    let error = app
        .control
        .open_http_door(&app.admin, plain)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), Code::SessionNotRunning);

    let environment = app
        .control
        .create_environment(&app.admin, &json!({"name": "Web", "http_port": 8080}), None)
        .await
        .unwrap()
        .value
        .environment_id;
    let id = start(&app, environment).await;
    settled(&app, id).await;
    let token = app.control.open_http_door(&app.admin, id).await.unwrap();
    let error = app.control.pass_http_door(&token).await.err().unwrap();
    assert_eq!(error.code(), Code::ServiceUnavailable);
    assert!(error.api().message.contains("port 8080"), "{error}");
    app.host.serve(8080, |mut stream| {
        tokio::spawn(async move {
            let _ = stream.write_all(b"hello").await;
        });
    });
    let mut door = app.control.pass_http_door(&token).await.unwrap();
    let mut text = String::new();
    door.tunnel.read_to_string(&mut text).await.unwrap();
    assert_eq!((text.as_str(), door.port), ("hello", 8080));

    let wrong = control::Secret::new("nope");
    let error = app.control.pass_http_door(&wrong).await.err().unwrap();
    assert_eq!(error.code(), Code::NotFound);
    app.control.stop_session(&app.admin, id).await.unwrap();
    settled(&app, id).await;
    app.control.resume_session(&app.admin, id).await.unwrap();
    settled(&app, id).await;
    let error = app.control.pass_http_door(&token).await.err().unwrap();
    assert_eq!(error.code(), Code::NotFound, "tokens end with the stop");
    let token = app.control.open_http_door(&app.admin, id).await.unwrap();
    app.clock.advance(Duration::from_secs(8 * 3_600));
    assert!(app.control.pass_http_door(&token).await.is_err());
}
