//! Sessions.

use async_trait::async_trait;
use control::ports::{
    Effects, SessionAdmission, SessionRecord, SessionRow, SessionStore, StoreError, Topic, Written,
};
use domain::{
    ids::{EnvironmentId, OrganizationId, SessionId},
    session::{SessionState, Wish},
    timestamp::Timestamp,
};

use super::effects;
use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
    dialect::locking,
};

macro_rules! columns {
    () => {
        "session_id, organization_id, environment_id, definition, status, wish, version, sandbox_id, host, record, \
         requested_by, kept_seconds, created_at, started_at, stopped_at, deleted_at"
    };
}
macro_rules! select {
    ($($rest:literal),+) => {
        concat!(
            "SELECT s.session_id, s.organization_id, s.environment_id, s.definition, s.status, s.wish, s.version, \
             s.sandbox_id, s.host, s.record, s.requested_by, s.kept_seconds, s.created_at, s.started_at, s.stopped_at, \
             s.deleted_at, e.deleted_at AS environment_deleted_at \
             FROM sessions s JOIN environments e ON e.environment_id = s.environment_id WHERE s.deleted_at IS NULL AND ",
            $($rest),+
        )
    };
}

#[async_trait]
impl SessionStore for Database {
    async fn admit_session(
        &self,
        row: &SessionRow,
        environment: i64,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(count) = full(&mut tx, row.organization_id, limit).await? {
            return Ok(SessionAdmission::LimitReached(count));
        }
        // Locked, so that a deletion of the environment sees the session or the session the deletion.
        let same = tx
            .row(
                locking!(
                    "SELECT environment_id FROM environments \
                     WHERE environment_id = $1 AND organization_id = $2 AND version = $3 AND deleted_at IS NULL"
                ),
                values![row.environment_id, row.organization_id, environment],
            )
            .await?;
        if same.is_none() {
            return Ok(SessionAdmission::Stale);
        }
        insert(&mut tx, row).await?;
        effects::apply(&mut tx, fx).await?;
        tx.ring(Topic::Sessions);
        tx.commit().await?;
        Ok(SessionAdmission::Admitted)
    }

    async fn resume_session(
        &self,
        expected: i64,
        row: &SessionRow,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(count) = full(&mut tx, row.organization_id, limit).await? {
            return Ok(SessionAdmission::LimitReached(count));
        }
        if set(&mut tx, expected, row).await? == Written::Stale {
            return Ok(SessionAdmission::Stale);
        }
        effects::apply(&mut tx, fx).await?;
        tx.commit().await?;
        Ok(SessionAdmission::Admitted)
    }

    async fn update_session(
        &self,
        expected: i64,
        row: &SessionRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        let mut tx = self.begin().await?;
        if set(&mut tx, expected, row).await? == Written::Stale {
            return Ok(Written::Stale);
        }
        effects::apply(&mut tx, fx).await?;
        tx.commit().await?;
        Ok(Written::Done)
    }

    async fn note_kept(&self, id: SessionId, seconds: i64) -> Result<(), StoreError> {
        self.execute(
            "UPDATE sessions SET kept_seconds = $1 WHERE session_id = $2",
            values![seconds, id],
        )
        .await
        .map(drop)
    }

    async fn session(
        &self,
        org: OrganizationId,
        id: SessionId,
    ) -> Result<Option<SessionRow>, StoreError> {
        self.row(
            select!("s.session_id = $1 AND s.organization_id = $2"),
            values![id, org],
        )
        .await?
        .as_ref()
        .map(read)
        .transpose()
    }

    async fn sessions(
        &self,
        org: OrganizationId,
        environment: Option<EnvironmentId>,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let rows = match environment {
            None => {
                self.rows(
                    select!("s.organization_id = $1 ORDER BY s.created_at DESC, s.session_id DESC"),
                    values![org],
                )
                .await?
            }
            Some(environment) => {
                self.rows(
                    select!(
                        "s.organization_id = $1 AND s.environment_id = $2 \
                         ORDER BY s.created_at DESC, s.session_id DESC"
                    ),
                    values![org, environment],
                )
                .await?
            }
        };
        rows.iter().map(read).collect()
    }

    async fn sessions_on(&self, host: &str) -> Result<Vec<SessionRow>, StoreError> {
        self.rows(
            select!("s.host = $1 ORDER BY s.created_at, s.session_id"),
            values![host],
        )
        .await?
        .iter()
        .map(read)
        .collect()
    }
}

