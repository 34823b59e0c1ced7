//! The built program with real sandboxes and what they talk to, from the call to the end.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../startup/place.rs"]
#[allow(dead_code, reason = "shared with the tests of starting")]
mod place;
#[path = "../startup/running.rs"]
#[allow(dead_code, reason = "shared with the tests of faults")]
mod running;

mod clients;
mod many;
mod places;
mod street;
