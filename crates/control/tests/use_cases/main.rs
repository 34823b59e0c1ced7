//! The use cases over real SQLite, with a clock that tests move.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "tests"
)]

mod accounts;
mod and_test;
mod api_keys;
mod authorization;
mod authorization_others;
mod console;
mod environments;
mod following;
mod forms;
mod gateway;
mod history;
mod idempotency;
mod images;
mod leases;
mod log_reading;
mod members;
mod policy;
mod run_records;
mod runner_refresh;
mod saving;
mod secrets;
mod session_commands;
mod session_keeping;
mod sessions;
mod setup_runs;
mod verification;
mod vertical;

use control::{Error, Result};
use wire::error::Code;

/// The refusal's code.
fn code<T>(result: Result<T>) -> Code {
    match result {
        Ok(_) => panic!("was not refused"),
        Err(error) => error.code(),
    }
}

/// The refusal.
fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("was not refused"),
        Err(error) => error,
    }
}
