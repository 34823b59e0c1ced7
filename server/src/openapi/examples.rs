//! Examples. A test holds each against its schema.

use domain::{
    compute::Machine,
    environment::Catalog,
    limits::{CPU_MILLI_MAX, MEMORY_MIB_MAX},
    templates,
};
use serde_json::{Value, json};
use wire::error::Code;

pub(super) const INTRODUCTION: &str = "\
Two trees: `/managed-agents/v1` is wire-compatible with the reference API and holds nothing else; `/groundwork/v1` is what \
that lacks.

- Send an API key: `Authorization: Bearer rma_…`. A console cookie is not accepted here.
- Errors are flat: `{code, message, details?}`. `message` says what to do; `details.field` and `details.issues` name what is \
wrong; `details.retryable` with the header `Retry-After` says that the same call may succeed later. Every answer has an \
`x-request-id`.
- Bodies are JSON of at most 1 MiB; unknown properties and unknown query parameters are refused. Unknown paths answer `404`, \
other methods `405` with `Allow`.
- `Idempotency-Key` makes a retry safe: see the calls that take it.
- Times are RFC 3339 in UTC. 0 stands for the default where a field says so.";

pub(super) const ORGANIZATION: &str = "org_0199d3e752b24f80b6e92c8a5d0f7e13";
pub(super) const ENVIRONMENT: &str = "0199d3e7-52b2-7f80-b6e9-2c8a5d0f7e13";
pub(super) const RUN: &str = "0199d3f1-10d4-7f96-b1a3-9c6e2d5f0b74";
pub(super) const SESSION: &str = "0199d3f4-0b6c-7d18-9a52-6e7f80912a3b";
pub(super) const USER: &str = "usr_0199d3e751b07508be9f9a9938ffb909";
const KEY: &str = "key_0199d3e751b07508be9f9a9938ffb90a";
const INVITATION: &str = "inv_0199d3e751b07508be9f9a9938ffb90b";
const WORKER: &str = "wrk_0199d3e751b07508be9f9a9938ffb90c";
const AUDIT: &str = "aud_0199d3e751b07508be9f9a9938ffb90d";
const REQUEST: &str = "0199d3f2-6a31-7c55-8a60-1b2c3d4e5f60";
const FINGERPRINT: &str = "sha256:5f2c9e0b7a1d4c8e9f3b6a7d2c1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e";
const MORNING: &str = "2026-09-17T12:04:11Z";
const LATER: &str = "2026-09-17T12:06:40.25Z";

pub(super) fn policy() -> Value {
    json!({"version": "v1", "rules": [
        {"match": {"host_glob": "*.example.com"}, "action": {"type": "allow"}},
    ]})
}

/// What every deployment offers.
fn catalog() -> Catalog {
    let machine = Machine {
        cpu_milli: CPU_MILLI_MAX,
        memory_mib: MEMORY_MIB_MAX,
    };
    Catalog::default_runs("groundwork/runner:1", machine).with_egress()
}

pub(super) fn providers() -> Value {
    let items: Vec<Value> = catalog()
        .providers
        .iter()
        .map(|provider| {
            json!({
                "provider": provider.provider, "displayName": provider.display_name,
                "description": provider.description, "default": true, "requiresCredential": null,
            })
        })
        .collect();
    json!({"items": items})
}

pub(super) fn templates() -> Value {
    let catalog = catalog();
    let mut items = templates::all(&catalog.host_groups, &catalog);
    items.truncate(1);
    json!({"items": items})
}

pub(super) fn create() -> Value {
    json!({
        "name": "data-analysis",
        "resources": {"cpu_milli": 2000, "memory_mib": 4096},
        "pvc_size_gi": 20,
        "network_policy": policy(),
        "setup": {"script": "uv venv --seed /workspace/.venv\n", "timeout_seconds": 900},
    })
}

pub(super) fn update() -> Value {
    json!({
        "network_policy": {"version": "v1", "rules": []},
        "expected_access": {"network_policy": policy(), "privileged": false},
    })
}

pub(super) fn environment() -> Value {
    json!({
        "organization_id": ORGANIZATION,
        "environment_id": ENVIRONMENT,
        "name": "data-analysis",
        "scope": "organization",
        "provider": "runs",
        "image": "groundwork/runner:1",
        "setup": {"script": "uv venv --seed /workspace/.venv\n", "timeout_seconds": 900},
        "resources": {"cpu_milli": 2000, "memory_mib": 4096},
        "network_policy": policy(),
        "privileged": false,
        "pvc_size_gi": 20,
        "computer_use": false,
        "http_port": 0,
        "idle_stop_after_seconds": 0,
        "stopped_delete_after_seconds": 0,
        "setup_verification": {"status": "never", "stale": false},
        "setup_updated_by_user_id": USER,
        "setup_updated_at": MORNING,
        "created_at": MORNING,
        "updated_at": MORNING,
    })
}

