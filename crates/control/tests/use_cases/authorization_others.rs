//! Who acts for the operator, and what pages offer.

use control::{OpCtx, api_keys::ApiKeyRequest};
use domain::roles::Role;
use testkit::TestApp;
use wire::error::Code;

use crate::code;

#[tokio::test]
async fn only_parts_of_ours_act_for_the_operator() {
    let app = TestApp::start().await;
    let request = ApiKeyRequest {
        name: "k".to_owned(),
        role: Role::User,
        expires_in_days: None,
    };
    for ctx in [&app.admin, &TestApp::anonymous()] {
        assert_eq!(
            code(
                app.control
                    .create_api_key_for(ctx, "admin@example.com", request.clone())
                    .await
            ),
            Code::Unauthorized
        );
    }
    let system = OpCtx::system("admin-cli");
    assert!(
        app.control
            .create_api_key_for(&system, "admin@example.com", request)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn what_pages_offer_is_what_the_role_may() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "u@example.com").await;
    let developer = app.member(Role::Developer, "d@example.com").await;
    let (u, d, a) = (user.may(), developer.may(), app.admin.may());
    assert!(!u.change && !u.test && !u.use_sessions && !u.manage_members && !u.read_audit);
    assert!(d.change && d.test && d.use_sessions && !d.manage_members && !d.manage_api_keys);
    assert!(a.change && a.manage_members && a.manage_api_keys && a.manage_workers && a.read_audit);
    assert_eq!(TestApp::anonymous().may(), wire::console::May::default());
}
