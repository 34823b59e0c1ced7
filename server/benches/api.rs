//! How fast the API is, beside a bare axum handler that answers the same bytes from memory. One machine for server and
//! client: the ratios are what counts. `cargo bench -p server --bench api`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends"
)]

#[path = "../tests/api/described.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod described;
#[path = "../tests/conformance/live.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod live;
#[path = "../tests/conformance/place.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod place;
#[path = "../../crates/store/tests/common/postgres.rs"]
mod postgres;
#[path = "../tests/api/support.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod support;

use std::{
    io::BufRead,
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use axum::{Router, routing::get};
use futures::future::join_all;
use http::{Method, header};
use live::{Kind, Live, Wire};
use place::Place;
use serde_json::json;
use support::Setting;

const TREE: &str = "/managed-agents/v1";
/// Connections that are kept open, each with one request at a time.
const CONNECTIONS: u64 = 16;
const SLICE: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    if let Ok(body) = std::env::var("GROUNDWORK_BENCH_BARE") {
        return bare(body).await;
    }
    let place = Place::new(None);
    let key = place.admin();
    let running = place.start();
    let id = create(&running.wire, &key, "one").await;
    one(&running.wire, &key, &id).await;
    creations(&running.wire, &key).await;
    list(&running.wire, &key).await;
    running.kill();
    log_pages().await;
}

/// The comparison: a process of its own, as the server is.
async fn bare(body: String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], body) };
    axum::serve(listener, Router::new().fallback(get(answer)))
        .await
        .unwrap();
}

async fn create(wire: &Wire, key: &str, name: &str) -> String {
    let call = wire.call(Method::POST, &format!("{TREE}/environments"));
    let body = json!({"name": name, "setup": {"script": "pip install numpy==2.1.0\n"}});
    let made = call.bearer(key).json(&body).send().await.ok();
    made["environment_id"].as_str().unwrap().to_owned()
}

async fn one(wire: &Wire, key: &str, id: &str) {
    let path = format!("{TREE}/environments/{id}");
    let call = wire.call(Method::GET, &path).bearer(key);
    let bytes = call.send().await.text;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env("GROUNDWORK_BENCH_BARE", &bytes)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let bare = Wire::to(address.trim().parse().unwrap());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let (a, b) = (rate(wire, key, &path).await, rate(&bare, key, &path).await);
        if round > 0 {
            ours.push(a);
            theirs.push(b);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (ours, theirs) = (middle(&mut ours), middle(&mut theirs));
    println!(
        "GET one environment: {ours:.0}/s, beside a bare handler {theirs:.0}/s: {:.2} (at least 0.5)",
        ours / theirs
    );
}

/// Requests a second over connections that are kept.
async fn rate(wire: &Wire, key: &str, path: &str) -> f64 {
    let begun = Instant::now();
    let count = AtomicU64::new(0);
    join_all((0..CONNECTIONS).map(|_| async {
        while begun.elapsed() < SLICE {
            let answer = wire.call(Method::GET, path).bearer(key).send().await;
            assert!(answer.status.is_success(), "{answer:#?}");
            count.fetch_add(1, Ordering::Relaxed);
        }
    }))
    .await;
    count.into_inner() as f64 / begun.elapsed().as_secs_f64()
}

fn middle(values: &mut [f64]) -> f64 {
    part(values, 0.5)
}

fn part(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Leaves 2,000 behind.
async fn creations(wire: &Wire, key: &str) {
    let begun = Instant::now();
    join_all((0..CONNECTIONS).map(|client| async move {
        for n in 0..2_000 / CONNECTIONS {
            create(wire, key, &format!("environment {client}-{n}")).await;
        }
    }))
    .await;
    println!(
        "create: {:.0}/s, durable (at least 300)",
        2_000.0 / begun.elapsed().as_secs_f64()
    );
}

async fn list(wire: &Wire, key: &str) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..30 {
        let begun = Instant::now();
        let call = wire.call(Method::GET, &format!("{TREE}/environments"));
        bytes = call.bearer(key).send().await.text.len();
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    println!(
        "list of 2,001 ({} KiB): p50 {:.0} ms, p95 {:.0} ms (under 60 ms)",
        bytes / 1_024,
        middle(&mut times),
        part(&mut times, 0.95)
    );
}

/// Pages of 500 lines anywhere in a log of 4 MiB.
async fn log_pages() {
    const LINES: u64 = 60_000;
    let live = Live::start(Setting {
        options: Kind::Sqlite.options(),
        ..Setting::default()
    })
    .await;
    let app = &live.doors.app;
    let environment = app.environment("one", "true\n").await;
    let run = app.run(environment).await;
    let worker = app.worker("played").await;
    let work = worker.claim().await;
    worker
        .reach(work.held, domain::setup_run::Phase::Setup)
        .await
        .unwrap();
    let text = "x".repeat(69);
    for first in (0..LINES).step_by(500) {
        worker
            .write(work.held, work.next_seq + first, &vec![text.as_str(); 500])
            .await
            .unwrap();
    }
    let mut times = Vec::new();
    for n in 0..400_u64 {
        let after = n * 7_919 % (LINES - 500);
        let path = format!("{TREE}/environments/{environment}/setup-runs/{run}/log?after={after}");
        let begun = Instant::now();
        let call = live.wire.call(Method::GET, &path).bearer(&live.doors.user);
        let page = call.send().await;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
        assert_eq!(page.ok()["lines"].as_array().unwrap().len(), 500);
    }
    println!(
        "log page of 500 lines anywhere in a log of 4 MiB: p50 {:.1} ms, p95 {:.1} ms (under 20 ms)",
        middle(&mut times),
        part(&mut times, 0.95)
    );
}
