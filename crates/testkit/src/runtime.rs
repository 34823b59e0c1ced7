//! A sandbox runtime without sandboxes: it does what a test wrote down, in order, on the test's clock.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use control::ports::Clock;
use domain::{
    ids::SandboxId,
    process::{Command, CommandEnd, Input, Output, Sample},
    setup_run::Stream,
};
use execution::runtime::{
    Check, EgressEvent, Event, Leftover, Runtime, RuntimeError, SandboxSpec, SavedLayer, ScriptEnd,
    ScriptSpec, Tunnel,
};
use tokio::sync::{mpsc, watch};

use crate::commands;

/// One thing that a scripted sandbox does.
#[derive(Debug, Clone)]
pub enum Step {
    /// A statement is about to run: its line and text.
    Marker(u32, String),
    /// Bytes on standard output, as they are.
    Out(Vec<u8>),
    /// Bytes on standard error, as they are.
    Err(Vec<u8>),
    /// A host was asked for.
    Egress(EgressEvent),
    /// Nothing for a while, on the test's clock; ended early by `stop`.
    Wait(Duration),
    /// Nothing until `stop`.
    Hang,
}

/// How one sandbox behaves.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Makes `prepare` fail.
    pub prepare: Option<RuntimeError>,
    /// What the script does.
    pub steps: Vec<Step>,
    /// Makes `run_script` fail after the steps, as a lost sandbox does.
    pub lost: Option<RuntimeError>,
    /// How the script ends.
    pub end: ScriptEnd,
    /// Makes `save_image` fail.
    pub save: Option<RuntimeError>,
}

impl Scenario {
    /// A script that says these lines, each from the script line of its number, and ends with this code.
    pub fn lines(texts: &[&str], exit_code: i32) -> Self {
        let mut steps = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            steps.push(Step::Marker(line, format!("echo {text}")));
            steps.push(Step::Out(format!("{text}\n").into_bytes()));
        }
        let last = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        Self {
            steps,
            end: ScriptEnd {
                exit_code,
                failed_line: if exit_code == 0 { 0 } else { last },
                last_line: last,
                disk_size: 10 << 30,
                ..ScriptEnd::default()
            },
            ..Self::passing()
        }
    }
    /// A script that passes without a word.
    pub fn passing() -> Self {
        Self {
            prepare: None,
            steps: Vec::new(),
            lost: None,
            end: ScriptEnd::default(),
            save: None,
        }
    }
    /// A script that never ends by itself.
    pub fn hanging() -> Self {
        Self {
            steps: vec![Step::Marker(1, "sleep infinity".to_owned()), Step::Hang],
            ..Self::passing()
        }
    }
    /// A script that the memory limit ends in line 1.
    pub fn out_of_memory() -> Self {
        Self {
            end: ScriptEnd {
                exit_code: 137,
                failed_line: 1,
                out_of_memory: true,
                ..ScriptEnd::default()
            },
            ..Self::passing()
        }
    }
    /// A sandbox that cannot be made.
    pub fn unprepared(error: RuntimeError) -> Self {
        Self {
            prepare: Some(error),
            ..Self::passing()
        }
    }
    /// A sandbox that dies while the script runs.
    pub fn dying() -> Self {
        Self {
            lost: Some(RuntimeError::Lost("the sandbox died".to_owned())),
            ..Self::passing()
        }
    }
}

struct Sandbox {
    scenario: Scenario,
    keep_disk: bool,
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    coming: VecDeque<Scenario>,
    sandboxes: HashMap<SandboxId, Sandbox>,
    kept: Vec<SandboxId>,
    calls: Vec<String>,
    specs: Vec<SandboxSpec>,
    runner_digest: Option<String>,
}

/// The runtime. Sandboxes take the scenarios in the order given; the last one is used again and again.
pub struct ScriptedRuntime {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    directory: PathBuf,
}

