//! Claims setup runs through the [`Gateway`](wire::worker::Gateway) and drives them on a
//! [`Runtime`](execution::runtime::Runtime): provision, setup, profile, commit, cleanup (spec 1-domain, *Setup runs*).
//!
//! It also keeps the sandboxes of sessions ([`Sessions`]), for the control plane in the same process.
//!
//! A worker decides nothing about a run: it does what the control plane handed out, reports what happened, and lets go of
//! compute whatever came. Times are of its own monotonic clock (architecture, invariant 6).

mod agent;
mod calls;
mod layers;
mod log;
mod mounts;
mod outcome;
mod redaction;
mod run;
mod sessions;
mod time;
mod wish;

pub use agent::{Agent, AgentConfig};
pub use sessions::{Sessions, SessionsConfig};
pub use time::Time;
