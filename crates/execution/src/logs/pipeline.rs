//! The log of one run.

use std::{mem, time::Duration};

use domain::{
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};

use super::{
    Limits, Redact,
    line::{Change, LineReader},
    tail::{self, Tail},
};
use crate::runtime::Event;

/// Bytes and lines that notes of ours may take beyond the limits, so that the end of a flooded log still says how the run
/// went.
const SYSTEM_RESERVE: (u64, u64) = (64 * 1024, 1_000);

/// Lines to be stored. The first may repeat the last one of the batch before, with another text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// The limit of the log was passed: lines after it are not kept.
    pub truncated: bool,
    /// The last line may still change.
    pub open: bool,
}

/// A line that has been shown although it may go on. It is the last line of the log: as soon as another is written, it
/// is closed, and what follows is a line of its own.
#[derive(Debug)]
struct Shown {
    /// As it stands in the log.
    line: LogLine,
    /// The text that it shows, before redaction.
    raw: String,
    updated: Duration,
}

#[derive(Debug, Default)]
struct Source {
    reader: LineReader,
    /// When the unfinished line began.
    since: Option<(Duration, Timestamp)>,
    /// Script line in which it began.
    line: Option<u32>,
    /// Something has come that has not been considered for showing.
    news: bool,
    tail: Tail,
}

/// Turns the events of a run into its log.
pub struct Pipeline {
    redact: Box<dyn Redact>,
    now: Box<dyn Fn() -> Timestamp + Send>,
    limits: Limits,
    next_seq: u64,
    bytes: u64,
    truncated: bool,
    script_line: Option<u32>,
    stdout: Source,
    stderr: Source,
    shown: Option<Shown>,
    pending: Vec<LogLine>,
    pending_bytes: usize,
    pending_since: Option<Duration>,
    /// When a batch was last taken.
    taken_at: Option<Duration>,
}

