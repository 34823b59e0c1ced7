//! Which lines are shown as rows, and where each row is. Positions are in units: the height of a row that does not wrap.

use std::collections::{BTreeMap, BTreeSet};

use domain::setup_run::Stream;

use super::lines::Outline;

/// A set of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streams(u8);

impl Streams {
    const fn bit(stream: Stream) -> u8 {
        1 << stream as u8
    }
    /// Whether it holds this one.
    pub const fn has(self, stream: Stream) -> bool {
        self.0 & Self::bit(stream) != 0
    }
    /// With this one added, or taken out.
    #[must_use]
    pub const fn toggled(self, stream: Stream) -> Self {
        Self(self.0 ^ Self::bit(stream))
    }
    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    total: u64,
    /// The lines that are shown; `None`: all of them.
    shown: Option<Vec<u64>>,
    /// Heights of rows that wrap; `None`: none does.
    heights: Option<Heights>,
    /// Units of lines that were measured and take more than one.
    tall: BTreeMap<u64, u32>,
}

impl Rows {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.shown.as_ref().map_or_else(
            || usize::try_from(self.total).unwrap_or(usize::MAX),
            Vec::len,
        )
    }

    /// The line of a row, from 0.
    pub fn line_of(&self, row: usize) -> Option<u64> {
        match &self.shown {
            Some(shown) => shown.get(row).copied(),
            None => Some(row as u64 + 1).filter(|line| *line <= self.total),
        }
    }

    /// The row of a line, or of the first one that is shown after it.
    pub fn row_of(&self, line: u64) -> usize {
        match &self.shown {
            Some(shown) => shown.partition_point(|shown| *shown < line),
            None => usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX),
        }
        .min(self.count().saturating_sub(1))
    }

    /// Whether a line has a row.
    pub fn shows(&self, line: u64) -> bool {
        match &self.shown {
            Some(shown) => shown.binary_search(&line).is_ok(),
            None => line >= 1 && line <= self.total,
        }
    }

    /// Whether some lines have no row.
    pub const fn hides(&self) -> bool {
        self.shown.is_some()
    }

    /// All anew: lines up to `total`, without those of the streams `hidden` and the output of the markers `folded`.
    pub fn arrange(
        &mut self,
        total: u64,
        outline: Option<&Outline>,
        hidden: Streams,
        folded: &BTreeSet<u64>,
    ) {
        self.total = total;
        self.shown = outline
            .filter(|_| !hidden.is_empty() || !folded.is_empty())
            .map(|outline| visible(outline, total, hidden, folded));
        if self.heights.is_some() {
            self.heights = Some(self.measured());
        }
    }

    /// More lines came, and all are shown.
    pub fn grow(&mut self, total: u64) {
        let more = total.saturating_sub(self.total);
        self.total = total.max(self.total);
        if let Some(heights) = &mut self.heights {
            (0..more).for_each(|_| heights.push(1));
        }
    }

    /// Turns wrapping on or off; what was measured before is forgotten.
    pub fn wrap(&mut self, on: bool) {
        self.tall.clear();
        self.heights = on.then(|| self.measured());
    }

    /// Whether rows wrap.
    pub const fn wraps(&self) -> bool {
        self.heights.is_some()
    }

    fn measured(&self) -> Heights {
        let mut heights = Heights::new(self.count());
        for (line, units) in &self.tall {
            if self.shows(*line) {
                heights.set(self.row_of(*line), *units);
            }
        }
        heights
    }

    /// Notes how many units a row takes; answers whether that is news.
    pub fn measure(&mut self, row: usize, units: u32) -> bool {
        let Some(line) = self.line_of(row) else {
            return false;
        };
        let Some(heights) = &mut self.heights else {
            return false;
        };
        if units > 1 {
            self.tall.insert(line, units);
        } else {
            self.tall.remove(&line);
        }
        heights.set(row, units)
    }

    /// Units above a row.
    pub fn top(&self, row: usize) -> u64 {
        match &self.heights {
            Some(heights) => heights.before(row),
            None => row.min(self.count()) as u64,
        }
    }

    /// Units of all rows.
    pub fn height(&self) -> u64 {
        self.top(self.count())
    }

    /// The row at a position.
    pub fn at(&self, units: u64) -> usize {
        let row = match &self.heights {
            Some(heights) => heights.at(units),
            None => usize::try_from(units).unwrap_or(usize::MAX),
        };
        row.min(self.count().saturating_sub(1))
    }
}

fn visible(outline: &Outline, total: u64, hidden: Streams, folded: &BTreeSet<u64>) -> Vec<u64> {
    let away: Vec<(u64, u64)> = outline
        .sections()
        .into_iter()
        .filter(|section| folded.contains(&section.marker))
        .map(|section| (section.marker, section.end))
        .collect();
    let mut away = away.into_iter().peekable();
    let mut shown = Vec::new();
    for (stream, _, first, last) in outline.stretches() {
        if hidden.has(stream) {
            continue;
        }
        for line in first..=last.min(total) {
            while away.next_if(|(_, end)| *end < line).is_some() {}
            if away.peek().is_none_or(|(marker, _)| line <= *marker) {
                shown.push(line);
            }
        }
    }
    shown
}

/// Heights of rows with their sums: a Fenwick tree, so that a row's place is found among a million without adding up.
#[derive(Debug, Clone, Default)]
struct Heights {
    units: Vec<u32>,
    /// Entry i (from 1) holds the sum of the entries after i − lowest bit of i, up to i.
    sums: Vec<u64>,
}

const fn low(i: usize) -> usize {
    i & i.wrapping_neg()
}

impl Heights {
    /// Rows of one unit each.
    fn new(rows: usize) -> Self {
        Self {
            units: vec![1; rows],
            sums: (0..=rows).map(|i| low(i) as u64).collect(),
        }
    }

