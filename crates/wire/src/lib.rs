//! The shapes that cross a process boundary, and nothing else: no rule, no IO.

pub mod console;
pub mod environments;
pub mod error;
pub mod managed_agents;
pub mod worker;
