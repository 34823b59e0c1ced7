//! Setup runs: start, list, read, log, cancel.

use domain::ids::{EnvironmentId, SetupRunId};
use wire::managed_agents::{LogPage, SetupRun, SetupRunList};

use crate::{Control, Error, Keyed, OpCtx, Outcome, Result};

/// Which page of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// Lines with a larger `seq`; 0: from the beginning.
    pub after: u64,
    /// At most this many, 1 to 2,000; 500 unless given.
    pub limit: Option<u32>,
    /// Hold the answer this long while there is nothing new, 0 to 60; held at most 5 s.
    pub wait_seconds: Option<u32>,
}

impl Control {
    /// Starts a manual run. REST requires the key ([`Error::idempotency_key_required`]); the console may leave it out.
    pub async fn start_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        key: Option<Keyed>,
    ) -> Result<Outcome<SetupRun>> {
        let _ = (ctx, environment, key);
        Err(Error::unavailable("not written yet"))
    }
    /// Newest first; 1 to 50, 50 unless given.
    pub async fn list_setup_runs(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        limit: Option<u32>,
    ) -> Result<SetupRunList> {
        let _ = (ctx, environment, limit);
        Err(Error::unavailable("not written yet"))
    }
    /// One run; with `wait_seconds` (0 to 60, held at most 5 s) until it has ended.
    pub async fn get_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        wait_seconds: Option<u32>,
    ) -> Result<SetupRun> {
        let _ = (ctx, environment, run, wait_seconds);
        Err(Error::unavailable("not written yet"))
    }
    /// A page of its log.
    pub async fn setup_run_log(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        query: LogQuery,
    ) -> Result<LogPage> {
        let _ = (ctx, environment, run, query);
        Err(Error::unavailable("not written yet"))
    }
    /// Its whole log as plain text, one line each, without colours' meaning lost (SGR kept as stored).
    pub async fn setup_run_log_text(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<String> {
        let _ = (ctx, environment, run);
        Err(Error::unavailable("not written yet"))
    }
    /// Asks for it to be stopped.
    pub async fn cancel_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<SetupRun> {
        let _ = (ctx, environment, run);
        Err(Error::unavailable("not written yet"))
    }
}
