//! From what happens in a sandbox to numbered, redacted log lines (spec 1-domain, *Log*).
//!
//! A pure machine: events and times go in, batches of lines come out. It runs in the worker, so that nothing secret
//! leaves it, and its memory is bounded whatever a script writes.

mod line;
mod pipeline;
mod tail;

pub use pipeline::{Batch, Limits, Pipeline};

use domain::setup_run::Stream;

/// Masks what must not be stored or shown.
pub trait Redact: Send {
    /// A whole line of a stream, or a piece of one that is too long. Called for each in order, so that a private key can
    /// be followed over many lines.
    fn line(&mut self, stream: Stream, text: &str) -> String;
    /// What [`Redact::line`] would say, without counting as a line: for one that may still grow.
    fn peek(&self, stream: Stream, text: &str) -> String;
    /// How many bytes of an unfinished line can be shown and parted from the rest: nothing to be masked lies across, and
    /// nothing that may follow makes it so. At a character's boundary.
    fn safe_len(&self, text: &str) -> usize;
    /// Bytes of the longest text that is masked as a whole.
    fn longest(&self) -> usize;
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
    fn longest(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests;
