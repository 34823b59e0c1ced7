//! The sandboxes of sessions: started, suspended and asked by the control plane, one call at a time for each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use domain::{
    ids::SandboxId,
    mounts::Mount,
    process::{Command, CommandEnd, Input, Output, Sample},
};
use execution::runtime::{Runtime, RuntimeError, SandboxSpec};
use tokio::sync::mpsc;
use wire::session_host::{HostError, Presence, SessionHost, SessionPlan, Tunnel};

use crate::{mounts, time::Time};

/// How a worker keeps sessions.
#[derive(Debug, Clone)]
pub struct SessionsConfig {
    /// The worker's name.
    pub name: String,
    /// Sandboxes of sessions that run at once. They are idle most of the time: a place of its own for each run is not
    /// taken away by them.
    pub capacity: usize,
    /// How long a start may take, fetching what is mounted included. Less than the control plane waits for
    /// (`session_start_within`), so that the reason gets there.
    pub provision_timeout: Duration,
}

impl SessionsConfig {
    /// The defaults: 32 at once, a little less than 2 minutes to make one.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            capacity: 32,
            provision_timeout: Duration::from_secs(115),
        }
    }
}

/// A worker's sessions over its runtime.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Shared {
    runtime: Arc<dyn Runtime>,
    time: Arc<dyn Time>,
    config: SessionsConfig,
    /// Those started and neither suspended nor destroyed since. The count that the capacity limits; some may have died.
    started: tokio::sync::Mutex<Vec<SandboxId>>,
    /// One for each sandbox that something is being done with: its start, suspension and end come one after the other.
    turns: Mutex<HashMap<SandboxId, Weak<tokio::sync::Mutex<()>>>>,
}

impl Sessions {
    /// Sessions on this runtime. What an earlier process left is removed by the worker's [`Agent`](crate::Agent), which
    /// leaves kept disks alone.
    pub fn new(runtime: Arc<dyn Runtime>, time: Arc<dyn Time>, config: SessionsConfig) -> Self {
        Self(Arc::new(Shared {
            runtime,
            time,
            config,
            started: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
        }))
    }
}

/// A start that took longer than `timeout`; where files took a good part of it, that is for people to know.
fn too_slow(timeout: Duration, fetching: Duration) -> HostError {
    let (all, files) = (timeout.as_secs(), fetching.as_secs());
    if fetching < timeout / 4 {
        HostError::Other(format!("the sandbox was not ready within {all} seconds"))
    } else {
        HostError::Unsupported(format!(
            "The sandbox was not ready within {all} seconds: {files} of them went by while the files that the environment mounts were fetched. Mount fewer or smaller ones, or fetch them in the setup script."
        ))
    }
}

impl Shared {
    fn turn(&self, id: SandboxId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&id).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(id, Arc::downgrade(&turn));
        turn
    }

    /// Takes one of the places; a sandbox that has one keeps it.
    async fn take_place(&self, id: SandboxId) -> Result<(), HostError> {
        let mut started = self.started.lock().await;
        if started.contains(&id) {
            return Ok(());
        }
        if started.len() >= self.config.capacity {
            let mut alive = Vec::new();
            for id in started.iter() {
                if self.runtime.is_running(*id).await.unwrap_or(true) {
                    alive.push(*id);
                }
            }
            *started = alive;
        }
        if started.len() >= self.config.capacity {
            return Err(HostError::Capacity(format!(
                "no place for a running session is left on the worker {} ({1} of {1} taken); stop one, or wait until one is idle",
                self.config.name, self.config.capacity
            )));
        }
        started.push(id);
        Ok(())
    }

    async fn give_place(&self, id: SandboxId) {
        self.started.lock().await.retain(|known| *known != id);
    }

    async fn start(&self, mut spec: SandboxSpec, mounted: &[Mount]) -> Result<(), HostError> {
        let turn = self.turn(spec.id);
        let _turn = turn.lock().await;
        let begun = self.time.monotonic();
        // Before it takes a place: files may take a while. They are needed until the sandbox has them.
        let gathered = mounts::gather(&*self.runtime, &*self.time, mounted)
            .await
            .map_err(host_error)?;
        spec.mounts.clone_from(&gathered.mounts);
        self.take_place(spec.id).await?;
        let timeout = self.config.provision_timeout;
        let fetching = self.time.monotonic().saturating_sub(begun);
        let made = tokio::select! {
            made = self.runtime.prepare(&spec) => made.map_err(host_error),
            () = self.time.sleep(timeout.saturating_sub(fetching)) => Err(too_slow(timeout, fetching)),
        };
        if let Err(error) = &made {
            tracing::warn!(%error, sandbox = %spec.id, "a session's sandbox could not be started");
            // Whatever there is of it; a disk that was kept stays kept.
            if let Err(error) = self.runtime.suspend(spec.id).await {
                tracing::warn!(%error, sandbox = %spec.id, "cleaning up after it");
            }
            self.give_place(spec.id).await;
        }
        made
    }
}

