//! How fast the API of the program is, beside a bare axum handler that answers the same bytes from memory. One machine for
//! server and client: the ratios are what counts. `cargo bench -p server --bench api`, as root, since one log is a real
//! run's; `GROUNDWORK_BIN` names another build of the program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends"
)]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use axum::{Router, routing::get};
use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

const TREE: &str = "/managed-agents/v1";
/// Connections that are kept open, each with one request at a time.
const CONNECTIONS: u64 = 16;
const SLICE: Duration = Duration::from_secs(3);
/// A log of just under 4 MiB: lines of 69 characters.
const LOG: &str = "seq -f %069.0f 60000\n";

#[tokio::main]
async fn main() {
    if let Ok(body) = std::env::var("GROUNDWORK_BENCH_BARE") {
        return bare(body).await;
    }
    let place = Place::new();
    let api = place.start(&["--no-worker"]);
    let id = api.create("one", "pip install numpy==2.1.0\n").await;
    one(&api, &id).await;
    creations(&api).await;
    list(&api).await;
    drop(api);
    log_pages(&Place::new()).await;
}

/// A data directory with the program on it.
struct Place {
    directory: tempfile::TempDir,
    key: String,
}

/// A program that serves, and who asks it. Ends with it.
struct Api {
    child: Child,
    wire: Wire,
}

#[derive(Clone)]
struct Wire {
    url: String,
    key: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

fn program() -> PathBuf {
    std::env::var_os("GROUNDWORK_BIN")
        .or_else(|| option_env!("CARGO_BIN_EXE_groundwork").map(Into::into))
        .expect("GROUNDWORK_BIN names the program")
        .into()
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::create_dir_all(at.join("site/pkg")).unwrap();
        fs::create_dir_all(at.join("data/images")).unwrap();
        let rates = [
            "key_per_second",
            "key_burst",
            "address_per_second",
            "address_burst",
        ]
        .map(|name| format!("{name} = 100000\n"))
        .concat();
        fs::write(
            at.join("groundwork.toml"),
            format!(
                "site = {:?}\nlog = \"error\"\n[runner]\nimage = \"groundwork/runner:small\"\n[rate_limit]\n{rates}",
                at.join("site")
            ),
        )
        .unwrap();
        let mut place = Self {
            directory,
            key: String::new(),
        };
        let member = ["--email", "admin@example.com", "--role", "admin"];
        place.say(&[&["admin", "create-member"], &member[..]].concat());
        place.key = place.say(&[&["admin", "create-api-key"], &member[..]].concat());
        place
    }

    fn command(&self, args: &[&str]) -> Command {
        let at = self.directory.path();
        let mut command = Command::new(program());
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("GROUNDWORK_CONFIG", at.join("groundwork.toml"))
            .env("GROUNDWORK_DATA", at.join("data"))
            .stdin(Stdio::null());
        command
    }

    fn say(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn start(&self, args: &[&str]) -> Api {
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let (child, line) = first_line(self.command(&[&serve, args].concat()));
        let url = line.strip_prefix("Groundwork is at ").unwrap();
        Api {
            child,
            wire: Wire::to(url, &self.key),
        }
    }
}

fn first_line(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().to_owned())
}

impl Drop for Api {
    fn drop(&mut self) {
        // In order, so that no sandbox is left behind.
        let told = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(told.is_ok_and(|status| status.success()));
        let _ = self.child.wait();
    }
}

impl Wire {
    fn to(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            key: key.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// The body of a good answer.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Bytes {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        } else {
            request = request.header("idempotency-key", "bench");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.client.request(request).await.unwrap();
        let status = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(
            status.is_success(),
            "{status}: {}",
            String::from_utf8_lossy(&bytes)
        );
        bytes
    }

    async fn get(&self, path: &str) -> Bytes {
        self.call(Method::GET, path, None).await
    }
}

impl Api {
    async fn create(&self, name: &str, script: &str) -> String {
        let body = json!({"name": name, "setup": {"script": script}});
        let path = format!("{TREE}/environments");
        let made = self.wire.call(Method::POST, &path, Some(&body)).await;
        text(&made, "environment_id")
    }
}

