//! Running setup scripts in real sandboxes (spec 4-execution). Nothing outside this crate knows which runtime runs.

pub mod doctor;
pub mod driver;
pub mod egress;
pub mod fetch;
pub mod images;
pub mod logs;
pub mod oci;
pub mod runtime;
pub mod shim;
