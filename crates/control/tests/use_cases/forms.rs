//! The console's form: it saves what it changed, over what others changed meanwhile.

use domain::ids::EnvironmentId;
use serde_json::{Value, json};
use testkit::TestApp;
use wire::{error::Code, managed_agents::Environment};

use crate::{code, edited, refused, revisions, saving::meanwhile};

/// The environment as a form leaves it that was made from its first revision.
async fn saved(app: &TestApp, id: EnvironmentId, form: Value) -> Environment {
    let saved = app
        .control
        .save_environment_form(&app.admin, id, 1, &form)
        .await;
    saved.unwrap()
}

#[tokio::test]
async fn a_form_saves_what_it_changed_and_keeps_what_others_changed() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let form = json!({
        "name": "one", "description": "mine", "setup": {"script": "true"},
        "network_policy": {"version": "v1", "rules": []}, "privileged": false, "env_vars": {},
    });
    edited(&app, id, json!({"name": "theirs", "env_vars": {"A": "1"}})).await;
    let saved = saved(&app, id, form).await;
    assert_eq!(saved.name, "theirs");
    assert_eq!(saved.description, "mine");
    assert_eq!(saved.env_vars["A"], "1");
}

#[tokio::test]
async fn a_form_that_changes_what_others_changed_too_is_a_conflict_that_names_the_field() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    edited(&app, id, json!({"name": "theirs"})).await;
    let form = json!({"name": "mine", "description": "d"});
    let error = refused(
        app.control
            .save_environment_form(&app.admin, id, 1, &form)
            .await,
    );
    assert_eq!(error.code(), Code::RevisionConflict);
    assert_eq!(error.api().details["fields"], json!(["name"]));
    // The same value is no conflict.
    let same = json!({"name": "theirs", "description": "d"});
    let saved = saved(&app, id, same).await;
    assert_eq!(saved.description, "d");
}

#[tokio::test]
async fn a_form_meets_an_edit_that_lands_while_it_is_saved_as_one_that_landed_before() {
    for (theirs, mine, fields) in [
        (
            json!({"name": "theirs"}),
            json!({"name": "mine"}),
            Some(Some(json!(["name"]))),
        ),
        (
            json!({"pvc_size_gi": 20}),
            json!({"pvc_size_gi": 30}),
            Some(Some(json!(["pvc_size_gi"]))),
        ),
        (
            json!({"name": "theirs"}),
            json!({"pvc_size_gi": 30}),
            Some(None),
        ),
        (
            json!({"name": "theirs"}),
            json!({"name": "theirs", "description": "mine"}),
            None,
        ),
        (
            json!({"pvc_size_gi": 20}),
            json!({"pvc_size_gi": 20, "description": "mine"}),
            None,
        ),
        (
            json!({"pvc_size_gi": 20}),
            json!({"pvc_size_gi": 0, "description": "mine"}),
            None,
        ),
    ] {
        let app = TestApp::start().await;
        let id = app.environment("one", "true").await;
        meanwhile(&app, id, theirs.clone());
        let saved = app
            .control
            .save_environment_form(&app.admin, id, 1, &mine)
            .await;
        assert!(app.store.all_used());
        match fields {
            Some(fields) => {
                let error = refused(saved);
                assert_eq!(error.code(), Code::RevisionConflict, "{mine}");
                assert_eq!(error.api().details.get("fields"), fields.as_ref(), "{mine}");
            }
            None => {
                let saved = saved.unwrap();
                assert_eq!(saved.description, "mine");
                let saved = serde_json::to_value(&saved).unwrap();
                let (field, value) = theirs.as_object().unwrap().iter().next().unwrap();
                assert_eq!(&saved[field], value, "{mine}");
            }
        }
    }
}

#[tokio::test]
async fn a_form_changes_access_by_the_revision_it_was_made_from() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let saved = saved(&app, id, json!({"network_policy": {}})).await;
    assert_eq!(saved.network_policy, json!({}));
    // Made from revision 1, where there was no access; meanwhile it was opened.
    let allow = json!({"version": "v1", "rules": [
        {"match": {"host_glob": "example.com"}, "action": {"type": "allow"}}]});
    let late = app
        .control
        .save_environment_form(&app.admin, id, 1, &json!({"network_policy": allow}))
        .await;
    assert_eq!(code(late), Code::RevisionConflict);
}

#[tokio::test]
async fn a_form_that_changes_nothing_saves_nothing() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let form = json!({"name": "one", "description": "", "setup": {"script": "true\n\n"}});
    saved(&app, id, form).await;
    assert_eq!(revisions(&app, id).await, 1);
}
