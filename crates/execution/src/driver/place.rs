//! Where a script is, and which statement made it fail.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    DriverEnd, Statements,
    records::{From, Record},
    serve::Stop,
};

/// Failures kept between two marks; more can't change the answer.
const FAILURES_MAX: usize = 64;
/// Background processes remembered.
const BACKGROUND_MAX: usize = 4_096;
/// Bytes of the failing statement that are kept.
const COMMAND_MAX: usize = 4 * 1024;

/// What the records have told so far.
#[derive(Debug)]
pub(super) struct Place {
    statements: Statements,
    /// Path of the script as bash names it.
    script_file: String,
    current: Option<Current>,
    timings: Vec<(u32, Duration)>,
    /// How often each line was announced.
    announced: Vec<(u32, u32)>,
    /// Failures since the last mark.
    failures: Vec<Failure>,
    /// The first failure that ended the shell, with the failures that came before it.
    fatal: Option<(Failure, Vec<Failure>)>,
    background: BTreeSet<u32>,
    syntax_error: Option<u32>,
    exit_trap: ExitTrap,
    /// The script was reached.
    pub(super) started: bool,
}

#[derive(Debug, Clone)]
struct Current {
    /// First line of the statement.
    line: u32,
    command: String,
    since: Instant,
}

/// The script's own trap for its end.
#[derive(Debug, Default)]
struct ExitTrap {
    /// Line of the statement that set it.
    set_at: u32,
    /// It ran.
    ran: bool,
    /// Status with which a command in it failed.
    failed: Option<i32>,
}

#[derive(Debug, Clone)]
struct Failure {
    status: i32,
    from: From,
    line: u32,
    file: String,
    command: String,
}

/// Times that a line is announced; loops would flood the log otherwise.
const ANNOUNCED_MAX: u32 = 20;

impl Place {
    pub(super) fn new(statements: Statements) -> Self {
        Self {
            statements,
            script_file: String::new(),
            current: None,
            timings: Vec::new(),
            announced: Vec::new(),
            failures: Vec::new(),
            fatal: None,
            background: BTreeSet::new(),
            syntax_error: None,
            exit_trap: ExitTrap::default(),
            started: false,
        }
    }

    /// The script is reached. Answers whether that is news.
    pub(super) fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    pub(super) fn not_parsed(&mut self, line: u32) {
        self.syntax_error = Some(line);
    }

    /// Line of the statement that runs.
    pub(super) fn line(&self) -> u32 {
        self.current.as_ref().map_or(0, |c| c.line)
    }

    /// A statement is about to run. Returns its line and text where they should be announced.
    pub(super) fn mark(&mut self, record: &Record, now: Instant) -> Option<(u32, String)> {
        self.note_background(record.from);
        if self.script_file.is_empty() {
            self.script_file.clone_from(&record.file);
        }
        self.exit_trap.ran |= is_exit_trap(&record.command);
        if !self.is_of_script(record) {
            return None;
        }
        // The shell lives: what was taken for the end was none.
        self.fatal = None;
        let line = self.statements.first_line(record.line);
        if !self.continues_pipeline(line) {
            self.failures.clear();
        }
        if record.command.starts_with("trap ") && record.command.contains("EXIT") {
            self.exit_trap.set_at = line;
        }
        let same = self.current.as_ref().is_some_and(|c| c.line == line);
        if same {
            if let Some(current) = &mut self.current {
                current.command.clone_from(&record.command);
            }
            return None;
        }
        self.leave(now);
        self.current = Some(Current {
            line,
            command: record.command.clone(),
            since: now,
        });
        let count = match self.announced.binary_search_by_key(&line, |(l, _)| *l) {
            Ok(i) => &mut self.announced[i].1,
            Err(i) => {
                self.announced.insert(i, (line, 0));
                &mut self.announced[i].1
            }
        };
        *count += 1;
        (*count <= ANNOUNCED_MAX).then(|| (line, self.statements.text(line)))
    }

    /// Whether the statement at `line` is a later part of what runs already: the parts of a pipeline run side by side, so
    /// that a failure within an earlier one may be told before or after the mark of a later one.
    fn continues_pipeline(&self, line: u32) -> bool {
        self.line() == line || self.statements.closes_compound(line)
    }

    /// Whether a mark is of a statement at its line. Bash also fires its trap on entering a function, in the failure
    /// trap (with the command that failed), in an exit trap (with the command that reads the script), and counts the
    /// lines of `eval`ed text on from those of the script.
    fn is_of_script(&self, record: &Record) -> bool {
        if is_exit_trap(&record.command)
            || record.line == 0
            || record.line > self.statements.line_count()
        {
            return false;
        }
        let command = record
            .command
            .trim_start_matches("time ")
            .trim_start_matches("! ");
        if command.starts_with('(') && !command.starts_with("((") {
            // A subshell as a whole fires only within the failure trap: its statements have been marked.
            return false;
        }
        let Some(current) = &self.current else {
            return true;
        };
        if current.command == record.command && self.statements.opens_function(record.line) {
            return false;
        }
        self.is_at(&record.command, record.line) || self.statements.uses_aliases()
    }

