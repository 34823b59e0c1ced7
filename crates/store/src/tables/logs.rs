//! Logs of setup runs: one row for each batch of lines.
//!
//! Readers see the store's numbers, from 1 without gaps. A worker numbers its own lines, beginning with the number it is
//! given at its claim; a line of the control plane may come in between, so that the two numberings can drift apart. The
//! run's row therefore remembers the worker's number of its last line and where that line is stored: a repeated line is
//! recognised, and an unfinished one is extended in its place, whatever was stored after it.

use control::ports::{Appended, LogAppend, StoreError, StoredLog, Topic};
use domain::{
    ids::SetupRunId,
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};

use super::records;
use crate::{
    Database,
    columns::{Columns, json},
    db::{Row, Tx, values},
    dialect::locking,
};

/// Most lines in one row, so that reading a page reads little more than the page.
const LINES_PER_ROW: usize = 500;
/// Logs removed in one transaction, so that other writers get their turn.
const REMOVED_AT_ONCE: u32 = 50;

/// What a run's row knows of its log.
struct Counters {
    /// Lines stored; the last number.
    lines: u64,
    bytes: u64,
    truncated: bool,
    /// The attempt that appended last, its number of its last line, and the number that line is stored under.
    attempt: u32,
    worker_seq: u64,
    open_seq: u64,
    /// Whether that line may still change.
    open: bool,
}

pub(super) async fn append(db: &Database, append: &LogAppend) -> Result<Appended, StoreError> {
    let id = append.setup_run_id;
    let mut tx = db.begin().await?;
    let Some((mut counters, fenced)) = load(&mut tx, id, append.attempt).await? else {
        return Ok(Appended::Fenced);
    };
    if fenced {
        return Ok(Appended::Fenced);
    }
    let changed = match append.attempt {
        None => {
            store(&mut tx, id, &mut counters, append.lines.iter()).await?;
            !append.lines.is_empty()
        }
        Some(attempt) => append_workers(&mut tx, &mut counters, attempt, append).await?,
    };
    if changed || (append.truncated && !counters.truncated) {
        counters.truncated |= append.truncated;
        save(&mut tx, id, &counters).await?;
        tx.ring(Topic::Run(id));
        tx.commit().await?;
    }
    Ok(Appended::Done)
}

/// Appends lines of the control plane inside its transaction.
pub(super) async fn append_ours(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    lines: &[LogLine],
) -> Result<(), StoreError> {
    if let Some((mut counters, _)) = load(tx, id, None).await? {
        store(tx, id, &mut counters, lines.iter()).await?;
        save(tx, id, &counters).await?;
    }
    Ok(())
}

/// The counters, and whether `attempt` may not append; locks the run's row.
async fn load(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    attempt: Option<u32>,
) -> Result<Option<(Counters, bool)>, StoreError> {
    let row = tx
        .row(
            locking!(
                "SELECT setup_run_id, attempt, driven, log_lines, log_bytes, log_truncated, log_attempt, \
                 log_worker_seq, log_open_seq, log_open FROM setup_runs WHERE setup_run_id = $1"
            ),
            values![id],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let columns = Columns::new(&row, "setup_runs", "setup_run_id");
    let holds = columns.flag("driven")? && Some(columns.count("attempt")?) == attempt;
    let counters = Counters {
        lines: columns.count("log_lines")?,
        bytes: columns.count("log_bytes")?,
        truncated: columns.flag("log_truncated")?,
        attempt: columns.count("log_attempt")?,
        worker_seq: columns.count("log_worker_seq")?,
        open_seq: columns.count("log_open_seq")?,
        open: columns.flag("log_open")?,
    };
    Ok(Some((counters, attempt.is_some() && !holds)))
}

async fn save(tx: &mut Tx<'_>, id: SetupRunId, counters: &Counters) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE setup_runs SET log_lines = $1, log_bytes = $2, log_truncated = $3, log_attempt = $4, \
         log_worker_seq = $5, log_open_seq = $6, log_open = $7 WHERE setup_run_id = $8",
        values![
            counters.lines,
            counters.bytes,
            counters.truncated,
            counters.attempt,
            counters.worker_seq,
            counters.open_seq,
            counters.open,
            id,
        ],
    )
    .await?;
    Ok(())
}

