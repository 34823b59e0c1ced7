//! Environments and their saved definitions.

use std::sync::Arc;

use control::ports::{
    Effects, RunChange, StoreError, Topic, Written,
    rows::{EnvironmentRow, RevisionRow},
};
use domain::{
    ids::{EnvironmentId, OrganizationId},
    timestamp::Timestamp,
};

use super::{effects, runs};
use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
};

macro_rules! columns {
    () => {
        "environment_id, organization_id, version, revision, definition, verification, \
         setup_updated_by, setup_updated_at, created_at, updated_at, secret_hashes"
    };
}

pub(super) async fn insert(
    db: &Database,
    row: &EnvironmentRow,
    fx: Effects,
) -> Result<(), StoreError> {
    let mut tx = db.begin().await?;
    tx.execute(
        concat!(
            "INSERT INTO environments (",
            columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
        ),
        values![
            row.environment_id,
            row.organization_id,
            row.version,
            row.revision,
            json(&row.definition)?,
            json(&row.verification)?,
            row.setup_updated_by,
            row.setup_updated_at,
            row.created_at,
            row.updated_at,
            json(&row.secret_hashes)?,
        ],
    )
    .await?;
    effects::apply(&mut tx, fx).await?;
    tx.ring(Topic::Environments);
    tx.commit().await
}

pub(super) async fn one(
    db: &Database,
    org: OrganizationId,
    id: EnvironmentId,
) -> Result<Option<Arc<EnvironmentRow>>, StoreError> {
    let ask = async {
        let row = db
            .row(
                concat!(
                    "SELECT ",
                    columns!(),
                    " FROM environments WHERE environment_id = $1 AND organization_id = $2 AND deleted_at IS NULL"
                ),
                values![id, org],
            )
            .await?;
        row.as_ref()
            .map(|row| {
                let long = ["definition", "verification", "secret_hashes"];
                let bytes = long.map(|column| row.get::<&str>(column).map_or(0, str::len));
                Ok((read(row)?, bytes.iter().sum()))
            })
            .transpose()
    };
    db.kept((org, id), ask).await
}

pub(super) async fn list(
    db: &Database,
    org: OrganizationId,
) -> Result<Vec<EnvironmentRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            columns!(),
            " FROM environments WHERE organization_id = $1 AND deleted_at IS NULL \
             ORDER BY created_at DESC, environment_id DESC"
        ),
        values![org],
    )
    .await?
    .iter()
    .map(read)
    .collect()
}

/// Of all organizations, those with a verdict that a run passed, oldest first.
pub(super) async fn verified(db: &Database) -> Result<Vec<EnvironmentRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            columns!(),
            " FROM environments WHERE deleted_at IS NULL AND verification LIKE '%\"verified\"%' \
             ORDER BY created_at, environment_id"
        ),
        values![],
    )
    .await?
    .iter()
    .map(read)
    .collect()
}

pub(super) async fn update(
    db: &Database,
    expected: i64,
    row: &EnvironmentRow,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    if set(&mut tx, expected, row, None).await? == Written::Stale {
        return Ok(Written::Stale);
    }
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

pub(super) async fn delete(
    db: &Database,
    expected: i64,
    row: &EnvironmentRow,
    at: Timestamp,
    run: Option<RunChange<'_>>,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    if set(&mut tx, expected, row, Some(at)).await? == Written::Stale {
        return Ok(Written::Stale);
    }
    if let Some(change) = run
        && runs::set(&mut tx, change).await? == Written::Stale
    {
        return Ok(Written::Stale);
    }
    // Nothing needs them any more, and nobody could remove them later.
    tx.execute(
        "DELETE FROM environment_secrets WHERE environment_id = $1",
        values![row.environment_id],
    )
    .await?;
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

/// The compare-and-set of an environment, inside a transaction. On `Stale` the caller drops the transaction.
pub(super) async fn set(
    tx: &mut Tx<'_>,
    expected: i64,
    row: &EnvironmentRow,
    deleted_at: Option<Timestamp>,
) -> Result<Written, StoreError> {
    let touched = tx
        .execute(
            "UPDATE environments SET version = $1, revision = $2, definition = $3, verification = $4, \
             setup_updated_by = $5, setup_updated_at = $6, updated_at = $7, deleted_at = $8, secret_hashes = $9 \
             WHERE environment_id = $10 AND organization_id = $11 AND version = $12 AND deleted_at IS NULL",
            values![
                row.version,
                row.revision,
                json(&row.definition)?,
                json(&row.verification)?,
                row.setup_updated_by,
                row.setup_updated_at,
                row.updated_at,
                deleted_at,
                json(&row.secret_hashes)?,
                row.environment_id,
                row.organization_id,
                expected,
            ],
        )
        .await?;
    if touched == 0 {
        return Ok(Written::Stale);
    }
    tx.ring(Topic::Environments);
    Ok(Written::Done)
}

pub(super) async fn revisions(
    db: &Database,
    id: EnvironmentId,
) -> Result<Vec<RevisionRow>, StoreError> {
    db.rows(
        "SELECT environment_id, revision, definition, saved_by, saved_at FROM environment_revisions \
         WHERE environment_id = $1 ORDER BY revision DESC",
        values![id],
    )
    .await?
    .iter()
    .map(|row| {
        let columns = Columns::new(row, "environment_revisions", "environment_id");
        Ok(RevisionRow {
            environment_id: columns.id("environment_id")?,
            revision: columns.number("revision")?,
            definition: columns.json("definition")?,
            by: columns.id("saved_by")?,
            at: columns.time("saved_at")?,
        })
    })
    .collect()
}

fn read(row: &Row) -> Result<EnvironmentRow, StoreError> {
    let columns = Columns::new(row, "environments", "environment_id");
    Ok(EnvironmentRow {
        environment_id: columns.id("environment_id")?,
        organization_id: columns.id("organization_id")?,
        version: columns.number("version")?,
        revision: columns.number("revision")?,
        definition: columns.json("definition")?,
        verification: columns.json("verification")?,
        setup_updated_by: columns.id_if("setup_updated_by")?,
        setup_updated_at: columns.time_if("setup_updated_at")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
        secret_hashes: columns.json("secret_hashes")?,
    })
}
