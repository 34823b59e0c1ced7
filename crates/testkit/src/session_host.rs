//! A worker's sessions without sandboxes: what tests tell it to, and a few commands that it plays itself.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use domain::{
    ids::SandboxId,
    process::{Command, CommandEnd, Input, Output, Sample},
    setup_run::Stream,
};
use tokio::{
    io::DuplexStream,
    sync::{mpsc, watch},
};
use wire::session_host::{HostError, Presence, SessionHost, SessionPlan, Tunnel};

type Served = Arc<dyn Fn(DuplexStream) + Send + Sync>;

/// The scripted host. Commands that it plays, as `bash -c LINE`: `echo TEXT`, `warn TEXT` (standard error), `cat`
/// (standard input back), `exit N`, `spam N` (so many bytes), `sleep` (until it is killed), `die` (the sandbox goes
/// away). A terminal answers each line with the same in brackets, and ends at `exit`; after `flood` it writes without end,
/// and after `deaf` it reads nothing more.
pub struct ScriptedHost {
    name: String,
    sandboxes: Mutex<HashMap<SandboxId, Presence>>,
    plans: Mutex<Vec<SessionPlan>>,
    refusals: Mutex<VecDeque<HostError>>,
    sample: Mutex<Sample>,
    ports: Mutex<HashMap<u16, Served>>,
    /// Closed: starts wait.
    gate: watch::Sender<bool>,
    running: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
    sizes: Mutex<Vec<(u16, u16)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedHost {
    /// With a worker's name.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            sandboxes: Mutex::default(),
            plans: Mutex::default(),
            refusals: Mutex::default(),
            sample: Mutex::default(),
            ports: Mutex::default(),
            gate: watch::Sender::new(true),
            running: Arc::default(),
            killed: Arc::default(),
            sizes: Mutex::default(),
        })
    }
    /// The next start is refused like this.
    pub fn refuse_start(&self, error: HostError) {
        lock(&self.refusals).push_back(error);
    }
    /// Lets starts through, or holds them.
    pub fn let_start(&self, open: bool) {
        self.gate.send_replace(open);
    }
    /// What sandboxes were started from, in order.
    pub fn plans(&self) -> Vec<SessionPlan> {
        lock(&self.plans).clone()
    }
    /// Where a sandbox is.
    pub fn presence_of(&self, id: SandboxId) -> Presence {
        let sandboxes = lock(&self.sandboxes);
        sandboxes.get(&id).copied().unwrap_or(Presence::Absent)
    }
    /// Puts a sandbox somewhere, as faults do.
    pub fn put(&self, id: SandboxId, presence: Presence) {
        match presence {
            Presence::Absent => lock(&self.sandboxes).remove(&id),
            other => lock(&self.sandboxes).insert(id, other),
        };
    }
    /// Puts every sandbox somewhere.
    pub fn put_all(&self, presence: Presence) {
        let ids: Vec<SandboxId> = lock(&self.sandboxes).keys().copied().collect();
        for id in ids {
            self.put(id, presence);
        }
    }
    /// What sandboxes use from now on.
    pub fn uses(&self, sample: Sample) {
        *lock(&self.sample) = sample;
    }
    /// Serves a port of every sandbox.
    pub fn serve(&self, port: u16, served: impl Fn(DuplexStream) + Send + Sync + 'static) {
        lock(&self.ports).insert(port, Arc::new(served));
    }
    /// Commands that run.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
    /// Commands that were killed because nobody waited for them any more.
    pub fn killed(&self) -> usize {
        self.killed.load(Ordering::SeqCst)
    }
    /// Sizes that terminals were given.
    pub fn sizes(&self) -> Vec<(u16, u16)> {
        lock(&self.sizes).clone()
    }

    async fn play(
        &self,
        id: SandboxId,
        line: &str,
        input: &mut mpsc::Receiver<Input>,
        output: &mpsc::Sender<Output>,
    ) -> Result<i32, HostError> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let say = |stream, bytes: Vec<u8>| async move {
            let _ = output.send(Output { stream, bytes }).await;
        };
        match word {
            "echo" => say(Stream::Stdout, format!("{rest}\n").into_bytes()).await,
            "warn" => say(Stream::Stderr, format!("{rest}\n").into_bytes()).await,
            "cat" => {
                while let Some(Input::Bytes(bytes)) = input.recv().await {
                    say(Stream::Stdout, bytes).await;
                }
            }
            "spam" => {
                let mut left: usize = rest.parse().expect("a number");
                while left > 0 {
                    let piece = left.min(10_000);
                    say(Stream::Stdout, vec![b'x'; piece]).await;
                    left -= piece;
                }
            }
            "sleep" => std::future::pending().await,
            "die" => {
                self.put(id, Presence::Kept);
                return Err(HostError::Gone("it died".to_owned()));
            }
            "exit" => return Ok(rest.parse().expect("a number")),
            other => panic!("the scripted host does not play {other:?}"),
        }
        Ok(0)
    }

    async fn play_terminal(
        &self,
        input: &mut mpsc::Receiver<Input>,
        output: &mpsc::Sender<Output>,
    ) -> i32 {
        let mut line = Vec::new();
        while let Some(input) = input.recv().await {
            match input {
                Input::Resize(size) => lock(&self.sizes).push((size.cols, size.rows)),
                Input::Kill => return 137,
                Input::Bytes(bytes) => {
                    for byte in bytes {
                        if byte != b'\n' {
                            line.push(byte);
                            continue;
                        }
                        match line.as_slice() {
                            b"exit" => return 7,
                            b"deaf" => std::future::pending().await,
                            b"flood" => loop {
                                let bytes = vec![b'x'; 16 * 1024];
                                let stream = Stream::Stdout;
                                if output.send(Output { stream, bytes }).await.is_err() {
                                    return 141;
                                }
                                tokio::task::yield_now().await;
                            },
                            _ => {}
                        }
                        let mut answer = b"[".to_vec();
                        answer.append(&mut line);
                        answer.extend(b"]\r\n");
                        let _ = output
                            .send(Output {
                                stream: Stream::Stdout,
                                bytes: answer,
                            })
                            .await;
                    }
                }
            }
        }
        129
    }
}

