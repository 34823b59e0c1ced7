//! First start, sign-in and one's own account.

use std::time::Duration;

use control::{Caller, OpCtx, Secret, accounts::Bootstrap};
use domain::roles::Role;
use testkit::{PASSWORD, TestApp};
use wire::error::Code;

use crate::{code, refused};

fn first(email: &str, password: &str) -> Bootstrap {
    Bootstrap {
        organization_name: "Org".to_owned(),
        email: email.to_owned(),
        display_name: "Ada".to_owned(),
        password: Secret::new(password),
    }
}

/// An application layer over an empty database: the test application's own first start is already over, so this one
/// begins at the port.
async fn empty() -> (control::Control, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/test.db", directory.path().display());
    let database = store::open(&url, store::OpenOptions { migrate: true })
        .await
        .unwrap();
    let mut config = control::Config::new(control::ServerKey::new([1; 32]));
    config.password_cost = (64, 1);
    let control = control::Control::new(control::Parts {
        store: database.clone(),
        clock: std::sync::Arc::new(testkit::ManualClock::default()),
        ids: std::sync::Arc::new(testkit::TestIds::default()),
        doorbell: database,
        catalog: std::sync::Arc::new(testkit::catalog()),
        sessions: None,
        config,
    });
    (control, directory)
}

#[tokio::test]
async fn the_first_start_needs_the_newest_token_and_works_once() {
    let (control, _directory) = empty().await;
    let anonymous = TestApp::anonymous();
    assert!(control.needs_setup().await.unwrap());
    let old = control.issue_setup_token().await.unwrap().unwrap();
    let token = control.issue_setup_token().await.unwrap().unwrap();
    for wrong in [&old, &Secret::new("guess"), &Secret::new("")] {
        let answer = control
            .bootstrap(&anonymous, wrong, first("ada@example.com", PASSWORD))
            .await;
        assert_eq!(code(answer), Code::Forbidden);
    }
    let signed_in = control
        .bootstrap(&anonymous, &token, first("Ada@Example.com", PASSWORD))
        .await
        .unwrap();
    assert_eq!(signed_in.member.role, Role::Admin);
    assert_eq!(signed_in.member.email, "ada@example.com");
    assert!(!control.needs_setup().await.unwrap());
    assert!(control.issue_setup_token().await.unwrap().is_none());
    let again = control
        .bootstrap(&anonymous, &token, first("eve@example.com", PASSWORD))
        .await;
    assert_eq!(code(again), Code::Forbidden);
    let ctx = OpCtx {
        caller: Caller::Member(signed_in.member),
        ..anonymous
    };
    let log = control.audit_log(&ctx, None).await.unwrap();
    assert_eq!(log.items[0].action, "organization.create");
    assert_eq!(log.items[0].actor, "ada@example.com");
}

