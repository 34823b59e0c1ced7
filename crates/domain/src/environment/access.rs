//! The access precondition (spec 1-domain, *Access precondition*).

use crate::network_policy::NetworkPolicy;

/// What the caller believes is saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessExpectation {
    /// The policy.
    pub network_policy: NetworkPolicy,
    /// Privileged Docker.
    pub privileged: bool,
}
