//! Commands in a running sandbox.

use std::time::{Duration, Instant};

use domain::process::Input;
use execution::runtime::{Runtime, RuntimeError};

use crate::support::{Bench, HANGS, PATIENCE, argv, eventually, sh, spec};

/// A bench with a session's sandbox.
async fn session() -> (Bench, domain::ids::SandboxId) {
    let bench = Bench::new();
    let mut spec = spec();
    spec.env_vars.insert("OWN".into(), "from env".into());
    let id = bench.start(&spec).await;
    (bench, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_as_the_scripts_do() {
    let (bench, id) = session().await;
    let out = bench
        .sh(
            id,
            "id -un; id -u; pwd; umask; echo $OWN; cat; echo err >&2; exit 3",
        )
        .await;
    assert_eq!(out.code(), 3);
    assert_eq!(out.stdout(), "sandbox\n1000\n/workspace\n0022\nfrom env\n");
    assert_eq!(out.stderr(), "err\n");
    // The same variables, privileges and limits as a script's process.
    let look = "env | grep -v '^_=\\|^SHLVL\\|^OLDPWD\\|^PWD\\|^PATH' | sort; \
                grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|Uid|Gid|SigIgn|SigBlk)' /proc/self/status; \
                cat /proc/self/limits; cat /proc/self/oom_score_adj; readlink /proc/self/ns/*; \
                grep -v freezer /proc/self/cgroup; sudo id -u";
    let command = bench.sh(id, look).await.passed();
    let mut same = spec();
    same.env_vars.insert("OWN".into(), "from env".into());
    let second = bench.start(&same).await;
    let script = bench
        .script(second, &format!("bash -c {}\n", quote(look)), HANGS)
        .await
        .unwrap()
        .passed();
    let comparable = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.contains(":["))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(comparable(&command), comparable(&script));
    // A script has read /etc/profile as well, which appends to it.
    let path = bench.sh(id, "echo $PATH").await.passed();
    assert!(path.starts_with("/workspace/.venv/bin:/home/sandbox/.local/bin:/usr/local/sbin:"));
    bench.runtime.destroy(second).await.unwrap();
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_inherits_nothing_but_its_three_streams() {
    let (bench, id) = session().await;
    let out = bench
        .exec(id, argv(&["ls", "/proc/self/fd"]))
        .await
        .unwrap();
    // The fourth is the listed directory.
    assert_eq!(out.passed(), "0\n1\n2\n3\n");
    let out = bench
        .sh(
            id,
            "ps -o pid=,ppid=,pgid=,sid=,tty= -p $$; for f in out err; do echo to-$f >/dev/std$f; done; sudo bash -c 'echo root >/dev/stdout'",
        )
        .await;
    assert_eq!(out.code(), 0, "{}", out.stderr());
    let stdout = out.stdout();
    let numbers: Vec<&str> = stdout.lines().next().unwrap().split_whitespace().collect();
    assert!(
        numbers[0] == numbers[2]
            && numbers[0] == numbers[3]
            && numbers[1] == "1"
            && numbers[4] == "?",
        "a session of its own without a terminal: {numbers:?}"
    );
    assert!(stdout.ends_with("to-out\nroot\n"), "{stdout}");
    assert_eq!(out.stderr(), "to-err\n");
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_ends_as_in_a_shell() {
    let (bench, id) = session().await;
    bench
        .sh(id, "echo 'echo from-a-script $1' >x; chmod +x x; touch plain; mkdir dir; mkdir -p .venv/bin; \
                 printf '#!/bin/sh\\necho venv' >.venv/bin/tool; chmod +x .venv/bin/tool")
        .await
        .passed();
    for (words, code, text) in [
        (
            vec!["no-such-program"],
            127,
            "no-such-program: command not found",
        ),
        (
            vec!["./missing"],
            127,
            "./missing: No such file or directory",
        ),
        (vec!["./plain"], 126, "./plain: Permission denied"),
        (vec!["./dir"], 126, "./dir: Permission denied"),
        (vec![""], 127, "command not found"),
        (vec!["./x", "one"], 0, "from-a-script one"),
        (vec!["tool"], 0, "venv"),
    ] {
        let out = bench.exec(id, argv(&words)).await.unwrap();
        let said = format!("{}{}", out.stdout(), out.stderr());
        assert!(
            out.code() == code && said.contains(text),
            "{words:?}: {} {said:?}",
            out.code()
        );
    }
    let mut elsewhere = argv(&["pwd"]);
    elsewhere.cwd = Some("/usr/lib".into());
    assert_eq!(
        bench.exec(id, elsewhere.clone()).await.unwrap().passed(),
        "/usr/lib\n"
    );
    elsewhere.cwd = Some("/no/where".into());
    let out = bench.exec(id, elsewhere).await.unwrap();
    assert_eq!(
        (out.code(), out.stderr()),
        (
            126,
            "groundwork: /no/where: No such file or directory\n".into()
        )
    );
    let mut own = sh("echo $OWN $MORE");
    own.env.insert("OWN".into(), "other".into());
    own.env.insert("MORE".into(), "more".into());
    assert_eq!(bench.exec(id, own).await.unwrap().passed(), "other more\n");
    let mut huge = sh("true");
    huge.env.insert("HUGE".into(), "x".repeat(3 << 20));
    assert_eq!(bench.exec(id, huge).await.unwrap().code(), 126);
    let killed = bench.sh(id, "kill -9 $$").await;
    assert_eq!((killed.code(), killed.end.unwrap().killed), (137, false));
    // An empty one is a login shell.
    let mut shell = bench.talk(id, argv(&[]));
    shell
        .write("shopt -q login_shell && echo login; exit 4\n")
        .await;
    shell.close();
    let out = shell.done().await.unwrap();
    assert_eq!((out.code(), out.stdout()), (4, "login\n".into()));
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn input_reaches_a_command_and_its_end_too() {
    let (bench, id) = session().await;
    let mut talk = bench.talk(id, argv(&["sha256sum"]));
    let block = vec![7_u8; 1 << 20];
    for _ in 0..16 {
        talk.send(Input::Bytes(block.clone())).await;
    }
    talk.close();
    let sum = talk.done().await.unwrap().passed();
    let expected = bench
        .sh(id, "head -c 16M /dev/zero | tr '\\0' '\\7' | sha256sum")
        .await
        .passed();
    assert_eq!(sum, expected);
    // A command that does not read its input is not held up by it, nor its kill.
    let unread = bench.talk(id, argv(&["sleep", "1000"]));
    unread.send(Input::Bytes(block.clone())).await;
    unread.send(Input::Kill).await;
    let end = unread.done().await.unwrap().end.unwrap();
    assert_eq!(
        (end.exit_code, end.killed, end.timed_out),
        (137, true, false)
    );
    let early = bench.talk(id, argv(&["head", "-c", "3"]));
    for _ in 0..8 {
        let _ = early
            .input
            .as_ref()
            .unwrap()
            .send(Input::Bytes(block.clone()))
            .await;
    }
    assert_eq!(early.done().await.unwrap().passed(), "\u{7}\u{7}\u{7}");
    bench.runtime.destroy(id).await.unwrap();
}

/// Starts children that do all to survive, and tells when they run.
const STUBBORN: &str = "trap '' TERM HUP INT
setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 1000.1; done' &
(setsid setsid sleep 1000.1 &) &
sudo bash -c 'trap \"\" TERM; sleep 1000.1' &
while [ $(pgrep -c -f '^sleep 1000.1') -lt 3 ]; do sleep 0.01; done
echo running
while :; do sleep 1000.1; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_or_a_timeout_ends_the_whole_tree_and_nothing_else() {
    let (bench, id) = session().await;
    let mut other = bench.talk(id, sh("setsid sleep 2000.2 & echo up; cat"));
    other.until("up").await;
    let left = async || {
        let out = bench.sh(id, "pgrep -c -f '^sleep 1000.1'; true").await;
        out.passed().trim().to_owned()
    };
    let mut talk = bench.talk(id, sh(STUBBORN));
    talk.until("running").await;
    let asked = Instant::now();
    talk.send(Input::Kill).await;
    let end = talk.done().await.unwrap().end.unwrap();
    assert_eq!(
        (end.exit_code, end.killed, end.timed_out),
        (137, true, false)
    );
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(left().await, "0");

    let mut timed = sh(STUBBORN);
    timed.timeout = Some(Duration::from_secs(4));
    let end = bench.exec(id, timed).await.unwrap().end.unwrap();
    assert_eq!(
        (end.exit_code, end.killed, end.timed_out),
        (124, false, true)
    );
    assert_eq!(left().await, "0");

    // A caller that goes away is a kill.
    let mut talk = bench.talk(id, sh(STUBBORN));
    talk.until("running").await;
    talk.end.abort();
    eventually("the dropped command is gone", async || left().await == "0").await;

    // The other one never noticed.
    other.write("still here\n").await;
    other.until("still here").await;
    other.close();
    assert_eq!(other.done().await.unwrap().code(), 0);
    let daemon = bench.sh(id, "pgrep -c -f '^sleep 2000.2'").await;
    assert_eq!(
        daemon.passed(),
        "1\n",
        "what a command leaves running goes on"
    );
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_first_process_though_others_hold_its_output() {
    let (bench, id) = session().await;
    let started = Instant::now();
    let out = bench
        .sh(
            id,
            "(while sleep 0.05; do echo tick >>log; echo tick; done) & echo done",
        )
        .await;
    let out = out.passed();
    assert!(out.lines().any(|line| line == "done"), "{out}");
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    // The one in the background is not ended by writing to nobody.
    let count = async || {
        let out = bench.sh(id, "wc -l <log").await.passed();
        out.trim().parse::<u32>().unwrap()
    };
    let before = count().await;
    eventually("it goes on", async || count().await > before + 3).await;
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once() {
    let (bench, id) = session().await;
    let all = (0..32).map(|number| {
        let (bench, text) = (&bench, format!("read x; echo {number}$x; exit {number}"));
        async move {
            let mut talk = bench.talk(id, sh(&text));
            talk.write(&format!("-{number}\n")).await;
            talk.close();
            let done = talk.done().await.unwrap();
            (done.code(), done.stdout())
        }
    });
    let ended = futures::future::join_all(all).await;
    for (number, end) in (0..).zip(ended) {
        assert_eq!(end, (number, format!("{number}-{number}\n")));
    }
    let waiting: Vec<_> = (0..128).map(|_| bench.talk(id, argv(&["cat"]))).collect();
    eventually("all of them run", async || {
        bench.runtime.sample(id).await.unwrap().processes >= 129
    })
    .await;
    let refused = bench.exec(id, argv(&["true"])).await;
    assert!(
        matches!(refused, Err(RuntimeError::Capacity(_))),
        "{refused:?}"
    );
    for talk in waiting {
        assert_eq!(talk.done_after_close().await, 0);
    }
    assert_eq!(bench.sh(id, "echo again").await.passed(), "again\n");
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

/// Resident memory of a process in KiB.
fn memory(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_costs_no_memory_and_holds_up_nobody_else() {
    let (bench, id) = session().await;
    let shim = crate::faults::shim(id).to_string();
    bench.sh(id, "true").await;
    let (ours, theirs) = (memory("self"), memory(&shim));
    // Three that are not read at all, each with 100 MB to say.
    let mut flooding: Vec<_> = (0..3)
        .map(|_| bench.talk(id, sh("head -c 100000000 /dev/zero; echo end")))
        .collect();
    eventually("they have begun", async || {
        flooding
            .iter()
            .all(|talk| talk.output.len() == talk.output.max_capacity())
    })
    .await;
    let started = Instant::now();
    assert_eq!(bench.sh(id, "echo quick").await.passed(), "quick\n");
    assert!(bench.runtime.sample(id).await.unwrap().processes > 3);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    // Other tests run in this process: what they take is allowed for, and a third of what is not read is not.
    let grown = (
        memory("self").saturating_sub(ours),
        memory(&shim).saturating_sub(theirs),
    );
    assert!(
        grown.0 < 96 * 1024 && grown.1 < 16 * 1024,
        "KiB more: {grown:?}"
    );
    let mut talk = flooding.pop().unwrap();
    talk.close();
    let mut bytes = 0;
    while let Some(output) = talk.output.recv().await {
        bytes += output.bytes.len();
    }
    assert_eq!(talk.end.await.unwrap().unwrap().exit_code, 0);
    assert_eq!(bytes, 100_000_004);
    // A kill ends one that is not read.
    let talk = flooding.pop().unwrap();
    talk.send(Input::Kill).await;
    assert!(talk.done().await.unwrap().end.unwrap().killed);
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_whole_and_in_order_however_often() {
    let (bench, id) = session().await;
    for round in 0..100 {
        let out = bench.sh(id, "seq 1 3000; echo last >&2").await;
        assert_eq!(out.code(), 0);
        assert_eq!(out.stdout().lines().count(), 3_000, "round {round}");
        assert!(out.stdout().ends_with("\n3000\n"));
        assert_eq!(out.stderr(), "last\n");
    }
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_sandbox_that_is_lost_end_with_it() {
    for way in ["shim", "init", "stop", "life"] {
        let bench = Bench::new();
        let mut spec = spec();
        if way == "life" {
            // Long enough for the command to begin on the slowest machine.
            spec.life = Some(Duration::from_secs(15));
        }
        let id = bench.start(&spec).await;
        let mut talk = bench.talk(id, sh("echo up; sleep 1000"));
        talk.until("up").await;
        assert!(bench.runtime.is_running(id).await.unwrap());
        let kill = |pid| nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        match way {
            "shim" => kill(crate::faults::shim(id)),
            "init" => kill(crate::faults::init(id)),
            "stop" => bench.runtime.stop(id).await.unwrap(),
            _ => {}
        }
        let ended = tokio::time::timeout(PATIENCE, talk.done()).await.unwrap();
        assert!(
            matches!(ended, Err(RuntimeError::Lost(_))),
            "{way}: {ended:?}"
        );
        eventually("it does not run", async || {
            !bench.runtime.is_running(id).await.unwrap()
        })
        .await;
        let late = bench.exec(id, sh("true")).await;
        assert!(
            matches!(late, Err(RuntimeError::Lost(_))),
            "{way}: {late:?}"
        );
        assert!(bench.runtime.sample(id).await.is_err());
        bench.runtime.destroy(id).await.unwrap();
        bench.assert_clean().await;
    }
}
