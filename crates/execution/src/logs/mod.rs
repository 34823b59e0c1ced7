//! From what happens in a sandbox to numbered, redacted log lines (spec 1-domain, *Log*).
//!
//! A pure machine: events and times go in, batches of lines come out. It runs in the worker, so that nothing secret
//! leaves it, and its memory is bounded whatever a script writes.

mod limits;
mod line;
mod pipeline;
mod tail;

pub use limits::Limits;
pub use pipeline::{Batch, Pipeline};

use std::sync::Arc;

use domain::{
    redaction::{LineRedactor, Redactor},
    setup_run::Stream,
};

/// Masks what must not be stored or shown.
pub trait Redact: Send {
    /// A whole line of a stream, or a piece of one that is too long. Called for each in order, so that a private key can
    /// be followed over many lines.
    fn line(&mut self, stream: Stream, text: &str) -> String;
    /// What [`Redact::line`] would say, without counting as a line: for one that may still grow.
    fn peek(&self, stream: Stream, text: &str) -> String;
    /// How many bytes of an unfinished line can be shown while it goes on: no part of something to be masked is among
    /// them. At a character's boundary.
    fn safe_len(&self, text: &str) -> usize;
    /// How many bytes of an unfinished line can be parted from the rest for good, each part being masked by itself.
    fn cut_len(&self, text: &str) -> usize;
    /// Bytes of the longest text that is masked as a whole.
    fn longest(&self) -> usize;
    /// Another of the same that has seen no line yet.
    fn fresh(&self) -> Box<dyn Redact>;
}

/// [`Redact`] by the rules of the domain.
pub struct Masking {
    redactor: Arc<Redactor>,
    lines: LineRedactor,
}

impl Masking {
    /// For one run.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            lines: LineRedactor::new(Arc::clone(&redactor)),
            redactor,
        }
    }
}

impl Redact for Masking {
    fn line(&mut self, stream: Stream, text: &str) -> String {
        self.lines.line(stream, text).into_owned()
    }
    fn peek(&self, stream: Stream, text: &str) -> String {
        self.lines.peek(stream, text).into_owned()
    }
    fn safe_len(&self, text: &str) -> usize {
        self.lines.safe_len(text)
    }
    fn cut_len(&self, text: &str) -> usize {
        self.lines.cut_len(text)
    }
    fn longest(&self) -> usize {
        self.lines.longest()
    }
    fn fresh(&self) -> Box<dyn Redact> {
        Box::new(Self::new(Arc::clone(&self.redactor)))
    }
}

/// Masks nothing: for tests and measurements.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRedaction;

impl Redact for NoRedaction {
    fn line(&mut self, _: Stream, text: &str) -> String {
        text.to_owned()
    }
    fn peek(&self, _: Stream, text: &str) -> String {
        text.to_owned()
    }
    fn safe_len(&self, text: &str) -> usize {
        text.len()
    }
    fn cut_len(&self, text: &str) -> usize {
        text.len()
    }
    fn longest(&self) -> usize {
        0
    }
    fn fresh(&self) -> Box<dyn Redact> {
        Box::new(Self)
    }
}

#[cfg(test)]
mod tests;
