//! The port's behaviour, case by case, the same on both databases. `suite!` makes a test of each case.

pub mod access;
mod cases;
pub mod environments;
mod fixture;
pub mod logs;
pub mod members;
pub mod records;
pub mod runs;
pub mod sessions;

pub(crate) use cases::suite;
