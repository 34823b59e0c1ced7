//! How much driver and log slow a script down: the same script with its output read and thrown away, and with its output
//! going through the driver and the masking log pipeline, one after the other. The script itself takes the time, so that
//! neither shell's start counts. Run with `cargo run --release -p execution --example log_throughput [ROUNDS]`; the 20
//! rounds that it makes otherwise take about a minute, most of it for the last row, whose script takes its time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{redaction::Redactor, timestamp::Timestamp};
use execution::{
    driver::{self, Stops},
    logs::{Limits, Masking, Pipeline},
    runtime::ScriptSpec,
};
use tokio::{
    io::AsyncReadExt,
    process::{Child, Command},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// Name, script, and what is counted in it.
const SCRIPTS: [(&str, &str, u32, &str); 4] = [
    (
        "a loop that does nothing",
        "for (( i = 0; i < 2000; i++ )); do\n  :\n  :\ndone\n",
        8_000,
        "statements",
    ),
    (
        "4 MiB as fast as it comes",
        "yes 'a line of an ordinary length, as installers write' | head -c 4194304 || true\n",
        79_138,
        "lines",
    ),
    (
        "lines of nothing but numbers",
        "seq 1000000\n",
        1_000_000,
        "lines",
    ),
    (
        "4 MiB in 50,000 lines, in a second",
        r#"python3 -c '
import sys, time
start = time.monotonic()
for i in range(50):
    sys.stdout.write("".join(f"{i:2} {j:3} a line of the length that installers write, with a name, a version and words\n" for j in range(1000)))
    sys.stdout.flush()
    wait = start + (i + 1) * 0.02 - time.monotonic()
    if wait > 0: time.sleep(wait)
'
"#,
        50_000,
        "lines",
    ),
];

fn timed(script: &str) -> String {
    format!("start=$EPOCHREALTIME\n{script}echo \"$start $EPOCHREALTIME\" >\"$TIMES\"\n")
}

/// What the script wrote down.
fn read_times(path: &Path) -> Duration {
    let text = std::fs::read_to_string(path).unwrap();
    let times: Vec<f64> = text
        .split_whitespace()
        .map(|t| t.parse().unwrap())
        .collect();
    Duration::from_secs_f64(times[1] - times[0])
}

fn start(argv: &[String], times: &Path) -> Child {
    Command::new(&argv[0])
        .args(&argv[1..])
        .env("TIMES", times)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts bash on the script and reads its output without looking at it.
async fn bare(script: &str) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let times = dir.path().join("times");
    let argv = ["/bin/bash", "--noprofile", "--norc", "-c", &timed(script)].map(str::to_owned);
    let mut child = start(&argv, &times);
    let mut stdout = child.stdout.take().unwrap();
    let mut buffer = vec![0; 64 * 1024];
    while stdout.read(&mut buffer).await.unwrap() > 0 {}
    child.wait().await.unwrap();
    read_times(&times)
}

/// The same through driver and pipeline; also counts the lines of the log.
async fn logged(script: &str) -> (Duration, u64) {
    let dir = tempfile::tempdir().unwrap();
    let times = dir.path().join("times");
    let spec = ScriptSpec {
        script: timed(script),
        timeout: Duration::from_secs(60),
    };
    let control = driver::prepare(dir.path(), &spec).unwrap();
    let mut child = start(&control.command_here(), &times);
    let stdout = child.stdout.take().unwrap().into_owned_fd().unwrap();
    let stderr = child.stderr.take().unwrap().into_owned_fd().unwrap();
    let (sink, mut source) = mpsc::channel(64);
    let stops = Stops {
        timeout: spec.timeout,
        cancel: CancellationToken::new(),
        kill: Box::new(|| {}),
    };
    let intake = tokio::spawn(async move {
        let started = Instant::now();
        let redactor = Redactor::new(["correct-horse-battery", "tr0ub4dor-and-3"]);
        let mut pipeline = Pipeline::new(
            Box::new(Masking::new(Arc::new(redactor))),
            1,
            0,
            Limits::default(),
            || Timestamp::from_micros(0),
        );
        while let Some(event) = source.recv().await {
            let at = started.elapsed();
            pipeline.event(&event, at);
            pipeline.take_batch(at);
        }
        pipeline.end_of_output(started.elapsed());
        pipeline.lines()
    });
    let exit = async move { child.wait().await.unwrap().into_raw() };
    let end = driver::serve(
        control,
        stdout,
        stderr,
        exit,
        stops,
        Box::new(Vec::new),
        sink,
    )
    .await
    .unwrap();
    assert_eq!(end.exit_code, 0, "{end:?}");
    (read_times(&times), intake.await.unwrap())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|r| r.parse().ok())
        .unwrap_or(20);
    for (name, script, count, what) in SCRIPTS {
        let mut without = Vec::new();
        let mut with = Vec::new();
        let mut kept = 0;
        for _ in 0..rounds {
            without.push(bare(script).await);
            let (took, log_lines) = logged(script).await;
            with.push(took);
            kept = log_lines;
        }
        let (without, with) = (median(without), median(with));
        println!(
            "{name}: {:.0} ms without, {:.0} ms with driver and log ({:+.1} %); {:.0} {what}/s, {:.1} us more for each; {kept} lines kept",
            without.as_secs_f64() * 1e3,
            with.as_secs_f64() * 1e3,
            (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0,
            f64::from(count) / with.as_secs_f64(),
            (with.as_secs_f64() - without.as_secs_f64()) / f64::from(count) * 1e6,
        );
    }
}
