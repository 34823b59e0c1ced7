//! The table of scripts that the driver must judge rightly (design/sandbox.md, section 4, and more). The same table runs
//! on the host and in a real sandbox.

#![allow(dead_code, reason = "each of the two tests uses its part")]

mod compound;
mod plain;
mod shell;

use std::time::Duration;

use execution::runtime::Event;

/// A script and what must come of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub script: String,
    pub exit: i32,
    /// First line of the failing statement; 0 where nothing fails.
    pub line: u32,
    /// The failing statement as written.
    pub command: Option<&'static str>,
    pub failed_in: Option<&'static str>,
    /// Markers as `[line]` and all output, in order.
    pub transcript: Option<&'static str>,
    /// Text that the output holds.
    pub output: Option<&'static str>,
    pub timeout: Duration,
    /// Longest time that the run may take.
    pub within: Duration,
    /// Rests upon a login profile that only the test on the host has.
    pub host_only: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub exit: i32,
    pub line: u32,
    pub command: String,
    pub failed_in: Option<String>,
    pub took: Duration,
    pub events: Vec<Event>,
}

impl Outcome {
    /// Markers as `[line]` and output, in order.
    pub fn transcript(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            match event {
                Event::Marker { text: source, .. } if source.is_empty() => {}
                Event::Marker { line, .. } => text.push_str(&format!("[{line}]")),
                Event::Output { bytes, .. } => text.push_str(&String::from_utf8_lossy(bytes)),
                _ => {}
            }
        }
        text
    }
}

impl Case {
    /// What is wrong with an outcome; empty when nothing is.
    pub fn complaints(&self, got: &Outcome) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: &str, fine: bool, got: String, wanted: String| {
            if !fine {
                wrong.push(format!("{}: {what} is {got}, wanted {wanted}", self.name));
            }
        };
        check(
            "exit",
            got.exit == self.exit,
            got.exit.to_string(),
            self.exit.to_string(),
        );
        check(
            "line",
            got.line == self.line,
            got.line.to_string(),
            self.line.to_string(),
        );
        if let Some(command) = self.command {
            check(
                "command",
                got.command == command,
                format!("{:?}", got.command),
                format!("{command:?}"),
            );
        }
        check(
            "place in another file",
            match (self.failed_in, &got.failed_in) {
                (None, None) => true,
                (Some(end), Some(got)) => got.ends_with(end),
                _ => false,
            },
            format!("{:?}", got.failed_in),
            format!("{:?}", self.failed_in),
        );
        let transcript = got.transcript();
        if let Some(wanted) = self.transcript {
            check(
                "transcript",
                transcript == wanted,
                format!("{transcript:?}"),
                format!("{wanted:?}"),
            );
        }
        if let Some(wanted) = self.output {
            check(
                "output",
                transcript.contains(wanted),
                format!("{transcript:.400?}"),
                format!("{wanted:?}"),
            );
        }
        check(
            "duration",
            got.took <= self.within,
            format!("{:?}", got.took),
            format!("{:?}", self.within),
        );
        wrong
    }

    fn command(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }
    fn in_file(mut self, place: &'static str) -> Self {
        self.failed_in = Some(place);
        self
    }
    fn transcript(mut self, transcript: &'static str) -> Self {
        self.transcript = Some(transcript);
        self
    }
    fn output(mut self, text: &'static str) -> Self {
        self.output = Some(text);
        self
    }
    fn timeout(mut self, millis: u64) -> Self {
        self.timeout = Duration::from_millis(millis);
        self
    }
}

fn case(name: &'static str, script: impl Into<String>, exit: i32, line: u32) -> Case {
    Case {
        name,
        script: script.into(),
        exit,
        line,
        command: None,
        failed_in: None,
        transcript: None,
        output: None,
        timeout: Duration::from_secs(60),
        within: Duration::from_secs(20),
        host_only: false,
    }
}

/// All of them.
pub fn all() -> Vec<Case> {
    [
        plain::plain(),
        compound::compound(),
        shell::shell_options(),
        shell::processes(),
        plain::texts(),
        shell::seen_by_the_script(),
    ]
    .concat()
}

impl Case {
    fn within(mut self, seconds: u64) -> Self {
        self.within = Duration::from_secs(seconds);
        self
    }
}

impl Case {
    /// Bash's own message is all that comes out.
    fn transcript_without_output(mut self) -> Self {
        self.output = Some("syntax error near unexpected token");
        self
    }
}
