//! A control plane, a clock and a worker for tests, all on tokio's paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use domain::{
    ids::{EnvironmentId, SetupRunId, WorkerId},
    network_policy::NetworkPolicy,
    run_records::RunRecords,
    setup_run::{Kind, LogLine, Phase},
    timestamp::Timestamp,
};
use execution::runtime::Runtime;
use testkit::{Scenario, ScriptedRuntime};
use tokio::{sync::Notify, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wire::worker::{
    Assignment, Directive, Fault, Gateway, GatewayError, Held, Hello, LogBatch, Order, Plan,
    Reached, RunOutcome, RunnerImage,
};
use worker::{Agent, AgentConfig, Time};

/// Tokio's time, which stands still while anything has something to do.
pub struct TokioTime(Instant);

impl Default for TokioTime {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Time for TokioTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.elapsed().as_micros() as i64)
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
impl control::ports::Clock for TokioTime {
    fn now(&self) -> Timestamp {
        Time::now(self)
    }
    fn monotonic(&self) -> Duration {
        Time::monotonic(self)
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Time::sleep(self, duration)
    }
}

#[derive(Default)]
pub struct State {
    queue: VecDeque<SetupRunId>,
    plans: HashMap<SetupRunId, Plan>,
    /// Who may report: the attempt, until it ended.
    attempts: HashMap<SetupRunId, u32>,
    driven: HashMap<SetupRunId, bool>,
    orders: HashMap<SetupRunId, Order>,
    /// No call is answered.
    pub down: bool,
    /// Calls of these names (`append_log`, `record`) are answered like this.
    pub failing: HashMap<&'static str, GatewayError>,
    /// Names of calls in order, heartbeats and log batches left out.
    pub calls: Vec<String>,
    pub heartbeats: usize,
    pub batches: usize,
    /// By run: lines as readers see them.
    pub log: HashMap<SetupRunId, Vec<LogLine>>,
    pub truncated: bool,
    pub phases: Vec<Phase>,
    /// Reports of hosts and times, in order.
    pub records: Vec<RunRecords>,
    pub outcomes: HashMap<SetupRunId, RunOutcome>,
    pub given_back: Vec<Fault>,
    pub hellos: Vec<Hello>,
    /// The runner image, as reported last.
    pub runner: Option<RunnerImage>,
}

/// A control plane that fences like the real one.
#[derive(Default)]
pub struct FakeGateway {
    state: Mutex<State>,
    news: Notify,
}

pub fn plan(script: &str) -> Plan {
    Plan {
        script: script.to_owned(),
        setup_timeout_seconds: 600,
        cpu_milli: 2_000,
        memory_mib: 4_096,
        disk_gi: 10,
        sandbox_timeout_seconds: 0,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
        runner_image: "groundwork/runner:small".to_owned(),
    }
}

impl FakeGateway {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
    /// Admits a run.
    pub fn admit(&self, plan: Plan) -> SetupRunId {
        let mut state = self.state();
        let run = SetupRunId::from_uuid(Uuid::from_u128(state.plans.len() as u128 + 1));
        state.plans.insert(run, plan);
        state.queue.push_back(run);
        drop(state);
        self.news.notify_waiters();
        run
    }
    /// A member cancels.
    pub fn cancel(&self, run: SetupRunId) {
        self.state().orders.insert(run, Order::Cancel);
    }
    /// The lease ran out: the run waits for somebody else.
    pub fn expire(&self, run: SetupRunId) {
        let mut state = self.state();
        state.driven.insert(run, false);
        state.queue.push_back(run);
        drop(state);
        self.news.notify_waiters();
    }
    /// Texts of a run's log.
    pub fn texts(&self, run: SetupRunId) -> Vec<String> {
        let state = self.state();
        let lines = state.log.get(&run).into_iter().flatten();
        lines.map(|l| l.text.clone()).collect()
    }

    fn failing(&self, call: &str) -> Result<(), GatewayError> {
        self.state().failing.get(call).cloned().map_or(Ok(()), Err)
    }

    fn held(&self, held: Held) -> Result<MutexGuard<'_, State>, GatewayError> {
        let state = self.state();
        if state.down {
            return Err(GatewayError::Unavailable("down".to_owned()));
        }
        let theirs = state.attempts.get(&held.setup_run_id) == Some(&held.attempt)
            && state.driven.get(&held.setup_run_id) == Some(&true);
        if theirs {
            Ok(state)
        } else {
            Err(GatewayError::Fenced)
        }
    }
}

