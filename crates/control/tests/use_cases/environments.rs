//! Environments: create, read, change, delete, duplicate, check.

use domain::{ids::EnvironmentId, verification::SetupBadge};
use serde_json::json;
use testkit::{TestApp, create_body};
use wire::{console::VerdictEffect, error::Code};

use crate::{code, edited, refused, revisions, verified};

#[tokio::test]
async fn an_organization_without_environments_lists_null() {
    let app = TestApp::start().await;
    let list = app.control.list_environments(&app.admin).await.unwrap();
    assert_eq!(
        serde_json::to_value(&list).unwrap(),
        json!({"environments": null})
    );
    app.environment("one", "").await;
    let list = app.control.list_environments(&app.admin).await.unwrap();
    assert_eq!(list.environments.unwrap().len(), 1);
}

#[tokio::test]
async fn environments_are_listed_newest_first() {
    let app = TestApp::start().await;
    for name in ["a", "b", "c"] {
        app.environment(name, "").await;
        app.clock.advance(std::time::Duration::from_secs(1));
    }
    let list = app.control.list_environments(&app.admin).await.unwrap();
    let names: Vec<_> = list
        .environments
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[tokio::test]
async fn a_created_environment_reads_back_as_it_was_answered() {
    let app = TestApp::start().await;
    let made = app
        .control
        .create_environment(&app.admin, &create_body(" web ", "npm ci  \r\n"), None)
        .await
        .unwrap();
    assert_eq!(made.status, 200);
    assert!(!made.replayed);
    assert_eq!(made.body, serde_json::to_string(&made.value).unwrap());
    let environment = made.value;
    assert_eq!(environment.name, "web");
    assert_eq!(environment.setup.script, "npm ci\n");
    assert_eq!(environment.setup_verification.status, "never");
    assert_eq!(
        environment.setup_updated_by_user_id,
        Some(app.admin.member().unwrap().user_id)
    );
    assert_eq!(environment.scope, "organization");
    assert_eq!(environment.image, "groundwork/runner:full");
    let read = app
        .control
        .get_environment(&app.admin, environment.environment_id)
        .await
        .unwrap();
    assert_eq!(read, environment);
}

#[tokio::test]
async fn an_environment_without_a_script_is_ready_and_names_no_editor_of_it() {
    let app = TestApp::start().await;
    let id = app.environment("plain", "").await;
    let read = app.control.get_environment(&app.admin, id).await.unwrap();
    assert_eq!(read.setup_verification.status, "not_applicable");
    assert_eq!(read.setup_updated_by_user_id, None);
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.badge, SetupBadge::Ready);
    assert!(page.usable);
}

#[tokio::test]
async fn a_refused_body_names_every_field_and_writes_nothing() {
    let app = TestApp::start().await;
    let error = refused(
        app.control
            .create_environment(
                &app.admin,
                &json!({"name": " ", "pvc_size_gi": 101, "colour": "blue"}),
                None,
            )
            .await,
    );
    assert_eq!(error.code(), Code::InvalidRequest);
    let details = &error.api().details;
    let issues = details["issues"].as_array().unwrap();
    assert_eq!(issues.len(), 3, "{issues:?}");
    for field in ["name", "pvc_size_gi", "colour"] {
        assert!(
            issues
                .iter()
                .any(|issue| issue.as_str().unwrap().starts_with(&format!("{field}: "))),
            "{field} in {issues:?}"
        );
        assert!(error.api().message.contains(field));
    }
    assert!(details["field"].is_string());
    let list = app.control.list_environments(&app.admin).await.unwrap();
    assert_eq!(list.environments, None);
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let before = app.control.get_environment(&app.admin, id).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(60));
    let after = edited(&app, id, json!({"description": "for tests"})).await;
    assert_eq!(after.description, "for tests");
    assert_eq!(after.name, before.name);
    assert_eq!(after.setup, before.setup);
    assert_eq!(after.setup_updated_at, before.setup_updated_at);
    assert_eq!(after.created_at, before.created_at);
    assert!(after.updated_at > before.updated_at);
}

#[tokio::test]
async fn an_update_to_the_same_values_makes_no_new_definition() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let before = app.control.get_environment(&app.admin, id).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(60));
    let after = edited(&app, id, json!({"name": "one"})).await;
    assert_eq!(after, before);
    assert_eq!(revisions(&app, id).await, 1);
}

