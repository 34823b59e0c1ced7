//! The guide's table of errors, row by row: each is provoked over HTTP, and its code, its details and what its message
//! tells are checked. The row about sessions is in `unusable`; those about what a sandbox may reach (an integration's
//! tools, a clone of a public repository) are in the tests of real sandboxes.

use std::time::Duration;

use domain::setup_run::HintCode;
use serde_json::{Value, json};
use testkit::{Moment, TestWorker};
use wire::worker::{Gateway, RunOutcome};

use crate::{
    drive::{UNKNOWN, body, target},
    support::{Answer, Call, Doors},
};

/// What a row of the table demands.
pub struct Row<'a> {
    pub status: u16,
    pub code: &'a str,
    /// `details.field`, unless empty.
    pub field: &'a str,
    /// What the message must name, so that its reader knows what to do.
    pub tells: &'a [&'a str],
}

#[track_caller]
pub fn demand(answer: &Answer, row: &Row<'_>) -> Value {
    let details = answer.refused(row.status, row.code);
    if !row.field.is_empty() {
        assert_eq!(details["field"], row.field, "{answer:#?}");
    }
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    for word in row.tells {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(message.len() < 400, "too long to be read: {message}");
    for inner in ["SELECT", "panicked", "/src/", "sqlx"] {
        assert!(!message.contains(inner), "{inner:?} is in: {message}");
    }
    details
}

pub fn call<'d>(doors: &'d Doors, name: &str, environment: &str, run: &str) -> Call<'d> {
    let (method, path) = target(name, environment, run);
    doors.call(method, &path).bearer(&doors.developer)
}

pub async fn create(doors: &Doors, name: &str) -> String {
    let call = call(doors, "CreateEnvironment", "", "").json(&body(name));
    let made = call.send().await.ok();
    made["environment_id"].as_str().unwrap().to_owned()
}

pub async fn start(doors: &Doors, environment: &str, key: &str) -> Answer {
    let call = call(doors, "CreateEnvironmentSetupRun", environment, "");
    call.header("idempotency-key", key).send().await
}

