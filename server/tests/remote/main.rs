//! The built program as a client, against a real router on a loopback port: `groundwork login`, `env`, `test`, also on
//! a terminal.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends the test"
)]

mod environments;
mod follow;
mod login;
mod place;
mod racing;
mod sessions;
mod terminal;
