//! Reading a run's log other than from line to line: finding a text in all of it, its outline, all of it as plain text,
//! and what stands in the place of one that was removed.

use domain::{
    ids::{EnvironmentId, SetupRunId},
    limits,
    log_text::{Folded, Needle, push_plain},
    roles::Action,
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};
use wire::console::{Found, LogOutline};

use crate::{Control, Error, OpCtx, Result, environments::system_line, ports::rows::LogCounters};

/// Most line numbers in one answer of a search.
pub const FOUND_MAX: usize = 5_000;

/// What stands in the place of a log that was removed, for readers after line `after`: one note that says so and when. It
/// has the number after the log's last line, so that whoever goes on from it gets nothing more.
pub(crate) fn removal_note(log: &LogCounters, after: u64) -> Option<LogLine> {
    let at = log.removed_at?;
    let seq = log.lines + 1;
    (after < seq).then(|| LogLine {
        seq,
        ..system_line(at, removed(at))
    })
}

/// The sentence for a log that was removed.
pub(crate) fn removed(at: Timestamp) -> String {
    format!("The log was removed on {at}.")
}

impl Control {
    /// Lines after `after` that hold a text, without case and through colours: the first [`FOUND_MAX`] and how many there
    /// are. Also of a run that is under way: `through` says how far the log went.
    pub async fn find_in_setup_run_log(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        text: &str,
        after: u64,
    ) -> Result<Found> {
        let needle = Needle::new(text).ok_or_else(|| {
            Error::invalid_field(
                "query",
                format!("Give 1 to {} bytes to look for.", Needle::MAX_BYTES),
            )
        })?;
        let mut found = Found {
            through: after,
            ..Found::default()
        };
        let mut buffer = Folded::default();
        self.each_line(ctx, environment, run, after, |line| {
            found.through = line.seq;
            if needle.is_in(&line.text, &mut buffer) {
                found.total += 1;
                if found.lines.len() < FOUND_MAX {
                    found.lines.push(line.seq);
                }
            }
        })
        .await?;
        Ok(found)
    }

    /// What the log is made of up to now: for folding and filtering without reading the text.
    pub async fn setup_run_log_outline(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<LogOutline> {
        let mut outline = LogOutline::default();
        self.each_line(ctx, environment, run, 0, |line| {
            match outline.0.last_mut() {
                Some((stream, number, count)) if *stream == line.stream && *number == line.line => {
                    *count += 1;
                }
                _ => outline.0.push((line.stream, line.line, 1)),
            }
        })
        .await?;
        Ok(outline)
    }

    /// Its whole log as plain text: a line each, markers and notes set off, colours left out.
    pub async fn setup_run_log_text(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<String> {
        let (_, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        if let Some(at) = row.log.removed_at {
            return Ok(removed(at) + "\n");
        }
        let mut text = String::new();
        self.each_line(ctx, environment, run, 0, |line| {
            match line.stream {
                Stream::Marker => text.push_str("$ "),
                Stream::System => text.push_str("# "),
                Stream::Stdout | Stream::Stderr => {}
            }
            push_plain(&line.text, &mut text);
            text.push('\n');
        })
        .await?;
        if row.log.truncated {
            let limit = limits::log_limit_reached(row.log.lines);
            text.push_str(&format!("# The log is cut off here: it passed {limit}.\n"));
        }
        Ok(text)
    }

    /// Reads every stored line after `after`, page by page; none of a log that was removed.
    async fn each_line(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        mut after: u64,
        mut take: impl FnMut(&LogLine),
    ) -> Result<()> {
        self.load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        loop {
            let lines = self
                .0
                .store
                .log_lines(run, after, limits::LOG_PAGE_MAX)
                .await?
                .lines;
            let Some(last) = lines.last() else {
                return Ok(());
            };
            after = last.seq;
            lines.iter().for_each(&mut take);
        }
    }
}