    fn push(&mut self, units: u32) {
        if self.sums.is_empty() {
            self.sums.push(0);
        }
        let i = self.units.len() + 1;
        let inner = self.before(i - 1) - self.before(i - low(i));
        self.units.push(units);
        self.sums.push(inner + u64::from(units));
    }

    fn set(&mut self, row: usize, units: u32) -> bool {
        let Some(known) = self.units.get_mut(row) else {
            return false;
        };
        let (old, new) = (u64::from(*known), u64::from(units));
        *known = units;
        if old == new {
            return false;
        }
        let mut i = row + 1;
        while let Some(sum) = self.sums.get_mut(i) {
            *sum = *sum + new - old;
            i += low(i);
        }
        true
    }

    fn before(&self, rows: usize) -> u64 {
        let mut i = rows.min(self.units.len());
        let mut sum = 0;
        while i > 0 {
            sum += self.sums[i];
            i -= low(i);
        }
        sum
    }

    /// The row that covers a position; one past the last where it lies below all.
    fn at(&self, mut position: u64) -> usize {
        let mut row = 0;
        let mut step = self.units.len().checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            if let Some(sum) = self.sums.get(row + step)
                && *sum <= position
            {
                row += step;
                position -= sum;
            }
            step /= 2;
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use wire::console::LogOutline;

    use super::*;

    #[test]
    fn heights_are_sums_of_single_rows() {
        let mut heights = Heights::new(37);
        for row in 37..100 {
            heights.push(1 + row % 3);
        }
        for row in (0..100).step_by(7) {
            heights.set(row, u32::try_from(row).unwrap_or(0) + 2);
        }
        let mut sum = 0;
        for row in 0..100 {
            assert_eq!(heights.before(row), sum, "before row {row}");
            for unit in 0..u64::from(heights.units[row]) {
                assert_eq!(heights.at(sum + unit), row, "unit {unit} of row {row}");
            }
            sum += u64::from(heights.units[row]);
        }
        assert_eq!((heights.before(100), heights.at(sum)), (sum, 100));
    }

    fn outline() -> Outline {
        Outline::new(&LogOutline(vec![
            (Stream::System, None, 2),
            (Stream::Marker, Some(1), 1),
            (Stream::Stdout, Some(1), 3),
            (Stream::Stderr, Some(1), 2),
            (Stream::Marker, Some(2), 1),
            (Stream::Stdout, Some(2), 2),
            (Stream::System, None, 1),
        ]))
    }

    fn shown(rows: &Rows) -> Vec<u64> {
        (0..rows.count())
            .filter_map(|row| rows.line_of(row))
            .collect()
    }

    #[test]
    fn streams_are_hidden_and_sections_folded() {
        let none = Streams::default();
        let nothing = BTreeSet::new();
        for (hidden, folded, lines) in [
            (none, vec![], (1..=12).collect::<Vec<u64>>()),
            (
                none.toggled(Stream::Stdout),
                vec![],
                vec![1, 2, 3, 7, 8, 9, 12],
            ),
            (none, vec![3], vec![1, 2, 3, 9, 10, 11, 12]),
            (none, vec![3, 9], vec![1, 2, 3, 9, 12]),
            (
                none.toggled(Stream::System),
                vec![9],
                vec![3, 4, 5, 6, 7, 8, 9],
            ),
            // A folded section stays folded where its marker is hidden.
            (
                none.toggled(Stream::Marker),
                vec![3],
                vec![1, 2, 10, 11, 12],
            ),
        ] {
            let mut rows = Rows::default();
            rows.arrange(
                12,
                Some(&outline()),
                hidden,
                &folded.iter().copied().collect(),
            );
            assert_eq!(shown(&rows), lines, "{hidden:?} {folded:?}");
            for (row, line) in lines.iter().enumerate() {
                assert_eq!(rows.row_of(*line), row);
            }
        }
        let mut rows = Rows::default();
        rows.arrange(12, None, none.toggled(Stream::Stdout), &nothing);
        assert_eq!(rows.count(), 12, "without the outline nothing is hidden");
    }

    #[test]
    fn a_line_that_is_hidden_leads_to_the_next_row() {
        let mut rows = Rows::default();
        rows.arrange(12, Some(&outline()), Streams::default(), &[3].into());
        assert!(!rows.shows(5));
        assert_eq!(rows.line_of(rows.row_of(5)), Some(9));
        assert_eq!(rows.row_of(99), rows.count() - 1);
    }

    #[test]
    fn what_was_measured_stays_when_rows_are_hidden() {
        let mut rows = Rows::default();
        rows.arrange(12, Some(&outline()), Streams::default(), &BTreeSet::new());
        rows.wrap(true);
        assert!(rows.measure(9, 4), "line 10");
        assert!(!rows.measure(9, 4));
        assert!(rows.measure(3, 2), "line 4");
        assert_eq!(rows.height(), 12 + 3 + 1);
        assert_eq!((rows.top(4), rows.at(4), rows.at(5)), (5, 3, 4));
        rows.arrange(12, Some(&outline()), Streams::default(), &[3].into());
        assert_eq!(rows.height(), 7 + 3);
        rows.arrange(12, Some(&outline()), Streams::default(), &BTreeSet::new());
        rows.grow(14);
        assert_eq!(rows.height(), 18);
        rows.wrap(false);
        assert_eq!((rows.height(), rows.at(100)), (14, 13));
    }

    #[test]
    fn no_lines_are_no_rows() {
        let rows = Rows::default();
        assert_eq!(
            (rows.count(), rows.at(5), rows.row_of(3), rows.height()),
            (0, 0, 0, 0)
        );
        assert_eq!(rows.line_of(0), None);
    }
}