fn text(answer: &Bytes, field: &str) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    answer[field].as_str().unwrap().to_owned()
}

/// The comparison: a process of its own, as the server is.
async fn bare(body: String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { ([(header::CONTENT_TYPE, "application/json")], body) };
    axum::serve(listener, Router::new().fallback(get(answer)))
        .await
        .unwrap();
}

async fn one(api: &Api, id: &str) {
    let path = format!("{TREE}/environments/{id}");
    let bytes = api.wire.get(&path).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(
        "GROUNDWORK_BENCH_BARE",
        std::str::from_utf8(&bytes).unwrap(),
    );
    let (mut child, url) = first_line(command);
    let bare = Wire::to(&url, &api.wire.key);
    assert_eq!(bare.get(&path).await, bytes);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // In turn, the first time to warm up.
    for round in 0..6 {
        let (a, b) = (rate(&api.wire, &path).await, rate(&bare, &path).await);
        if round > 0 {
            ours.push(a);
            theirs.push(b);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
    println!(
        "GET one environment ({} bytes): {:.0}/s, beside a bare handler {:.0}/s: {:.2} (at least 0.5)",
        bytes.len(),
        middle(&mut ours),
        middle(&mut theirs),
        middle(&mut ratios)
    );
}

/// Requests a second over connections that are kept.
async fn rate(wire: &Wire, path: &str) -> f64 {
    let begun = Instant::now();
    let count = AtomicU64::new(0);
    join_all((0..CONNECTIONS).map(|_| async {
        while begun.elapsed() < SLICE {
            wire.get(path).await;
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
async fn creations(api: &Api) {
    let begun = Instant::now();
    join_all((0..CONNECTIONS).map(|client| async move {
        for n in 0..2_000 / CONNECTIONS {
            let name = format!("environment {client}-{n}");
            api.create(&name, "pip install numpy==2.1.0\n").await;
        }
    }))
    .await;
    println!(
        "create: {:.0}/s, durable (at least 300)",
        2_000.0 / begun.elapsed().as_secs_f64()
    );
}

async fn list(api: &Api) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..30 {
        let begun = Instant::now();
        bytes = api.wire.get(&format!("{TREE}/environments")).await.len();
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    println!(
        "list of 2,001 ({} KiB): p50 {:.0} ms, p95 {:.0} ms (under 60 ms)",
        bytes / 1_024,
        middle(&mut times),
        part(&mut times, 0.95)
    );
}

/// Pages of 500 lines anywhere in the log of a real run.
async fn log_pages(place: &Place) {
    let images = std::env::var("GROUNDWORK_TEST_IMAGES")
        .unwrap_or_else(|_| "/var/lib/groundwork-test/images".to_owned());
    let copied = Command::new("cp")
        .arg("-al")
        .arg(Path::new(&images).join("runner"))
        .arg(place.directory.path().join("data/images/runner"))
        .status();
    assert!(copied.unwrap().success());
    let api = place.start(&[]);
    let id = api.create("log", LOG).await;
    let runs = format!("{TREE}/environments/{id}/setup-runs");
    let run = text(
        &api.wire.call(Method::POST, &runs, None).await,
        "setup_run_id",
    );
    let run = format!("{runs}/{run}");
    let lines = loop {
        let found: Value =
            serde_json::from_slice(&api.wire.get(&format!("{run}?wait_seconds=5")).await).unwrap();
        match found["status"].as_str().unwrap() {
            "succeeded" => break found["log_lines"].as_u64().unwrap(),
            "failed" | "cancelled" => panic!("{found:#}"),
            _ => {}
        }
    };
    let mut times = Vec::new();
    for n in 0..400_u64 {
        let after = n * 7_919 % (lines - 500);
        let begun = Instant::now();
        let page = api.wire.get(&format!("{run}/log?after={after}")).await;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
        let page: Value = serde_json::from_slice(&page).unwrap();
        assert_eq!(page["lines"].as_array().unwrap().len(), 500);
    }
    println!(
        "log page of 500 lines anywhere in a log of {lines} lines: p50 {:.1} ms, p95 {:.1} ms (under 20 ms)",
        middle(&mut times),
        part(&mut times, 0.95)
    );
}
