//! Commands and connections of a session: each has a socket of its own to the worker, so that a slow reader of one holds
//! up nobody else, and a worker that lets go of one ends that one.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream as StdUnixStream, process::ExitStatusExt},
    },
    process::ExitStatus,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use domain::{
    process::{Command, CommandEnd, PtySize},
    setup_run::Stream,
};
use nix::errno::Errno;
use tokio::{
    io::{copy_bidirectional, unix::AsyncFd},
    net::{UnixStream, unix::OwnedReadHalf},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    children::{self, Failure, Start, Streams},
    connect::connect,
    frames::{self, Heard, Opening, Told},
    group::Group,
    passing,
    sandbox::Sandbox,
    streams::{Signals, Voice, discard, feed, pump},
    sys,
};
use crate::runtime::RuntimeError;

/// How long a killed command may take to go.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Exit code of a command that our timer ended.
const TIMED_OUT: i32 = 124;
/// Exit code of a command that exists and cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Where commands start.
const DIRECTORY: &str = "/workspace";
const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// Serves what a worker handed over, until one of the sides is done.
pub async fn serve(sandbox: Arc<Sandbox>, socket: OwnedFd) {
    if let Err(error) = open(sandbox, socket).await {
        tracing::debug!(%error, "a handed-over socket broke");
    }
}

async fn open(sandbox: Arc<Sandbox>, socket: OwnedFd) -> io::Result<()> {
    let socket = StdUnixStream::from(socket);
    socket.set_nonblocking(true)?;
    let mut socket = UnixStream::from_std(socket)?;
    match frames::read::<Opening>(&mut socket).await? {
        Some((Opening::Exec(command), _)) => {
            let (read, write) = socket.into_split();
            let voice = Voice::new(write);
            let end = exec(&sandbox, command, read, &voice).await;
            voice.tell(&Told::Ended(end), &[]).await?;
        }
        Some((Opening::Connect(port), _)) => {
            let connected = match sandbox.commands.connections.clone().try_acquire_owned() {
                Ok(place) => connect(&sandbox, port).await.map(|inside| (inside, place)),
                Err(_) => Err(RuntimeError::Capacity(
                    "too many connections into this sandbox at once".into(),
                )),
            };
            match connected {
                Ok((mut inside, _place)) => {
                    frames::write(&mut socket, &Told::Connected(Ok(())), &[]).await?;
                    copy_bidirectional(&mut socket, &mut inside).await?;
                }
                Err(error) => {
                    frames::write(&mut socket, &Told::Connected(Err(error)), &[]).await?;
                }
            }
        }
        None => {}
    }
    Ok(())
}

/// Our ends of what a command has as standard streams.
struct Ends {
    input: Arc<AsyncFd<OwnedFd>>,
    outputs: Vec<(Stream, Arc<AsyncFd<OwnedFd>>)>,
    is_terminal: bool,
}

/// What a worker wants of a command besides giving it input.
enum Wish {
    Kill,
    Gone,
}

async fn exec(
    sandbox: &Arc<Sandbox>,
    command: Command,
    read: OwnedReadHalf,
    voice: &Voice,
) -> Result<CommandEnd, RuntimeError> {
    let Ok(_place) = sandbox.commands.places.clone().try_acquire_owned() else {
        return Err(RuntimeError::Capacity(
            "too many commands run in this sandbox at once".into(),
        ));
    };
    let number = sandbox.commands.next.fetch_add(1, Ordering::SeqCst);
    let group = Group::make(&sandbox.cgroup, number).map_err(|error| {
        if sandbox.container.is_gone() || error.kind() == io::ErrorKind::NotFound {
            sandbox.lost()
        } else {
            RuntimeError::Other(format!("making a command's cgroup: {error}"))
        }
    })?;
    let end = exec_in(sandbox, command, &group, read, voice).await;
    // What a command leaves running stays in its group; that goes when it is empty.
    let mut left = sandbox
        .commands
        .left
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    left.push(group);
    left.retain(|group| !group.remove());
    end
}

