//! Workers, and whether the deployment is ready.

use std::{collections::HashMap, time::Duration};

use domain::{
    ids::{EnvironmentId, SetupRunId, WorkerId},
    roles::Action,
    timestamp::Timestamp,
};
use serde_json::json;
use wire::{
    console::{HeldRun, WorkerItem},
    error::Code,
    managed_agents::SetupRun,
    worker::Fault,
};

use crate::{Control, Error, OpCtx, Result, accounts::lock, ports::rows::SetupRunRow, view};

/// A worker that was heard of within this time, by this process or another, is there.
const ALIVE_WITHIN: Duration = Duration::from_secs(60);

/// Whether the deployment is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// The database answers.
    pub database: bool,
    /// A worker was heard of lately.
    pub worker: bool,
    /// A worker that was heard of lately has a runner image.
    pub runner_image: bool,
}

impl Readiness {
    /// All of it.
    pub const fn ready(self) -> bool {
        self.database && self.worker && self.runner_image
    }
}

impl Control {
    fn alive(&self, worker: WorkerId, seen_at: Timestamp) -> bool {
        let now = self.0.clock.monotonic();
        let heard_here = lock(&self.0.leases)
            .workers
            .get(&worker)
            .is_some_and(|heard| now.saturating_sub(*heard) < ALIVE_WITHIN);
        let since_row = self.0.clock.now().millis_since(seen_at);
        heard_here || u128::try_from(since_row).is_ok_and(|ms| ms < ALIVE_WITHIN.as_millis())
    }

    /// Workers, newest first.
    pub async fn workers(&self, ctx: &OpCtx) -> Result<Vec<WorkerItem>> {
        let organization = ctx.require(Action::ManageWorkers)?.organization_id;
        let driven = self.0.store.driven_runs().await?;
        let mut held: HashMap<WorkerId, Vec<HeldRun>> = HashMap::new();
        for run in &driven {
            let Some(worker) = run
                .worker_id
                .filter(|_| run.organization_id == organization)
            else {
                continue;
            };
            let environment = self
                .0
                .store
                .environment(organization, run.environment_id)
                .await?;
            held.entry(worker).or_default().push(HeldRun {
                setup_run_id: run.setup_run_id,
                environment_id: run.environment_id,
                environment_name: environment.map_or_else(String::new, |row| row.definition.name),
                phase: run.state.phase,
                attempt: run.state.attempt,
                cancelling: run.state.cancel_requested,
                silent_seconds: self.silent_for(run.setup_run_id).as_secs(),
            });
        }
        let running = |id: WorkerId| {
            let count = driven
                .iter()
                .filter(|run| run.worker_id == Some(id))
                .count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let rows = self.0.store.workers().await?;
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            let sessions = self.0.store.sessions_on(&row.name).await?;
            let live = sessions.iter().filter(|row| row.state.status.is_live());
            let sessions = u32::try_from(live.count()).unwrap_or(u32::MAX);
            items.push({
                let (runner_image, runner_image_digest) = row.runner_image.unzip();
                WorkerItem {
                    worker_id: row.worker_id,
                    name: row.name,
                    runtime: row.runtime,
                    version: row.version,
                    capacity: row.capacity,
                    running: running(row.worker_id),
                    held: held.remove(&row.worker_id).unwrap_or_default(),
                    session_slots: row.session_slots,
                    sessions,
                    runner_image,
                    runner_image_digest,
                    registered_at: row.registered_at,
                    seen_at: row.seen_at,
                    alive: self.alive(row.worker_id, row.seen_at),
                }
            });
        }
        Ok(items)
    }

    /// How long nothing was heard of a driven run; nothing is known of it: no time.
    fn silent_for(&self, run: SetupRunId) -> Duration {
        let now = self.0.clock.monotonic();
        lock(&self.0.leases)
            .driven
            .get(&run)
            .map_or(Duration::ZERO, |lease| now.saturating_sub(lease.heard))
    }

    /// Takes a run away from the worker that holds it: for one that hangs and still says that it lives. As when the worker
    /// is lost, the run is tried again, at most twice, or ends.
    ///
    /// # Errors
    /// `409` once it has ended, `400` while it waits for a worker.
    pub async fn release_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<SetupRun> {
        let row = match self
            .load_run(ctx, environment, run, Action::ManageWorkers)
            .await
        {
            Ok((_, row)) => row,
            // Of a deleted environment nothing can be read any more, but a worker may still hold its run.
            Err(error) if error.code() == Code::NotFound => self
                .run_of_deleted(ctx, environment, run)
                .await?
                .ok_or(error)?,
            Err(error) => return Err(error),
        };
        if row.state.status.is_terminal() {
            return Err(Error::setup_run_over(row.state.status));
        }
        if !row.state.driven {
            return Err(Error::invalid_request(
                "No worker holds this run: it waits for one. Cancel it if it is not wanted any more.",
            ));
        }
        let fault = Fault {
            reason: "released".to_owned(),
            message: "An admin took this run away from its worker.".to_owned(),
        };
        let audit = self.audit(
            ctx,
            row.organization_id,
            "setup_run.release",
            run,
            json!({"environment_id": environment, "attempt": row.state.attempt}),
        );
        // Somebody was faster where it changes nothing: the answer is how the run stands.
        self.lose_as(run, row.state.attempt, &fault, vec![audit])
            .await?;
        let row = self.0.store.run(run).await?.ok_or_else(Error::not_found)?;
        Ok(view::run(&row))
    }

    /// A run of the caller's organization whose environment may be gone, for those who manage workers.
    async fn run_of_deleted(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<Option<SetupRunRow>> {
        let Ok(member) = ctx.require(Action::ManageWorkers) else {
            return Ok(None);
        };
        let row = self.0.store.run(run).await?;
        Ok(row.filter(|row| {
            row.environment_id == environment && row.organization_id == member.organization_id
        }))
    }

    /// For `/readyz`; anyone may ask.
    pub async fn readiness(&self) -> Readiness {
        let database = self.0.store.ping().await.is_ok();
        let rows = self.0.store.workers().await.unwrap_or_default();
        let mut alive = rows
            .into_iter()
            .filter(|row| self.alive(row.worker_id, row.seen_at))
            .peekable();
        Readiness {
            database,
            worker: alive.peek().is_some(),
            runner_image: alive.any(|row| row.runner_image.is_some()),
        }
    }
}
