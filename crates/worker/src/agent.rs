//! The loop that claims, and the heartbeat that keeps leases.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::ids::{SetupRunId, WorkerId};
use execution::{
    logs::Limits,
    runtime::{Runtime, RuntimeError},
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use wire::worker::{Assignment, Gateway, GatewayError, Held, Hello, Order, RunnerImage};

use crate::{
    calls::Pauses,
    layers,
    run::Run,
    time::Time,
    wish::{Wish, WishSender, wishes},
};

/// How a worker works.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// A stable name; a worker of the same name that registers again takes its place.
    pub name: String,
    /// Program version.
    pub version: String,
    /// Runs at once.
    pub capacity: u32,
    /// Sessions at once, as [`SessionsConfig`](crate::SessionsConfig) has it; the agent only tells.
    pub session_slots: u32,
    /// The runner image that it offers.
    pub runner_image: String,
    /// How long a sandbox may take to be made.
    pub provision_timeout: Duration,
    /// How long one claim waits for a run. Shutting down takes at most as long.
    pub claim_wait: Duration,
    /// Longest time between two heartbeats while a run is driven: an order is heard of after as long at most.
    pub heartbeat: Duration,
    /// Longest time between two reports of the saved layers on this machine.
    pub layers_every: Duration,
    /// Sizes and times of logs.
    pub log: Limits,
}

impl AgentConfig {
    /// The defaults: 8 runs at once, 2 minutes to make a sandbox.
    pub fn new(name: impl Into<String>, runner_image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capacity: 8,
            session_slots: 32,
            runner_image: runner_image.into(),
            provision_timeout: Duration::from_secs(120),
            claim_wait: Duration::from_secs(3),
            heartbeat: Duration::from_secs(1),
            layers_every: Duration::from_secs(30),
            log: Limits::default(),
        }
    }
}

/// What a worker's parts share.
pub(crate) struct Shared {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) config: AgentConfig,
    active: Mutex<HashMap<SetupRunId, Active>>,
}

/// A run that is being driven.
struct Active {
    held: Held,
    wish: WishSender,
    renew_after: Duration,
    lost_after: Duration,
    /// When the lease was last known to be good.
    good_at: Duration,
}

impl Shared {
    /// The runner image that is on the machine now.
    pub(crate) async fn runner_image(&self) -> Result<Option<RunnerImage>, RuntimeError> {
        let reference = self.config.runner_image.clone();
        let digest = self.runtime.runner_image_digest(&reference).await?;
        Ok(digest.map(|digest| RunnerImage { reference, digest }))
    }

    fn active(&self) -> MutexGuard<'_, HashMap<SetupRunId, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker.
#[derive(Clone)]
pub struct Agent(Arc<Shared>);

impl Agent {
    /// A worker that has not begun.
    pub fn new(
        gateway: Arc<dyn Gateway>,
        runtime: Arc<dyn Runtime>,
        time: Arc<dyn Time>,
        config: AgentConfig,
    ) -> Self {
        Self(Arc::new(Shared {
            gateway,
            runtime,
            time,
            config,
            active: Mutex::default(),
        }))
    }

    /// Works until `shutdown`: cleans up what an earlier process left, registers, and drives what it can claim. At the
    /// end runs in flight are stopped, their compute is released, and they are given back.
    pub async fn run(&self, shutdown: CancellationToken) {
        self.reclaim().await;
        let Some(mut worker) = self.register(&shutdown).await else {
            return;
        };
        let known = watch::Sender::new(worker);
        let beats = CancellationToken::new();
        let heart = tokio::spawn(self.clone().beat(beats.clone()));
        let keeper = tokio::spawn(layers::keep(
            Arc::clone(&self.0),
            known.subscribe(),
            beats.clone(),
        ));
        let places = Arc::new(Semaphore::new(self.0.config.capacity.max(1) as usize));
        let mut runs = JoinSet::new();
        let mut pauses = Pauses::new();
        loop {
            while runs.try_join_next().is_some() {}
            let place = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            // Not dropped half-way by a shutdown: a run granted then would wait for its lease to run out.
            let claimed = self.0.gateway.claim(worker, self.0.config.claim_wait).await;
            match claimed {
                Ok(Some(assignment)) => {
                    pauses = Pauses::new();
                    let agent = self.clone();
                    runs.spawn(async move {
                        agent.drive(assignment).await;
                        drop(place);
                    });
                    continue;
                }
                Ok(None) => {
                    pauses = Pauses::new();
                    continue;
                }
                Err(GatewayError::Fenced) => match self.register(&shutdown).await {
                    Some(id) => {
                        worker = id;
                        known.send_replace(id);
                    }
                    None => break,
                },
                Err(GatewayError::Unavailable(reason) | GatewayError::Refused(reason)) => {
                    tracing::warn!(reason, "no run could be claimed");
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = self.0.time.sleep(pauses.next()) => {}
            }
        }
        for run in self.0.active().values() {
            run.wish.send(Wish::GiveBack);
        }
        while runs.join_next().await.is_some() {}
        beats.cancel();
        let _ = tokio::join!(heart, keeper);
    }

    async fn reclaim(&self) {
        match self.0.runtime.reclaim().await {
            Ok(leftovers) => {
                for leftover in leftovers {
                    tracing::warn!(
                        kind = leftover.kind,
                        what = leftover.what,
                        "removed what an earlier process left"
                    );
                }
            }
            Err(error) => {
                tracing::error!(%error, "what an earlier process left could not be removed")
            }
        }
    }

    async fn register(&self, shutdown: &CancellationToken) -> Option<WorkerId> {
        let shared = &self.0;
        let runner_image = shared.runner_image().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the runner image could not be looked up");
            None
        });
        let hello = Hello {
            name: shared.config.name.clone(),
            runtime: shared.runtime.name().to_owned(),
            version: shared.config.version.clone(),
            capacity: shared.config.capacity,
            session_slots: shared.config.session_slots,
            runner_image,
        };
        let mut pauses = Pauses::new();
        loop {
            if shutdown.is_cancelled() {
                return None;
            }
            match shared.gateway.register(hello.clone()).await {
                Ok(worker) => {
                    tracing::info!(%worker, name = hello.name, "the worker is registered");
                    return Some(worker);
                }
                Err(error) => tracing::warn!(%error, "the worker could not be registered"),
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                () = shared.time.sleep(pauses.next()) => {}
            }
        }
    }

