//! The console's pages as the server sends them: who sees which, what they offer, and that no text of anybody becomes
//! markup. The pages' life in a browser is in the end-to-end suite.

use std::time::Duration;

use control::OpCtx;
use domain::ids::EnvironmentId;
use http::Method;
use serde_json::json;
use testkit::PASSWORD;

use crate::support::{ADMIN, Answer, DEVELOPER, Doors, USER};

pub async fn cookie_of(doors: &Doors, email: &str) -> String {
    let answer = doors
        .post("/fn/sign-in")
        .form(&[("email", email), ("password", PASSWORD)])
        .send()
        .await;
    answer.cookie().unwrap_or_else(|| panic!("{answer:#?}"))
}

pub async fn page(doors: &Doors, path: &str, cookie: Option<&str>) -> Answer {
    let mut call = doors.get(path).header("accept", "text/html,*/*;q=0.8");
    if let Some(cookie) = cookie {
        call = call.header("cookie", cookie);
    }
    // A page that never comes is named, and holds nobody up.
    tokio::time::timeout(Duration::from_secs(60), call.send())
        .await
        .unwrap_or_else(|_| panic!("{path} did not answer"))
}

/// A form as a browser sends it by itself, from a page.
async fn post_plainly(
    doors: &Doors,
    path: &str,
    from: &str,
    cookie: &str,
    fields: &[(&str, &str)],
) -> Answer {
    doors
        .call(Method::POST, path)
        .form(fields)
        .header("accept", "text/html,*/*;q=0.8")
        .header("referer", &format!("http://localhost{from}"))
        .header("cookie", cookie)
        .send()
        .await
}

