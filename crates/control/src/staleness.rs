//! Which fields differ from what was verified.

use domain::ids::EnvironmentId;
use wire::console::Staleness;

use crate::{Control, Error, OpCtx, Result};

impl Control {
    /// Which fields differ from what the verdict's run tested: old, new, by whom, when.
    pub async fn environment_staleness(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Staleness> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
}
