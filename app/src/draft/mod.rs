//! The environment form: its flat inputs, and the bodies of the API that they stand for. Pure; runs on the server (for
//! every save) and in the browser (for the live checks).
//!
//! Inputs are texts, exactly as typed, named `draft[…]` in the form, so that a form that is posted without scripting is
//! the same as one that is posted by it, and a refused one can be shown again unchanged.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::{
    error::Code,
    managed_agents::{Environment, EnvironmentTemplate},
};

use crate::{
    api::AppError,
    units::{gib_to_mib, mib_as_gib, milli_as_cpus, to_milli},
};

mod dotenv;
mod merge;
mod mounts;
mod rules;
mod summary;
#[cfg(test)]
mod tests;

pub use dotenv::{parse_dotenv, show_dotenv, with_variables};
pub use merge::{Clash, Merge, Taken, beside_typed, merge};
pub use mounts::{MountLine, parse_mounts, show_mounts};
pub use rules::{RuleLine, parse_rules, show_rules};

/// *Internet access*: every public host.
pub const INTERNET_ENABLED: &str = "enabled";
/// *Internet access*: no host.
pub const INTERNET_NONE: &str = "none";
/// *Internet access*: what the rules allow.
pub const INTERNET_HOSTS: &str = "hosts";

/// The form's inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// `id@revision` of the template it was made from; empty: none.
    pub template: String,
    /// Provider; empty: the default. Only sent on creation.
    pub provider: String,
    /// `enabled`, `none` or `hosts`.
    pub internet: String,
    /// One rule a line, see [`parse_rules`].
    pub rules: String,
    /// `on`: privileged Docker.
    pub privileged: String,
    /// vCPU, such as `2` or `0.5`; empty: the default.
    pub cpu: String,
    /// GiB, such as `4`; empty: the default.
    pub memory: String,
    /// Name of a GPU; empty: CPU.
    pub accelerator: String,
    /// Place; empty: any.
    pub placement: String,
    /// A sandbox's whole life in seconds; empty: unbounded.
    pub life: String,
    /// Workspace disk, GiB; empty: the default.
    pub disk: String,
    /// Idle stop, seconds; empty: the default.
    pub idle_stop: String,
    /// How long a stopped workspace is kept, seconds; empty: the default.
    pub stopped_delete: String,
    /// `on`: computer use.
    pub computer_use: String,
    /// A port that the session exposes; empty: none.
    pub http_port: String,
    /// Environment variables as a `.env` file.
    pub env_vars: String,
    /// Mounts, one a line: source, blank, path.
    pub mounts: String,
    /// Metadata as JSON; empty: none.
    pub metadata: String,
    /// `on`: metadata is saved, so that emptying the input clears it.
    pub had_metadata: String,
    /// Setup script.
    pub script: String,
    /// Setup timeout, seconds; empty: the default.
    pub setup_timeout: String,
}

impl Draft {
    /// A fresh form: no internet access, the default size spelled out.
    pub fn blank() -> Self {
        Self {
            internet: INTERNET_NONE.to_owned(),
            cpu: "2".to_owned(),
            memory: "4".to_owned(),
            disk: "10".to_owned(),
            ..Self::default()
        }
    }

    /// What is saved.
    pub fn of(environment: &Environment) -> Self {
        let (internet, rules) = show_policy(&environment.network_policy);
        let resources = &environment.resources;
        Self {
            name: environment.name.clone(),
            description: environment.description.clone(),
            template: environment
                .template
                .as_ref()
                .map(|t| format!("{}@{}", t.id, t.revision))
                .unwrap_or_default(),
            provider: environment.provider.clone(),
            internet,
            rules,
            privileged: switch(environment.privileged),
            cpu: unless_zero(resources.cpu_milli, milli_as_cpus),
            memory: unless_zero(resources.memory_mib, mib_as_gib),
            accelerator: resources
                .accelerator
                .as_ref()
                .map(|a| a.name.clone())
                .unwrap_or_default(),
            placement: resources
                .placement
                .as_ref()
                .map(|p| p.providers.join(","))
                .unwrap_or_default(),
            life: unless_zero(resources.timeout_seconds, |n| n.to_string()),
            disk: unless_zero(environment.pvc_size_gi, |n| n.to_string()),
            idle_stop: unless_zero(environment.idle_stop_after_seconds, |n| n.to_string()),
            stopped_delete: unless_zero(environment.stopped_delete_after_seconds, |n| {
                n.to_string()
            }),
            computer_use: switch(environment.computer_use),
            // The server sets the port of computer use by itself.
            http_port: if environment.computer_use {
                String::new()
            } else {
                unless_zero(u32::from(environment.http_port), |n| n.to_string())
            },
            env_vars: show_dotenv(&environment.env_vars),
            mounts: environment
                .mounts
                .iter()
                .map(|mount| format!("{} {}\n", mount.source, mount.mount_path))
                .collect(),
            metadata: environment
                .metadata
                .as_ref()
                .filter(|metadata| !metadata.is_empty())
                .map(pretty)
                .unwrap_or_default(),
            had_metadata: switch(environment.metadata.is_some()),
            script: environment.setup.script.clone(),
            setup_timeout: unless_zero(environment.setup.timeout_seconds.unwrap_or(0), |n| {
                n.to_string()
            }),
        }
    }

