//! Who may do what: every use case that takes a context, asked by everybody.

use std::{future::Future, pin::Pin};

use control::{
    Control, OpCtx, Result, Secret,
    api_keys::{ApiKeyRequest, Whose},
    setup_runs::LogQuery,
};
use domain::{
    ids::{ApiKeyId, EnvironmentId, InvitationId, SetupRunId, UserId},
    roles::Role,
};
use serde_json::json;
use testkit::{PASSWORD, TestApp, create_body};
use wire::{console::Sort, error::Code};

use crate::{code, refused};

struct World {
    control: Control,
    environment: EnvironmentId,
    run: SetupRunId,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;
type Call = for<'a> fn(&'a World, &'a OpCtx) -> Answer<'a>;

/// The weakest role that may, and the call.
const CALLS: &[(&str, Role, Call)] = &[
    ("list_environments", Role::User, |w, c| {
        Box::pin(async { w.control.list_environments(c).await.map(drop) })
    }),
    ("get_environment", Role::User, |w, c| {
        Box::pin(async { w.control.get_environment(c, w.environment).await.map(drop) })
    }),
    ("get_environment_json", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .get_environment_json(c, w.environment)
                .await
                .map(drop)
        })
    }),
    ("environments_table", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .environments_table(c, "", Sort::default())
                .await
                .map(drop)
        })
    }),
    ("environment_page", Role::User, |w, c| {
        Box::pin(async { w.control.environment_page(c, w.environment).await.map(drop) })
    }),
    ("environment_staleness", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .environment_staleness(c, w.environment)
                .await
                .map(drop)
        })
    }),
    ("environment_history_page", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .environment_history_page(c, w.environment, None, None)
                .await
                .map(drop)
        })
    }),
    ("restore_environment_as_seen", Role::Developer, |w, c| {
        Box::pin(async {
            let seen = w.control.environment_page(c, w.environment).await?.revision;
            w.control
                .restore_environment_as_seen(c, w.environment, seen, seen)
                .await
                .map(drop)
        })
    }),
    ("put_back_verified", Role::Developer, |w, c| {
        Box::pin(async {
            let seen = w.control.environment_page(c, w.environment).await?.revision;
            match w
                .control
                .put_back_verified(c, w.environment, &[], seen)
                .await
            {
                // Allowed; nothing was verified here.
                Err(error) if error.code() == Code::InvalidRequest => Ok(()),
                other => other.map(drop),
            }
        })
    }),
    ("saved_meanwhile", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .saved_meanwhile(c, w.environment, 1)
                .await
                .map(drop)
        })
    }),
    ("environment_history", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .environment_history(c, w.environment)
                .await
                .map(drop)
        })
    }),
    ("list_setup_runs", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .list_setup_runs(c, w.environment, None)
                .await
                .map(drop)
        })
    }),
    ("get_setup_run", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .get_setup_run(c, w.environment, w.run, None)
                .await
                .map(drop)
        })
    }),
    ("run_page", Role::User, |w, c| {
        Box::pin(async { w.control.run_page(c, w.environment, w.run).await.map(drop) })
    }),
    ("run_view", Role::User, |w, c| {
        Box::pin(async { w.control.run_view(c, w.environment, w.run).await.map(drop) })
    }),
    ("setup_run_log", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .setup_run_log(c, w.environment, w.run, LogQuery::default())
                .await
                .map(drop)
        })
    }),
    ("setup_run_log_text", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .setup_run_log_text(c, w.environment, w.run)
                .await
                .map(drop)
        })
    }),
    ("follow_setup_run", Role::User, |w, c| {
        Box::pin(async {
            w.control
                .follow_setup_run(c.clone(), w.environment, w.run, 0)
                .await
                .map(drop)
        })
    }),
    ("follow_environments", Role::User, |w, c| {
        Box::pin(async { w.control.follow_environments(c.clone()).await.map(drop) })
    }),
    ("list_sandbox_providers", Role::User, |w, c| {
        Box::pin(async { w.control.list_sandbox_providers(c).await.map(drop) })
    }),
    ("list_environment_templates", Role::User, |w, c| {
        Box::pin(async { w.control.list_environment_templates(c).await.map(drop) })
    }),
    ("offer", Role::User, |w, c| {
        Box::pin(async { w.control.offer(c).await.map(drop) })
    }),
    ("viewer", Role::User, |w, c| {
        Box::pin(async { w.control.viewer(c).await.map(drop) })
    }),
    ("create_api_key", Role::User, |w, c| {
        Box::pin(async {
            let request = ApiKeyRequest {
                name: "k".to_owned(),
                role: Role::User,
                expires_in_days: None,
            };
            w.control.create_api_key(c, request).await.map(drop)
        })
    }),
    ("api_keys of mine", Role::User, |w, c| {
        Box::pin(async { w.control.api_keys(c, Whose::Mine).await.map(drop) })
    }),
    ("change_display_name", Role::User, |w, c| {
        Box::pin(async { w.control.change_display_name(c, "Name").await })
    }),
    ("change_password", Role::User, |w, c| {
        Box::pin(async {
            let password = Secret::new(PASSWORD);
            w.control
                .change_password(c, &password, &password)
                .await
                .map(drop)
        })
    }),
    ("sign_out_everywhere", Role::User, |w, c| {
        Box::pin(async { w.control.sign_out_everywhere(c).await.map(drop) })
    }),
    ("new_environment_page", Role::Developer, |w, c| {
        Box::pin(async { w.control.new_environment_page(c).await.map(drop) })
    }),
    ("validate a new one", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .validate_environment(c, None, &json!({}))
                .await
                .map(drop)
        })
    }),
    ("validate a change", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .validate_environment(c, Some(w.environment), &json!({}))
                .await
                .map(drop)
        })
    }),
    ("create_environment", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .create_environment(c, &create_body("n", ""), None)
                .await
                .map(drop)
        })
    }),
    ("update_environment", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .update_environment(c, w.environment, &json!({"description": "d"}), None)
                .await
                .map(drop)
        })
    }),
    ("save_environment_form", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .save_environment_form(c, w.environment, 1, &json!({"description": "d"}))
                .await
                .map(drop)
        })
    }),
    ("duplicate_environment", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .duplicate_environment(c, w.environment)
                .await
                .map(drop)
        })
    }),
    ("restore_environment", Role::Developer, |w, c| {
        Box::pin(async {
            w.control
                .restore_environment(c, w.environment, 1)
                .await
                .map(drop)
        })
    }),
    ("start_setup_run", Role::Developer, |w, c| {
        Box::pin(async {
            match w.control.start_setup_run(c, w.environment, None).await {
                // Allowed; one is in flight.
                Err(error) if error.code() == Code::SetupRunInProgress => Ok(()),
                other => other.map(drop),
            }
        })
    }),
    ("members", Role::Admin, |w, c| {
        Box::pin(async { w.control.members(c).await.map(drop) })
    }),
    ("invitations", Role::Admin, |w, c| {
        Box::pin(async { w.control.invitations(c).await.map(drop) })
    }),
    ("invite", Role::Admin, |w, c| {
        Box::pin(async {
            w.control
                .invite(c, "new@example.com", Role::User)
                .await
                .map(drop)
        })
    }),
    ("create_member", Role::Admin, |w, c| {
        Box::pin(async {
            let email = format!("{}@example.com", w.run);
            w.control
                .create_member(c, &email, Role::User)
                .await
                .map(drop)
        })
    }),
    ("api_keys of everyone", Role::Admin, |w, c| {
        Box::pin(async { w.control.api_keys(c, Whose::Everyones).await.map(drop) })
    }),
    ("workers", Role::Admin, |w, c| {
        Box::pin(async { w.control.workers(c).await.map(drop) })
    }),
    ("audit_log", Role::Admin, |w, c| {
        Box::pin(async { w.control.audit_log(c, None).await.map(drop) })
    }),
    ("release_setup_run", Role::Admin, |w, c| {
        Box::pin(async {
            match w.control.release_setup_run(c, w.environment, w.run).await {
                // Allowed; no worker holds it.
                Err(error) if error.code() == Code::InvalidRequest => Ok(()),
                Err(error) if error.code() == Code::SetupRunFinished => Ok(()),
                other => other.map(drop),
            }
        })
    }),
    ("cancel_setup_run", Role::Developer, |w, c| {
        Box::pin(async {
            match w.control.cancel_setup_run(c, w.environment, w.run).await {
                // Allowed; the one before has done it.
                Err(error) if error.code() == Code::SetupRunFinished => Ok(()),
                other => other.map(drop),
            }
        })
    }),
];