impl ScriptedRuntime {
    /// With these scenarios; none: every script passes without a word.
    pub fn new(
        clock: Arc<dyn Clock>,
        directory: impl Into<PathBuf>,
        scenarios: impl IntoIterator<Item = Scenario>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::new(State {
                coming: scenarios.into_iter().collect(),
                ..State::default()
            }),
            directory: directory.into(),
        })
    }
    /// Adds a scenario.
    pub fn then(&self, scenario: Scenario) {
        self.state().coming.push_back(scenario);
    }
    /// What was called, such as `prepare`, in order.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }
    /// What sandboxes were made from, in order.
    pub fn specs(&self) -> Vec<SandboxSpec> {
        self.state().specs.clone()
    }
    /// Sandboxes that were prepared and not destroyed.
    pub fn living(&self) -> usize {
        self.state().sandboxes.len()
    }

    /// Another runner image takes the place of the one that is there.
    pub fn replace_runner_image(&self, digest: &str) {
        self.state().runner_digest = Some(digest.to_owned());
    }

    /// The sandbox dies, as when its shim is killed; its disk stays if it was to be kept.
    pub fn kill(&self, id: SandboxId) {
        let mut state = self.state();
        if let Some(sandbox) = state.sandboxes.remove(&id) {
            sandbox.stopped.send_replace(true);
            if sandbox.keep_disk {
                state.kept.push(id);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn note(&self, call: &str) {
        self.state().calls.push(call.to_owned());
    }
}

/// The port on which every scripted sandbox echoes; nothing listens on others.
pub const ECHO_PORT: u16 = 7;

fn no_sandbox() -> RuntimeError {
    RuntimeError::Lost("there is no such sandbox".to_owned())
}

/// Sends, unless nobody listens: then the script runs on for nobody.
async fn say(events: &mpsc::Sender<Event>, event: Event) {
    let _ = events.send(event).await;
}

#[async_trait]
impl Runtime for ScriptedRuntime {
    fn name(&self) -> &'static str {
        "scripted"
    }
    async fn check(&self) -> Vec<Check> {
        Vec::new()
    }
    async fn runner_image_digest(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        let now_there = self.state().runner_digest.clone();
        Ok(Some(
            now_there.unwrap_or_else(|| format!("sha256:{reference}")),
        ))
    }
    async fn prepare(&self, spec: &SandboxSpec) -> Result<(), RuntimeError> {
        let mut state = self.state();
        state.calls.push("prepare".to_owned());
        if state.sandboxes.contains_key(&spec.id) {
            return Ok(());
        }
        state.specs.push(spec.clone());
        let scenario = if state.coming.len() > 1 {
            state.coming.pop_front()
        } else {
            state.coming.front().cloned()
        }
        .unwrap_or_else(Scenario::passing);
        if let Some(error) = scenario.prepare {
            return Err(error);
        }
        state.kept.retain(|kept| *kept != spec.id);
        state.sandboxes.insert(
            spec.id,
            Sandbox {
                scenario,
                keep_disk: spec.keep_disk,
                stopped: watch::Sender::new(false),
            },
        );
        Ok(())
    }
    async fn run_script(
        &self,
        id: SandboxId,
        script: &ScriptSpec,
        events: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError> {
        self.note("run_script");
        let (scenario, mut stopped) = {
            let state = self.state();
            let sandbox = state
                .sandboxes
                .get(&id)
                .ok_or_else(|| RuntimeError::Lost("there is no such sandbox".to_owned()))?;
            (sandbox.scenario.clone(), sandbox.stopped.subscribe())
        };
        let deadline = self.clock.monotonic() + script.timeout;
        for step in scenario.steps {
            let pause = match step {
                Step::Marker(line, text) => {
                    say(&events, Event::Marker { line, text }).await;
                    continue;
                }
                Step::Out(bytes) => {
                    let (stream, bytes) = (Stream::Stdout, Bytes::from(bytes));
                    say(&events, Event::Output { stream, bytes }).await;
                    continue;
                }
                Step::Err(bytes) => {
                    let (stream, bytes) = (Stream::Stderr, Bytes::from(bytes));
                    say(&events, Event::Output { stream, bytes }).await;
                    continue;
                }
                Step::Egress(event) => {
                    say(&events, Event::Egress(event)).await;
                    continue;
                }
                Step::Wait(pause) => pause,
                Step::Hang => Duration::MAX / 4,
            };
            let left = deadline.saturating_sub(self.clock.monotonic());
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => {
                    return Ok(ScriptEnd { exit_code: 137, cancelled: true, ..scenario.end });
                }
                () = self.clock.sleep(pause.min(left)) => {}
            }
            if pause >= left {
                return Ok(ScriptEnd {
                    exit_code: 124,
                    timed_out: true,
                    ..scenario.end
                });
            }
        }
        if *stopped.borrow() {
            return Ok(ScriptEnd {
                exit_code: 137,
                cancelled: true,
                ..scenario.end
            });
        }
        match scenario.lost {
            Some(error) => Err(error),
            None => Ok(scenario.end),
        }
    }
    async fn stop(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.note("stop");
        if let Some(sandbox) = self.state().sandboxes.get(&id) {
            sandbox.stopped.send_replace(true);
        }
        Ok(())
    }
    async fn save_image(&self, id: SandboxId) -> Result<SavedLayer, RuntimeError> {
        self.note("save_image");
        let state = self.state();
        let sandbox = state
            .sandboxes
            .get(&id)
            .ok_or_else(|| RuntimeError::Lost("there is no such sandbox".to_owned()))?;
        match &sandbox.scenario.save {
            Some(error) => Err(error.clone()),
            None => Ok(SavedLayer {
                digest: format!("sha256:{id}"),
                size_bytes: 1_234,
                base_digest: "sha256:runner".to_owned(),
            }),
        }
    }
    async fn exec(
        &self,
        id: SandboxId,
        command: &Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, RuntimeError> {
        self.note("exec");
        let mut stopped = {
            let state = self.state();
            let sandbox = state.sandboxes.get(&id).ok_or_else(no_sandbox)?;
            sandbox.stopped.subscribe()
        };
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {
                Err(RuntimeError::Lost("the sandbox died".to_owned()))
            }
            end = commands::run(&*self.clock, command, input, output) => Ok(end),
        }
    }
    async fn sample(&self, id: SandboxId) -> Result<Sample, RuntimeError> {
        self.note("sample");
        let state = self.state();
        state.sandboxes.get(&id).ok_or_else(no_sandbox)?;
        Ok(Sample {
            cpu_millis: 1_500,
            memory_used: 64 << 20,
            memory_limit: 1 << 30,
            disk_used: 3 << 20,
            disk_size: 10 << 30,
            processes: 2,
        })
    }
    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, RuntimeError> {
        self.note("connect");
        let state = self.state();
        state.sandboxes.get(&id).ok_or_else(no_sandbox)?;
        if port != ECHO_PORT {
            return Err(RuntimeError::Refused(port));
        }
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(theirs);
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        Ok(Box::new(ours))
    }
    async fn suspend(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.note("suspend");
        let mut state = self.state();
        if let Some(sandbox) = state.sandboxes.remove(&id) {
            sandbox.stopped.send_replace(true);
            if sandbox.keep_disk {
                state.kept.push(id);
            }
        }
        Ok(())
    }
    async fn is_running(&self, id: SandboxId) -> Result<bool, RuntimeError> {
        Ok(self.state().sandboxes.contains_key(&id))
    }
    async fn suspended(&self) -> Result<Vec<SandboxId>, RuntimeError> {
        Ok(self.state().kept.clone())
    }
    async fn destroy(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.note("destroy");
        let mut state = self.state();
        state.kept.retain(|kept| *kept != id);
        if let Some(sandbox) = state.sandboxes.remove(&id) {
            sandbox.stopped.send_replace(true);
        }
        Ok(())
    }
    async fn leftovers(&self) -> Result<Vec<Leftover>, RuntimeError> {
        Ok(Vec::new())
    }
    async fn reclaim(&self) -> Result<Vec<Leftover>, RuntimeError> {
        self.note("reclaim");
        Ok(Vec::new())
    }
    fn state_dir(&self) -> PathBuf {
        self.directory.clone()
    }
}
