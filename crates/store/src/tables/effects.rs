//! What is written in the same transaction as an effect.

use control::ports::{Effects, Receipt, StoreError, rows::RevisionRow};

use super::audit;
use crate::{
    columns::json,
    db::{Tx, values},
};

/// Writes receipt, audit rows and revision.
pub(super) async fn apply(tx: &mut Tx<'_>, effects: Effects) -> Result<(), StoreError> {
    if let Some(receipt) = &effects.receipt {
        complete(tx, receipt).await?;
    }
    if let Some(revision) = &effects.revision {
        insert_revision(tx, revision).await?;
    }
    for row in &effects.audit {
        audit::insert(tx, row).await?;
    }
    Ok(())
}

/// Completes a claim. A claim that somebody else took over or completed undoes the whole transaction: a keyed request
/// has its effect once.
async fn complete(tx: &mut Tx<'_>, receipt: &Receipt) -> Result<(), StoreError> {
    let touched = tx
        .execute(
            "UPDATE receipts SET status = $1, body = $2, completed_at = $3 \
             WHERE organization_id = $4 AND idempotency_key = $5 AND request_hash = $6 AND completed_at IS NULL",
            values![
                u32::from(receipt.status),
                &receipt.body,
                receipt.at,
                receipt.key.organization_id,
                &receipt.key.key,
                &receipt.key.request_hash,
            ],
        )
        .await?;
    if touched == 1 {
        Ok(())
    } else {
        Err(StoreError::Constraint("receipts_claim".to_owned()))
    }
}

async fn insert_revision(tx: &mut Tx<'_>, row: &RevisionRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO environment_revisions (environment_id, revision, definition, saved_by, saved_at) \
         VALUES ($1, $2, $3, $4, $5)",
        values![
            row.environment_id,
            row.revision,
            json(&row.definition)?,
            row.by,
            row.at,
        ],
    )
    .await?;
    Ok(())
}
