//! The lines of a log that are here. Not all of them need to be: the page begins with the end, and fetches what one
//! scrolls to.

use domain::setup_run::{LogLine, Stream};
use wire::console::LogOutline;

/// Lines kept together.
const CHUNK: usize = 256;

/// Whether a line was news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was not here, or was another text.
    New,
    /// It was here.
    Known,
    /// Lines before it are not known to exist: something was missed.
    Gap,
}

/// Lines by their number, with holes.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    chunks: Vec<Vec<Option<LogLine>>>,
    last: u64,
}

/// Where a line is kept.
fn place(seq: u64) -> Option<(usize, usize)> {
    let at = usize::try_from(seq.checked_sub(1)?).ok()?;
    Some((at / CHUNK, at % CHUNK))
}

impl Lines {
    /// The number of the last line that is known to exist; 0: none.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Tells that lines up to `last` exist.
    pub fn reach(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    /// A line, where it is here.
    pub fn get(&self, seq: u64) -> Option<&LogLine> {
        let (chunk, at) = place(seq)?;
        self.chunks.get(chunk)?.get(at)?.as_ref()
    }

    /// Takes a line that follows what is known, or news of one that is known.
    pub fn put(&mut self, line: LogLine) -> Put {
        if line.seq > self.last + 1 || line.seq == 0 {
            return Put::Gap;
        }
        if self.get(line.seq).is_some_and(|known| *known == line) {
            return Put::Known;
        }
        self.set(line);
        Put::New
    }

    /// Takes a page: only what is missing, since a page may be older than what came live.
    pub fn fill(&mut self, page: Vec<LogLine>) {
        for line in page {
            if line.seq > 0 && line.seq <= self.last && self.get(line.seq).is_none() {
                self.set(line);
            }
        }
    }

    fn set(&mut self, line: LogLine) {
        let seq = line.seq;
        let Some((chunk, at)) = place(seq) else {
            return;
        };
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, Vec::new());
        }
        let lines = &mut self.chunks[chunk];
        if lines.len() <= at {
            // Whole at once where it is filled from the middle; from its beginning it grows as lines come.
            lines.resize(if at == lines.len() { at + 1 } else { CHUNK }, None);
        }
        lines[at] = Some(line);
        self.reach(seq);
    }

    /// The first and the last line between these two that exist and are not here.
    pub fn missing(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let to = to.min(self.last);
        let absent = |seq: &u64| self.get(*seq).is_none();
        let first = (from.max(1)..=to).find(absent)?;
        let last = (first..=to).rev().find(absent)?;
        Some((first, last))
    }
}

/// What a whole log is made of: which stream each line is of, and what a script line has written.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// Stream, script line, first line.
    stretches: Vec<(Stream, Option<u32>, u64)>,
    through: u64,
}

/// A script line with its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The marker.
    pub marker: u64,
    /// Its last line of output; the marker itself where there is none.
    pub end: u64,
}

impl Outline {
    /// As the server tells it.
    pub fn new(told: &LogOutline) -> Self {
        let mut outline = Self::default();
        for (stream, line, count) in &told.0 {
            outline
                .stretches
                .push((*stream, *line, outline.through + 1));
            outline.through += count;
        }
        outline
    }

    /// The last line it knows of.
    pub const fn through(&self) -> u64 {
        self.through
    }

    /// Takes the line after [`Self::through`].
    pub fn push(&mut self, stream: Stream, line: Option<u32>) {
        self.through += 1;
        // A marker begins something, also where its neighbour is one.
        if stream == Stream::Marker
            || self
                .stretches
                .last()
                .is_none_or(|last| (last.0, last.1) != (stream, line))
        {
            self.stretches.push((stream, line, self.through));
        }
    }

    /// Stretches: stream, script line, first and last line.
    pub fn stretches(&self) -> impl Iterator<Item = (Stream, Option<u32>, u64, u64)> {
        let ends = self
            .stretches
            .iter()
            .skip(1)
            .map(|next| next.2 - 1)
            .chain([self.through]);
        self.stretches
            .iter()
            .zip(ends)
            .map(|((stream, line, first), last)| (*stream, *line, *first, last))
    }

    /// Script lines with their output. Notes of ours that follow the last output belong to the run, not to the line.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for (stream, line, first, last) in self.stretches() {
            if stream == Stream::Marker {
                sections.extend((first..=last).map(|marker| Section {
                    marker,
                    end: marker,
                }));
            } else if let Some(section) = sections.last_mut()
                && (stream != Stream::System || line.is_some())
            {
                section.end = last;
            }
        }
        sections
    }
}

#[cfg(test)]
mod tests {
    use domain::timestamp::Timestamp;

    use super::*;

    fn line(seq: u64, text: &str) -> LogLine {
        LogLine {
            seq,
            stream: Stream::Stdout,
            line: None,
            text: text.to_owned(),
            at: Timestamp::default(),
        }
    }

    #[test]
    fn the_end_comes_first_and_holes_are_filled() {
        let mut lines = Lines::default();
        lines.reach(1_000);
        for seq in 901..=1_000 {
            assert_eq!(lines.put(line(seq, "end")), Put::New);
        }
        assert_eq!(lines.put(line(1_001, "next")), Put::New);
        assert_eq!(lines.put(line(1_003, "far")), Put::Gap);
        assert_eq!(lines.put(line(1_001, "next")), Put::Known);
        assert_eq!(lines.put(line(1_001, "next, longer")), Put::New);
        assert_eq!(lines.missing(950, 1_001), None);
        assert_eq!(lines.missing(0, 950), Some((1, 900)));
        assert_eq!(lines.missing(890, 2_000), Some((890, 900)));
        lines.fill((1..=1_002).map(|seq| line(seq, "page")).collect());
        assert_eq!(lines.missing(1, 1_001), None);
        assert_eq!(lines.get(900).map(|line| line.text.as_str()), Some("page"));
        assert_eq!(
            lines.get(1_001).map(|line| line.text.as_str()),
            Some("next, longer"),
            "a page is older than what came live"
        );
        assert_eq!((lines.get(1_002), lines.get(0)), (None, None));
    }

    #[test]
    fn a_script_line_has_the_output_up_to_the_next_one() {
        let told = LogOutline(vec![
            (Stream::System, None, 3),
            (Stream::Marker, Some(1), 1),
            (Stream::Stdout, Some(1), 10),
            (Stream::System, Some(1), 1),
            (Stream::Stderr, Some(1), 2),
            (Stream::Marker, Some(2), 1),
            (Stream::Marker, Some(3), 1),
            (Stream::Stdout, Some(3), 1),
            (Stream::System, None, 2),
        ]);
        let mut outline = Outline::new(&told);
        let section = |marker, end| Section { marker, end };
        assert_eq!(outline.through(), 22);
        assert_eq!(
            outline.sections(),
            [section(4, 17), section(18, 18), section(19, 20)]
        );
        outline.push(Stream::Stdout, Some(3));
        assert_eq!(outline.sections()[2], section(19, 23));
        outline.push(Stream::Marker, Some(4));
        outline.push(Stream::Marker, Some(4));
        assert_eq!(outline.sections().len(), 5);
        let covered: u64 = outline
            .stretches()
            .map(|(_, _, first, last)| last + 1 - first)
            .sum();
        assert_eq!(covered, outline.through());
    }
}
