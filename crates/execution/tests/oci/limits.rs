//! Disk, memory, processes, time: what a script may not exceed, and how its end is told.

use std::time::{Duration, Instant};

use execution::runtime::{Runtime, RuntimeError};

use crate::support::{Bench, HANGS, eventually, spec};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_enospc_for_root_too_and_recovers() {
    let bench = Bench::new();
    let script = r#"
if head -c 2G /dev/zero >/workspace/full; then echo room; fi
if sudo sh -c 'head -c 64M /dev/zero >/root/more'; then echo room for root; fi
df --output=avail -B1M /workspace | tail -1 | tr -d ' '
rm /workspace/full
head -c 100M /dev/zero >/workspace/again
echo recovered
"#;
    let ran = bench.run(script).await;
    let out = ran.passed();
    assert_eq!(out, "0\nrecovered\n");
    assert_eq!(
        ran.stderr().matches("No space left on device").count(),
        2,
        "{}",
        ran.stderr()
    );
    assert!(ran.end.disk_used < ran.end.disk_size / 2, "{:?}", ran.end);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_limit_is_named_and_takes_the_script_not_the_sandbox() {
    let bench = Bench::new();
    let script = "python3 -c 'x = bytearray(3 << 30)'\n";
    let ran = bench.run(script).await;
    assert_eq!(ran.end.exit_code, 137, "{ran:?}");
    assert!(ran.end.out_of_memory && !ran.end.timed_out, "{:?}", ran.end);
    assert_eq!(ran.end.failed_line, 1);
    assert!(
        ran.end.memory_peak >= 1000 << 20 && ran.end.memory_peak <= 1024 << 20,
        "{:?}",
        ran.end
    );
    let ran = bench.run("true\n").await;
    assert!(!ran.end.out_of_memory);
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_for_memory_that_the_script_came_through_is_not_why_a_later_line_failed() {
    let bench = Bench::new();
    let script = r#"
echo before
(python3 -c 'x = bytearray(3 << 30)') || echo "killed with $?"
no-such-program
"#;
    let ran = bench.run(script).await;
    assert_eq!(ran.stdout(), "before\nkilled with 137\n");
    assert_eq!((ran.end.exit_code, ran.end.failed_line), (127, 4));
    assert!(!ran.end.out_of_memory, "{:?}", ran.end);

    // In a loop whose lines are not waited for any more.
    let script = r#"
for turn in $(seq 30); do
  true
  [ "$turn" != 25 ] || (python3 -c 'x = bytearray(3 << 30)') || echo "killed with $?"
  sleep 0.01
  [ "$turn" != 30 ]
done
"#;
    let ran = bench.run(script).await;
    assert_eq!(ran.stdout(), "killed with 137\n");
    assert_eq!((ran.end.exit_code, ran.end.failed_line), (1, 6));
    assert!(!ran.end.out_of_memory, "{:?}", ran.end);
    let script = script.replace("|| echo \"killed with $?\"", "");
    let ran = bench.run(&script).await;
    assert_eq!((ran.end.exit_code, ran.end.failed_line), (137, 4));
    assert!(ran.end.out_of_memory, "{:?}", ran.end);

    // What an earlier line left running is killed for memory while the failing one runs: that may be why.
    let script = r#"
(until [ -e go ]; do sleep 0.1; done; python3 -c 'x = bytearray(3 << 30)' || touch killed) &
touch go; until [ -e killed ]; do sleep 0.1; done; exit 3
"#;
    let ran = bench.run(script).await;
    assert_eq!((ran.end.exit_code, ran.end.failed_line), (3, 3));
    assert!(ran.end.out_of_memory, "{:?}", ran.end);
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_shared_memory_count_as_memory() {
    let bench = Bench::new();
    let ran = bench
        .run("df --output=size -B1M /dev/shm | tail -1 | tr -d ' '\n")
        .await;
    assert_eq!(ran.passed(), "512\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_meets_the_process_limit_and_is_ended() {
    let bench = Bench::with(|config| config.pids_max = 300);
    let spec = spec();
    let id = bench.start(&spec).await;
    let ran = bench
        .script(id, "b() { b | b & }; b 2>/dev/null\nsleep 60\n", 3)
        .await
        .unwrap();
    assert!(ran.end.exit_code != 0, "{:?}", ran.end);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_kills_everything_and_is_124() {
    let bench = Bench::with(|config| config.base_uid = 1_300_000_000);
    let spec = spec();
    let id = bench.start(&spec).await;
    let script = "echo before\ntrap '' TERM INT HUP\nsudo setsid sh -c 'trap \"\" TERM; sleep 1000' &\nsleep 1000\n";
    let started = Instant::now();
    let ran = bench.script(id, script, 5).await.unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(
        (ran.end.exit_code, ran.end.timed_out, ran.end.last_line),
        (124, true, 4),
        "{:?}",
        ran.end
    );
    assert_eq!(ran.stdout(), "before\n");
    assert_no_process_of(&bench).await;
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

/// No process has a user id of the bench's ranges.
async fn assert_no_process_of(bench: &Bench) {
    let first = bench.runtime.config().base_uid;
    let range = first..first + 65_536 * bench.runtime.config().slots;
    eventually("every process is gone", async || {
        procfs_uids().into_iter().all(|uid| !range.contains(&uid))
    })
    .await;
}

fn procfs_uids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let status =
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    status
        .filter_map(|text| {
            text.lines().find_map(|line| {
                line.strip_prefix("Uid:")?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_children_that_ignore_term() {
    let bench = Bench::with(|config| config.base_uid = 1_100_000_000);
    let spec = spec();
    let id = bench.start(&spec).await;
    let (sender, mut events) = tokio::sync::mpsc::channel(1);
    let script = execution::runtime::ScriptSpec {
        script: "trap '' TERM\nfor i in 1 2 3; do (trap '' TERM; sleep 1000) & done\necho started\nsleep 1000\n".into(),
        timeout: Duration::from_secs(60),
    };
    let run = bench.runtime.run_script(id, &script, sender);
    let cancel = async {
        while let Some(event) = events.recv().await {
            if matches!(&event, execution::runtime::Event::Marker { line: 4, .. }) {
                break;
            }
        }
        // The channel is left full and unread: stopping must not depend on it.
        let asked = Instant::now();
        bench.runtime.stop(id).await.unwrap();
        let took = asked.elapsed();
        while events.recv().await.is_some() {}
        took
    };
    let (end, took) = tokio::join!(run, cancel);
    let end = end.unwrap();
    assert!(end.cancelled && !end.timed_out, "{end:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_no_process_of(&bench).await;
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_left_behind_does_not_hold_the_run_and_is_named() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let started = Instant::now();
    let ran = bench
        .script(
            id,
            "sleep 1000 &\nsudo setsid sleep 1001 &\nsleep 0.3\necho done\n",
            HANGS,
        )
        .await
        .unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(ran.passed(), "done\n");
    assert_eq!(
        ran.end
            .left_behind
            .iter()
            .filter(|name| *name == "sleep")
            .count(),
        1,
        "{:?}",
        ran.end.left_behind
    );
    bench.runtime.destroy(id).await.unwrap();
    assert!(bench.run("true\n").await.end.left_behind.is_empty());
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_process_substitution_is_not_lost() {
    let bench = Bench::new();
    let ran = bench
        .run("exec > >(sed 's/^/seen: /')\necho one\necho two\n")
        .await;
    assert_eq!(ran.passed(), "seen: one\nseen: two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn much_output_arrives_whole_and_in_order() {
    let bench = Bench::new();
    let spec = spec();
    let id = bench.start(&spec).await;
    let ran = bench.script(id, "seq 1 200000\n", HANGS).await.unwrap();
    let out = ran.passed();
    assert_eq!(out.lines().count(), 200_000);
    assert!(
        out.lines()
            .enumerate()
            .all(|(index, line)| line == (index + 1).to_string())
    );
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_that_is_over_ends_the_sandbox() {
    let bench = Bench::new();
    let mut spec = spec();
    spec.life = Some(Duration::from_secs(6));
    let id = bench.start(&spec).await;
    let ended = bench.script(id, "sleep 1000\n", HANGS).await;
    assert_eq!(
        ended.err(),
        Some(RuntimeError::Lost("its time to live is over".into()))
    );
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_room_on_the_host_is_told_before_anything_starts() {
    let bench = Bench::with(|config| config.disk_reserve = 1 << 60);
    let refused = bench.runtime.prepare(&spec()).await;
    assert!(
        matches!(&refused, Err(RuntimeError::Capacity(text)) if text.contains("GiB")),
        "{refused:?}"
    );
    let bench = Bench::with(|config| config.slots = 1);
    let first = spec();
    bench.start(&first).await;
    let refused = bench.runtime.prepare(&spec()).await;
    assert!(
        matches!(&refused, Err(RuntimeError::Capacity(_))),
        "{refused:?}"
    );
    bench.runtime.destroy(first.id).await.unwrap();
    assert_eq!(bench.run("echo again\n").await.passed(), "again\n");
    bench.assert_clean().await;
}
