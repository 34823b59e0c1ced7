//! Commands inside a running sandbox: a session's `exec` calls and terminals (spec 4-execution, *Sessions*).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::setup_run::Stream;

/// A command to start in a sandbox, as the user `sandbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments; never read by a shell of ours. Empty: a login shell.
    pub argv: Vec<String>,
    /// Absolute directory inside the sandbox; `None`: `/workspace`.
    pub cwd: Option<String>,
    /// Variables on top of the environment's own, for this command alone.
    pub env: BTreeMap<String, String>,
    /// After this the command and everything it started is killed; `None`: unbounded.
    pub timeout: Option<Duration>,
    /// A terminal of this size (`TERM=xterm-256color`) instead of pipes: all output then comes as `stdout`.
    pub pty: Option<PtySize>,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// What goes to a command. The end of these is the end of its standard input (for a terminal: a hang-up).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// Bytes for its standard input.
    Bytes(Vec<u8>),
    /// The terminal has another size now.
    Resize(PtySize),
    /// Kill it and everything that it started.
    Kill,
}

/// What comes from a command, as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `Stdout` or `Stderr`.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// From `wait`; 124 by our timer, 128 + signal for a signal, 126 or 127 where it could not be started.
    pub exit_code: i32,
    /// Ended by our timer.
    pub timed_out: bool,
    /// Ended because the caller asked.
    pub killed: bool,
}

/// What a sandbox uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// CPU time used since its start, in milliseconds.
    pub cpu_millis: u64,
    /// Bytes of memory in use.
    pub memory_used: u64,
    /// Its limit in bytes.
    pub memory_limit: u64,
    /// Bytes of its disk in use.
    pub disk_used: u64,
    /// Size of its disk in bytes.
    pub disk_size: u64,
    /// Processes and threads.
    pub processes: u64,
}
