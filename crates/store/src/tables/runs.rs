//! Setup runs. Locks are taken in one order everywhere: organization, environment, run.

use control::ports::{
    Admission, Effects, RunChange, StoreError, Topic, Written,
    rows::{EnvironmentRow, LogCounters, SetupRunRow},
};
use domain::{
    ids::{EnvironmentId, SetupRunId},
    setup_run::{Kind, LogLine, RunState, Status},
};

use super::{effects, environments, logs};
use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
    dialect::locking,
};

macro_rules! columns {
    () => {
        "setup_run_id, organization_id, environment_id, kind, status, phase, attempt, driven, \
         cancel_requested, version, requested_by, session_id, definition, fingerprint, record, worker_id, \
         created_at, started_at, finished_at"
    };
}
macro_rules! select {
    ($($rest:literal),+) => {
        concat!(
            "SELECT ",
            columns!(),
            ", log_lines, log_bytes, log_truncated, log_removed_at, log_open, log_open_seq FROM setup_runs ",
            $($rest),+
        )
    };
}
/// As in the partial indexes.
macro_rules! in_flight {
    () => {
        "status IN ('queued', 'provisioning', 'running')"
    };
}

pub(super) async fn admit(
    db: &Database,
    run: &SetupRunRow,
    first_line: &LogLine,
    expected: i64,
    environment: &EnvironmentRow,
    limit: usize,
    fx: Effects,
) -> Result<Admission, StoreError> {
    let mut tx = db.begin().await?;
    // Admissions of one organization take turns, so that the limit holds.
    tx.row(
        locking!("SELECT organization_id FROM organizations WHERE organization_id = $1"),
        values![run.organization_id],
    )
    .await?;
    let found = tx
        .row(
            concat!(
                "SELECT setup_run_id FROM setup_runs WHERE environment_id = $1 AND ",
                in_flight!()
            ),
            values![run.environment_id],
        )
        .await?;
    if let Some(row) = found {
        return Ok(Admission::InProgress(run_id(&row)?));
    }
    if run.kind == Kind::Manual {
        let manual = tx
            .rows(
                concat!(
                    "SELECT setup_run_id FROM setup_runs WHERE organization_id = $1 AND kind = $2 AND ",
                    in_flight!(),
                    " ORDER BY created_at, setup_run_id"
                ),
                values![run.organization_id, Kind::Manual.as_str()],
            )
            .await?;
        if manual.len() >= limit {
            let ids: Result<_, _> = manual.iter().map(run_id).collect();
            return Ok(Admission::LimitReached(ids?));
        }
    }
    if environments::set(&mut tx, expected, environment, None).await? == Written::Stale {
        return Ok(Admission::Stale);
    }
    insert(&mut tx, run).await?;
    logs::append_ours(&mut tx, run.setup_run_id, std::slice::from_ref(first_line)).await?;
    effects::apply(&mut tx, fx).await?;
    ring(&mut tx, run);
    tx.commit().await?;
    Ok(Admission::Admitted)
}

fn run_id(row: &Row) -> Result<SetupRunId, StoreError> {
    Columns::new(row, "setup_runs", "setup_run_id").id("setup_run_id")
}

async fn insert(tx: &mut Tx<'_>, run: &SetupRunRow) -> Result<(), StoreError> {
    tx.execute(
        concat!(
            "INSERT INTO setup_runs (",
            columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)"
        ),
        values![
            run.setup_run_id,
            run.organization_id,
            run.environment_id,
            run.kind.as_str(),
            run.state.status.as_str(),
            run.state.phase.as_str(),
            run.state.attempt,
            run.state.driven,
            run.state.cancel_requested,
            run.version,
            run.requested_by,
            run.session_id,
            json(&run.definition)?,
            &run.fingerprint.0,
            json(&run.record)?,
            run.worker_id,
            run.created_at,
            run.started_at,
            run.finished_at,
        ],
    )
    .await?;
    Ok(())
}

/// The bells of a run that was written.
fn ring(tx: &mut Tx<'_>, run: &SetupRunRow) {
    tx.ring(Topic::Run(run.setup_run_id));
    let waits = matches!(run.state.status, Status::Queued | Status::Provisioning);
    if waits && !run.state.driven {
        tx.ring(Topic::Queue);
    }
    if run.state.cancel_requested {
        tx.ring(Topic::Orders);
    }
}

pub(super) async fn one(db: &Database, id: SetupRunId) -> Result<Option<SetupRunRow>, StoreError> {
    db.row(select!("WHERE setup_run_id = $1"), values![id])
        .await?
        .as_ref()
        .map(read)
        .transpose()
}

