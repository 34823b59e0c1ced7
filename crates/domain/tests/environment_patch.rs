//! Updates: replacing, clearing, and the access precondition (spec 1-domain, *Access precondition*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{definition, paths, plain, rich};
use domain::environment::{Definition, PatchRefusal, parse_patch};
use serde_json::{Value, json};

fn apply(saved: &Definition, patch: Value) -> Result<Definition, PatchRefusal> {
    parse_patch(&patch, &rich())
        .unwrap_or_else(|issues| panic!("{patch}: {issues:?}"))
        .apply(saved, &rich())
}

fn invalid(result: Result<Definition, PatchRefusal>) -> Vec<String> {
    match result {
        Err(PatchRefusal::Invalid(issues)) => {
            issues.0.into_iter().map(|issue| issue.path).collect()
        }
        other => panic!("not invalid: {other:?}"),
    }
}

fn allow(host: &str) -> Value {
    json!({"version": "v1", "rules": [{"match": {"host_glob": host}, "action": {"type": "allow"}}]})
}

fn closed() -> Value {
    json!({"version": "v1", "rules": []})
}

#[test]
fn a_patch_needs_a_field_and_knows_only_its_own() {
    assert_eq!(
        paths(&parse_patch(&json!({}), &rich()).unwrap_err()),
        ["body"]
    );
    assert_eq!(
        paths(&parse_patch(&json!([]), &rich()).unwrap_err()),
        ["body"]
    );
    for (patch, path) in [
        (json!({"template": {"id": "a", "revision": 1}}), "template"),
        (json!({"environment_id": "x"}), "environment_id"),
        (json!({"name": " "}), "name"),
        (
            json!({"expected_access": {"privileged": false}}),
            "expected_access.network_policy",
        ),
        (
            json!({"expected_access": {"network_policy": {}}}),
            "expected_access.privileged",
        ),
        (
            json!({"expected_access": {"network_policy": {}, "privileged": false, "x": 1}}),
            "expected_access.x",
        ),
        (
            json!({"expected_access": {"network_policy": {"version": "v9", "rules": []}, "privileged": false}}),
            "expected_access.network_policy.version",
        ),
        (json!({"secrets": {"A": "b"}}), "secrets"),
    ] {
        assert_eq!(
            paths(&parse_patch(&patch, &rich()).unwrap_err()),
            [path],
            "{patch}"
        );
    }
    let saved = definition(json!({}));
    for patch in [
        json!({"secrets": {}}),
        json!({"scope": "organization"}),
        json!({"provider": "runs"}),
    ] {
        assert_eq!(apply(&saved, patch).unwrap(), saved);
    }
}

#[test]
fn what_is_given_replaces_as_a_whole_and_the_rest_stays() {
    let saved = definition(json!({
        "description": "d",
        "metadata": {"a": 1},
        "config": {"nested": true},
        "setup": {"script": "make", "timeout_seconds": 60},
        "resources": {"cpu_milli": 4_000, "memory_mib": 8_192},
        "env_vars": {"A": "1", "B": "2"},
        "mounts": [{"source": "volume:data", "mount_path": "/mnt/a"}],
        "network_policy": allow("a.example"),
    }));
    let next = apply(
        &saved,
        json!({
            "description": "",
            "metadata": {},
            "config": {},
            "setup": {"script": "make all"},
            "resources": {"memory_mib": 2_048},
            "env_vars": {"C": "3"},
            "mounts": [],
        }),
    )
    .unwrap();
    assert_eq!(next.description, "");
    assert_eq!(next.metadata, Some(serde_json::Map::new()));
    assert_eq!(next.config, Some(serde_json::Map::new()));
    assert_eq!(
        (next.setup.script.as_str(), next.setup.timeout_seconds),
        ("make all\n", 0)
    );
    assert_eq!(
        (next.resources.cpu_milli, next.resources.memory_mib),
        (0, 2_048)
    );
    assert_eq!(next.env_vars.keys().collect::<Vec<_>>(), ["C"]);
    assert!(next.mounts.is_empty());
    assert_eq!(next.network_policy, saved.network_policy);
    assert_eq!(next.name, saved.name);
    let without = apply(&saved, json!({"setup": {"script": ""}})).unwrap();
    assert!(!without.has_script());
}

#[test]
fn the_runtime_never_changes() {
    let saved = definition(json!({}));
    assert_eq!(
        invalid(apply(&saved, json!({"provider": "docker"}))),
        ["provider"]
    );
}

#[test]
fn computer_use_brings_and_takes_its_port() {
    let saved = definition(json!({"http_port": 8_080}));
    let on = apply(&saved, json!({"computer_use": true})).unwrap();
    assert_eq!(on.http_port, 6_901);
    assert_eq!(
        apply(&on, json!({"http_port": 80})).unwrap().http_port,
        6_901
    );
    assert_eq!(
        apply(&on, json!({"computer_use": false}))
            .unwrap()
            .http_port,
        0
    );
    assert_eq!(
        apply(&on, json!({"computer_use": false, "http_port": 80}))
            .unwrap()
            .http_port,
        80
    );
}

#[test]
fn computer_use_and_a_short_idle_stop_do_not_meet() {
    let short = definition(json!({"idle_stop_after_seconds": 300}));
    assert_eq!(
        invalid(apply(&short, json!({"computer_use": true}))),
        ["idle_stop_after_seconds"]
    );
    assert!(
        apply(
            &short,
            json!({"computer_use": true, "idle_stop_after_seconds": 0})
        )
        .is_ok()
    );
    let on = definition(json!({"computer_use": true}));
    assert_eq!(
        invalid(apply(&on, json!({"idle_stop_after_seconds": 300}))),
        ["idle_stop_after_seconds"]
    );
    assert!(apply(&on, json!({"idle_stop_after_seconds": 600})).is_ok());
}

