//! Which lines of a script belong to one statement. Bash reports a line somewhere inside a statement (of a command that
//! is continued by backslashes its second, of a command substitution its last); people are told its first.

/// A script's lines, and the statement that each belongs to. A statement here is a whole list (`a | b && c`), but not a
/// compound command: the statements inside loops, functions, groups and subshells are their own.
#[derive(Debug, Clone)]
pub struct Statements {
    lines: Vec<String>,
    /// Byte offset of each line, from index 0.
    offsets: Vec<usize>,
    /// First line of the statement that a line belongs to; from 1, index 0 unused.
    first: Vec<u32>,
    /// Lines within subshells that the script's own shell waits for.
    plain: Vec<bool>,
    /// Subshells that end on a line of their own: (line of `)`, line of `(`).
    groups: Vec<(u32, u32)>,
}

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

impl Statements {
    /// Reads a script that bash accepts. One that it does not accept gives something, too, only less useful.
    pub fn parse(script: &str) -> Self {
        let lines: Vec<String> = script.split('\n').map(str::to_owned).collect();
        let mut scan = Scan {
            bytes: script.as_bytes(),
            at: 0,
            line: 1,
            stack: Vec::new(),
            command_position: true,
            word: Vec::new(),
            heredocs: Vec::new(),
            pending_operator: false,
            joined: vec![false; lines.len() + 2],
            subshells: Vec::new(),
        };
        scan.run();
        let mut first: Vec<u32> = (0..=lines.len() as u32).collect();
        for line in 2..=lines.len() {
            if scan.joined[line] {
                first[line] = first[line - 1];
            }
        }
        let offsets = lines
            .iter()
            .scan(0, |at, line| {
                let offset = *at;
                *at += line.len() + 1;
                Some(offset)
            })
            .collect();
        let mut me = Self {
            offsets,
            plain: vec![false; lines.len() + 1],
            groups: Vec::new(),
            lines,
            first,
        };
        for (start, start_at, end, end_at) in scan.subshells {
            if start != end {
                me.groups.push((end, start));
            }
            if me.waited_for(script, start, start_at, end, end_at) {
                for line in start..=end {
                    if let Some(plain) = me.plain.get_mut(line as usize) {
                        *plain = true;
                    }
                }
            }
        }
        me
    }

    /// Whether a subshell runs in the foreground and outside of any pipeline. When in doubt, no.
    fn waited_for(
        &self,
        script: &str,
        start: u32,
        start_at: usize,
        end: u32,
        end_at: usize,
    ) -> bool {
        let statement_at = self.offset(self.first_line(start));
        let statement_end = self.offset(self.last_line(end) + 1).min(script.len());
        let (Some(before), Some(after)) = (
            script.get(statement_at..start_at),
            script.get(end_at + 1..statement_end.max(end_at + 1)),
        ) else {
            return false;
        };
        [before, after].iter().all(|text| {
            let text = text
                .replace("&&", "")
                .replace("||", "")
                .replace(">&", "")
                .replace("&>", "");
            !text.contains(['|', '&', '(', '`'])
        })
    }

    /// Byte offset at which a line begins.
    fn offset(&self, line: u32) -> usize {
        self.offsets
            .get((line as usize).saturating_sub(1))
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// Number of lines.
    pub fn line_count(&self) -> u32 {
        self.lines.len() as u32
    }

    /// First line of the statement at `line`; a line outside of the script comes back as it is.
    pub fn first_line(&self, line: u32) -> u32 {
        self.first.get(line as usize).copied().unwrap_or(line)
    }

    /// Last line of the statement at `line`.
    fn last_line(&self, line: u32) -> u32 {
        let first = self.first_line(line);
        let mut last = line.max(first);
        while self.first.get(last as usize + 1) == Some(&first) {
            last += 1;
        }
        last
    }

    /// Source text of the statement at `line`, as written, without the white space around it. Of the last line of a
    /// subshell it is the whole subshell.
    pub fn text(&self, line: u32) -> String {
        let mut first = self.first_line(line);
        let last = self.last_line(line);
        if let Some((_, start)) = self.groups.iter().find(|(end, _)| *end == first)
            && self.line(first).trim_start().starts_with(')')
        {
            first = *start;
        }
        let lines: Vec<&str> = (first..=last).map(|l| self.line(l)).collect();
        lines.join("\n").trim().to_owned()
    }

    fn line(&self, line: u32) -> &str {
        (line as usize)
            .checked_sub(1)
            .and_then(|i| self.lines.get(i))
            .map_or("", String::as_str)
    }

    /// Whether the line only opens a function (`f() {`), so that its body is on later lines.
    pub fn opens_function(&self, line: u32) -> bool {
        let text = self.line(line).trim();
        let text = text.split(" #").next().unwrap_or_default().trim_end();
        let head = text.strip_suffix(['{', '(']).unwrap_or(text).trim_end();
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains([' ', '\t', ';', '(', ')', '|', '&', '"', '\'', '$'])
        };
        if let Some(name) = head.strip_prefix("function ") {
            return is_name(name.trim().trim_end_matches("()").trim_end());
        }
        head.strip_suffix(')')
            .and_then(|h| h.trim_end().strip_suffix('('))
            .is_some_and(|name| is_name(name.trim_end()))
    }

    /// Whether a command's name may be none of the words that are written.
    pub fn uses_aliases(&self) -> bool {
        self.lines.iter().any(|l| l.contains("expand_aliases"))
    }

    /// Lines inside subshells whose statements can be marked like the script's own.
    pub fn plain_lines(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.line_count()).filter(|l| self.plain[*l as usize])
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    stack: Vec<Inside>,
    command_position: bool,
    word: Vec<u8>,
    heredocs: Vec<Heredoc>,
    pending_operator: bool,
    joined: Vec<bool>,
    subshells: Vec<(u32, usize, u32, usize)>,
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
        if let Some(slot) = self.joined.get_mut(self.line as usize) {
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
        } && self.stack.last() != Some(&Inside::Case);
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
                    self.subshells.push((line, start, self.line, self.at));
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

#[cfg(test)]
#[path = "statements_tests.rs"]
mod tests;
