//! Words, quotes and expansions.

use super::{Frame, Lexer};

impl Lexer<'_> {
    pub(super) fn in_double(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => {
                self.skip(1);
                self.pop_frame();
            }
            b'\\' => match self.peek(1) {
                Some(b'\n') => self.skip(2),
                Some(b'"' | b'\\' | b'$' | b'`') => {
                    self.skip(1);
                    self.push_char();
                }
                _ => self.push_char(),
            },
            b'$' | b'`' => self.expansion(byte),
            _ => {
                let rest = &self.bytes[self.at..];
                let run = rest
                    .iter()
                    .position(|b| matches!(b, b'"' | b'\\' | b'$' | b'`'))
                    .unwrap_or(rest.len());
                self.push_run(run);
            }
        }
        true
    }

    pub(super) fn in_brace(&mut self, byte: u8) -> bool {
        match byte {
            b'}' => {
                self.push_char();
                self.pop_frame();
            }
            b'"' => {
                self.skip(1);
                self.push_frame(Frame::Double);
            }
            b'\'' if self.doubles == 0 => self.single_quote(),
            b'\\' => {
                self.push_char();
                self.push_char();
            }
            b'$' | b'`' => self.expansion(byte),
            _ => self.push_char(),
        }
        true
    }

    pub(super) fn in_parens(&mut self, byte: u8, open: u32) -> bool {
        match byte {
            b'(' | b')' => {
                self.push_char();
                self.pop_frame();
                if byte == b'(' {
                    self.push_frame(Frame::Parens(open + 1));
                } else if open > 0 {
                    self.push_frame(Frame::Parens(open - 1));
                }
            }
            b'\\' => {
                self.push_char();
                self.push_char();
            }
            b'\'' => self.single_quote(),
            b'"' => {
                self.skip(1);
                self.push_frame(Frame::Double);
            }
            b'$' | b'`' => self.expansion(byte),
            _ => self.push_char(),
        }
        true
    }

    /// A byte of a word outside of quotes.
    pub(super) fn in_word(&mut self, byte: u8) {
        match byte {
            b'\'' => {
                self.begin_word();
                self.mark_quoted();
                self.single_quote();
            }
            b'"' => {
                self.begin_word();
                self.mark_quoted();
                self.skip(1);
                self.push_frame(Frame::Double);
            }
            b'$' | b'`' => {
                self.begin_word();
                self.expansion(byte);
            }
            _ => {
                self.begin_word();
                // Take the whole run that has no meaning of its own.
                let rest = &self.bytes[self.at..];
                let run = rest
                    .iter()
                    .position(|b| is_special(*b))
                    .unwrap_or(rest.len());
                self.push_run(run.max(1));
            }
        }
    }

    /// `$…` or a backquote.
    pub(super) fn expansion(&mut self, byte: u8) {
        if byte == b'`' {
            self.skip(1);
            if self.backquotes > 0 {
                // The inner end of the backquotes, from within quotes that were left open in them.
                while self
                    .frames
                    .last()
                    .is_some_and(|f| *f != Frame::Commands(b'`'))
                {
                    if matches!(self.pop_frame(), Some(Frame::Commands(_) | Frame::Array)) {
                        self.end_command();
                        self.lists.pop();
                    }
                }
                self.close_list();
            } else {
                self.open_list(Frame::Commands(b'`'));
            }
            return;
        }
        match (self.peek(1), self.peek(2)) {
            (Some(b'('), Some(b'(')) => {
                self.push_run(3);
                self.push_frame(Frame::Parens(1));
            }
            (Some(b'('), _) => {
                self.skip(2);
                self.open_list(Frame::Commands(b')'));
            }
            (Some(b'{'), _) => {
                self.push_run(2);
                self.push_frame(Frame::Brace);
            }
            (Some(b'\''), _) if self.frames.last() != Some(&Frame::Double) => {
                self.mark_quoted();
                self.skip(2);
                self.ansi_quote();
            }
            _ => self.push_char(),
        }
    }

    /// From a `'` to the next.
    pub(super) fn single_quote(&mut self) {
        self.skip(1);
        let from = self.at;
        self.skip_to(b'\'');
        let text = &self.source[from..self.at];
        self.push_str(text);
        self.skip(1);
    }

    /// The rest of `$'…'`.
    pub(super) fn ansi_quote(&mut self) {
        let from = self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\'' => break,
                b'\\' => self.skip(2),
                _ => self.skip(1),
            }
        }
        let text = &self.source[from..self.at];
        self.push_str(text);
        self.skip(1);
    }
}

/// Bytes that end a run of plain characters in a word.
const fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t'
            | b'\r'
            | b'\n'
            | b'\''
            | b'"'
            | b'\\'
            | b'$'
            | b'`'
            | b'('
            | b')'
            | b';'
            | b'&'
            | b'|'
            | b'<'
            | b'>'
    )
}
