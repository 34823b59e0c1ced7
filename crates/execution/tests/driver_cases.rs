//! The driver against bash on this machine, in a process of its own without privileges.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "common/driver_cases/mod.rs"]
mod table;

use std::{
    io::Write,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    process::Stdio,
    time::{Duration, Instant},
};

use execution::{
    driver::{self, DriverEnd, Stop, Stops},
    runtime::{Event, ScriptSpec},
};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::signal::{Signal, killpg},
    unistd::{Pid, geteuid},
};
use table::{Case, Outcome, all};
use tokio::{process::Command, sync::mpsc};
use tokio_util::sync::CancellationToken;

/// Runs one script; everything that it left in its process group is killed afterwards.
async fn run(spec: ScriptSpec, cancel: CancellationToken) -> (DriverEnd, Vec<Event>) {
    run_watched(spec, cancel, |_| {}).await
}

/// As [`run`]; each event is shown as it comes.
async fn run_watched(
    spec: ScriptSpec,
    cancel: CancellationToken,
    mut watch: impl FnMut(&Event),
) -> (DriverEnd, Vec<Event>) {
    let control_dir = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    for (dir, mode) in [(&control_dir, 0o755), (&home, 0o777)] {
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::write(home.path().join(".profile"), "export GW_PROFILE=yes\n").unwrap();
    let control = driver::prepare(control_dir.path(), &spec).unwrap();
    let argv = control.command_here();
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")])
        .env("HOME", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let mut child = command.spawn().unwrap();
    let group = Pid::from_raw(child.id().unwrap() as i32);
    let stdout = child.stdout.take().unwrap().into_owned_fd().unwrap();
    let stderr = child.stderr.take().unwrap().into_owned_fd().unwrap();
    let (sink, mut source) = mpsc::channel(16);
    let stops = Stops {
        timeout: spec.timeout,
        cancel,
        kill: Box::new(move || {
            let _ = killpg(group, Signal::SIGKILL);
        }),
    };
    let exit = async move { child.wait().await.unwrap().into_raw() };
    let collect = async {
        let mut events = Vec::new();
        while let Some(event) = source.recv().await {
            watch(&event);
            events.push(event);
        }
        events
    };
    let (end, events) = tokio::join!(
        driver::serve(
            control,
            stdout,
            stderr,
            exit,
            stops,
            Box::new(Vec::new),
            sink
        ),
        collect
    );
    let _ = killpg(group, Signal::SIGKILL);
    (end.unwrap(), events)
}

async fn judge(case: &Case) -> Vec<String> {
    let spec = ScriptSpec {
        script: case.script.clone(),
        timeout: case.timeout,
    };
    let started = Instant::now();
    let (end, events) = run(spec, CancellationToken::new()).await;
    case.complaints(&Outcome {
        exit: end.exit_code,
        line: end.failed_line,
        command: end.failed_command,
        failed_in: end.failed_in,
        took: started.elapsed(),
        events,
    })
}

/// How often the whole table runs; `DRIVER_CASES_ROUNDS=200` searches for races.
fn rounds() -> usize {
    std::env::var("DRIVER_CASES_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(1)
}

#[tokio::test(flavor = "current_thread")]
async fn every_script_of_the_table_is_judged_rightly() {
    let only = std::env::var("DRIVER_CASE").unwrap_or_default();
    let cases: Vec<Case> = all()
        .into_iter()
        .filter(|c| c.name.contains(&only))
        .collect();
    let mut wrong = Vec::new();
    for _ in 0..rounds() {
        let mut left = cases.iter();
        loop {
            let batch: Vec<_> = left.by_ref().take(4).map(judge).collect();
            if batch.is_empty() {
                break;
            }
            wrong.extend(futures::future::join_all(batch).await.into_iter().flatten());
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len() * rounds(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn a_cancelled_script_is_killed_with_its_children() {
    let cancel = CancellationToken::new();
    let spec = ScriptSpec {
        script: "echo a\n(trap '' TERM; sleep 900) & wait\n".to_owned(),
        timeout: Duration::from_secs(60),
    };
    let started = Instant::now();
    let (end, events) = run_watched(spec, cancel.clone(), |event| {
        if matches!(event, Event::Marker { line: 2, .. }) {
            cancel.cancel();
        }
    })
    .await;
    assert_eq!(end.stopped, Some(Stop::Cancelled));
    assert_eq!(end.last_line, 2);
    assert!(started.elapsed().as_secs() < 30);
    assert!(events.len() >= 3);
}

#[tokio::test]
async fn the_log_begins_with_where_and_how_the_script_runs() {
    let spec = ScriptSpec {
        script: "true\n".to_owned(),
        timeout: Duration::from_secs(60),
    };
    let (_, events) = run(spec, CancellationToken::new()).await;
    let Some(Event::System { text }) = events.first() else {
        panic!("{events:?}");
    };
    for part in ["runs as ", " in /", "HOME=/", "errexit", "pipefail"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_makes_the_script_wait() {
    let spec = ScriptSpec {
        script: "head -c 3000000 /dev/zero | cat\necho end\n".to_owned(),
        timeout: Duration::from_secs(60),
    };
    let (_, events) = run(spec, CancellationToken::new()).await;
    let bytes: usize = events
        .iter()
        .map(|e| {
            if let Event::Output { bytes, .. } = e {
                bytes.len()
            } else {
                0
            }
        })
        .sum();
    assert_eq!(bytes, 3_000_004);
}

#[tokio::test]
async fn time_is_told_by_line() {
    let spec = ScriptSpec {
        script: "sleep 1\ntrue\nfor i in 1 2; do\n  sleep 0.2\ndone\n".to_owned(),
        timeout: Duration::from_secs(60),
    };
    let begun = Instant::now();
    let (end, _) = run(spec, CancellationToken::new()).await;
    let took = begun.elapsed();
    let at = |line: u32| {
        end.timings
            .iter()
            .find(|(l, _)| *l == line)
            .unwrap()
            .1
            .as_millis()
    };
    assert!(at(1) >= 1_000 && at(4) >= 400, "{:?}", end.timings);
    // No time is told twice, however long the machine halts in whichever line.
    let sum: Duration = end.timings.iter().map(|(_, time)| *time).sum();
    assert!(sum <= took, "{:?} of {took:?}", end.timings);
}

/// The shell has ended, its output fills the reader's channel, and nobody takes it: what it left behind is killed at the
/// timeout all the same, and the verdict stays the shell's.
#[tokio::test]
async fn what_a_script_left_behind_is_killed_at_the_timeout_even_while_nobody_reads() {
    const CHUNKS: usize = 16;
    const CHUNK: usize = 64 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let spec = ScriptSpec {
        script: "true\n".to_owned(),
        // The shell has ended already, and this is later on the slowest machine.
        timeout: Duration::from_secs(2),
    };
    let control = driver::prepare(dir.path(), &spec).unwrap();
    let (stdout, writing) = nix::unistd::pipe().unwrap();
    let (stderr, _silent) = nix::unistd::pipe().unwrap();
    let size = FcntlArg::F_SETPIPE_SZ((CHUNKS * CHUNK) as i32);
    fcntl(&writing, size).unwrap();
    let mut writing = std::fs::File::from(writing);
    writing.write_all(&vec![b'x'; CHUNKS * CHUNK]).unwrap();
    // Less than the pipe holds, but more than is read before the shell's end is seen.
    let (sink, mut source) = mpsc::channel(CHUNKS - 2);
    let killed = CancellationToken::new();
    let kill = killed.clone();
    let stops = Stops {
        timeout: spec.timeout,
        cancel: CancellationToken::new(),
        kill: Box::new(move || kill.cancel()),
    };
    let serving = driver::serve(
        control,
        stdout,
        stderr,
        async { 0 },
        stops,
        Box::new(Vec::new),
        sink,
    );
    let reading = async {
        killed.cancelled().await;
        while source.recv().await.is_some() {}
    };
    let both = async { tokio::join!(serving, reading).0 };
    let end = tokio::time::timeout(Duration::from_secs(60), both).await;
    assert_eq!(end.expect("it is killed").unwrap().stopped, None);
}

/// Once the shell has ended, what is in the records' pipe is all that it can have said: whoever goes on writing there is no
/// driver of ours, and is not read for ever.
#[tokio::test]
async fn records_that_come_after_the_shells_end_are_not_waited_for() {
    const BY_THE_END: u32 = 10;
    const LINES: u32 = 500;
    let dir = tempfile::tempdir().unwrap();
    let spec = ScriptSpec {
        script: "true\n".repeat(LINES as usize),
        timeout: Duration::from_secs(60),
    };
    let control = driver::prepare(dir.path(), &spec).unwrap();
    let (stdout, _quiet) = nix::unistd::pipe().unwrap();
    let (stderr, _silent) = nix::unistd::pipe().unwrap();
    let mark = std::fs::File::options()
        .write(true)
        .open(dir.path().join("mark"))
        .unwrap();
    let write = |line: u32| {
        let record = format!("M\t1.{line}\t9\t\t0\te\t{line}\tscript\ttrue\0");
        (&mark).write_all(record.as_bytes()).unwrap();
    };
    let exit = async {
        (1..=BY_THE_END).for_each(write);
        0
    };
    let (sink, mut source) = mpsc::channel(1);
    let stops = Stops {
        timeout: spec.timeout,
        cancel: CancellationToken::new(),
        kill: Box::new(|| ()),
    };
    let serving = driver::serve(
        control,
        stdout,
        stderr,
        exit,
        stops,
        Box::new(Vec::new),
        sink,
    );
    let reading = async {
        let (mut marks, mut next) = (0, BY_THE_END + 1);
        while let Some(event) = source.recv().await {
            if matches!(event, Event::Marker { .. }) {
                marks += 1;
                // Two for each that was read: it is never empty.
                let more = next..(next + 2).min(LINES);
                next = more.end;
                more.for_each(write);
            }
        }
        marks
    };
    let (end, marks) = tokio::join!(serving, reading);
    assert_eq!(end.unwrap().stopped, None);
    assert!((1..=BY_THE_END).contains(&marks), "{marks}");
}

/// A script that the test plays: records, then the end of the shell.
struct Played {
    control: driver::ControlDir,
    mark: std::fs::File,
    _dir: tempfile::TempDir,
    _silent: [std::os::fd::OwnedFd; 2],
    pipes: (std::os::fd::OwnedFd, std::os::fd::OwnedFd),
}

impl Played {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let spec = ScriptSpec {
            script: script.to_owned(),
            timeout: Duration::from_secs(60),
        };
        let control = driver::prepare(dir.path(), &spec).unwrap();
        let (stdout, quiet) = nix::unistd::pipe().unwrap();
        let (stderr, silent) = nix::unistd::pipe().unwrap();
        let mark = std::fs::File::options()
            .write(true)
            .open(dir.path().join("mark"))
            .unwrap();
        Self {
            control,
            mark,
            _dir: dir,
            _silent: [quiet, silent],
            pipes: (stdout, stderr),
        }
    }
}

fn record(kind: &str, word: &str, line: u32, command: &str) -> Vec<u8> {
    format!("{kind}\t{word}\t9\t\t0\te\t{line}\tscript\t{command}\0").into_bytes()
}

fn no_stops<'a>() -> Stops<'a> {
    Stops {
        timeout: Duration::from_secs(60),
        cancel: CancellationToken::new(),
        kill: Box::new(|| ()),
    }
}

/// What stands in the records' pipe at the shell's end tells where it failed, also where what comes before is read slowly.
#[tokio::test(start_paused = true)]
async fn the_failing_line_is_right_however_late_the_last_records_are_read() {
    let Played {
        control,
        mark,
        pipes: (stdout, stderr),
        _dir,
        _silent,
    } = Played::new("step 1\nstep 2\nstep 3\nfalse\n");
    let exit = async {
        for line in [1, 2, 3] {
            (&mark)
                .write_all(&record(
                    "M",
                    &format!("1.{line}"),
                    line,
                    &format!("step {line}"),
                ))
                .unwrap();
        }
        (&mark).write_all(&record("m", "", 4, "false")).unwrap();
        (&mark).write_all(&record("E", "1", 4, "false")).unwrap();
        1 << 8
    };
    let (sink, mut source) = mpsc::channel(1);
    let serving = driver::serve(
        control,
        stdout,
        stderr,
        exit,
        no_stops(),
        Box::new(Vec::new),
        sink,
    );
    let reading = async {
        while source.recv().await.is_some() {
            tokio::time::advance(Duration::from_secs(5)).await;
        }
    };
    let (end, ()) = tokio::join!(serving, reading);
    let end = end.unwrap();
    assert_eq!((end.failed_line, end.exit_code), (4, 1), "{end:?}");
}

/// While the shell waits at a statement, what those before it did is told: it is not the next one's.
#[tokio::test]
async fn what_happened_beside_a_statement_is_told_before_the_next_one() {
    let Played {
        control,
        mark,
        pipes: (stdout, stderr),
        _dir,
        _silent,
    } = Played::new("step 1\nstep 2\n");
    let exit = async {
        for line in [1, 2] {
            (&mark)
                .write_all(&record(
                    "M",
                    &format!("1.{line}"),
                    line,
                    &format!("step {line}"),
                ))
                .unwrap();
        }
        0
    };
    let mut asked = 0;
    let beside = || {
        asked += 1;
        let text = format!("beside {asked}");
        vec![Event::System { text }]
    };
    let (sink, mut source) = mpsc::channel(64);
    driver::serve(
        control,
        stdout,
        stderr,
        exit,
        no_stops(),
        Box::new(beside),
        sink,
    )
    .await
    .unwrap();
    let mut told = Vec::new();
    while let Some(event) = source.recv().await {
        match event {
            Event::System { text } => told.push(text),
            Event::Marker { line, .. } => told.push(format!("line {line}")),
            _ => {}
        }
    }
    assert_eq!(
        told[..4],
        ["beside 1", "line 1", "beside 2", "line 2"],
        "{told:?}"
    );
}
