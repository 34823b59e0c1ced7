//! Which hosts a sandbox may reach, and the one verdict function that DNS, TCP, TLS and HTTP all ask
//! (spec 1-domain, *Network policy*).

use serde::{Deserialize, Serialize};

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
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Lets the host through.
    Allow,
    /// Blocks it.
    Deny,
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
}