/// A worker's lines: what is stored already changes nothing, the last stored one may have grown. Answers whether
/// anything changed.
async fn append_workers(
    tx: &mut Tx<'_>,
    counters: &mut Counters,
    attempt: u32,
    append: &LogAppend,
) -> Result<bool, StoreError> {
    if counters.attempt != attempt {
        counters.attempt = attempt;
        counters.worker_seq = 0;
        counters.open_seq = 0;
        counters.open = false;
    }
    let mut last: Option<&LogLine> = None;
    let mut fresh: Vec<&LogLine> = Vec::with_capacity(append.lines.len());
    for line in &append.lines {
        let newest = fresh.last().map_or(counters.worker_seq, |line| line.seq);
        if line.seq > newest {
            fresh.push(line);
        } else if line.seq == newest {
            match fresh.last_mut() {
                Some(open) => *open = line,
                None => last = Some(line),
            }
        }
    }
    let mut changed = !fresh.is_empty();
    if let Some(line) = last
        && counters.open_seq > 0
    {
        // A batch with new lines was never stored, so that what it says of the line before is news. One without may
        // be the late repeat of an earlier one: only a longer text is news then.
        let extended = extend(tx, append.setup_run_id, counters, line, changed).await?;
        // For the same reason, a repeat can close the line but not open it again.
        let open = append.open && (extended || counters.open);
        changed |= extended || open != counters.open;
        counters.open = open;
    }
    store(tx, append.setup_run_id, counters, fresh.iter().copied()).await?;
    if let Some(line) = fresh.last() {
        counters.worker_seq = line.seq;
        counters.open_seq = counters.lines;
        counters.open = append.open;
    }
    Ok(changed)
}

/// Replaces the worker's last line by its newer text, where it is newer.
async fn extend(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    counters: &mut Counters,
    line: &LogLine,
    even_if_shorter: bool,
) -> Result<bool, StoreError> {
    let row = tx
        .row(
            "SELECT setup_run_id, first_seq, lines FROM setup_run_logs \
             WHERE setup_run_id = $1 AND first_seq <= $2 ORDER BY first_seq DESC LIMIT 1",
            values![id, counters.open_seq],
        )
        .await?;
    let Some(row) = row else { return Ok(false) };
    let (first, mut lines) = read(&row)?;
    let Some(stored) = lines
        .iter_mut()
        .find(|stored| stored.seq == counters.open_seq)
    else {
        return Ok(false);
    };
    let longer = line.text.len() > stored.text.len();
    if !longer && (!even_if_shorter || line.text == stored.text) {
        return Ok(false);
    }
    counters.bytes =
        counters.bytes.saturating_sub(stored.text.len() as u64) + line.text.len() as u64;
    stored.text.clone_from(&line.text);
    tx.execute(
        "UPDATE setup_run_logs SET lines = $1 WHERE setup_run_id = $2 AND first_seq = $3",
        values![write(lines.iter())?, id, first],
    )
    .await?;
    Ok(true)
}

/// Stores lines after the last one, whatever their own numbers are.
async fn store(
    tx: &mut Tx<'_>,
    id: SetupRunId,
    counters: &mut Counters,
    lines: impl Iterator<Item = &LogLine>,
) -> Result<(), StoreError> {
    let lines: Vec<&LogLine> = lines.collect();
    for batch in lines.chunks(LINES_PER_ROW) {
        let first = counters.lines + 1;
        counters.lines += batch.len() as u64;
        counters.bytes += batch.iter().map(|line| line.text.len() as u64).sum::<u64>();
        tx.execute(
            "INSERT INTO setup_run_logs (setup_run_id, first_seq, last_seq, lines) VALUES ($1, $2, $3, $4)",
            values![id, first, counters.lines, write(batch.iter().copied())?],
        )
        .await?;
    }
    Ok(())
}

