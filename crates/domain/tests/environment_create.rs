//! Every rule of *Environment fields* that a create body can break (spec 1-domain).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{body, paths, plain, refused, rich};
use domain::{environment::parse_create, network_policy::NetworkPolicy};
use serde_json::{Value, json};

fn accepted(fields: Value) {
    let result = parse_create(&body(fields.clone()), &rich());
    assert!(result.is_ok(), "{fields}: {result:?}");
}

#[test]
fn a_name_alone_gives_the_defaults() {
    let definition = parse_create(&json!({"name": "  a  "}), &plain()).unwrap();
    assert_eq!(definition.name, "a");
    assert_eq!(definition.provider, "runs");
    assert_eq!(definition.image, "runner:1");
    assert_eq!(definition.network_policy, NetworkPolicy::no_access());
    assert!(!definition.privileged && !definition.computer_use);
    assert_eq!(definition.resources.effective_cpu_milli(), 2_000);
    assert_eq!(definition.resources.effective_memory_mib(), 4_096);
    assert_eq!(definition.effective_disk_gi(), 10);
    assert_eq!(definition.effective_setup_timeout(), 600);
    assert_eq!(definition.effective_idle_stop(), 1_800);
    assert_eq!(definition.effective_stopped_delete(), 604_800);
    assert!(definition.metadata.is_none() && definition.config.is_none());
}

