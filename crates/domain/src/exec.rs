//! What a member may ask a session to run (spec 2-api, `POST /sessions/{id}/exec`).

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{env_vars, issues::Issues, limits, process::Command};

/// The body of `exec`, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// A line for `bash -c`. Either this or `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Program and arguments, read by no shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Absolute directory inside the sandbox; `/workspace` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables on top of the environment's own, for this command alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its standard input; empty unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Killed after this; unbounded unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

const NUL: &str = "A NUL character cannot be passed to a program. Leave it out.";

impl ExecRequest {
    /// The command and its standard input.
    ///
    /// # Errors
    /// Every field that is wrong, each with what to do.
    pub fn check(self) -> Result<(Command, Vec<u8>), Issues> {
        let mut issues = Issues::new();
        let said_as = if self.argv.is_some() {
            "argv"
        } else {
            "command"
        };
        let argv = match (self.command, self.argv) {
            (Some(line), None) if line.trim().is_empty() => {
                issues.add("command", "There is nothing to run. Give a command line.");
                Vec::new()
            }
            (Some(line), None) => vec!["bash".to_owned(), "-c".to_owned(), line],
            (None, Some(argv)) if argv.first().is_none_or(String::is_empty) => {
                issues.add("argv", "There is nothing to run. Name a program first.");
                Vec::new()
            }
            (None, Some(argv)) if argv.len() > limits::EXEC_ARGUMENTS_MAX => {
                issues.add(
                    "argv",
                    format!("Must be at most {} arguments.", limits::EXEC_ARGUMENTS_MAX),
                );
                Vec::new()
            }
            (None, Some(argv)) => argv,
            (Some(_), Some(_)) => {
                issues.add("argv", "Give either command or argv, not both.");
                Vec::new()
            }
            (None, None) => {
                issues.add(
                    "command",
                    "Give command (a line for bash) or argv (a program and its arguments).",
                );
                Vec::new()
            }
        };
        if argv.iter().any(|argument| argument.contains('\0')) {
            issues.add(said_as, NUL);
        }
        if let Some(cwd) = &self.cwd {
            if !cwd.starts_with('/') || cwd.len() > limits::EXEC_CWD_MAX_BYTES {
                issues.add(
                    "cwd",
                    format!(
                        "Must be an absolute path of at most {} bytes, such as /workspace.",
                        limits::EXEC_CWD_MAX_BYTES
                    ),
                );
            } else if cwd.contains('\0') {
                issues.add("cwd", NUL);
            }
        }
        if self.env.len() > limits::ENV_VARS_MAX {
            issues.add(
                "env",
                format!("Must be at most {} variables.", limits::ENV_VARS_MAX),
            );
        }
        for (name, value) in &self.env {
            if !env_vars::is_name(name) {
                issues.add(
                    format!("env.{name}"),
                    "A name consists of letters, digits and underscores, and does not start with a digit.",
                );
            } else if value.contains('\0') {
                issues.add(format!("env.{name}"), NUL);
            } else if value.len() > limits::ENV_VAR_VALUE_MAX_BYTES {
                issues.add(
                    format!("env.{name}"),
                    format!("Must be at most {} bytes.", limits::ENV_VAR_VALUE_MAX_BYTES),
                );
            }
        }
        if self
            .timeout_seconds
            .is_some_and(|seconds| !(1..=limits::EXEC_TIMEOUT_MAX).contains(&seconds))
        {
            issues.add(
                "timeout_seconds",
                format!("Must be 1 to {}.", limits::EXEC_TIMEOUT_MAX),
            );
        }
        if !issues.0.is_empty() {
            return Err(issues);
        }
        Ok((
            Command {
                argv,
                cwd: self.cwd,
                env: self.env,
                timeout: self
                    .timeout_seconds
                    .map(|seconds| Duration::from_secs(seconds.into())),
                pty: None,
            },
            self.stdin.unwrap_or_default().into_bytes(),
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn check(body: serde_json::Value) -> Result<(Command, Vec<u8>), Vec<String>> {
        serde_json::from_value::<ExecRequest>(body)
            .unwrap()
            .check()
            .map_err(|issues| issues.0.into_iter().map(|issue| issue.path).collect())
    }

    #[test]
    fn a_command_line_goes_to_bash_and_arguments_to_nobody() {
        let (command, stdin) = check(json!({"command": "echo $X", "stdin": "in"})).unwrap();
        assert_eq!(command.argv, ["bash", "-c", "echo $X"]);
        assert_eq!(stdin, b"in");
        assert_eq!(
            (command.cwd, command.timeout, command.pty),
            (None, None, None)
        );
        let (command, _) = check(json!({
            "argv": ["echo", "$X", ""], "cwd": "/tmp", "env": {"PATH": "/bin"}, "timeout_seconds": 7,
        }))
        .unwrap();
        assert_eq!(command.argv, ["echo", "$X", ""]);
        assert_eq!(command.cwd.as_deref(), Some("/tmp"));
        assert_eq!(command.env["PATH"], "/bin");
        assert_eq!(command.timeout, Some(Duration::from_secs(7)));
    }

    fn variables(count: usize) -> BTreeMap<String, String> {
        (0..count)
            .map(|n| (format!("V{n}"), n.to_string()))
            .collect()
    }

    #[test]
    fn a_directory_of_4096_bytes_and_100_variables_are_within_the_limits() {
        let cwd = format!("/{}", "a".repeat(4_095));
        let (command, _) =
            check(json!({"command": "a", "cwd": cwd, "env": variables(100)})).unwrap();
        assert_eq!(command.cwd.as_deref(), Some(cwd.as_str()));
        assert_eq!(command.env.len(), 100);
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_field() {
        for (body, field) in [
            (json!({}), "command"),
            (json!({"command": " "}), "command"),
            (json!({"command": "a\u{0}"}), "command"),
            (json!({"command": "a", "argv": ["b"]}), "argv"),
            (json!({"argv": []}), "argv"),
            (json!({"argv": [""]}), "argv"),
            (json!({"argv": ["echo", "a\u{0}"]}), "argv"),
            (json!({"argv": vec!["x"; 1_001]}), "argv"),
            (json!({"command": "a", "cwd": "relative"}), "cwd"),
            (json!({"command": "a", "cwd": "/a\u{0}"}), "cwd"),
            (
                json!({"command": "a", "cwd": format!("/{}", "a".repeat(4_096))}),
                "cwd",
            ),
            (json!({"command": "a", "env": variables(101)}), "env"),
            (json!({"command": "a", "env": {"1A": ""}}), "env.1A"),
            (json!({"command": "a", "env": {"A": "\u{0}"}}), "env.A"),
            (
                json!({"command": "a", "env": {"A": "x".repeat(32_769)}}),
                "env.A",
            ),
            (
                json!({"command": "a", "timeout_seconds": 0}),
                "timeout_seconds",
            ),
            (
                json!({"command": "a", "timeout_seconds": 86_401}),
                "timeout_seconds",
            ),
        ] {
            assert_eq!(check(body.clone()), Err(vec![field.to_owned()]), "{body}");
        }
        let many = check(json!({"cwd": "x", "timeout_seconds": 0})).unwrap_err();
        assert_eq!(many, ["command", "cwd", "timeout_seconds"]);
    }
}
