//! Who may call what: every REST operation and every server function is listed with what each kind of caller gets. One
//! that is missing here fails.

use std::collections::BTreeSet;

use domain::{ids::EnvironmentId, roles::Role, session::Status::Provisioning};
use http::Method;
use server::rest;
use testkit::PASSWORD;

use crate::{
    coverage_functions,
    support::{ADMIN, Call, DEVELOPER, Doors, USER},
};

/// What nobody, and members by role, get: HTTP statuses.
pub struct Row {
    pub call: &'static str,
    pub body: &'static str,
    anonymous: u16,
    user: u16,
    developer: u16,
    admin: u16,
}

const fn row(
    call: &'static str,
    body: &'static str,
    [anonymous, user, developer, admin]: [u16; 4],
) -> Row {
    Row {
        call,
        body,
        anonymous,
        user,
        developer,
        admin,
    }
}

/// Reads, changes of developers, and what is for admins.
const READ: [u16; 4] = [401, 200, 200, 200];
const ADMINS: [u16; 4] = [401, 403, 403, 200];

/// `{environment_id}` and `{setup_run_id}` are filled in; the run has succeeded.
pub fn rest_rows() -> Vec<Row> {
    vec![
        row("GET /managed-agents/v1/sandbox-providers", "", READ),
        row("GET /managed-agents/v1/environment-templates", "", READ),
        row("GET /managed-agents/v1/environments", "", READ),
        row(
            "POST /managed-agents/v1/environments",
            r#"{"name":"x"}"#,
            [401, 403, 200, 200],
        ),
        row(
            "GET /managed-agents/v1/environments/{environment_id}",
            "",
            READ,
        ),
        row(
            "PATCH /managed-agents/v1/environments/{environment_id}",
            r#"{"description":"x"}"#,
            [401, 403, 200, 200],
        ),
        row(
            "GET /managed-agents/v1/environments/{environment_id}/setup-runs",
            "",
            READ,
        ),
        row(
            "POST /managed-agents/v1/environments/{environment_id}/setup-runs",
            "{}",
            [401, 403, 202, 409],
        ),
        row(
            "GET /managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}",
            "",
            READ,
        ),
        row(
            "GET /managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log",
            "",
            READ,
        ),
        row(
            "POST /managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/cancel",
            "",
            [401, 403, 409, 409],
        ),
        row(
            "POST /groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/release",
            "",
            [401, 403, 403, 409],
        ),
        row("GET /groundwork/v1/environments", "", READ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/staleness",
            "",
            READ,
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/history",
            "",
            READ,
        ),
        row(
            "POST /groundwork/v1/environments/{environment_id}/history/{revision}/restore",
            "",
            [401, 403, 200, 200],
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/secrets",
            "",
            READ,
        ),
        row(
            "PUT /groundwork/v1/environments/{environment_id}/secrets/{name}",
            r#"{"value":"hush-hush"}"#,
            [401, 403, 200, 200],
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/secrets/{name}",
            "",
            READ,
        ),
        row(
            "DELETE /groundwork/v1/environments/{environment_id}/secrets/{name}",
            "",
            [401, 403, 200, 404],
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log/stream",
            "",
            READ,
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log.txt",
            "",
            READ,
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/egress",
            "",
            READ,
        ),
        row(
            "GET /groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/timings",
            "",
            READ,
        ),
        row("GET /groundwork/v1/members", "", ADMINS),
        row(
            "PATCH /groundwork/v1/members/{user_id}",
            r#"{"role":"user"}"#,
            [401, 403, 403, 404],
        ),
        row(
            "DELETE /groundwork/v1/members/{user_id}",
            "",
            [401, 403, 403, 404],
        ),
        row("GET /groundwork/v1/members/invitations", "", ADMINS),
        row(
            "POST /groundwork/v1/members/invitations",
            r#"{"email":"new@example.com","role":"user"}"#,
            [401, 403, 403, 201],
        ),
        row(
            "DELETE /groundwork/v1/members/invitations/{invitation_id}",
            "",
            [401, 403, 403, 404],
        ),
        row(
            "POST /groundwork/v1/network-policy/test",
            r#"{"network_policy":{},"hosts":["example.com"]}"#,
            READ,
        ),
        row("GET /groundwork/v1/api-keys", "", READ),
        row(
            "POST /groundwork/v1/api-keys",
            r#"{"name":"x","role":"user"}"#,
            [401, 201, 201, 201],
        ),
        row(
            "DELETE /groundwork/v1/api-keys/{api_key_id}",
            "",
            [401, 404, 404, 404],
        ),
        row("GET /groundwork/v1/workers", "", ADMINS),
        row("GET /groundwork/v1/audit-events", "", ADMINS),
        row("GET /groundwork/v1/audit-events/export", "", ADMINS),
        // Before them the admin's start of a run: re-testing leaves the environment usable.
        row("GET /groundwork/v1/sessions", "", READ),
        row(
            "POST /groundwork/v1/sessions",
            r#"{"environment_id":"{environment_id}"}"#,
            [401, 403, 202, 202],
        ),
        row("GET /groundwork/v1/sessions/{session_id}", "", READ),
        row("GET /groundwork/v1/sessions/{session_id}/samples", "", READ),
        row(
            "POST /groundwork/v1/sessions/{session_id}/exec",
            r#"{"command":"echo x"}"#,
            [401, 403, 200, 200],
        ),
        row(
            "GET /groundwork/v1/sessions/{session_id}/terminal",
            "",
            [401, 403, 400, 400],
        ),
        row(
            "POST /groundwork/v1/sessions/{session_id}/resume",
            "",
            [401, 403, 200, 200],
        ),
        row(
            "POST /groundwork/v1/sessions/{session_id}/stop",
            "",
            [401, 403, 200, 200],
        ),
        row(
            "DELETE /groundwork/v1/sessions/{session_id}",
            "",
            [401, 403, 200, 404],
        ),
        // Last: it takes away what the others need.
        row(
            "DELETE /managed-agents/v1/environments/{environment_id}",
            "",
            [401, 403, 200, 404],
        ),
    ]
}