    /// Drives a run to its end. A panic in doing so is a fault of ours like any other: compute is released, and the run
    /// given back.
    async fn drive(&self, assignment: Assignment) {
        let held = assignment.held;
        let (wish, seen) = wishes();
        let earlier = self.0.active().insert(
            held.setup_run_id,
            Active {
                held,
                wish: wish.clone(),
                renew_after: assignment.renew_after,
                lost_after: assignment.lost_after,
                good_at: self.0.time.monotonic(),
            },
        );
        // The same run anew: its earlier attempt is lost, though nobody has told it yet.
        if let Some(earlier) = earlier {
            earlier.wish.send(Wish::Abandon);
        }
        let run = Run::new(Arc::clone(&self.0), assignment, wish, seen);
        let rescue = run.rescue();
        if let Err(error) = tokio::spawn(run.drive()).await {
            tracing::error!(%error, run = %held.setup_run_id, "driving a run broke off");
            rescue.give_back().await;
        }
        let mut active = self.0.active();
        if active
            .get(&held.setup_run_id)
            .is_some_and(|a| a.held == held)
        {
            active.remove(&held.setup_run_id);
        }
    }

    /// Renews leases and passes on orders.
    async fn beat(self, stop: CancellationToken) {
        let shared = &self.0;
        loop {
            let pause = shared
                .active()
                .values()
                .map(|a| a.renew_after)
                .fold(shared.config.heartbeat, Duration::min);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = shared.time.sleep(pause) => {}
            }
            self.beat_once().await;
        }
    }

    async fn beat_once(&self) {
        let shared = &self.0;
        let held: Vec<Held> = shared.active().values().map(|a| a.held).collect();
        let mut by_worker: HashMap<WorkerId, Vec<Held>> = HashMap::new();
        for lease in held {
            by_worker.entry(lease.worker_id).or_default().push(lease);
        }
        for (worker, leases) in by_worker {
            let asked_at = shared.time.monotonic();
            // An answer that takes longer than a lease lasts is none: the loss must be noticed.
            let patience = shared.time.sleep(self.patience());
            let answer = tokio::select! {
                answer = shared.gateway.heartbeat(worker, &leases) => answer,
                () = patience => Err(GatewayError::Unavailable("no answer in time".to_owned())),
            };
            match answer {
                Ok(directives) => {
                    let mut active = shared.active();
                    for directive in directives {
                        let Some(run) = active.get_mut(&directive.setup_run_id) else {
                            continue;
                        };
                        run.good_at = asked_at;
                        match directive.order {
                            Order::Continue => {}
                            Order::Cancel => run.wish.send(Wish::Cancel),
                            Order::Abandon => run.wish.send(Wish::Abandon),
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "the heartbeat was not answered"),
            }
        }
        let now = shared.time.monotonic();
        for run in shared.active().values() {
            if now.saturating_sub(run.good_at) > run.lost_after {
                tracing::warn!(run = %run.held.setup_run_id, "the lease is lost: the control plane did not answer for too long");
                run.wish.send(Wish::Abandon);
            }
        }
    }

    /// How long an answer to a heartbeat is waited for.
    fn patience(&self) -> Duration {
        self.0
            .active()
            .values()
            .map(|a| a.lost_after / 2)
            .min()
            .unwrap_or(Duration::from_secs(10))
    }
}
