//! Start to first output, side by side in one run, p50 and p90 of 20 (or of the first argument): a bare `crun run` of the
//! same root file system, ours, and podman where it is installed. Then eight of ours at once, as often.
//!
//! `cargo run --release -p execution --example start_latency`, as root, with the small runner image in
//! `GROUNDWORK_TEST_IMAGES` (default `/var/lib/groundwork-test/images`). With `GROUNDWORK_TRACE=1` each round tells
//! when the sandbox was ready.
#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use domain::{ids::Id, network_policy::NetworkPolicy};
use execution::{
    images::ImageStore,
    oci::{OciConfig, OciRuntime},
    runtime::{Event, Runtime, SandboxSpec, ScriptSpec},
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use tokio::sync::mpsc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const IMAGE: &str = "groundwork/runner:small";

fn main() -> ExitCode {
    // The sandboxes' shims are this very program.
    if std::env::args().nth(1).as_deref() == Some("shim") {
        return execution::shim::main();
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(20), |text| text.parse())?;
    let images = std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from);
    let store = ImageStore::new(images);
    let rootfs = store
        .rootfs(IMAGE)?
        .ok_or("the small runner image is not there")?;
    let dir = tempfile::Builder::new()
        .prefix("latency-")
        .tempdir_in("/var/lib")?;
    let config = OciConfig::new(
        dir.path().join("state"),
        store,
        (std::env::current_exe()?, vec!["shim".into()]),
    );
    let runtime = OciRuntime::new(config)?;
    let tokio = tokio::runtime::Runtime::new()?;

    let mut crun = Vec::new();
    let mut ours = Vec::new();
    let mut podman = Vec::new();
    let has_podman = Command::new("podman").arg("--version").output().is_ok();
    // One of each first, unmeasured; then by turns, so that other load meets all alike.
    for round in 0..=rounds {
        let (first, second) = (
            bare(&rootfs, dir.path(), round)?,
            tokio.block_on(sandbox(&runtime, 10 << 10))?,
        );
        let third = if has_podman {
            Some(with_podman(&rootfs)?)
        } else {
            None
        };
        if round > 0 {
            crun.push(first);
            ours.push(second);
            podman.extend(third);
        }
    }
    println!("start to first output, {rounds} rounds    least      p50      p90");
    let bare = row("crun run, bare", &mut crun);
    let own = row("sandbox, everything in it", &mut ours);
    if podman.is_empty() {
        println!("podman run                        not installed");
    } else {
        row("podman run", &mut podman);
    }
    let (mut last, mut removed) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let started = Instant::now();
        let eight = tokio.block_on(futures::future::join_all(
            (0..8).map(|_| sandbox(&runtime, 1 << 10)),
        ));
        // All of them first: a sandbox whose caller is gone would outlive its directory.
        let eight = eight.into_iter().collect::<Outcome<Vec<_>>>()?;
        last.push(eight.into_iter().max().unwrap_or_default());
        removed.push(started.elapsed());
    }
    row("eight at once, the last one's", &mut last);
    row("eight at once, until all are gone", &mut removed);
    let limit = bare * 13 / 10 + Duration::from_millis(60);
    let verdict = if own <= limit { "met" } else { "MISSED" };
    println!("target, 1.3 x bare + 60 ms: {limit:.1?}: {verdict}");
    Ok(())
}

fn row(name: &str, times: &mut [Duration]) -> Duration {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{name:<34}{:>8.1?} {:>8.1?} {:>8.1?}",
        at(0),
        at(50),
        at(90)
    );
    at(50)
}

/// Time until the first byte of a command's standard output.
fn first_byte(command: &mut Command) -> Outcome<Duration> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut byte = [0];
    let read = child.stdout.take().ok_or("no pipe")?.read(&mut byte)?;
    let took = started.elapsed();
    let output = child.wait_with_output()?;
    if read == 0 {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(took)
}

/// A bare `crun run`: the usual namespaces, no limits, nothing else.
fn bare(rootfs: &Path, dir: &Path, round: u32) -> Outcome<Duration> {
    let bundle = dir.join("bundle");
    fs::create_dir_all(&bundle)?;
    let namespaces =
        ["pid", "ipc", "uts", "mount", "network"].map(|kind| serde_json::json!({"type": kind}));
    let config = serde_json::json!({
        "ociVersion": "1.0.2",
        "root": {"path": rootfs, "readonly": true},
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/echo", "x"], "env": ["PATH=/usr/bin:/bin"], "cwd": "/"},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
        ],
        "linux": {"namespaces": namespaces, "cgroupsPath": format!("/groundwork-latency-{}", std::process::id())},
    });
    fs::write(bundle.join("config.json"), config.to_string())?;
    let mut command = Command::new("crun");
    command
        .arg("--root")
        .arg(dir.join("crun"))
        .args(["--cgroup-manager=cgroupfs", "run", "--bundle"])
        .arg(&bundle)
        .arg(format!("latency-{round}"));
    // crun refuses hybrid cgroup machines; a mount namespace of the thread's own hides the second hierarchy.
    let ran = std::thread::spawn(move || -> Result<Duration, String> {
        let told = |error: nix::Error| error.to_string();
        unshare(CloneFlags::CLONE_NEWNS).map_err(told)?;
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_SLAVE,
            None::<&str>,
        )
        .map_err(told)?;
        let _ = umount2("/sys/fs/cgroup/unified", MntFlags::MNT_DETACH);
        first_byte(&mut command).map_err(|error| error.to_string())
    });
    Ok(ran.join().map_err(|_| "the thread broke")??)
}

fn with_podman(rootfs: &Path) -> Outcome<Duration> {
    let mut command = Command::new("podman");
    command.args([
        "--runtime=runc",
        "run",
        "--rm",
        "--network=none",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1024:1024",
    ]);
    first_byte(
        command
            .arg("--rootfs")
            .arg(format!("{}:O", rootfs.display()))
            .args(["/bin/echo", "x"]),
    )
}

/// A whole sandbox of ours, as a setup run has it.
async fn sandbox(runtime: &OciRuntime, disk_mib: u32) -> Outcome<Duration> {
    let spec = SandboxSpec {
        id: Id::from_uuid(uuid::Uuid::new_v4()),
        runner_image: IMAGE.into(),
        layers: Vec::new(),
        base_digest: None,
        cpu_milli: 2_000,
        memory_mib: 4_096,
        disk_mib,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
        life: None,
        keep_disk: false,
    };
    let script = ScriptSpec {
        script: "echo x\n".into(),
        timeout: Duration::from_secs(60),
    };
    let (sender, mut events) = mpsc::channel(64);
    let started = Instant::now();
    runtime.prepare(&spec).await?;
    let prepared = started.elapsed();
    let running = runtime.run_script(spec.id, &script, sender);
    let watching = async {
        let mut first = None;
        while let Some(event) = events.recv().await {
            if first.is_none() && matches!(event, Event::Output { .. }) {
                first = Some(started.elapsed());
            }
        }
        first
    };
    let (end, first) = tokio::join!(running, watching);
    if std::env::var_os("GROUNDWORK_TRACE").is_some() {
        let log = runtime
            .state_dir()
            .join("sandboxes")
            .join(spec.id.to_string())
            .join("shim.log");
        eprintln!(
            "prepared after {prepared:.1?}, first output after {first:.1?}\n{}",
            fs::read_to_string(log)?
        );
    }
    runtime.destroy(spec.id).await?;
    if end?.exit_code != 0 {
        return Err("the script failed".into());
    }
    Ok(first.ok_or("no output")?)
}
