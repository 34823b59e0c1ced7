//! The console's door: sign-in by cookie, requests from other sites.

use std::time::Duration;

use domain::roles::Role;
use http::Method;
use server::http::origin::Origins;
use testkit::PASSWORD;
use tokio_util::sync::CancellationToken;

use crate::support::{ADMIN, Answer, DEVELOPER, Doors, Setting, USER};

async fn sign_in(doors: &Doors, email: &str, cookie: Option<&str>) -> Answer {
    let mut call = doors
        .post("/fn/sign-in")
        .form(&[("email", email), ("password", PASSWORD)]);
    if let Some(cookie) = cookie {
        call = call.header("cookie", cookie);
    }
    call.send().await
}

async fn cookie_of(doors: &Doors, email: &str) -> String {
    let answer = sign_in(doors, email, None).await;
    answer.cookie().unwrap_or_else(|| panic!("{answer:#?}"))
}

/// Whom the console takes the bearer of this cookie for.
async fn viewer(doors: &Doors, cookie: &str) -> Option<String> {
    let answer = doors
        .post("/fn/frame")
        .form(&[])
        .header("cookie", cookie)
        .send()
        .await;
    match answer.status.as_u16() {
        200 => Some(
            answer.json()["viewer"]["email"]
                .as_str()
                .unwrap()
                .to_owned(),
        ),
        401 => None,
        other => panic!("{other}: {answer:#?}"),
    }
}

#[tokio::test]
async fn signing_in_sets_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let doors = Doors::open().await;
    let answer = sign_in(&doors, ADMIN, None).await;
    assert!(answer.status.is_success(), "{answer:#?}");
    let set = answer.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=604800"] {
        assert!(set.contains(attribute), "{attribute}: {set}");
    }
    assert!(!set.contains("Secure") && !set.contains("Domain"), "{set}");
    assert_eq!(
        viewer(&doors, &answer.cookie().unwrap()).await.as_deref(),
        Some(ADMIN)
    );
}

#[tokio::test]
async fn behind_tls_the_cookie_stays_with_tls() {
    let doors = Doors::with(Setting {
        origins: Origins {
            public_url: Some(server::config::PublicUrl {
                scheme: "https".to_owned(),
                authority: "gw.example".to_owned(),
            }),
            ..Origins::default()
        },
        ..Setting::default()
    })
    .await;
    let answer = sign_in(&doors, ADMIN, None).await;
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"));
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_address_answer_alike() {
    let doors = Doors::open().await;
    let wrong = |email: &'static str| {
        doors
            .post("/fn/sign-in")
            .form(&[("email", email), ("password", "wrong horse battery")])
            .send()
    };
    let (known, unknown) = (wrong(ADMIN).await, wrong("nobody@example.com").await);
    assert_eq!(known.status, 401);
    assert_eq!(known.cookie(), None);
    let plain = |answer: &Answer| {
        answer
            .text
            .replace(answer.header("x-request-id").unwrap(), "")
    };
    assert_eq!(
        (known.status, plain(&known)),
        (unknown.status, plain(&unknown))
    );
}

#[tokio::test]
async fn every_sign_in_has_a_new_id_and_ends_the_one_before() {
    let doors = Doors::open().await;
    let first = cookie_of(&doors, ADMIN).await;
    let answer = sign_in(&doors, DEVELOPER, Some(&first)).await;
    let second = answer.cookie().unwrap();
    assert_ne!(first, second);
    assert_eq!(viewer(&doors, &second).await.as_deref(), Some(DEVELOPER));
    assert_eq!(
        viewer(&doors, &first).await,
        None,
        "an id of before the sign-in is worth nothing"
    );
    // An id that the browser was given by somebody else is not taken over.
    let planted = "groundwork_session=AAAAAAAAAAAAAAAAAAAAAA";
    let answer = sign_in(&doors, ADMIN, Some(planted)).await;
    assert_ne!(answer.cookie().unwrap(), planted);
}

#[tokio::test]
async fn signing_out_ends_the_sign_in_and_removes_the_cookie() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let answer = doors
        .post("/fn/sign-out")
        .form(&[])
        .header("cookie", &cookie)
        .send()
        .await;
    let removed = answer.header("set-cookie").unwrap();
    assert!(removed.contains("Max-Age=0"), "{removed}");
    assert_eq!(viewer(&doors, &cookie).await, None);
}