pub fn split(call: &str) -> (Method, &str) {
    let (method, path) = call.split_once(' ').unwrap();
    (method.parse().unwrap(), path)
}

/// A path with its parameters filled in; ids that no test makes are of nothing.
pub fn filled(path: &str, environment: &str, run: &str, session: &str) -> String {
    const NOTHING: &str = "019a0000000070008000000000000001";
    path.replace("{session_id}", session)
        .replace("{environment_id}", environment)
        .replace("{setup_run_id}", run)
        .replace("{revision}", "1")
        .replace("{name}", "TOKEN")
        .replace("{api_key_id}", &format!("key_{NOTHING}"))
        .replace("{user_id}", &format!("usr_{NOTHING}"))
        .replace("{invitation_id}", &format!("inv_{NOTHING}"))
}

/// A running session of it.
pub async fn session_of(doors: &Doors, environment: EnvironmentId) -> String {
    let app = &doors.app;
    let started = app.control.start_session(&app.admin, environment, None);
    let id = started.await.unwrap().value.session_id;
    at_rest(doors, &id.to_string()).await;
    id.to_string()
}

/// Waits until what was asked of a session is done.
pub async fn at_rest(doors: &Doors, session: &str) {
    let app = &doors.app;
    let id = session.parse().unwrap();
    app.eventually("the session rests", || async {
        match app.control.get_session(&app.admin, id, None).await {
            Ok(found) => (found.status != Provisioning && found.pending.is_none()).then_some(()),
            Err(_) => Some(()),
        }
    })
    .await;
}

