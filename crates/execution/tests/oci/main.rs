//! Real sandboxes through the `oci` runtime. Needs root, `crun`, and the small runner image: `GROUNDWORK_TEST_IMAGES` names
//! the directory that holds it (default `/var/lib/groundwork-test/images`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod sessions;
mod support;
#[path = "../common/driver_cases/mod.rs"]
mod table;
mod terminals;

mod attacks;
mod basics;
mod commands;
mod driver_cases;
mod egress;
mod exhaustion;
mod faults;
mod images;
mod isolation;
mod limits;
mod mounts;
mod registry;
mod replaced;
mod storms;
