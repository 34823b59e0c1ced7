//! One more host allowed.

use super::{BadGlob, HostGlob, NetworkPolicy, Rule, RuleAction};

impl NetworkPolicy {
    /// The policy with one more rule that allows exactly this host, before the first rule that would deny it, else at the
    /// end. `None`: it is allowed already.
    ///
    /// # Errors
    /// What is no single host.
    pub fn allowing(&self, host: &str) -> Result<Option<Self>, BadGlob> {
        let glob = HostGlob::parse(host)?;
        if !glob.is_exact() {
            return Err(BadGlob(
                "Give one host, without a *: a wider rule is written in the policy.".to_owned(),
            ));
        }
        let (Self::Rules(rules), verdict) = (self, self.verdict(host)) else {
            return Ok(None);
        };
        if verdict.allowed {
            return Ok(None);
        }
        let mut rules = rules.clone();
        rules.insert(
            verdict.rule.unwrap_or(rules.len()),
            Rule {
                host_glob: glob.as_str().to_owned(),
                action: RuleAction::Allow,
            },
        );
        Ok(Some(Self::Rules(rules)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> NetworkPolicy {
        let rule = |text: &&str| {
            let (action, glob) = match text.strip_prefix('!') {
                Some(glob) => (RuleAction::Deny, glob),
                None => (RuleAction::Allow, *text),
            };
            Rule {
                host_glob: glob.to_owned(),
                action,
            }
        };
        NetworkPolicy::Rules(rules.iter().map(rule).collect())
    }

    #[test]
    fn the_rule_comes_before_the_first_one_that_would_deny() {
        for (before, host, after) in [
            (vec![], "a.example", Some(vec!["a.example"])),
            (
                vec!["b.example"],
                "a.example",
                Some(vec!["b.example", "a.example"]),
            ),
            (
                vec!["b.example", "!*.example", "!a.example"],
                "a.example",
                Some(vec!["b.example", "a.example", "!*.example", "!a.example"]),
            ),
            (vec!["*.example"], "a.example", None),
            (vec![], "A.Example.", Some(vec!["a.example"])),
            (vec![], "192.0.2.7", Some(vec!["192.0.2.7"])),
        ] {
            let found = policy(&before).allowing(host);
            assert_eq!(found, Ok(after.map(|rules| policy(&rules))), "{host}");
            if let Ok(Some(found)) = found {
                assert!(found.verdict(host).allowed);
            }
        }
        assert_eq!(NetworkPolicy::Unrestricted.allowing("a.example"), Ok(None));
    }

    #[test]
    fn only_a_single_host_can_be_allowed() {
        for host in ["*.example", "*", "https://a.example", "", "a b"] {
            assert!(policy(&[]).allowing(host).is_err(), "{host}");
        }
    }
}
