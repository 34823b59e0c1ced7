//! The audit log.

use domain::ids::AuditId;
use wire::console::AuditPage;

use crate::{Control, Error, OpCtx, Result};

impl Control {
    /// Entries newest first, 50 a page, before an entry if given.
    pub async fn audit_log(&self, ctx: &OpCtx, before: Option<AuditId>) -> Result<AuditPage> {
        let _ = (ctx, before);
        Err(Error::unavailable("not written yet"))
    }
}