/// What the plan says, but for its mounts.
fn spec(plan: SessionPlan) -> SandboxSpec {
    let life = Duration::from_secs(plan.sandbox_timeout_seconds.into());
    SandboxSpec {
        id: plan.sandbox_id,
        runner_image: plan.runner_image,
        layers: plan.layers,
        base_digest: plan.base_digest,
        cpu_milli: plan.cpu_milli,
        memory_mib: plan.memory_mib,
        disk_mib: plan.disk_gi.saturating_mul(1_024),
        env_vars: plan.env_vars,
        secrets: plan.secrets,
        network_policy: plan.network_policy,
        privileged: plan.privileged,
        mounts: Vec::new(),
        life: (!life.is_zero()).then_some(life),
        keep_disk: true,
    }
}

fn host_error(error: RuntimeError) -> HostError {
    match error {
        RuntimeError::Capacity(why) => HostError::Capacity(why),
        RuntimeError::NoImage(what) => HostError::NoImage(format!(
            "the image {what}, which this session was made from, is not on this machine any more; test the environment again and start a new session"
        )),
        RuntimeError::Unsupported(why) | RuntimeError::Mount(why) => HostError::Unsupported(why),
        RuntimeError::Refused(port) => HostError::Refused(port),
        RuntimeError::Lost(why) => HostError::Gone(why),
        RuntimeError::Save { .. } | RuntimeError::Other(_) => HostError::Other(error.to_string()),
    }
}

#[async_trait]
impl SessionHost for Sessions {
    fn name(&self) -> String {
        self.0.config.name.clone()
    }

    async fn start(&self, plan: SessionPlan) -> Result<(), HostError> {
        let (shared, mounted) = (Arc::clone(&self.0), plan.mounts.clone());
        let spec = spec(plan);
        // On its own task: a caller that goes away must not leave half a sandbox.
        tokio::spawn(async move { shared.start(spec, &mounted).await })
            .await
            .map_err(|error| HostError::Other(error.to_string()))?
    }

    async fn suspend(&self, id: SandboxId) -> Result<(), HostError> {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let turn = shared.turn(id);
            let _turn = turn.lock().await;
            shared.runtime.suspend(id).await.map_err(host_error)?;
            shared.give_place(id).await;
            Ok(())
        })
        .await
        .map_err(|error| HostError::Other(error.to_string()))?
    }

    async fn destroy(&self, id: SandboxId) -> Result<(), HostError> {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let turn = shared.turn(id);
            let _turn = turn.lock().await;
            shared.runtime.destroy(id).await.map_err(host_error)?;
            shared.give_place(id).await;
            Ok(())
        })
        .await
        .map_err(|error| HostError::Other(error.to_string()))?
    }

    async fn presence(&self, id: SandboxId) -> Result<Presence, HostError> {
        let runtime = &self.0.runtime;
        if runtime.is_running(id).await.map_err(host_error)? {
            return Ok(Presence::Running);
        }
        let kept = runtime.suspended().await.map_err(host_error)?;
        Ok(if kept.contains(&id) {
            Presence::Kept
        } else {
            Presence::Absent
        })
    }

    async fn exec(
        &self,
        id: SandboxId,
        command: Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, HostError> {
        let end = self.0.runtime.exec(id, &command, input, output).await;
        end.map_err(host_error)
    }

    async fn sample(&self, id: SandboxId) -> Result<Sample, HostError> {
        self.0.runtime.sample(id).await.map_err(host_error)
    }

    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, HostError> {
        let inside = self.0.runtime.connect(id, port).await.map_err(host_error)?;
        Ok(Box::new(inside))
    }
}
