//! The console does nothing that the API cannot: each of its functions is listed with the calls that do the same.

use std::collections::BTreeSet;

use server::rest;

use crate::coverage_functions;

/// Things of a person at a browser, which a program with a key has no use for.
const OF_THE_BROWSER: [&str; 12] = [
    // Signing in and out, one's own name and password.
    "needs-setup",
    "set-up",
    "sign-in",
    "sign-out",
    "sign-out-everywhere",
    "change-password",
    "change-display-name",
    "invitation",
    "accept-invitation",
    // How pages look.
    "theme",
    "frame",
    // Two versions of a form, before anything is saved.
    "merge-environment",
];

const ENVIRONMENTS: &str = "/managed-agents/v1/environments";
const OURS: &str = "/groundwork/v1";

/// A function of the console, and the calls: `M` before a path stands for the environment of the compatible tree, `G` for
/// our own tree.
fn calls() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("environments", vec!["GET G/environments"]),
        ("follow-environments", vec!["GET G/environments"]),
        (
            "new-environment",
            vec![
                "GET /managed-agents/v1/environment-templates",
                "GET /managed-agents/v1/sandbox-providers",
            ],
        ),
        (
            "environment",
            vec![
                "GET M/{environment_id}",
                "GET G/environments/{environment_id}/staleness",
            ],
        ),
        ("create-environment", vec!["POST M"]),
        ("save-environment", vec!["PATCH M/{environment_id}"]),
        // A refused body changes nothing and names every field.
        (
            "check-environment",
            vec!["PATCH M/{environment_id}", "POST M"],
        ),
        ("delete-environment", vec!["DELETE M/{environment_id}"]),
        (
            "history",
            vec!["GET G/environments/{environment_id}/history"],
        ),
        (
            "restore-revision",
            vec!["POST G/environments/{environment_id}/history/{revision}/restore"],
        ),
        (
            "put-back",
            vec![
                "GET G/environments/{environment_id}/staleness",
                "PATCH M/{environment_id}",
            ],
        ),
        (
            "secrets",
            vec!["GET G/environments/{environment_id}/secrets"],
        ),
        (
            "set-secret",
            vec!["PUT G/environments/{environment_id}/secrets/{name}"],
        ),
        (
            "set-variables",
            vec![
                "PUT G/environments/{environment_id}/secrets/{name}",
                "PATCH M/{environment_id}",
            ],
        ),
        (
            "delete-secret",
            vec!["DELETE G/environments/{environment_id}/secrets/{name}"],
        ),
        ("test-setup", vec!["POST M/{environment_id}/setup-runs"]),
        (
            "cancel-run",
            vec!["POST M/{environment_id}/setup-runs/{setup_run_id}/cancel"],
        ),
        (
            "run",
            vec!["GET M/{environment_id}/setup-runs/{setup_run_id}"],
        ),
        (
            "follow-run",
            vec!["GET G/environments/{environment_id}/setup-runs/{setup_run_id}/log/stream"],
        ),
        (
            "log-lines",
            vec!["GET M/{environment_id}/setup-runs/{setup_run_id}/log"],
        ),
        (
            "log-outline",
            vec!["GET M/{environment_id}/setup-runs/{setup_run_id}/log"],
        ),
        (
            "find-in-log",
            vec!["GET G/environments/{environment_id}/setup-runs/{setup_run_id}/log.txt"],
        ),
        (
            "run-hosts",
            vec!["GET G/environments/{environment_id}/setup-runs/{setup_run_id}/egress"],
        ),
        (
            "run-timings",
            vec!["GET G/environments/{environment_id}/setup-runs/{setup_run_id}/timings"],
        ),
        (
            "allow-host",
            vec![
                "POST G/network-policy/test",
                "PATCH M/{environment_id}",
                "POST M/{environment_id}/setup-runs",
            ],
        ),
        (
            "raise-limit",
            vec![
                "PATCH M/{environment_id}",
                "POST M/{environment_id}/setup-runs",
            ],
        ),
        ("sessions", vec!["GET G/sessions"]),
        ("sessions-of", vec!["GET G/sessions"]),
        (
            "session",
            vec![
                "GET G/sessions/{session_id}",
                "GET G/sessions/{session_id}/samples",
            ],
        ),
        ("start-session", vec!["POST G/sessions"]),
        ("stop-session", vec!["POST G/sessions/{session_id}/stop"]),
        (
            "resume-session",
            vec!["POST G/sessions/{session_id}/resume"],
        ),
        ("delete-session", vec!["DELETE G/sessions/{session_id}"]),
        ("keys", vec!["GET G/api-keys"]),
        ("create-key", vec!["POST G/api-keys"]),
        ("revoke-key", vec!["DELETE G/api-keys/{api_key_id}"]),
        (
            "members",
            vec!["GET G/members", "GET G/members/invitations"],
        ),
        ("invite", vec!["POST G/members/invitations"]),
        (
            "withdraw-invitation",
            vec!["DELETE G/members/invitations/{invitation_id}"],
        ),
        ("change-role", vec!["PATCH G/members/{user_id}"]),
        ("remove-member", vec!["DELETE G/members/{user_id}"]),
        (
            "release-run",
            vec!["POST G/environments/{environment_id}/setup-runs/{setup_run_id}/release"],
        ),
        ("workers", vec!["GET G/workers"]),
        ("audit", vec!["GET G/audit-events"]),
    ]
}

#[test]
fn the_console_does_nothing_that_the_api_cannot() {
    let there: BTreeSet<String> = rest::operations()
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    let mut functions: BTreeSet<&str> = coverage_functions::all()
        .iter()
        .filter_map(|function| function.path.strip_prefix("/fn/"))
        .collect();
    let mut wrong = Vec::new();
    for (function, calls) in calls() {
        if !functions.remove(function) {
            wrong.push(format!("{function} is no function, or is here twice"));
        }
        for call in calls {
            let call = call
                .replacen(" M", &format!(" {ENVIRONMENTS}"), 1)
                .replacen(" G/", &format!(" {OURS}/"), 1);
            if !there.contains(&call) {
                wrong.push(format!("{function}: there is no {call}"));
            }
        }
    }
    for function in OF_THE_BROWSER {
        if !functions.remove(function) {
            wrong.push(format!("{function} is no function"));
        }
    }
    for left in functions {
        wrong.push(format!("{left} has no call of the API that does the same"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
