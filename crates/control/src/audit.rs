//! The audit log.

use domain::{
    ids::{AuditId, OrganizationId},
    roles::Action,
};
use futures::{Stream, stream};
use wire::console::{AuditItem, AuditPage};

use crate::{Control, Error, OpCtx, Result, ports::rows::AuditRow};

pub use crate::ports::rows::AuditFilter;

/// Entries of a page.
const PAGE: u32 = 50;
/// Most entries of a page.
pub const PAGE_MAX: u32 = 500;

/// Which entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// What they are chosen by.
    pub filter: AuditFilter,
    /// 1 to [`PAGE_MAX`]; 50 unless given.
    pub limit: Option<u32>,
    /// The last entry of the page before.
    pub before: Option<AuditId>,
}

fn item(row: AuditRow) -> AuditItem {
    AuditItem {
        audit_id: row.audit_id,
        at: row.at,
        actor: row.actor,
        source: row.source,
        action: row.action,
        subject: row.subject,
        detail: row.detail,
    }
}

impl Control {
    /// Entries newest first, 50 a page, before an entry if given.
    pub async fn audit_log(&self, ctx: &OpCtx, before: Option<AuditId>) -> Result<AuditPage> {
        let query = AuditQuery {
            before,
            ..AuditQuery::default()
        };
        self.audit_events(ctx, &query).await
    }

    /// Entries that match, newest first.
    pub async fn audit_events(&self, ctx: &OpCtx, query: &AuditQuery) -> Result<AuditPage> {
        let organization = ctx.require(Action::ReadAudit)?.organization_id;
        let limit = query.limit.unwrap_or(PAGE);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid_field(
                "limit",
                format!("Use a number from 1 to {PAGE_MAX}."),
            ));
        }
        self.audit_page(organization, &query.filter, query.before, limit)
            .await
    }

    async fn audit_page(
        &self,
        organization: OrganizationId,
        filter: &AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<AuditPage> {
        let mut rows = self
            .0
            .store
            .audit_matching(organization, filter, before, limit + 1)
            .await?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let items: Vec<AuditItem> = rows.into_iter().map(item).collect();
        Ok(AuditPage {
            next_before: items.last().filter(|_| more).map(|last| last.audit_id),
            items,
        })
    }

    /// All entries that match, newest first, as they are read: page by page, so that a long log never stands in memory.
    pub async fn export_audit_events(
        &self,
        ctx: &OpCtx,
        filter: AuditFilter,
    ) -> Result<impl Stream<Item = Result<Vec<AuditItem>>> + Send + 'static> {
        let organization = ctx.require(Action::ReadAudit)?.organization_id;
        let control = self.clone();
        // `Some(before)`: a page is to be read.
        Ok(stream::try_unfold(Some(None), move |next| {
            let (control, filter) = (control.clone(), filter.clone());
            async move {
                let Some(before) = next else {
                    return Ok(None);
                };
                let page = control
                    .audit_page(organization, &filter, before, PAGE_MAX)
                    .await?;
                Ok(Some((page.items, page.next_before.map(Some))))
            }
        }))
    }
}