pub(super) async fn page(
    db: &Database,
    id: SetupRunId,
    after: u64,
    limit: u32,
) -> Result<StoredLog, StoreError> {
    // Numbers have no gaps: the first row is the last one that begins at or before the first line wanted.
    let last = after.saturating_add(u64::from(limit));
    let rows = db
        .rows(
            "SELECT setup_run_id, first_seq, lines FROM setup_run_logs WHERE setup_run_id = $1 \
             AND first_seq >= COALESCE((SELECT MAX(first_seq) FROM setup_run_logs \
             WHERE setup_run_id = $1 AND first_seq <= $2), 0) AND first_seq <= $3 ORDER BY first_seq",
            values![id, after.saturating_add(1), last],
        )
        .await?;
    let mut lines = Vec::new();
    for row in &rows {
        let (_, batch) = read(row)?;
        lines.extend(
            batch
                .into_iter()
                .filter(|line| line.seq > after && line.seq <= last),
        );
    }
    Ok(StoredLog { lines })
}

pub(super) async fn delete(
    db: &Database,
    ended_before: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let mut tx = db.begin().await?;
        let runs = tx
            .rows(
                "UPDATE setup_runs SET log_removed_at = $1 WHERE setup_run_id IN (SELECT setup_run_id FROM setup_runs \
                 WHERE finished_at < $2 AND log_removed_at IS NULL ORDER BY finished_at LIMIT $3) \
                 RETURNING setup_run_id",
                values![now, ended_before, REMOVED_AT_ONCE],
            )
            .await?;
        if runs.is_empty() {
            return Ok(removed);
        }
        for row in &runs {
            let id: SetupRunId =
                Columns::new(row, "setup_runs", "setup_run_id").id("setup_run_id")?;
            tx.execute(
                "DELETE FROM setup_run_logs WHERE setup_run_id = $1",
                values![id],
            )
            .await?;
            records::remove(&mut tx, id).await?;
            tx.ring(Topic::Run(id));
        }
        tx.commit().await?;
        removed += runs.len() as u64;
    }
}

/// A stored line: stream, script line, time in microseconds, text.
type Stored<T> = (char, Option<u32>, i64, T);

const fn letter(stream: Stream) -> char {
    match stream {
        Stream::Stdout => 'o',
        Stream::Stderr => 'e',
        Stream::Marker => 'm',
        Stream::System => 's',
    }
}

fn write<'l>(lines: impl Iterator<Item = &'l LogLine>) -> Result<String, StoreError> {
    let stored: Vec<Stored<&str>> = lines
        .map(|line| {
            (
                letter(line.stream),
                line.line,
                line.at.micros(),
                line.text.as_str(),
            )
        })
        .collect();
    json(&stored)
}

/// A row's first number and its lines.
fn read(row: &Row) -> Result<(u64, Vec<LogLine>), StoreError> {
    let columns = Columns::new(row, "setup_run_logs", "setup_run_id");
    let first: u64 = columns.count("first_seq")?;
    let stored: Vec<Stored<String>> = columns.json("lines")?;
    let lines: Result<Vec<_>, _> = (first..)
        .zip(stored)
        .map(|(seq, (stream, line, at, text))| {
            let known = Stream::ALL
                .iter()
                .copied()
                .find(|known| letter(*known) == stream);
            Ok(LogLine {
                seq,
                stream: known
                    .ok_or_else(|| columns.corrupt("lines", format!("no stream {stream:?}")))?,
                line,
                text,
                at: Timestamp::from_micros(at),
            })
        })
        .collect();
    Ok((first, lines?))
}
