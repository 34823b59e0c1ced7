//! Whether somebody who holds something open may go on: terminals, streams of commands, connections to a session's port.
//! Their owners wait for [`Rights::lost`] beside their work, so that neither much output nor a peer that does not read
//! puts the question off.

use domain::roles::Action;
use wire::error::Code;

use crate::{Control, Error, OpCtx};

/// Looks that may fail in a row, because the database does not answer, before the right counts as lost.
const FAILURES_MAX: u32 = 4;

/// A right that somebody uses for longer than a moment.
#[derive(Clone)]
pub struct Rights {
    control: Control,
    ctx: OpCtx,
    action: Action,
}

impl Control {
    /// Watches a right of the caller.
    pub(crate) fn rights(&self, ctx: &OpCtx, action: Action) -> Rights {
        Rights {
            control: self.clone(),
            ctx: ctx.clone(),
            action,
        }
    }
}

impl Rights {
    /// Comes back when the member was removed, lost the role, signed out, or their key ended; why, for them to read.
    /// Notices it within [`crate::Config::access_recheck`].
    pub async fn lost(&self) -> Error {
        let mut failures = 0;
        loop {
            let every = self.control.0.config.access_recheck;
            self.control.0.clock.sleep(every).await;
            match self.control.still_may_do(&self.ctx, self.action).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    let decided = matches!(error.code(), Code::Unauthorized | Code::Forbidden);
                    if decided || failures >= FAILURES_MAX {
                        return error;
                    }
                }
            }
        }
    }
}
