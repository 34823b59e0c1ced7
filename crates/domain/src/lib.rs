//! Groundwork's rules, free of IO, clock, chance and async; also compiled for wasm, so that the browser
//! applies the same rules as the server (`shared` specification 1-domain).

pub mod compute;
pub mod diff;
pub mod env_vars;
pub mod environment;
pub mod exec;
pub mod fingerprint;
pub mod hints;
pub mod host_groups;
pub mod ids;
pub mod issues;
mod json;
pub mod limits;
pub mod log_text;
pub mod mending;
pub mod mounts;
pub mod network_policy;
pub mod process;
#[cfg(feature = "redaction")]
pub mod redaction;
pub mod roles;
pub mod run_records;
pub mod secrets;
pub mod session;
pub mod setup_run;
pub mod setup_script;
pub mod templates;
pub mod timestamp;
pub mod verification;
