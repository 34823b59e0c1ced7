//! Writers that meet: compare-and-set, history and staleness.

use std::{sync::Arc, time::Duration};

use control::{OpCtx, Secret, ports::Clock as _};
use domain::roles::Role;
use serde_json::{Value, json};
use testkit::{Moment, TestApp};
use wire::error::Code;

use crate::{code, edited, refused, revisions, verified};

/// Lets somebody else's edit land between the next read and write.
pub(crate) fn meanwhile(app: &TestApp, id: domain::ids::EnvironmentId, body: Value) {
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    app.store
        .once(Moment::Before("update_environment"), move || async move {
            control
                .update_environment(&ctx, id, &body, None)
                .await
                .unwrap();
            Ok(())
        });
}

#[tokio::test]
async fn a_lost_race_over_harmless_fields_is_tried_again_and_loses_nothing() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    meanwhile(&app, id, json!({"name": "theirs"}));
    let answer = edited(&app, id, json!({"description": "mine"})).await;
    assert_eq!(
        (answer.name.as_str(), answer.description.as_str()),
        ("theirs", "mine")
    );
    assert!(app.store.all_used());
}

#[tokio::test]
async fn a_lost_race_over_access_or_compute_is_a_conflict() {
    let closed = json!({"version": "v1", "rules": []});
    for mine in [
        json!({"resources": {"cpu_milli": 4000, "memory_mib": 8192}}),
        json!({"pvc_size_gi": 20}),
        json!({"network_policy": {}, "expected_access": {"network_policy": closed, "privileged": false}}),
    ] {
        let app = TestApp::start().await;
        let id = app.environment("one", "true").await;
        meanwhile(&app, id, json!({"name": "theirs"}));
        let error = refused(
            app.control
                .update_environment(&app.admin, id, &mine, None)
                .await,
        );
        assert_eq!(error.code(), Code::RevisionConflict, "{mine}");
        let saved = app.control.get_environment(&app.admin, id).await.unwrap();
        assert_eq!(saved.name, "theirs");
        assert_eq!(saved.pvc_size_gi, 0);
    }
}

#[tokio::test]
async fn a_body_that_repeats_saved_access_or_compute_never_undoes_what_others_changed() {
    let closed = json!({"version": "v1", "rules": []});
    let closed_access = json!({"network_policy": closed, "privileged": false});
    for (theirs, mine) in [
        (
            json!({"resources": {"cpu_milli": 4000, "memory_mib": 8192}}),
            json!({"description": "mine", "resources": {}}),
        ),
        (
            json!({"pvc_size_gi": 20}),
            json!({"description": "mine", "pvc_size_gi": 0}),
        ),
        (
            json!({"network_policy": {}, "expected_access": closed_access}),
            json!({"description": "mine", "network_policy": closed}),
        ),
    ] {
        let app = TestApp::start().await;
        let id = app.environment("one", "true").await;
        meanwhile(&app, id, theirs);
        let error = refused(
            app.control
                .update_environment(&app.admin, id, &mine, None)
                .await,
        );
        assert_eq!(error.code(), Code::RevisionConflict, "{mine}");
        assert_eq!(revisions(&app, id).await, 2, "only theirs: {mine}");
    }
    // Somebody else's edit of something else is in nobody's way.
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    meanwhile(&app, id, json!({"name": "theirs"}));
    let mine =
        json!({"description": "mine", "resources": {}, "pvc_size_gi": 0, "network_policy": closed});
    let saved = edited(&app, id, mine).await;
    assert_eq!(
        (saved.name.as_str(), saved.description.as_str()),
        ("theirs", "mine")
    );
}

#[tokio::test]
async fn going_back_is_not_in_the_way_of_a_run_that_starts_meanwhile() {
    let edit = json!({"pvc_size_gi": 20});
    for put_back in [false, true] {
        let app = TestApp::start().await;
        let id = verified(&app).await;
        assert_eq!(edited(&app, id, edit.clone()).await.pvc_size_gi, 20);
        let history = app
            .control
            .environment_history(&app.admin, id)
            .await
            .unwrap();
        let seen = history.revisions[0].revision;
        let (control, ctx) = (app.control.clone(), app.admin.clone());
        app.store
            .once(Moment::Before("update_environment"), move || async move {
                control.start_setup_run(&ctx, id, None).await.unwrap();
                Ok(())
            });
        let restored = if put_back {
            app.control
                .put_back_verified(&app.admin, id, &[], seen)
                .await
        } else {
            app.control
                .restore_environment_as_seen(&app.admin, id, 1, seen)
                .await
        }
        .unwrap();
        assert!(app.store.all_used());
        assert_ne!(restored.pvc_size_gi, 20);
        assert_eq!(restored.setup_verification.status, "running");
    }
}

