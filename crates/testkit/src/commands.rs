//! Commands of a scripted sandbox: a handful of well-known programs, done without any process.

use std::time::Duration;

use control::ports::Clock;
use domain::{
    process::{Command, CommandEnd, Input, Output},
    setup_run::Stream,
};
use tokio::sync::mpsc;

/// Does what the program of that name would, on the test's clock: `echo`, `cat`, `env`, `pwd`, `true`, `false`, `sleep`,
/// `exit N`, `fail TEXT` (on standard error, code 1), `flood N` (N bytes in pieces of 64 KiB). Nothing, or `bash`: a shell
/// that repeats what it is given, until `exit`. Anything else is not found. `Kill` and the timeout end all of them.
pub(crate) async fn run(
    clock: &dyn Clock,
    command: &Command,
    mut input: mpsc::Receiver<Input>,
    output: mpsc::Sender<Output>,
) -> CommandEnd {
    let ended = |exit_code, timed_out, killed| CommandEnd {
        exit_code,
        timed_out,
        killed,
    };
    let (killed, mut was_killed) = tokio::sync::oneshot::channel();
    let (bytes, given) = mpsc::channel(1);
    let hearing = async {
        let mut killed = Some(killed);
        let mut bytes = Some(bytes);
        while let Some(item) = input.recv().await {
            match item {
                Input::Bytes(more) => {
                    if let Some(to) = &bytes
                        && to.send(more).await.is_err()
                    {
                        bytes = None;
                    }
                }
                Input::Resize(_) => {}
                Input::Kill => {
                    if let Some(killed) = killed.take() {
                        let _ = killed.send(());
                    }
                }
            }
        }
        drop(bytes);
        // The end of its input does not kill a program.
        let _kept = killed;
        std::future::pending::<()>().await;
    };
    let timeout = async {
        match command.timeout {
            Some(timeout) => clock.sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = &mut was_killed => ended(137, false, true),
        code = program(clock, command, given, &output) => ended(code, false, false),
        () = timeout => ended(124, true, false),
        () = hearing => ended(137, false, true),
    }
}

async fn program(
    clock: &dyn Clock,
    command: &Command,
    mut input: mpsc::Receiver<Vec<u8>>,
    output: &mpsc::Sender<Output>,
) -> i32 {
    let write = async |stream: Stream, bytes: Vec<u8>| {
        let stream = match command.pty {
            Some(_) => Stream::Stdout,
            None => stream,
        };
        // A caller that listens no more does not keep a program from going on.
        let _ = output.send(Output { stream, bytes }).await;
    };
    let words: Vec<&str> = command.argv.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["bash", ..] => {
            while let Some(bytes) = input.recv().await {
                let over = bytes.starts_with(b"exit");
                write(Stream::Stdout, bytes).await;
                if over {
                    return 0;
                }
            }
            0
        }
        ["cat"] => {
            while let Some(bytes) = input.recv().await {
                write(Stream::Stdout, bytes).await;
            }
            0
        }
        ["echo", rest @ ..] => {
            write(Stream::Stdout, format!("{}\n", rest.join(" ")).into()).await;
            0
        }
        ["env"] => {
            for (name, value) in &command.env {
                write(Stream::Stdout, format!("{name}={value}\n").into()).await;
            }
            0
        }
        ["pwd"] => {
            let directory = command.cwd.as_deref().unwrap_or("/workspace");
            write(Stream::Stdout, format!("{directory}\n").into()).await;
            0
        }
        ["true"] => 0,
        ["false"] => 1,
        ["exit", code] => code.parse().unwrap_or(2),
        ["fail", rest @ ..] => {
            write(Stream::Stderr, format!("{}\n", rest.join(" ")).into()).await;
            1
        }
        ["sleep", seconds] => {
            let seconds = seconds.parse().unwrap_or(u32::MAX);
            clock.sleep(Duration::from_secs(seconds.into())).await;
            0
        }
        ["flood", bytes] => {
            let mut left: usize = bytes.parse().unwrap_or(0);
            while left > 0 {
                let part = left.min(64 * 1024);
                write(Stream::Stdout, vec![b'x'; part]).await;
                left -= part;
            }
            0
        }
        [program, ..] => {
            let text = format!("groundwork: {program}: command not found\n");
            write(Stream::Stderr, text.into()).await;
            127
        }
    }
}
