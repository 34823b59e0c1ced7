//! Scripts that do too much of something, and that others and this process do not suffer from it (spec 4-execution,
//! *Faults*).

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use domain::ids::SandboxId;
use execution::runtime::{Runtime, RuntimeError, SandboxSpec, ScriptEnd, ScriptSpec};
use tokio::sync::mpsc;

use crate::support::{Bench, HANGS, eventually, spec};

/// MiB of memory of a process.
fn resident(pid: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn shim(id: SandboxId) -> String {
    let output = Command::new("pgrep")
        .args(["-f", &format!("^groundwork-shim:{id}:")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().unwrap_or("0").to_owned()
}

/// Runs a script whose output is read and thrown away, as a slow reader would at worst.
async fn drained(bench: &Bench, id: SandboxId, script: &str, seconds: u64) -> ScriptEnd {
    let (sender, mut events) = mpsc::channel(64);
    let drain = tokio::spawn(async move { while events.recv().await.is_some() {} });
    let spec = ScriptSpec {
        script: script.to_owned(),
        timeout: Duration::from_secs(seconds),
    };
    let end = bench.runtime.run_script(id, &spec, sender).await.unwrap();
    drain.await.unwrap();
    end
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_in_one_sandbox_keeps_neither_others_from_starting_nor_takes_our_memory() {
    let bench = Bench::new();
    let storms = [
        ("a line of 3 GB", "yes | tr -d '\\n' | head -c 3G\n"),
        (
            "output of 300 processes",
            "for i in $(seq 300); do (while :; do echo \"$i some words of a line\"; done) & done\nwait\n",
        ),
        (
            "files",
            "cd /workspace\nfor round in $(seq 100); do mkdir d$round; (cd d$round; seq 10000 | xargs touch); rm -r d$round; done\n",
        ),
        (
            "a gigabyte of lines",
            "yes 'a line of some words, again and again, until somebody tires' | head -c 1G\n",
        ),
        (
            "records that our driver does not write",
            "exec 3>/run/ctl/mark; yes 'M words without an end' | tr -d '\\0' | head -c 300M >&3
python3 -c \"
mark = open('/run/ctl/mark', 'wb', 0)
for n in range(200000): mark.write(b'M\\t' + str(n).encode() * 3 + b'\\t9\\t4294967295\\tx\\ty\\0')
\"
",
        ),
        ("a fork bomb", "b() { b | b & }; b 2>/dev/null\nsleep 60\n"),
    ];
    for (name, script) in storms {
        let stormy = spec();
        let id = bench.start(&stormy).await;
        let ours_before = resident("self");
        let watching = async {
            let (mut ours, mut theirs) = (0, 0);
            let pid = shim(id);
            let mut slowest = Duration::ZERO;
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(700)).await;
                let calm = spec();
                let begun = Instant::now();
                bench.start(&calm).await;
                let ran = bench.script(calm.id, "echo calm\n", HANGS).await.unwrap();
                slowest = slowest.max(begun.elapsed());
                assert_eq!(ran.passed(), "calm\n");
                bench.runtime.destroy(calm.id).await.unwrap();
                ours = ours.max(resident("self"));
                theirs = theirs.max(resident(&pid));
            }
            (slowest, ours, theirs)
        };
        let (_, (slowest, ours, theirs)) = tokio::join!(drained(&bench, id, script, 8), watching);
        bench.runtime.destroy(id).await.unwrap();
        assert!(slowest < Duration::from_secs(20), "{name}: {slowest:?}");
        assert!(
            ours < ours_before + 200 && theirs < 200,
            "{name}: {ours_before} then {ours} MiB here, {theirs} MiB in the shim"
        );
    }
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_takes_under_3_s_mostly_and_under_10_s_always() {
    let bench = Bench::new();
    let mut took = Vec::new();
    for _ in 0..12 {
        let id = bench.start(&spec()).await;
        let script = "trap '' TERM INT HUP\nfor i in $(seq 40); do (trap '' TERM INT HUP; while :; do sleep 1; done) & done\nsudo setsid sh -c 'trap \"\" TERM; sleep 1000' &\ntouch /workspace/ready\nsleep 1000\n";
        let stop = async {
            eventually("the script's children run", async || {
                bench
                    .sh(id, "ls /workspace")
                    .await
                    .stdout()
                    .contains("ready")
            })
            .await;
            let begun = Instant::now();
            bench.runtime.stop(id).await.unwrap();
            begun.elapsed()
        };
        let (end, stopped) = tokio::join!(drained(&bench, id, script, HANGS), stop);
        assert!(end.cancelled);
        took.push(stopped);
        bench.runtime.destroy(id).await.unwrap();
    }
    took.sort();
    assert!(took[took.len() / 2] < Duration::from_secs(3), "{took:?}");
    assert!(took[took.len() - 1] < Duration::from_secs(10), "{took:?}");
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_nothing_starts_and_what_runs_goes_on() {
    let full = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1200m", "tmpfs"])
        .arg(full.path())
        .status();
    assert!(mounted.unwrap().success());
    let state = full.path().join("state");
    let bench = Bench::with(|config| {
        config.state_dir = state;
        config.disk_reserve = 0;
    });
    let gib = || SandboxSpec {
        disk_mib: 1_024,
        ..spec()
    };
    let first = gib();
    bench.start(&first).await;
    fs::write(full.path().join("filler"), vec![1_u8; 100 << 20]).unwrap();
    let refused = bench.runtime.prepare(&gib()).await;
    let ran = bench
        .script(
            first.id,
            "head -c 900M /dev/zero >/workspace/file\nsync\nwc -c </workspace/file\n",
            HANGS,
        )
        .await
        .unwrap();
    bench.runtime.destroy(first.id).await.unwrap();
    bench.assert_clean().await;
    drop(bench);
    let unmounted = Command::new("umount").arg(full.path()).status();
    assert!(unmounted.unwrap().success());
    assert!(
        matches!(&refused, Err(RuntimeError::Capacity(text)) if !text.is_empty()),
        "{refused:?}"
    );
    assert_eq!(ran.passed(), "943718400\n", "its room was its own");
}

/// What a script leaves behind may write for ever where only our driver should, or where its output goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_its_shell_whatever_is_left_behind_writes_to_its_pipes() {
    let bench = Bench::new();
    let record = "printf 'E\\t1\\t9\\t\\t0\\te\\t1\\tf\\tfalse\\0'";
    let flood = format!("for i in $(seq 1000); do {record}; done >/workspace/many");
    let left_behind = [
        "cat /dev/zero >/run/ctl/mark".to_owned(),
        "yes 'no record of ours' >/run/ctl/mark".to_owned(),
        // Records as our driver's, faster than they are read.
        "python3 -c \"exec('while True: os.write(1, data)', dict(os=__import__('os'), data=open('/workspace/many', 'rb').read()))\" >/run/ctl/mark".to_owned(),
        "while :; do cat /workspace/many >/run/ctl/mark; yes | head -c 1M; done".to_owned(),
    ];
    for left in left_behind {
        let id = bench.start(&spec()).await;
        bench.sh(id, &flood).await.passed();
        let script = format!("for i in 1 2 3 4; do {left} & done; sleep 2; false\n");
        let begun = Instant::now();
        let end = drained(&bench, id, &script, HANGS).await;
        assert_eq!(
            (end.exit_code, end.timed_out, end.failed_line),
            (1, false, 1),
            "{left}: {end:?}"
        );
        // Two seconds by the rule, and what starting and killing take while other storms are about.
        assert!(
            begun.elapsed() < Duration::from_secs(12),
            "{left}: {:?}",
            begun.elapsed()
        );
        bench.runtime.destroy(id).await.unwrap();
    }
    bench.assert_clean().await;
}
