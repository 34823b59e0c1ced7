//! Saving a prepared file system of about 350 MiB, side by side with `cp -a` of the same files, p50 of 20 (or of the first
//! argument). `cargo run --release -p execution --example save_speed`, as root, with the small runner image in
//! `GROUNDWORK_TEST_IMAGES` (default `/var/lib/groundwork-test/images`).
#![allow(clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use domain::{ids::Id, network_policy::NetworkPolicy};
use execution::{
    images::ImageStore,
    oci::{OciConfig, OciRuntime},
    runtime::{Runtime, SandboxSpec, ScriptSpec},
};
use tokio::sync::mpsc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const IMAGE: &str = "groundwork/runner:small";
/// Packages' files, a big file, many small ones.
const SCRIPT: &str = "cp -a /usr/lib /usr/share /workspace/\nhead -c 120M /dev/urandom >/workspace/big\n\
mkdir /workspace/small\ncd /workspace/small\nseq 1 4000 | xargs -n 200 sh -c 'for n; do echo \"$n\" >\"$n\"; done' _\n";

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
        .map_or(Ok(20), |text| text.parse::<usize>())?;
    let dir = tempfile::Builder::new()
        .prefix("save-")
        .tempdir_in("/var/lib")?;
    let images = std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from);
    std::os::unix::fs::symlink(images.join("runner"), dir.path().join("runner"))?;
    let config = OciConfig::new(
        dir.path().join("state"),
        ImageStore::new(dir.path()),
        (std::env::current_exe()?, vec!["shim".into()]),
    );
    let runtime = OciRuntime::new(config)?;
    let tokio = tokio::runtime::Runtime::new()?;
    let (mut ours, mut copies) = (Vec::new(), Vec::new());
    let mut size = 0;
    for _ in 0..rounds {
        let (took, layer, bytes) = tokio.block_on(save(&runtime, dir.path()))?;
        size = bytes;
        ours.push(took);
        copies.push(copy(&layer, &dir.path().join("copy"))?);
        fs::remove_dir_all(layer)?;
    }
    let ours = median(&mut ours);
    let copied = median(&mut copies);
    println!(
        "{} MiB, p50 of {rounds}: saved in {ours:.1?}, cp -a and sync -f in {copied:.1?}",
        size >> 20
    );
    println!(
        "ratio {:.2}, target 1.5",
        ours.as_secs_f64() / copied.as_secs_f64()
    );
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn copy(from: &Path, to: &Path) -> Outcome<Duration> {
    let started = Instant::now();
    for (program, args) in [
        ("cp", vec![Path::new("-a"), from, to]),
        ("sync", vec![Path::new("-f"), to]),
    ] {
        if !Command::new(program).args(args).status()?.success() {
            return Err(format!("{program} failed").into());
        }
    }
    let took = started.elapsed();
    fs::remove_dir_all(to)?;
    Ok(took)
}

async fn save(runtime: &OciRuntime, dir: &Path) -> Outcome<(Duration, PathBuf, u64)> {
    let spec = SandboxSpec {
        id: Id::from_uuid(uuid::Uuid::new_v4()),
        runner_image: IMAGE.into(),
        layers: Vec::new(),
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
        keep_disk: false,
    };
    runtime.prepare(&spec).await?;
    let script = ScriptSpec {
        script: SCRIPT.into(),
        timeout: Duration::from_secs(300),
    };
    let (sender, mut events) = mpsc::channel(64);
    let (end, ()) = tokio::join!(runtime.run_script(spec.id, &script, sender), async {
        while events.recv().await.is_some() {}
    });
    let end = end?;
    if end.exit_code != 0 {
        return Err(format!("the script failed at {}", end.failed_command).into());
    }
    let started = Instant::now();
    let saved = runtime.save_image(spec.id).await?;
    let took = started.elapsed();
    runtime.destroy(spec.id).await?;
    let hex = saved.digest.trim_start_matches("sha256:");
    Ok((took, dir.join("layers").join(hex), saved.size_bytes))
}
