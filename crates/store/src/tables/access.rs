//! Console sign-ins, settings and idempotency receipts.

use control::ports::{ReceiptClaim, RequestKey, StoreError, Written, rows::WebSessionRow};
use domain::timestamp::Timestamp;

use crate::{Database, columns::Columns, db::values};

/// How often a claim is tried while other requests with the same key come and go.
const CLAIM_TRIES: usize = 5;

pub(super) async fn save_web_session(
    db: &Database,
    session: &WebSessionRow,
) -> Result<(), StoreError> {
    db.execute(
        "INSERT INTO web_sessions (id_hash, data, expires_at) VALUES ($1, $2, $3) \
         ON CONFLICT (id_hash) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at",
        values![&session.id_hash, &session.data, session.expires_at],
    )
    .await?;
    Ok(())
}

pub(super) async fn create_web_session(
    db: &Database,
    session: &WebSessionRow,
) -> Result<Written, StoreError> {
    let touched = db
        .execute(
            "INSERT INTO web_sessions (id_hash, data, expires_at) VALUES ($1, $2, $3) \
             ON CONFLICT (id_hash) DO NOTHING",
            values![&session.id_hash, &session.data, session.expires_at],
        )
        .await?;
    Ok(if touched == 0 {
        Written::Stale
    } else {
        Written::Done
    })
}

pub(super) async fn web_session(
    db: &Database,
    id_hash: &str,
    now: Timestamp,
) -> Result<Option<WebSessionRow>, StoreError> {
    let row = db
        .row(
            "SELECT id_hash, data, expires_at FROM web_sessions WHERE id_hash = $1 AND expires_at > $2",
            values![id_hash, now],
        )
        .await?;
    row.as_ref()
        .map(|row| {
            let columns = Columns::new(row, "web_sessions", "id_hash");
            Ok(WebSessionRow {
                id_hash: columns.text("id_hash")?,
                data: columns.text("data")?,
                expires_at: columns.time("expires_at")?,
            })
        })
        .transpose()
}

pub(super) async fn delete_web_session(db: &Database, id_hash: &str) -> Result<(), StoreError> {
    db.execute(
        "DELETE FROM web_sessions WHERE id_hash = $1",
        values![id_hash],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_expired_web_sessions(
    db: &Database,
    now: Timestamp,
) -> Result<u64, StoreError> {
    db.execute(
        "DELETE FROM web_sessions WHERE expires_at <= $1",
        values![now],
    )
    .await
}

pub(super) async fn setting(db: &Database, name: &str) -> Result<Option<String>, StoreError> {
    db.row(
        "SELECT name, value FROM settings WHERE name = $1",
        values![name],
    )
    .await?
    .as_ref()
    .map(|row| Columns::new(row, "settings", "name").text("value"))
    .transpose()
}

pub(super) async fn set_setting(
    db: &Database,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    match value {
        Some(value) => {
            db.execute(
                "INSERT INTO settings (name, value) VALUES ($1, $2) \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                values![name, value],
            )
            .await?;
        }
        None => {
            db.execute("DELETE FROM settings WHERE name = $1", values![name])
                .await?;
        }
    }
    Ok(())
}

pub(super) async fn claim_receipt(
    db: &Database,
    key: &RequestKey,
    now: Timestamp,
    receipts_before: Timestamp,
    claims_before: Timestamp,
) -> Result<ReceiptClaim, StoreError> {
    for _ in 0..CLAIM_TRIES {
        let mut tx = db.begin().await?;
        tx.execute(
            "DELETE FROM receipts WHERE organization_id = $1 AND idempotency_key = $2 AND \
             ((completed_at IS NOT NULL AND completed_at < $3) OR (completed_at IS NULL AND claimed_at < $4))",
            values![key.organization_id, &key.key, receipts_before, claims_before],
        )
        .await?;
        let claimed = tx
            .execute(
                "INSERT INTO receipts (organization_id, idempotency_key, request_hash, claimed_at) \
                 VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                values![key.organization_id, &key.key, &key.request_hash, now],
            )
            .await?;
        if claimed == 1 {
            tx.commit().await?;
            return Ok(ReceiptClaim::Claimed);
        }
        let found = tx
            .row(
                "SELECT idempotency_key, request_hash, status, body FROM receipts \
                 WHERE organization_id = $1 AND idempotency_key = $2",
                values![key.organization_id, &key.key],
            )
            .await?;
        tx.commit().await?;
        // Let go of between the two statements (PostgreSQL): free again.
        let Some(row) = found else { continue };
        let columns = Columns::new(&row, "receipts", "idempotency_key");
        return Ok(if columns.text("request_hash")? != key.request_hash {
            ReceiptClaim::Conflict
        } else if let Some(body) = columns.text_if("body")? {
            ReceiptClaim::Replay {
                status: columns.count("status")?,
                body,
            }
        } else {
            ReceiptClaim::InProgress
        });
    }
    // It keeps changing hands: for this caller that is the same as being under way.
    Ok(ReceiptClaim::InProgress)
}

pub(super) async fn release_receipt(db: &Database, key: &RequestKey) -> Result<(), StoreError> {
    db.execute(
        "DELETE FROM receipts WHERE organization_id = $1 AND idempotency_key = $2 \
         AND request_hash = $3 AND completed_at IS NULL",
        values![key.organization_id, &key.key, &key.request_hash],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_receipts(db: &Database, before: Timestamp) -> Result<u64, StoreError> {
    db.execute(
        "DELETE FROM receipts WHERE claimed_at < $1 AND (completed_at IS NULL OR completed_at < $1)",
        values![before],
    )
    .await
}
