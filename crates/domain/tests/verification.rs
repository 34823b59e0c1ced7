//! The verdict: every event of the table, staleness, usability and the *Setup* column (spec 1-domain, *Verification*).

mod common;
use common::{definition, rich};
use domain::{
    diff::changed_fields,
    environment::{Definition, parse_create, parse_patch},
    fingerprint::{self, Fingerprint},
    ids::{SetupRunId, UserId},
    setup_run::{Kind, Phase, Status},
    timestamp::Timestamp,
    verification::{
        RunEnd, RunSummary, SetupBadge, SetupImage, Usability, Verification, VerificationStatus,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

fn run(n: u128) -> SetupRunId {
    SetupRunId::from_uuid(Uuid::from_u128(n))
}

fn with_script() -> Definition {
    definition(json!({"setup": {"script": "make"}}))
}

fn edit(saved: &Definition, patch: Value) -> Definition {
    parse_patch(&patch, &rich())
        .unwrap()
        .apply(saved, &rich())
        .unwrap()
}

fn image(usable: bool, fingerprint: &Fingerprint) -> SetupImage {
    SetupImage {
        image_id: "img".to_owned(),
        compute_id: "c".to_owned(),
        setup_run_id: run(1),
        image: "setup@sha256:0".to_owned(),
        base_image_digest: "sha256:1".to_owned(),
        fingerprint: fingerprint.clone(),
        runner_image: "runner:1".to_owned(),
        generation: 1,
        size_bytes: 1,
        captured_at: Timestamp::from_micros(1),
        usable,
    }
}

fn end(n: u128, status: Status, tested: &Definition) -> RunEnd {
    let fingerprint = fingerprint::of(tested);
    RunEnd {
        kind: Kind::Manual,
        summary: RunSummary {
            setup_run_id: run(n),
            status,
            phase: Phase::Setup,
            message: None,
            exit_code: None,
            failed_line: None,
            failed_command: None,
            hint_code: None,
            hint: None,
            stderr_tail: None,
            duration_ms: None,
        },
        image: Some(image(true, &fingerprint)),
        fingerprint,
        at: Timestamp::from_micros(5),
        requested_by: UserId::from_uuid(Uuid::from_u128(9)),
        image_capture: None,
    }
}

fn verified(tested: &Definition) -> Verification {
    Verification::created(tested)
        .run_started(run(1), &fingerprint::of(tested))
        .run_finished(&end(1, Status::Succeeded, tested), true)
}

fn failed(tested: &Definition) -> Verification {
    Verification::created(tested)
        .run_started(run(1), &fingerprint::of(tested))
        .run_finished(&end(1, Status::Failed, tested), true)
}

#[test]
fn created_and_gaining_or_losing_the_script() {
    let without = definition(json!({}));
    let with = with_script();
    assert_eq!(
        Verification::created(&without).status,
        VerificationStatus::NotApplicable
    );
    assert_eq!(
        Verification::created(&with).status,
        VerificationStatus::Never
    );
    assert_eq!(
        verified(&with).edited(&with, &without).status,
        VerificationStatus::NotApplicable
    );
    assert_eq!(
        Verification::created(&without)
            .edited(&without, &with)
            .status,
        VerificationStatus::Never
    );
    // A script that comes back is not verified by what was verified before it went.
    let back = verified(&with)
        .edited(&with, &without)
        .edited(&without, &with);
    assert_eq!(
        (back.status, back.image.is_some()),
        (VerificationStatus::Never, false)
    );
}

#[test]
fn an_edit_makes_the_verdict_stale_and_undoing_it_makes_it_current() {
    let before = with_script();
    for verdict in [verified(&before), failed(&before)] {
        let after = edit(&before, json!({"pvc_size_gi": 20}));
        let stale = verdict.edited(&before, &after);
        assert_eq!(stale.status, verdict.status);
        assert!(stale.is_stale(&fingerprint::of(&after)));
        let undone = edit(&after, json!({"pvc_size_gi": 0}));
        assert!(
            !stale
                .edited(&after, &undone)
                .is_stale(&fingerprint::of(&undone))
        );
    }
}

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
fn a_run_starts() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let again = verified(&d).run_started(run(2), &current);
    assert_eq!(again.status, VerificationStatus::Verified);
    assert_eq!(again.badge(&current), SetupBadge::Retesting);
    assert_eq!(again.usability(&current), Usability::Usable);
    let other = edit(&d, json!({"pvc_size_gi": 20}));
    for verdict in [Verification::created(&d), failed(&d), verified(&other)] {
        let running = verdict.run_started(run(2), &current);
        assert_eq!(running.status, VerificationStatus::Running);
        assert!(!running.is_stale(&current));
        assert_eq!(running.active_setup_run_id, Some(run(2)));
        assert_eq!(running.usability(&current), Usability::WaitFor(run(2)));
        assert_eq!(running.badge(&current), SetupBadge::Testing);
    }
}

#[test]
fn a_run_ends() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let passed = verified(&d);
    assert_eq!(passed.status, VerificationStatus::Verified);
    assert_eq!(
        passed.verified_by_user_id,
        Some(UserId::from_uuid(Uuid::from_u128(9)))
    );
    assert_eq!(passed.active_setup_run_id, None);
    let again = passed.run_started(run(2), &current);
    let bad = again.run_finished(&end(2, Status::Failed, &d), true);
    assert_eq!(
        (bad.status, bad.setup_run_id),
        (VerificationStatus::Failed, Some(run(2)))
    );
    assert!(bad.image.is_none() && bad.verified_by_user_id.is_none());
    assert_eq!(again.run_cancelled(), passed);
    let first = Verification::created(&d).run_started(run(1), &current);
    assert_eq!(first.run_cancelled(), Verification::created(&d));
    // An edit meanwhile leaves the verdict stale at once.
    let edited = edit(&d, json!({"pvc_size_gi": 20}));
    let late = first
        .edited(&d, &edited)
        .run_finished(&end(1, Status::Succeeded, &d), true);
    assert_eq!(late.status, VerificationStatus::Verified);
    assert!(late.is_stale(&fingerprint::of(&edited)));
    // The script went meanwhile.
    let without = edit(&d, json!({"setup": {}}));
    let gone = first
        .edited(&d, &without)
        .run_finished(&end(1, Status::Failed, &d), false);
    assert_eq!(gone, Verification::created(&without));
}

