//! Fingerprints and differences between definitions (spec 1-domain, *Verification*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{definition, edit, rich, with_script};
use domain::{
    diff::changed_fields,
    environment::{Definition, parse_create},
    fingerprint,
    verification::{Verification, VerificationStatus},
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn only_the_fields_of_the_v_column_count() {
    let before = definition(json!({"setup": {"script": "make"}, "network_policy": {}}));
    let rule = json!({"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "allow"}}]});
    for (patch, counts) in [
        (json!({"name": "b"}), false),
        (json!({"description": "b"}), false),
        (json!({"metadata": {"a": 1}}), false),
        (json!({"computer_use": true}), false),
        (json!({"http_port": 80}), false),
        (json!({"idle_stop_after_seconds": 600}), false),
        (json!({"stopped_delete_after_seconds": 3_600}), false),
        (
            json!({"setup": {"script": "make", "timeout_seconds": 600}}),
            false,
        ),
        (
            json!({"resources": {"cpu_milli": 2_000, "memory_mib": 4_096}}),
            false,
        ),
        (json!({"pvc_size_gi": 10}), false),
        (json!({"config": {}}), false),
        (json!({"config": {"nested": 1}}), true),
        (json!({"setup": {"script": "make all"}}), true),
        (
            json!({"setup": {"script": "make", "timeout_seconds": 700}}),
            true,
        ),
        (json!({"resources": {"cpu_milli": 1_000}}), true),
        (json!({"resources": {"memory_mib": 8_192}}), true),
        (json!({"resources": {"accelerator": {"name": "T4"}}}), true),
        (
            json!({"resources": {"placement": {"providers": ["east"]}}}),
            true,
        ),
        (json!({"resources": {"timeout_seconds": 60}}), true),
        (json!({"network_policy": rule}), true),
        (
            json!({"privileged": true, "expected_access": {"network_policy": {}, "privileged": false}}),
            true,
        ),
        (json!({"pvc_size_gi": 11}), true),
        (json!({"env_vars": {"A": "1"}}), true),
        (
            json!({"mounts": [{"source": "volume:data", "mount_path": "/mnt/a"}]}),
            true,
        ),
    ] {
        let after = edit(&before, patch.clone());
        assert_eq!(
            fingerprint::of(&before) != fingerprint::of(&after),
            counts,
            "{patch}"
        );
        let changes = changed_fields(&before, &after);
        assert_eq!(
            changes.iter().any(|change| change.affects_verdict),
            counts,
            "{patch}: {changes:?}"
        );
    }
    for other in [
        Definition {
            provider: "other".to_owned(),
            ..before.clone()
        },
        Definition {
            image: "runner:2".to_owned(),
            ..before.clone()
        },
    ] {
        assert_ne!(fingerprint::of(&before), fingerprint::of(&other));
    }
}

#[test]
fn a_fingerprint_is_stable() {
    // Changing how it is made would make every verdict of every deployment stale.
    assert_eq!(
        fingerprint::of(&with_script()).0,
        "sha256:1fe093572c98c4cd6d68459ecb1f30df6b161370826ea4ff6c315ffcc9d04a64"
    );
    let secrets = [("TOKEN".to_owned(), "aa".to_owned())].into();
    assert_ne!(
        fingerprint::of(&with_script()),
        fingerprint::of_with_secrets(&with_script(), &secrets)
    );
}

#[test]
fn equal_accelerators_and_hosts_have_equal_fingerprints() {
    let host = |host: &str| {
        definition(
            json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": host}, "action": {"type": "allow"}}]}}),
        )
    };
    assert_eq!(
        fingerprint::of(&host("Example.COM.")),
        fingerprint::of(&host("example.com"))
    );
    let gpu = |extra: Value| {
        let mut accelerator = json!({"name": "T4"});
        accelerator
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        fingerprint::of(&definition(
            json!({"resources": {"accelerator": accelerator}}),
        ))
    };
    assert_eq!(gpu(json!({})), gpu(json!({"count": 1, "type": "gpu"})));
}

#[test]
fn a_difference_reads_well() {
    let before = definition(json!({
        "setup": {"script": "make"},
        "env_vars": {"A": "1", "B": "2"},
        "network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "allow"}}]},
    }));
    let mut after = edit(
        &before,
        json!({
            "name": "other",
            "setup": {"script": "make", "timeout_seconds": 900},
            "resources": {"cpu_milli": 4_000, "memory_mib": 1_300},
            "env_vars": {"B": "3", "C": "4"},
            "pvc_size_gi": 10,
        }),
    );
    after.network_policy = domain::network_policy::NetworkPolicy::Unrestricted;
    let shown: Vec<String> = changed_fields(&before, &after)
        .iter()
        .map(|c| {
            format!(
                "{} [{}] {} -> {} {}",
                c.path, c.label, c.before, c.after, c.affects_verdict
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "name [Name] data-analysis -> other false",
            "network_policy [Internet access] allow a.example -> Enabled true",
            "resources.cpu_milli [CPU] 2 vCPU (default) -> 4 vCPU true",
            "resources.memory_mib [Memory] 4 GiB (default) -> 1300 MiB true",
            "pvc_size_gi [Workspace disk] 10 GiB (default) -> 10 GiB false",
            "setup.timeout_seconds [Setup timeout] 600 s (default) -> 900 s true",
            "env_vars.A [Variable A] 1 -> (not set) true",
            "env_vars.B [Variable B] 2 -> 3 true",
            "env_vars.C [Variable C] (not set) -> 4 true",
        ]
    );
    assert!(changed_fields(&before, &before).is_empty());
}

/// Create bodies of every kind of field.
fn any_body() -> impl Strategy<Value = Value> {
    let optional = |values: Vec<Value>| prop::option::of(prop::sample::select(values));
    let glob = prop::sample::select(vec![
        "a.example",
        "*.Example.com",
        "*",
        "10.0.0.1",
        "bücher.example.",
    ]);
    let rule = (glob, any::<bool>()).prop_map(|(glob, allow)| {
        json!({"match": {"host_glob": glob}, "action": {"type": if allow { "allow" } else { "deny" }}})
    });
    let policy = prop_oneof![
        Just(json!({})),
        prop::collection::vec(rule, 0..4)
            .prop_map(|rules| json!({"version": "v1", "rules": rules})),
    ];
    (
        "[ a-zA-Zäß0-9-]{0,20}[a-z]",
        prop::option::of("(?s).{0,40}"),
        prop::option::of("[^\u{0}]{0,60}"),
        (optional(vec![json!(0), json!(10), json!(3_600)]), optional(vec![json!(0), json!(5), json!(100)])),
        (prop::option::of(policy), any::<bool>()),
        prop::option::of(prop::collection::btree_map("V[A-Z_]{0,3}", "[^\u{0}]{0,10}", 0..4)),
        optional(vec![
            json!({}),
            json!({"cpu_milli": 250, "memory_mib": 1_024, "timeout_seconds": 60}),
            json!({"accelerator": {"name": "L4", "count": 1}, "placement": {"providers": ["west"]}}),
        ]),
        (
            optional(vec![json!({}), json!({"a": [1.5, null, {"b": "c"}]})]),
            optional(vec![json!({}), json!({"nested": true})]),
            optional(vec![json!({"id": "node-web", "revision": 2})]),
            optional(vec![json!([]), json!([{"source": "https://example.com/a", "mount_path": "/mnt//a/"}])]),
        ),
        (any::<bool>(), optional(vec![json!(0), json!(80)]), optional(vec![json!(0), json!(600)]), optional(vec![json!(0), json!(3_600)])),
    )
        .prop_map(|(name, description, script, (timeout, disk), (policy, privileged), vars, resources, (metadata, config, template, mounts), (computer_use, port, idle, kept))| {
            let mut body = json!({"name": name});
            let mut put = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    body[key] = value;
                }
            };
            put("description", description.map(Value::from));
            let mut setup = json!({});
            if let Some(script) = script {
                setup["script"] = json!(script);
            }
            if let Some(timeout) = timeout {
                setup["timeout_seconds"] = timeout;
            }
            put("setup", Some(setup));
            put("privileged", Some(json!(privileged && policy == Some(json!({})))));
            put("network_policy", policy);
            put("env_vars", vars.map(|vars| json!(vars)));
            put("resources", resources);
            put("metadata", metadata);
            put("config", config);
            put("template", template);
            put("mounts", mounts);
            put("pvc_size_gi", disk);
            put("computer_use", Some(json!(computer_use)));
            put("http_port", port);
            put("idle_stop_after_seconds", idle);
            put("stopped_delete_after_seconds", kept);
            body
        })
}

proptest! {
    #[test]
    fn a_definition_survives_its_create_body_and_its_saved_form(body in any_body()) {
        let made = parse_create(&body, &rich()).unwrap();
        prop_assert_eq!(&parse_create(&made.to_create_body(), &rich()).unwrap(), &made);
        let saved = serde_json::to_string(&made).unwrap();
        let read: Definition = serde_json::from_str(&saved).unwrap();
        prop_assert_eq!(fingerprint::of(&read), fingerprint::of(&made));
        prop_assert_eq!(read, made);
    }

    #[test]
    fn undoing_any_edit_clears_stale(before in any_body(), after in any_body()) {
        let parse = |mut body: Value| {
            let script = body["setup"]["script"].as_str().unwrap_or_default();
            body["setup"]["script"] = json!(format!("make\n{script}"));
            parse_create(&body, &rich()).unwrap()
        };
        let (before, after) = (parse(before), parse(after));
        let stale = Verification {
            status: VerificationStatus::Verified,
            fingerprint: Some(fingerprint::of(&before)),
            ..Verification::created(&before)
        }
        .edited(&before, &after);
        let differs = changed_fields(&before, &after).iter().any(|change| change.affects_verdict);
        prop_assert_eq!(stale.is_stale(&fingerprint::of(&after)), differs);
        prop_assert!(!stale.edited(&after, &before).is_stale(&fingerprint::of(&before)));
    }
}
