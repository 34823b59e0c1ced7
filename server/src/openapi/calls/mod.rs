//! What is said of each call: one file a group.

mod administration;
mod environments;
mod service;
mod sessions;
mod setup_runs;

use super::Describe;

/// Every call.
pub(super) fn all() -> Vec<Describe> {
    [
        environments::calls(),
        setup_runs::calls(),
        sessions::calls(),
        administration::calls(),
        service::calls(),
    ]
    .concat()
}
