//! A change and the setup test that is asked for with it.

use control::and_test::Then;
use domain::roles::Role;
use serde_json::json;
use testkit::{TestApp, create_body};
use wire::error::Code;

use crate::{code, refused};

const TEST: Then<'_> = Then::Test { key: Some("k") };

#[tokio::test]
async fn a_change_is_tested_once_however_often_it_is_sent() {
    let app = TestApp::start().await;
    let made = app
        .control
        .create_environment_then(&app.admin, &create_body("one", "true"), None, TEST)
        .await
        .unwrap();
    let run = made.test.unwrap().unwrap();
    let id = made.environment.environment_id;
    let form = json!({"description": "mine"});
    let saved = app
        .control
        .save_environment_form_then(&app.admin, id, 1, &form, TEST)
        .await
        .unwrap();
    assert_eq!(saved.environment.description, "mine");
    assert_eq!(
        saved.test.unwrap().unwrap(),
        run,
        "the same key, the same run"
    );
    let allowed = app
        .control
        .allow_host_then(&app.admin, id, "example.com", false, TEST)
        .await
        .unwrap();
    assert_eq!(allowed.test.unwrap().unwrap(), run);
    let allowed = app
        .control
        .allow_host_then(&app.admin, id, "example.org", false, Then::Rest)
        .await
        .unwrap();
    assert!(allowed.test.is_none());
    assert_eq!(
        allowed.environment.network_policy["rules"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn a_change_stands_when_its_test_cannot_start() {
    let app = TestApp::start().await;
    let made = app
        .control
        .create_environment_then(&app.admin, &create_body("one", ""), None, TEST)
        .await
        .unwrap();
    assert_eq!(refused(made.test.unwrap()).code(), Code::InvalidRequest);
    let id = made.environment.environment_id;
    let form = json!({"setup": {"script": "true"}});
    let saved = app
        .control
        .save_environment_form_then(&app.admin, id, 1, &form, Then::Test { key: Some("ä") })
        .await
        .unwrap();
    assert_eq!(
        code(saved.test.unwrap()),
        Code::InvalidRequest,
        "a wrong key"
    );
    let run = app.run(id).await;
    let allowed = app
        .control
        .allow_host_then(&app.admin, id, "github.com", true, Then::Test { key: None })
        .await
        .unwrap();
    let error = refused(allowed.test.unwrap());
    assert_eq!(error.code(), Code::SetupRunInProgress);
    assert_eq!(error.api().details["setup_run_id"], json!(run));
    let kept = app.control.get_environment(&app.admin, id).await.unwrap();
    assert!(kept.network_policy["rules"].as_array().unwrap().len() > 1);
}

#[tokio::test]
async fn who_may_not_change_starts_no_test_either() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let user = app.member(Role::User, "u@example.com").await;
    let form = json!({"description": "d"});
    let control = &app.control;
    for refused in [
        control
            .create_environment_then(&user, &create_body("n", "true"), None, TEST)
            .await
            .map(drop),
        control
            .save_environment_form_then(&user, id, 1, &form, TEST)
            .await
            .map(drop),
        control
            .allow_host_then(&user, id, "example.com", false, TEST)
            .await
            .map(drop),
        control.test_setup(&user, id, Some("k")).await.map(drop),
    ] {
        assert_eq!(code(refused), Code::Forbidden);
    }
    let runs = control.list_setup_runs(&app.admin, id, None).await.unwrap();
    assert!(runs.setup_runs.is_empty());
}
