//! The shim: one process per sandbox, in a mount namespace of its own. It makes the sandbox, serves its network, drives its
//! script, and ends with the socket to its worker, taking the sandbox along. A crash of the worker therefore never
//! leaves a sandbox that nobody owns, and a sandbox's death never takes the worker along.

pub mod cgroup;
mod children;
mod commands;
mod connect;
mod container;
pub(crate) mod copy;
pub(crate) mod disk;
pub mod frames;
mod group;
pub mod idmap;
pub(crate) mod kept;
pub(crate) mod mounts;
pub(crate) mod overlay;
pub(crate) mod passing;
mod run;
mod sandbox;
mod save;
pub(crate) mod space;
mod streams;
pub mod sys;
mod trees;

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use tokio::{
    io::Interest,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use self::{
    cgroup::Kind,
    frames::{Asked, EventHeader, Plan, Reply, Request, Said},
    idmap::Slot,
    sandbox::{End, Ground, Sandbox},
};
use crate::runtime::{Event, RuntimeError, ScriptSpec};

/// Where the host's programs are looked for.
pub const HOST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where every shim keeps what the sandbox sees of the host and all mount points: a file system in memory, in the shim's
/// own mount namespace. A sandbox's root is another user on the host, who may not be able to pass to the state directory;
/// here nothing is above it but `/run`, and its mount table tells no path of the host's.
pub const VIEW: &str = "/run/groundwork";
/// Name of the lock file in a sandbox's directory that its shim holds.
pub const LOCK: &str = "lock";
/// Frames that may wait for the worker to read them; behind that, the script waits.
const FRAMES_WAITING: usize = 64;
/// Events between the driver and the socket.
const EVENTS_WAITING: usize = 64;

/// Runs a shim on the socket at descriptor 0, until that ends; sockets of commands come over the one at descriptor 1. Call it first thing in a process of its own, before
/// any thread exists.
pub fn main() -> ExitCode {
    // Standard error is the sandbox's `shim.log`, which the worker repeats when the sandbox goes.
    let _ = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .try_init();
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the shim failed");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other(
            "a shim must be started before the process has threads",
        ));
    }
    // A signal to the worker's terminal is not for us: the socket's end is.
    let _ = nix::unistd::setsid();
    let [socket, hand_over] = sys::claim_stdio()?;
    let mut socket = StdUnixStream::from(socket);
    let (asked, _) = frames::read_blocking::<Asked>(&mut socket)?;
    let Request::Prepare(plan) = asked.request else {
        return Err(io::Error::other("the first request must be to prepare"));
    };
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    // Held until this process ends.
    let _lock = lock(&plan)?;
    let ground = ground(&plan);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(work(*plan, asked.number, ground, socket, hand_over));
    // A copy that is still under way must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

fn lock(plan: &Plan) -> io::Result<Flock<fs::File>> {
    let file = fs::File::create(plan.dir.join(LOCK))?;
    fs::write(plan.dir.join(LOCK), std::process::id().to_string())?;
    // Whoever looks for leftovers takes it for a moment.
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}

/// What comes before any thread: the process's own mount namespace, and a range of ids.
fn ground(plan: &Plan) -> Result<Ground, RuntimeError> {
    let other = |what: &'static str| {
        move |error: io::Error| RuntimeError::Other(format!("{what}: {error}"))
    };
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|error| other("making a mount namespace")(error.into()))?;
    // Slave: what the host mounts later is seen here, what is mounted here is not seen there.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_SLAVE,
        None::<&str>,
    )
    .map_err(|error| other("separating the mount namespace")(error.into()))?;
    fs::create_dir_all(VIEW).map_err(other("making /run/groundwork"))?;
    mount(
        Some("tmpfs"),
        VIEW,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=755,size=16m"),
    )
    .map_err(|error| other("mounting /run/groundwork")(error.into()))?;
    if Kind::detect() == (Kind::V1 { hybrid: true }) {
        // crun refuses hybrid machines; in here this one is not hybrid any more.
        umount2("/sys/fs/cgroup/unified", MntFlags::MNT_DETACH)
            .map_err(|error| other("hiding the unified cgroup hierarchy")(error.into()))?;
    }
    let slot = Slot::take(&plan.slots_dir, plan.base_uid, plan.slots)
        .map_err(other("taking a range of user ids"))?
        .ok_or_else(|| {
            RuntimeError::Capacity(format!(
                "all {} sandboxes of this machine are in use",
                plan.slots
            ))
        })?;
    Ok(Ground { slot })
}

/// The side that writes frames; a worker that went away is noticed by the reading side.
#[derive(Clone)]
struct Voice(mpsc::Sender<Vec<u8>>);

impl Voice {
    async fn say(&self, said: &Said, body: &[u8]) {
        match frames::encode(said, body) {
            Ok(frame) => {
                let _ = self.0.send(frame).await;
            }
            Err(error) => tracing::error!(%error, "a frame could not be made"),
        }
    }

    async fn reply(&self, number: u64, result: Result<Reply, RuntimeError>) {
        match frames::reply(number, result) {
            Ok(frame) => {
                let _ = self.0.send(frame).await;
            }
            Err(error) => tracing::error!(%error, "a reply could not be made"),
        }
    }
}

