//! The policy's JSON: `{}` or `{"version":"v1","rules":[…]}`.

use serde_json::{Value, json};

use super::{HostGlob, NetworkPolicy, Rule, RuleAction};
use crate::{
    issues::Issues,
    json::{Object, join},
    limits,
};

const VERSION: &str = "v1";

impl NetworkPolicy {
    /// Reads a policy; `path` is where it stands in the body, such as `network_policy`.
    ///
    /// # Errors
    /// One issue for each wrong field, named by the rule's index (from 0).
    pub fn from_json(value: &Value, path: &str) -> Result<Self, Issues> {
        let mut issues = Issues::new();
        let policy = read(value, path, &mut issues);
        match policy {
            Some(policy) if issues.is_empty() => Ok(policy),
            _ => Err(issues),
        }
    }

    /// The policy as JSON, as [`Self::from_json`] reads it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Unrestricted => json!({}),
            Self::Rules(rules) => json!({
                "version": VERSION,
                "rules": rules.iter().map(|rule| json!({
                    "match": {"host_glob": rule.host_glob},
                    "action": {"type": rule.action.as_str()},
                })).collect::<Vec<_>>(),
            }),
        }
    }
}

fn read(value: &Value, path: &str, issues: &mut Issues) -> Option<NetworkPolicy> {
    let object = Object::open(value, path, &["version", "rules"], issues)?;
    if object.map.is_empty() {
        return Some(NetworkPolicy::Unrestricted);
    }
    if object.get("version").is_none() {
        issues.add(
            object.path_of("version"),
            "Required: \"v1\". Send {} for every host, {\"version\":\"v1\",\"rules\":[]} for none.",
        );
    } else if let Some(version) = object.string("version", issues)
        && version != VERSION
    {
        issues.add(object.path_of("version"), "Must be \"v1\".");
    }
    object.require("rules", issues);
    let items = object.list("rules", issues)?;
    if items.len() > limits::NETWORK_RULES_MAX {
        issues.add(
            object.path_of("rules"),
            format!(
                "At most {} rules, not {}: join hosts with a * where one rule can cover several.",
                limits::NETWORK_RULES_MAX,
                items.len()
            ),
        );
        return None;
    }
    let rules = items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            rule(
                item,
                &format!("{}[{index}]", object.path_of("rules")),
                issues,
            )
        })
        .collect();
    Some(NetworkPolicy::Rules(rules))
}

fn rule(value: &Value, path: &str, issues: &mut Issues) -> Option<Rule> {
    let object = Object::open(value, path, &["match", "action"], issues)?;
    object.require("match", issues);
    object.require("action", issues);
    let host_glob = object
        .get("match")
        .and_then(|value| matcher(value, &join(path, "match"), issues));
    let action = object
        .get("action")
        .and_then(|value| action(value, &join(path, "action"), issues));
    Some(Rule {
        host_glob: host_glob?,
        action: action?,
    })
}

fn matcher(value: &Value, path: &str, issues: &mut Issues) -> Option<String> {
    let object = Object::open(value, path, &["host_glob"], issues)?;
    object.require("host_glob", issues);
    let text = object.string("host_glob", issues)?;
    match HostGlob::parse(text) {
        Ok(_) => Some(text.to_owned()),
        Err(error) => {
            issues.add(object.path_of("host_glob"), error.0);
            None
        }
    }
}

fn action(value: &Value, path: &str, issues: &mut Issues) -> Option<RuleAction> {
    let object = Object::open(value, path, &["type"], issues)?;
    object.require("type", issues);
    match object.string("type", issues)? {
        "allow" => Some(RuleAction::Allow),
        "deny" => Some(RuleAction::Deny),
        _ => {
            issues.add(object.path_of("type"), "Must be \"allow\" or \"deny\".");
            None
        }
    }
}