pub(super) fn usage() -> Value {
    json!({
        "at": LATER, "cpu_milli": 480, "memory_used": 734_003_200_u64, "memory_limit": 4_294_967_296_u64,
        "disk_used": 1_288_490_188_u64, "disk_size": 10_737_418_240_u64, "processes": 14,
    })
}

pub(super) fn session() -> Value {
    json!({
        "organization_id": ORGANIZATION,
        "session_id": SESSION,
        "environment_id": ENVIRONMENT,
        "environment_name": "data-analysis",
        "environment_revision": 3,
        "status": "running",
        "message": "Runs.",
        "requested_by_user_id": USER,
        "worker": "worker-1",
        "resources": {"cpu_milli": 2000, "memory_mib": 4096, "disk_gi": 10},
        "image": {"image_id": "img_0199d3e751b07508be9f9a9938ffb90e", "generation": 2, "setup_run_id": RUN},
        "idle_stop_after_seconds": 1800,
        "stopped_delete_after_seconds": 604_800,
        "usage": usage(),
        "created_at": MORNING,
        "started_at": MORNING,
    })
}

pub(super) fn queued_run() -> Value {
    json!({
        "organization_id": ORGANIZATION,
        "environment_id": ENVIRONMENT,
        "setup_run_id": RUN,
        "kind": "manual",
        "status": "queued",
        "phase": "provision",
        "requested_by_user_id": USER,
        "message": "Queued; compute will be provisioned shortly.",
        "log_lines": 1,
        "log_bytes": 44,
        "fingerprint": FINGERPRINT,
        "image": "groundwork/runner:1",
        "created_at": MORNING,
        "next_action": {
            "operation_id": "managedAgentsGetEnvironmentSetupRun",
            "method": "GET",
            "path": format!("/managed-agents/v1/environments/{ENVIRONMENT}/setup-runs/{RUN}"),
        },
    })
}

pub(super) fn failed_run() -> Value {
    json!({
        "organization_id": ORGANIZATION,
        "environment_id": ENVIRONMENT,
        "setup_run_id": RUN,
        "kind": "manual",
        "status": "failed",
        "phase": "setup",
        "requested_by_user_id": USER,
        "message": "The setup script failed at line 2.",
        "exit_code": 6,
        "failed_line": 2,
        "failed_command": "curl -fsS https://blocked.example/data.csv -o data.csv",
        "hint_code": "egress_blocked",
        "hint": "Line 2 asked for blocked.example, which the network policy does not allow. Allow the host and test again.",
        "stderr_tail": "curl: (6) Could not resolve host: blocked.example\n",
        "failure_code": "environment_setup_failed",
        "duration_ms": 8250,
        "log_lines": 9,
        "log_bytes": 512,
        "fingerprint": FINGERPRINT,
        "image": "groundwork/runner:1",
        "created_at": MORNING,
        "started_at": MORNING,
        "finished_at": LATER,
    })
}

pub(super) fn log_page() -> Value {
    json!({
        "lines": [
            {"seq": 3, "stream": "marker", "line": 1, "text": "uv venv --seed /workspace/.venv", "at": MORNING},
            {"seq": 4, "stream": "stderr", "line": 1, "text": "Using CPython 3.13", "at": MORNING},
        ],
        "next_after": 4,
        "status": "running",
    })
}

pub(super) fn member() -> Value {
    json!({
        "user_id": USER, "email": "ada@example.com", "display_name": "Ada", "role": "developer",
        "has_password": true, "created_at": MORNING, "is_you": false,
    })
}

pub(super) fn invitation() -> Value {
    json!({
        "invitation_id": INVITATION, "email": "grace@example.com", "role": "developer", "invited_by": "Ada",
        "created_at": MORNING, "expires_at": "2026-09-24T12:04:11Z", "expired": false,
    })
}

pub(super) fn key() -> Value {
    json!({
        "api_key_id": KEY, "name": "ci", "shown": "rma_…x7Qa", "role": "developer", "owner": "ada@example.com",
        "user_id": USER, "created_at": MORNING, "expires_at": null, "expired": false, "last_used_at": LATER,
    })
}

pub(super) fn worker() -> Value {
    json!({
        "worker_id": WORKER, "name": "worker-1", "runtime": "oci", "version": "0.1.0", "capacity": 4, "running": 1,
        "held": [{
            "setup_run_id": RUN, "environment_id": ENVIRONMENT, "environment_name": "data-analysis", "phase": "setup",
            "attempt": 1, "cancelling": false, "silent_seconds": 2,
        }],
        "session_slots": 32, "sessions": 2,
        "runner_image": "groundwork/runner:1", "runner_image_digest": FINGERPRINT,
        "registered_at": MORNING, "seen_at": LATER, "alive": true,
    })
}