async fn tested(doors: &Doors, name: &str) -> (EnvironmentId, String) {
    let environment = doors.app.environment(name, "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    (environment, run.to_string())
}

/// A page, and the status that nobody, a user, a developer and an admin get.
pub type Row = (&'static str, [u16; 4]);

const MEMBERS: [u16; 4] = [302, 200, 200, 200];
const DEVELOPERS: [u16; 4] = [302, 403, 200, 200];
const ADMINS: [u16; 4] = [302, 403, 403, 200];
const NONE: [u16; 4] = [302, 404, 404, 404];

pub const PAGES: &[Row] = &[
    // The first admin is there already: first start leads to signing in.
    ("/setup", [302, 302, 302, 302]),
    ("/sign-in", [200, 200, 200, 200]),
    (
        "/invite/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [404, 404, 404, 404],
    ),
    ("/environments", MEMBERS),
    ("/environments?query=cov&sort=name&order=up", MEMBERS),
    ("/environments/new", DEVELOPERS),
    ("/environments/new?template=base-sandbox", DEVELOPERS),
    ("/environments/new?from={environment}", DEVELOPERS),
    ("/environments/{environment}", MEMBERS),
    ("/environments/{environment}/history", MEMBERS),
    ("/environments/{environment}/history?compare=1", MEMBERS),
    ("/environments/{environment}/history?compare=99", NONE),
    ("/environments/{environment}/history?compare=x", NONE),
    ("/environments/{environment}/delete", DEVELOPERS),
    ("/environments/{environment}/runs/{run}", MEMBERS),
    ("/environments/019a0000-0000-7000-8000-000000000001", NONE),
    (
        "/environments/019a0000-0000-7000-8000-000000000001/history",
        NONE,
    ),
    (
        "/environments/{environment}/runs/019a0000-0000-7000-8000-000000000001",
        NONE,
    ),
    ("/sessions", MEMBERS),
    ("/sessions/019a0000-0000-7000-8000-000000000001", NONE),
    (
        "/sessions/019a0000-0000-7000-8000-000000000001/delete",
        NONE,
    ),
    ("/account", MEMBERS),
    ("/members", ADMINS),
    ("/api-keys", ADMINS),
    ("/workers", ADMINS),
    ("/audit", ADMINS),
    ("/audit?action=environment.&since=2026-01-01", ADMINS),
    ("/audit/export", [401, 403, 403, 200]),
    // Development builds only; it holds nobody's data.
    #[cfg(debug_assertions)]
    ("/styleguide", [200, 200, 200, 200]),
];

#[tokio::test]
async fn every_page_answers_each_kind_of_caller_as_listed() {
    let doors = Doors::open().await;
    let (environment, run) = tested(&doors, "Covered").await;
    let mut wrong = Vec::new();
    for (path, expected) in PAGES {
        let path = path
            .replace("{environment}", &environment.to_string())
            .replace("{run}", &run);
        let mut found = Vec::new();
        for email in [None, Some(USER), Some(DEVELOPER), Some(ADMIN)] {
            let cookie = match email {
                Some(email) => Some(cookie_of(&doors, email).await),
                None => None,
            };
            found.push(page(&doors, &path, cookie.as_deref()).await.status.as_u16());
        }
        if found != *expected {
            wrong.push(format!("{path}: {found:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every route of the console is in the list above, so that a new page cannot be forgotten.
#[test]
fn every_page_is_listed() {
    let listed: Vec<String> = PAGES
        .iter()
        .map(|(path, _)| {
            let path = path.split('?').next().unwrap_or_default();
            path.replace("{environment}", ":id")
                .replace("{run}", ":run")
                .replace("019a0000-0000-7000-8000-000000000001", ":id")
        })
        .collect();
    for route in server::http::console_routes::pages() {
        // The router writes parameters in braces.
        let path = route
            .path()
            .replace("{id}", ":id")
            .replace("{run}", ":run")
            .replace("{token}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
            .replace(":token", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert!(
            path == "/" || listed.contains(&path),
            "{path} is not in PAGES: say who may see it"
        );
    }
}

#[tokio::test]
async fn each_role_sees_a_console_of_its_own_without_dead_buttons() {
    let doors = Doors::open().await;
    let (environment, run) = tested(&doors, "Covered").await;
    let env = format!("/environments/{environment}");
    // Path, text, and who sees it: user, developer, admin.
    let rows: &[(&str, &str, [bool; 3])] = &[
        ("/environments", ">Members<", [false, false, true]),
        ("/environments", ">Audit log<", [false, false, true]),
        ("/environments", "id=\"create\"", [false, true, true]),
        ("/environments", ">Delete<", [false, true, true]),
        ("/environments", "Duplicate", [false, true, true]),
        ("/environments", "Test setup", [false, true, true]),
        (&env, "Save environment", [false, true, true]),
        (&env, "Save and test setup", [false, true, true]),
        (&env, "Test setup", [false, true, true]),
        (&env, "/fn/save-environment", [true, true, true]),
        (&env, "You can see this environment", [true, false, false]),
        (&env, "/history", [true, true, true]),
        (&format!("{env}/runs/{run}"), "Covered", [true, true, true]),
    ];
    let mut wrong = Vec::new();
    for (path, text, expected) in rows {
        let mut found = Vec::new();
        for email in [USER, DEVELOPER, ADMIN] {
            let cookie = cookie_of(&doors, email).await;
            let html = page(&doors, path, Some(&cookie)).await.text;
            // What the page would hydrate from is no text that anybody sees.
            let seen = html
                .split("__RESOLVED_RESOURCES")
                .next()
                .unwrap_or_default();
            found.push(seen.contains(text));
        }
        if found != *expected {
            wrong.push(format!(
                "{path} with {text:?}: {found:?} instead of {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Markup, a script's end, an event handler, a terminal's language, bidirectional and zero-width controls.
const EVIL: &str = "<img src=x onerror=alert(1)></textarea></title></script><script>alert(2)</script>\u{202e}gnp\u{200b}\u{2066}";

#[tokio::test]
async fn no_text_of_anybody_becomes_markup() {
    let doors = Doors::open().await;
    let admin = &doors.app.admin;
    let created = doors
        .app
        .control
        .create_environment(
            admin,
            &json!({
                "name": EVIL, "description": EVIL, "metadata": {"k": EVIL}, "env_vars": {"A": EVIL},
                "setup": {"script": format!("echo '{EVIL}'\n")},
            }),
            None,
        )
        .await
        .unwrap()
        .value;
    let id = created.environment_id;
    doors
        .app
        .control
        .update_environment(admin, id, &json!({"description": format!("2{EVIL}")}), None)
        .await
        .unwrap();
    doors.app.run(id).await;
    let cookie = cookie_of(&doors, ADMIN).await;
    for (path, fields) in [
        ("/fn/change-display-name", vec![("name", EVIL)]),
        ("/fn/create-key", vec![("name", EVIL), ("role", "user")]),
        (
            "/fn/invite",
            vec![("email", "a<b>@example.com"), ("role", "user")],
        ),
    ] {
        // Refused or kept: both are answers. Neither may come back as markup.
        let answer = doors
            .post(path)
            .form(&fields)
            .header("cookie", &cookie)
            .send()
            .await;
        assert!(answer.status.as_u16() < 500, "{path}: {answer:#?}");
    }
    let paths = [
        "/environments".to_owned(),
        format!("/environments?query={}", urlencode(EVIL)),
        format!("/environments/{id}"),
        format!("/environments/{id}/history"),
        format!("/environments/{id}/history?compare=1"),
        format!("/environments/{id}/delete"),
        format!("/environments/new?from={id}"),
        format!("/environments/new?template={}", urlencode(EVIL)),
        format!("/environments/{id}?not_tested={}", urlencode(EVIL)),
        format!("/audit?actor={}", urlencode(EVIL)),
        format!("/audit?since={}", urlencode(EVIL)),
        "/members".to_owned(),
        "/account".to_owned(),
        "/api-keys".to_owned(),
        "/audit".to_owned(),
    ];
    for path in paths {
        let answer = page(&doors, &path, Some(&cookie)).await;
        let html = &answer.text;
        assert!(answer.status.as_u16() < 500, "{path}: {}", answer.status);
        assert!(!html.contains("<img src=x"), "{path} holds the picture");
        assert!(!html.contains("<script>alert"), "{path} holds the script");
        // Where one reads, hidden characters are spelled out; inputs hold what was typed.
        if path == "/environments" || path.ends_with("/delete") {
            let seen = html.split("<script").next().unwrap_or_default().to_owned()
                + html.rsplit("<main").next().unwrap_or_default();
            assert!(
                seen.contains("⟨U+202E⟩gnp⟨U+200B⟩"),
                "{path} hides characters"
            );
        }
    }
}

fn urlencode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn every_page_has_a_strict_policy_whose_nonce_is_new_each_time() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let mut nonces = Vec::new();
    for path in [
        "/environments",
        "/environments",
        "/sign-in",
        "/nothing",
        "/account",
    ] {
        let answer = page(&doors, path, Some(&cookie)).await;
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "object-src 'none'",
            "form-action 'self'",
            "'wasm-unsafe-eval'",
        ] {
            assert!(policy.contains(part), "{path}: {part}: {policy}");
        }
        for part in ["unsafe-inline", "'unsafe-eval'", "http:", "https:", " * "] {
            assert!(!policy.contains(part), "{path}: {part}: {policy}");
        }
        let nonce = policy
            .split("'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next())
            .unwrap()
            .to_owned();
        // Every inline script carries it, and nothing is inline otherwise.
        for script in answer.text.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap_or_default();
            assert!(
                tag.contains(&nonce) || tag.contains("src="),
                "{path}: <script{tag}>"
            );
        }
        for attribute in [" onclick=", " onload=", " onerror=", " style=\""] {
            assert!(!answer.text.contains(attribute), "{path}: {attribute}");
        }
        nonces.push(nonce);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 5);
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_its_address_and_exported() {
    let doors = Doors::open().await;
    doors.app.environment("one", "true").await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let text = |answer: Answer| {
        answer
            .text
            .split("__RESOLVED_RESOURCES")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let found = text(page(&doors, "/audit?action=environment.", Some(&cookie)).await);
    assert!(found.contains("environment.create") && !found.contains(">organization.create<"));
    let none = text(page(&doors, "/audit?actor=nobody%40example.com", Some(&cookie)).await);
    assert!(none.contains("No entry matches"));
    let bad = text(page(&doors, "/audit?since=yesterday", Some(&cookie)).await);
    assert!(bad.contains("Write a day such as 2026-09-17"));
    let csv = page(
        &doors,
        "/audit/export?format=csv&action=environment.create",
        Some(&cookie),
    )
    .await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(csv.text.lines().count(), 2, "{}", csv.text);
    let json = page(&doors, "/audit/export?format=ndjson", Some(&cookie)).await;
    for line in json.text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[tokio::test]
async fn without_scripting_an_edit_that_met_another_is_merged_and_nothing_is_lost() {
    let doors = Doors::open().await;
    let id = doors.app.environment("one", "true").await;
    let path = format!("/environments/{id}");
    let cookie = cookie_of(&doors, DEVELOPER).await;
    let theirs = json!({"name": "theirs", "description": "their text"});
    doors
        .app
        .control
        .update_environment(&doors.app.admin, id, &theirs, None)
        .await
        .unwrap();
    let save = |base: &'static str| {
        let (doors, path, cookie) = (&doors, path.clone(), cookie.clone());
        async move {
            post_plainly(
                doors,
                "/fn/save-environment",
                &path,
                &cookie,
                &[
                    ("environment_id", path.rsplit('/').next().unwrap()),
                    ("base_revision", base),
                    ("draft[name]", "mine"),
                    ("draft[internet]", "none"),
                    ("draft[script]", "true\r\n"),
                    ("key", "k"),
                ],
            )
            .await
        }
    };
    let refused = save("1").await;
    assert_eq!(refused.status, 302, "{refused:#?}");
    let html = page(&doors, &path, Some(&cookie)).await.text;
    assert!(html.contains("Somebody else saved this environment meanwhile."));
    assert!(
        html.contains("their text"),
        "what only they changed is in the form"
    );
    assert!(
        html.contains("value=\"mine\""),
        "what was typed is still there"
    );
    assert!(
        html.contains("theirs"),
        "and what it would replace is named"
    );
    assert!(html.contains("name=\"base_revision\" value=\"2\""));
    let saved = save("2").await;
    assert_eq!(saved.header("location"), Some(path.as_str()));
    let now = doors
        .app
        .control
        .get_environment(&doors.app.admin, id)
        .await
        .unwrap();
    assert_eq!(now.name, "mine");
}

#[tokio::test]
async fn without_scripting_one_goes_back_to_a_saved_definition() {
    let doors = Doors::open().await;
    let id = doors.app.environment("one", "true").await;
    let admin: &OpCtx = &doors.app.admin;
    doors
        .app
        .control
        .update_environment(admin, id, &json!({"name": "two"}), None)
        .await
        .unwrap();
    let cookie = cookie_of(&doors, DEVELOPER).await;
    let path = format!("/environments/{id}/history?compare=1");
    let html = page(&doors, &path, Some(&cookie)).await.text;
    assert!(html.contains("Restore revision 1"));
    let reader = cookie_of(&doors, USER).await;
    let seen = page(&doors, &path, Some(&reader)).await.text;
    assert!(
        !seen.contains("Restore revision 1"),
        "no dead button for a reader"
    );
    let id_text = id.to_string();
    let back = post_plainly(
        &doors,
        "/fn/restore-revision",
        &path,
        &cookie,
        &[
            ("environment_id", &id_text),
            ("revision", "1"),
            ("seen", "2"),
        ],
    )
    .await;
    assert_eq!(
        (back.status.as_u16(), back.header("location")),
        (302, Some(format!("/environments/{id}").as_str()))
    );
    let now = doors.app.control.get_environment(admin, id).await.unwrap();
    assert_eq!(now.name, "one");
}