#[test]
fn a_runner_refresh_that_fails_leaves_the_verdict() {
    let d = with_script();
    let before = verified(&d);
    let refreshing = before.run_started(run(2), &fingerprint::of(&d));
    let refresh = |status| RunEnd {
        kind: Kind::RunnerRefresh,
        ..end(2, status, &d)
    };
    assert_eq!(
        refreshing.run_finished(&refresh(Status::Failed), true),
        before
    );
    assert_eq!(
        refreshing
            .run_finished(&refresh(Status::Succeeded), true)
            .setup_run_id,
        Some(run(2))
    );
}

#[test]
fn usable_and_the_setup_column() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let other = fingerprint::of(&edit(&d, json!({"pvc_size_gi": 20})));
    let without_image = Verification {
        image: None,
        ..verified(&d)
    };
    let evicted = Verification {
        image: Some(image(false, &current)),
        ..verified(&d)
    };
    for (verdict, today, badge, label, usable) in [
        (
            Verification::created(&definition(json!({}))),
            &current,
            SetupBadge::Ready,
            "Ready",
            Usability::Usable,
        ),
        (
            Verification::created(&d),
            &current,
            SetupBadge::NotTested,
            "Not tested",
            Usability::NeedsRun,
        ),
        (
            verified(&d),
            &current,
            SetupBadge::Verified,
            "Verified",
            Usability::Usable,
        ),
        (
            verified(&d),
            &other,
            SetupBadge::Stale,
            "Stale",
            Usability::NeedsRun,
        ),
        (
            failed(&d),
            &current,
            SetupBadge::Failed,
            "Failed",
            Usability::NeedsRun,
        ),
        (
            failed(&d),
            &other,
            SetupBadge::Stale,
            "Stale",
            Usability::NeedsRun,
        ),
        (
            without_image,
            &current,
            SetupBadge::NoImage,
            "No image",
            Usability::NeedsRun,
        ),
        (
            evicted,
            &current,
            SetupBadge::NoImage,
            "No image",
            Usability::NeedsRun,
        ),
        (
            verified(&d).run_started(run(2), &current),
            &current,
            SetupBadge::Retesting,
            "Re-testing",
            Usability::Usable,
        ),
        (
            Verification::created(&d).run_started(run(2), &current),
            &current,
            SetupBadge::Testing,
            "Testing",
            Usability::WaitFor(run(2)),
        ),
    ] {
        assert_eq!(verdict.badge(today), badge);
        assert_eq!(badge.label(), label);
        assert_eq!(verdict.usability(today), usable, "{label}");
    }
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
        let stale = verified(&before).edited(&before, &after);
        let differs = changed_fields(&before, &after).iter().any(|change| change.affects_verdict);
        prop_assert_eq!(stale.is_stale(&fingerprint::of(&after)), differs);
        prop_assert!(!stale.edited(&after, &before).is_stale(&fingerprint::of(&before)));
    }
}
