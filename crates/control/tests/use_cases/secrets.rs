//! Secret variables: who may do what with them, what they do to the verdict, and where their values are.

use control::{
    Config, Error, Secret, SecretsKey, ServerKey, secrets::KeyCheck, variables::Variables,
};
use domain::{
    ids::EnvironmentId,
    roles::Role,
    setup_run::{FailureCode, Phase},
};
use serde_json::{Value, json};
use testkit::{Moment, TestApp, TestOptions};
use wire::error::Code;

use crate::{code, refused};

const VALUE: &str = "hush-hush-1";

async fn set(app: &TestApp, id: EnvironmentId, name: &str, value: &str) -> Result<(), Error> {
    let value = Secret::new(value);
    app.control
        .set_secret(&app.admin, id, name, &value)
        .await
        .map(drop)
}

async fn names(app: &TestApp, id: EnvironmentId) -> Vec<String> {
    let list = app.control.list_secrets(&app.admin, id).await.unwrap();
    list.secrets.into_iter().map(|secret| secret.name).collect()
}

/// Whether the verdict is stale, and which fields it is for.
async fn stale(app: &TestApp, id: EnvironmentId) -> (bool, Vec<(String, String, String)>) {
    let answer = app
        .control
        .environment_staleness(&app.admin, id)
        .await
        .unwrap();
    let fields = answer.fields.into_iter();
    (
        answer.stale,
        fields.map(|f| (f.field, f.before, f.after)).collect(),
    )
}

async fn verified(app: &TestApp) -> EnvironmentId {
    let id = app.environment("E", "true").await;
    set(app, id, "TOKEN", VALUE).await.unwrap();
    app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    assert_eq!(stale(app, id).await, (false, vec![]));
    id
}

#[tokio::test]
async fn secrets_are_set_replaced_listed_and_removed() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    set(&app, id, "B", VALUE).await.unwrap();
    set(&app, id, "A", VALUE).await.unwrap();
    set(&app, id, "B", "another-value").await.unwrap();
    let one = app.control.get_secret(&app.admin, id, "A").await.unwrap();
    assert_eq!(
        (one.name.as_str(), one.set_by.as_str()),
        ("A", "admin@example.com")
    );
    assert_eq!(names(&app, id).await, ["A", "B"]);
    app.control
        .delete_secret(&app.admin, id, "A")
        .await
        .unwrap();
    assert_eq!(names(&app, id).await, ["B"]);
    for name in ["A", "PATH", ""] {
        assert_eq!(
            code(app.control.get_secret(&app.admin, id, name).await),
            Code::NotFound
        );
        assert_eq!(
            code(app.control.delete_secret(&app.admin, id, name).await),
            Code::NotFound
        );
    }
    let audit = app.control.audit_log(&app.admin, None).await.unwrap().items;
    let mut rows: Vec<(&str, &Value)> = audit
        .iter()
        .filter(|row| row.action.starts_with("secret."))
        .map(|row| (row.action.as_str(), &row.detail["name"]))
        .collect();
    rows.reverse();
    let expected = [
        ("secret.set", json!("B")),
        ("secret.set", json!("A")),
        ("secret.replace", json!("B")),
        ("secret.delete", json!("A")),
    ];
    assert_eq!(rows.len(), expected.len());
    for (found, (action, name)) in rows.into_iter().zip(&expected) {
        assert_eq!(found, (*action, name));
    }
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_by_its_field() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let long = "x".repeat(32 * 1024 + 1);
    for (name, value, field) in [
        ("PATH", VALUE, "name"),
        ("LD_PRELOAD", VALUE, "name"),
        ("9A", VALUE, "name"),
        ("A-B", VALUE, "name"),
        ("A", "1234567", "value"),
        ("A", "        \n", "value"),
        ("A", "12345678\0", "value"),
        ("A", long.as_str(), "value"),
    ] {
        let error = refused(set(&app, id, name, value).await);
        assert_eq!(error.code(), Code::InvalidRequest, "{name}");
        let issues = error.api().details["issues"].to_string();
        assert!(issues.contains(&format!("\"{field}: ")), "{name}: {issues}");
        assert!(!issues.contains("1234567"), "{issues}");
    }
    assert!(names(&app, id).await.is_empty());
}

