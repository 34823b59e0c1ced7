//! A scanner that knows just enough of bash to see where statements end.

/// Beyond this the scanner gives up: the lines that follow are each their own statement.
const NESTING_MAX: usize = 500;

/// What the scanner is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Single,
    AnsiSingle,
    Double,
    Backtick,
    /// `$(`, `<(`, `>(`, `=(`, an extended pattern.
    Joined,
    /// `${`
    Parameter,
    /// `$((`, `((`: `depth` parentheses are open.
    Arithmetic(u32),
    /// `[[`
    Test,
    /// `( … )` as a command, from this line and byte offset.
    Subshell(u32, usize),
    Case,
}

impl Inside {
    /// Whether a newline within does not end a statement.
    fn joins(self) -> bool {
        !matches!(self, Self::Subshell(..) | Self::Case)
    }
    /// Whether commands are read within (as opposed to quoted text and arithmetic).
    fn is_code(self) -> bool {
        matches!(
            self,
            Self::Joined | Self::Backtick | Self::Test | Self::Subshell(..) | Self::Case
        )
    }
}

struct Heredoc {
    delimiter: Vec<u8>,
    strip_tabs: bool,
}

/// A subshell that is a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subshell {
    /// Line and byte offset of `(`.
    pub(super) open: (u32, usize),
    /// Line and byte offset of `)`.
    pub(super) close: (u32, usize),
}

/// What a script's text tells.
pub(super) struct Scanned {
    /// By line, from 1: whether it goes on with the statement of the line before.
    pub(super) joined: Vec<bool>,
    pub(super) subshells: Vec<Subshell>,
}

