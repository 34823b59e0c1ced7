//! The lists, commands and words under construction.

use std::borrow::Cow;

use super::{Command, Frame, Heredoc, Lexer, List, Partial, Word};

impl<'a> Lexer<'a> {
    pub(super) fn list(&self) -> &List<'a> {
        // There is always the script's own list until `run` takes it apart.
        &self.lists[self.lists.len() - 1]
    }

    pub(super) fn list_mut(&mut self) -> &mut List<'a> {
        let last = self.lists.len() - 1;
        &mut self.lists[last]
    }

    pub(super) fn push_frame(&mut self, frame: Frame) {
        self.doubles += usize::from(frame == Frame::Double);
        self.backquotes += usize::from(frame == Frame::Commands(b'`'));
        self.frames.push(frame);
    }

    pub(super) fn pop_frame(&mut self) -> Option<Frame> {
        let frame = self.frames.pop();
        self.doubles -= usize::from(frame == Some(Frame::Double));
        self.backquotes -= usize::from(frame == Some(Frame::Commands(b'`')));
        frame
    }

    pub(super) fn open_list(&mut self, frame: Frame) {
        self.push_frame(frame);
        self.lists.push(List {
            first: self.script.commands.len(),
            ..List::default()
        });
    }

    pub(super) fn close_list(&mut self) {
        let frame = self.frames.last().copied();
        if frame == Some(Frame::Array) {
            self.drop_command();
        }
        self.end_command();
        if self.lists.len() == 1 {
            return;
        }
        self.pop_frame();
        let Some(closed) = self.lists.pop() else {
            return;
        };
        let inner = closed.first..self.script.commands.len();
        let list = self.list_mut();
        match &mut list.word {
            Some(word) => {
                if word.inner.is_empty() {
                    word.inner = inner;
                } else {
                    word.inner.end = inner.end;
                }
                self.push_str("$()");
            }
            // A subshell: what follows it in a pipeline reads its last command.
            None => {
                list.last = closed.last.or(list.last);
                list.pipe = None;
            }
        }
    }

    pub(super) fn begin_word(&mut self) {
        let (at, line, commands) = (self.at, self.line, self.script.commands.len());
        self.list_mut().word.get_or_insert(Partial {
            start: at,
            end: at,
            line,
            owned: None,
            quoted: false,
            inner: commands..commands,
        });
    }

    pub(super) fn mark_quoted(&mut self) {
        if let Some(word) = &mut self.list_mut().word {
            word.quoted = true;
        }
    }

    /// Adds the character under the cursor as it is.
    pub(super) fn push_char(&mut self) {
        let length = self.source[self.at..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        self.push_run(length);
    }

    /// Adds `count` bytes under the cursor as they are.
    pub(super) fn push_run(&mut self, count: usize) {
        let from = self.at;
        self.skip(count);
        let (source, to) = (self.source, self.at);
        if let Some(word) = &mut self.list_mut().word {
            match &mut word.owned {
                Some(text) => text.push_str(&source[from..to]),
                // Still as written.
                None if word.end == from => word.end = to,
                None => {
                    let mut text = source[word.start..word.end].to_owned();
                    text.push_str(&source[from..to]);
                    word.owned = Some(text);
                }
            }
        }
    }

    /// Adds text that is not under the cursor.
    pub(super) fn push_str(&mut self, text: &str) {
        let source = self.source;
        if let Some(word) = &mut self.list_mut().word {
            word.owned
                .get_or_insert_with(|| source[word.start..word.end].to_owned())
                .push_str(text);
        }
    }

    pub(super) fn end_word(&mut self) {
        let source = self.source;
        let (inside, index) = (self.lists.len() > 1, self.script.heredocs.len());
        let list = self.list_mut();
        let Some(word) = list.word.take() else {
            return;
        };
        let text = match word.owned {
            Some(owned) => Cow::Owned(owned),
            None => Cow::Borrowed(&source[word.start..word.end]),
        };
        if let Some(strip_tabs) = list.heredoc.take() {
            let delimiter = text.into_owned();
            list.command.heredoc = Some(index);
            self.script.heredocs.push("");
            self.heredocs.push(Heredoc {
                index,
                delimiter,
                strip_tabs,
            });
            return;
        }
        if std::mem::take(&mut list.redirect) {
            return;
        }
        let at_start = list.command.words.is_empty();
        if !word.quoted && list.cases.last() != Some(&true) {
            let of_function = text == "{"
                && list.command.words.len() == 2
                && list
                    .command
                    .words
                    .first()
                    .is_some_and(|w| w.text == "function");
            if of_function || (at_start && matches!(&*text, "if" | "do" | "{")) {
                list.blocks += 1;
            } else if at_start && matches!(&*text, "fi" | "done" | "}") {
                list.blocks = list.blocks.saturating_sub(1);
            }
        }
        if at_start && !word.quoted && list.cases.last() != Some(&true) {
            if text == "esac" {
                list.cases.pop();
            }
            if is_opener(&text) {
                return;
            }
        }
        // `esac` right after `;;` stands where a pattern would.
        if at_start && text == "esac" && list.cases.last() == Some(&true) {
            list.cases.pop();
        }
        if text == "in"
            && list.command.words.len() == 2
            && list.command.words.first().is_some_and(|w| w.text == "case")
        {
            list.cases.push(true);
            list.command = Command::default();
            return;
        }
        if at_start {
            list.command.line = word.line;
            list.command.nested = inside || list.blocks > 0 || !list.cases.is_empty();
        }
        list.command.words.push(Word {
            text,
            inner: word.inner,
        });
    }

    pub(super) fn end_command_unless(&mut self, array: bool) {
        if array {
            self.end_word();
        } else {
            self.end_command();
        }
    }

    pub(super) fn end_command(&mut self) {
        self.end_word();
        let index = self.script.commands.len();
        let list = self.list_mut();
        list.redirect = false;
        list.heredoc = None;
        let mut command = std::mem::take(&mut list.command);
        if command.words.is_empty() || list.cases.last() == Some(&true) {
            return;
        }
        command.piped_from = list.pipe.take();
        list.last = Some(index);
        self.script.commands.push(command);
    }

    pub(super) fn drop_command(&mut self) {
        let list = self.list_mut();
        list.word = None;
        list.redirect = false;
        list.command = Command::default();
    }
}

/// Reserved words that a command follows.
fn is_opener(word: &str) -> bool {
    matches!(
        word,
        "if" | "then" | "elif" | "else" | "do" | "while" | "until" | "!" | "{" | "time" | "coproc"
    )
}
