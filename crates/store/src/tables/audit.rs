//! The audit log.

use control::ports::{
    StoreError,
    rows::{AuditFilter, AuditRow},
};
use domain::ids::{AuditId, OrganizationId};

use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
};

macro_rules! columns {
    () => {
        "audit_id, organization_id, occurred_at, user_id, actor, source, action, subject, detail"
    };
}

pub(super) async fn insert(tx: &mut Tx<'_>, row: &AuditRow) -> Result<(), StoreError> {
    tx.execute(
        concat!(
            "INSERT INTO audit_events (",
            columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            row.audit_id,
            row.organization_id,
            row.at,
            row.user_id,
            &row.actor,
            &row.source,
            &row.action,
            &row.subject,
            json(&row.detail)?,
        ],
    )
    .await?;
    Ok(())
}

/// A word with a dot at its end chooses by beginning; `substr` compares alike in every collation.
pub(super) async fn list(
    db: &Database,
    org: OrganizationId,
    filter: &AuditFilter,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Vec<AuditRow>, StoreError> {
    let (exact, prefix) = match &filter.action {
        Some(action) if action.ends_with('.') => (None, Some(action.clone())),
        other => (other.clone(), None),
    };
    let rows = db
        .rows(
            concat!(
                "SELECT ",
                columns!(),
                " FROM audit_events WHERE organization_id = $1 \
                 AND ($2 IS NULL OR (occurred_at, audit_id) < \
                 (SELECT occurred_at, audit_id FROM audit_events \
                 WHERE audit_id = $2 AND organization_id = $1)) \
                 AND ($3 IS NULL OR actor = $3) AND ($4 IS NULL OR action = $4) \
                 AND ($5 IS NULL OR substr(action, 1, length($5)) = $5) \
                 AND ($6 IS NULL OR subject = $6) \
                 AND ($7 IS NULL OR occurred_at >= $7) AND ($8 IS NULL OR occurred_at < $8) \
                 ORDER BY occurred_at DESC, audit_id DESC LIMIT $9"
            ),
            values![
                org,
                before,
                &filter.actor,
                &exact,
                &prefix,
                &filter.subject,
                filter.since,
                filter.until,
                limit
            ],
        )
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<AuditRow, StoreError> {
    let columns = Columns::new(row, "audit_events", "audit_id");
    Ok(AuditRow {
        audit_id: columns.id("audit_id")?,
        organization_id: columns.id("organization_id")?,
        at: columns.time("occurred_at")?,
        user_id: columns.id_if("user_id")?,
        actor: columns.text("actor")?,
        source: columns.text_if("source")?,
        action: columns.text("action")?,
        subject: columns.text("subject")?,
        detail: columns.json("detail")?,
    })
}