#[tokio::test]
async fn an_unused_sign_in_ends_and_a_used_one_goes_on() {
    let doors = Doors::open().await;
    let (used, unused) = (
        cookie_of(&doors, ADMIN).await,
        cookie_of(&doors, ADMIN).await,
    );
    for _ in 0..3 {
        doors.app.clock.advance(Duration::from_secs(3 * 86_400));
        assert!(viewer(&doors, &used).await.is_some());
    }
    assert_eq!(viewer(&doors, &unused).await, None);
    doors.app.clock.advance(Duration::from_secs(8 * 86_400));
    assert_eq!(viewer(&doors, &used).await, None);
}

#[tokio::test]
async fn a_removed_member_and_a_changed_password_end_sign_ins_at_once() {
    let doors = Doors::open().await;
    let developer = cookie_of(&doors, DEVELOPER).await;
    let ctx = doors.app.member(Role::Developer, "third@example.com").await;
    let third = cookie_of(&doors, "third@example.com").await;
    let control::Caller::Member(member) = &ctx.caller else {
        unreachable!()
    };
    doors
        .app
        .control
        .remove_member(&doors.app.admin, member.user_id)
        .await
        .unwrap();
    assert_eq!(viewer(&doors, &third).await, None);

    let other = cookie_of(&doors, DEVELOPER).await;
    let answer = doors
        .post("/fn/change-password")
        .form(&[("current", PASSWORD), ("new", "another horse battery")])
        .header("cookie", &developer)
        .send()
        .await;
    assert!(answer.status.is_success(), "{answer:#?}");
    let kept = answer.cookie().unwrap_or(developer);
    assert_eq!(
        viewer(&doors, &other).await,
        None,
        "the other browser is signed out"
    );
    assert!(viewer(&doors, &kept).await.is_some(), "this one is not");
}

#[tokio::test]
async fn a_cookie_opens_no_api_and_a_key_opens_no_console() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    doors
        .get("/managed-agents/v1/environments")
        .header("cookie", &cookie)
        .send()
        .await
        .refused(401, "unauthorized");
    let answer = doors
        .post("/fn/frame")
        .form(&[])
        .bearer(&doors.admin)
        .send()
        .await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn requests_from_other_sites_are_refused() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let call = |pairs: &[(&str, &str)]| {
        let mut call = doors
            .post("/fn/sign-out")
            .header("host", "gw.example")
            .header("cookie", &cookie)
            .raw("application/x-www-form-urlencoded", "");
        for (name, value) in pairs {
            call = call.header(name, value);
        }
        call.send()
    };
    for pairs in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[],
    ] {
        call(pairs).await.refused(403, "forbidden");
    }
    assert!(viewer(&doors, &cookie).await.is_some(), "nothing happened");
    let own = call(&[
        ("origin", "http://gw.example"),
        ("sec-fetch-site", "same-origin"),
    ])
    .await;
    assert!(own.status.is_success(), "{own:#?}");
    let page = doors
        .get("/sign-in")
        .header("sec-fetch-site", "cross-site")
        .send()
        .await;
    assert_eq!(page.status, 200, "links from elsewhere work");
    let preflight = doors
        .call(Method::OPTIONS, "/fn/sign-out")
        .header("origin", "https://evil.example")
        .send()
        .await;
    assert_eq!(preflight.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn session_ids_are_not_in_the_database() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let id = cookie.split_once('=').unwrap().1;
    let mut seen = 0;
    for entry in std::fs::read_dir(doors.app.directory()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        seen += bytes.len();
        assert!(
            !bytes
                .windows(id.len())
                .any(|window| window == id.as_bytes())
        );
    }
    assert!(seen > 10_000, "the database was looked at");
}

#[tokio::test]
async fn a_followed_run_is_let_go_when_the_server_stops() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, DEVELOPER).await;
    let environment = doors.app.environment("One", "echo hi\n").await.to_string();
    let run = doors
        .app
        .run(environment.parse().unwrap())
        .await
        .to_string();
    let response = doors
        .post("/fn/follow-run")
        .form(&[
            ("environment_id", &environment),
            ("setup_run_id", &run),
            ("after", "0"),
        ])
        .header("cookie", &cookie)
        .open()
        .await;
    assert_eq!(response.status(), 200);
    // Proxies that gather an answer before they pass it on are told not to.
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    doors.stop.cancel();
    tokio::time::timeout(
        Duration::from_secs(60),
        http_body_util::BodyExt::collect(response.into_body()),
    )
    .await
    .expect("the stream ends")
    .unwrap();
}