impl Pipeline {
    /// A log that goes on with line `next_seq` after `bytes` bytes. `now` tells the wall-clock time that lines carry;
    /// the times given to the methods are of any clock that never goes back.
    pub fn new(
        redact: Box<dyn Redact>,
        next_seq: u64,
        bytes: u64,
        limits: Limits,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Self {
        Self {
            redact,
            now: Box::new(now),
            limits,
            next_seq,
            bytes,
            truncated: bytes >= limits.log_bytes || next_seq > limits.log_lines,
            script_line: None,
            stdout: Source::default(),
            stderr: Source::default(),
            shown: None,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_since: None,
            taken_at: None,
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event, at: Duration) {
        match event {
            Event::Marker { line, text } => self.marker(*line, text, at),
            Event::Output { stream, bytes } => self.output(*stream, bytes, at),
            Event::System { text } => self.system(text, at),
            Event::Egress(_) => {}
        }
    }

    /// Writes a note of ours.
    pub fn system(&mut self, text: &str, at: Duration) {
        let text = self.redact.line(Stream::System, text);
        let now = (self.now)();
        self.write(Stream::System, text, None, now, at);
    }

    fn marker(&mut self, line: u32, text: &str, at: Duration) {
        if !text.is_empty() {
            self.flush_unfinished(at);
        }
        self.script_line = (line > 0).then_some(line);
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return };
        let mut shown = first.to_owned();
        if lines.next().is_some() {
            shown.push_str(" …");
        }
        shown.truncate(shown.floor_char_boundary(self.limits.line_bytes));
        let shown = self.redact.line(Stream::Marker, &shown);
        let now = (self.now)();
        self.write(Stream::Marker, shown, self.script_line, now, at);
    }

    fn source(&mut self, stream: Stream) -> &mut Source {
        if stream == Stream::Stderr {
            &mut self.stderr
        } else {
            &mut self.stdout
        }
    }

    fn output(&mut self, stream: Stream, bytes: &[u8], at: Duration) {
        // Past the limit only the end of stderr is still of interest.
        if self.truncated && stream != Stream::Stderr {
            return;
        }
        // Of a flood of it, then, the end is enough.
        let skipped = if self.truncated {
            bytes.len().saturating_sub(tail::KEPT_BYTES)
        } else {
            0
        };
        let bytes = &bytes[skipped..];
        let begun = (at, (self.now)());
        let limit = self.limits.line_bytes + self.redact.longest() + 1;
        let script_line = self.script_line;
        let source = self.source(stream);
        source.news = true;
        let mut reader = mem::take(&mut source.reader);
        if !reader.is_open() {
            source.since = Some(begun);
            source.line = script_line;
        }
        reader.read(bytes, limit, |reader, change| match change {
            Change::Complete => {
                let text = reader.take();
                self.complete(stream, text, at);
                let source = self.source(stream);
                source.since = Some(begun);
                source.line = script_line;
            }
            Change::TooLong => {
                let cut = self.cut(reader.text());
                let piece = reader.take_piece(cut);
                self.complete(stream, piece, at);
            }
        });
        if self.truncated && stream != Stream::Stderr {
            return;
        }
        let source = self.source(stream);
        // What began after a whole line of the same read has yet to be considered for showing.
        source.news = reader.is_open();
        if !reader.is_open() {
            source.since = None;
        }
        source.reader = reader;
    }

    /// Where a line that is too long is cut: at its limit, unless something to be masked or a colour may lie across.
    fn cut(&self, text: &str) -> usize {
        let mut cut = text.floor_char_boundary(self.limits.line_bytes);
        if let Some(colour) = text[..cut].rfind('\u{1b}')
            && !text[colour..cut].contains('m')
        {
            cut = colour;
        }
        match self.redact.cut_len(&text[..cut]) {
            // Nothing but one text to be masked, perhaps: it is masked as far as it is here.
            0 => text.len(),
            safe => safe,
        }
    }

    /// A whole line (or a piece of one) of the script's output.
    fn complete(&mut self, stream: Stream, text: String, at: Duration) {
        let source = self.source(stream);
        source.news = false;
        let (since, line) = (source.since, source.line);
        if !self.truncated {
            let redacted = self.redact.line(stream, &text);
            match self.shown.take() {
                Some(shown) if shown.line.stream == stream => {
                    let line = self.rewrite(shown.line, redacted, at);
                    // Readers are told that it is whole, also where its text stays.
                    if self.pending.last().is_none_or(|last| last.seq < line.seq) {
                        self.push(line, at);
                    }
                }
                shown => {
                    self.shown = shown;
                    let written = since.map_or_else(|| (self.now)(), |(_, at)| at);
                    self.write(stream, redacted, line, written, at);
                }
            }
        }
        if stream == Stream::Stderr {
            self.stderr.tail.push(text);
        }
    }

    /// Appends a line to the log, if there is room.
    fn write(
        &mut self,
        stream: Stream,
        text: String,
        line: Option<u32>,
        at: Timestamp,
        now: Duration,
    ) -> Option<LogLine> {
        self.close_shown(now);
        let size = text.len() as u64 + 1;
        let ours = stream == Stream::System;
        let (more_bytes, more_lines) = if ours { SYSTEM_RESERVE } else { (0, 0) };
        let full = self.bytes + size > self.limits.log_bytes + more_bytes
            || self.next_seq > self.limits.log_lines + more_lines;
        if full || (self.truncated && !ours) {
            if !ours {
                self.truncate(now);
            }
            return None;
        }
        self.bytes += size;
        let written = LogLine {
            seq: self.next_seq,
            stream,
            line,
            text,
            at,
        };
        self.next_seq += 1;
        self.push(written.clone(), now);
        Some(written)
    }

    /// Another line is about to be written: what has been shown of an unfinished one becomes a line of its own.
    fn close_shown(&mut self, now: Duration) {
        let Some(mut shown) = self.shown.take() else {
            return;
        };
        // Less than was shown, perhaps: a letter that begins a token, as many do, stays with what follows it.
        shown.raw.truncate(self.redact.cut_len(&shown.raw));
        let stream = shown.line.stream;
        let script_line = self.script_line;
        let begun = (now, (self.now)());
        let source = self.source(stream);
        if source.reader.text().starts_with(&shown.raw) {
            source.reader.take_piece(shown.raw.len());
        }
        // What is left, if anything, was not shown: it has yet to be considered.
        source.since = Some(begun);
        source.line = script_line;
        source.news = true;
        let text = self.redact.line(stream, &shown.raw);
        self.rewrite(shown.line, text, now);
        if stream == Stream::Stderr {
            self.stderr.tail.push(shown.raw);
        }
    }

    fn truncate(&mut self, now: Duration) {
        if !mem::replace(&mut self.truncated, true) {
            self.stdout.reader = LineReader::default();
            self.stdout.since = None;
            let limit = if self.next_seq > self.limits.log_lines {
                format!("{} lines", self.limits.log_lines)
            } else {
                let mib = self.limits.log_bytes as f64 / f64::from(1 << 20);
                format!("{mib} MiB")
            };
            self.system(
                &format!("The log has reached its limit of {limit}: what follows is not kept. The run goes on."),
                now,
            );
        }
    }

    /// Queues a line; the newest text of a line counts.
    fn push(&mut self, line: LogLine, now: Duration) {
        self.pending_since.get_or_insert(now);
        self.pending_bytes += line.text.len();
        match self.pending.last_mut() {
            Some(last) if last.seq == line.seq => {
                self.pending_bytes -= last.text.len();
                *last = line;
            }
            _ => self.pending.push(line),
        }
    }

    /// Gives a line that has been shown its final or newest text.
    fn rewrite(&mut self, mut line: LogLine, mut text: String, now: Duration) -> LogLine {
        if text == line.text {
            return line;
        }
        let room = self.limits.log_bytes.saturating_sub(self.bytes) as usize + line.text.len();
        let full = text.len() > room;
        text.truncate(text.floor_char_boundary(room));
        self.bytes = self.bytes - line.text.len() as u64 + text.len() as u64;
        line.text = text;
        self.push(line.clone(), now);
        if full {
            self.truncate(now);
        }
        line
    }

    /// Ends the unfinished lines of both streams; a character that is not complete is waited for further.
    fn flush_unfinished(&mut self, at: Duration) {
        let mut streams = [Stream::Stdout, Stream::Stderr];
        if self.stderr.since < self.stdout.since {
            streams.reverse();
        }
        for stream in streams {
            let source = self.source(stream);
            if source.reader.is_open() {
                let text = source.reader.take();
                self.complete(stream, text, at);
                self.source(stream).since = None;
            }
        }
    }

    /// When [`Pipeline::tick`] or [`Pipeline::take_batch`] has something to do next; `None` while nothing waits.
    pub fn due(&self) -> Option<Duration> {
        let batch = self.pending_since.map(|since| {
            if self.is_full() {
                Duration::ZERO
            } else {
                self.batch_due(since)
            }
        });
        let open = [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .filter_map(|stream| self.open_due(stream));
        open.chain(batch).min()
    }

    fn open_due(&self, stream: Stream) -> Option<Duration> {
        let source = if stream == Stream::Stderr {
            &self.stderr
        } else {
            &self.stdout
        };
        let (since, _) = source.since?;
        if self.truncated || !source.news || source.reader.text().is_empty() {
            return None;
        }
        Some(match &self.shown {
            Some(shown) if shown.line.stream == stream => shown.updated + self.limits.update_after,
            _ => since + self.limits.open_after,
        })
    }

    /// Shows unfinished lines that have waited long enough.
    pub fn tick(&mut self, at: Duration) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if self.open_due(stream).is_some_and(|due| due <= at) {
                self.show(stream, at);
            }
        }
    }

