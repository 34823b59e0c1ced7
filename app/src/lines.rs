//! Two texts compared line by line. Pure.

use std::borrow::Cow;

use similar::{ChangeTag, TextDiff};

/// Lines around a change that are shown.
const AROUND: usize = 3;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In both.
    Same,
    /// Only in the new text.
    Added,
    /// Only in the old text.
    Removed,
    /// Lines in both that are left out here.
    LeftOut,
}

/// A line of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: Kind,
    /// Its number in the new text, or in the old one where it was removed, from 1.
    pub number: Option<usize>,
    /// The line without its end; how many, where lines are left out.
    pub text: String,
}

/// Compares two texts; lines far from any change are left out.
pub fn compare(before: &str, after: &str) -> Vec<Line> {
    // A last line without its end is the same line.
    let (old, new) = (ended(before), ended(after));
    let diff = TextDiff::from_lines(old.as_ref(), new.as_ref());
    let mut lines = Vec::new();
    let mut shown_to = 0;
    for group in diff.grouped_ops(AROUND) {
        let from = group.first().map_or(0, |op| op.old_range().start);
        if from > shown_to {
            lines.push(left_out(from - shown_to));
        }
        for op in &group {
            for change in diff.iter_changes(op) {
                let (kind, number) = match change.tag() {
                    ChangeTag::Equal => (Kind::Same, change.new_index()),
                    ChangeTag::Insert => (Kind::Added, change.new_index()),
                    ChangeTag::Delete => (Kind::Removed, change.old_index()),
                };
                lines.push(Line {
                    kind,
                    number: number.map(|index| index + 1),
                    text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
                });
            }
        }
        shown_to = group.last().map_or(0, |op| op.old_range().end);
    }
    let all = before.lines().count();
    if all > shown_to && !lines.is_empty() {
        lines.push(left_out(all - shown_to));
    }
    lines
}

fn ended(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}\n"))
    }
}

fn left_out(count: usize) -> Line {
    Line {
        kind: Kind::LeftOut,
        number: None,
        text: crate::format::count(count as u64, "unchanged line", "unchanged lines"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_follows_a_last_line_without_its_end_leaves_that_one_alone() {
        assert_eq!(
            show("allow a", "allow a\nallow b"),
            [" 1 allow a", "+2 allow b"]
        );
        assert_eq!(
            show("allow a\nallow b", "allow a"),
            [" 1 allow a", "-2 allow b"]
        );
    }

    fn show(before: &str, after: &str) -> Vec<String> {
        compare(before, after)
            .into_iter()
            .map(|line| {
                let sign = match line.kind {
                    Kind::Same => ' ',
                    Kind::Added => '+',
                    Kind::Removed => '-',
                    Kind::LeftOut => '…',
                };
                format!("{sign}{} {}", line.number.unwrap_or(0), line.text)
            })
            .collect()
    }

    #[test]
    fn a_changed_line_is_shown_with_those_around_it() {
        let before: String = (1..=12).map(|n| format!("line {n}\n")).collect();
        let after = before.replace("line 6\n", "line six\nline 6b\n");
        assert_eq!(
            show(&before, &after),
            [
                "…0 2 unchanged lines",
                " 3 line 3",
                " 4 line 4",
                " 5 line 5",
                "-6 line 6",
                "+6 line six",
                "+7 line 6b",
                " 8 line 7",
                " 9 line 8",
                " 10 line 9",
                "…0 3 unchanged lines",
            ]
        );
    }

    #[test]
    fn a_text_that_came_or_went_is_all_new_or_all_old() {
        assert_eq!(show("", "a\nb\n"), ["+1 a", "+2 b"]);
        assert_eq!(show("a\n", ""), ["-1 a"]);
        assert_eq!(show("same\n", "same\n"), Vec::<String>::new());
    }
}
