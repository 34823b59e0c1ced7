//! What waits for a session, p50 and p90 of 20 (or of the first argument): a command, a keystroke's echo, and a start from
//! saved images of two sizes, by turns.
//!
//! `cargo run --release -p execution --example session_speed`, as root, with the small runner image in
//! `GROUNDWORK_TEST_IMAGES` (default `/var/lib/groundwork-test/images`).
#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    error::Error,
    os::unix::fs::symlink,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{
    ids::{Id, SandboxId},
    network_policy::NetworkPolicy,
    process::{Command, Input, PtySize},
};
use execution::{
    images::ImageStore,
    oci::{OciConfig, OciRuntime},
    runtime::{Runtime, SandboxSpec},
};
use tokio::sync::mpsc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const IMAGE: &str = "groundwork/runner:small";
/// Bytes in the two saved images, in MiB.
const SIZES: [u32; 2] = [10, 350];

fn main() -> ExitCode {
    // The sandboxes' shims are this very program.
    if std::env::args().nth(1).as_deref() == Some("shim") {
        return execution::shim::main();
    }
    let measured = tokio::runtime::Runtime::new()
        .map_err(Into::into)
        .and_then(|tokio| tokio.block_on(measure()));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Outcome<()> {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(Ok(20), |text| text.parse())?;
    let images = std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from);
    let dir = tempfile::Builder::new()
        .prefix("session-")
        .tempdir_in("/var/lib")?;
    // What is saved here goes with the measurement: the store is a directory of links to the real one.
    symlink(images.join("runner"), dir.path().join("runner"))?;
    let config = OciConfig::new(
        dir.path().join("state"),
        ImageStore::new(dir.path()),
        (std::env::current_exe()?, vec!["shim".into()]),
    );
    let runtime = Arc::new(OciRuntime::new(config)?);
    let mut layers = Vec::new();
    for size in SIZES {
        layers.push(image(&runtime, size).await?);
    }

    let (mut commands, mut keys) = (Vec::new(), Vec::new());
    let mut starts = [Vec::new(), Vec::new()];
    // One of each first, unmeasured.
    for round in 0..=rounds {
        for (layer, starts) in layers.iter().zip(&mut starts) {
            let id = Id::from_uuid(uuid::Uuid::new_v4());
            let began = Instant::now();
            runtime.prepare(&spec(id, vec![layer.clone()])).await?;
            let (_, code) = run(&runtime, id, &["true"]).await?;
            if round > 0 {
                starts.push(began.elapsed());
            }
            if code != 0 {
                return Err("a command failed".into());
            }
            let (took, _) = run(&runtime, id, &["true"]).await?;
            let key = echo(&runtime, id).await?;
            if round > 0 {
                commands.push(took);
                keys.push(key);
            }
            runtime.destroy(id).await?;
        }
    }
    println!("{rounds} rounds                                   least      p50      p90");
    row("a command (`true`), start to exit code", &mut commands);
    row("a key in a terminal, to its echo", &mut keys);
    for (size, starts) in SIZES.iter().zip(&mut starts) {
        let name = format!("start from a {size} MiB image, to its first command's end");
        row(&name, starts);
    }
    Ok(())
}

fn row(name: &str, times: &mut [Duration]) {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{name:<56}{:>8.1?} {:>8.1?} {:>8.1?}",
        at(0),
        at(50),
        at(90)
    );
}

fn spec(id: SandboxId, layers: Vec<String>) -> SandboxSpec {
    SandboxSpec {
        id,
        runner_image: IMAGE.into(),
        layers,
        base_digest: None,
        cpu_milli: 2_000,
        memory_mib: 4_096,
        disk_mib: 10 << 10,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
        life: None,
        keep_disk: true,
    }
}

/// Saves an image of this size, in a thousand files.
async fn image(runtime: &OciRuntime, mib: u32) -> Outcome<String> {
    let id = Id::from_uuid(uuid::Uuid::new_v4());
    runtime.prepare(&spec(id, Vec::new())).await?;
    let fill = format!(
        "mkdir many && head -c {mib}M /dev/urandom | split -b $(({mib} * 1024 * 1024 / 1000)) -a 4 - many/"
    );
    let (_, code) = run(runtime, id, &["bash", "-c", &fill]).await?;
    if code != 0 {
        return Err("the image could not be filled".into());
    }
    let saved = runtime.save_image(id).await?;
    runtime.destroy(id).await?;
    Ok(saved.digest)
}

fn command(words: &[&str]) -> Command {
    Command {
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
        cwd: None,
        env: BTreeMap::new(),
        timeout: None,
        pty: None,
    }
}

async fn run(runtime: &OciRuntime, id: SandboxId, words: &[&str]) -> Outcome<(Duration, i32)> {
    let (_, input) = mpsc::channel(1);
    let (output, mut said) = mpsc::channel(16);
    let began = Instant::now();
    let command = command(words);
    let running = runtime.exec(id, &command, input, output);
    let (end, ()) = tokio::join!(running, async { while said.recv().await.is_some() {} });
    Ok((began.elapsed(), end?.exit_code))
}

/// From a key to its echo, in a terminal where `cat` waits.
async fn echo(runtime: &Arc<OciRuntime>, id: SandboxId) -> Outcome<Duration> {
    let (keys, input) = mpsc::channel(1);
    let (output, mut said) = mpsc::channel(16);
    let terminal = Command {
        pty: Some(PtySize { cols: 80, rows: 24 }),
        ..command(&["cat"])
    };
    let held = runtime.clone();
    let running = tokio::spawn(async move { held.exec(id, &terminal, input, output).await });
    // The first makes sure that it runs.
    let mut took = Duration::ZERO;
    for key in [b"a", b"b"] {
        let began = Instant::now();
        keys.send(Input::Bytes(key.to_vec())).await?;
        said.recv().await.ok_or("the terminal ended")?;
        took = began.elapsed();
    }
    drop(keys);
    while said.recv().await.is_some() {}
    running.await??;
    Ok(took)
}