#[tokio::test]
async fn going_back_over_an_edit_that_came_meanwhile_is_a_conflict() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    edited(&app, id, json!({"name": "two"})).await;
    meanwhile(&app, id, json!({"description": "theirs"}));
    assert_eq!(
        code(app.control.restore_environment(&app.admin, id, 1).await),
        Code::RevisionConflict
    );
}

#[tokio::test]
async fn a_change_of_neither_access_nor_compute_is_made_however_many_others_are_quicker() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    for name in ["theirs", "theirs again", "theirs once more"] {
        let (control, ctx) = (app.control.clone(), app.admin.clone());
        let store = Arc::clone(app.store.inner());
        let organization = app.organization;
        app.store
            .once(Moment::Before("update_environment"), move || async move {
                // Straight to the store, so that the next hook is not used up by this edit.
                let mut row = store.environment(organization, id).await?.unwrap();
                let expected = row.version;
                row.version += 1;
                row.revision += 1;
                row.definition.name = name.to_owned();
                let written = store
                    .update_environment(expected, &row, control::ports::Effects::default())
                    .await?;
                assert_eq!(written, control::ports::Written::Done);
                drop((control, ctx));
                Ok(())
            });
    }
    let saved = edited(&app, id, json!({"description": "mine"})).await;
    assert_eq!(
        (saved.name.as_str(), saved.description.as_str()),
        ("theirs once more", "mine")
    );
}

#[tokio::test]
async fn a_verdict_that_moves_meanwhile_is_in_nobodys_way() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    app.store
        .once(Moment::Before("update_environment"), move || async move {
            control.start_setup_run(&ctx, id, None).await.unwrap();
            Ok(())
        });
    let answer = edited(&app, id, json!({"pvc_size_gi": 20})).await;
    assert_eq!(answer.pvc_size_gi, 20);
    assert_eq!(answer.setup_verification.status, "running");
}

#[tokio::test]
async fn history_tells_who_changed_what_and_goes_back() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let developer = app.member(Role::Developer, "d@example.com").await;
    app.control
        .update_environment(
            &developer,
            id,
            &json!({"name": "two", "setup": {"script": "false"}}),
            None,
        )
        .await
        .unwrap();
    let history = app
        .control
        .environment_history(&app.admin, id)
        .await
        .unwrap();
    assert_eq!(history.revisions.len(), 2);
    let newest = &history.revisions[0];
    assert!(newest.current);
    assert_eq!((newest.revision, newest.by.as_str()), (2, "d@example.com"));
    let fields: Vec<_> = newest.changes.iter().map(|c| c.field.as_str()).collect();
    assert_eq!(fields, ["name", "setup.script"]);
    assert_eq!(history.revisions[1].by, "admin@example.com");
    assert!(history.revisions[1].changes.is_empty());
    let restored = app
        .control
        .restore_environment(&app.admin, id, 1)
        .await
        .unwrap();
    assert_eq!(
        (restored.name.as_str(), restored.setup.script.as_str()),
        ("one", "true\n")
    );
    assert_eq!(revisions(&app, id).await, 3);
    assert_eq!(
        code(app.control.restore_environment(&app.admin, id, 9).await),
        Code::NotFound
    );
}

