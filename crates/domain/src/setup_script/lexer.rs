//! A reader of bash that knows enough to tell commands, words, quotes, comments and heredocs apart. It does not expand
//! anything, never recurses (a script can nest as deep as it likes), and reads every byte once.

use std::{borrow::Cow, ops::Range};

mod build;
mod quotes;

/// One simple command: its words without redirections.
#[derive(Debug, Clone, Default)]
pub(super) struct Command<'a> {
    pub(super) words: Vec<Word<'a>>,
    /// Line of its first word, from 1.
    pub(super) line: u32,
    /// The command whose output it reads through a pipe.
    pub(super) piped_from: Option<usize>,
    /// Ended by `&`.
    pub(super) background: bool,
    /// Inside of a condition, a loop, a function or parentheses.
    pub(super) nested: bool,
    /// Its heredoc, as an index into [`Script::heredocs`].
    pub(super) heredoc: Option<usize>,
}

/// One word with quotes removed; expansions stay as written, substitutions as `$()`.
#[derive(Debug, Clone)]
pub(super) struct Word<'a> {
    pub(super) text: Cow<'a, str>,
    /// Commands inside its substitutions.
    pub(super) inner: Range<usize>,
}

/// What reading a script gave.
#[derive(Debug, Default)]
pub(super) struct Script<'a> {
    /// Inner commands stand before the command whose word they are in.
    pub(super) commands: Vec<Command<'a>>,
    /// Lines on which a backslash was meant to go on to the next line, and does not.
    pub(super) broken_continuations: Vec<u32>,
    /// The bodies of heredocs, as written.
    pub(super) heredocs: Vec<&'a str>,
    /// Where reading ended.
    pub(super) end: usize,
}

/// Where in the script's grammar a byte stands; the innermost is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// Commands up to this byte (0: the end of the script).
    Commands(u8),
    /// The words of `a=( … )`.
    Array,
    /// `" … "`
    Double,
    /// `${ … }`
    Brace,
    /// `(( … ))` or `( … )` inside a word, with this many parentheses open beside.
    Parens(u32),
}

/// The state of one list of commands.
#[derive(Debug, Default)]
struct List<'a> {
    command: Command<'a>,
    word: Option<Partial>,
    /// The next word is the target of a redirection.
    redirect: bool,
    /// The next word ends a heredoc; whether its tabs are stripped.
    heredoc: Option<bool>,
    /// The command before in the pipeline.
    pipe: Option<usize>,
    /// The last command that ended.
    last: Option<usize>,
    /// Open `case` statements; whether a pattern is expected.
    cases: Vec<bool>,
    /// Open conditions, loops and groups.
    blocks: u32,
    /// Commands known when the list began.
    first: usize,
}

/// A word being read.
#[derive(Debug)]
struct Partial {
    start: usize,
    end: usize,
    line: u32,
    /// Set as soon as the text is no longer the source as written.
    owned: Option<String>,
    quoted: bool,
    inner: Range<usize>,
}

struct Heredoc {
    /// Its place in [`Script::heredocs`].
    index: usize,
    delimiter: String,
    strip_tabs: bool,
}

pub(super) struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    frames: Vec<Frame>,
    /// How many of the frames are `Double` and backquotes.
    doubles: usize,
    backquotes: usize,
    lists: Vec<List<'a>>,
    heredocs: Vec<Heredoc>,
    script: Script<'a>,
    /// Stop at the end of the first statement.
    one_statement: bool,
    /// An operator at the end of a line (`|`, `&&`, `||`) makes the statement go on.
    continues: bool,
}

