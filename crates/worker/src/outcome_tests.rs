#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use domain::network_policy::{Rule, RuleAction};

use super::*;

fn plan() -> Plan {
    Plan {
        script: "true\n".to_owned(),
        setup_timeout_seconds: 600,
        cpu_milli: 2_500,
        memory_mib: 4_096,
        disk_gi: 10,
        sandbox_timeout_seconds: 0,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
        runner_image: "groundwork/runner:small".to_owned(),
    }
}

#[test]
fn a_failure_is_told_in_one_plain_sentence() {
    let end = |exit_code, failed_line| ScriptEnd {
        exit_code,
        failed_line,
        ..ScriptEnd::default()
    };
    let cases = [
        (end(1, 2), "Line 2 failed with exit code 1."),
        (end(3, 0), "The script failed with exit code 3."),
        (
            ScriptEnd {
                failed_in: Some("./env.sh:4".to_owned()),
                ..end(1, 2)
            },
            "Line 2 (in ./env.sh:4) failed with exit code 1.",
        ),
        (
            ScriptEnd {
                timed_out: true,
                ..end(124, 2)
            },
            "The script ran longer than 600 seconds and was ended.",
        ),
        (
            ScriptEnd {
                out_of_memory: true,
                ..end(137, 5)
            },
            "Line 5 failed with exit code 137: the memory limit of 4096 MiB was reached.",
        ),
    ];
    for (end, expected) in cases {
        assert_eq!(failure_sentence(&plan(), &end), expected);
    }
}

#[test]
fn notes_name_sizes_and_times() {
    assert_eq!(
        ready_note(&plan(), Duration::from_millis(140)),
        "The sandbox is ready after 0.1 s: 2.5 vCPU, 4096 MiB memory, 10 GiB disk."
    );
    let layer = SavedLayer {
        digest: String::new(),
        size_bytes: 3 * 1_048_576 / 2,
        base_digest: String::new(),
    };
    assert_eq!(
        saved_note(&layer, Duration::from_secs(75)),
        "The prepared file system is saved: 1.5 MiB in 1 min 15 s."
    );
    assert_eq!(
        policy_sentence(&NetworkPolicy::no_access(), [1, 2, 0xab, 4]),
        "Network: no host can be reached (0 rules, policy 0102ab04)."
    );
    assert_eq!(
        policy_sentence(&NetworkPolicy::Unrestricted, [0, 0, 0, 255]),
        "Network: unrestricted (policy 000000ff); it is ready."
    );
    let rule = |host: &str| Rule {
        host_glob: host.to_owned(),
        action: RuleAction::Allow,
    };
    assert_eq!(
        policy_sentence(
            &NetworkPolicy::Rules(vec![rule("a.example"), rule("b.example")]),
            [1, 2, 3, 4]
        ),
        "Network: 2 rules in force (policy 01020304); it is ready."
    );
}

#[test]
fn the_profile_holds_the_slowest_lines() {
    let end = ScriptEnd {
        timings: (1..=30)
            .map(|l| (l, Duration::from_millis(u64::from(l))))
            .collect(),
        cpu_millis: 1_500,
        ..ScriptEnd::default()
    };
    let profile = profile(&plan(), &end, "oci");
    let slowest = profile["slowest_lines"].as_array().unwrap();
    assert_eq!(slowest.len(), SLOWEST_LINES);
    assert_eq!(slowest[0], json!({ "line": 30, "seconds": 0.03 }));
    assert_eq!(profile["cpu_seconds"], json!(1.5));
}

#[test]
fn any_text_becomes_a_sentence() {
    assert_eq!(sentence("no room"), "No room.");
    assert_eq!(sentence(" Done. "), "Done.");
    assert_eq!(sentence(""), ".");
}
