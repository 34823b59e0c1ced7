//! Members and invitations.

use std::time::Duration;

use control::{OpCtx, Secret};
use domain::roles::Role;
use testkit::{PASSWORD, TestApp};
use wire::error::Code;

use crate::{code, refused};

async fn accept(app: &TestApp, token: &Secret) -> control::Result<control::accounts::SignedIn> {
    app.control
        .accept_invitation(&TestApp::anonymous(), token, "Eve", &Secret::new(PASSWORD))
        .await
}

#[tokio::test]
async fn an_invitation_makes_a_member_of_the_offered_role_once() {
    let app = TestApp::start().await;
    let new = app
        .control
        .invite(&app.admin, "Eve@Example.com", Role::Developer)
        .await
        .unwrap();
    let page = app.control.invitation_page(&new.token).await.unwrap();
    assert_eq!(page.email, "eve@example.com");
    assert_eq!(page.organization_name, "Test organization");
    let open = app.control.invitations(&app.admin).await.unwrap();
    assert_eq!(open.len(), 1);
    let weak = app
        .control
        .accept_invitation(&TestApp::anonymous(), &new.token, "", &Secret::new("short"))
        .await;
    assert_eq!(code(weak), Code::InvalidRequest);
    let signed_in = accept(&app, &new.token).await.unwrap();
    assert_eq!(signed_in.member.role, Role::Developer);
    assert_eq!(code(accept(&app, &new.token).await), Code::NotFound);
    assert_eq!(
        code(app.control.invitation_page(&new.token).await),
        Code::NotFound
    );
    assert!(
        app.control
            .invitations(&app.admin)
            .await
            .unwrap()
            .is_empty()
    );
    let members = app.control.members(&app.admin).await.unwrap();
    assert_eq!(members.len(), 2);
    assert!(members[0].is_you && !members[1].is_you);
    assert_eq!(members[1].display_name, "Eve");
}

#[tokio::test]
async fn an_invitation_ends_after_seven_days_and_when_withdrawn_and_when_replaced() {
    let app = TestApp::start().await;
    let invite = async || {
        app.control
            .invite(&app.admin, "eve@example.com", Role::User)
            .await
            .unwrap()
    };
    let replaced = invite().await;
    let withdrawn = invite().await;
    assert_eq!(code(accept(&app, &replaced.token).await), Code::NotFound);
    app.control
        .withdraw_invitation(&app.admin, withdrawn.item.invitation_id)
        .await
        .unwrap();
    assert_eq!(code(accept(&app, &withdrawn.token).await), Code::NotFound);
    assert_eq!(
        code(
            app.control
                .withdraw_invitation(&app.admin, withdrawn.item.invitation_id)
                .await
        ),
        Code::NotFound
    );
    let late = invite().await;
    app.clock.advance(Duration::from_secs(7 * 86_400));
    assert_eq!(code(accept(&app, &late.token).await), Code::NotFound);
    let unknown = refused(accept(&app, &Secret::new("x")).await);
    let expired = refused(accept(&app, &late.token).await);
    assert_eq!(unknown.api(), expired.api());
}

#[tokio::test]
async fn a_members_address_is_not_invited_again() {
    let app = TestApp::start().await;
    let error = refused(
        app.control
            .invite(&app.admin, "admin@example.com", Role::User)
            .await
            .map(drop),
    );
    assert_eq!(error.api().details["field"], "email");
    let bad = app
        .control
        .invite(&app.admin, "nobody", Role::User)
        .await
        .map(drop);
    assert_eq!(code(bad), Code::InvalidRequest);
    let system = OpCtx::system("admin-cli");
    let twice = app
        .control
        .create_member(&system, "admin@example.com", Role::User)
        .await;
    assert_eq!(code(twice), Code::InvalidRequest);
}

#[tokio::test]
async fn a_changed_role_counts_from_the_next_call() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "u@example.com").await;
    let id = user.member().unwrap().user_id;
    let item = app
        .control
        .change_role(&app.admin, id, Role::Developer)
        .await
        .unwrap();
    assert_eq!(item.role, Role::Developer);
    let member = app.control.authenticate_web(id, 1).await.unwrap();
    assert_eq!(member.role, Role::Developer);
    let log = app.control.audit_log(&app.admin, None).await.unwrap();
    assert_eq!(log.items[0].action, "member.role");
    assert_eq!(log.items[0].detail["before"]["role"], "user");
    assert_eq!(log.items[0].detail["after"]["role"], "developer");
}

