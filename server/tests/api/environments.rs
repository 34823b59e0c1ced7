//! `/managed-agents/v1`: providers, templates, environments.

use domain::roles::Role;
use http::Method;
use serde_json::{Value, json};

use crate::support::Doors;

const ENVIRONMENTS: &str = "/managed-agents/v1/environments";
const UNKNOWN: &str = "019a0000-0000-7000-8000-00000000ffff";

fn body(name: &str) -> Value {
    json!({"name": name, "setup": {"script": "echo hi\n"}, "network_policy": {"version": "v1", "rules": []}})
}

async fn created(doors: &Doors, name: &str) -> String {
    let answer = doors
        .post(ENVIRONMENTS)
        .bearer(&doors.developer)
        .json(&body(name))
        .send()
        .await;
    answer.ok()["environment_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_environment_is_created_read_changed_listed_and_deleted() {
    let doors = Doors::open().await;
    let answer = doors
        .post(ENVIRONMENTS)
        .bearer(&doors.developer)
        .json(&body("One"))
        .send()
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("recursion-organization-id"),
        Some(doors.app.organization.to_string().as_str())
    );
    let made = answer.ok();
    for required in [
        "setup",
        "resources",
        "computer_use",
        "network_policy",
        "setup_verification",
        "provider",
        "image",
    ] {
        assert!(made.get(required).is_some(), "{required} is always there");
    }
    let id = made["environment_id"].as_str().unwrap();
    let path = format!("{ENVIRONMENTS}/{id}");
    let read = doors.get(&path).bearer(&doors.user).send().await.ok();
    assert_eq!(read, made);

    let changed = doors
        .call(Method::PATCH, &path)
        .bearer(&doors.developer)
        .json(&json!({"name": "Two"}))
        .send()
        .await
        .ok();
    assert_eq!(changed["name"], "Two");
    created(&doors, "Three").await;
    let list = doors
        .get(ENVIRONMENTS)
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    let names: Vec<&str> = list["environments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Three", "Two"], "newest first");

    let gone = doors
        .call(Method::DELETE, &path)
        .bearer(&doors.developer)
        .send()
        .await;
    assert_eq!(gone.ok(), json!({"deleted": true}));
    for method in [Method::GET, Method::DELETE] {
        let again = doors
            .call(method, &path)
            .bearer(&doors.developer)
            .send()
            .await;
        again.refused(404, "not_found");
    }
}