#[tokio::test]
async fn a_refused_first_start_names_every_field_and_keeps_its_token() {
    let (control, _directory) = empty().await;
    let anonymous = TestApp::anonymous();
    let token = control.issue_setup_token().await.unwrap().unwrap();
    let mut bad = first("nobody", "short");
    bad.organization_name = " ".to_owned();
    let error = refused(control.bootstrap(&anonymous, &token, bad).await);
    let issues = error.api().details["issues"].to_string();
    for field in ["organization_name", "email", "password"] {
        assert!(issues.contains(field), "{issues}");
    }
    assert!(
        control
            .bootstrap(&anonymous, &token, first("ada@example.com", PASSWORD))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn guesses_of_the_setup_token_are_slowed_down() {
    let (control, _directory) = empty().await;
    let token = control.issue_setup_token().await.unwrap().unwrap();
    let anonymous = TestApp::anonymous();
    for _ in 0..5 {
        let answer = control
            .check_setup_token(&anonymous, &Secret::new("x"))
            .await;
        assert_eq!(code(answer), Code::Forbidden);
    }
    assert_eq!(
        code(control.check_setup_token(&anonymous, &token).await),
        Code::RateLimitExceeded
    );
}

#[tokio::test]
async fn the_operator_makes_the_first_admin_without_a_token() {
    let (control, _directory) = empty().await;
    let system = OpCtx::system("server");
    let made = control
        .bootstrap_by_operator(&system, first("ada@example.com", PASSWORD))
        .await
        .unwrap();
    assert!(made.is_some());
    let again = control
        .bootstrap_by_operator(&system, first("eve@example.com", PASSWORD))
        .await
        .unwrap();
    assert_eq!(again, None);
    let anonymous = control
        .bootstrap_by_operator(&TestApp::anonymous(), first("eve@example.com", PASSWORD))
        .await;
    assert_eq!(code(anonymous), Code::Unauthorized);
}

async fn sign_in(app: &TestApp, email: &str, password: &str) -> control::Result<i64> {
    app.control
        .sign_in(&TestApp::anonymous(), email, &Secret::new(password))
        .await
        .map(|signed_in| signed_in.session_epoch)
}

#[tokio::test]
async fn an_unknown_account_and_a_wrong_password_answer_alike() {
    let app = TestApp::start().await;
    assert!(sign_in(&app, " Admin@Example.com ", PASSWORD).await.is_ok());
    let wrong = refused(sign_in(&app, "admin@example.com", "wrong password").await);
    let unknown = refused(sign_in(&app, "nobody@example.com", "wrong password").await);
    let without = app
        .control
        .create_member(&OpCtx::system("admin-cli"), "keys@example.com", Role::User)
        .await
        .unwrap();
    assert!(!without.has_password);
    let keys_only = refused(sign_in(&app, "keys@example.com", "").await);
    assert_eq!(wrong.code(), Code::Unauthorized);
    assert_eq!(wrong.api(), unknown.api());
    assert_eq!(wrong.api(), keys_only.api());
    let long = refused(sign_in(&app, &"x".repeat(10_000), &"y".repeat(10_000)).await);
    assert_eq!(wrong.api(), long.api());
}

#[tokio::test]
async fn repeated_failures_are_slowed_down_for_known_and_unknown_accounts_alike() {
    for email in ["admin@example.com", "nobody@example.com"] {
        let app = TestApp::start().await;
        for _ in 0..5 {
            assert_eq!(
                code(sign_in(&app, email, "wrong").await),
                Code::Unauthorized
            );
        }
        let slowed = refused(sign_in(&app, email, "wrong").await);
        assert_eq!(slowed.code(), Code::RateLimitExceeded);
        assert_eq!(slowed.api().retry_after, Some(1));
        app.clock.advance(Duration::from_secs(1));
        assert_eq!(
            code(sign_in(&app, email, "wrong").await),
            Code::Unauthorized
        );
        let longer = refused(sign_in(&app, email, "wrong").await);
        assert_eq!(longer.api().retry_after, Some(2));
        // Somebody at another address is not kept out.
        let elsewhere = OpCtx {
            source: Some("198.51.100.7".to_owned()),
            ..TestApp::anonymous()
        };
        let answer = app
            .control
            .sign_in(&elsewhere, "admin@example.com", &Secret::new(PASSWORD))
            .await;
        assert!(answer.is_ok());
    }
}

#[tokio::test]
async fn success_after_a_wait_forgives_earlier_failures() {
    let app = TestApp::start().await;
    for _ in 0..5 {
        let _ = sign_in(&app, "admin@example.com", "wrong").await;
    }
    app.clock.advance(Duration::from_secs(1));
    assert!(sign_in(&app, "admin@example.com", PASSWORD).await.is_ok());
    assert_eq!(
        code(sign_in(&app, "admin@example.com", "wrong").await),
        Code::Unauthorized
    );
}

#[tokio::test]
async fn a_changed_password_ends_the_other_sign_ins() {
    let app = TestApp::start().await;
    let member = app.admin.member().unwrap().clone();
    let epoch = sign_in(&app, &member.email, PASSWORD).await.unwrap();
    assert!(
        app.control
            .authenticate_web(member.user_id, epoch)
            .await
            .is_ok()
    );
    let change = async |current: &str, new: &str| {
        app.control
            .change_password(&app.admin, &Secret::new(current), &Secret::new(new))
            .await
    };
    let wrong = refused(change("not it", "another password").await);
    assert_eq!(wrong.api().details["field"], "current_password");
    let weak = refused(change(PASSWORD, "short").await);
    assert_eq!(weak.api().details["field"], "new_password");
    let kept = change(PASSWORD, "another password").await.unwrap();
    assert!(
        app.control
            .authenticate_web(member.user_id, kept)
            .await
            .is_ok()
    );
    assert_eq!(
        code(app.control.authenticate_web(member.user_id, epoch).await),
        Code::Unauthorized
    );
    assert_eq!(
        code(sign_in(&app, &member.email, PASSWORD).await),
        Code::Unauthorized
    );
    assert!(
        sign_in(&app, &member.email, "another password")
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn of_two_changes_of_a_password_at_once_the_later_one_needs_the_new_password() {
    let app = TestApp::start().await;
    let member = app.admin.member().unwrap().clone();
    let (control, owner) = (app.control.clone(), app.admin.clone());
    app.store
        .once(testkit::Moment::Before("update_user"), move || async move {
            let (old, new) = (Secret::new(PASSWORD), Secret::new("the owner's password"));
            control.change_password(&owner, &old, &new).await.unwrap();
            Ok(())
        });
    let (old, new) = (Secret::new(PASSWORD), Secret::new("a thief's password"));
    let late = refused(app.control.change_password(&app.admin, &old, &new).await);
    assert_eq!(late.api().details["field"], "current_password");
    assert!(app.store.all_used());
    for (password, fine) in [
        ("the owner's password", true),
        ("a thief's password", false),
    ] {
        let answer = sign_in(&app, &member.email, password).await;
        assert_eq!(answer.is_ok(), fine, "{password}");
    }
}

#[tokio::test]
async fn guesses_of_ones_present_password_are_slowed_down() {
    let app = TestApp::start().await;
    let guess = async || {
        app.control
            .change_password(
                &app.admin,
                &Secret::new("guess"),
                &Secret::new("another password"),
            )
            .await
    };
    for _ in 0..5 {
        assert_eq!(code(guess().await), Code::InvalidRequest);
    }
    assert_eq!(code(guess().await), Code::RateLimitExceeded);
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_sign_in() {
    let app = TestApp::start().await;
    let member = app.admin.member().unwrap().clone();
    let epoch = sign_in(&app, &member.email, PASSWORD).await.unwrap();
    app.control.sign_out_everywhere(&app.admin).await.unwrap();
    assert_eq!(
        code(app.control.authenticate_web(member.user_id, epoch).await),
        Code::Unauthorized
    );
}

#[tokio::test]
async fn the_frame_shows_who_looks() {
    let app = TestApp::start().await;
    app.control
        .change_display_name(&app.admin, " Ada Lovelace ")
        .await
        .unwrap();
    let viewer = app.control.viewer(&app.admin).await.unwrap();
    assert_eq!(viewer.display_name, "Ada Lovelace");
    assert_eq!(viewer.organization_name, "Test organization");
    assert!(viewer.may.manage_members);
    let long = app
        .control
        .change_display_name(&app.admin, &"x".repeat(101))
        .await;
    assert_eq!(code(long), Code::InvalidRequest);
}
