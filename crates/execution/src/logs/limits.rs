//! How much a log may hold, and how soon it is shown.

use std::time::Duration;

use domain::limits::{LOG_LINE_MAX_BYTES, LOG_MAX_BYTES, LOG_MAX_LINES, STDERR_TAIL_MAX_BYTES};

/// Sizes and times of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole log, a newline for each line included.
    pub log_bytes: u64,
    /// Lines of the whole log: short ones cost more than their bytes.
    pub log_lines: u64,
    /// Bytes of a line before it is cut into pieces.
    pub line_bytes: usize,
    /// Bytes of the end of stderr.
    pub tail_bytes: usize,
    /// After this an unfinished line is shown …
    pub open_after: Duration,
    /// … and then its newest text at most this often (a progress bar may be redrawn a thousand times a second).
    pub update_after: Duration,
    /// A batch is due when it has this many lines …
    pub batch_lines: usize,
    /// … or this many bytes …
    pub batch_bytes: usize,
    /// … or this long after the one before: the first line after a pause goes at once.
    pub batch_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log_bytes: LOG_MAX_BYTES,
            log_lines: LOG_MAX_LINES,
            line_bytes: LOG_LINE_MAX_BYTES,
            tail_bytes: STDERR_TAIL_MAX_BYTES,
            open_after: Duration::from_millis(250),
            update_after: Duration::from_secs(1),
            batch_lines: 200,
            batch_bytes: 64 * 1024,
            batch_age: Duration::from_millis(50),
        }
    }
}