    /// Whether the statement at `line` can be the command that bash names: its first word is there.
    fn is_at(&self, command: &str, line: u32) -> bool {
        let word: String = command
            .chars()
            .take_while(|c| c.is_alphanumeric() || "_./-".contains(*c))
            .collect();
        self.statements.text(line).contains(&word)
    }

    /// A command failed.
    pub(super) fn fail(&mut self, record: &Record, status: i32) {
        self.note_background(record.from);
        if is_exit_trap(&record.command) {
            self.exit_trap.ran = true;
            self.exit_trap.failed = (record.from.depth == 0).then_some(status);
            return;
        }
        let failure = Failure {
            status,
            from: record.from,
            line: record.line,
            file: record.file.clone(),
            command: record.command.clone(),
        };
        if record.from.depth == 0 && record.from.errexit {
            // Bash leaves the shell after exactly these.
            let before = self.failures.clone();
            self.fatal.get_or_insert((failure, before));
        } else if self.failures.len() < FAILURES_MAX {
            self.failures.push(failure);
        }
    }

    fn note_background(&mut self, from: From) {
        if let Some(pid) = from.background
            && self.background.len() < BACKGROUND_MAX
        {
            self.background.insert(pid);
        }
    }

    fn leave(&mut self, now: Instant) {
        let Some(current) = &self.current else {
            return;
        };
        let spent = now.saturating_duration_since(current.since);
        match self.timings.iter_mut().find(|(l, _)| *l == current.line) {
            Some((_, total)) => *total += spent,
            None => self.timings.push((current.line, spent)),
        }
    }

    /// The whole story, once the shell has ended with `exit_code` at `ended`.
    pub(super) fn end(
        mut self,
        exit_code: i32,
        stopped: Option<Stop>,
        ended: Instant,
    ) -> DriverEnd {
        self.leave(ended);
        let last_line = self.line();
        let last_line_for = self
            .current
            .as_ref()
            .map_or(Duration::ZERO, |c| ended.saturating_duration_since(c.since));
        let (failed_line, failed_in) = match (exit_code, stopped) {
            (0, None) => (0, None),
            _ => self.failed(exit_code, stopped),
        };
        DriverEnd {
            exit_code,
            stopped,
            failed_line,
            failed_command: cut(self.statements.text(failed_line)),
            failed_in,
            last_line,
            last_line_for,
            timings: self.timings,
        }
    }

    /// The line of the failing statement, and the place in another file.
    fn failed(&self, exit_code: i32, stopped: Option<Stop>) -> (u32, Option<String>) {
        let last = self.line();
        if stopped.is_some() {
            return (last, None);
        }
        if let Some(line) = self.syntax_error {
            return (self.statements.first_line(line), None);
        }
        let Some((fatal, before)) = &self.fatal else {
            let in_trap = self.exit_trap.failed == Some(exit_code) && self.exit_trap.set_at > 0;
            return (if in_trap { self.exit_trap.set_at } else { last }, None);
        };
        // An exit trap may have changed the code.
        if fatal.status != exit_code && !self.exit_trap.ran {
            return (last, None);
        }
        // The innermost: the first failure in a subshell that the failing statement waited for. Failures within command
        // substitutions (no errexit there) have lines that bash makes up; those of background jobs are not this one's.
        let inner = before.iter().find(|f| {
            f.from.depth > 0
                && f.from.errexit
                && f.status == fatal.status
                && !self.background.contains(&f.from.pid)
                && self.in_script(f)
        });
        let failure = inner.unwrap_or(fatal);
        if self.statements.text(last).contains("eval")
            && !self.is_at(&failure.command, failure.line)
        {
            // A line within the text that was given to `eval`.
            return (last, None);
        }
        if self.in_script(failure) {
            return (self.statements.first_line(failure.line), None);
        }
        (last, Some(format!("{}:{}", failure.file, failure.line)))
    }

    fn in_script(&self, failure: &Failure) -> bool {
        failure.file == self.script_file && failure.line <= self.statements.line_count()
    }
}

/// Bash gives this command to the traps while an exit trap runs.
fn is_exit_trap(command: &str) -> bool {
    command.starts_with("source \"$__gw_src\"")
}

fn cut(mut text: String) -> String {
    if text.len() > COMMAND_MAX {
        text.truncate(text.floor_char_boundary(COMMAND_MAX));
        text.push('…');
    }
    text
}