    fn show(&mut self, stream: Stream, at: Duration) {
        let source = self.source(stream);
        source.news = false;
        let (since, script_line) = (source.since, source.line);
        let source = if stream == Stream::Stderr {
            &self.stderr
        } else {
            &self.stdout
        };
        let text = source.reader.text();
        let raw = text[..self.redact.safe_len(text)].to_owned();
        if raw.is_empty() {
            return;
        }
        let text = self.redact.peek(stream, &raw);
        let line = match self.shown.take() {
            Some(shown) if shown.line.stream == stream => Some(self.rewrite(shown.line, text, at)),
            other => {
                self.shown = other;
                let written = since.map_or_else(|| (self.now)(), |(_, at)| at);
                self.write(stream, text, script_line, written, at)
            }
        };
        self.shown = line.filter(|_| !self.truncated).map(|line| Shown {
            line,
            raw,
            updated: at,
        });
    }

    fn is_full(&self) -> bool {
        self.pending.len() >= self.limits.batch_lines
            || self.pending_bytes >= self.limits.batch_bytes
    }

    fn batch_due(&self, since: Duration) -> Duration {
        self.taken_at
            .map_or(since, |taken| since.max(taken + self.limits.batch_age))
    }

    /// A batch, if one is due.
    pub fn take_batch(&mut self, at: Duration) -> Option<Batch> {
        let since = self.pending_since?;
        if !self.is_full() && self.batch_due(since) > at {
            return None;
        }
        self.taken_at = Some(at);
        self.take_rest()
    }

    /// Whatever waits to be stored, due or not.
    pub fn take_rest(&mut self) -> Option<Batch> {
        self.pending_since = None;
        self.pending_bytes = 0;
        let lines = mem::take(&mut self.pending);
        let last = lines.last()?.seq;
        Some(Batch {
            open: self
                .shown
                .as_ref()
                .is_some_and(|shown| shown.line.seq == last),
            lines,
            truncated: self.truncated,
        })
    }

    /// The script has ended: unfinished lines and characters are complete now.
    pub fn end_of_output(&mut self, at: Duration) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.source(stream).reader.end();
        }
        self.flush_unfinished(at);
        self.script_line = None;
    }

    /// The last of stderr, redacted, without colours.
    pub fn stderr_tail(&self) -> String {
        let open = self.stderr.reader.text();
        let open = (!open.is_empty()).then_some(open);
        let mut redact = self.redact.fresh();
        let limit = self.limits.tail_bytes;
        self.stderr
            .tail
            .text(Stream::Stderr, open, redact.as_mut(), limit)
    }

    /// Masks a text that does not belong to the log, such as the failing command.
    pub fn redact(&self, text: &str) -> String {
        let mut redact = self.redact.fresh();
        let lines: Vec<String> = text
            .lines()
            .map(|line| redact.line(Stream::System, line))
            .collect();
        lines.join("\n")
    }

    /// Lines written so far, all attempts together.
    pub fn lines(&self) -> u64 {
        self.next_seq - 1
    }
}
