//! The text of log lines: without its colours, and searched without case. The same code answers on the server, for the
//! whole log, and marks what was found in the browser.

use std::ops::Range;

/// Appends a stored line without its SGR sequences, the only control sequences that lines hold.
pub fn push_plain(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, ';' | ':')))
            .and_then(|end| after.get(end + 1..))
            .unwrap_or_default();
    }
    out.push_str(rest);
}

/// A plain text to look for, without case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    folded: String,
}

/// A text to search in, folded, with where each of its bytes came from. Reused from line to line.
#[derive(Debug, Default)]
pub struct Folded {
    plain: String,
    folded: String,
}

impl Needle {
    /// Longest text that can be looked for, bytes.
    pub const MAX_BYTES: usize = 1_024;

    /// Of what was typed; `None`: nothing, or too much, to look for.
    pub fn new(text: &str) -> Option<Self> {
        let mut folded = String::new();
        fold(text, &mut folded);
        (!folded.is_empty() && text.len() <= Self::MAX_BYTES).then_some(Self { folded })
    }

    /// Whether a stored line holds it.
    pub fn is_in(&self, line: &str, buffer: &mut Folded) -> bool {
        let text = if line.contains('\u{1b}') {
            buffer.plain.clear();
            push_plain(line, &mut buffer.plain);
            buffer.plain.as_str()
        } else {
            line
        };
        buffer.folded.clear();
        fold(text, &mut buffer.folded);
        buffer.folded.contains(&self.folded)
    }

    /// Where it is in a text without colours, as byte positions of that text; places do not overlap.
    pub fn places(&self, plain: &str) -> Vec<Range<usize>> {
        let mut folded = String::with_capacity(plain.len());
        // Where each folded byte's character begins, and, at the end, where the text does.
        let mut from: Vec<usize> = Vec::with_capacity(plain.len() + 1);
        for (at, c) in plain.char_indices() {
            folded.extend(c.to_lowercase());
            from.resize(folded.len(), at);
        }
        from.push(plain.len());
        folded
            .match_indices(&self.folded)
            .map(|(start, found)| {
                let (first, after) = (from[start], from[start + found.len()]);
                // A match that ends within a character that folds to several takes all of it.
                let after = if after == from[start + found.len() - 1] {
                    plain[after..]
                        .chars()
                        .next()
                        .map_or(after, |c| after + c.len_utf8())
                } else {
                    after
                };
                first..after
            })
            .collect()
    }
}

/// Lower case, character by character, so that positions can be followed.
fn fold(text: &str, out: &mut String) {
    if text.is_ascii() {
        let start = out.len();
        out.push_str(text);
        out[start..].make_ascii_lowercase();
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn colours_are_left_out_of_plain_text() {
        for (line, plain) in [
            ("a \u{1b}[1;31mred\u{1b}[0m é b", "a red é b"),
            ("\u{1b}[38:5:9mx", "x"),
            ("cut \u{1b}[31", "cut "),
            ("plain", "plain"),
        ] {
            let mut out = String::new();
            push_plain(line, &mut out);
            assert_eq!(out, plain, "{line:?}");
        }
    }

    #[test]
    fn a_text_is_found_without_case_and_through_colours() {
        let mut buffer = Folded::default();
        for (needle, line, found) in [
            ("error", "An ERROR came", true),
            ("ÉTÉ", "l'été", true),
            ("failed", "\u{1b}[31mfai\u{1b}[0mled", true),
            ("31m", "\u{1b}[31mred", false),
            ("a.b", "axb", false),
            (" ", "a b", true),
            ("ß", "STRASSE", false),
        ] {
            assert_eq!(
                Needle::new(needle).unwrap().is_in(line, &mut buffer),
                found,
                "{needle:?} in {line:?}"
            );
        }
    }

    #[test]
    fn nothing_and_too_much_are_not_looked_for() {
        assert_eq!(Needle::new(""), None);
        assert_eq!(Needle::new(&"x".repeat(Needle::MAX_BYTES + 1)), None);
        assert!(Needle::new(&"x".repeat(Needle::MAX_BYTES)).is_some());
    }

    #[test]
    fn places_are_those_of_the_text_itself() {
        for (needle, text, places) in [
            ("ab", "AB x ab", vec![0..2, 5..7]),
            ("aa", "aaaaa", vec![0..2, 2..4]),
            ("é", "Éé", vec![0..2, 2..4]),
            ("x", "İx", std::iter::once(2..3).collect()),
            // "İ" folds to an i and a dot above it.
            ("i", "İx", std::iter::once(0..2).collect()),
            ("q", "abc", vec![]),
        ] {
            assert_eq!(
                Needle::new(needle).unwrap().places(text),
                places,
                "{needle:?} in {text:?}"
            );
        }
    }
}