#[tokio::test]
async fn access_is_changed_only_by_who_knows_what_is_saved() {
    let app = TestApp::start().await;
    let id = app.environment("one", "").await;
    let open = json!({"network_policy": {}});
    let missing = app
        .control
        .update_environment(&app.admin, id, &open, None)
        .await;
    assert_eq!(code(missing), Code::PreconditionRequired);
    let closed = json!({"version": "v1", "rules": []});
    let wrong = json!({
        "network_policy": {},
        "expected_access": {"network_policy": closed, "privileged": true},
    });
    let differs = app
        .control
        .update_environment(&app.admin, id, &wrong, None)
        .await;
    assert_eq!(code(differs), Code::PreconditionFailed);
    let right = json!({
        "network_policy": {},
        "expected_access": {"network_policy": closed, "privileged": false},
    });
    let opened = edited(&app, id, right).await;
    assert_eq!(opened.network_policy, json!({}));
    // Closing needs no proof.
    let body = json!({"network_policy": closed});
    assert!(
        app.control
            .update_environment(&app.admin, id, &body, None)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_deleted_environment_is_gone_for_every_call() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let answer = app
        .control
        .delete_environment(&app.admin, id)
        .await
        .unwrap();
    assert!(answer.deleted);
    assert_eq!(
        code(app.control.delete_environment(&app.admin, id).await),
        Code::NotFound
    );
    assert_eq!(
        code(app.control.get_environment(&app.admin, id).await),
        Code::NotFound
    );
    assert_eq!(
        code(app.control.start_setup_run(&app.admin, id, None).await),
        Code::NotFound
    );
    let list = app.control.list_environments(&app.admin).await.unwrap();
    assert_eq!(list.environments, None);
}

#[tokio::test]
async fn a_copy_is_made_of_the_same_definition_and_is_not_verified() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let copy = app
        .control
        .duplicate_environment(&app.admin, id)
        .await
        .unwrap();
    assert_eq!(copy.name, "Copy of one");
    assert_eq!(copy.setup.script, "true\n");
    assert_eq!(copy.setup_verification.status, "never");
    assert_ne!(copy.environment_id, id);
}

#[tokio::test]
async fn a_copy_of_the_longest_name_still_has_a_valid_name() {
    let app = TestApp::start().await;
    let id = app.environment(&"n".repeat(256), "").await;
    let copy = app
        .control
        .duplicate_environment(&app.admin, id)
        .await
        .unwrap();
    assert_eq!(copy.name.chars().count(), 256);
}

#[tokio::test]
async fn a_live_check_names_issues_and_what_saving_does_to_the_verdict() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let check = async |id: Option<EnvironmentId>, body: serde_json::Value| {
        app.control
            .validate_environment(&app.admin, id, &body)
            .await
            .unwrap()
    };
    let wrong = check(None, json!({"name": ""})).await;
    assert_eq!(wrong.issues[0].path, "name");
    assert_eq!(wrong.effect, None);
    let fine = check(None, create_body("x", "")).await;
    assert!(fine.issues.is_empty());
    for (body, effect) in [
        (json!({"description": "d"}), None),
        (
            json!({"setup": {"script": "false"}}),
            Some(VerdictEffect::BecomesStale),
        ),
        (
            json!({"setup": {"script": ""}}),
            Some(VerdictEffect::NothingToVerify),
        ),
        (
            json!({"network_policy": {}}),
            Some(VerdictEffect::BecomesStale),
        ),
    ] {
        let validation = check(Some(id), body.clone()).await;
        assert!(
            validation.issues.is_empty(),
            "{body}: {:?}",
            validation.issues
        );
        assert_eq!(validation.effect, effect, "{body}");
    }
    let plain = app.environment("plain", "").await;
    let adds = check(Some(plain), json!({"setup": {"script": "true"}})).await;
    assert_eq!(adds.effect, Some(VerdictEffect::NeedsTest));
    edited(&app, id, json!({"setup": {"script": "false"}})).await;
    let back = check(Some(id), json!({"setup": {"script": "true"}})).await;
    assert_eq!(back.effect, Some(VerdictEffect::BecomesCurrent));
}