/// Scans a script of this many lines.
pub(super) fn scan(script: &str, lines: usize) -> Scanned {
    let mut scan = Scan {
        bytes: script.as_bytes(),
        at: 0,
        line: 1,
        stack: Vec::new(),
        command_position: true,
        word: Vec::new(),
        heredocs: Vec::new(),
        pending_operator: false,
        found: Scanned {
            joined: vec![false; lines + 2],
            subshells: Vec::new(),
        },
    };
    scan.run();
    scan.found
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    stack: Vec<Inside>,
    /// The next word is a command's name or a reserved word.
    command_position: bool,
    word: Vec<u8>,
    /// Whose bodies begin at the next newline.
    heredocs: Vec<Heredoc>,
    /// The last token was `|`, `&&` or `||`.
    pending_operator: bool,
    found: Scanned,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        // Nothing that a person writes nests this deep; a scan of such a script would only cost time.
        while self.at < self.bytes.len() && self.stack.len() < NESTING_MAX {
            let byte = self.peek(0);
            if byte == b'\n' {
                self.newline();
                continue;
            }
            match self.stack.last().copied() {
                Some(Inside::Single) => {
                    if byte == b'\'' {
                        self.stack.pop();
                    }
                    self.at += 1;
                }
                Some(Inside::AnsiSingle) => self.quoted(byte, b'\''),
                Some(Inside::Double) => self.double(byte),
                Some(Inside::Parameter) => self.parameter(byte),
                Some(Inside::Arithmetic(depth)) => self.arithmetic(byte, depth),
                _ => self.code(byte),
            }
        }
        self.end_word();
    }

    /// A newline, with the heredocs that begin after it.
    fn newline(&mut self) {
        let escaped = self.at > 0
            && self.bytes[..self.at]
                .iter()
                .rev()
                .take_while(|b| **b == b'\\')
                .count()
                % 2
                == 1
            && self.stack.last() != Some(&Inside::Single);
        let code = self.stack.last().is_none_or(|i| i.is_code());
        if !escaped && code {
            self.end_word();
        }
        let joins = escaped || self.pending_operator || self.stack.iter().any(|i| i.joins());
        self.at += 1;
        self.line += 1;
        self.join(joins);
        if !escaped && code {
            for heredoc in std::mem::take(&mut self.heredocs) {
                // The body and its delimiter belong to the statement; what follows them only if it was to go on.
                self.join(true);
                self.skip_heredoc(&heredoc);
                self.join(joins);
            }
            self.command_position = true;
        }
    }

    fn join(&mut self, joins: bool) {
        if let Some(slot) = self.found.joined.get_mut(self.line as usize) {
            *slot = joins;
        }
    }

    fn skip_heredoc(&mut self, heredoc: &Heredoc) {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            let mut text = &rest[..end];
            if heredoc.strip_tabs {
                while let Some(stripped) = text.strip_prefix(b"\t") {
                    text = stripped;
                }
            }
            let last = text == heredoc.delimiter.as_slice();
            self.at = (self.at + end + 1).min(self.bytes.len());
            if end < rest.len() {
                self.line += 1;
                self.join(true);
            }
            if last {
                return;
            }
        }
    }

    fn quoted(&mut self, byte: u8, end: u8) {
        if byte == b'\\' {
            self.skip_escaped();
            return;
        }
        if byte == end {
            self.stack.pop();
        }
        self.at += 1;
    }

    /// Passes over a backslash and what follows it; a newline is left to be counted.
    fn skip_escaped(&mut self) {
        self.at += if self.peek(1) == b'\n' { 1 } else { 2 };
    }

    fn double(&mut self, byte: u8) {
        match byte {
            b'\\' => self.skip_escaped(),
            b'"' => {
                self.stack.pop();
                self.at += 1;
            }
            b'`' => self.backtick(),
            b'$' => self.dollar(true),
            _ => self.at += 1,
        }
    }

    fn parameter(&mut self, byte: u8) {
        match byte {
            b'\\' => self.skip_escaped(),
            b'}' => {
                self.stack.pop();
                self.at += 1;
            }
            b'"' => self.enter(Inside::Double, 1),
            // Inside double quotes an apostrophe in ${x:-it's} is text.
            b'\'' if !self.stack.contains(&Inside::Double) => self.enter(Inside::Single, 1),
            b'`' => self.backtick(),
            b'$' => self.dollar(self.stack.contains(&Inside::Double)),
            _ => self.at += 1,
        }
    }

    fn arithmetic(&mut self, byte: u8, depth: u32) {
        let set = |me: &mut Self, depth: u32| {
            me.stack.pop();
            if depth > 0 {
                me.stack.push(Inside::Arithmetic(depth));
            }
            me.at += 1;
        };
        match byte {
            b'\\' => self.skip_escaped(),
            b'(' => set(self, depth + 1),
            b')' => set(self, depth - 1),
            b'"' => self.enter(Inside::Double, 1),
            b'\'' => self.enter(Inside::Single, 1),
            b'$' => self.dollar(false),
            b'`' => self.backtick(),
            _ => self.at += 1,
        }
    }

    fn enter(&mut self, inside: Inside, width: usize) {
        self.stack.push(inside);
        self.at += width;
    }

    fn backtick(&mut self) {
        if self.stack.contains(&Inside::Backtick) {
            while self.stack.pop().is_some_and(|i| i != Inside::Backtick) {}
        } else {
            self.stack.push(Inside::Backtick);
            self.command_position = true;
        }
        self.at += 1;
    }

    fn dollar(&mut self, in_double: bool) {
        match (self.peek(1), self.peek(2)) {
            (b'(', b'(') => self.enter(Inside::Arithmetic(2), 3),
            (b'(', _) => {
                self.enter(Inside::Joined, 2);
                self.command_position = true;
            }
            (b'{', _) => self.enter(Inside::Parameter, 2),
            (b'\'', _) if !in_double => self.enter(Inside::AnsiSingle, 2),
            // `$$` must not be taken for the beginning of `$(`, nor `$#` for a comment.
            (b'$' | b'#', _) => self.at += 2,
            _ => self.at += 1,
        }
    }

    fn code(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' => {
                self.end_word();
                self.at += 1;
            }
            b'#' if self.word.is_empty() => {
                while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                    self.at += 1;
                }
            }
            b'\\' => {
                self.skip_escaped();
                if self.peek(0) != b'\n' {
                    self.word_byte(b'\\');
                }
            }
            b'\'' => {
                self.word_byte(byte);
                self.stack.push(Inside::Single);
                self.at += 1;
            }
            b'"' => {
                self.word_byte(byte);
                self.stack.push(Inside::Double);
                self.at += 1;
            }
            b'`' => {
                self.word_byte(byte);
                self.backtick();
            }
            b'$' => {
                self.word_byte(byte);
                self.dollar(false);
            }
            b'|' | b'&' | b';' => self.operator(byte),
            b'<' | b'>' => self.redirection(byte),
            b'(' => self.open(),
            b')' => self.close(),
            _ => {
                self.word_byte(byte);
                self.at += 1;
            }
        }
    }

    fn word_byte(&mut self, byte: u8) {
        self.pending_operator = false;
        self.word.push(byte);
    }

    fn operator(&mut self, byte: u8) {
        self.end_word();
        let double = self.peek(1) == byte;
        let pipe_both = byte == b'|' && self.peek(1) == b'&';
        self.at += if double || pipe_both { 2 } else { 1 };
        self.command_position = true;
        self.pending_operator = match byte {
            b'|' => true,
            b'&' => double,
            _ => false,
        };
    }

    fn redirection(&mut self, byte: u8) {
        if self.peek(1) == b'(' {
            self.end_word();
            self.enter(Inside::Joined, 2);
            self.command_position = true;
            return;
        }
        // A descriptor's number before it belongs to it.
        self.word.clear();
        if byte == b'<' && self.peek(1) == b'<' && self.peek(2) == b'<' {
            self.at += 3;
        } else if byte == b'<' && self.peek(1) == b'<' && self.stack.last() != Some(&Inside::Test) {
            self.at += 2;
            let strip_tabs = self.peek(0) == b'-';
            if strip_tabs {
                self.at += 1;
            }
            self.delimiter(strip_tabs);
        } else {
            self.at += 1;
            while matches!(self.peek(0), b'>' | b'&' | b'|' | b'<') {
                self.at += 1;
            }
        }
        self.pending_operator = false;
    }

    /// Reads a heredoc's delimiter, its quotes removed.
    fn delimiter(&mut self, strip_tabs: bool) {
        while matches!(self.peek(0), b' ' | b'\t') {
            self.at += 1;
        }
        let mut delimiter = Vec::new();
        let mut quote = 0;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            match byte {
                b'\n' => break,
                _ if quote != 0 && byte == quote => quote = 0,
                _ if quote != 0 => delimiter.push(byte),
                b'\'' | b'"' => quote = byte,
                b'\\' => {
                    self.at += 1;
                    delimiter.push(self.peek(0));
                }
                b' ' | b'\t' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
                _ => delimiter.push(byte),
            }
            self.at += 1;
        }
        self.heredocs.push(Heredoc {
            delimiter,
            strip_tabs,
        });
    }

    fn open(&mut self) {
        self.pending_operator = false;
        let glued = self.word.last().copied();
        if self.word.is_empty() && self.command_position && self.peek(1) == b'(' {
            self.enter(Inside::Arithmetic(2), 2);
        } else if matches!(glued, Some(b'=' | b'?' | b'*' | b'+' | b'@' | b'!')) {
            self.enter(Inside::Joined, 1);
        } else {
            let starts_command = self.word.is_empty() && self.command_position;
            self.end_word();
            let offset = if starts_command { self.at } else { usize::MAX };
            self.enter(Inside::Subshell(self.line, offset), 1);
            self.command_position = true;
        }
    }

    fn close(&mut self) {
        self.end_word();
        match self.stack.last().copied() {
            Some(Inside::Subshell(line, start)) => {
                self.stack.pop();
                if start != usize::MAX {
                    self.found.subshells.push(Subshell {
                        open: (line, start),
                        close: (self.line, self.at),
                    });
                    self.command_position = false;
                } else {
                    // `f()`: its body follows.
                    self.command_position = true;
                }
            }
            Some(Inside::Joined) => {
                self.stack.pop();
                self.command_position = false;
                self.word.push(b')');
            }
            _ => self.command_position = true,
        }
        self.pending_operator = false;
        self.at += 1;
    }

    /// A word has ended: reserved words change what the scanner is inside of.
    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if self.stack.last() == Some(&Inside::Test) {
            if word == b"]]" {
                self.stack.pop();
            }
            return;
        }
        if !self.command_position {
            return;
        }
        self.command_position = false;
        match word.as_slice() {
            b"case" => self.stack.push(Inside::Case),
            b"esac" if self.stack.last() == Some(&Inside::Case) => {
                self.stack.pop();
            }
            b"[[" => self.stack.push(Inside::Test),
            b"then" | b"do" | b"else" | b"elif" | b"if" | b"while" | b"until" | b"!" | b"time"
            | b"{" => {
                self.command_position = true;
            }
            _ => {}
        }
    }
}