#[tokio::test]
async fn secrets_are_limited_in_number_and_bytes() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    for n in 0..100 {
        set(&app, id, &format!("S{n}"), VALUE).await.unwrap();
    }
    assert_eq!(
        code(set(&app, id, "ONE_MORE", VALUE).await),
        Code::InvalidRequest
    );
    set(&app, id, "S7", "replaced-value").await.unwrap();
    let big = app.environment("big", "true").await;
    let most = "x".repeat(32 * 1024);
    for n in 0..3 {
        set(&app, big, &format!("S{n}"), &most).await.unwrap();
    }
    let error = refused(set(&app, big, "S3", &most).await);
    assert!(
        error.api().message.contains("131072")
            || error.api().details["issues"].to_string().contains("131072")
    );
}

#[tokio::test]
async fn a_name_is_a_variable_or_a_secret_but_not_both() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let patch = |vars: Value| json!({"env_vars": vars});
    let update = |body: Value| {
        let (control, admin) = (app.control.clone(), app.admin.clone());
        async move {
            control
                .update_environment(&admin, id, &body, None)
                .await
                .map(drop)
        }
    };
    update(patch(json!({"A": "1"}))).await.unwrap();
    assert_eq!(code(set(&app, id, "A", VALUE).await), Code::InvalidRequest);
    set(&app, id, "B", VALUE).await.unwrap();
    let error = refused(update(patch(json!({"A": "1", "B": "2"}))).await);
    assert_eq!(error.code(), Code::InvalidRequest);
    assert_eq!(error.api().details["field"], "env_vars.B");
    let body = patch(json!({"B": "2"}));
    let checked = app
        .control
        .validate_environment(&app.admin, Some(id), &body)
        .await
        .unwrap();
    assert_eq!(checked.issues[0].path, "env_vars.B");
    // The name is free again.
    app.control
        .delete_secret(&app.admin, id, "B")
        .await
        .unwrap();
    update(body).await.unwrap();
}

#[tokio::test]
async fn another_value_makes_the_verdict_stale_and_the_old_one_clears_it() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let change = |name: &str, before: &str, after: &str| {
        (
            true,
            vec![(
                format!("secrets.{name}"),
                before.to_owned(),
                after.to_owned(),
            )],
        )
    };
    set(&app, id, "TOKEN", VALUE).await.unwrap();
    assert_eq!(
        stale(&app, id).await,
        (false, vec![]),
        "the same value again"
    );
    set(&app, id, "TOKEN", "another-value").await.unwrap();
    assert_eq!(
        stale(&app, id).await,
        change("TOKEN", "one value", "another value")
    );
    set(&app, id, "TOKEN", VALUE).await.unwrap();
    assert_eq!(stale(&app, id).await, (false, vec![]));
    set(&app, id, "MORE", VALUE).await.unwrap();
    assert_eq!(stale(&app, id).await, change("MORE", "not set", "set"));
    app.control
        .delete_secret(&app.admin, id, "MORE")
        .await
        .unwrap();
    assert_eq!(stale(&app, id).await, (false, vec![]));
    app.control
        .delete_secret(&app.admin, id, "TOKEN")
        .await
        .unwrap();
    assert_eq!(stale(&app, id).await, change("TOKEN", "set", "not set"));
}

#[tokio::test]
async fn a_session_starts_on_the_secrets_that_were_tested_alone() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let may_start = async || {
        let page = app.control.environment_page(&app.admin, id).await.unwrap();
        let started = app.control.start_session(&app.admin, id, None).await;
        assert_eq!(page.usable, started.is_ok());
        started.map(drop)
    };
    may_start().await.unwrap();
    set(&app, id, "TOKEN", "another-value").await.unwrap();
    assert_eq!(code(may_start().await), Code::EnvironmentNotVerified);
    set(&app, id, "TOKEN", VALUE).await.unwrap();
    may_start().await.unwrap();
}

