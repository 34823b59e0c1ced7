//! Workers, and whether the deployment is ready.

use wire::console::WorkerItem;

use crate::{Control, Error, OpCtx, Result};

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
    /// Workers, newest first.
    pub async fn workers(&self, ctx: &OpCtx) -> Result<Vec<WorkerItem>> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// For `/readyz`; anyone may ask.
    pub async fn readiness(&self) -> Readiness {
        Readiness {
            database: false,
            worker: false,
            runner_image: false,
        }
    }
}