#[test]
fn the_access_precondition() {
    let expect = |policy: Value, privileged: bool| json!({"network_policy": policy, "privileged": privileged});
    let privileged = json!({"network_policy": {}, "privileged": true});
    // (saved, patch, expected_access, outcome)
    let ok = None;
    let required = Some(PatchRefusal::PreconditionRequired);
    let failed = Some(PatchRefusal::PreconditionFailed);
    for (saved, patch, expected, outcome) in [
        // A saved policy other than {} changes.
        (json!({}), json!({"network_policy": {}}), None, &required),
        (
            json!({}),
            json!({"network_policy": allow("a.example")}),
            None,
            &required,
        ),
        (
            json!({"network_policy": allow("a.example")}),
            json!({"network_policy": closed()}),
            None,
            &required,
        ),
        (
            json!({}),
            json!({"network_policy": {}}),
            Some(expect(closed(), false)),
            &ok,
        ),
        (
            json!({}),
            json!({"network_policy": {}}),
            Some(expect(closed(), true)),
            &failed,
        ),
        (
            json!({}),
            json!({"network_policy": {}}),
            Some(expect(allow("a.example"), false)),
            &failed,
        ),
        (
            json!({}),
            json!({"network_policy": {}}),
            Some(expect(json!({}), false)),
            &failed,
        ),
        (
            json!({"network_policy": allow("A.Example.")}),
            json!({"network_policy": {}}),
            Some(expect(allow("a.example"), false)),
            &ok,
        ),
        // Closing needs none, but one that is sent must hold.
        (
            json!({"network_policy": {}}),
            json!({"network_policy": closed()}),
            None,
            &ok,
        ),
        (
            json!({"network_policy": {}}),
            json!({"network_policy": closed()}),
            Some(expect(closed(), false)),
            &failed,
        ),
        (privileged.clone(), json!({"privileged": false}), None, &ok),
        (
            privileged.clone(),
            json!({"privileged": false, "network_policy": closed()}),
            None,
            &ok,
        ),
        // Turning privileged on.
        (
            json!({"network_policy": {}}),
            json!({"privileged": true}),
            None,
            &required,
        ),
        (
            json!({"network_policy": {}}),
            json!({"privileged": true}),
            Some(expect(json!({}), false)),
            &ok,
        ),
        (
            json!({}),
            json!({"privileged": true, "network_policy": {}}),
            None,
            &required,
        ),
        (
            json!({}),
            json!({"privileged": true, "network_policy": {}}),
            Some(expect(closed(), false)),
            &ok,
        ),
        // Nothing changes.
        (
            json!({}),
            json!({"network_policy": closed(), "privileged": false}),
            None,
            &ok,
        ),
        (
            json!({"network_policy": allow("a.example")}),
            json!({"network_policy": allow("A.EXAMPLE")}),
            None,
            &ok,
        ),
        (privileged, json!({"privileged": true}), None, &ok),
        (json!({}), json!({"name": "b"}), None, &ok),
    ] {
        let mut patch = patch;
        if let Some(expected) = expected {
            patch["expected_access"] = expected;
        }
        let result = apply(&definition(saved.clone()), patch.clone());
        assert_eq!(
            result.err().as_ref(),
            outcome.as_ref(),
            "{saved} then {patch}"
        );
    }
}

#[test]
fn a_change_of_access_never_leaves_privileged_with_a_policy() {
    let privileged = definition(json!({"network_policy": {}, "privileged": true}));
    assert_eq!(
        invalid(apply(&privileged, json!({"network_policy": closed()}))),
        ["privileged"]
    );
    let restricted = definition(json!({"network_policy": allow("a.example")}));
    assert_eq!(
        invalid(apply(&restricted, json!({"privileged": true}))),
        ["privileged"]
    );
    // Saved with both, by an older version: other fields stay editable, and it can be mended.
    let both = Definition {
        privileged: true,
        ..restricted
    };
    assert!(
        apply(
            &both,
            json!({"name": "b", "privileged": true, "network_policy": allow("a.example")})
        )
        .is_ok()
    );
    assert_eq!(
        invalid(apply(&both, json!({"network_policy": closed()}))),
        ["privileged"]
    );
    assert!(apply(&both, json!({"privileged": false})).is_ok());
}

#[test]
fn what_the_deployment_no_longer_offers_can_stay_but_not_come() {
    let saved = definition(json!({"network_policy": {}, "computer_use": true}));
    let patch = parse_patch(
        &json!({"name": "b", "network_policy": {}, "computer_use": true}),
        &plain(),
    )
    .unwrap();
    assert_eq!(patch.apply(&saved, &plain()).unwrap().name, "b");
    let closed = definition(json!({}));
    let patch = parse_patch(
        &json!({"network_policy": {}, "computer_use": true}),
        &plain(),
    )
    .unwrap();
    assert_eq!(
        invalid(patch.apply(&closed, &plain())),
        ["computer_use", "network_policy"]
    );
}

#[test]
fn a_patch_knows_whether_it_races() {
    let saved = definition(json!({}));
    for (patch, races) in [
        (json!({"name": "b"}), false),
        (json!({"network_policy": closed()}), false),
        (json!({"network_policy": {}}), true),
        (json!({"privileged": true}), true),
        (json!({"resources": {}}), false),
        (json!({"resources": {"cpu_milli": 1_000}}), true),
        (json!({"pvc_size_gi": 20}), true),
    ] {
        let parsed = parse_patch(&patch, &rich()).unwrap();
        assert_eq!(parsed.changes_access_or_compute(&saved), races, "{patch}");
    }
}
