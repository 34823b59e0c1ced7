//! API keys: shown once, bounded by role, expiring, revoked at once.

use std::time::Duration;

use control::{
    Caller, OpCtx, Secret, Via,
    api_keys::{ApiKeyRequest, NewApiKey, Whose},
    ports::Clock as _,
};
use domain::roles::Role;
use testkit::TestApp;
use wire::error::Code;

use crate::{code, refused};

fn request(role: Role, days: Option<u32>) -> ApiKeyRequest {
    ApiKeyRequest {
        name: "ci".to_owned(),
        role,
        expires_in_days: days,
    }
}

async fn make(app: &TestApp, ctx: &OpCtx, role: Role, days: Option<u32>) -> NewApiKey {
    app.control
        .create_api_key(ctx, request(role, days))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_key_authenticates_its_member_with_the_lower_role() {
    let app = TestApp::start().await;
    let key = make(&app, &app.admin, Role::Developer, None).await;
    let secret = key.secret.expose();
    assert!(secret.starts_with("rma_") && secret.len() == 47);
    assert!(key.item.shown.ends_with(&secret[43..]));
    let member = app.control.authenticate_api_key(&key.secret).await.unwrap();
    assert_eq!(member.role, Role::Developer);
    assert_eq!(member.user_id, app.admin.member().unwrap().user_id);
    assert_eq!(member.via, Via::ApiKey(key.item.api_key_id));
    // A member who falls below the key's role takes the key along.
    let developer = app.member(Role::Developer, "d@example.com").await;
    let key = make(&app, &developer, Role::Developer, None).await;
    let id = developer.member().unwrap().user_id;
    app.control
        .change_role(&app.admin, id, Role::User)
        .await
        .unwrap();
    let member = app.control.authenticate_api_key(&key.secret).await.unwrap();
    assert_eq!(member.role, Role::User);
}

#[tokio::test]
async fn unknown_and_malformed_keys_are_refused() {
    let app = TestApp::start().await;
    for text in ["", "rma_", "rma_short", &format!("rma_{}", "x".repeat(43))] {
        let answer = app.control.authenticate_api_key(&Secret::new(text)).await;
        assert_eq!(code(answer), Code::Unauthorized);
    }
}

#[tokio::test]
async fn a_key_has_at_most_its_makers_role() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "u@example.com").await;
    let error = refused(
        app.control
            .create_api_key(&user, request(Role::Developer, None))
            .await
            .map(drop),
    );
    assert_eq!(error.api().details["field"], "role");
    // Also when the maker is a key: it cannot make one of its member's full role.
    let low = make(&app, &app.admin, Role::User, None).await;
    let member = app.control.authenticate_api_key(&low.secret).await.unwrap();
    let by_key = OpCtx {
        caller: Caller::Member(member),
        ..TestApp::anonymous()
    };
    let answer = app
        .control
        .create_api_key(&by_key, request(Role::Admin, None))
        .await
        .map(drop);
    assert_eq!(code(answer), Code::InvalidRequest);
    assert!(
        app.control
            .create_api_key(&by_key, request(Role::User, None))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn names_and_lives_have_limits() {
    let app = TestApp::start().await;
    for (name, days) in [("", None), ("x", Some(0)), ("x", Some(3_651))] {
        let request = ApiKeyRequest {
            name: name.to_owned(),
            role: Role::User,
            expires_in_days: days,
        };
        let answer = app
            .control
            .create_api_key(&app.admin, request)
            .await
            .map(drop);
        assert_eq!(code(answer), Code::InvalidRequest, "{name:?} {days:?}");
    }
}

#[tokio::test]
async fn a_key_ends_on_its_day() {
    let app = TestApp::start().await;
    let key = make(&app, &app.admin, Role::User, Some(1)).await;
    app.clock.advance(Duration::from_secs(86_399));
    assert!(app.control.authenticate_api_key(&key.secret).await.is_ok());
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(
        code(app.control.authenticate_api_key(&key.secret).await),
        Code::Unauthorized
    );
    let keys = app.control.api_keys(&app.admin, Whose::Mine).await.unwrap();
    assert!(keys[0].expired);
}

#[tokio::test]
async fn a_revoked_key_ends_at_once_and_leaves_the_list() {
    let app = TestApp::start().await;
    let key = make(&app, &app.admin, Role::User, None).await;
    app.control
        .revoke_api_key(&app.admin, key.item.api_key_id)
        .await
        .unwrap();
    assert_eq!(
        code(app.control.authenticate_api_key(&key.secret).await),
        Code::Unauthorized
    );
    assert!(
        app.control
            .api_keys(&app.admin, Whose::Mine)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        code(
            app.control
                .revoke_api_key(&app.admin, key.item.api_key_id)
                .await
        ),
        Code::NotFound
    );
}

#[tokio::test]
async fn a_key_ends_with_its_member() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "u@example.com").await;
    let key = make(&app, &user, Role::User, None).await;
    app.control
        .remove_member(&app.admin, user.member().unwrap().user_id)
        .await
        .unwrap();
    assert_eq!(
        code(app.control.authenticate_api_key(&key.secret).await),
        Code::Unauthorized
    );
    let keys = app
        .control
        .api_keys(&app.admin, Whose::Everyones)
        .await
        .unwrap();
    assert!(keys.is_empty());
}

#[tokio::test]
async fn other_members_keys_are_an_admins_business_only() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "u@example.com").await;
    let developer = app.member(Role::Developer, "d@example.com").await;
    let key = make(&app, &user, Role::User, None).await;
    assert!(
        app.control
            .api_keys(&developer, Whose::Mine)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        code(
            app.control
                .revoke_api_key(&developer, key.item.api_key_id)
                .await
        ),
        Code::NotFound,
        "like a key that never was"
    );
    let all = app
        .control
        .api_keys(&app.admin, Whose::Everyones)
        .await
        .unwrap();
    assert_eq!(all[0].owner, "u@example.com");
    app.control
        .revoke_api_key(&app.admin, key.item.api_key_id)
        .await
        .unwrap();
}

#[tokio::test]
async fn uses_are_noted_at_most_once_a_minute_and_never_fail_the_call() {
    let app = TestApp::start().await;
    let key = make(&app, &app.admin, Role::User, None).await;
    let last =
        async || app.control.api_keys(&app.admin, Whose::Mine).await.unwrap()[0].last_used_at;
    assert_eq!(last().await, None);
    app.control.authenticate_api_key(&key.secret).await.unwrap();
    let first = last().await;
    assert_eq!(first, Some(app.clock.now()));
    app.clock.advance(Duration::from_secs(59));
    app.control.authenticate_api_key(&key.secret).await.unwrap();
    assert_eq!(last().await, first);
    app.clock.advance(Duration::from_secs(1));
    app.store
        .fail_once(testkit::Moment::Before("touch_api_key"));
    assert!(app.control.authenticate_api_key(&key.secret).await.is_ok());
    app.control.authenticate_api_key(&key.secret).await.unwrap();
    assert_eq!(last().await, Some(app.clock.now()));
}

#[tokio::test]
async fn no_secret_is_stored_or_logged() {
    let app = TestApp::start().await;
    let key = make(&app, &app.admin, Role::User, None).await;
    let log = app.control.audit_log(&app.admin, None).await.unwrap();
    let text = serde_json::to_string(&log).unwrap();
    assert!(!text.contains(key.secret.expose()));
    let rows = app
        .store
        .inner()
        .api_keys(app.organization, None)
        .await
        .unwrap();
    assert!(!format!("{rows:?}").contains(&key.secret.expose()[4..40]));
}
