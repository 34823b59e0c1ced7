//! The shapes that cross a process boundary, and nothing else: no rule, no IO.

pub mod administration;
pub mod console;
pub mod environments;
pub mod error;
pub mod managed_agents;
pub mod policy;
pub mod run_records;
#[cfg(not(target_arch = "wasm32"))]
mod schema;
pub mod secrets;
#[cfg(not(target_arch = "wasm32"))]
pub mod session_host;
pub mod sessions;
pub mod worker;
