//! The hash of the fields that a verdict rests upon (spec 1-domain, the `V` column).

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::environment::Definition;

/// A hash of an environment's verification-relevant fields: `sha256:` and 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Fingerprint(pub String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fields of the `V` column in their canonical form, each under its name: defaults resolved, so that 0 and the default
/// are the same; hosts normalised; empty and absent alike. The script counts with its timeout.
pub(crate) fn fields(definition: &Definition) -> BTreeMap<&'static str, Value> {
    let resources = &definition.resources;
    BTreeMap::from([
        ("provider", json!(definition.provider)),
        ("image", json!(definition.image)),
        (
            "config",
            Value::Object(definition.config.clone().unwrap_or_default()),
        ),
        ("setup.script", json!(definition.setup.script)),
        (
            "setup.timeout_seconds",
            json!(definition.effective_setup_timeout()),
        ),
        (
            "resources.cpu_milli",
            json!(resources.effective_cpu_milli()),
        ),
        (
            "resources.memory_mib",
            json!(resources.effective_memory_mib()),
        ),
        (
            "resources.accelerator",
            json!(resources.accelerator.as_ref().map(|a| &a.name)),
        ),
        (
            "resources.placement",
            json!(resources.placement.as_ref().map(|p| &p.providers)),
        ),
        (
            "resources.timeout_seconds",
            json!(resources.timeout_seconds),
        ),
        (
            "network_policy",
            definition.network_policy.normalised().to_json(),
        ),
        ("privileged", json!(definition.privileged)),
        ("pvc_size_gi", json!(definition.effective_disk_gi())),
        ("env_vars", json!(definition.env_vars)),
        ("mounts", json!(definition.mounts)),
    ])
}

/// The fingerprint of a definition without secret variables.
pub fn of(definition: &Definition) -> Fingerprint {
    of_with_secrets(definition, &BTreeMap::new())
}

/// The fingerprint of a definition with secret variables: name to *keyed* hash of the value. Never pass values.
pub fn of_with_secrets(
    definition: &Definition,
    keyed_hashes: &BTreeMap<String, String>,
) -> Fingerprint {
    let mut all = fields(definition);
    if !keyed_hashes.is_empty() {
        all.insert("secrets", json!(keyed_hashes));
    }
    let mut canonical = String::new();
    write_canonical(&json!(all), &mut canonical);
    Fingerprint(format!(
        "sha256:{}",
        hex::encode(Sha256::digest(canonical.as_bytes()))
    ))
}

/// JSON with sorted keys and no white space, whatever order the maps keep.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&json!(key).to_string());
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