async fn exec_in(
    sandbox: &Arc<Sandbox>,
    command: Command,
    group: &Group,
    read: OwnedReadHalf,
    voice: &Voice,
) -> Result<CommandEnd, RuntimeError> {
    let broken = |error: io::Error| {
        // A cgroup that is not there any more went with the sandbox.
        if children::is_end(&error) || error.kind() == io::ErrorKind::NotFound {
            return sandbox.lost();
        }
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOMEM) => RuntimeError::Capacity(
                "the sandbox has as many processes as it may, or no memory left".into(),
            ),
            _ => RuntimeError::Other(format!("starting a command: {error}")),
        }
    };
    let argv = match command.argv.as_slice() {
        [] => vec!["/bin/bash".to_owned(), "-l".to_owned()],
        argv => argv.to_vec(),
    };
    let complain = async |why: &str| {
        let (stream, end) = match command.pty {
            Some(_) => (Stream::Stdout, "\r\n"),
            None => (Stream::Stderr, "\n"),
        };
        let text = format!("groundwork: {why}{end}");
        // A worker that went away needs no explanation.
        let _ = voice.tell(&Told::Output(stream), text.as_bytes()).await;
    };
    let (mut child, ends) = match start(sandbox, &command, &argv, group).await {
        Ok(started) => started,
        Err(error) if error.raw_os_error() == Some(libc::E2BIG) => {
            complain("the arguments and variables are too long").await;
            return Ok(CommandEnd {
                exit_code: NOT_EXECUTABLE,
                timed_out: false,
                killed: false,
            });
        }
        Err(error) => return Err(broken(error)),
    };
    let signals = Signals::default();
    let mut pumps = JoinSet::new();
    for (stream, fd) in ends.outputs {
        let (voice, signals) = (voice.clone(), signals.clone());
        pumps.spawn(async move {
            let held = pump(&fd, stream, &voice, &signals).await;
            held.then_some(fd)
        });
    }
    let (wishes, mut wished) = mpsc::unbounded_channel();
    let terminal = ends.is_terminal.then(|| ends.input.clone());
    let (parts, arriving) = mpsc::unbounded_channel();
    let hearing = tokio::spawn(hear(read, parts, terminal, wishes));
    let feeding = tokio::spawn(feed(
        ends.input,
        ends.is_terminal,
        arriving,
        voice.clone(),
        signals.clone(),
    ));
    let mut end = CommandEnd {
        exit_code: 0,
        timed_out: false,
        killed: false,
    };
    let mut killing: Option<JoinHandle<()>> = None;
    let outcome = {
        let mut ended = std::pin::pin!(child.ended());
        let mut clock = std::pin::pin!(sleep(command.timeout.unwrap_or_default()));
        loop {
            tokio::select! {
                biased;
                outcome = &mut ended => break outcome,
                () = &mut clock, if command.timeout.is_some() && killing.is_none() => end.timed_out = true,
                Some(wish) = wished.recv() => end.killed |= matches!(wish, Wish::Kill) && !end.timed_out,
            }
            killing.get_or_insert_with(|| kill(group.clone(), signals.ended.clone()));
        }
    };
    signals.ended.cancel();
    if let Some(killing) = killing {
        // It says itself what went wrong.
        let _ = killing.await;
    }
    let outcome = match outcome {
        Ok((status, failure)) => {
            end.exit_code = match ExitStatus::from_raw(status).code() {
                _ if end.timed_out => TIMED_OUT,
                Some(code) => code,
                None => {
                    128 + ExitStatus::from_raw(status)
                        .signal()
                        .unwrap_or(libc::SIGKILL)
                }
            };
            if let Some(failure) = failure {
                complain(&sentence(failure, &argv[0], &command)).await;
            }
            Ok(end)
        }
        Err(_) => Err(sandbox.lost()),
    };
    while let Some(held) = pumps.join_next().await {
        // A server that was started in the background goes on; its terminal would hang up, its pipe must not break.
        if let Ok(Some(fd)) = held
            && command.pty.is_none()
            && let Ok(place) = sandbox.commands.held.clone().try_acquire_owned()
        {
            tokio::spawn(async move {
                discard(&fd).await;
                drop(place);
            });
        }
    }
    // Not broken off: half a frame of it may be on its way.
    let _ = feeding.await;
    hearing.abort();
    outcome
}

