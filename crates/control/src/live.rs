//! Following: readers get rows by cursor at their own pace; bells only wake them (architecture, invariant 4).

use std::pin::Pin;

use domain::ids::{EnvironmentId, SetupRunId};
use futures::Stream;
use wire::console::{Frame, TableNews};

use crate::{Control, Error, OpCtx, Result};

/// Frames of a followed run.
pub type Frames = Pin<Box<dyn Stream<Item = Frame> + Send>>;
/// News of a followed table.
pub type News = Pin<Box<dyn Stream<Item = TableNews> + Send>>;

impl Control {
    /// Follows a run from the line after `after`: its state first, then lines as they are written and every change of
    /// the run, until [`Frame::End`]. Dropping the stream has no effect on the run.
    pub async fn follow_setup_run(
        &self,
        ctx: OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        after: u64,
    ) -> Result<Frames> {
        let _ = (ctx, environment, run, after);
        Err(Error::unavailable("not written yet"))
    }
    /// Follows the environments table: rows that changed since the call.
    pub async fn follow_environments(&self, ctx: OpCtx) -> Result<News> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
}
