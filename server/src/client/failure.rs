//! Why a command that asks a server ends without success.

use std::fmt;

use serde_json::Value;

/// Exit code of a refusal or a failure.
pub const FAILED: u8 = 1;
/// Exit code of `apply --dry-run` with differences.
pub const DIFFERS: u8 = 2;
/// Exit code of what Ctrl-C ended, and of a run that was cancelled.
pub const INTERRUPTED: u8 = 130;

/// A refusal or a failure, in sentences that say what to do.
#[derive(Debug)]
pub struct Failure {
    /// What happened and what to do.
    pub message: String,
    /// The server's error as it came.
    pub answer: Option<Value>,
    /// The HTTP status of the server's error.
    pub status: Option<u16>,
}

/// What a command comes to.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure on this side.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            answer: None,
            status: None,
        }
    }

    /// A server's refusal: its sentence, each field that is wrong, and the request's id.
    pub fn refused(status: u16, answer: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let details = &answer["details"];
        let mut message = text(&answer["message"]);
        let issues: Vec<String> = details["issues"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        if issues.len() > 1 {
            message = format!(
                "{} fields are wrong:\n  {}",
                issues.len(),
                issues.join("\n  ")
            );
        } else if let Some(field) = details["field"].as_str()
            && !message.contains(field)
        {
            message = format!("{field}: {message}");
        }
        if status == 412 {
            message.push_str(
                " Somebody changed the network policy or privileged after this command read them: run it again to see the new differences.",
            );
        }
        if answer["code"] == "revision_conflict" {
            message.push_str(
                " Somebody changed the environment at the same moment, and nothing of this command was saved: run it again to see the new differences.",
            );
        }
        if let (true, Some(id)) = (status >= 500, details["requestId"].as_str()) {
            message.push_str(&format!(" (request {id})"));
        }
        if message.is_empty() {
            message = format!(
                "The server answered with status {status} and no sentence; check that the URL is a Groundwork server's."
            );
        }
        Self {
            message,
            answer: Some(answer),
            status: Some(status),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
