//! One stream's bytes as lines of plain text: decoding, redrawing, control sequences.

/// Bytes of a colour sequence that are still believed.
const SGR_MAX: usize = 64;
/// Bytes of any other sequence that are skipped before its end is given up on, so that a stray introducer does not
/// swallow the rest of the log.
const SEQUENCE_MAX: usize = 4 * 1024;

/// Where in a control sequence the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Control {
    #[default]
    None,
    /// After ESC.
    Escape,
    /// After ESC and bytes that call for one more.
    EscapeMore,
    /// After ESC [, the parameters so far in `sequence`.
    Csi,
    /// After ESC ], P, X, ^ or _: up to BEL or ESC \.
    Text,
    /// In those, after an ESC.
    TextEscape,
}

/// Makes lines out of a stream.
#[derive(Debug, Default)]
pub(super) struct LineReader {
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    control: Control,
    sequence: String,
    skipped: usize,
    /// A carriage return came: the next character begins the line anew.
    redraw: bool,
    /// The line so far.
    text: String,
    /// Length of `text` up to its last colour sequence, which a backspace must not cut.
    colour_end: usize,
    /// A byte of this line has come, if only a control sequence.
    begun: bool,
}

/// What a stream's bytes amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The line is complete: take it.
    Complete,
    /// The line has grown beyond the limit: take a piece.
    TooLong,
}

impl LineReader {
    /// Text of the line so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether an unfinished line is there.
    pub(super) fn is_open(&self) -> bool {
        self.begun
    }

    /// Takes the line away; the next one begins.
    pub(super) fn take(&mut self) -> String {
        self.redraw = false;
        self.begun = false;
        self.colour_end = 0;
        std::mem::take(&mut self.text)
    }

    /// Takes the first `at` bytes of the line away.
    pub(super) fn take_piece(&mut self, at: usize) -> String {
        let rest = self.text.split_off(at);
        self.colour_end = self.colour_end.saturating_sub(at);
        std::mem::replace(&mut self.text, rest)
    }

    /// Gives up on a character that will not be completed.
    pub(super) fn end(&mut self) {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.put_char('\u{fffd}');
        }
    }

    /// Reads bytes; calls `changed` whenever the line is complete or has more than `limit` bytes.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        limit: usize,
        mut changed: impl FnMut(&mut Self, Change),
    ) {
        let mut joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.put(text, limit, &mut changed);
                    return;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    // Valid up to here, as just found.
                    self.put(&String::from_utf8_lossy(good), limit, &mut changed);
                    match error.error_len() {
                        Some(length) => {
                            self.put("\u{fffd}", limit, &mut changed);
                            rest = &bad[length..];
                        }
                        None => {
                            self.partial = bad.to_vec();
                            return;
                        }
                    }
                }
            }
        }
    }

    fn put(&mut self, text: &str, limit: usize, changed: &mut impl FnMut(&mut Self, Change)) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.control == Control::None {
                let plain = rest
                    .find(|c: char| c.is_control() && c != '\t')
                    .unwrap_or(rest.len());
                // Up to the character that reaches the limit, so that reads of any size give the same pieces.
                let room = limit.saturating_sub(self.text.len()).max(1);
                let plain = plain.min(rest.ceil_char_boundary(room));
                if plain > 0 {
                    self.put_plain(&rest[..plain]);
                    rest = &rest[plain..];
                    if self.text.len() >= limit {
                        changed(self, Change::TooLong);
                    }
                    continue;
                }
            }
            let Some(c) = rest.chars().next() else { return };
            rest = &rest[c.len_utf8()..];
            if c == '\n' && matches!(self.control, Control::None | Control::Escape | Control::Csi) {
                self.control = Control::None;
                changed(self, Change::Complete);
                continue;
            }
            self.put_char(c);
        }
    }

    fn put_plain(&mut self, text: &str) {
        if self.redraw {
            self.redraw = false;
            self.text.clear();
            self.colour_end = 0;
        }
        self.begun = true;
        self.text.push_str(text);
    }

    fn put_char(&mut self, c: char) {
        match self.control {
            Control::None => self.put_control(c),
            Control::Escape => {
                self.skipped = 0;
                self.sequence.clear();
                self.control = match c {
                    '[' => Control::Csi,
                    ']' | 'P' | 'X' | '^' | '_' => Control::Text,
                    ' '..='/' => Control::EscapeMore,
                    '\u{1b}' => Control::Escape,
                    _ => Control::None,
                };
            }
            Control::EscapeMore => {
                if !matches!(c, ' '..='/') {
                    self.control = Control::None;
                }
            }
            Control::Csi => self.put_csi(c),
            Control::Text | Control::TextEscape => {
                self.skipped += c.len_utf8();
                let ends = c == '\u{7}'
                    || c == '\u{9c}'
                    || (self.control == Control::TextEscape && c == '\\')
                    || self.skipped > SEQUENCE_MAX;
                self.control = match c {
                    _ if ends => Control::None,
                    '\u{1b}' => Control::TextEscape,
                    _ => Control::Text,
                };
            }
        }
    }

    /// A character outside of any sequence.
    fn put_control(&mut self, c: char) {
        match c {
            '\r' => {
                self.begun = true;
                self.redraw = true;
            }
            '\u{8}' => {
                if self.text.len() > self.colour_end {
                    self.text.pop();
                }
            }
            '\u{1b}' => self.control = Control::Escape,
            '\u{9b}' => {
                self.sequence.clear();
                self.control = Control::Csi;
            }
            c if c.is_control() && c != '\t' => {}
            c => self.put_plain(c.encode_utf8(&mut [0; 4])),
        }
    }

    fn put_csi(&mut self, c: char) {
        match c {
            '@'..='~' => {
                self.control = Control::None;
                self.end_csi(c);
            }
            ' '..='?' if self.sequence.len() < SEQUENCE_MAX => self.sequence.push(c),
            '\u{1b}' => self.control = Control::Escape,
            // No sequence has such a character: it was cut off.
            _ => {
                self.control = Control::None;
                self.put_control(c);
            }
        }
    }

    fn end_csi(&mut self, last: char) {
        let plain =
            |text: &str, also: &str| text.chars().all(|c| c.is_ascii_digit() || also.contains(c));
        match last {
            'm' if self.sequence.len() <= SGR_MAX && plain(&self.sequence, ";:") => {
                if self.redraw {
                    self.redraw = false;
                    self.text.clear();
                }
                self.begun = true;
                self.text.push_str("\u{1b}[");
                self.text.push_str(&self.sequence);
                self.text.push('m');
                self.colour_end = self.text.len();
            }
            // To the first column: what a carriage return does.
            'G' if matches!(self.sequence.as_str(), "" | "0" | "1") => self.redraw = true,
            _ => {}
        }
    }
}