pub(super) async fn list(
    db: &Database,
    environment: EnvironmentId,
    limit: u32,
) -> Result<Vec<SetupRunRow>, StoreError> {
    db.rows(
        select!("WHERE environment_id = $1 ORDER BY created_at DESC, setup_run_id DESC LIMIT $2"),
        values![environment, limit],
    )
    .await?
    .iter()
    .map(read)
    .collect()
}

macro_rules! waiting {
    ($end:literal) => {
        select!(
            "WHERE driven = FALSE AND status IN ('queued', 'provisioning') ORDER BY created_at, setup_run_id",
            $end
        )
    };
}

pub(super) async fn waiting(db: &Database) -> Result<Option<SetupRunRow>, StoreError> {
    db.row(waiting!(" LIMIT 1"), values![])
        .await?
        .as_ref()
        .map(read)
        .transpose()
}

pub(super) async fn all_waiting(db: &Database) -> Result<Vec<SetupRunRow>, StoreError> {
    db.rows(waiting!(""), values![])
        .await?
        .iter()
        .map(read)
        .collect()
}

pub(super) async fn driven(db: &Database) -> Result<Vec<SetupRunRow>, StoreError> {
    db.rows(
        select!("WHERE driven = TRUE ORDER BY created_at, setup_run_id"),
        values![],
    )
    .await?
    .iter()
    .map(read)
    .collect()
}

pub(super) async fn update(
    db: &Database,
    change: RunChange<'_>,
    environment: Option<(i64, &EnvironmentRow)>,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    if let Some((expected, row)) = environment
        && environments::set(&mut tx, expected, row, None).await? == Written::Stale
    {
        return Ok(Written::Stale);
    }
    if set(&mut tx, change).await? == Written::Stale {
        return Ok(Written::Stale);
    }
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

/// The compare-and-set of a run, inside a transaction. On `Stale` the caller drops the transaction.
pub(super) async fn set(tx: &mut Tx<'_>, change: RunChange<'_>) -> Result<Written, StoreError> {
    let run = change.row;
    let touched = tx
        .execute(
            "UPDATE setup_runs SET status = $1, phase = $2, attempt = $3, driven = $4, cancel_requested = $5, \
             version = $6, session_id = $7, record = $8, worker_id = $9, started_at = $10, finished_at = $11, \
             fingerprint = $12 WHERE setup_run_id = $13 AND version = $14",
            values![
                run.state.status.as_str(),
                run.state.phase.as_str(),
                run.state.attempt,
                run.state.driven,
                run.state.cancel_requested,
                run.version,
                run.session_id,
                json(&run.record)?,
                run.worker_id,
                run.started_at,
                run.finished_at,
                &run.fingerprint.0,
                run.setup_run_id,
                change.expected,
            ],
        )
        .await?;
    if touched == 0 {
        return Ok(Written::Stale);
    }
    if let Some(line) = change.system_line {
        logs::append_ours(tx, run.setup_run_id, std::slice::from_ref(line)).await?;
    }
    ring(tx, run);
    Ok(Written::Done)
}

fn read(row: &Row) -> Result<SetupRunRow, StoreError> {
    let columns = Columns::new(row, "setup_runs", "setup_run_id");
    Ok(SetupRunRow {
        organization_id: columns.id("organization_id")?,
        environment_id: columns.id("environment_id")?,
        setup_run_id: columns.id("setup_run_id")?,
        kind: columns.word("kind")?,
        state: RunState {
            status: columns.word("status")?,
            phase: columns.word("phase")?,
            attempt: columns.count("attempt")?,
            driven: columns.flag("driven")?,
            cancel_requested: columns.flag("cancel_requested")?,
        },
        version: columns.number("version")?,
        requested_by: columns.id("requested_by")?,
        session_id: columns.id_if("session_id")?,
        definition: columns.json("definition")?,
        fingerprint: domain::fingerprint::Fingerprint(columns.text("fingerprint")?),
        record: columns.json("record")?,
        worker_id: columns.id_if("worker_id")?,
        log: LogCounters {
            lines: columns.count("log_lines")?,
            bytes: columns.count("log_bytes")?,
            truncated: columns.flag("log_truncated")?,
            open: if columns.flag("log_open")? {
                Some(columns.count("log_open_seq")?)
            } else {
                None
            },
            removed_at: columns.time_if("log_removed_at")?,
        },
        created_at: columns.time("created_at")?,
        started_at: columns.time_if("started_at")?,
        finished_at: columns.time_if("finished_at")?,
    })
}
