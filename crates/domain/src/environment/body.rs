//! A definition as a create body: for duplicating, templates, and filling in the console's form.

use serde_json::{Map, Value, json};

use super::Definition;

impl Definition {
    /// The body of a create call that makes the same definition again. Fields at their defaults are left out, except
    /// those that a template's definition must have (`setup`, `resources`), and the policy, so that it is never a surprise.
    pub fn to_create_body(&self) -> Value {
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
        put("name", json!(self.name));
        if !self.description.is_empty() {
            put("description", json!(self.description));
        }
        if let Some(metadata) = &self.metadata {
            put("metadata", json!(metadata));
        }
        if let Some(template) = &self.template {
            put(
                "template",
                json!({"id": template.id, "revision": template.revision}),
            );
        }
        put("provider", json!(self.provider));
        if let Some(config) = &self.config {
            put("config", json!(config));
        }
        let mut setup = Map::new();
        if self.has_script() {
            setup.insert("script".to_owned(), json!(self.setup.script));
        }
        if self.setup.timeout_seconds != 0 {
            setup.insert(
                "timeout_seconds".to_owned(),
                json!(self.setup.timeout_seconds),
            );
        }
        put("setup", Value::Object(setup));
        put("resources", json!(self.resources));
        put("network_policy", self.network_policy.to_json());
        if self.privileged {
            put("privileged", json!(true));
        }
        if !self.env_vars.is_empty() {
            put("env_vars", json!(self.env_vars));
        }
        if !self.mounts.is_empty() {
            put("mounts", json!(self.mounts));
        }
        if self.computer_use {
            put("computer_use", json!(true));
        }
        for (key, value) in [
            ("pvc_size_gi", self.pvc_size_gi),
            ("http_port", u32::from(self.http_port)),
            ("idle_stop_after_seconds", self.idle_stop_after_seconds),
            (
                "stopped_delete_after_seconds",
                self.stopped_delete_after_seconds,
            ),
        ] {
            if value != 0 {
                put(key, json!(value));
            }
        }
        Value::Object(body)
    }
}
