//! Terminals in a running sandbox.

use domain::process::{Command, Input, PtySize};
use execution::runtime::Runtime;

use crate::support::{Bench, PATIENCE, argv, eventually, spec};

fn terminal(words: &[&str]) -> Command {
    Command {
        pty: Some(PtySize {
            cols: 100,
            rows: 30,
        }),
        ..argv(words)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_shell_has_a_terminal_that_works() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    let mut talk = bench.talk(id, terminal(&[]));
    let mut ask = async |what: &str, expected: &str| {
        talk.write(&format!("{what}\n")).await;
        talk.until(expected).await;
        talk.heard = crate::support::Done::default();
    };
    // The answer is never what was typed, which comes back as an echo.
    ask(
        "echo $((6*7)):$TERM:$(tty | cut -c1-9):$(id -un)",
        "42:xterm-256color:/dev/pts/:sandbox",
    )
    .await;
    ask("stty size | tr ' ' x", "30x100").await;
    ask("stty -a | grep -o iutf8 | tr i I", "Iutf8").await;
    ask(
        "printf '\\xc3\\xa4\\n' | tr a b; echo $((1+1))ok",
        "ä\r\n2ok",
    )
    .await;
    ask("ps -o tty= -p $$ | cut -c1-4; echo $((2+2))", "pts/").await;
    ask("echo ünï | wc -m; echo $((2+3))z", "4\r\n5z").await;
    // A controlling terminal: it can be opened by that name, also by root, and sudo works with it.
    ask(
        "echo x$((3+3)) >/dev/tty; sudo sh -c 'echo y >/dev/tty'; echo z$((5+4))",
        "y\r\nz9",
    )
    .await;
    // Job control, and the keys that signal.
    talk.write("sleep 1000\n").await;
    let in_front = "ps -eo stat,args | grep -q '^S+ *sleep 1000'";
    eventually("it has the terminal", async || {
        bench.sh(id, in_front).await.code() == 0
    })
    .await;
    talk.write("\u{1a}").await;
    talk.until("Stopped").await;
    talk.write("bg; jobs | tr R r\n").await;
    talk.until("running").await;
    talk.write("fg\n").await;
    eventually("it has the terminal again", async || {
        bench.sh(id, in_front).await.code() == 0
    })
    .await;
    talk.write("\u{3}").await;
    talk.write("echo int$?\n").await;
    talk.until("int130").await;
    talk.write("exit 7\n").await;
    assert_eq!(talk.done().await.unwrap().code(), 7);
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminals_new_size_is_told_to_what_runs_in_it() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    let mut talk = bench.talk(
        id,
        terminal(&[
            "bash",
            "-c",
            "trap 'stty size; echo resized' WINCH; echo up; while :; do sleep 0.05; done",
        ]),
    );
    talk.until("up").await;
    talk.send(Input::Resize(PtySize {
        cols: 132,
        rows: 50,
    }))
    .await;
    talk.until("50 132").await;
    talk.send(Input::Kill).await;
    let end = talk.done().await.unwrap().end.unwrap();
    assert_eq!((end.exit_code, end.killed), (137, true));
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_its_input_hangs_a_terminal_up() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    let mut talk = bench.talk(
        id,
        terminal(&[
            "bash",
            "-c",
            "trap 'echo hung-up >hup; exit 9' HUP; sleep 1000 & echo up; wait",
        ]),
    );
    talk.until("up").await;
    talk.close();
    let done = tokio::time::timeout(PATIENCE, talk.done()).await.unwrap();
    assert_eq!(done.unwrap().code(), 9);
    assert_eq!(bench.sh(id, "cat hup").await.passed(), "hung-up\n");
    // An interactive shell takes its jobs along.
    let mut talk = bench.talk(id, terminal(&[]));
    talk.write("sleep 3000 &\n").await;
    talk.write("echo u$((1+1))p\n").await;
    talk.until("u2p").await;
    talk.close();
    tokio::time::timeout(PATIENCE, talk.done())
        .await
        .unwrap()
        .unwrap();
    eventually("its jobs are gone", async || {
        bench.sh(id, "pgrep -f '^sleep 3000'").await.code() == 1
    })
    .await;
    bench.runtime.destroy(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminals_command_ends_with_its_code_and_all_it_said() {
    let bench = Bench::new();
    let id = bench.start(&spec()).await;
    for _ in 0..20 {
        let talk = bench.talk(
            id,
            terminal(&["bash", "-c", "seq 1 2000; echo err >&2; exit 5"]),
        );
        let done = talk.done().await.unwrap();
        assert_eq!(done.code(), 5);
        assert!(
            done.stdout().ends_with("2000\r\nerr\r\n"),
            "{}",
            done.stdout().len()
        );
        assert_eq!(done.stderr(), "");
    }
    let missing = bench.talk(id, terminal(&["no-such"])).done().await.unwrap();
    assert_eq!(
        (missing.code(), missing.stdout()),
        (127, "groundwork: no-such: command not found\r\n".into())
    );
    let many: Vec<_> = (0..16)
        .map(|_| bench.talk(id, terminal(&["cat"])))
        .collect();
    for mut talk in many {
        talk.write("hello\n").await;
        talk.until("hello\r\nhello\r\n").await;
    }
    bench.runtime.destroy(id).await.unwrap();
    bench.assert_clean().await;
}
