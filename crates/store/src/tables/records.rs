//! What is kept of a run beside its log: hosts asked for, seconds per script line. Rows of an earlier attempt go with the
//! first report of a later one.

use control::ports::{Appended, StoreError, Topic};
use domain::{
    ids::SetupRunId,
    run_records::{AskedHost, RunRecords},
};

use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
    dialect::locking,
};

pub(super) async fn record(
    db: &Database,
    id: SetupRunId,
    attempt: u32,
    records: &RunRecords,
) -> Result<Appended, StoreError> {
    let mut tx = db.begin().await?;
    let row = tx
        .row(
            locking!(
                "SELECT setup_run_id, attempt, driven FROM setup_runs WHERE setup_run_id = $1"
            ),
            values![id],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Appended::Fenced);
    };
    let columns = Columns::new(&row, "setup_runs", "setup_run_id");
    if !columns.flag("driven")? || columns.count::<u32>("attempt")? != attempt {
        return Ok(Appended::Fenced);
    }
    for table in [
        "DELETE FROM setup_run_hosts WHERE setup_run_id = $1 AND attempt <> $2",
        "DELETE FROM setup_run_timings WHERE setup_run_id = $1 AND attempt <> $2",
    ] {
        tx.execute(table, values![id, attempt]).await?;
    }
    for host in &records.hosts {
        keep(&mut tx, id, attempt, host).await?;
    }
    if !records.timings.is_empty() {
        tx.execute(
            "INSERT INTO setup_run_timings (setup_run_id, attempt, timings) VALUES ($1, $2, $3) \
             ON CONFLICT (setup_run_id) DO UPDATE SET attempt = excluded.attempt, timings = excluded.timings",
            values![id, attempt, json(&records.timings)?],
        )
        .await?;
    }
    tx.ring(Topic::Run(id));
    tx.commit().await?;
    Ok(Appended::Done)
}

/// What was learnt at the first attempt (which line, which rule, who redirected) stays; the larger count counts.
async fn keep(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    attempt: u32,
    host: &AskedHost,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO setup_run_hosts (setup_run_id, host, port, outcome, attempt, position, rule, redirected_from, \
         script_line, asked) VALUES ($1, $2, $3, $4, $5, \
         (SELECT COALESCE(MAX(position), 0) + 1 FROM setup_run_hosts WHERE setup_run_id = $1), $6, $7, $8, $9) \
         ON CONFLICT (setup_run_id, host, port, outcome) DO UPDATE SET \
         rule = COALESCE(setup_run_hosts.rule, excluded.rule), \
         redirected_from = COALESCE(setup_run_hosts.redirected_from, excluded.redirected_from), \
         script_line = COALESCE(setup_run_hosts.script_line, excluded.script_line), \
         asked = CASE WHEN excluded.asked > setup_run_hosts.asked THEN excluded.asked ELSE setup_run_hosts.asked END",
        values![
            id,
            &host.host,
            u32::from(host.port),
            host.outcome.as_str(),
            attempt,
            host.rule.map(i64::from),
            &host.redirected_from,
            host.line.map(i64::from),
            host.count,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn read(db: &Database, id: SetupRunId) -> Result<RunRecords, StoreError> {
    let hosts = db
        .rows(
            "SELECT setup_run_id, host, port, outcome, rule, redirected_from, script_line, asked \
             FROM setup_run_hosts WHERE setup_run_id = $1 ORDER BY position",
            values![id],
        )
        .await?;
    let timings = db
        .row(
            "SELECT setup_run_id, timings FROM setup_run_timings WHERE setup_run_id = $1",
            values![id],
        )
        .await?;
    Ok(RunRecords {
        hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
        timings: match &timings {
            Some(row) => Columns::new(row, "setup_run_timings", "setup_run_id").json("timings")?,
            None => Vec::new(),
        },
    })
}

fn host(row: &Row) -> Result<AskedHost, StoreError> {
    let columns = Columns::new(row, "setup_run_hosts", "setup_run_id");
    Ok(AskedHost {
        host: columns.text("host")?,
        port: columns.count("port")?,
        outcome: columns.word("outcome")?,
        rule: columns.count_if("rule")?,
        redirected_from: columns.text_if("redirected_from")?,
        line: columns.count_if("script_line")?,
        count: columns.count("asked")?,
    })
}

/// Removes what is kept of a run, with its log.
pub(super) async fn remove(tx: &mut Tx<'_>, id: SetupRunId) -> Result<(), StoreError> {
    for table in [
        "DELETE FROM setup_run_hosts WHERE setup_run_id = $1",
        "DELETE FROM setup_run_timings WHERE setup_run_id = $1",
    ] {
        tx.execute(table, values![id]).await?;
    }
    Ok(())
}
