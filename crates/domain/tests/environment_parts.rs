//! Variables, mounts, sizes, and what a deployment does not offer (spec 1-domain, *Environment fields*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{body, definition, plain, refused, rich};
use domain::{
    compute::{Machine, Sizes},
    environment::{parse_create, parse_patch},
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn each_reserved_variable_is_refused_and_says_what_to_do_instead() {
    for name in [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PWD",
        "IFS",
        "ENV",
        "BASH_ENV",
        "BASHOPTS",
        "SHELLOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
        "GCONV_PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_",
        "BASH_FUNC_ls",
        "GROUNDWORK_RUN",
    ] {
        let fields = json!({"env_vars": {name: "x"}});
        refused(&rich(), fields, &format!("env_vars.{name}"), "");
        let message = domain::env_vars::refusal(name).unwrap();
        assert!(message.len() > 90, "{message}");
    }
    for name in ["MY_PATH", "LDAP", "path", "BASH_FUN", "GROUNDWORKS"] {
        assert_eq!(domain::env_vars::name_problem(name), None);
    }
}

#[test]
fn mounts_are_at_most_32_and_their_paths_at_most_1024_bytes() {
    let mounts = |paths: &[String]| {
        let mounts: Vec<_> = paths
            .iter()
            .map(|path| json!({"source": "volume:data", "mount_path": path}))
            .collect();
        json!({"mounts": mounts})
    };
    let many: Vec<String> = (0..33).map(|n| format!("/mnt/m{n}")).collect();
    assert_eq!(definition(mounts(&many[..32])).mounts.len(), 32);
    refused(&rich(), mounts(&many), "mounts", "At most 32");
    let longest = format!("/mnt{}", format!("/{}", "a".repeat(254)).repeat(4));
    assert_eq!(longest.len(), 1_024);
    let made = definition(mounts(std::slice::from_ref(&longest)));
    assert_eq!(made.mounts[0].mount_path, longest);
    refused(
        &rich(),
        mounts(&[longest + "a"]),
        "mounts[0].mount_path",
        "1024 bytes",
    );
}

#[test]
fn mounts_are_checked_and_their_paths_normalised() {
    let mount =
        |source: &str, path: &str| json!({"mounts": [{"source": source, "mount_path": path}]});
    for (source, path, wrong, word) in [
        ("volume:other", "/mnt/a", "source", "data"),
        ("file:///etc/passwd", "/mnt/a", "source", "https://"),
        ("http://example.com/a", "/mnt/a", "source", "https://"),
        ("https://", "/mnt/a", "source", "host"),
        ("https://a b/", "/mnt/a", "source", "white space"),
        ("https://u:p@example.com/", "/mnt/a", "source", "password"),
        ("https://example.com:99999/", "/mnt/a", "source", "port"),
        ("https://127.0.0.1/a", "/mnt/a", "source", "private"),
        ("https://[::1]:8443/a", "/mnt/a", "source", "private"),
        ("https://169.254.169.254/a", "/mnt/a", "source", "private"),
        ("volume:data", "mnt/a", "mount_path", "absolute"),
        ("volume:data", "/etc/a", "mount_path", "/workspace/"),
        ("volume:data", "/workspace", "mount_path", "below"),
        ("volume:data", "/workspace/", "mount_path", "below"),
        ("volume:data", "/mnt/.", "mount_path", "below"),
        ("volume:data", "/mnt/../etc", "mount_path", ".."),
        ("volume:data", "/mnt/a\nb", "mount_path", "control"),
    ] {
        refused(
            &rich(),
            mount(source, path),
            &format!("mounts[0].{wrong}"),
            word,
        );
    }
    let long = format!("/mnt/{}", "a".repeat(256));
    refused(
        &rich(),
        mount("volume:data", &long),
        "mounts[0].mount_path",
        "255",
    );
    for (first, second, word) in [
        ("/mnt/a", "/mnt//a/", "already"),
        ("/mnt/a", "/mnt/a/b", "/mnt/a is a mount too"),
        ("/workspace/a/b/c", "/workspace/a", "beside"),
    ] {
        let both = json!({"mounts": [
            {"source": "volume:data", "mount_path": first},
            {"source": "volume:data", "mount_path": second},
        ]});
        refused(&rich(), both, "mounts[1].mount_path", word);
    }
    let beside = json!({"mounts": [
        {"source": "volume:data", "mount_path": "/mnt/a"},
        {"source": "volume:data", "mount_path": "/mnt/ab"},
    ]});
    assert_eq!(definition(beside).mounts.len(), 2);
    let made = definition(mount("volume:data", "/mnt//a/./b/"));
    assert_eq!(made.mounts[0].mount_path, "/mnt/a/b");
    assert_eq!(
        definition(mount("volume:data", "/mnt/..a")).mounts[0].mount_path,
        "/mnt/..a"
    );
}

#[test]
fn a_volume_has_a_plain_name() {
    let longest = "a".repeat(63);
    for name in ["data", "Data-2", "0", "team.models_v1", &longest] {
        assert_eq!(domain::mounts::volume_name_problem(name), None, "{name}");
    }
    let longer = "a".repeat(64);
    for name in ["", ".", "..", "-a", "a/b", "a b", "a,b", "é", &longer] {
        assert!(
            domain::mounts::volume_name_problem(name).is_some(),
            "{name}"
        );
    }
}

#[test]
fn a_source_is_shown_without_what_may_be_a_token() {
    for (source, shown) in [
        ("volume:data", "volume:data"),
        ("https://example.com/a.bin", "https://example.com/a.bin"),
        ("https://example.com/a?sig=abc", "https://example.com/a?…"),
        ("https://example.com?sig=abc#x", "https://example.com?…"),
    ] {
        assert_eq!(domain::mounts::shown_source(source), shown);
    }
}

#[test]
fn what_the_deployment_does_not_offer_is_refused_with_a_way_out() {
    let open = json!({"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "allow"}}]});
    let deny = json!({"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "deny"}}]});
    refused(
        &plain(),
        json!({"network_policy": {}}),
        "network_policy",
        "No access",
    );
    refused(
        &plain(),
        json!({"network_policy": open}),
        "network_policy",
        "No access",
    );
    assert!(parse_create(&body(json!({"network_policy": deny})), &plain()).is_ok());
    refused(
        &plain(),
        json!({"computer_use": true}),
        "computer_use",
        "no computer use",
    );
    refused(
        &plain(),
        json!({"resources": {"accelerator": {"name": "T4"}}}),
        "resources.accelerator.name",
        "no accelerator",
    );
    refused(
        &plain(),
        json!({"resources": {"placement": {"providers": ["east"]}}}),
        "resources.placement",
        "leave placement out",
    );
    refused(
        &plain(),
        json!({"mounts": [{"source": "https://example.com/a", "mount_path": "/mnt/a"}]}),
        "mounts",
        "no mounts",
    );
    refused(
        &plain().with_mounts(Vec::<String>::new()),
        json!({"mounts": [{"source": "volume:a", "mount_path": "/mnt/a"}]}),
        "mounts[0].source",
        "no volumes",
    );
    refused(
        &plain().with_egress(),
        json!({"privileged": true, "network_policy": {}}),
        "privileged",
        "safely",
    );
    refused(
        &plain(),
        json!({"config": {"a": 1}}),
        "config.a",
        "leave it out",
    );
    let small = plain().with_machines([Machine {
        cpu_milli: 1_000,
        memory_mib: 2_048,
    }]);
    refused(&small, json!({}), "resources", "1 vCPU with 2 GiB");
}

#[test]
fn computer_use_takes_its_port() {
    let made = definition(json!({"computer_use": true, "http_port": 80}));
    assert_eq!(made.http_port, 6_901);
}

#[test]
fn a_script_is_saved_normalised() {
    let made = definition(json!({"setup": {"script": "  a  \r\n\r\nb\t\r\n\n \n"}}));
    assert_eq!(made.setup.script, "  a\n\nb\n");
    assert!(!definition(json!({"setup": {"script": " \r\n\t\n"}})).has_script());
}

#[test]
fn the_nearest_size_comes_from_the_machine_that_comes_closest() {
    let sizes = Sizes {
        machines: vec![
            Machine {
                cpu_milli: 4_000,
                memory_mib: 65_536,
            },
            Machine {
                cpu_milli: 16_000,
                memory_mib: 16_384,
            },
        ],
    };
    assert!(sizes.offers(4_000, 65_536) && sizes.offers(16_000, 16_384));
    assert!(!sizes.offers(8_000, 32_768));
    for (wish, nearest) in [
        ((16_000, 20_000), (16_000, 16_384)),
        ((5_000, 65_536), (4_000, 65_536)),
        ((1, 1), (250, 1_024)),
        ((u32::MAX, 2_048), (16_000, 2_048)),
    ] {
        let size = sizes.nearest(wish.0, wish.1).unwrap();
        assert_eq!((size.cpu_milli, size.memory_mib), nearest, "{wish:?}");
    }
    assert_eq!(Sizes { machines: vec![] }.nearest(1, 1), None);
}

/// Any JSON, with words of ours among the keys.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "v1",
            "allow",
            "a.example",
            "volume:data",
            "/mnt/a",
            "T4",
            "\u{0}"
        ])
        .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "version",
        "rules",
        "match",
        "host_glob",
        "action",
        "type",
        "script",
        "timeout_seconds",
        "cpu_milli",
        "memory_mib",
        "accelerator",
        "placement",
        "providers",
        "name",
        "count",
        "source",
        "mount_path",
        "id",
        "revision",
        "network_policy",
        "privileged",
        "PATH",
        "A",
    ]);
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| map
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

const FIELDS: [&str; 21] = [
    "name",
    "description",
    "metadata",
    "scope",
    "template",
    "provider",
    "config",
    "setup",
    "resources",
    "network_policy",
    "privileged",
    "pvc_size_gi",
    "env_vars",
    "mounts",
    "secrets",
    "computer_use",
    "http_port",
    "idle_stop_after_seconds",
    "stopped_delete_after_seconds",
    "expected_access",
    "other",
];

proptest! {
    #[test]
    fn no_body_makes_reading_panic_and_what_is_accepted_is_accepted_again(
        fields in prop::collection::btree_map(prop::sample::select(FIELDS.to_vec()), any_json(), 0..6),
        named in any::<bool>(),
    ) {
        let mut body = json!(fields);
        if named {
            body["name"] = json!("a");
        }
        for catalog in [rich(), plain()] {
            match parse_create(&body, &catalog) {
                Ok(made) => prop_assert_eq!(parse_create(&made.to_create_body(), &catalog).unwrap(), made),
                Err(issues) => {
                    prop_assert!(!issues.is_empty());
                    prop_assert!(issues.0.iter().all(|issue| !issue.path.is_empty() && issue.message.ends_with('.')), "{issues:?}");
                }
            }
            if let Ok(patch) = parse_patch(&body, &catalog) {
                let saved = definition(json!({}));
                if let Ok(next) = patch.apply(&saved, &catalog) {
                    prop_assert_eq!(&next.provider, &saved.provider);
                }
            }
        }
    }
}
