//! What is held open: many at once cost little and ask the database nothing; they end at once when something happens and
//! when the server stops; streams go on where they were after a restart.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::body::Body;
use futures::future::join_all;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::{
    drive::{TREE, body, target},
    live::Wire,
    place::Place,
    report::tell,
    support::{Answer, Doors},
};

const HELD: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_held_requests_ask_the_database_nothing_and_end_with_the_run() {
    let doors = std::sync::Arc::new(Doors::open().await);
    let environment = doors.app.environment("one", "true\n").await;
    let run = doors.app.run(environment).await;
    let begun = doors.app.store.calls();
    let held: Vec<_> = (0..HELD)
        .map(|n| {
            let (environment, run) = (environment.to_string(), run.to_string());
            let doors = doors.clone();
            tokio::spawn(async move {
                let (name, query) = waiting(n);
                let (method, path) = target(name, &environment, &run);
                let call = doors.call(method, &format!("{path}{query}"));
                call.bearer(&doors.user).send().await
            })
        })
        .collect();
    let store = &doors.app.store;
    // Each asks for its key with its member, the environment, the run and, in half of them, the lines, once.
    let asked = 3 * HELD as u64 + HELD as u64 / 2;
    let (before, quiet) = (AtomicU64::new(0), AtomicU64::new(0));
    doors
        .app
        .eventually("all are held", || async {
            let calls = store.calls();
            let same = calls == before.swap(calls, Ordering::SeqCst);
            let looks = quiet.fetch_add(1, Ordering::SeqCst);
            if !same {
                quiet.store(0, Ordering::SeqCst);
            }
            let settled = calls >= begun + asked && looks > 100;
            settled.then_some(())
        })
        .await;
    for _ in 0..49 {
        doors.app.clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    assert!(held.iter().all(|task| !task.is_finished()), "held");
    assert_eq!(
        store.calls(),
        before.into_inner(),
        "nothing was asked meanwhile"
    );
    doors
        .app
        .control
        .cancel_setup_run(&doors.app.admin, environment, run)
        .await
        .unwrap();
    let answers = tokio::time::timeout(Duration::from_secs(30), join_all(held)).await;
    for answer in answers.expect("all end with the run") {
        assert_eq!(answer.unwrap().ok()["status"], "cancelled");
    }
}

/// Half wait for the run's end, half for its next line.
fn waiting(n: usize) -> (&'static str, &'static str) {
    if n.is_multiple_of(2) {
        ("GetEnvironmentSetupRun", "?wait_seconds=60")
    } else {
        ("GetEnvironmentSetupRunLog", "?after=1&wait_seconds=60")
    }
}

/// An environment and a run of it that nobody takes.
async fn waiting_run(wire: &Wire, key: &str) -> (String, String) {
    let made = wire.call(Method::POST, &format!("{TREE}/environments"));
    let made = made.bearer(key).json(&body("one")).send().await.ok();
    let environment = made["environment_id"].as_str().unwrap().to_owned();
    let (method, path) = target("CreateEnvironmentSetupRun", &environment, "");
    let run = wire
        .call(method, &path)
        .bearer(key)
        .keyed("run")
        .send()
        .await
        .ok();
    (
        environment,
        run["setup_run_id"].as_str().unwrap().to_owned(),
    )
}

/// Memory that a process has, in KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// How many requests the program holds, beside this question.
async fn held_by(wire: &Wire) -> usize {
    let figures = wire.call(Method::GET, "/metrics").send().await.text;
    let held = figures
        .lines()
        .find_map(|line| line.strip_prefix("groundwork_http_held "))
        .unwrap();
    held.parse::<usize>().unwrap() - 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_held_connections_cost_little_and_end_when_the_program_stops() {
    // Each takes a descriptor on both sides, and some systems give a process 1,024 at first.
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let place = Place::new(None);
    let key = place.admin();
    let running = place.start();
    let process = running.child.id();
    let (environment, run) = waiting_run(&running.wire, &key).await;
    let warm: Vec<_> = (0..20)
        .map(|n| hold(&running.wire, &key, n, &environment, &run, "0"))
        .collect();
    join_all(warm).await;
    let before = resident(process);
    let held: Vec<_> = (0..HELD)
        .map(|n| tokio::spawn(hold(&running.wire, &key, n, &environment, &run, "60")))
        .collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while held_by(&running.wire).await < HELD - 50 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the requests are not all there"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cost = resident(process).saturating_sub(before) / 1_024;
    let told = std::process::Command::new("kill")
        .args(["-TERM", &process.to_string()])
        .status();
    assert!(told.unwrap().success());
    let stopped = tokio::time::Instant::now();
    let answers = join_all(held).await;
    let took = stopped.elapsed();
    let answered = answers.into_iter().flatten().flatten().collect::<Vec<_>>();
    for answer in &answered {
        assert!(answer.status.is_success(), "{answer:#?}");
    }
    tell(&format!(
        "long polls: {HELD} held at once cost the program {cost} MiB; {} of them were answered, all ended within {} ms of \
         SIGTERM\n",
        answered.len(),
        took.as_millis()
    ));
    assert!(cost < 100, "{cost} MiB");
    assert!(answered.len() > HELD * 9 / 10, "{}", answered.len());
    // Held for a minute otherwise. A thousand answers take their time on a busy machine.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

async fn hold_call(wire: Wire, key: String, (method, path): (Method, String)) -> Option<Answer> {
    wire.call(method, &path).bearer(&key).attempt().await
}

fn hold(
    wire: &Wire,
    key: &str,
    n: usize,
    environment: &str,
    run: &str,
    seconds: &str,
) -> impl Future<Output = Option<Answer>> + use<> {
    let (name, query) = waiting(n);
    let (method, path) = target(name, environment, run);
    let query = query.replace("60", seconds);
    hold_call(
        wire.clone(),
        key.to_owned(),
        (method, format!("{path}{query}")),
    )
}

/// Events until one of this name; each with its id and its data.
async fn events(body: &mut Body, text: &mut String, until: &str) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    loop {
        while let Some((event, rest)) = text.split_once("\n\n") {
            let part = |name: &str| {
                let line = event.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim().to_owned()
            };
            let one = (part("event:"), part("id:"), part("data:"));
            *text = rest.to_owned();
            if one.0.is_empty() {
                continue;
            }
            let data = serde_json::from_str(&one.2).unwrap();
            let last = one.0 == until;
            found.push((one.0, one.1, data));
            if last {
                return found;
            }
        }
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame());
        let frame = frame
            .await
            .expect("an event comes")
            .expect("the stream goes on")
            .unwrap();
        if let Ok(data) = frame.into_data() {
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_was_after_the_program_was_killed() {
    let place = Place::new(None);
    let key = place.admin();
    let running = place.start();
    let (environment, run) = waiting_run(&running.wire, &key).await;
    let path = format!("/groundwork/v1/environments/{environment}/setup-runs/{run}/log/stream");
    let mut stream = running
        .wire
        .call(Method::GET, &path)
        .bearer(&key)
        .open()
        .await;
    let mut text = String::new();
    let first = events(&mut stream, &mut text, "line").await;
    let (_, id, line) = first.last().unwrap();
    assert_eq!(line["seq"], 1);
    running.kill();

    let running = place.start();
    let again = running.wire.call(Method::GET, &path).bearer(&key);
    let mut stream = again.header("last-event-id", id).open().await;
    let mut text = String::new();
    let status = events(&mut stream, &mut text, "status").await;
    assert_eq!(status.last().unwrap().2["status"], "queued");
    let (method, cancel) = target("CancelEnvironmentSetupRun", &environment, &run);
    running
        .wire
        .call(method, &cancel)
        .bearer(&key)
        .send()
        .await
        .ok();
    let rest = events(&mut stream, &mut text, "end").await;
    let lines: Vec<_> = rest.iter().filter(|event| event.0 == "line").collect();
    assert_eq!(
        lines.len(),
        1,
        "the first line does not come again: {rest:?}"
    );
    assert_eq!(lines[0].2["seq"], 2);
    assert_eq!(rest.last().unwrap().2, json!({"next_after": 2}));
}