async fn start(
    sandbox: &Sandbox,
    command: &Command,
    argv: &[String],
    group: &Group,
) -> io::Result<(children::Child, Ends)> {
    let mut env = sandbox.plan.env.clone();
    let mut set = |name: &str, value: &str| {
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), value.to_owned()));
    };
    if command.pty.is_some() {
        set(TERM.0, TERM.1);
    }
    for (name, value) in &command.env {
        set(name, value);
    }
    let entry = group.entry()?;
    let mut start = Start {
        argv,
        env: &env,
        directory: command.cwd.as_deref().unwrap_or(DIRECTORY),
        streams: Streams::Terminal(command.pty.unwrap_or(PtySize { cols: 80, rows: 24 })),
        cgroup: Some(entry.as_fd()),
    };
    let watch = |fd: OwnedFd| passing::watch(fd).map(Arc::new);
    let children = sandbox.container.children();
    if command.pty.is_some() {
        let mut child = children.start(&start).await?;
        let terminal = child
            .terminal
            .take()
            .ok_or_else(|| io::Error::other("the init gave no terminal"))?;
        let terminal = watch(terminal)?;
        let ends = Ends {
            input: terminal.clone(),
            outputs: vec![(Stream::Stdout, terminal)],
            is_terminal: true,
        };
        return Ok((child, ends));
    }
    let base = sandbox.base();
    let (input_inside, input) = passing::pipe(base)?;
    let (output, output_inside) = passing::pipe(base)?;
    let (errors, errors_inside) = passing::pipe(base)?;
    let ends = Ends {
        input: watch(input)?,
        outputs: vec![
            (Stream::Stdout, watch(output)?),
            (Stream::Stderr, watch(errors)?),
        ],
        is_terminal: false,
    };
    start.streams = Streams::Pipes([
        input_inside.as_fd(),
        output_inside.as_fd(),
        errors_inside.as_fd(),
    ]);
    Ok((children.start(&start).await?, ends))
}

fn sentence(failure: Failure, program: &str, command: &Command) -> String {
    match failure {
        Failure::Program(libc::ENOENT) if !program.contains('/') => {
            format!("{program}: command not found")
        }
        Failure::Program(errno) => format!("{program}: {}", Errno::from_raw(errno).desc()),
        Failure::Directory(errno) => format!(
            "{}: {}",
            command.cwd.as_deref().unwrap_or(DIRECTORY),
            Errno::from_raw(errno).desc()
        ),
    }
}

/// Kills everything that a command started, until its first process has ended: that may not have entered its group yet.
fn kill(group: Group, ended: CancellationToken) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        let deadline = std::time::Instant::now() + KILL_LIMIT;
        loop {
            let over = ended.is_cancelled() || std::time::Instant::now() >= deadline;
            if let Err(error) = group.kill() {
                tracing::error!(%error, "killing a command");
            }
            if over {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Hears what a worker says about a command.
async fn hear(
    mut read: OwnedReadHalf,
    parts: mpsc::UnboundedSender<Bytes>,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    wishes: mpsc::UnboundedSender<Wish>,
) {
    let (mut parts, mut terminal) = (Some(parts), terminal);
    loop {
        match frames::read::<Heard>(&mut read).await {
            Ok(Some((Heard::Input, bytes))) => {
                if let Some(parts) = &parts {
                    // The reader leaves with the command.
                    let _ = parts.send(bytes);
                }
            }
            Ok(Some((Heard::InputEnd, _))) => {
                parts = None;
                terminal = None;
            }
            Ok(Some((Heard::Resize(size), _))) => {
                if let Some(terminal) = &terminal
                    && let Err(error) = sys::set_window_size(terminal.as_fd(), size)
                {
                    tracing::debug!(%error, "a terminal's size was not set");
                }
            }
            Ok(Some((Heard::Kill, _))) => {
                let _ = wishes.send(Wish::Kill);
            }
            Ok(None) | Err(_) => {
                let _ = wishes.send(Wish::Gone);
                return;
            }
        }
    }
}
