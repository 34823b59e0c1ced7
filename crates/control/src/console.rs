//! View models of the console's pages.

use domain::ids::{EnvironmentId, SetupRunId};
use wire::console::{
    EnvironmentPage, EnvironmentsTable, NewEnvironmentPage, RunItem, RunPage, RunView, Sort,
};

use crate::{Control, Error, OpCtx, Result};

impl Control {
    /// The environments table: rows whose name or id holds `query` (without case), sorted.
    pub async fn environments_table(
        &self,
        ctx: &OpCtx,
        query: &str,
        sort: Sort,
    ) -> Result<EnvironmentsTable> {
        let _ = (ctx, query, sort);
        Err(Error::unavailable("not written yet"))
    }
    /// The create page.
    pub async fn new_environment_page(&self, ctx: &OpCtx) -> Result<NewEnvironmentPage> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// One environment's page.
    pub async fn environment_page(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
    ) -> Result<EnvironmentPage> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Newest runs, at most 50.
    pub async fn recent_runs(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Vec<RunItem>> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// One run as the panel shows it.
    pub async fn run_view(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunView> {
        let _ = (ctx, environment, run);
        Err(Error::unavailable("not written yet"))
    }
    /// One run's own page.
    pub async fn run_page(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunPage> {
        let _ = (ctx, environment, run);
        Err(Error::unavailable("not written yet"))
    }
}