#[test]
fn each_rule_is_refused_at_its_path_with_advice() {
    let long = |n: usize| "x".repeat(n);
    let many = |n: usize| -> Value {
        (0..n)
            .map(|i| (format!("V{i}"), json!("")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let rules = |n: usize| json!({"version": "v1", "rules": vec![json!({"match": {"host_glob": "a.example"}, "action": {"type": "allow"}}); n]});
    for (fields, path, word) in [
        (json!({"name": 5}), "name", "string"),
        (json!({"name": null}), "name", "null"),
        (json!({"name": " \t "}), "name", "blank"),
        (json!({"name": long(257)}), "name", "256"),
        (json!({"name": "a\u{7}b"}), "name", "control"),
        (json!({"description": long(2_001)}), "description", "2000"),
        (json!({"description": ["a"]}), "description", "list"),
        (json!({"metadata": []}), "metadata", "object"),
        (
            json!({"metadata": {"a": long(16 * 1024)}}),
            "metadata",
            "16384",
        ),
        (
            json!({"metadata": {"a": [{"b": 9_007_199_254_740_992_i64}]}}),
            "metadata.a[0].b",
            "string",
        ),
        (json!({"metadata": {"a": 1e300}}), "metadata.a", "string"),
        (json!({"scope": "personal"}), "scope", "organization"),
        (json!({"scope": true}), "scope", "string"),
        (
            json!({"template": {"id": "a"}}),
            "template.revision",
            "Required",
        ),
        (
            json!({"template": {"revision": 1}}),
            "template.id",
            "Required",
        ),
        (
            json!({"template": {"id": "a", "revision": 1, "x": 1}}),
            "template.x",
            "Unknown",
        ),
        (
            json!({"template": {"id": "a", "revision": 1.5}}),
            "template.revision",
            "whole",
        ),
        (json!({"provider": "docker"}), "provider", "runs"),
        (json!({"provider": ""}), "provider", "runs"),
        (json!({"provider": 1}), "provider", "string"),
        (json!({"image": "mine"}), "image", "Unknown"),
        (
            json!({"setup_verification": {}}),
            "setup_verification",
            "Unknown",
        ),
        (json!({"expected_access": {}}), "expected_access", "Unknown"),
        (
            json!({"config": {"gpu_driver": 1}}),
            "config.gpu_driver",
            "nested",
        ),
        (
            json!({"config": {"nested": 1e17}}),
            "config.nested",
            "string",
        ),
        (json!({"setup": "echo"}), "setup", "object"),
        (json!({"setup": {"script": 1}}), "setup.script", "string"),
        (
            json!({"setup": {"script": "a\u{0}b"}}),
            "setup.script",
            "NUL",
        ),
        (
            json!({"setup": {"script": long(65_537)}}),
            "setup.script",
            "65536",
        ),
        (json!({"setup": {"shell": "zsh"}}), "setup.shell", "Unknown"),
        (
            json!({"setup": {"timeout_seconds": 9}}),
            "setup.timeout_seconds",
            "10 to 3600",
        ),
        (
            json!({"setup": {"timeout_seconds": 3_601}}),
            "setup.timeout_seconds",
            "10 to 3600",
        ),
        (
            json!({"setup": {"timeout_seconds": -1}}),
            "setup.timeout_seconds",
            "10 to 3600",
        ),
        (
            json!({"setup": {"timeout_seconds": "60"}}),
            "setup.timeout_seconds",
            "string",
        ),
        (json!({"resources": []}), "resources", "object"),
        (
            json!({"resources": {"gpus": 1}}),
            "resources.gpus",
            "Unknown",
        ),
        (
            json!({"resources": {"cpu_milli": 249}}),
            "resources.cpu_milli",
            "nearest size offered is 0.25 vCPU with 4 GiB",
        ),
        (
            json!({"resources": {"cpu_milli": -1}}),
            "resources.cpu_milli",
            "250 to 24000",
        ),
        (
            json!({"resources": {"cpu_milli": 24_001}}),
            "resources.cpu_milli",
            "16 vCPU with 4 GiB",
        ),
        (
            json!({"resources": {"cpu_milli": 2.5}}),
            "resources.cpu_milli",
            "whole",
        ),
        (
            json!({"resources": {"memory_mib": 1_023}}),
            "resources.memory_mib",
            "1024 to 102400",
        ),
        (
            json!({"resources": {"memory_mib": 102_401}}),
            "resources.memory_mib",
            "2 vCPU with 64 GiB",
        ),
        (
            json!({"resources": {"cpu_milli": 20_000}}),
            "resources",
            "cpu_milli 16000, memory_mib 4096",
        ),
        (
            json!({"resources": {"cpu_milli": 20_000, "memory_mib": 102_400}}),
            "resources",
            "16 vCPU with 64 GiB",
        ),
        (
            json!({"resources": {"accelerator": {}}}),
            "resources.accelerator.name",
            "T4, L4",
        ),
        (
            json!({"resources": {"accelerator": {"name": "H100"}}}),
            "resources.accelerator.name",
            "T4, L4",
        ),
        (
            json!({"resources": {"accelerator": {"name": "T4", "type": "tpu"}}}),
            "resources.accelerator.type",
            "gpu",
        ),
        (
            json!({"resources": {"accelerator": {"name": "T4", "count": 2}}}),
            "resources.accelerator.count",
            "one",
        ),
        (
            json!({"resources": {"accelerator": {"name": "T4", "vram": 2}}}),
            "resources.accelerator.vram",
            "Unknown",
        ),
        (
            json!({"resources": {"accelerator": {"name": "T4"}, "cpu_milli": 8_000}}),
            "resources.cpu_milli",
            "8 vCPU and 32 GiB",
        ),
        (
            json!({"resources": {"accelerator": {"name": "T4"}, "memory_mib": 32_768}}),
            "resources.memory_mib",
            "Leave it out",
        ),
        (
            json!({"resources": {"timeout_seconds": 9}}),
            "resources.timeout_seconds",
            "86400",
        ),
        (
            json!({"resources": {"timeout_seconds": 86_401}}),
            "resources.timeout_seconds",
            "86400",
        ),
        (
            json!({"resources": {"placement": {"providers": ["north"]}}}),
            "resources.placement.providers",
            "east, west",
        ),
        (
            json!({"resources": {"placement": {"providers": ["east", "west"]}}}),
            "resources.placement.providers",
            "exactly one",
        ),
        (
            json!({"resources": {"placement": {}}}),
            "resources.placement.providers",
            "Required",
        ),
        (
            json!({"resources": {"placement": {"providers": ["east"], "allow_spot": true}}}),
            "resources.placement.allow_spot",
            "false",
        ),
        (
            json!({"resources": {"placement": {"providers": ["east"], "regions": ["a"]}}}),
            "resources.placement.regions",
            "[]",
        ),
        (
            json!({"resources": {"placement": {"providers": ["east"], "max_price_per_hour_usd": 1}}}),
            "resources.placement.max_price_per_hour_usd",
            "0",
        ),
        (json!({"network_policy": null}), "network_policy", "object"),
        (
            json!({"network_policy": {"version": "v2", "rules": []}}),
            "network_policy.version",
            "v1",
        ),
        (
            json!({"network_policy": {"rules": []}}),
            "network_policy.version",
            "v1",
        ),
        (
            json!({"network_policy": {"version": "v1"}}),
            "network_policy.rules",
            "Required",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [], "default": "deny"}}),
            "network_policy.default",
            "Unknown",
        ),
        (
            json!({"network_policy": rules(201)}),
            "network_policy.rules",
            "200",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "block"}}]}}),
            "network_policy.rules[0].action.type",
            "deny",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "a.example"}, "action": {"type": "allow", "log": true}}]}}),
            "network_policy.rules[0].action.log",
            "Unknown",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "https://a.example/x"}, "action": {"type": "allow"}}]}}),
            "network_policy.rules[0].match.host_glob",
            "host alone",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [{"match": {}, "action": {"type": "allow"}}]}}),
            "network_policy.rules[0].match.host_glob",
            "Required",
        ),
        (
            json!({"network_policy": {"version": "v1", "rules": [{"action": {"type": "allow"}}]}}),
            "network_policy.rules[0].match",
            "Required",
        ),
        (
            json!({"privileged": true}),
            "privileged",
            "network_policy {}",
        ),
        (
            json!({"privileged": "yes", "network_policy": {}}),
            "privileged",
            "true or false",
        ),
        (json!({"pvc_size_gi": 101}), "pvc_size_gi", "1 to 100"),
        (json!({"pvc_size_gi": -1}), "pvc_size_gi", "1 to 100"),
        (json!({"env_vars": []}), "env_vars", "object"),
        (json!({"env_vars": {"A": 1}}), "env_vars.A", "string"),
        (json!({"env_vars": {"1A": ""}}), "env_vars.1A", "digit"),
        (json!({"env_vars": {"A-B": ""}}), "env_vars.A-B", "letters"),
        (json!({"env_vars": {"": ""}}), "env_vars.", "letters"),
        (json!({"env_vars": {"A": "x\u{0}"}}), "env_vars.A", "NUL"),
        (
            json!({"env_vars": {"A": long(32 * 1024 + 1)}}),
            "env_vars.A",
            "32768",
        ),
        (
            json!({"env_vars": {"A": long(32_768), "B": long(32_768), "C": long(32_768), "D": long(32_768)}}),
            "env_vars",
            "131072",
        ),
        (json!({"env_vars": many(101)}), "env_vars", "100"),
        (json!({"mounts": {}}), "mounts", "list"),
        (json!({"mounts": ["a"]}), "mounts[0]", "object"),
        (
            json!({"mounts": [{"source": "volume:data"}]}),
            "mounts[0].mount_path",
            "Required",
        ),
        (
            json!({"mounts": [{"mount_path": "/mnt/a"}]}),
            "mounts[0].source",
            "Required",
        ),
        (
            json!({"mounts": [{"source": "volume:data", "mount_path": "/mnt/a", "mode": "rw"}]}),
            "mounts[0].mode",
            "Unknown",
        ),
        (
            json!({"mounts": [{"source": "volume:data", "mount_path": "/mnt/a"}, {"source": "volume:data", "mount_path": "/mnt//a/"}]}),
            "mounts[1].mount_path",
            "Another",
        ),
        (
            json!({"secrets": {"A": "b"}}),
            "secrets",
            "secret variables",
        ),
        (json!({"secrets": []}), "secrets", "object"),
        (
            json!({"computer_use": "on"}),
            "computer_use",
            "true or false",
        ),
        (
            json!({"computer_use": true, "idle_stop_after_seconds": 599}),
            "idle_stop_after_seconds",
            "600",
        ),
        (json!({"http_port": 65_536}), "http_port", "65535"),
        (json!({"http_port": -1}), "http_port", "65535"),
        (
            json!({"idle_stop_after_seconds": 119}),
            "idle_stop_after_seconds",
            "120 to 7200",
        ),
        (
            json!({"idle_stop_after_seconds": 7_201}),
            "idle_stop_after_seconds",
            "120 to 7200",
        ),
        (
            json!({"stopped_delete_after_seconds": 3_599}),
            "stopped_delete_after_seconds",
            "3600 to 2592000",
        ),
        (
            json!({"stopped_delete_after_seconds": 2_592_001}),
            "stopped_delete_after_seconds",
            "3600 to 2592000",
        ),
        (json!({"colour": "red"}), "colour", "Unknown"),
    ] {
        refused(&rich(), fields, path, word);
    }
}

