//! The HTTP doors in process: the router over a real SQLite database, a clock that tests move, and a worker that they
//! play.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends the test"
)]

mod administration;
mod console;
mod coverage;
mod coverage_functions;
mod described;
mod doors;
mod environments;
mod openapi;
mod other_organization;
mod own_api;
mod pages;
mod parity;
mod port_attacks;
mod port_rights;
mod run_pages;
mod sessions;
mod setup_runs;
mod support;
mod terminal_attacks;
