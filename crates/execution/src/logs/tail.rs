//! The last of a stream, kept whatever the limit of the log says.

use std::collections::VecDeque;

use domain::setup_run::Stream;

use super::Redact;

/// Bytes of lines kept: enough for a whole private key before the end, so that masking sees where it begins.
pub(super) const KEPT_BYTES: usize = 16 * 1024;

/// The last lines of a stream, before redaction.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    pub(super) fn push(&mut self, text: String) {
        self.bytes += text.len() + 1;
        self.lines.push_back(text);
        while self.bytes > KEPT_BYTES && self.lines.len() > 1 {
            if let Some(dropped) = self.lines.pop_front() {
                self.bytes -= dropped.len() + 1;
            }
        }
    }

    /// The last `limit` bytes, redacted, without colours.
    pub(super) fn text(
        &self,
        stream: Stream,
        open: Option<&str>,
        redact: &mut dyn Redact,
        limit: usize,
    ) -> String {
        let lines = self.lines.iter().map(String::as_str).chain(open);
        let redacted: Vec<String> = lines
            .map(|text| without_colours(&redact.line(stream, text)))
            .collect();
        let text = redacted.join("\n");
        let start = text.ceil_char_boundary(text.len().saturating_sub(limit));
        text[start..].to_owned()
    }
}

/// The text without SGR sequences, which are all the sequences that a line can hold.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split('\u{1b}');
    plain.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}
