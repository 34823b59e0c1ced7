//! What is wrong with an input: one entry for each rejected field, so that a form can mark all of them at once
//! (spec 1-domain, *Environment fields*: `path: what is wrong`).

use serde::{Deserialize, Serialize};

/// One rejected field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The field's path, such as `resources.cpu_milli`, `env_vars.PATH` or `network_policy.rules[3].match.host_glob`.
    pub path: String,
    /// What is wrong and what to do, as a sentence without the path.
    pub message: String,
}

/// All rejected fields of one input; never empty where it is returned as an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Issues(pub Vec<Issue>);

impl Issues {
    /// No issue yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
    /// One issue.
    pub fn one(path: impl Into<String>, message: impl Into<String>) -> Self {
        let mut issues = Self::new();
        issues.add(path, message);
        issues
    }
    /// Adds an issue.
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Issue {
            path: path.into(),
            message: message.into(),
        });
    }
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// `Err(self)` unless empty.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
    /// The path of the first issue, for `details.field`.
    pub fn first_path(&self) -> Option<&str> {
        self.0.first().map(|issue| issue.path.as_str())
    }
    /// `path: message` for every issue, for `details.issues`.
    pub fn lines(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|issue| format!("{}: {}", issue.path, issue.message))
            .collect()
    }
    /// One sentence naming every rejected field, for `message`.
    pub fn summary(&self) -> String {
        self.lines().join(" ")
    }
}
