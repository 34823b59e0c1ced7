//! How much the log slows a script down: the same script with its output read and thrown away, and with its output going
//! through the driver and the log pipeline. Run with `cargo run --release -p execution --example log_throughput`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    os::unix::process::ExitStatusExt,
    process::Stdio,
    time::{Duration, Instant},
};

use domain::timestamp::Timestamp;
use execution::{
    driver::{self, Stops},
    logs::{Limits, NoRedaction, Pipeline},
    runtime::ScriptSpec,
};
use tokio::{io::AsyncReadExt, process::Command, sync::mpsc};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 20;

/// 50,000 lines a second for two seconds, as a program that works between its lines writes them; and as fast as can be.
const SCRIPTS: [(&str, &str, u32); 2] = [
    (
        "50,000 lines/s",
        r#"python3 -c '
import sys, time
start = time.monotonic()
for i in range(100):
    sys.stdout.write("".join(f"{i} {j} a line of an ordinary length, as installers write\n" for j in range(1000)))
    sys.stdout.flush()
    wait = start + (i + 1) * 0.02 - time.monotonic()
    if wait > 0: time.sleep(wait)
'
"#,
        100_000,
    ),
    ("as fast as can be", "seq 1000000\n", 1_000_000),
];

/// Starts bash on the script and reads its output without looking at it.
async fn bare(script: &str) -> Duration {
    let started = Instant::now();
    let mut child = Command::new("/bin/bash")
        .args(["--noprofile", "--norc", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut buffer = vec![0; 64 * 1024];
    while stdout.read(&mut buffer).await.unwrap() > 0 {}
    child.wait().await.unwrap();
    started.elapsed()
}

/// The same through driver and pipeline; also counts the lines of the log.
async fn logged(script: &str) -> (Duration, u64) {
    let dir = tempfile::tempdir().unwrap();
    let spec = ScriptSpec {
        script: script.to_owned(),
        timeout: Duration::from_secs(60),
    };
    let control = driver::prepare(dir.path(), &spec).unwrap();
    let argv = control.command_here();
    let started = Instant::now();
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap().into_owned_fd().unwrap();
    let stderr = child.stderr.take().unwrap().into_owned_fd().unwrap();
    let (sink, mut source) = mpsc::channel(64);
    let stops = Stops {
        timeout: spec.timeout,
        cancel: CancellationToken::new(),
        kill: Box::new(|| {}),
    };
    let intake = tokio::spawn(async move {
        let mut pipeline = Pipeline::new(Box::new(NoRedaction), 1, 0, Limits::default(), || {
            Timestamp::from_micros(0)
        });
        let mut batches = 0_u64;
        while let Some(event) = source.recv().await {
            let at = started.elapsed();
            pipeline.event(&event, at);
            batches += u64::from(pipeline.take_batch(at).is_some());
        }
        pipeline.end_of_output(started.elapsed());
        batches += u64::from(pipeline.take_rest().is_some());
        (pipeline.lines(), batches)
    });
    let exit = async move { child.wait().await.unwrap().into_raw() };
    let end = driver::serve(control, stdout, stderr, exit, stops, sink)
        .await
        .unwrap();
    assert_eq!(end.exit_code, 0);
    let took = started.elapsed();
    (took, intake.await.unwrap().0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    for (name, script, lines) in SCRIPTS {
        let mut without = Vec::new();
        let mut with = Vec::new();
        let mut kept = 0;
        for _ in 0..ROUNDS {
            without.push(bare(script).await);
            let (took, log_lines) = logged(script).await;
            with.push(took);
            kept = log_lines;
        }
        let (without, with) = (median(without), median(with));
        println!(
            "{name}: {lines} lines; read and thrown away {:.0} ms, through driver and log {:.0} ms ({:+.1} %), {:.0} lines/s; {kept} lines kept",
            without.as_secs_f64() * 1e3,
            with.as_secs_f64() * 1e3,
            (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0,
            f64::from(lines) / with.as_secs_f64(),
        );
    }
}