    /// A copy to create another one from.
    pub fn copy_of(environment: &Environment) -> Self {
        let copy = Self::of(environment);
        Self {
            name: format!("{} (copy)", copy.name),
            had_metadata: String::new(),
            ..copy
        }
    }

    /// A form filled from a template.
    pub fn from_template(template: &EnvironmentTemplate) -> Self {
        let body = &template.definition;
        let number = |path: &str| body.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let text = |path: &str| {
            body.pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let seconds =
            |path: &str| unless_zero(u32::try_from(number(path)).unwrap_or(0), |n| n.to_string());
        let blank = Self::blank();
        let (internet, rules) = match body.get("network_policy") {
            Some(policy) => show_policy(policy),
            None => (INTERNET_NONE.to_owned(), String::new()),
        };
        let accelerator = text("/resources/accelerator/name");
        let or = |shown: String, default: String| if shown.is_empty() { default } else { shown };
        Self {
            template: format!("{}@{}", template.id, template.revision),
            name: String::new(),
            internet,
            rules,
            privileged: switch(
                body.get("privileged")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
            ),
            cpu: if accelerator.is_empty() {
                or(
                    unless_zero(
                        u32::try_from(number("/resources/cpu_milli")).unwrap_or(0),
                        milli_as_cpus,
                    ),
                    blank.cpu,
                )
            } else {
                String::new()
            },
            memory: if accelerator.is_empty() {
                or(
                    unless_zero(
                        u32::try_from(number("/resources/memory_mib")).unwrap_or(0),
                        mib_as_gib,
                    ),
                    blank.memory,
                )
            } else {
                String::new()
            },
            accelerator,
            life: seconds("/resources/timeout_seconds"),
            disk: or(seconds("/pvc_size_gi"), blank.disk),
            idle_stop: seconds("/idle_stop_after_seconds"),
            stopped_delete: seconds("/stopped_delete_after_seconds"),
            computer_use: switch(
                body.get("computer_use")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
            ),
            env_vars: body
                .get("env_vars")
                .and_then(|vars| serde_json::from_value(vars.clone()).ok())
                .map(|vars| show_dotenv(&vars))
                .unwrap_or_default(),
            script: text("/setup/script"),
            setup_timeout: seconds("/setup/timeout_seconds"),
            ..Self::default()
        }
    }

    /// The body of a create call.
    ///
    /// # Errors
    /// `invalid_request` with every input that cannot be read; what can be read is judged by the application layer.
    pub fn create_body(&self) -> Result<Value, AppError> {
        let mut body = self.common()?;
        if !self.provider.trim().is_empty() {
            body.insert("provider".to_owned(), self.provider.trim().into());
        }
        if let Some((id, revision)) = self.template.trim().split_once('@')
            && let Ok(revision) = revision.parse::<i64>()
        {
            body.insert(
                "template".to_owned(),
                json!({"id": id, "revision": revision}),
            );
        }
        if body.get("metadata").is_some_and(Value::is_null) {
            body.remove("metadata");
        }
        Ok(Value::Object(body))
    }

    /// The body of an update call that replaces everything the form shows.
    ///
    /// # Errors
    /// As [`Self::create_body`].
    pub fn update_body(&self) -> Result<Value, AppError> {
        let mut body = self.common()?;
        if body.get("metadata").is_some_and(Value::is_null) {
            if is_on(&self.had_metadata) {
                // The API has no null for metadata.
                body.insert("metadata".to_owned(), json!({}));
            } else {
                body.remove("metadata");
            }
        }
        Ok(Value::Object(body))
    }

    fn common(&self) -> Result<Map<String, Value>, AppError> {
        let mut issues: Vec<String> = Vec::new();
        let mut read = |text: &str, path: &str, what: Result<u32, String>| -> u32 {
            if text.trim().is_empty() {
                return 0;
            }
            what.unwrap_or_else(|message| {
                issues.push(format!("{path}: {message}"));
                0
            })
        };
        let cpu = read(&self.cpu, "resources.cpu_milli", to_milli(&self.cpu));
        let memory = read(
            &self.memory,
            "resources.memory_mib",
            gib_to_mib(&self.memory),
        );
        let life = read(&self.life, "resources.timeout_seconds", whole(&self.life));
        let disk = read(&self.disk, "pvc_size_gi", whole(&self.disk));
        let idle = read(
            &self.idle_stop,
            "idle_stop_after_seconds",
            whole(&self.idle_stop),
        );
        let kept = read(
            &self.stopped_delete,
            "stopped_delete_after_seconds",
            whole(&self.stopped_delete),
        );
        let timeout = read(
            &self.setup_timeout,
            "setup.timeout_seconds",
            whole(&self.setup_timeout),
        );
        let port = read(&self.http_port, "http_port", whole(&self.http_port));
        let env_vars = parse_dotenv(&self.env_vars).unwrap_or_else(|message| {
            issues.push(format!("env_vars: {message}"));
            std::collections::BTreeMap::new()
        });
        let metadata = match self.metadata.trim() {
            "" => Value::Null,
            text => serde_json::from_str::<Map<String, Value>>(text).map_or_else(
                |error| {
                    issues.push(format!(
                        "metadata: Write a JSON object, such as {{\"team\": \"data\"}}: {error}."
                    ));
                    Value::Null
                },
                Value::Object,
            ),
        };
        let mounts: Vec<Value> = parse_mounts(&self.mounts)
            .into_iter()
            .map(|line| json!({"source": line.source, "mount_path": line.path}))
            .collect();
        if !issues.is_empty() {
            return Err(unreadable(issues));
        }

        let mut resources = Map::new();
        if self.accelerator.trim().is_empty() {
            insert_unless_zero(&mut resources, "cpu_milli", cpu);
            insert_unless_zero(&mut resources, "memory_mib", memory);
        } else {
            resources.insert(
                "accelerator".to_owned(),
                json!({"name": self.accelerator.trim(), "type": "gpu", "count": 1}),
            );
        }
        insert_unless_zero(&mut resources, "timeout_seconds", life);
        let places: Vec<&str> = self
            .placement
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .collect();
        if !places.is_empty() {
            resources.insert("placement".to_owned(), json!({"providers": places}));
        }
        let setup = if self.script.trim().is_empty() {
            json!({"script": ""})
        } else {
            json!({"script": self.script, "timeout_seconds": timeout})
        };
        let body = json!({
            "name": self.name,
            "description": self.description.replace("\r\n", "\n"),
            "metadata": metadata,
            "setup": setup,
            "resources": resources,
            "network_policy": self.policy(),
            "privileged": is_on(&self.privileged),
            "pvc_size_gi": disk,
            "env_vars": env_vars,
            "mounts": mounts,
            "computer_use": is_on(&self.computer_use),
            "http_port": port,
            "idle_stop_after_seconds": idle,
            "stopped_delete_after_seconds": kept,
        });
        match body {
            Value::Object(map) => Ok(map),
            _ => Ok(Map::new()),
        }
    }

    /// The network policy that the inputs stand for.
    pub fn policy(&self) -> Value {
        match self.internet.as_str() {
            INTERNET_ENABLED => json!({}),
            INTERNET_HOSTS => {
                json!({"version": "v1", "rules": parse_rules(&self.rules).iter().map(|rule| json!({
                "match": {"host_glob": rule.host},
                "action": {"type": if rule.allow { "allow" } else { "deny" }},
            })).collect::<Vec<_>>()})
            }
            _ => json!({"version": "v1", "rules": []}),
        }
    }
}

/// A number that may be left out.
///
/// # Errors
/// `invalid_request` on `path`.
pub fn optional_number(text: &str, path: &str) -> Result<Option<u32>, AppError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    whole(text)
        .map(Some)
        .map_err(|message| unreadable(vec![format!("{path}: {message}")]))
}

