//! Access settings: what goes together, and the precondition of changing them (spec 1-domain, *Access precondition*).

use serde_json::Value;

use super::{Catalog, Definition};
use crate::{issues::Issues, json::Object, network_policy::NetworkPolicy};

/// What the caller believes is saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessExpectation {
    /// The policy.
    pub network_policy: NetworkPolicy,
    /// Privileged Docker.
    pub privileged: bool,
}

impl AccessExpectation {
    /// Whether this is what `saved` has.
    pub fn matches(&self, saved: &Definition) -> bool {
        self.privileged == saved.privileged
            && same_policy(&self.network_policy, &saved.network_policy)
    }

    pub(super) fn read(value: &Value, issues: &mut Issues) -> Option<Self> {
        let path = "expected_access";
        let object = Object::open(value, path, &["network_policy", "privileged"], issues)?;
        object.require("network_policy", issues);
        object.require("privileged", issues);
        let privileged = object.boolean("privileged", issues);
        let policy = object.get("network_policy").and_then(|value| {
            NetworkPolicy::from_json(value, &object.path_of("network_policy"))
                .map_err(|mut wrong| issues.0.append(&mut wrong.0))
                .ok()
        });
        Some(Self {
            network_policy: policy?,
            privileged: privileged?,
        })
    }
}

/// Whether two policies are the same rules, however their hosts are spelled.
pub(super) fn same_policy(a: &NetworkPolicy, b: &NetworkPolicy) -> bool {
    a == b || a.normalised() == b.normalised()
}

/// Checks access settings that are new: that the deployment offers them, and that they go together.
pub(super) fn check(definition: &Definition, catalog: &Catalog, issues: &mut Issues) {
    if !catalog.egress && !definition.network_policy.is_closed() {
        issues.add(
            "network_policy",
            "This deployment cannot open hosts yet, so the policy would not be enforced: choose No access ({\"version\":\"v1\",\"rules\":[]}).",
        );
    }
    if !definition.privileged {
        return;
    }
    if !catalog.privileged {
        issues.add(
            "privileged",
            "This deployment cannot give privileged Docker safely: send false or leave it out.",
        );
    }
    if !definition.network_policy.is_unrestricted() {
        issues.add(
            "privileged",
            "Privileged Docker could go around a network policy: send network_policy {} (every host) with it, or turn privileged off.",
        );
    }
}