/// Counts a command, and whether it came to its end.
struct Running {
    running: Arc<AtomicUsize>,
    killed: Arc<AtomicUsize>,
    done: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        if !self.done {
            self.killed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl SessionHost for ScriptedHost {
    fn name(&self) -> String {
        self.name.clone()
    }
    async fn start(&self, plan: SessionPlan) -> Result<(), HostError> {
        let mut gate = self.gate.subscribe();
        let _ = gate.wait_for(|open| *open).await;
        let id = plan.sandbox_id;
        lock(&self.plans).push(plan);
        if let Some(error) = lock(&self.refusals).pop_front() {
            return Err(error);
        }
        self.put(id, Presence::Running);
        Ok(())
    }
    async fn suspend(&self, id: SandboxId) -> Result<(), HostError> {
        if self.presence_of(id) == Presence::Running {
            self.put(id, Presence::Kept);
        }
        Ok(())
    }
    async fn destroy(&self, id: SandboxId) -> Result<(), HostError> {
        self.put(id, Presence::Absent);
        Ok(())
    }
    async fn presence(&self, id: SandboxId) -> Result<Presence, HostError> {
        Ok(self.presence_of(id))
    }
    async fn exec(
        &self,
        id: SandboxId,
        command: Command,
        mut input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, HostError> {
        if self.presence_of(id) != Presence::Running {
            return Err(HostError::Gone("it does not run".to_owned()));
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let mut guard = Running {
            running: Arc::clone(&self.running),
            killed: Arc::clone(&self.killed),
            done: false,
        };
        let exit_code = match (&command.pty, command.argv.as_slice()) {
            (Some(size), _) => {
                lock(&self.sizes).push((size.cols, size.rows));
                self.play_terminal(&mut input, &output).await
            }
            (None, [bash, flag, line]) if bash == "bash" && flag == "-c" => {
                self.play(id, line, &mut input, &output).await?
            }
            (None, argv) => {
                let text = format!("{}\n", argv.join("|"));
                let _ = output
                    .send(Output {
                        stream: Stream::Stdout,
                        bytes: text.into_bytes(),
                    })
                    .await;
                0
            }
        };
        guard.done = true;
        Ok(CommandEnd {
            exit_code,
            timed_out: false,
            killed: false,
        })
    }
    async fn sample(&self, id: SandboxId) -> Result<Sample, HostError> {
        match self.presence_of(id) {
            Presence::Running => Ok(*lock(&self.sample)),
            _ => Err(HostError::Gone("it does not run".to_owned())),
        }
    }
    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, HostError> {
        if self.presence_of(id) != Presence::Running {
            return Err(HostError::Gone("it does not run".to_owned()));
        }
        let served = lock(&self.ports).get(&port).cloned();
        let served = served.ok_or(HostError::Refused(port))?;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        served(theirs);
        Ok(Box::new(ours))
    }
}
