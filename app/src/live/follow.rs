//! Following a run's log, as a decision: frames and connection events in; lines, state and "when to try again" out.
//! Pure: the browser's part is `stream.rs`.

use domain::setup_run::LogLine;
use wire::{
    console::{Frame, RunView},
    error::Code,
};

use super::lines::{Lines, Put};

/// How the log stands, for the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// The first answer is not here yet.
    Connecting,
    /// Lines come as they are written.
    Live,
    /// The connection was lost; it is tried again.
    Reconnecting,
    /// Nothing comes through an open connection, so that the log is asked for again and again.
    Asking,
    /// The run has ended, and every line is here.
    Complete,
    /// It goes no further; the text says why.
    Stopped(String),
}

/// What to do when a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Done,
    /// Call again after these milliseconds with [`Follower::cursor`].
    Again(u32),
    /// After these milliseconds, ask for the run and its lines after [`Follower::cursor`], and tell [`Follower::asked`].
    Ask(u32),
}

/// What a frame changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Lines came or grew.
    pub lines: bool,
    /// The run changed.
    pub run: bool,
    /// The connection has nothing more to say, or says nonsense: drop it.
    pub hang_up: bool,
}

/// The state of one reader.
#[derive(Debug, Clone)]
pub struct Follower {
    lines: Lines,
    run: RunView,
    link: Link,
    ended: bool,
    /// This connection has sent lines, so that the last one is no longer than here.
    confirmed: bool,
    failures: u32,
    /// This connection has sent something.
    heard: bool,
    /// Connections in a row that sent nothing.
    mute: u32,
    /// Answers since open connections were given up.
    asked: u32,
}

/// Open connections in a row that bring nothing before the log is asked for instead: a proxy may hold streams back.
const MUTE_MOST: u32 = 2;
/// Pause between two questions, milliseconds.
pub const ASK_EVERY: u32 = 2_000;
/// Questions until an open connection is tried once more.
const ASK_MOST: u32 = 60;
/// Longest pause between two tries, milliseconds.
const PAUSE_MAX: u32 = 10_000;
/// First pause, milliseconds.
const PAUSE_FIRST: u32 = 250;

impl Follower {
    /// Of a run as the page knows it, with a part of its log.
    pub fn new(run: RunView, part: Vec<LogLine>) -> Self {
        let mut lines = Lines::default();
        lines.reach(run.log.lines);
        if let Some(last) = part.last() {
            lines.reach(last.seq);
        }
        lines.fill(part);
        let over = run.log.removed_at.is_some() || run.finished;
        Self {
            lines,
            link: if over {
                Link::Complete
            } else {
                Link::Connecting
            },
            ended: over,
            confirmed: false,
            run,
            failures: 0,
            heard: false,
            mute: 0,
            asked: 0,
        }
    }

    /// The lines that are here.
    pub const fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Takes a page that was fetched.
    pub fn fill(&mut self, page: Vec<LogLine>) {
        self.lines.fill(page);
    }

    /// Whether it goes no further.
    pub const fn is_over(&self) -> bool {
        self.ended
    }

    /// The run.
    pub const fn run(&self) -> &RunView {
        &self.run
    }

    /// How the log stands.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// The last `seq` to name in a call. One less than what is here: the last line may have been open, and is sent again
    /// with what was added to it.
    pub const fn cursor(&self) -> u64 {
        self.lines.last().saturating_sub(1)
    }

    /// Takes a frame.
    pub fn take(&mut self, frame: Frame) -> Change {
        let mut change = Change::default();
        if !self.ended {
            self.link = Link::Live;
        }
        self.heard = true;
        match frame {
            Frame::Lines(lines) => {
                for line in lines {
                    match self.lines.put(line) {
                        Put::New => change.lines = true,
                        Put::Known => {}
                        Put::Gap => {
                            change.hang_up = true;
                            return change;
                        }
                    }
                }
                // Only lines prove that the connection is of use: a proxy may accept and drop it again and again.
                self.failures = 0;
                self.confirmed = true;
            }
            Frame::State(run) => {
                // Older news than what is here (a slow answer of another kind) must not turn the page back.
                if run.version >= self.run.version {
                    self.run = *run;
                    change.run = true;
                }
            }
            Frame::Beat => self.failures = 0,
            Frame::End => {
                self.ended = true;
                self.link = Link::Complete;
                change.hang_up = true;
            }
            Frame::Stopped(why) => {
                self.ended = true;
                self.link = Link::Stopped(why);
                change.hang_up = true;
            }
        }
        change
    }

    /// The connection sent nothing for too long, whatever it had sent before.
    pub const fn fell_silent(&mut self) {
        self.heard = false;
    }

    /// The connection is over: its stream ended or broke, or the call was refused with `refused`.
    pub fn closed(&mut self, refused: Option<(Code, &str)>) -> Next {
        if self.ended {
            return Next::Done;
        }
        match refused {
            Some((
                Code::Unauthorized | Code::Forbidden | Code::NotFound | Code::InvalidRequest,
                why,
            )) => {
                self.ended = true;
                self.link = Link::Stopped(why.to_owned());
                return Next::Done;
            }
            _ if self.run.finished && self.confirmed && self.lines.last() >= self.run.log.lines => {
                // The server closed right after the last byte, and the end frame was lost: everything is here.
                self.ended = true;
                self.link = Link::Complete;
                return Next::Done;
            }
            _ => {}
        }
        self.mute = if self.heard { 0 } else { self.mute + 1 };
        self.heard = false;
        self.confirmed = false;
        if self.mute >= MUTE_MOST {
            return Next::Ask(0);
        }
        self.again()
    }

    /// What came of asking for the run and its lines after [`Self::cursor`]; `None`: no answer. What it changed, and
    /// what to do next.
    pub fn asked(&mut self, answer: Option<(RunView, Vec<LogLine>)>) -> (Change, Next) {
        let mut change = Change::default();
        let Some((run, lines)) = answer else {
            // Nothing comes through at all.
            return (change, self.again());
        };
        for line in lines {
            match self.lines.put(line) {
                Put::New => change.lines = true,
                Put::Known => {}
                Put::Gap => break,
            }
        }
        if run.version >= self.run.version {
            self.run = run;
            change.run = true;
        }
        self.failures = 0;
        self.asked += 1;
        let more = self.lines.last() < self.run.log.lines && self.run.log.removed_at.is_none();
        if self.run.finished && !more {
            self.ended = true;
            self.link = Link::Complete;
            return (change, Next::Done);
        }
        self.link = Link::Asking;
        let next = if more && change.lines {
            Next::Ask(0)
        } else if self.asked.is_multiple_of(ASK_MOST) {
            Next::Again(0)
        } else {
            Next::Ask(ASK_EVERY)
        };
        (change, next)
    }

    /// Another try, after a pause that grows.
    fn again(&mut self) -> Next {
        self.link = Link::Reconnecting;
        let pause = PAUSE_FIRST
            .saturating_mul(1 << self.failures.min(6))
            .min(PAUSE_MAX);
        self.failures += 1;
        Next::Again(pause)
    }
}

/// Cuts bytes into lines; the pieces of a stream end anywhere, also within a character.
#[derive(Debug, Default)]
pub struct Splitter {
    rest: Vec<u8>,
}

impl Splitter {
    /// The whole lines that `bytes` complete, without their ends.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut start = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if *byte == b'\n' {
                let mut line = std::mem::take(&mut self.rest);
                line.extend_from_slice(&bytes[start..at]);
                lines.push(line);
                start = at + 1;
            }
        }
        self.rest.extend_from_slice(&bytes[start..]);
        lines
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
