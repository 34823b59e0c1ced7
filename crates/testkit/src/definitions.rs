//! What tests make environments from.

use domain::{
    compute::Machine,
    environment::{Catalog, Definition, parse_create},
};
use serde_json::{Value, json};

/// A password that every rule accepts.
pub const PASSWORD: &str = "correct horse battery";

/// A catalog that offers everything that is optional, on machines of 8 vCPU and 32 GiB.
pub fn catalog() -> Catalog {
    Catalog::default_runs(
        "groundwork/runner:full",
        Machine {
            cpu_milli: 8_000,
            memory_mib: 32_768,
        },
    )
    .with_egress()
    .with_privileged()
    .with_computer_use()
    .with_mounts(["models"])
}

/// A create body with a name and, unless empty, a script.
pub fn create_body(name: &str, script: &str) -> Value {
    let mut body = json!({"name": name, "network_policy": {"version": "v1", "rules": []}});
    if !script.is_empty() {
        body["setup"] = json!({"script": script});
    }
    body
}

/// The definition of [`create_body`].
pub fn definition(name: &str, script: &str) -> Definition {
    parse_create(&create_body(name, script), &catalog()).expect("the body is valid")
}
