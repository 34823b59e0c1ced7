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

    /// The smallest group that names this host beside others, with its name: a tool that was refused one of them asks for
    /// the next one as soon as this one is allowed. Groups with a `*` are not offered in this way, being wider than what was
    /// asked for.
    pub fn around(&self, host: &str) -> Option<(&str, &[String])> {
        self.0
            .iter()
            .filter(|(_, hosts)| {
                hosts.len() > 1
                    && hosts.iter().any(|other| other.eq_ignore_ascii_case(host))
                    && hosts.iter().all(|other| !other.contains('*'))
            })
            .min_by_key(|(_, hosts)| hosts.len())
            .map(|(name, hosts)| (name.as_str(), hosts.as_slice()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_offered_with_the_smallest_group_that_names_it() {
        let groups: HostGroups = serde_json::from_str(
            r#"{
                "alone": ["one.example"],
                "big": ["a.example", "b.example", "c.example"],
                "small": ["a.example", "B.example"],
                "wide": ["d.example", "*.d.example"]
            }"#,
        )
        .unwrap();
        for (host, name) in [
            ("a.example", Some("small")),
            ("b.example", Some("small")),
            ("C.EXAMPLE", Some("big")),
            ("one.example", None),
            ("d.example", None),
            ("x.d.example", None),
            ("other.example", None),
        ] {
            assert_eq!(groups.around(host).map(|(name, _)| name), name, "{host}");
        }
    }

    #[test]
    fn package_clients_are_allowed_in_one_step() {
        let groups = HostGroups::built_in();
        for name in ["crates", "debian", "github", "pypi"] {
            for host in groups.hosts(name) {
                let around = groups.around(host).map(|(name, _)| name);
                assert_eq!(around, Some(name), "{host}");
            }
        }
        assert_eq!(groups.around(&groups.hosts("npm")[0]), None);
    }
}