#[tokio::test]
async fn a_run_is_given_the_values_and_tests_what_it_is_given() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    set(&app, id, "TOKEN", "first-value").await.unwrap();
    app.run(id).await;
    // Set anew while the run waits.
    set(&app, id, "TOKEN", VALUE).await.unwrap();
    let worker = app.worker("w").await;
    let assignment = worker.claim().await;
    assert_eq!(assignment.plan.secrets.expose()["TOKEN"], VALUE);
    assert!(!format!("{assignment:?}").contains(VALUE));
    assert!(!serde_json::to_string(&assignment).unwrap().contains(VALUE));
    worker.pass(assignment.held).await;
    assert_eq!(stale(&app, id).await, (false, vec![]));
}

#[tokio::test]
async fn values_are_in_clear_nowhere_in_the_database_and_no_copy_has_them() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let copy = app
        .control
        .duplicate_environment(&app.admin, id)
        .await
        .unwrap();
    assert!(names(&app, copy.environment_id).await.is_empty());
    for entry in std::fs::read_dir(app.directory()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(VALUE.len())
            .any(|window| window == VALUE.as_bytes());
        assert!(!found, "{}", path.display());
    }
    app.control
        .delete_environment(&app.admin, id)
        .await
        .unwrap();
    assert!(
        !app.store.inner().any_secret().await.unwrap(),
        "they go with it"
    );
}

#[tokio::test]
async fn a_lost_race_is_tried_again() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    app.store
        .once(Moment::Before("put_secret"), move || async move {
            let theirs = Secret::new("their-value");
            control
                .set_secret(&ctx, id, "THEIRS", &theirs)
                .await
                .unwrap();
            Ok(())
        });
    set(&app, id, "MINE", VALUE).await.unwrap();
    assert_eq!(names(&app, id).await, ["MINE", "THEIRS"]);
}

#[tokio::test]
async fn members_see_names_and_developers_set_values() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let user = app.member(Role::User, "user@example.com").await;
    let developer = app.member(Role::Developer, "dev@example.com").await;
    let stranger = TestApp::stranger();
    let value = Secret::new(VALUE);
    let put = |ctx| {
        let (control, value) = (app.control.clone(), value.clone());
        async move { control.set_secret(&ctx, id, "A", &value).await }
    };
    assert_eq!(code(put(user.clone()).await), Code::Forbidden);
    assert_eq!(code(put(stranger.clone()).await), Code::NotFound);
    put(developer).await.unwrap();
    assert_eq!(
        app.control
            .list_secrets(&user, id)
            .await
            .unwrap()
            .secrets
            .len(),
        1
    );
    assert_eq!(
        code(app.control.delete_secret(&user, id, "A").await),
        Code::Forbidden
    );
    assert_eq!(
        code(app.control.list_secrets(&stranger, id).await),
        Code::NotFound
    );
}

#[tokio::test]
async fn another_key_is_noticed_and_stops_no_other_run() {
    let mut app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let plain = app.environment("plain", "true").await;
    assert_eq!(
        app.control.check_secrets_key().await.unwrap(),
        KeyCheck::Fine
    );
    app.restart_with(TestOptions {
        configure: |config: &mut Config| config.secrets_key = SecretsKey::new([9; 32]),
        ..TestOptions::default()
    });
    assert_eq!(
        app.control.check_secrets_key().await.unwrap(),
        KeyCheck::Fine,
        "nothing is sealed"
    );
    set(&app, id, "TOKEN", VALUE).await.unwrap();
    app.restart_with(TestOptions {
        configure: |config: &mut Config| *config = Config::new(ServerKey::new([7; 32])),
        ..TestOptions::default()
    });
    assert_eq!(
        app.control.check_secrets_key().await.unwrap(),
        KeyCheck::Other
    );
    let run = app.run(id).await;
    app.run(plain).await;
    let worker = app.worker("w").await;
    assert_eq!(worker.claim().await.environment_id, plain);
    let ended = app
        .control
        .get_setup_run(&app.admin, id, run, None)
        .await
        .unwrap();
    assert!(
        ended
            .message
            .unwrap_or_default()
            .contains("Set their values again")
    );
    // To try again as it is would end in the same way.
    assert_eq!(
        ended.failure_code,
        Some(FailureCode::EnvironmentSetupFailed)
    );
    assert_eq!(ended.phase, Some(Phase::Provision));
    assert!(ended.next_action.unwrap().path.ends_with("/log"));
}

