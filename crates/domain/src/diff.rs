//! Which fields differ between two definitions, for people: staleness, history, and edits that met (spec 1-domain,
//! *Verification*; 3-console).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    compute::{show_cpu, show_memory},
    environment::Definition,
    fingerprint,
    network_policy::NetworkPolicy,
};

/// Shown where a field has no value.
const NOT_SET: &str = "(not set)";

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The field's path, as issues name it, such as `resources.cpu_milli` or `env_vars.API_URL`.
    pub path: String,
    /// The field's name for people.
    pub label: String,
    /// The old value for people; the whole text of a script.
    pub before: String,
    /// The new value for people.
    pub after: String,
    /// Whether the difference makes a verdict stale.
    pub affects_verdict: bool,
}

/// Every field that differs, in the order of the form.
pub fn changed_fields(before: &Definition, after: &Definition) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    for (path, label, show) in FIELDS {
        let (old, new) = (show(before), show(after));
        if old != new {
            changes.push(FieldChange {
                path: (*path).to_owned(),
                label: (*label).to_owned(),
                before: old,
                after: new,
                affects_verdict: false,
            });
        }
    }
    changes.extend(changed_variables(before, after));
    let (old, new) = (fingerprint::fields(before), fingerprint::fields(after));
    for change in &mut changes {
        change.affects_verdict = if change.path.starts_with("env_vars.") {
            true
        } else {
            old.get(change.path.as_str()) != new.get(change.path.as_str())
        };
    }
    changes
}

type Show = fn(&Definition) -> String;

const FIELDS: &[(&str, &str, Show)] = &[
    ("name", "Name", |d| d.name.clone()),
    ("description", "Description", |d| or_not_set(&d.description)),
    ("provider", "Runtime", |d| d.provider.clone()),
    ("image", "Runner image", |d| d.image.clone()),
    ("network_policy", "Internet access", |d| {
        show_policy(&d.network_policy)
    }),
    ("privileged", "Privileged Docker", |d| on_off(d.privileged)),
    ("resources.cpu_milli", "CPU", |d| {
        with_default(
            show_cpu(d.resources.effective_cpu_milli()),
            d.resources.cpu_milli == 0 && d.resources.accelerator.is_none(),
        )
    }),
    ("resources.memory_mib", "Memory", |d| {
        with_default(
            show_memory(d.resources.effective_memory_mib()),
            d.resources.memory_mib == 0 && d.resources.accelerator.is_none(),
        )
    }),
    ("resources.accelerator", "Accelerator", |d| {
        d.resources
            .accelerator
            .as_ref()
            .map_or_else(|| NOT_SET.to_owned(), |a| a.name.clone())
    }),
    ("resources.placement", "Placement", |d| {
        d.resources
            .placement
            .as_ref()
            .map_or_else(|| NOT_SET.to_owned(), |p| p.providers.join(", "))
    }),
    (
        "resources.timeout_seconds",
        "Whole life of the sandbox",
        |d| match d.resources.timeout_seconds {
            0 => "unbounded".to_owned(),
            seconds => format!("{seconds} s"),
        },
    ),
    ("pvc_size_gi", "Workspace disk", |d| {
        with_default(format!("{} GiB", d.effective_disk_gi()), d.pvc_size_gi == 0)
    }),
    ("idle_stop_after_seconds", "Idle stop", |d| {
        with_default(
            format!("{} s", d.effective_idle_stop()),
            d.idle_stop_after_seconds == 0,
        )
    }),
    (
        "stopped_delete_after_seconds",
        "Stopped workspace is kept",
        |d| {
            with_default(
                format!("{} s", d.effective_stopped_delete()),
                d.stopped_delete_after_seconds == 0,
            )
        },
    ),
    ("computer_use", "Computer use", |d| on_off(d.computer_use)),
    ("http_port", "HTTP port", |d| match d.http_port {
        0 => "none".to_owned(),
        port => port.to_string(),
    }),
    ("mounts", "Mounts", |d| {
        let lines: Vec<String> = d
            .mounts
            .iter()
            .map(|mount| format!("{} at {}", mount.source, mount.mount_path))
            .collect();
        or_not_set(&lines.join("\n"))
    }),
    ("config", "Runtime settings", |d| {
        show_object(d.config.as_ref())
    }),
    ("metadata", "Metadata", |d| show_object(d.metadata.as_ref())),
    ("setup.script", "Setup script", |d| {
        or_not_set(&d.setup.script)
    }),
    ("setup.timeout_seconds", "Setup timeout", |d| {
        with_default(
            format!("{} s", d.effective_setup_timeout()),
            d.setup.timeout_seconds == 0,
        )
    }),
];

fn changed_variables(before: &Definition, after: &Definition) -> Vec<FieldChange> {
    let names: BTreeSet<&String> = before
        .env_vars
        .keys()
        .chain(after.env_vars.keys())
        .collect();
    names
        .into_iter()
        .filter(|name| before.env_vars.get(*name) != after.env_vars.get(*name))
        .map(|name| {
            let show = |d: &Definition| {
                d.env_vars
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| NOT_SET.to_owned())
            };
            FieldChange {
                path: format!("env_vars.{name}"),
                label: format!("Variable {name}"),
                before: show(before),
                after: show(after),
                affects_verdict: true,
            }
        })
        .collect()
}

fn or_not_set(text: &str) -> String {
    if text.is_empty() { NOT_SET } else { text }.to_owned()
}

fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

fn with_default(text: String, is_default: bool) -> String {
    if is_default {
        format!("{text} (default)")
    } else {
        text
    }
}

fn show_object(object: Option<&Map<String, Value>>) -> String {
    match object {
        Some(map) if !map.is_empty() => Value::Object(map.clone()).to_string(),
        _ => NOT_SET.to_owned(),
    }
}

/// `Enabled`, `No access`, or the rules, one a line.
fn show_policy(policy: &NetworkPolicy) -> String {
    match policy {
        NetworkPolicy::Unrestricted => "Enabled".to_owned(),
        NetworkPolicy::Rules(rules) if rules.is_empty() => "No access".to_owned(),
        NetworkPolicy::Rules(rules) => rules
            .iter()
            .map(|rule| format!("{} {}", rule.action.as_str(), rule.host_glob))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}
