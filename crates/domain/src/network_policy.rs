//! Which hosts a sandbox may reach, and the one verdict function that DNS, TCP, TLS and HTTP all ask
//! (spec 1-domain, *Network policy*).

use serde::{Deserialize, Serialize};

mod address;
mod allow;
mod compiled;
mod glob;
mod wire;

pub use address::{BadCidr, Cidr, is_refused_address, may_be_reached};
pub use compiled::CompiledPolicy;
pub use glob::{BadGlob, HostGlob, normalise_host};

/// A saved policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkPolicy {
    /// `{}`: every public host.
    Unrestricted,
    /// Rules in order; what none allows is blocked. No rules: no access.
    Rules(Vec<Rule>),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// As the caller wrote it, checked.
    pub host_glob: String,
    /// What happens to a match.
    pub action: RuleAction,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Lets the host through.
    Allow,
    /// Blocks it.
    Deny,
}

impl RuleAction {
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// What a policy says of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the host may be reached.
    pub allowed: bool,
    /// Index of the deciding rule; `None`: no rule matched (or the policy is unrestricted).
    pub rule: Option<usize>,
}

impl NetworkPolicy {
    /// The default: every host is blocked.
    pub const fn no_access() -> Self {
        Self::Rules(Vec::new())
    }
    /// Whether every public host is let through.
    pub const fn is_unrestricted(&self) -> bool {
        matches!(self, Self::Unrestricted)
    }
    /// Whether no host can be reached at all (no rule allows one).
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Unrestricted => false,
            Self::Rules(rules) => !rules.iter().any(|rule| rule.action == RuleAction::Allow),
        }
    }
    /// What the policy says of `host`, a name or an address literal. The first rule that matches decides; what is no
    /// host at all is blocked by every policy with rules. For many hosts, compile it first: [`CompiledPolicy`].
    pub fn verdict(&self, host: &str) -> Verdict {
        const BLOCKED: Verdict = Verdict {
            allowed: false,
            rule: None,
        };
        let rules = match self {
            Self::Unrestricted => {
                return Verdict {
                    allowed: true,
                    rule: None,
                };
            }
            Self::Rules(rules) => rules,
        };
        let Some(host) = normalise_host(host) else {
            return BLOCKED;
        };
        for (index, rule) in rules.iter().enumerate() {
            let allowed = match HostGlob::parse(&rule.host_glob) {
                Ok(glob) if glob.matches(&host) => rule.action == RuleAction::Allow,
                Ok(_) => continue,
                // Saved globs were checked. One that cannot be read must not open anything behind it.
                Err(_) => false,
            };
            return Verdict {
                allowed,
                rule: Some(index),
            };
        }
        BLOCKED
    }

    /// The policy with every glob in its normalised form: two policies that mean the same rules are equal then.
    #[must_use]
    pub fn normalised(&self) -> Self {
        match self {
            Self::Unrestricted => Self::Unrestricted,
            Self::Rules(rules) => Self::Rules(
                rules
                    .iter()
                    .map(|rule| Rule {
                        host_glob: HostGlob::parse(&rule.host_glob).map_or_else(
                            |_| rule.host_glob.clone(),
                            |glob| glob.as_str().to_owned(),
                        ),
                        action: rule.action,
                    })
                    .collect(),
            ),
        }
    }
}
