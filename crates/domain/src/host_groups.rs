//! Named sets of hosts (spec 1-domain, *Templates*): data that a deployment's configuration can replace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    issues::Issues,
    network_policy::{HostGlob, NetworkPolicy, Rule, RuleAction},
};

/// Host globs by group name (`github`, `pypi`, `npm`, `debian`, `crates`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostGroups(pub BTreeMap<String, Vec<String>>);

impl HostGroups {
    /// The groups that a deployment has unless its configuration replaces them: the hosts of `host_groups.json`.
    pub fn built_in() -> Self {
        // A test reads the file; an unreadable one would mean that no group is offered.
        serde_json::from_str(include_str!("host_groups.json")).unwrap_or_default()
    }

    /// The hosts of a group; empty if there is no such group.
    pub fn hosts(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// What is wrong with the groups of a configuration.
    ///
    /// # Errors
    /// One issue for each host that is no host glob, at `GROUP[INDEX]`.
    pub fn check(&self) -> Result<(), Issues> {
        let mut issues = Issues::new();
        for (name, hosts) in &self.0 {
            for (index, host) in hosts.iter().enumerate() {
                if let Err(error) = HostGlob::parse(host) {
                    issues.add(format!("{name}[{index}]"), error.0);
                }
            }
        }
        issues.into_result(())
    }

    /// A policy that allows the hosts of these groups and nothing else.
    pub fn policy(&self, names: &[&str]) -> NetworkPolicy {
        NetworkPolicy::Rules(
            names
                .iter()
                .flat_map(|name| self.hosts(name))
                .map(|host| Rule {
                    host_glob: host.clone(),
                    action: RuleAction::Allow,
                })
                .collect(),
        )
    }
}
