//! What the tests of this crate share.
#![allow(dead_code, reason = "each test binary uses a part")]

use domain::{
    compute::Machine,
    environment::{Catalog, Definition, parse_create, parse_patch},
    issues::Issues,
};
use serde_json::{Value, json};

/// A deployment that offers everything, on machines of 16 vCPU and 64 GiB.
pub fn rich() -> Catalog {
    plain()
        .with_egress()
        .with_privileged()
        .with_computer_use()
        .with_mounts(["data"])
        .with_accelerators(["T4", "L4"])
        .with_placements(["east", "west"])
        .with_config_keys(["nested"])
}

/// A deployment with nothing optional.
pub fn plain() -> Catalog {
    Catalog::default_runs(
        "runner:1",
        Machine {
            cpu_milli: 16_000,
            memory_mib: 65_536,
        },
    )
}

/// A create body with a name and these fields.
pub fn body(fields: Value) -> Value {
    let mut body = json!({"name": "data-analysis"});
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    body
}

/// A definition from a create body, on the rich deployment.
pub fn definition(fields: Value) -> Definition {
    parse_create(&body(fields), &rich()).expect("a valid body")
}

/// The issues' paths.
pub fn paths(issues: &Issues) -> Vec<&str> {
    issues.0.iter().map(|issue| issue.path.as_str()).collect()
}

/// A definition with a script.
pub fn with_script() -> Definition {
    definition(json!({"setup": {"script": "make"}}))
}

/// The definition after this patch.
pub fn edit(saved: &Definition, patch: Value) -> Definition {
    parse_patch(&patch, &rich())
        .unwrap()
        .apply(saved, &rich())
        .unwrap()
}

/// Asserts that these fields are refused at this path alone, with a message that says this word.
pub fn refused(catalog: &Catalog, fields: Value, path: &str, word: &str) {
    match parse_create(&body(fields.clone()), catalog) {
        Ok(definition) => panic!("{fields} was accepted: {definition:?}"),
        Err(issues) => {
            assert_eq!(paths(&issues), [path], "{fields}: {issues:?}");
            assert!(
                issues.0[0].message.contains(word),
                "{fields}: {:?} does not say {word:?}",
                issues.0[0].message
            );
        }
    }
}