#[async_trait]
impl Gateway for FakeGateway {
    async fn register(&self, hello: Hello) -> Result<WorkerId, GatewayError> {
        let mut state = self.state();
        if state.down {
            return Err(GatewayError::Unavailable("down".to_owned()));
        }
        state.calls.push("register".to_owned());
        state.hellos.push(hello);
        Ok(WorkerId::from_uuid(Uuid::from_u128(
            state.hellos.len() as u128
        )))
    }
    async fn claim(
        &self,
        worker: WorkerId,
        wait: Duration,
    ) -> Result<Option<Assignment>, GatewayError> {
        let deadline = Instant::now() + wait;
        loop {
            let news = self.news.notified();
            {
                let mut state = self.state();
                if state.down {
                    return Err(GatewayError::Unavailable("down".to_owned()));
                }
                if let Some(run) = state.queue.pop_front() {
                    let attempt = state.attempts.get(&run).copied().unwrap_or(0) + 1;
                    state.attempts.insert(run, attempt);
                    state.driven.insert(run, true);
                    state.calls.push("claim".to_owned());
                    let log = state.log.entry(run).or_default();
                    let next_seq = log.len() as u64 + 1;
                    let log_bytes = log.iter().map(|l| l.text.len() as u64).sum();
                    return Ok(Some(Assignment {
                        held: Held {
                            worker_id: worker,
                            setup_run_id: run,
                            attempt,
                        },
                        renew_after: Duration::from_secs(5),
                        lost_after: Duration::from_secs(20),
                        kind: Kind::Manual,
                        environment_id: EnvironmentId::from_uuid(Uuid::from_u128(7)),
                        plan: state.plans[&run].clone(),
                        next_seq,
                        log_bytes,
                    }));
                }
            }
            if tokio::time::timeout_at(deadline, news).await.is_err() {
                return Ok(None);
            }
        }
    }
    async fn heartbeat(&self, _: WorkerId, held: &[Held]) -> Result<Vec<Directive>, GatewayError> {
        let mut directives = Vec::new();
        self.state().heartbeats += 1;
        for lease in held {
            let order = match self.held(*lease) {
                Ok(state) => state
                    .orders
                    .get(&lease.setup_run_id)
                    .copied()
                    .unwrap_or(Order::Continue),
                Err(GatewayError::Fenced) => Order::Abandon,
                Err(error) => return Err(error),
            };
            directives.push(Directive {
                setup_run_id: lease.setup_run_id,
                order,
            });
        }
        Ok(directives)
    }
    async fn report_images(
        &self,
        _: WorkerId,
        _: &[String],
        runner: Option<&RunnerImage>,
    ) -> Result<Vec<String>, GatewayError> {
        self.state().runner = runner.cloned();
        Ok(Vec::new())
    }
    async fn reach(&self, held: Held, phase: Phase, _: Reached) -> Result<(), GatewayError> {
        let mut state = self.held(held)?;
        state.calls.push(format!("reach {phase}"));
        state.phases.push(phase);
        Ok(())
    }
    async fn append_log(&self, held: Held, batch: LogBatch) -> Result<(), GatewayError> {
        // A little slow, as a database is.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.failing("append_log")?;
        let mut state = self.held(held)?;
        state.batches += 1;
        state.truncated |= batch.truncated;
        let log = state.log.entry(held.setup_run_id).or_default();
        for line in batch.lines {
            match log.last_mut() {
                Some(last) if last.seq == line.seq => *last = line,
                last => {
                    assert_eq!(line.seq, last.map_or(1, |l| l.seq + 1), "a gap in the log");
                    log.push(line);
                }
            }
        }
        Ok(())
    }
    async fn record(&self, held: Held, records: RunRecords) -> Result<(), GatewayError> {
        self.failing("record")?;
        let mut state = self.held(held)?;
        state.records.push(records);
        Ok(())
    }
    async fn finish(&self, held: Held, outcome: RunOutcome) -> Result<(), GatewayError> {
        let mut state = self.held(held)?;
        state.calls.push("finish".to_owned());
        state.driven.insert(held.setup_run_id, false);
        state.outcomes.insert(held.setup_run_id, outcome);
        Ok(())
    }
    async fn give_back(&self, held: Held, fault: Fault) -> Result<(), GatewayError> {
        let mut state = self.held(held)?;
        state.calls.push(format!("give_back {}", fault.reason));
        state.driven.insert(held.setup_run_id, false);
        state.given_back.push(fault);
        Ok(())
    }
}

/// A worker at work.
pub struct Worker {
    pub gateway: Arc<FakeGateway>,
    pub runtime: Arc<ScriptedRuntime>,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

pub fn config(name: &str) -> AgentConfig {
    AgentConfig::new(name, "groundwork/runner:small")
}

pub fn scripted(scenarios: impl IntoIterator<Item = Scenario>) -> Arc<ScriptedRuntime> {
    ScriptedRuntime::new(Arc::new(TokioTime(Instant::now())), "/nowhere", scenarios)
}

impl Worker {
    pub fn start(scenarios: impl IntoIterator<Item = Scenario>) -> Self {
        let runtime = scripted(scenarios);
        Self::with(Arc::default(), Arc::clone(&runtime), runtime, config("w1"))
    }

    pub fn with(
        gateway: Arc<FakeGateway>,
        runtime: Arc<ScriptedRuntime>,
        used: Arc<dyn Runtime>,
        config: AgentConfig,
    ) -> Self {
        let time = Arc::new(TokioTime(Instant::now()));
        let agent = Agent::new(Arc::clone(&gateway) as _, used, time, config);
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        Self {
            gateway,
            runtime,
            shutdown,
            running: tokio::spawn(async move { agent.run(token).await }),
        }
    }

    /// Waits until the condition holds; on paused time, an hour is soon over.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&State) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(3_600);
        while !holds(&self.gateway.state()) {
            assert!(Instant::now() < deadline, "never came to be: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How a run ended.
    pub async fn outcome(&self, run: SetupRunId) -> RunOutcome {
        self.until("the run ends", |s| s.outcomes.contains_key(&run))
            .await;
        self.gateway.state().outcomes[&run].clone()
    }

    /// Runs one script to its end.
    pub async fn one(scenario: Scenario) -> (Self, SetupRunId, RunOutcome) {
        let worker = Self::start([scenario]);
        let run = worker.gateway.admit(plan("echo a\n"));
        let outcome = worker.outcome(run).await;
        (worker, run, outcome)
    }

    pub async fn shut_down(self) {
        self.shutdown.cancel();
        self.running.await.unwrap();
    }
}
