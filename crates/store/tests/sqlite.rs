//! The storage port on SQLite.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod conformance;

conformance::suite!(sqlite);
