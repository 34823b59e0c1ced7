//! The audit log.

use domain::{ids::AuditId, roles::Action};
use wire::console::{AuditItem, AuditPage};

use crate::{Control, OpCtx, Result};

/// Entries of a page.
const PAGE: u32 = 50;

impl Control {
    /// Entries newest first, 50 a page, before an entry if given.
    pub async fn audit_log(&self, ctx: &OpCtx, before: Option<AuditId>) -> Result<AuditPage> {
        let member = ctx.require(Action::ReadAudit)?;
        let mut rows = self
            .0
            .store
            .audit(member.organization_id, before, PAGE + 1)
            .await?;
        let more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        let items: Vec<AuditItem> = rows
            .into_iter()
            .map(|row| AuditItem {
                audit_id: row.audit_id,
                at: row.at,
                actor: row.actor,
                source: row.source,
                action: row.action,
                subject: row.subject,
                detail: row.detail,
            })
            .collect();
        Ok(AuditPage {
            next_before: items.last().filter(|_| more).map(|last| last.audit_id),
            items,
        })
    }
}