pub async fn tested_environment(doors: &Doors) -> (EnvironmentId, String) {
    let environment = doors.app.environment("Covered", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    (environment, run.to_string())
}

#[tokio::test]
async fn every_rest_operation_answers_each_kind_of_caller_as_listed() {
    let listed: BTreeSet<String> = rest_rows().iter().map(|row| row.call.to_owned()).collect();
    let there: BTreeSet<String> = rest::operations()
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    assert_eq!(listed, there);

    let doors = Doors::open().await;
    let (environment, run) = tested_environment(&doors).await;
    let session = session_of(&doors, environment).await;
    let mut wrong = Vec::new();
    for row in rest_rows() {
        let (method, path) = split(row.call);
        let path = filled(path, &environment.to_string(), &run, &session);
        let body = row
            .body
            .replace("{environment_id}", &environment.to_string());
        let call = |caller: usize| {
            let mut call = doors.call(method.clone(), &path);
            if !row.body.is_empty() {
                call = call.raw("application/json", body.clone());
            }
            if path.ends_with("/setup-runs") && method == Method::POST {
                call = call.header("idempotency-key", &format!("k{caller}"));
            }
            call
        };
        let keys = [
            None,
            Some(Role::User),
            Some(Role::Developer),
            Some(Role::Admin),
        ];
        let mut found = Vec::new();
        for (n, role) in keys.into_iter().enumerate() {
            let mut call = call(n);
            if let Some(role) = role {
                call = call.bearer(doors.key_of(role));
            }
            found.push(status(call).await);
            at_rest(&doors, &session).await;
        }
        let expected = [row.anonymous, row.user, row.developer, row.admin];
        if found != expected {
            wrong.push(format!("{}: {found:?} instead of {expected:?}", row.call));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn no_delete_takes_a_body() {
    let doors = Doors::open().await;
    let (environment, run) = tested_environment(&doors).await;
    let session = session_of(&doors, environment).await;
    let deletes = rest_rows().into_iter().filter_map(|row| {
        let (method, path) = split(row.call);
        let path = filled(path, &environment.to_string(), &run, &session);
        (method == Method::DELETE).then_some(path)
    });
    let deletes: Vec<String> = deletes.collect();
    assert!(deletes.len() >= 6, "{deletes:?}");
    for path in deletes {
        let call = || doors.call(Method::DELETE, &path).bearer(&doors.admin);
        for (kind, body) in [
            ("application/json", r#"{"force":true}"#),
            ("application/json", "[]"),
            ("application/json", "null"),
            ("application/json", "{"),
            ("text/plain", "force"),
        ] {
            let answer = call().raw(kind, body).send().await;
            answer.refused(400, "invalid_request");
            assert!(answer.text.contains("takes no body"), "{path}: {answer:?}");
        }
        // What clients send that always name a type; nothing was deleted by the refused ones.
        let empty = call().raw("application/json", "").send().await;
        let there = path.ends_with(&session) || path.ends_with(&environment.to_string());
        let expected = if there { 200 } else { 404 };
        assert_eq!(empty.status.as_u16(), expected, "{path}: {empty:?}");
        at_rest(&doors, &session).await;
    }
}

/// The status alone: streams of what has ended end too, others are not read.
async fn status(call: Call<'_>) -> u16 {
    call.open().await.status().as_u16()
}

#[tokio::test]
async fn every_server_function_answers_each_kind_of_caller_as_listed() {
    let doors = Doors::open().await;
    let (environment, run) = tested_environment(&doors).await;
    let session = session_of(&doors, environment).await;
    let functions = coverage_functions::all();
    let listed: BTreeSet<String> = functions.iter().map(|f| f.path.to_owned()).collect();
    let there: BTreeSet<String> = leptos::server_fn::axum::server_fn_paths()
        .map(|(path, _)| path.to_owned())
        .collect();
    assert_eq!(listed, there);

    let mut wrong = Vec::new();
    for function in &functions {
        let mut found = Vec::new();
        for (n, email) in [None, Some(USER), Some(DEVELOPER), Some(ADMIN)]
            .into_iter()
            .enumerate()
        {
            // A sign-in of its own for each call: some of them end it.
            let cookie = match email {
                Some(email) => Some(sign_in(&doors, email).await),
                None => None,
            };
            let fields: Vec<(String, String)> = function
                .form
                .iter()
                .map(|(name, value)| {
                    let value = value
                        .replace("{environment_id}", &environment.to_string())
                        .replace("{setup_run_id}", &run)
                        .replace("{session_id}", &session)
                        .replace("{caller}", &n.to_string());
                    ((*name).to_owned(), value)
                })
                .collect();
            let fields: Vec<(&str, &str)> = fields
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            let mut call = doors.post(function.path).form(&fields);
            if let Some(cookie) = &cookie {
                call = call.header("cookie", cookie);
            }
            found.push(status(call).await);
            at_rest(&doors, &session).await;
        }
        if found != function.expected {
            wrong.push(format!(
                "{}: {found:?} instead of {:?}",
                function.path, function.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub async fn sign_in(doors: &Doors, email: &str) -> String {
    let answer = doors
        .post("/fn/sign-in")
        .form(&[("email", email), ("password", PASSWORD)])
        .send()
        .await;
    answer.cookie().unwrap_or_else(|| panic!("{answer:#?}"))
}
