//! The history page, going back to a saved definition or to what was verified, edits that met.

use domain::{ids::EnvironmentId, roles::Role};
use serde_json::json;
use testkit::TestApp;
use wire::{
    console::{MeanwhileSaved, VerdictEffect},
    error::Code,
};

use crate::{code, edited, verified};

async fn revision(app: &TestApp, id: EnvironmentId) -> i64 {
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    page.revision
}

#[tokio::test]
async fn the_history_comes_in_pages_of_twenty_newest_first() {
    let app = TestApp::start().await;
    let id = app.environment("e1", "").await;
    for n in 2..=45 {
        edited(&app, id, json!({"name": format!("e{n}")})).await;
    }
    let mut before = None;
    let mut seen = Vec::new();
    loop {
        let page = app
            .control
            .environment_history_page(&app.admin, id, before, None)
            .await
            .unwrap();
        assert!(page.revisions.len() <= 20);
        assert_eq!(page.revision, 45);
        seen.extend(page.revisions.iter().map(|saved| saved.revision));
        // A page's last entry still says what it changed: the one before is on the next page.
        let last = page.revisions.last().unwrap();
        assert_eq!(last.changes.is_empty(), last.revision == 1);
        before = page.older;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=45).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn going_back_is_shown_before_it_is_done() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    edited(
        &app,
        id,
        json!({"setup": {"script": "false"}, "description": "d"}),
    )
    .await;
    let page = |chosen| {
        app.control
            .environment_history_page(&app.admin, id, None, Some(chosen))
    };
    let chosen = page(1).await.unwrap().chosen.unwrap();
    let fields: Vec<_> = chosen.changes.iter().map(|c| c.field.as_str()).collect();
    assert_eq!(fields, ["description", "setup.script"]);
    assert_eq!(chosen.changes[1].before, "false\n", "today's value");
    assert_eq!(chosen.changes[1].after, "true\n", "what comes back");
    assert_eq!(chosen.effect, Some(VerdictEffect::BecomesCurrent));
    assert!(chosen.refused.is_empty() && !chosen.current);
    let current = page(2).await.unwrap().chosen.unwrap();
    assert!(current.current && current.changes.is_empty());
    assert_eq!(code(page(9).await), Code::NotFound);
}

#[tokio::test]
async fn going_back_is_refused_when_somebody_saved_since_the_reader_looked() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    edited(&app, id, json!({"name": "two"})).await;
    edited(&app, id, json!({"name": "three"})).await;
    let back = |seen| {
        app.control
            .restore_environment_as_seen(&app.admin, id, 1, seen)
    };
    assert_eq!(code(back(2).await), Code::RevisionConflict);
    assert_eq!(back(3).await.unwrap().name, "one");
    assert_eq!(revision(&app, id).await, 4, "it is saved as the newest");
}

#[tokio::test]
async fn what_was_verified_is_put_back_whole_or_field_by_field() {
    let app = TestApp::start().await;
    let id = verified(&app).await;
    edited(
        &app,
        id,
        json!({"pvc_size_gi": 20, "env_vars": {"A": "1", "B": "2"}, "description": "kept",
               "resources": {"cpu_milli": 4_000, "memory_mib": 8_192}}),
    )
    .await;
    let put = |only: &[&str], seen| {
        let only: Vec<String> = only.iter().map(|field| (*field).to_owned()).collect();
        let app = &app;
        async move {
            app.control
                .put_back_verified(&app.admin, id, &only, seen)
                .await
        }
    };
    assert_eq!(code(put(&[], 1).await), Code::RevisionConflict);
    let one = put(&["env_vars.A"], 2).await.unwrap();
    assert_eq!(one.env_vars.keys().collect::<Vec<_>>(), ["B"]);
    assert_eq!(one.pvc_size_gi, 20);
    assert!(one.setup_verification.stale);
    // A size is one thing.
    let size = put(&["resources.cpu_milli"], 3).await.unwrap();
    assert_eq!(
        (size.resources.cpu_milli, size.resources.memory_mib),
        (0, 0)
    );
    let all = put(&[], 4).await.unwrap();
    assert!(!all.setup_verification.stale);
    assert_eq!(all.description, "kept", "no part of the verdict");
    let log = app.control.audit_log(&app.admin, None).await.unwrap();
    assert_eq!(log.items[0].action, "environment.put_back");
    // Nothing differs: nothing is saved.
    put(&[], 5).await.unwrap();
    assert_eq!(revision(&app, id).await, 5);
}

#[tokio::test]
async fn without_a_verdict_there_is_nothing_to_put_back() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let answer = app.control.put_back_verified(&app.admin, id, &[], 1).await;
    assert_eq!(code(answer), Code::InvalidRequest);
}

#[tokio::test]
async fn a_form_learns_what_was_saved_since_it_was_opened_and_by_whom() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let developer = app.member(Role::Developer, "d@example.com").await;
    app.control
        .update_environment(&developer, id, &json!({"description": "theirs"}), None)
        .await
        .unwrap();
    let met: MeanwhileSaved = app
        .control
        .saved_meanwhile(&app.admin, id, 1)
        .await
        .unwrap();
    assert_eq!(met.revision, 2);
    assert_eq!(met.base.description, "");
    assert_eq!(met.present.description, "theirs");
    let changes: Vec<_> = met
        .changes
        .iter()
        .map(|change| (change.field.as_str(), change.by.as_deref()))
        .collect();
    assert_eq!(changes, [("description", Some("d@example.com"))]);
    assert_eq!(
        code(app.control.saved_meanwhile(&app.admin, id, 7).await),
        Code::NotFound
    );
}
