//! The API from outside, on both databases: every answer of `/managed-agents/v1` against the reference's contract, the
//! guide's table of errors, keyed requests while the program is killed, and what many clients at once do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that cannot go on ends the test"
)]

mod crash;
#[path = "../api/described.rs"]
mod described;
mod document;
mod drive;
mod error_table;
mod guide;
mod live;
mod load;
mod load_rules;
mod one_key;
mod operations;
mod place;
mod polls;
#[path = "../../../crates/store/tests/common/postgres.rs"]
mod postgres;
mod report;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the doors")]
mod support;
mod unusable;
