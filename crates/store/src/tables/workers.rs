//! Workers.

use control::ports::{StoreError, rows::WorkerRow};
use domain::{ids::WorkerId, timestamp::Timestamp};

use crate::{
    Database,
    columns::Columns,
    db::{Row, values},
};

macro_rules! columns {
    () => {
        "worker_id, name, runtime, version, capacity, session_slots, \
         runner_image_reference, runner_image_digest, registered_at, seen_at"
    };
}

pub(super) async fn register(db: &Database, worker: &WorkerRow) -> Result<WorkerId, StoreError> {
    let (reference, digest) = worker.runner_image.clone().unzip();
    let mut tx = db.begin().await?;
    let row = tx
        .row(
            concat!(
                "INSERT INTO workers (",
                columns!(),
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
                 ON CONFLICT (name) DO UPDATE SET runtime = excluded.runtime, \
                 version = excluded.version, capacity = excluded.capacity, \
                 session_slots = excluded.session_slots, \
                 runner_image_reference = excluded.runner_image_reference, \
                 runner_image_digest = excluded.runner_image_digest, seen_at = excluded.seen_at \
                 RETURNING worker_id"
            ),
            values![
                worker.worker_id,
                &worker.name,
                &worker.runtime,
                &worker.version,
                worker.capacity,
                worker.session_slots,
                &reference,
                &digest,
                worker.registered_at,
                worker.seen_at,
            ],
        )
        .await?;
    let id = match &row {
        Some(row) => Columns::new(row, "workers", "worker_id").id("worker_id")?,
        None => worker.worker_id,
    };
    tx.commit().await?;
    Ok(id)
}

pub(super) async fn touch(db: &Database, id: WorkerId, at: Timestamp) -> Result<(), StoreError> {
    db.execute(
        "UPDATE workers SET seen_at = $1 WHERE worker_id = $2",
        values![at, id],
    )
    .await?;
    Ok(())
}

pub(super) async fn list(db: &Database) -> Result<Vec<WorkerRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            columns!(),
            " FROM workers ORDER BY registered_at DESC, worker_id DESC"
        ),
        values![],
    )
    .await?
    .iter()
    .map(read)
    .collect()
}

fn read(row: &Row) -> Result<WorkerRow, StoreError> {
    let columns = Columns::new(row, "workers", "worker_id");
    Ok(WorkerRow {
        worker_id: columns.id("worker_id")?,
        name: columns.text("name")?,
        runtime: columns.text("runtime")?,
        version: columns.text("version")?,
        capacity: columns.count("capacity")?,
        session_slots: columns.count("session_slots")?,
        runner_image: columns
            .text_if("runner_image_reference")?
            .zip(columns.text_if("runner_image_digest")?),
        registered_at: columns.time("registered_at")?,
        seen_at: columns.time("seen_at")?,
    })
}