#[tokio::test]
async fn nobody_is_led_to_the_sign_in_page_and_back() {
    let doors = Doors::open().await;
    for accept in ["text/html,*/*;q=0.8", "*/*"] {
        let page = doors
            .get("/environments?query=web")
            .header("accept", accept)
            .send()
            .await;
        assert_eq!(
            (page.status.as_u16(), page.header("location")),
            (302, Some("/sign-in?next=/environments%3Fquery%3Dweb")),
            "{accept}"
        );
    }
    let cookie = cookie_of(&doors, ADMIN).await;
    let page = doors
        .get("/environments")
        .header("cookie", &cookie)
        .send()
        .await;
    assert_eq!(page.status, 200);
    let unknown = doors.get("/nothing").header("cookie", &cookie).send().await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_log_is_downloaded_with_the_consoles_sign_in_and_not_without() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "true").await;
    let run = app.run(environment).await;
    let path = format!("/environments/{environment}/runs/{run}/log.txt");
    assert_eq!(doors.get(&path).send().await.status, 401);
    let cookie = cookie_of(&doors, USER).await;
    let answer = doors.get(&path).header("cookie", &cookie).send().await;
    assert_eq!(answer.status, 200, "{answer:#?}");
    assert!(answer.text.starts_with("# Queued by "), "{answer:#?}");
    let disposition = answer.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment"), "{disposition}");
}

#[tokio::test]
async fn a_run_page_renders_the_end_of_the_log_or_a_part_of_it() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "true").await;
    let run = app.run(environment).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    worker
        .reach(held, domain::setup_run::Phase::Setup)
        .await
        .unwrap();
    let texts: Vec<String> = (1..=500).map(|n| format!("text-{n}.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    worker.write(held, 1, &texts).await.unwrap();
    worker.pass(held).await;
    let cookie = cookie_of(&doors, USER).await;
    let path = format!("/environments/{environment}/runs/{run}");
    let page = |query: &'static str| {
        let call = doors.get(&format!("{path}{query}"));
        call.header("cookie", &cookie)
            .header("accept", "text/html")
            .send()
    };
    let end = page("").await.text;
    assert!(end.contains(">text-500.<") && !end.contains(">text-200.<"));
    assert!(end.contains("Earlier lines") && !end.contains("Later lines"));
    let part = page("?from=103").await.text;
    // The first lines are ours: who queued it, and which worker took it.
    assert!(part.contains("id=\"L103\"") && part.contains("id=\"L302\""));
    assert!(!part.contains("id=\"L303\"") && !part.contains("id=\"L102\""));
    for link in ["?from=1\"", "?from=303\"", "Earlier lines", "Later lines"] {
        assert!(part.contains(link), "{link}");
    }
    let last = page("?from=9999").await.text;
    assert!(!last.contains("Later lines"));
}

#[tokio::test]
async fn pages_answer_while_other_consoles_are_set_up() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, ADMIN).await;
    let (again, state) = (CancellationToken::new(), doors.state());
    let others = {
        let again = again.clone();
        std::thread::spawn(move || {
            while !again.is_cancelled() {
                drop(server::http::router(state.clone()));
            }
        })
    };
    for _ in 0..20 {
        for path in ["/environments", "/account", "/members"] {
            let call = doors.get(path).header("cookie", &cookie);
            let answer = tokio::time::timeout(Duration::from_secs(30), call.send());
            assert_eq!(answer.await.expect(path).status, 200);
        }
    }
    again.cancel();
    others.join().unwrap();
}

#[tokio::test]
async fn without_scripting_a_new_key_is_on_the_next_page_and_on_no_other() {
    let doors = Doors::open().await;
    let cookie = cookie_of(&doors, DEVELOPER).await;
    let made = doors
        .post("/fn/create-key")
        .form(&[("name", "plain"), ("role", "developer")])
        .header("accept", "text/html,*/*;q=0.8")
        .header("referer", "http://localhost/account")
        .header("cookie", &cookie)
        .send()
        .await;
    assert_eq!(made.status, 302, "{made:#?}");
    let account = || doors.get("/account").header("cookie", &cookie).send();
    // Lists show the first characters of a key: a whole one has 47.
    let shown = |page: &str| {
        page.match_indices("rma_").any(|(at, _)| {
            let rest = page[at + 4..].bytes();
            rest.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                .count()
                == 43
        })
    };
    assert!(shown(&account().await.text));
    assert!(!shown(&account().await.text));
}
