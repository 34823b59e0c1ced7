//! Things that die, and that nothing is left of them.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use domain::ids::SandboxId;
use execution::{
    oci::OciRuntime,
    runtime::{Runtime, RuntimeError, SandboxSpec, SavedLayer},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{Bench, HANGS, eventually, spec};

/// Process number of a sandbox's shim.
pub fn shim(id: SandboxId) -> Pid {
    let output = Command::new("pgrep")
        .args(["-f", &format!("^groundwork-shim:{id}:")])
        .output()
        .unwrap();
    let pid = String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .expect("a shim")
        .parse()
        .unwrap();
    Pid::from_raw(pid)
}

/// Process number of a sandbox's init.
pub fn init(id: SandboxId) -> Pid {
    let parents = [
        "/sys/fs/cgroup/memory/groundwork",
        "/sys/fs/cgroup/groundwork",
    ];
    let groups = parents
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten();
    let group = groups
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(&id.to_string()));
    let procs = std::fs::read_to_string(group.expect("a cgroup").join("cgroup.procs")).unwrap();
    Pid::from_raw(procs.lines().next().expect("an init").parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_takes_its_sandbox_along_and_leaves_nothing() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let inside = init(id);
    let killing = async {
        kill(shim(id), Signal::SIGKILL).unwrap();
    };
    let (ended, ()) = tokio::join!(bench.script(id, "sleep 1000\n", HANGS), killing);
    assert!(matches!(ended, Err(RuntimeError::Lost(_))), "{ended:?}");
    eventually("the sandbox's processes are gone", async || {
        kill(inside, None).is_err()
    })
    .await;
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_init_is_a_lost_sandbox() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let killing = async {
        kill(init(id), Signal::SIGKILL).unwrap();
    };
    let (ended, ()) = tokio::join!(bench.script(id, "sleep 1000\n", HANGS), killing);
    assert!(
        matches!(&ended, Err(RuntimeError::Lost(text)) if text.contains("first process")),
        "{ended:?}"
    );
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_shim_and_oci_runtime_together_leaves_nothing_after_reclaim() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let crun = Command::new("pgrep")
        .args(["-f", &format!("crun .*{id}$")])
        .output()
        .unwrap();
    for pid in String::from_utf8_lossy(&crun.stdout).lines() {
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
    kill(shim(id), Signal::SIGKILL).unwrap();
    // Another worker starts on the same state directory.
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    next.reclaim().await.unwrap();
    assert_eq!(next.leftovers().await.unwrap(), []);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_ends_what_the_last_one_left() {
    let bench = Bench::new();
    let (first, second) = (spec(), spec());
    bench.start(&first).await;
    let inside = init(first.id);
    let next = OciRuntime::new(bench.runtime.config().clone()).unwrap();
    assert_eq!(
        next.leftovers().await.unwrap(),
        [],
        "a live shim's sandbox is no leftover"
    );
    next.prepare(&second).await.unwrap();
    let removed = next.reclaim().await.unwrap();
    assert!(
        removed.iter().any(|item| item.kind == "process"),
        "{removed:?}"
    );
    assert!(
        removed
            .iter()
            .all(|item| !item.what.contains(&second.id.to_string())),
        "{removed:?}"
    );
    eventually("the first sandbox is gone", async || {
        kill(inside, None).is_err()
    })
    .await;
    let lost = bench.script(first.id, "true\n", HANGS).await;
    assert!(matches!(lost, Err(RuntimeError::Lost(_))), "{lost:?}");
    next.destroy(second.id).await.unwrap();
    bench.runtime.destroy(first.id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_start_says_why_and_leaves_nothing() {
    let bench = Bench::with(|config| config.runtime = "/bin/false".into());
    let refused = bench.runtime.prepare(&spec()).await;
    assert!(
        matches!(&refused, Err(RuntimeError::Other(text)) if text.contains("could not start")),
        "{refused:?}"
    );
    bench.assert_clean().await;
    let bench = Bench::with(|config| config.shim_command.0 = "/no/such/program".into());
    assert!(bench.runtime.prepare(&spec()).await.is_err());
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_sandboxes_at_once() {
    let bench = Bench::new();
    let specs: Vec<_> = (0..8).map(|_| spec()).collect();
    let started = Instant::now();
    let runs = specs.iter().map(|spec| async {
        let id = bench.start(spec).await;
        let ran = bench
            .script(
                id,
                "echo $((6 * 7)) >/workspace/x; cat /workspace/x\n",
                HANGS,
            )
            .await
            .unwrap();
        bench.runtime.destroy(id).await.unwrap();
        ran.passed()
    });
    let out = futures::future::join_all(runs).await;
    assert_eq!(out, vec!["42\n"; 8]);
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runc_does_as_well() {
    let bench = Bench::with(|config| {
        config.runtime = "runc".into();
        config.runtime_kind = execution::oci::RuntimeKind::Runc;
    });
    assert!(
        Command::new("runc")
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success()),
        "this test needs runc (Debian: apt-get install runc)"
    );
    let ran = bench
        .run("id -un; sudo id -u; echo to-stderr >/dev/stderr; (exit 7)\n")
        .await;
    assert_eq!(
        (ran.end.exit_code, ran.stdout(), ran.stderr()),
        (7, "sandbox\n0\n".into(), "to-stderr\n".into())
    );
    bench.assert_clean().await;
}

/// A sandbox whose save takes a while and is under way when `break_off` is called: how the save ends, and after how long. What
/// it copied is gone then; so is everything else once the sandbox is destroyed.
async fn save_broken_off(
    bench: &Bench,
    break_off: impl AsyncFnOnce(SandboxId),
) -> (Result<SavedLayer, RuntimeError>, Duration) {
    let large = SandboxSpec {
        disk_mib: 2_048,
        ..spec()
    };
    let id = bench.start(&large).await;
    // Both kinds of slow: much to hash and write, and many to make.
    let script = "head -c 500M /dev/urandom >/workspace/a\nmkdir /workspace/b; cd /workspace/b; seq 20000 | xargs touch\n";
    bench.script(id, script, HANGS).await.unwrap().passed();
    let runtime = bench.runtime.clone();
    let saving = tokio::spawn(async move { runtime.save_image(id).await });
    let partial = bench.layers().join(format!("{id}.partial"));
    eventually("the copy is under way", async || partial.exists()).await;
    let begun = Instant::now();
    break_off(id).await;
    let saved = saving.await.unwrap();
    let took = begun.elapsed();
    bench.runtime.destroy(id).await.unwrap();
    assert_eq!(std::fs::read_dir(bench.layers()).unwrap().count(), 0);
    bench.assert_clean().await;
    (saved, took)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_breaks_a_save_off_at_once_and_leaves_nothing_of_it() {
    let bench = Bench::new();
    let (saved, took) = save_broken_off(&bench, async |id| {
        bench.runtime.stop(id).await.unwrap();
    })
    .await;
    assert_eq!(saved, Err(RuntimeError::Lost("it has been stopped".into())));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_is_killed_while_it_saves_leaves_nothing_of_the_copy() {
    let bench = Bench::new();
    let (saved, _) = save_broken_off(&bench, async |id| {
        kill(shim(id), Signal::SIGKILL).unwrap();
    })
    .await;
    assert!(matches!(saved, Err(RuntimeError::Lost(_))), "{saved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_whose_worker_goes_away_breaks_off_and_leaves_nothing() {
    let bench = Bench::new();
    let (saved, _) = save_broken_off(&bench, async |id| {
        bench.runtime.destroy(id).await.unwrap();
    })
    .await;
    assert!(matches!(saved, Err(RuntimeError::Lost(_))), "{saved:?}");
}