async fn work(
    plan: Plan,
    number: u64,
    ground: Result<Ground, RuntimeError>,
    socket: StdUnixStream,
    hand_over: OwnedFd,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (mut read, write) = UnixStream::from_std(socket)?.into_split();
    let (frames, queue) = mpsc::channel(FRAMES_WAITING);
    let writer = tokio::spawn(write_frames(write, queue));
    let voice = Voice(frames);
    let (kept_plan, life) = (plan.clone(), plan.life);
    let made = async { Sandbox::make(plan, ground?).await };
    // The worker may leave while the sandbox is being made.
    let sandbox = tokio::select! {
        made = made => made,
        _ = read.readable() => match read.try_read(&mut [0; 1]) {
            Ok(0) => Err(RuntimeError::Other("the worker went away".into())),
            _ => Err(RuntimeError::Other("a request came before the sandbox was ready".into())),
        },
    };
    let sandbox = match sandbox {
        Ok(sandbox) => Arc::new(sandbox),
        Err(error) => {
            voice.reply(number, Err(error)).await;
            drop(voice);
            let _ = writer.await;
            sandbox::unmount_disk(&kept_plan);
            return Ok(());
        }
    };
    // Commands and connections need several each; the container has been started with the usual limit.
    if let Err(error) = sys::raise_file_limit() {
        tracing::warn!(%error, "the limit on open files stays");
    }
    voice.reply(number, Ok(Reply::Done)).await;
    tokio::spawn(tell_when_gone(sandbox.clone(), voice.clone()));
    tokio::spawn(take_over(hand_over, sandbox.clone()));
    if let Some(life) = life {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(life).await;
            if let Err(error) = sandbox.stop(End::LifeOver).await {
                tracing::error!(%error, "the sandbox's time is over, and it does not end");
            }
        });
    }
    let result = requests(&mut read, &sandbox, &voice).await;
    sandbox.break_off();
    let stopped = sandbox.stop(End::Stopped).await;
    sandbox.end_save().await;
    sandbox.close();
    stopped.map_err(io::Error::other)?;
    result
}

/// Tells the worker when nothing can run inside any more, whatever the reason.
async fn tell_when_gone(sandbox: Arc<Sandbox>, voice: Voice) {
    sandbox.container.gone().await;
    voice.say(&Said::Gone, &[]).await;
}

/// Serves every socket that the worker hands over.
async fn take_over(socket: OwnedFd, sandbox: Arc<Sandbox>) {
    let handed = async || -> io::Result<()> {
        let socket = passing::watch(socket)?;
        loop {
            let received = socket
                .async_io(Interest::READABLE, |fd| {
                    passing::receive(fd.as_fd(), &mut [0; 1])
                })
                .await?;
            match received {
                (0, _) => return Ok(()),
                (_, Some(fd)) => {
                    tokio::spawn(commands::serve(sandbox.clone(), fd));
                }
                (_, None) => {}
            }
        }
    };
    if let Err(error) = handed().await {
        tracing::error!(%error, "no more commands can be taken over");
    }
}

async fn write_frames(mut write: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) {
    use tokio::io::AsyncWriteExt;
    while let Some(mut frame) = queue.recv().await {
        // Several small frames in one write.
        while frame.len() < 64 * 1024 {
            match queue.try_recv() {
                Ok(next) => frame.extend_from_slice(&next),
                Err(_) => break,
            }
        }
        if write.write_all(&frame).await.is_err() {
            // Nobody reads any more. What still comes is thrown away, so that the script is not held up until it is killed.
            while queue.recv().await.is_some() {}
        }
    }
}

/// Answers requests until the worker closes the socket.
async fn requests(
    read: &mut OwnedReadHalf,
    sandbox: &Arc<Sandbox>,
    voice: &Voice,
) -> io::Result<()> {
    let running = Arc::new(Mutex::new(CancellationToken::new()));
    while let Some((asked, _)) = frames::read::<Asked>(read).await? {
        let (sandbox, voice, running) = (sandbox.clone(), voice.clone(), running.clone());
        tokio::spawn(async move {
            let result = match asked.request {
                Request::Prepare(_) => Err(RuntimeError::Other(
                    "the sandbox is prepared already".into(),
                )),
                Request::Run(script) => {
                    let cancel = CancellationToken::new();
                    *running.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
                    run(&sandbox, &script, cancel, &voice).await
                }
                Request::Stop => {
                    running
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .cancel();
                    sandbox.break_off();
                    sandbox.stop(End::Stopped).await.map(|()| Reply::Done)
                }
                Request::Save => {
                    running
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .cancel();
                    sandbox.save().await.map(Reply::Saved)
                }
                Request::Suspend => sandbox.suspend().await.map(|()| Reply::Done),
                Request::Sample => Ok(Reply::Sampled(sandbox.sample())),
            };
            voice.reply(asked.number, result).await;
        });
    }
    Ok(())
}

/// Runs a script and passes its events on, in order, before its end.
async fn run(
    sandbox: &Sandbox,
    script: &ScriptSpec,
    cancel: CancellationToken,
    voice: &Voice,
) -> Result<Reply, RuntimeError> {
    let (sink, mut events) = mpsc::channel::<Event>(EVENTS_WAITING);
    let voice = voice.clone();
    let passing = tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let (header, body) = EventHeader::split(event);
            voice.say(&Said::Event(header), &body).await;
        }
    });
    let end = sandbox.run(script, cancel, sink).await;
    // Ends when the last sender is dropped, which the run has done.
    let _ = passing.await;
    end.map(|end| Reply::Ended(Box::new(end)))
}

/// The descriptor of one side of a new socket pair, for a shim's standard input and output.
///
/// # Errors
/// Too many open files.
pub fn socket_pair() -> io::Result<(StdUnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    Ok((ours, theirs.into()))
}
