//! What is kept of a run beside its log: hosts asked for, seconds per script line. Rows of an earlier attempt go with the
//! first report of a later one.

use std::collections::{HashMap, HashSet};

use control::ports::{Appended, StoreError, Topic};
use domain::{
    ids::SetupRunId,
    limits,
    run_records::{AskedHost, EgressOutcome, LineTime, RunRecords},
};
use serde::Serialize;

use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
    dialect::{KEEP_HOSTS, locking},
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
    keep(&mut tx, id, attempt, &records.hosts).await?;
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

/// Hosts in one statement.
const HOSTS_AT_ONCE: usize = 1_000;

/// A host on its way into the table.
#[derive(Serialize)]
struct NewHost<'a> {
    host: &'a str,
    port: u16,
    outcome: &'static str,
    position: u64,
    rule: Option<u32>,
    redirected_from: Option<&'a str>,
    line: Option<u32>,
    count: i64,
}

/// Keeps hosts in their order behind those that are kept already, and no more than are kept of a run. What was learnt at
/// the first attempt (which line, which rule, who redirected) stays; the larger count counts.
async fn keep(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    attempt: u32,
    hosts: &[AskedHost],
) -> Result<(), StoreError> {
    if hosts.is_empty() {
        return Ok(());
    }
    let row = tx
        .row(
            "SELECT $1 AS setup_run_id, COUNT(*) AS kept, COALESCE(MAX(position), 0) AS newest \
             FROM setup_run_hosts WHERE setup_run_id = $1",
            values![id],
        )
        .await?;
    let (mut kept, mut newest): (usize, u64) = match &row {
        Some(row) => {
            let columns = Columns::new(row, "setup_run_hosts", "setup_run_id");
            (columns.count("kept")?, columns.count("newest")?)
        }
        None => (0, 0),
    };
    let known = if kept + hosts.len() > limits::RUN_HOSTS_MAX {
        known(tx, id).await?
    } else {
        HashSet::new()
    };
    // One statement changes no row twice.
    let mut at: HashMap<(&str, u16, EgressOutcome), usize> = HashMap::new();
    let mut new: Vec<NewHost<'_>> = Vec::with_capacity(hosts.len());
    for asked in hosts {
        let count = i64::try_from(asked.count).unwrap_or(i64::MAX);
        let key = (asked.host.as_str(), asked.port, asked.outcome);
        if let Some(same) = at.get(&key).and_then(|at| new.get_mut(*at)) {
            same.count = same.count.max(count);
            same.rule = same.rule.or(asked.rule);
            same.redirected_from = same.redirected_from.or(asked.redirected_from.as_deref());
            same.line = same.line.or(asked.line);
            continue;
        }
        if !known.contains(&(asked.host.clone(), asked.port, asked.outcome)) {
            if kept >= limits::RUN_HOSTS_MAX {
                continue;
            }
            kept += 1;
        }
        newest += 1;
        at.insert(key, new.len());
        new.push(NewHost {
            host: &asked.host,
            port: asked.port,
            outcome: asked.outcome.as_str(),
            position: newest,
            rule: asked.rule,
            redirected_from: asked.redirected_from.as_deref(),
            line: asked.line,
            count,
        });
    }
    for some in new.chunks(HOSTS_AT_ONCE) {
        tx.execute(KEEP_HOSTS, values![id, attempt, json(&some)?])
            .await?;
    }
    Ok(())
}

/// What names the hosts that are kept of a run.
async fn known(
    tx: &mut Tx<'_>,
    id: SetupRunId,
) -> Result<HashSet<(String, u16, EgressOutcome)>, StoreError> {
    let rows = tx
        .rows(
            "SELECT setup_run_id, host, port, outcome FROM setup_run_hosts WHERE setup_run_id = $1",
            values![id],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let columns = Columns::new(row, "setup_run_hosts", "setup_run_id");
            Ok((
                columns.text("host")?,
                columns.count("port")?,
                columns.word("outcome")?,
            ))
        })
        .collect()
}

pub(super) async fn read(db: &Database, id: SetupRunId) -> Result<RunRecords, StoreError> {
    let hosts = db
        .rows(
            "SELECT setup_run_id, host, port, outcome, rule, redirected_from, script_line, asked \
             FROM setup_run_hosts WHERE setup_run_id = $1 ORDER BY position",
            values![id],
        )
        .await?;
    Ok(RunRecords {
        hosts: hosts.iter().map(host).collect::<Result<_, _>>()?,
        timings: times(db, id).await?,
    })
}

pub(super) async fn times(db: &Database, id: SetupRunId) -> Result<Vec<LineTime>, StoreError> {
    let row = db
        .row(
            "SELECT setup_run_id, timings FROM setup_run_timings WHERE setup_run_id = $1",
            values![id],
        )
        .await?;
    match &row {
        Some(row) => Columns::new(row, "setup_run_timings", "setup_run_id").json("timings"),
        None => Ok(Vec::new()),
    }
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