#[tokio::test]
async fn an_organization_without_environments_lists_null() {
    let doors = Doors::open().await;
    let list = doors.get(ENVIRONMENTS).bearer(&doors.user).send().await;
    assert_eq!(list.text, r#"{"environments":null}"#);
}

#[tokio::test]
async fn catalogs_carry_a_validator_and_are_not_sent_twice() {
    let doors = Doors::open().await;
    for path in [
        "/managed-agents/v1/sandbox-providers",
        "/managed-agents/v1/environment-templates",
    ] {
        let first = doors.get(path).bearer(&doors.user).send().await;
        assert!(!first.ok()["items"].as_array().unwrap().is_empty());
        let tag = first.header("etag").unwrap().to_owned();
        assert!(tag.starts_with("W/\""), "{tag}");
        for known in [tag.clone(), format!("\"other\", {tag}"), "*".to_owned()] {
            let again = doors
                .get(path)
                .bearer(&doors.user)
                .header("if-none-match", &known)
                .send()
                .await;
            assert_eq!(
                (again.status.as_u16(), again.text.as_str()),
                (304, ""),
                "{known}"
            );
            assert_eq!(again.header("etag"), Some(tag.as_str()));
        }
        let other = doors
            .get(path)
            .bearer(&doors.user)
            .header("if-none-match", "W/\"other\"")
            .send()
            .await;
        assert_eq!(other.status, 200);
    }
}

#[tokio::test]
async fn what_a_role_may_not_do_is_forbidden_and_changes_nothing() {
    let doors = Doors::open().await;
    let id = created(&doors, "One").await;
    let path = format!("{ENVIRONMENTS}/{id}");
    let key = doors.key_of(Role::User);
    let refusals = [
        doors.post(ENVIRONMENTS).json(&body("Two")),
        doors
            .call(Method::PATCH, &path)
            .json(&json!({"name": "Two"})),
        doors.call(Method::DELETE, &path),
        doors
            .post(&format!("{path}/setup-runs"))
            .header("idempotency-key", "k"),
    ];
    for call in refusals {
        call.bearer(key).send().await.refused(403, "forbidden");
    }
    let list = doors.get(ENVIRONMENTS).bearer(key).send().await.ok();
    assert_eq!(list["environments"].as_array().unwrap().len(), 1);
    assert_eq!(list["environments"][0]["name"], "One");
}

#[tokio::test]
async fn an_unknown_id_is_not_found_and_a_malformed_one_is_named() {
    let doors = Doors::open().await;
    let unknown = format!("{ENVIRONMENTS}/{UNKNOWN}");
    for call in [
        doors.get(&unknown),
        doors.call(Method::DELETE, &unknown),
        doors
            .call(Method::PATCH, &unknown)
            .json(&json!({"name": "x"})),
        doors.get(&format!("{unknown}/setup-runs")),
        doors
            .post(&format!("{unknown}/setup-runs"))
            .header("idempotency-key", "k"),
        doors.get(&format!("{unknown}/setup-runs/{UNKNOWN}")),
        doors.get(&format!("{unknown}/setup-runs/{UNKNOWN}/log")),
        doors.post(&format!("{unknown}/setup-runs/{UNKNOWN}/cancel")),
    ] {
        call.bearer(&doors.developer)
            .send()
            .await
            .refused(404, "not_found");
    }
    let details = doors
        .get(&format!("{ENVIRONMENTS}/one"))
        .bearer(&doors.user)
        .send()
        .await
        .refused(400, "invalid_request");
    assert_eq!(details["field"], "environment_id");
}

#[tokio::test]
async fn wrong_fields_are_all_named() {
    let doors = Doors::open().await;
    let details = doors
        .post(ENVIRONMENTS)
        .bearer(&doors.developer)
        .json(&json!({"name": " ", "colour": "red", "pvc_size_gi": 101}))
        .send()
        .await
        .refused(400, "invalid_request");
    let issues: Vec<&str> = details["issues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i.as_str().unwrap())
        .collect();
    for field in ["name", "colour", "pvc_size_gi"] {
        assert!(
            issues.iter().any(|i| i.starts_with(&format!("{field}:"))),
            "{field}: {issues:?}"
        );
    }
}

#[tokio::test]
async fn access_changes_need_what_was_read() {
    let doors = Doors::open().await;
    let id = created(&doors, "One").await;
    let path = format!("{ENVIRONMENTS}/{id}");
    let change = |extra: Option<Value>| {
        let mut body = json!({"network_policy": {}});
        if let Some(extra) = extra {
            body["expected_access"] = extra;
        }
        doors
            .call(Method::PATCH, &path)
            .bearer(&doors.developer)
            .json(&body)
    };
    change(None)
        .send()
        .await
        .refused(428, "precondition_required");
    change(Some(json!({"network_policy": {}, "privileged": false})))
        .send()
        .await
        .refused(412, "precondition_failed");
    let opened = change(Some(
        json!({"network_policy": {"version": "v1", "rules": []}, "privileged": false}),
    ))
    .send()
    .await
    .ok();
    assert_eq!(opened["network_policy"], json!({}));
}

#[tokio::test]
async fn a_keyed_create_is_replayed_and_a_different_one_conflicts() {
    let doors = Doors::open().await;
    let send = |name: &str, key: &str| {
        doors
            .post(ENVIRONMENTS)
            .bearer(&doors.developer)
            .header("idempotency-key", key)
            .json(&body(name))
            .send()
    };
    let first = send("One", "key-1").await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let again = send("One", "key-1").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    send("Two", "key-1")
        .await
        .refused(409, "idempotency_conflict");
    let list = doors
        .get(ENVIRONMENTS)
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(list["environments"].as_array().unwrap().len(), 1);
    // A refused request leaves its key free.
    send("", "key-2").await.refused(400, "invalid_request");
    send("Two", "key-2").await.ok();
}

#[tokio::test]
async fn a_key_must_be_one_header_of_visible_ascii() {
    let doors = Doors::open().await;
    let call = || {
        doors
            .post(ENVIRONMENTS)
            .bearer(&doors.developer)
            .json(&body("One"))
    };
    for key in ["", "with space", &"k".repeat(257)] {
        let details = call()
            .header("idempotency-key", key)
            .send()
            .await
            .refused(400, "invalid_request");
        assert_eq!(details["field"], "Idempotency-Key", "{key}");
    }
    call()
        .header("idempotency-key", "a")
        .header("idempotency-key", "a")
        .send()
        .await
        .refused(400, "invalid_request");
    call()
        .header("idempotency-key", &"k".repeat(256))
        .send()
        .await
        .ok();
}
