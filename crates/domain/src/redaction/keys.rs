//! Private-key blocks, from their BEGIN line to their END line.

use std::borrow::Cow;

use super::MASK;

/// Lines of the key so far; `None`: outside of one.
pub(super) type State = Option<u16>;

/// Longest key, lines: a BEGIN without an END must not hide the rest of the log.
const LINES_MAX: u16 = 400;
/// A run of base64 that is key material whatever stands around it.
const MATERIAL_MIN: usize = 20;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// The line with the inside of keys masked; the state goes on to the next line of the stream.
pub(super) fn mask<'a>(line: &'a str, inside: &mut State) -> Cow<'a, str> {
    if inside.is_none() && !line.contains(BEGIN) {
        return Cow::Borrowed(line);
    }
    let mut masked = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        match inside {
            None => match begin(rest) {
                Some(end_of_marker) => {
                    masked.push_str(&rest[..end_of_marker]);
                    rest = &rest[end_of_marker..];
                    *inside = Some(0);
                }
                None => {
                    masked.push_str(rest);
                    rest = "";
                }
            },
            Some(lines) => match rest.find(END) {
                Some(end) => {
                    if end > 0 {
                        masked.push_str(MASK);
                    }
                    let after = end + END.len();
                    let marker = rest[after..]
                        .find(DASHES)
                        .map_or(rest.len(), |dashes| after + dashes + DASHES.len());
                    masked.push_str(&rest[end..marker]);
                    rest = &rest[marker..];
                    *inside = None;
                }
                None if masked.is_empty() && (*lines >= LINES_MAX || !is_material(rest)) => {
                    *inside = None;
                    // Not a key's line: it may begin another.
                    return mask(line, inside);
                }
                None => {
                    masked.push_str(MASK);
                    *lines += 1;
                    rest = "";
                }
            },
        }
    }
    Cow::Owned(masked)
}

/// Where the first BEGIN marker of a private key ends.
fn begin(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = text[from..].find(BEGIN) {
        let name_at = from + found + BEGIN.len();
        let name_len = text[name_at..]
            .bytes()
            .take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ')
            .count();
        let name = &text[name_at..name_at + name_len];
        let after = &text[name_at + name_len..];
        if name.contains("PRIVATE KEY") && after.starts_with(DASHES) {
            return Some(name_at + name_len + DASHES.len());
        }
        from = name_at;
    }
    None
}

/// Whether a line can be the inside of a key: base64, a header, or blank.
fn is_material(line: &str) -> bool {
    let line = line.trim();
    let header = line
        .split_once(": ")
        .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    if header || !line.contains([' ', '\t']) {
        return true;
    }
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    line.as_bytes()
        .split(|&b| !is_base64(b))
        .any(|run| run.len() >= MATERIAL_MIN)
}