async fn world(app: &TestApp) -> World {
    let environment = app.environment("one", "true").await;
    World {
        control: app.control.clone(),
        environment,
        run: app.run(environment).await,
    }
}

#[tokio::test]
async fn each_role_may_exactly_what_the_table_says() {
    let app = TestApp::start().await;
    let world = world(&app).await;
    for role in Role::ALL {
        let ctx = app.member(role, &format!("{role}@roles.example.com")).await;
        for (name, least, call) in CALLS {
            let answer = call(&world, &ctx).await;
            if role >= *least {
                assert!(answer.is_ok(), "{role} may {name}: {answer:?}");
            } else {
                assert_eq!(code(answer), Code::Forbidden, "{role} may not {name}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_and_parts_of_ours_are_refused_by_every_use_case_of_members() {
    let app = TestApp::start().await;
    let world = world(&app).await;
    for (name, _, call) in CALLS {
        let anonymous = TestApp::anonymous();
        assert_eq!(
            code(call(&world, &anonymous).await),
            Code::Unauthorized,
            "{name}"
        );
        if *name != "create_member" {
            let system = OpCtx::system("test");
            assert_eq!(
                code(call(&world, &system).await),
                Code::Unauthorized,
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn another_organizations_ids_answer_like_ids_that_never_existed() {
    let app = TestApp::start().await;
    let world = world(&app).await;
    let nowhere = World {
        control: app.control.clone(),
        environment: EnvironmentId::from_uuid(uuid::Uuid::from_u128(1)),
        run: SetupRunId::from_uuid(uuid::Uuid::from_u128(2)),
    };
    let stranger = TestApp::stranger();
    let about_one: Vec<_> = CALLS
        .iter()
        .filter(|(name, _, _)| {
            [
                "get_environment",
                "environment_page",
                "environment_staleness",
                "environment_history",
                "list_setup_runs",
                "get_setup_run",
                "run_page",
                "run_view",
                "setup_run_log",
                "setup_run_log_text",
                "follow_setup_run",
                "validate a change",
                "update_environment",
                "save_environment_form",
                "duplicate_environment",
                "restore_environment",
                "start_setup_run",
                "cancel_setup_run",
            ]
            .contains(name)
        })
        .collect();
    assert_eq!(about_one.len(), 18);
    let user = app.member(Role::User, "u@example.com").await;
    for (name, _, call) in about_one {
        let theirs = refused(call(&world, &stranger).await);
        let unknown = refused(call(&nowhere, &stranger).await);
        assert_eq!(theirs.code(), Code::NotFound, "{name}");
        assert_eq!(theirs.api(), unknown.api(), "{name}");
        // A weaker role learns no more of what is not there.
        assert_eq!(code(call(&nowhere, &user).await), Code::NotFound, "{name}");
    }
    assert_eq!(
        code(
            app.control
                .delete_environment(&stranger, world.environment)
                .await
        ),
        Code::NotFound
    );
}

#[tokio::test]
async fn a_run_is_found_under_its_own_environment_only() {
    let app = TestApp::start().await;
    let world = world(&app).await;
    let other = app.environment("two", "true").await;
    for answer in [
        app.control
            .get_setup_run(&app.admin, other, world.run, None)
            .await
            .map(drop),
        app.control
            .cancel_setup_run(&app.admin, other, world.run)
            .await
            .map(drop),
        app.control
            .setup_run_log(&app.admin, other, world.run, LogQuery::default())
            .await
            .map(drop),
    ] {
        assert_eq!(code(answer), Code::NotFound);
    }
}

#[tokio::test]
async fn administration_by_id_knows_only_ones_own_organization_and_role() {
    let app = TestApp::start().await;
    let (stranger, developer) = (
        TestApp::stranger(),
        app.member(Role::Developer, "d@example.com").await,
    );
    let admin = app.admin.member().unwrap().user_id;
    let unknown = UserId::from_uuid(uuid::Uuid::from_u128(3));
    let control = &app.control;
    for id in [admin, unknown] {
        assert_eq!(
            code(control.change_role(&stranger, id, Role::User).await),
            Code::NotFound
        );
        assert_eq!(
            code(control.remove_member(&stranger, id).await),
            Code::NotFound
        );
        assert_eq!(
            code(control.change_role(&developer, id, Role::User).await),
            Code::Forbidden
        );
        assert_eq!(
            code(control.remove_member(&developer, id).await),
            Code::Forbidden
        );
    }
    let nowhere = InvitationId::from_uuid(uuid::Uuid::from_u128(4));
    assert_eq!(
        code(control.withdraw_invitation(&app.admin, nowhere).await),
        Code::NotFound
    );
    assert_eq!(
        code(control.withdraw_invitation(&developer, nowhere).await),
        Code::Forbidden
    );
    let key = ApiKeyId::from_uuid(uuid::Uuid::from_u128(5));
    assert_eq!(
        code(control.revoke_api_key(&developer, key).await),
        Code::NotFound
    );
}