#[tokio::test]
async fn each_wrong_field_is_named_with_what_mends_it() {
    let doors = Doors::open().await;
    let rules = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({"match": {"host_glob": format!("h{n}.example")}, "action": {"type": "allow"}}))
            .collect()
    };
    let rows: Vec<(&str, Value, &[&str])> = vec![
        (
            "setup.script",
            json!({"setup": {"script": "x".repeat(65_537)}}),
            &["65536"],
        ),
        (
            "setup.script",
            json!({"setup": {"script": "a\u{0}b"}}),
            &["NUL"],
        ),
        (
            "network_policy",
            json!({"network_policy": {"version": "v2", "rules": []}}),
            &["v1"],
        ),
        (
            "network_policy",
            json!({"network_policy": {"version": "v1", "rules": rules(201)}}),
            &["200"],
        ),
        (
            "network_policy",
            json!({"network_policy": {"version": "v1", "rules": [], "default": "allow"}}),
            &["default"],
        ),
        (
            "network_policy",
            json!({"network_policy": {"version": "v1", "rules": [
            {"match": {"host_glob": "https://a.example"}, "action": {"type": "allow"}}]}}),
            &["rule", "host"],
        ),
        (
            "resources",
            json!({"resources": {"cpu_milli": 100}}),
            &["250"],
        ),
        (
            "resources",
            json!({"resources": {"memory_mib": 200_000}}),
            &["102400"],
        ),
        (
            "resources",
            json!({"resources": {"cpu_milli": 24_000, "memory_mib": 102_400}}),
            &["cpu_milli 8000", "memory_mib 32768"],
        ),
        (
            "resources.accelerator.name",
            json!({"resources": {"accelerator": {"type": "gpu"}}}),
            &["accelerator"],
        ),
        (
            "resources.accelerator.name",
            json!({"resources": {"accelerator": {"name": "h900"}}}),
            &["h900"],
        ),
        (
            "idle_stop_after_seconds",
            json!({"computer_use": true, "idle_stop_after_seconds": 300}),
            &["600", "0"],
        ),
        (
            "env_vars.PATH",
            json!({"env_vars": {"PATH": "/x"}}),
            &["PATH"],
        ),
        (
            "env_vars.PYTHONPATH",
            json!({"env_vars": {"PYTHONPATH": "/x"}}),
            &["PYTHONPATH", "command"],
        ),
        (
            "env_vars.HOME",
            json!({"env_vars": {"HOME": "/x"}}),
            &["HOME"],
        ),
        (
            "env_vars.LD_PRELOAD",
            json!({"env_vars": {"LD_PRELOAD": "/x"}}),
            &["LD_PRELOAD"],
        ),
    ];
    let mut failed = Vec::new();
    let saved = create(&doors, "saved").await;
    for (field, change, tells) in rows {
        for name in ["CreateEnvironment", "UpdateEnvironment"] {
            let mut body = change.clone();
            if name == "CreateEnvironment" {
                body["name"] = json!("x");
            } else {
                body["expected_access"] =
                    json!({"network_policy": {"version": "v1", "rules": []}, "privileged": false});
            }
            let answer = call(&doors, name, &saved, "").json(&body).send().await;
            let row = Row {
                status: 400,
                code: "invalid_request",
                field: "",
                tells,
            };
            let details = demand_or(&answer, &row, &mut failed, field);
            let found = details["field"].as_str().unwrap_or_default();
            // A policy's or a size's part is named where one can be.
            let within = ["network_policy", "resources"].contains(&field)
                && (found.starts_with(&format!("{field}."))
                    || found.starts_with(&format!("{field}[")));
            if found != field && !within {
                failed.push(format!("{field}: the field named is {found:?}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Collects instead of ending the test, so that one run shows every row.
fn demand_or(answer: &Answer, row: &Row<'_>, failed: &mut Vec<String>, what: &str) -> Value {
    let found = std::panic::catch_unwind(|| demand(answer, row));
    found.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        failed.push(format!("{what}: {text}"));
        answer.json()["details"].clone()
    })
}

#[tokio::test]
async fn runs_say_which_run_stands_in_the_way() {
    let doors = Doors::open().await;
    let id = create(&doors, "one").await;
    let run = start(&doors, &id, "a").await.ok()["setup_run_id"].clone();
    let row = Row {
        status: 409,
        code: "setup_run_in_progress",
        field: "",
        tells: &["Wait", "cancel"],
    };
    let details = demand(&start(&doors, &id, "b").await, &row);
    assert_eq!(details["setup_run_id"], run);

    let mut in_flight = vec![run.clone()];
    for n in 0..3 {
        let id = create(&doors, &format!("more {n}")).await;
        in_flight.push(start(&doors, &id, &format!("more-{n}")).await.ok()["setup_run_id"].clone());
    }
    let fifth = create(&doors, "fifth").await;
    let answer = start(&doors, &fifth, "fifth").await;
    let row = Row {
        status: 429,
        code: "setup_run_limit",
        field: "",
        tells: &["4", "cancel"],
    };
    let details = demand(&answer, &row);
    let mut listed = details["in_flight"].as_array().unwrap().clone();
    listed.sort_by_key(ToString::to_string);
    in_flight.sort_by_key(ToString::to_string);
    assert_eq!(listed, in_flight);
    assert!(
        answer
            .header("retry-after")
            .unwrap()
            .parse::<u32>()
            .unwrap()
            > 0
    );
    assert_eq!(details["retryable"], true);

    let run = run.as_str().unwrap();
    call(&doors, "CancelEnvironmentSetupRun", &id, run)
        .send()
        .await
        .ok();
    let again = call(&doors, "CancelEnvironmentSetupRun", &id, run)
        .send()
        .await;
    demand(
        &again,
        &Row {
            status: 409,
            code: "setup_run_finished",
            field: "",
            tells: &["cancelled"],
        },
    );

    let bare = call(&doors, "CreateEnvironment", "", "").json(&json!({"name": "no script"}));
    let bare = bare.send().await.ok()["environment_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let row = Row {
        status: 400,
        code: "invalid_request",
        field: "setup.script",
        tells: &["no setup script", "Save a script"],
    };
    demand(&start(&doors, &bare, "bare").await, &row);
}

#[tokio::test]
async fn access_and_races_say_to_read_again() {
    let doors = Doors::open().await;
    let id = create(&doors, "one").await;
    let patch = |body: Value| {
        call(&doors, "UpdateEnvironment", &id, "")
            .json(&body)
            .send()
    };
    let row = Row {
        status: 428,
        code: "precondition_required",
        field: "expected_access",
        tells: &["network_policy", "privileged"],
    };
    demand(&patch(json!({"network_policy": {}})).await, &row);
    demand(
        &patch(json!({"network_policy": {}, "privileged": true})).await,
        &row,
    );
    // Turned on alone, where the saved policy is {}.
    let open = call(&doors, "CreateEnvironment", "", "");
    let open = open.json(&json!({"name": "open", "network_policy": {}}));
    let open = open.send().await.ok()["environment_id"].clone();
    let privileged = call(&doors, "UpdateEnvironment", open.as_str().unwrap(), "");
    let privileged = privileged.json(&json!({"privileged": true})).send().await;
    demand(&privileged, &row);
    let expected = json!({"network_policy": {}, "privileged": false});
    let row = Row {
        status: 412,
        code: "precondition_failed",
        field: "expected_access",
        tells: &["Read the environment again"],
    };
    let answer = patch(json!({"network_policy": {}, "expected_access": expected})).await;
    demand(&answer, &row);

    let (control, admin) = (doors.app.control.clone(), doors.app.admin.clone());
    let other = id.parse().unwrap();
    doors
        .app
        .store
        .once(Moment::Before("update_environment"), move || async move {
            let quicker = json!({"resources": {"cpu_milli": 2000, "memory_mib": 4096}});
            control
                .update_environment(&admin, other, &quicker, None)
                .await
                .unwrap();
            Ok(())
        });
    let later = patch(json!({"resources": {"cpu_milli": 4000, "memory_mib": 8192}})).await;
    let row = Row {
        status: 409,
        code: "revision_conflict",
        field: "",
        tells: &["Read it again"],
    };
    demand(&later, &row);
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_allowed_are_told_apart() {
    let doors = Doors::open().await;
    let id = create(&doors, "one").await;
    let gone = create(&doors, "gone").await;
    call(&doors, "DeleteEnvironment", &gone, "")
        .send()
        .await
        .ok();
    for missing in [UNKNOWN, &gone] {
        let answer = call(&doors, "GetEnvironment", missing, "").send().await;
        demand(
            &answer,
            &Row {
                status: 404,
                code: "not_found",
                field: "",
                tells: &["id"],
            },
        );
    }
    let run = start(&doors, &id, "a").await.ok()["setup_run_id"].clone();
    for (name, change) in [
        ("CreateEnvironment", body("x")),
        ("UpdateEnvironment", json!({"name": "x"})),
        ("CreateEnvironmentSetupRun", json!({})),
        ("CancelEnvironmentSetupRun", json!({})),
        ("DeleteEnvironment", json!({})),
    ] {
        let (method, path) = target(name, &id, run.as_str().unwrap());
        let call = doors.call(method, &path).bearer(&doors.user);
        let call = call.header("idempotency-key", name).json(&change);
        let answer = call.send().await;
        let row = Row {
            status: 403,
            code: "forbidden",
            field: "",
            tells: &["role", "developer", "admin"],
        };
        demand(&answer, &row);
    }
}

/// Duplicates after a retry: only without a key, or when the receipt has expired.
#[tokio::test]
async fn a_retry_with_its_key_makes_no_duplicate_for_a_day() {
    let doors = Doors::open().await;
    let hour = Duration::from_secs(3_600);
    for (key, later, there) in [
        (Some("k"), Duration::ZERO, 1),
        (Some("k"), 23 * hour, 1),
        (None, Duration::ZERO, 2),
        (Some("k"), 2 * hour, 3),
    ] {
        doors.app.clock.advance(later);
        let mut create = call(&doors, "CreateEnvironment", "", "").json(&body("one"));
        if let Some(key) = key {
            create = create.header("idempotency-key", key);
        }
        create.send().await.ok();
        let list = call(&doors, "ListEnvironments", "", "").send().await.ok();
        assert_eq!(list["environments"].as_array().unwrap().len(), there);
    }
}

/// As a worker reports it that saw a host refused.
#[tokio::test]
async fn a_run_that_a_policy_stopped_says_which_host() {
    let doors = Doors::open().await;
    let id = create(&doors, "one").await;
    let run = start(&doors, &id, "a").await.ok()["setup_run_id"].clone();
    let worker = doors.app.worker("played").await;
    let work = worker.claim().await;
    worker
        .reach(work.held, domain::setup_run::Phase::Setup)
        .await
        .unwrap();
    let hint =
        "Line 1: the network policy allows no access to pypi.example. Allow it, then test again.";
    let outcome = RunOutcome {
        hint_code: Some(HintCode::EgressBlocked),
        hint: Some(hint.to_owned()),
        ..TestWorker::failed()
    };
    worker.gateway.finish(work.held, outcome).await.unwrap();
    let run = call(&doors, "GetEnvironmentSetupRun", &id, run.as_str().unwrap());
    let run = run.send().await.ok();
    assert_eq!(run["status"], "failed");
    assert_eq!(run["failure_code"], "environment_setup_failed");
    assert_eq!(
        (&run["hint_code"], &run["hint"]),
        (&json!("egress_blocked"), &json!(hint))
    );
    let environment = call(&doors, "GetEnvironment", &id, "").send().await.ok();
    let summary = &environment["setup_verification"]["last_run"];
    assert_eq!(summary["hint_code"], "egress_blocked", "{environment}");
}