#[tokio::test]
async fn the_last_admin_stays() {
    let app = TestApp::start().await;
    let me = app.admin.member().unwrap().user_id;
    for answer in [
        app.control
            .change_role(&app.admin, me, Role::User)
            .await
            .map(drop),
        app.control.remove_member(&app.admin, me).await,
    ] {
        let error = refused(answer);
        assert_eq!(error.code(), Code::InvalidRequest);
        assert!(error.api().message.contains("last one"));
    }
    let second = app.member(Role::Admin, "second@example.com").await;
    app.control
        .change_role(&app.admin, me, Role::User)
        .await
        .unwrap();
    let id = second.member().unwrap().user_id;
    assert_eq!(
        code(app.control.remove_member(&second, id).await),
        Code::InvalidRequest
    );
}

#[tokio::test]
async fn two_admins_who_remove_each_other_at_once_leave_one() {
    let app = TestApp::start().await;
    let second = app.member(Role::Admin, "second@example.com").await;
    let (a, b) = (
        app.admin.member().unwrap().user_id,
        second.member().unwrap().user_id,
    );
    let (control, ctx) = (app.control.clone(), second.clone());
    app.store
        .once(testkit::Moment::Before("update_user"), move || async move {
            control.remove_member(&ctx, a).await.unwrap();
            Ok(())
        });
    let late = app.control.remove_member(&app.admin, b).await;
    assert_eq!(code(late), Code::InvalidRequest);
    assert_eq!(app.control.members(&second).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_members_own_edit_does_not_undo_a_new_role() {
    let app = TestApp::start().await;
    let member = app.member(Role::Admin, "m@example.com").await;
    let id = member.member().unwrap().user_id;
    let (control, admin) = (app.control.clone(), app.admin.clone());
    app.store
        .once(testkit::Moment::Before("update_user"), move || async move {
            let demoted = control.change_role(&admin, id, Role::User).await;
            assert_eq!(demoted.unwrap().role, Role::User);
            Ok(())
        });
    let renamed = app.control.change_display_name(&member, "Mo").await;
    renamed.unwrap();
    assert!(app.store.all_used());
    let row = app.store.inner().user(id).await.unwrap().unwrap();
    assert_eq!((row.role, row.display_name.as_str()), (Role::User, "Mo"));
}

#[tokio::test]
async fn a_new_role_does_not_undo_a_members_own_edit() {
    let app = TestApp::start().await;
    let member = app.member(Role::User, "m@example.com").await;
    let id = member.member().unwrap().user_id;
    let control = app.control.clone();
    app.store
        .once(testkit::Moment::Before("update_user"), move || async move {
            let renamed = control.change_display_name(&member, "Mo").await;
            renamed.unwrap();
            Ok(())
        });
    let changed = app.control.change_role(&app.admin, id, Role::Developer);
    assert_eq!(changed.await.unwrap().role, Role::Developer);
    assert!(app.store.all_used());
    let row = app.store.inner().user(id).await.unwrap().unwrap();
    let kept = (row.role, row.display_name.as_str());
    assert_eq!(kept, (Role::Developer, "Mo"));
}

#[tokio::test]
async fn a_removed_member_is_out_at_once() {
    let app = TestApp::start().await;
    let developer = app.member(Role::Developer, "d@example.com").await;
    let id = developer.member().unwrap().user_id;
    let environment = {
        let body = testkit::create_body("theirs", "true");
        app.control
            .create_environment(&developer, &body, None)
            .await
            .unwrap()
            .value
            .environment_id
    };
    app.control.remove_member(&app.admin, id).await.unwrap();
    assert_eq!(
        code(app.control.authenticate_web(id, 1).await),
        Code::Unauthorized
    );
    let answer = app
        .control
        .sign_in(
            &TestApp::anonymous(),
            "d@example.com",
            &Secret::new(PASSWORD),
        )
        .await;
    assert_eq!(code(answer), Code::Unauthorized);
    assert_eq!(app.control.members(&app.admin).await.unwrap().len(), 1);
    assert_eq!(
        code(app.control.remove_member(&app.admin, id).await),
        Code::NotFound
    );
    // What they made stays, and says whose it was.
    let history = app
        .control
        .environment_history(&app.admin, environment)
        .await
        .unwrap();
    assert_eq!(history.revisions[0].by, "d@example.com");
}