/// Digests of the layers that sessions rest upon; one may come several times.
pub(super) async fn layers(db: &Database) -> Result<Vec<String>, StoreError> {
    let rows = db
        .rows(
            "SELECT session_id, record FROM sessions WHERE deleted_at IS NULL",
            values![],
        )
        .await?;
    let mut layers = Vec::new();
    for row in &rows {
        let columns = Columns::new(row, "sessions", "session_id");
        let record: SessionRecord = columns.json("record")?;
        layers.extend(record.layers);
    }
    Ok(layers)
}

/// When a session of each environment last came up, deleted ones included.
pub(super) async fn last_starts(
    db: &Database,
) -> Result<Vec<(EnvironmentId, Timestamp)>, StoreError> {
    db.rows(
        "SELECT environment_id, MAX(started_at) AS last_started FROM sessions WHERE started_at IS NOT NULL \
         GROUP BY environment_id",
        values![],
    )
    .await?
    .iter()
    .map(|row| {
        let columns = Columns::new(row, "sessions", "environment_id");
        Ok((columns.id("environment_id")?, columns.time("last_started")?))
    })
    .collect()
}

/// How many sessions of the organization are live, if that is the most. Admissions of one organization take turns.
async fn full(
    tx: &mut Tx<'_>,
    org: OrganizationId,
    limit: usize,
) -> Result<Option<usize>, StoreError> {
    tx.row(
        locking!("SELECT organization_id FROM organizations WHERE organization_id = $1"),
        values![org],
    )
    .await?;
    let live = tx
        .rows(
            "SELECT session_id FROM sessions WHERE organization_id = $1 AND deleted_at IS NULL \
             AND status IN ('provisioning', 'running')",
            values![org],
        )
        .await?
        .len();
    Ok((live >= limit).then_some(live))
}

async fn insert(tx: &mut Tx<'_>, row: &SessionRow) -> Result<(), StoreError> {
    tx.execute(
        concat!(
            "INSERT INTO sessions (",
            columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
        ),
        values![
            row.session_id,
            row.organization_id,
            row.environment_id,
            json(&row.definition)?,
            row.state.status.as_str(),
            row.state.wish.map(Wish::as_str),
            row.version,
            row.sandbox_id,
            &row.host,
            json(&row.record)?,
            row.requested_by,
            row.kept_seconds,
            row.created_at,
            row.started_at,
            row.stopped_at,
            row.deleted_at,
        ],
    )
    .await?;
    Ok(())
}

/// The compare-and-set. On `Stale` the caller drops the transaction.
async fn set(tx: &mut Tx<'_>, expected: i64, row: &SessionRow) -> Result<Written, StoreError> {
    let touched = tx
        .execute(
            "UPDATE sessions SET status = $1, wish = $2, version = $3, record = $4, kept_seconds = $5, started_at = $6, \
             stopped_at = $7, deleted_at = $8 WHERE session_id = $9 AND version = $10 AND deleted_at IS NULL",
            values![
                row.state.status.as_str(),
                row.state.wish.map(Wish::as_str),
                row.version,
                json(&row.record)?,
                row.kept_seconds,
                row.started_at,
                row.stopped_at,
                row.deleted_at,
                row.session_id,
                expected,
            ],
        )
        .await?;
    if touched == 0 {
        return Ok(Written::Stale);
    }
    tx.ring(Topic::Sessions);
    Ok(Written::Done)
}

fn read(row: &Row) -> Result<SessionRow, StoreError> {
    let columns = Columns::new(row, "sessions", "session_id");
    let wish = columns
        .text_if("wish")?
        .map(|text| {
            text.parse::<Wish>()
                .map_err(|error| columns.corrupt("wish", error))
        })
        .transpose()?;
    Ok(SessionRow {
        organization_id: columns.id("organization_id")?,
        environment_id: columns.id("environment_id")?,
        session_id: columns.id("session_id")?,
        definition: columns.json("definition")?,
        state: SessionState {
            status: columns.word("status")?,
            wish,
        },
        version: columns.number("version")?,
        sandbox_id: columns.id("sandbox_id")?,
        host: columns.text("host")?,
        record: columns.json("record")?,
        requested_by: columns.id("requested_by")?,
        kept_seconds: columns.number("kept_seconds")?,
        created_at: columns.time("created_at")?,
        started_at: columns.time_if("started_at")?,
        stopped_at: columns.time_if("stopped_at")?,
        deleted_at: columns.time_if("deleted_at")?,
        environment_deleted_at: columns.time_if("environment_deleted_at")?,
    })
}