#[test]
fn what_stands_at_the_edges_is_accepted() {
    let long = |n: usize| "x".repeat(n);
    for fields in [
        json!({"name": "é".repeat(256)}),
        json!({"description": "é".repeat(2_000)}),
        json!({"description": ""}),
        json!({"metadata": {"a": [1, -9_007_199_254_740_991_i64, 0.5, null, {"b": true}]}}),
        json!({"scope": "organization"}),
        json!({"scope": ""}),
        json!({"template": {"id": "node-web", "revision": 3}}),
        json!({"provider": "runs"}),
        json!({"config": {}}),
        json!({"config": {"nested": {"any": "thing"}}}),
        json!({"setup": {}}),
        json!({"setup": {"script": long(65_536), "timeout_seconds": 3_600}}),
        json!({"setup": {"timeout_seconds": 10}}),
        json!({"setup": {"timeout_seconds": 10.0}}),
        json!({"resources": {}}),
        json!({"resources": {"cpu_milli": 0, "memory_mib": 0, "timeout_seconds": 0}}),
        json!({"resources": {"cpu_milli": 250, "memory_mib": 1_024, "timeout_seconds": 10}}),
        json!({"resources": {"cpu_milli": 16_000, "memory_mib": 65_536, "timeout_seconds": 86_400}}),
        json!({"resources": {"accelerator": {"name": "T4", "type": "gpu", "count": 0}, "cpu_milli": 0}}),
        json!({"resources": {"placement": {"providers": ["west"], "allow_spot": false, "regions": [], "max_price_per_hour_usd": 0.0, "min_accelerator_vram_gb": 0}}}),
        json!({"network_policy": {}}),
        json!({"network_policy": {}, "privileged": true}),
        json!({"pvc_size_gi": 100}),
        json!({"env_vars": {"_a1": "", "API_URL": "https://example.com"}}),
        json!({"mounts": [{"source": "volume:data", "mount_path": "/workspace/data"}, {"source": "https://example.com:8443/a?b#c", "mount_path": "/mnt/file"}]}),
        json!({"secrets": {}}),
        json!({"computer_use": true, "idle_stop_after_seconds": 600}),
        json!({"computer_use": true, "idle_stop_after_seconds": 0}),
        json!({"http_port": 65_535}),
        json!({"idle_stop_after_seconds": 120}),
        json!({"stopped_delete_after_seconds": 2_592_000}),
    ] {
        accepted(fields);
    }
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for value in [json!([]), json!("x"), json!(null), json!(3)] {
        assert_eq!(paths(&parse_create(&value, &rich()).unwrap_err()), ["body"]);
    }
    assert_eq!(
        paths(&parse_create(&json!({}), &rich()).unwrap_err()),
        ["name"]
    );
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let issues = parse_create(
        &json!({
            "name": "",
            "pvc_size_gi": 1_000,
            "resources": {"cpu_milli": 1, "accelerator": {"name": "none"}},
            "env_vars": {"PATH": "/bin", "HOME": "/", "OK": "1"},
            "network_policy": {"version": "v1", "rules": [
                {"match": {"host_glob": "a b"}, "action": {"type": "allow"}},
                {"match": {"host_glob": "ok.example"}, "action": {"type": "allow"}},
                {"match": {"host_glob": "a:80"}, "action": {}},
            ]},
            "extra": 1,
        }),
        &rich(),
    )
    .unwrap_err();
    let mut found = paths(&issues);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "env_vars.HOME",
            "env_vars.PATH",
            "extra",
            "name",
            "network_policy.rules[0].match.host_glob",
            "network_policy.rules[2].action.type",
            "network_policy.rules[2].match.host_glob",
            "pvc_size_gi",
            "resources.accelerator.name",
            "resources.cpu_milli",
        ]
    );
    assert!(
        issues
            .lines()
            .iter()
            .any(|line| line.starts_with("pvc_size_gi: Must be"))
    );
}
