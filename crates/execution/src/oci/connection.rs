//! The worker's side of one shim.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use std::sync::Arc;

use domain::ids::SandboxId;
use tokio::{
    io::{AsyncWriteExt, Interest, unix::AsyncFd},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::OciConfig;
use crate::{
    runtime::{Event, RuntimeError, ScriptEnd, ScriptSpec},
    shim::{
        self,
        frames::{self, Asked, Opening, Reply, Request, Said},
        passing,
    },
};

/// Events that may wait for the caller; behind that the shim, and so the script, waits.
const EVENTS_WAITING: usize = 256;
/// How long a shim may take to end after its socket. It kills, waits for the kernel, unmounts.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Most that is repeated of a shim's log, in bytes.
const LOG_MAX: u64 = 4 * 1024;

type Outcome = Result<Reply, RuntimeError>;

/// What is shared with the reading task.
struct Shared {
    pending: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
    /// Where the running script's events go. Unbounded, but bounded by `flow`.
    run: Mutex<Option<mpsc::UnboundedSender<Event>>>,
    /// Permits for events that are under way. Closed when the sandbox is stopped: what is left of a killed script's output
    /// is little, and must not keep the answer to `stop` from being read.
    flow: Semaphore,
    dead: AtomicBool,
    /// Nothing can run inside any more.
    gone: AtomicBool,
}

/// One shim.
pub(super) struct Connection {
    shared: Arc<Shared>,
    write: tokio::sync::Mutex<Option<OwnedWriteHalf>>,
    next: AtomicU64,
    child: Mutex<Option<Child>>,
    /// Where sockets of commands are handed over.
    hand_over: AsyncFd<OwnedFd>,
    log: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn lost() -> RuntimeError {
    RuntimeError::Lost("the process that held it ended".into())
}

impl Connection {
    /// Starts a shim. Its name in the process list says whose it is.
    pub(super) fn open(config: &OciConfig, id: SandboxId, dir: &Path) -> io::Result<Self> {
        let (ours, theirs) = shim::socket_pair()?;
        let (hand_over, taken_over) = passing::message_pair()?;
        let (program, args) = &config.shim_command;
        let log = dir.join("shim.log");
        let mut command = Command::new(program);
        command
            .arg0(process_name(&config.state_dir, id))
            .args(args)
            .current_dir("/")
            .env_clear()
            .env("PATH", shim::HOST_PATH)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(taken_over))
            .stderr(Stdio::from(File::create(&log)?));
        let child = command.spawn()?;
        ours.set_nonblocking(true)?;
        let (read, write) = UnixStream::from_std(ours)?.into_split();
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            run: Mutex::default(),
            flow: Semaphore::new(EVENTS_WAITING),
            dead: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        });
        tokio::spawn(listen(read, shared.clone()));
        Ok(Self {
            shared,
            write: Some(write).into(),
            next: AtomicU64::new(1),
            child: Some(child).into(),
            hand_over: passing::watch(hand_over)?,
            log,
        })
    }

    /// Whether the shim still speaks.
    pub(super) fn is_alive(&self) -> bool {
        !self.shared.dead.load(Ordering::SeqCst)
    }

    /// Whether processes can run inside: the shim speaks, and has not said otherwise.
    pub(super) fn is_running(&self) -> bool {
        self.is_alive() && !self.shared.gone.load(Ordering::SeqCst)
    }

    /// A socket of its own to the shim, which hears first what it is for.
    ///
    /// # Errors
    /// [`RuntimeError::Lost`] when the shim is gone.
    pub(super) async fn channel(&self, opening: &Opening) -> Result<UnixStream, RuntimeError> {
        let open = async || -> io::Result<UnixStream> {
            let (mut ours, theirs) = UnixStream::pair()?;
            self.hand_over
                .async_io(Interest::WRITABLE, |socket| {
                    passing::send(socket.as_fd(), &[0], &[theirs.as_fd()])
                })
                .await?;
            drop(theirs);
            frames::write(&mut ours, opening, &[]).await?;
            Ok(ours)
        };
        if !self.is_alive() {
            return Err(lost());
        }
        open().await.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => lost(),
            _ => RuntimeError::Other(format!("reaching the sandbox: {error}")),
        })
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, request: Request) -> Outcome {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let (answer, mut outcome) = oneshot::channel();
        let frame = frames::encode(&Asked { number, request }, &[])
            .map_err(|error| RuntimeError::Other(error.to_string()))?;
        lock(&self.shared.pending).insert(number, answer);
        {
            let mut write = self.write.lock().await;
            let Some(write) = write.as_mut() else {
                lock(&self.shared.pending).remove(&number);
                return Err(lost());
            };
            // Where this fails the shim is gone or going, and the reading task says so below.
            let _ = write.write_all(&frame).await;
            // A shim that refuses answers and ends: what it said before its end counts. While the reading task lives, it
            // answers or lets go of the question; once it is gone, nobody would.
            if !self.is_alive() {
                lock(&self.shared.pending).remove(&number);
                return outcome.try_recv().unwrap_or_else(|_| Err(lost()));
            }
        }
        outcome.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Runs a script and passes its events on in order.
    pub(super) async fn run(
        &self,
        script: ScriptSpec,
        events: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError> {
        let (under_way, mut arriving) = mpsc::unbounded_channel();
        {
            let mut run = lock(&self.shared.run);
            if run.is_some() {
                return Err(RuntimeError::Other(
                    "a script is running in this sandbox already".into(),
                ));
            }
            *run = Some(under_way);
        }
        let passing = async {
            while let Some(event) = arriving.recv().await {
                // A caller that went away must not keep the script from ending.
                let _ = events.send(event).await;
                self.shared.flow.add_permits(1);
            }
        };
        let asking = async {
            let outcome = self.ask(Request::Run(script)).await;
            // Ends `passing` once it has passed everything.
            lock(&self.shared.run).take();
            outcome
        };
        let (outcome, ()) = tokio::join!(asking, passing);
        match outcome? {
            Reply::Ended(end) => Ok(*end),
            _ => Err(RuntimeError::Other(
                "the shim answered something else".into(),
            )),
        }
    }

    /// From now on events never hold up answers.
    pub(super) fn let_events_flow(&self) {
        self.shared.flow.close();
    }

    /// What the shim had to say, before its directory goes.
    fn repeat_log(&self) {
        let mut said = Vec::new();
        let read = File::open(&self.log).and_then(|file| file.take(LOG_MAX).read_to_end(&mut said));
        if read.is_ok() && !said.is_empty() {
            tracing::warn!(log = %String::from_utf8_lossy(&said).trim(), "a shim's log");
        }
    }

    /// Ends the shim and with it the sandbox, and waits for it.
    pub(super) async fn close(&self) {
        self.let_events_flow();
        self.write.lock().await.take();
        let Some(mut child) = lock(&self.child).take() else {
            return;
        };
        let pid = i32::try_from(child.id()).unwrap_or(0);
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        if timeout(END_LIMIT, &mut ended).await.is_err() {
            tracing::error!(pid, "a shim did not end; it is killed");
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL);
            let _ = timeout(END_LIMIT, ended).await;
        }
        self.repeat_log();
    }
}

/// What the process list shows for a shim.
pub(super) fn process_name(state_dir: &Path, id: SandboxId) -> String {
    format!("groundwork-shim:{id}:{}", state_dir.display())
}

/// Hands out what the shim says until it says no more.
async fn listen(mut read: OwnedReadHalf, shared: Arc<Shared>) {
    loop {
        match frames::read::<Said>(&mut read).await {
            Ok(Some((Said::Reply { number, result }, _))) => {
                if let Some(answer) = lock(&shared.pending).remove(&number) {
                    let _ = answer.send(result);
                }
            }
            Ok(Some((Said::Event(header), body))) => {
                if let Ok(permit) = shared.flow.acquire().await {
                    // Given back when the event has been passed on.
                    permit.forget();
                }
                if let Some(run) = lock(&shared.run).as_ref() {
                    let _ = run.send(header.join(body));
                }
            }
            Ok(Some((Said::Gone, _))) => shared.gone.store(true, Ordering::SeqCst),
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "a shim's socket broke");
                break;
            }
        }
    }
    shared.dead.store(true, Ordering::SeqCst);
    // Dropping the senders tells the waiting callers.
    lock(&shared.pending).clear();
}
