//! The storage port on PostgreSQL: `GROUNDWORK_TEST_POSTGRES`, or a temporary server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod conformance;

conformance::suite!(postgres);
