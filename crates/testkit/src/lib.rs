//! Test helpers: a clock that tests move, ids in order, a scripted sandbox runtime, a worker that tests play, a store that
//! tests put themselves into, and a whole application layer over a database in a temporary directory.
//!
//! A development dependency only. Helpers panic with a sentence where a test could not go on.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that cannot go on ends the test"
)]

mod app;
mod clock;
mod commands;
mod definitions;
mod hooked_images;
mod hooked_secrets;
mod hooked_sessions;
mod hooked_store;
mod ids;
mod runtime;
mod session_host;
mod worker;

pub use app::{TestApp, TestOptions};
pub use clock::ManualClock;
pub use definitions::{PASSWORD, catalog, create_body, definition};
pub use hooked_store::{HookedStore, Moment};
pub use ids::TestIds;
pub use runtime::{ECHO_PORT, Scenario, ScriptedRuntime, Step};
pub use session_host::ScriptedHost;
pub use worker::TestWorker;