/// Whether a switch's input says on.
pub fn is_on(input: &str) -> bool {
    !matches!(input, "" | "off" | "false" | "0")
}

fn unreadable(issues: Vec<String>) -> AppError {
    let mut error = AppError::new(Code::InvalidRequest, issues.join(" "));
    if let Some((path, _)) = issues.first().and_then(|line| line.split_once(": ")) {
        error.0.details.insert("field".to_owned(), path.into());
    }
    error.0.details.insert("issues".to_owned(), issues.into());
    error
}

fn switch(on: bool) -> String {
    if on { "on" } else { "" }.to_owned()
}

fn unless_zero(number: u32, show: impl Fn(u32) -> String) -> String {
    if number == 0 {
        String::new()
    } else {
        show(number)
    }
}

fn insert_unless_zero(map: &mut Map<String, Value>, name: &str, number: u32) {
    if number != 0 {
        map.insert(name.to_owned(), number.into());
    }
}

fn whole(text: &str) -> Result<u32, String> {
    text.trim()
        .parse()
        .map_err(|_| "Write a whole number, or leave it empty for the default.".to_owned())
}

fn pretty(metadata: &Map<String, Value>) -> String {
    serde_json::to_string_pretty(metadata).unwrap_or_default()
}

fn show_policy(policy: &Value) -> (String, String) {
    let Some(rules) = policy.get("rules").and_then(Value::as_array) else {
        return (INTERNET_ENABLED.to_owned(), String::new());
    };
    if rules.is_empty() {
        return (INTERNET_NONE.to_owned(), String::new());
    }
    let lines: Vec<RuleLine> = rules
        .iter()
        .map(|rule| RuleLine {
            allow: rule.pointer("/action/type").and_then(Value::as_str) != Some("deny"),
            host: rule
                .pointer("/match/host_glob")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        })
        .collect();
    (INTERNET_HOSTS.to_owned(), show_rules(&lines))
}
