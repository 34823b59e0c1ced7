//! What the program says on standard error: JSON lines for machines, text for a terminal.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::fatal::Fatal;

/// Starts logging. `filter` is a `tracing` filter such as `info` or `info,control=debug`.
pub fn start(filter: &str) -> Result<(), Fatal> {
    let filter = EnvFilter::try_new(format!("{QUIET},{filter}")).map_err(|_| {
        Fatal::new(format!(
            "The log filter {filter:?} is not understood; use a level such as info, or info,control=debug."
        ))
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let started = if io::stderr().is_terminal() {
        registry
            .with(fmt::layer().with_writer(io::stderr).with_target(false))
            .try_init()
    } else {
        registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_span_list(false)
                    .with_writer(io::stderr),
            )
            .try_init()
    };
    // A second start happens only in tests, where the first one's settings are fine.
    let _ = started;
    Ok(())
}

/// Libraries that log at `info` what our own access log says better.
const QUIET: &str = "tower_sessions=warn,tower_sessions_core=warn,sqlx=warn,hyper=warn";