pub(super) fn audit() -> Value {
    json!({
        "audit_id": AUDIT, "at": MORNING, "actor": "ada@example.com", "source": "192.0.2.7",
        "action": "environment.create", "subject": ENVIRONMENT, "detail": {"name": "data-analysis", "revision": 1},
    })
}

pub(super) fn change() -> Value {
    json!({
        "field": "setup.timeout_seconds", "label": "Setup timeout", "before": "600", "after": "900",
        "affects_verdict": true, "by": "Ada", "by_user_id": USER, "at": MORNING,
    })
}

pub(super) fn saved() -> Value {
    json!({"revisions": [{
        "revision": 2, "by": "Ada", "by_user_id": USER, "at": MORNING, "changes": [change()], "current": true,
    }]})
}

pub(super) fn staleness() -> Value {
    json!({"stale": true, "setup_run_id": RUN, "verified_at": MORNING, "fields": [change()]})
}

pub(super) fn events() -> String {
    let line = json!({"seq": 4, "stream": "stdout", "line": 1, "text": "hi", "at": MORNING});
    format!("event: line\nid: 4\ndata: {line}\n\nevent: end\nid: 4\ndata: {{\"next_after\":4}}\n\n")
}

/// An error as it comes.
pub(super) fn error(code: Code) -> Value {
    let mut details = json!({"requestId": REQUEST});
    let message = match code {
        Code::InvalidRequest => {
            details["field"] = json!("name");
            details["issues"] = json!(["name: Must not be blank."]);
            "name: Must not be blank."
        }
        Code::InvalidJson => "The body is not JSON (line 1, column 2). Send one JSON object.",
        Code::Unauthorized => "Sign in, or send a valid API key as a bearer token.",
        Code::Forbidden => {
            "Your role may not change environments: that takes the role developer. Ask an admin of your organization."
        }
        Code::NotFound => "There is nothing with this id. Check the id, or list what there is.",
        Code::SetupRunInProgress => {
            details["setup_run_id"] = json!(RUN);
            "A setup run of this environment is in flight. Wait for it or cancel it."
        }
        Code::SessionNotRunning => "The session is stopped. Resume it first.",
        Code::SessionLimit => {
            details["live"] = json!(20);
            details["retryable"] = json!(true);
            "Your organization has 20 live sessions, which is the most. Stop or delete one, then try again."
        }
        Code::SetupRunLimit => {
            details["in_flight"] = json!([RUN]);
            details["retryable"] = json!(true);
            "Your organization has 4 manual setup runs in flight, which is the most. Wait for one to end or cancel one."
        }
        Code::RateLimitExceeded => {
            details["retryable"] = json!(true);
            "Too many requests. Try again in 1 s."
        }
        Code::PreconditionRequired => {
            "Send expected_access with the network policy and privileged as you read them."
        }
        Code::PreconditionFailed => {
            "Access settings changed since you read them. Read the environment again and decide again."
        }
        Code::PayloadTooLarge => "The request's body is over 1 MiB. Send less.",
        Code::UnsupportedMediaType => {
            "The body must be JSON: send the header Content-Type: application/json."
        }
        _ => "Something stands in the way; this sentence says what to do.",
    };
    json!({"code": code, "message": message, "details": details})
}

pub(super) fn run_egress() -> Value {
    json!({
        "hosts": [
            {
                "host": "files.example.com", "port": 0, "allowed": false, "outcome": "denied",
                "redirected_from": "pypi.example.com", "line": 2, "count": 3
            },
            {
                "host": "pypi.example.com", "port": 443, "allowed": true, "outcome": "allowed",
                "rule": 0, "rule_host_glob": "pypi.example.com", "line": 2, "count": 1
            }
        ],
        "complete": true
    })
}

pub(super) fn run_timings() -> Value {
    json!({
        "lines": [
            {"line": 1, "text": "uv venv --seed /workspace/.venv", "seconds": 0.8, "previous_seconds": 0.7},
            {"line": 2, "text": "uv pip install numpy", "seconds": 4.2}
        ],
        "total_seconds": 5.0,
        "previous": {"setup_run_id": RUN, "total_seconds": 0.7},
        "complete": true
    })
}

pub(super) fn secret() -> Value {
    json!({"name": "API_TOKEN", "set_by_user_id": USER, "set_by": "dev@example.com", "set_at": MORNING})
}