#[tokio::test]
async fn staleness_names_each_field_old_new_who_and_when() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    let fresh = app
        .control
        .environment_staleness(&app.admin, id)
        .await
        .unwrap();
    assert!(!fresh.stale && fresh.fields.is_empty());
    let developer = app.member(Role::Developer, "d@example.com").await;
    app.clock.advance(Duration::from_secs(60));
    let at = app.clock.now();
    app.control
        .update_environment(
            &developer,
            id,
            &json!({"pvc_size_gi": 20, "env_vars": {"A": "1"}, "description": "d"}),
            None,
        )
        .await
        .unwrap();
    // A later edit of something else does not take the blame.
    edited(&app, id, json!({"name": "later"})).await;
    let stale = app
        .control
        .environment_staleness(&app.admin, id)
        .await
        .unwrap();
    assert!(stale.stale);
    let fields: Vec<_> = stale.fields.iter().map(|c| c.field.as_str()).collect();
    assert_eq!(fields, ["pvc_size_gi", "env_vars.A"]);
    for field in &stale.fields {
        assert_eq!(field.by.as_deref(), Some("d@example.com"));
        assert_eq!(field.at, Some(at));
    }
    let disk = &stale.fields[0];
    assert!(disk.before.contains("10 GiB") && disk.after.contains("20 GiB"));
    // Undoing the edit makes the verdict current again.
    edited(&app, id, json!({"pvc_size_gi": 10, "env_vars": {}})).await;
    let again = app
        .control
        .environment_staleness(&app.admin, id)
        .await
        .unwrap();
    assert!(!again.stale);
}

#[tokio::test]
async fn every_change_is_in_the_audit_log_without_values_that_may_be_secret() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    edited(
        &app,
        id,
        json!({"name": "two", "env_vars": {"TOKEN": "hunter2-hunter2"}}),
    )
    .await;
    let page = app.control.audit_log(&app.admin, None).await.unwrap();
    let entry = &page.items[0];
    assert_eq!(entry.action, "environment.update");
    assert_eq!(entry.subject, id.to_string());
    assert_eq!(entry.actor, "admin@example.com");
    assert_eq!(entry.source.as_deref(), Some("192.0.2.1"));
    assert_eq!(entry.detail["changes"][0]["before"], "one");
    let text = entry.detail.to_string();
    assert!(
        text.contains("env_vars.TOKEN") && !text.contains("hunter2"),
        "{text}"
    );
    let actions: Vec<_> = page.items.iter().map(|item| item.action.as_str()).collect();
    assert_eq!(
        actions,
        [
            "environment.update",
            "environment.create",
            "organization.create"
        ]
    );
}

#[tokio::test]
async fn the_audit_log_comes_in_pages() {
    let app = TestApp::start().await;
    for n in 0..60 {
        app.environment(&format!("e{n}"), "").await;
    }
    let first = app.control.audit_log(&app.admin, None).await.unwrap();
    assert_eq!(first.items.len(), 50);
    let second = app
        .control
        .audit_log(&app.admin, first.next_before)
        .await
        .unwrap();
    assert_eq!(second.items.len(), 11);
    assert_eq!(second.next_before, None);
}

#[tokio::test]
async fn staleness_by_a_removed_secret_says_who_removed_it_last_and_when() {
    let app = TestApp::start().await;
    let developer = app.member(Role::Developer, "dev@example.com").await;
    let (id, other) = (
        app.environment("one", "true").await,
        app.environment("two", "true").await,
    );
    let value = Secret::new("a-long-enough-value");
    let set = async |id, name| {
        let set = app.control.set_secret(&app.admin, id, name, &value).await;
        set.unwrap();
    };
    let remove = async |ctx, id, name| {
        app.clock.advance(Duration::from_secs(60));
        let removed = app.control.delete_secret(ctx, id, name).await;
        removed.unwrap();
        app.clock.now()
    };
    set(other, "TOKEN").await;
    set(id, "TOKEN").await;
    set(id, "FIRST").await;
    set(id, "LATER").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let first = remove(&app.admin, id, "FIRST").await;
    remove(&app.admin, id, "TOKEN").await;
    set(id, "TOKEN").await;
    let last = remove(&developer, id, "TOKEN").await;
    remove(&app.admin, id, "LATER").await;
    set(id, "LATER").await;
    remove(&app.admin, other, "TOKEN").await;
    let stale = app.control.environment_staleness(&app.admin, id).await;
    let fields: Vec<_> = stale
        .unwrap()
        .fields
        .into_iter()
        .map(|change| (change.field, change.by, change.by_user_id, change.at))
        .collect();
    let row = |name: &str, ctx: &OpCtx, at| {
        let member = ctx.member().unwrap();
        let by = (Some(member.email.clone()), Some(member.user_id));
        (format!("secrets.{name}"), by.0, by.1, Some(at))
    };
    let expected = [
        row("FIRST", &app.admin, first),
        row("TOKEN", &developer, last),
    ];
    assert_eq!(fields, expected);
}
