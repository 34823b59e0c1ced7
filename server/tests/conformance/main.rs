//! The API from outside, on both databases: every answer of `/managed-agents/v1` against the reference's contract, the
//! guide's table of errors, and what many clients at once do.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends the test"
)]

mod document;
mod drive;
mod live;
mod operations;
#[path = "../../../crates/store/tests/common/postgres.rs"]
#[allow(dead_code, reason = "shared with the store's tests")]
mod postgres;
mod report;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the doors")]
mod support;
