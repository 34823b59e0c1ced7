//! A policy prepared for many lookups: same verdicts as [`NetworkPolicy::verdict`].

use std::collections::BTreeMap;

use super::{HostGlob, NetworkPolicy, RuleAction, Verdict, normalise_host};

/// A policy with its globs parsed once: one map lookup for exact rules, and a walk over the rules with a `*`.
#[derive(Debug, Clone)]
pub struct CompiledPolicy {
    /// `None`: unrestricted.
    rules: Option<Compiled>,
}

#[derive(Debug, Clone, Default)]
struct Compiled {
    /// First rule of each exact host.
    exact: BTreeMap<String, usize>,
    /// Rules with a star, in order; `None`: a saved glob that cannot be read, which blocks.
    wild: Vec<(usize, Option<HostGlob>)>,
    allows: Vec<bool>,
}

impl CompiledPolicy {
    /// Prepares a policy.
    pub fn new(policy: &NetworkPolicy) -> Self {
        let NetworkPolicy::Rules(rules) = policy else {
            return Self { rules: None };
        };
        let mut compiled = Compiled::default();
        for (index, rule) in rules.iter().enumerate() {
            let glob = HostGlob::parse(&rule.host_glob).ok();
            compiled
                .allows
                .push(glob.is_some() && rule.action == RuleAction::Allow);
            match glob {
                Some(glob) if glob.is_exact() => {
                    compiled
                        .exact
                        .entry(glob.as_str().to_owned())
                        .or_insert(index);
                }
                other => compiled.wild.push((index, other)),
            }
        }
        Self {
            rules: Some(compiled),
        }
    }

    /// What the policy says of `host`, a name or an address literal.
    pub fn verdict(&self, host: &str) -> Verdict {
        let Some(compiled) = &self.rules else {
            return Verdict {
                allowed: true,
                rule: None,
            };
        };
        let rule = normalise_host(host).and_then(|host| {
            let exact = compiled.exact.get(host.as_ref()).copied();
            let wild = compiled
                .wild
                .iter()
                .take_while(|(index, _)| exact.is_none_or(|exact| *index < exact))
                .find(|(_, glob)| glob.as_ref().is_none_or(|glob| glob.matches(&host)))
                .map(|(index, _)| *index);
            wild.or(exact)
        });
        Verdict {
            allowed: rule
                .and_then(|rule| compiled.allows.get(rule).copied())
                .unwrap_or(false),
            rule,
        }
    }
}