fn variables(plain: &[(&str, &str)], secret: &[(&str, &str)]) -> Variables {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Variables {
        plain: plain.iter().map(own).collect(),
        secret: secret
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
    }
}

async fn env_vars(app: &TestApp, id: EnvironmentId) -> Value {
    let environment = app.control.get_environment(&app.admin, id).await.unwrap();
    json!(environment.env_vars)
}

#[tokio::test]
async fn a_pasted_file_sets_both_kinds_and_what_becomes_secret_is_no_variable_any_more() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    let before = variables(&[("KEPT", "1"), ("MODE", "old"), ("TOKEN", VALUE)], &[]);
    app.control
        .set_variables(&app.admin, id, &before)
        .await
        .unwrap();
    let pasted = variables(
        &[("MODE", "new"), ("LEVEL", "debug")],
        &[("TOKEN", VALUE), ("PASSWORD", "another-value")],
    );
    // Somebody's edit meanwhile stays.
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    app.store
        .once(Moment::Before("update_environment"), move || async move {
            let theirs = json!({"description": "theirs"});
            control
                .update_environment(&ctx, id, &theirs, None)
                .await
                .unwrap();
            Ok(())
        });
    for _ in 0..2 {
        app.control
            .set_variables(&app.admin, id, &pasted)
            .await
            .unwrap();
        assert_eq!(
            env_vars(&app, id).await,
            json!({"KEPT": "1", "LEVEL": "debug", "MODE": "new"})
        );
        assert_eq!(names(&app, id).await, ["PASSWORD", "TOKEN"]);
    }
    let environment = app.control.get_environment(&app.admin, id).await.unwrap();
    assert_eq!(environment.description, "theirs");
}

#[tokio::test]
async fn a_pasted_file_with_a_line_that_cannot_be_set_sets_nothing_and_names_each() {
    let app = TestApp::start().await;
    let id = app.environment("E", "true").await;
    set(&app, id, "TAKEN", VALUE).await.unwrap();
    let huge = "x".repeat(30 * 1_024);
    let many: Vec<String> = (0..20).map(|n| format!("BIG_{n}")).collect();
    let too_much: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), &*huge)).collect();
    for (pasted, paths) in [
        (
            variables(&[("A", "1")], &[("SHORT", "dev"), ("PATH", VALUE)]),
            vec!["PATH", "SHORT"],
        ),
        (variables(&[("TAKEN", "1")], &[("B", VALUE)]), vec!["TAKEN"]),
        (
            variables(&[("LD_PRELOAD", "x")], &[("B", VALUE)]),
            vec!["env_vars.LD_PRELOAD"],
        ),
        (variables(&[], &too_much), vec!["value"]),
    ] {
        let error = refused(app.control.set_variables(&app.admin, id, &pasted).await);
        assert_eq!(error.code(), Code::InvalidRequest);
        let found: Vec<String> = error.api().details["issues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| {
                line.as_str()
                    .unwrap()
                    .split(": ")
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(found, paths);
        assert!(!error.to_string().contains(VALUE));
        assert_eq!(env_vars(&app, id).await, json!({}));
        assert_eq!(names(&app, id).await, ["TAKEN"]);
    }
    let user = app.member(Role::User, "user@example.com").await;
    let fine = variables(&[("A", "1")], &[("B", VALUE)]);
    for (who, expected) in [
        (&user, Code::Forbidden),
        (&TestApp::stranger(), Code::NotFound),
    ] {
        let answer = app.control.set_variables(who, id, &fine).await;
        assert_eq!(code(answer), expected);
    }
    assert_eq!(names(&app, id).await, ["TAKEN"]);
}