impl<'a> Lexer<'a> {
    /// Reads all of `source`.
    pub(super) fn read(source: &'a str) -> Script<'a> {
        Self::new(source, false).run()
    }

    /// Where the statement that `source` begins with ends: an offset, before its last newline.
    pub(super) fn statement_end(source: &str) -> usize {
        Lexer::new(source, true).run().end
    }

    fn new(source: &'a str, one_statement: bool) -> Self {
        Self {
            source,
            bytes: source.as_bytes(),
            at: 0,
            line: 1,
            frames: vec![Frame::Commands(0)],
            doubles: 0,
            backquotes: 0,
            lists: vec![List::default()],
            heredocs: Vec::new(),
            script: Script::default(),
            one_statement,
            continues: false,
        }
    }

    fn run(mut self) -> Script<'a> {
        while let Some(byte) = self.peek(0) {
            let more = match self.frames.last().copied() {
                Some(Frame::Double) => self.in_double(byte),
                Some(Frame::Brace) => self.in_brace(byte),
                Some(Frame::Parens(open)) => self.in_parens(byte, open),
                Some(Frame::Array) => self.in_commands(byte, b')', true),
                Some(Frame::Commands(close)) => self.in_commands(byte, close, false),
                None => false,
            };
            if !more {
                break;
            }
        }
        self.script.end = self.at.min(self.bytes.len());
        // Whatever is unfinished ends with the script.
        while !self.lists.is_empty() {
            self.end_command();
            self.lists.pop();
        }
        self.script
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip(&mut self, count: usize) {
        let end = (self.at + count).min(self.bytes.len());
        self.line += count_lines(&self.bytes[self.at..end]);
        self.at = end;
    }

    /// Skips to the next `byte`, which is not skipped; to the end if there is none.
    fn skip_to(&mut self, byte: u8) {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().position(|&b| b == byte).unwrap_or(rest.len());
        self.skip(count);
    }

    fn in_commands(&mut self, byte: u8, close: u8, array: bool) -> bool {
        // In `$(case x in a) …` the first `)` ends a pattern.
        let pattern_end = byte == b')' && self.list().cases.last() == Some(&true);
        if byte == close && !pattern_end {
            self.skip(1);
            self.close_list();
            return true;
        }
        match byte {
            b' ' | b'\t' | b'\r' => {
                self.end_word();
                self.skip(1);
            }
            b'\n' => {
                let done = self.frames.len() == 1 && !self.continues_after_newline();
                self.end_command_unless(array);
                if self.one_statement && done && self.heredocs.is_empty() {
                    return false;
                }
                self.skip(1);
                self.skip_heredocs();
                if self.one_statement && done {
                    // The last newline belongs to the heredoc's end.
                    self.at -= usize::from(self.bytes.get(self.at - 1) == Some(&b'\n'));
                    return false;
                }
            }
            b'#' if self.list().word.is_none() => self.skip_to(b'\n'),
            b'\\' => self.escape(),
            b'(' => {
                self.continues = false;
                self.open_parenthesis();
            }
            b')' => {
                // The end of a case pattern, or of nothing.
                self.skip(1);
                self.drop_command();
                if let Some(pattern) = self.list_mut().cases.last_mut() {
                    *pattern = false;
                }
            }
            b';' => {
                let double = self.peek(1) == Some(b';');
                let fall = self.peek(1) == Some(b'&');
                self.end_command_unless(array);
                if (double || fall)
                    && let Some(pattern) = self.list_mut().cases.last_mut()
                {
                    *pattern = true;
                }
                self.skip(if double || fall { 2 } else { 1 });
            }
            b'&' => self.ampersand(),
            b'|' => self.bar(),
            b'<' | b'>' => self.redirection(byte),
            _ => {
                self.continues = false;
                self.in_word(byte);
            }
        }
        true
    }

    fn escape(&mut self) {
        match self.peek(1) {
            Some(b'\n') => {
                let line = self.line;
                self.skip(2);
                let rest = self.bytes[self.at..].trim_ascii_start();
                let same_line = self.bytes.len() - rest.len() - self.at;
                if rest.first() == Some(&b'#')
                    && !self.bytes[self.at..self.at + same_line].contains(&b'\n')
                {
                    self.script.broken_continuations.push(line);
                }
            }
            Some(b'\r') if self.peek(2) == Some(b'\n') => self.skip(3),
            Some(b' ' | b'\t') => {
                let rest = &self.bytes[self.at + 1..];
                let blank = rest
                    .iter()
                    .position(|b| !matches!(b, b' ' | b'\t' | b'\r'))
                    .unwrap_or(rest.len());
                if matches!(rest.get(blank), None | Some(b'\n' | b'#')) {
                    self.script.broken_continuations.push(self.line);
                }
                self.begin_word();
                self.skip(1);
                self.push_char();
            }
            _ => {
                self.begin_word();
                self.mark_quoted();
                self.skip(1);
                self.push_char();
            }
        }
    }

    fn open_parenthesis(&mut self) {
        let word = self.list().word.as_ref().map(|word| {
            let tail = word
                .owned
                .as_deref()
                .unwrap_or(&self.source[word.start..word.end]);
            tail.ends_with('=')
        });
        let rest = self.bytes[self.at + 1..].trim_ascii_start();
        match word {
            Some(true) => {
                self.skip(1);
                self.open_list(Frame::Array);
            }
            _ if rest.first() == Some(&b')') && !self.list_is_blank() => {
                // `name()`: a function's head.
                self.skip_to(b')');
                self.skip(1);
                self.drop_command();
            }
            Some(false) => {
                self.push_char();
                self.push_frame(Frame::Parens(0));
            }
            None if self.list().cases.last() == Some(&true) => self.skip(1),
            None if self.peek(1) == Some(b'(') => {
                self.begin_word();
                self.push_run(2);
                self.push_frame(Frame::Parens(1));
            }
            None => {
                self.skip(1);
                self.open_list(Frame::Commands(b')'));
            }
        }
    }

    fn ampersand(&mut self) {
        match self.peek(1) {
            Some(b'&') => {
                self.end_command();
                self.skip(2);
                self.continues = true;
            }
            Some(b'>') => {
                self.end_word();
                self.skip(2);
                if self.peek(0) == Some(b'>') {
                    self.skip(1);
                }
                self.list_mut().redirect = true;
            }
            _ => {
                self.end_word();
                let list = self.list_mut();
                list.command.background = true;
                let blank = list.command.words.is_empty();
                let last = list.last;
                self.end_command();
                // `( … ) &`: the last command inside stands for the group.
                if blank
                    && let Some(command) = last.and_then(|last| self.script.commands.get_mut(last))
                {
                    command.background = true;
                }
                self.skip(1);
            }
        }
    }

    fn bar(&mut self) {
        if self.list().cases.last() == Some(&true) {
            self.end_word();
            self.skip(1);
            return;
        }
        let next = self.peek(1);
        self.end_command();
        self.continues = true;
        if next == Some(b'|') {
            self.skip(2);
        } else {
            self.skip(if next == Some(b'&') { 2 } else { 1 });
            let list = self.list_mut();
            list.pipe = list.last;
        }
    }

    fn redirection(&mut self, byte: u8) {
        if self.peek(1) == Some(b'(') {
            // Process substitution: a word made of commands.
            self.begin_word();
            self.skip(2);
            self.open_list(Frame::Commands(b')'));
            return;
        }
        // `2>`: the number belongs to the operator.
        let number = self.list().word.as_ref().is_some_and(|word| {
            word.owned.is_none()
                && word.start < word.end
                && self.bytes[word.start..word.end]
                    .iter()
                    .all(u8::is_ascii_digit)
        });
        if number {
            self.list_mut().word = None;
        }
        self.end_word();
        if byte == b'<' && self.peek(1) == Some(b'<') {
            if self.peek(2) == Some(b'<') {
                self.skip(3);
                self.list_mut().redirect = true;
            } else {
                let strip_tabs = self.peek(2) == Some(b'-');
                self.skip(if strip_tabs { 3 } else { 2 });
                self.list_mut().heredoc = Some(strip_tabs);
            }
            return;
        }
        self.skip(1);
        if matches!(self.peek(0), Some(b'>' | b'&' | b'|')) {
            self.skip(1);
        }
        self.list_mut().redirect = true;
    }

    /// After a newline: the bodies of the heredocs that the line began.
    fn skip_heredocs(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let begin = self.at;
            let mut end = self.bytes.len();
            while self.at < self.bytes.len() {
                let from = self.at;
                self.skip_to(b'\n');
                let line = self.source[from..self.at].trim_end_matches('\r');
                self.skip(1);
                let line = if heredoc.strip_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if line == heredoc.delimiter {
                    end = from;
                    break;
                }
            }
            let source = self.source;
            if let Some(body) = self.script.heredocs.get_mut(heredoc.index) {
                *body = &source[begin.min(end)..end];
            }
        }
    }

    fn continues_after_newline(&self) -> bool {
        self.continues && self.list_is_blank()
    }

    fn list_is_blank(&self) -> bool {
        let list = self.list();
        list.command.words.is_empty() && list.word.is_none()
    }
}

fn count_lines(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |count, &byte| count + u32::from(byte == b'\n'))
}
