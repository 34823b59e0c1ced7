//! What holds for every request: ids, keys, limits, media types, unknown paths, headers, panics.

use std::{sync::Arc, time::Duration};

use domain::roles::Role;
use http::Method;
use serde_json::json;
use server::http::{limits::Rate, origin::Origins};
use testkit::Moment;

use crate::support::{ADMIN, Doors, Setting, key};

const ENVIRONMENTS: &str = "/managed-agents/v1/environments";

#[tokio::test]
async fn every_answer_carries_the_requests_id() {
    let doors = Doors::open().await;
    let given = doors
        .get("/healthz")
        .header("x-request-id", "abc-1_2.3:4")
        .send()
        .await;
    assert_eq!(given.header("x-request-id"), Some("abc-1_2.3:4"));
    for odd in ["", "has space", "new\u{7f}line", &"x".repeat(129)] {
        let Ok(value) = http::HeaderValue::from_str(odd) else {
            continue;
        };
        let answer = doors
            .get(ENVIRONMENTS)
            .header("x-request-id", value.to_str().unwrap_or("é"))
            .send()
            .await;
        assert_eq!(answer.header("x-request-id").unwrap().len(), 36, "{odd}");
        answer.refused(401, "unauthorized");
    }
}

#[tokio::test]
async fn only_one_bearer_key_of_ours_opens_the_api() {
    let doors = Doors::open().await;
    let unknown = format!("rma_{}", "a".repeat(43));
    let anonymous = doors.get(ENVIRONMENTS).send().await;
    anonymous.refused(401, "unauthorized");
    assert_eq!(anonymous.header("www-authenticate"), Some("Bearer"));
    assert_eq!(anonymous.header("recursion-organization-id"), None);
    doors
        .get(ENVIRONMENTS)
        .bearer(&unknown)
        .send()
        .await
        .refused(401, "unauthorized");
    doors
        .get(ENVIRONMENTS)
        .header("authorization", &format!("Basic {}", doors.admin))
        .send()
        .await
        .refused(401, "unauthorized");
    doors
        .get(ENVIRONMENTS)
        .bearer(&doors.admin)
        .bearer(&doors.admin)
        .send()
        .await
        .refused(401, "unauthorized");
    doors
        .get(&format!("{ENVIRONMENTS}?api_key={}", doors.admin))
        .send()
        .await
        .refused(401, "unauthorized");
    doors
        .get(ENVIRONMENTS)
        .bearer(&doors.user)
        .send()
        .await
        .ok();
}

#[tokio::test]
async fn a_key_acts_in_its_own_organization_alone() {
    let doors = Doors::open().await;
    let call = |value: &str| {
        doors
            .get(ENVIRONMENTS)
            .bearer(&doors.user)
            .header("x-organization-id", value)
            .send()
    };
    let own = doors.app.organization.to_string();
    for fine in ["default", own.as_str()] {
        let answer = call(fine).await;
        answer.ok();
        assert_eq!(
            answer.header("recursion-organization-id"),
            Some(own.as_str())
        );
    }
    for other in ["org_019a0000000070008000000000000001", "somebody"] {
        call(other).await.refused(403, "forbidden");
    }
    call("").await.refused(400, "invalid_request");
    let tenant = doors
        .get(ENVIRONMENTS)
        .bearer(&doors.user)
        .header("x-tenant-id", "t1")
        .send()
        .await;
    tenant.refused(403, "forbidden");
}

#[tokio::test]
async fn a_keys_role_is_the_lower_of_its_own_and_its_members() {
    let doors = Doors::open().await;
    let weak = key(&doors.app, ADMIN, Role::User).await;
    doors
        .post(ENVIRONMENTS)
        .bearer(&weak)
        .json(&json!({"name": "x"}))
        .send()
        .await
        .refused(403, "forbidden");
}

#[tokio::test]
async fn bodies_are_json_and_not_over_one_mebibyte() {
    let doors = Doors::open().await;
    let call = || doors.post(ENVIRONMENTS).bearer(&doors.developer);
    call()
        .raw("application/json", "{\"name\":")
        .send()
        .await
        .refused(400, "invalid_json");
    call()
        .raw("application/json", "")
        .send()
        .await
        .refused(400, "invalid_json");
    call()
        .raw("application/json", vec![b'"', 0xff, b'"'])
        .send()
        .await
        .refused(400, "invalid_json");
    for shape in ["[]", "null", "3", "\"x\""] {
        call()
            .raw("application/json", shape)
            .send()
            .await
            .refused(400, "invalid_request");
    }
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
    ] {
        call()
            .raw(kind, "{}")
            .send()
            .await
            .refused(415, "unsupported_media_type");
    }
    call()
        .raw("application/json; charset=utf-8", r#"{"name":"x"}"#)
        .send()
        .await
        .ok();

    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(1024 * 1024));
    call()
        .raw("application/json", large.clone())
        .send()
        .await
        .refused(413, "payload_too_large");
    call()
        .header("content-length", &large.len().to_string())
        .raw("application/json", large.clone())
        .send()
        .await
        .refused(413, "payload_too_large");
    // The console's functions are bound too.
    let posted = doors
        .post("/fn/sign-in")
        .header("content-length", &large.len().to_string())
        .form(&[("email", &large), ("password", "x")])
        .send()
        .await;
    posted.refused(413, "payload_too_large");
}

#[tokio::test]
async fn unknown_paths_and_methods_answer_in_the_apis_shape() {
    let doors = Doors::open().await;
    for path in [
        "/managed-agents",
        "/managed-agents/v1",
        "/managed-agents/v2/environments",
        "/managed-agents/v1/environments/",
        "/groundwork/v1/nothing",
        "/fn/nothing",
    ] {
        doors
            .get(path)
            .bearer(&doors.user)
            .send()
            .await
            .refused(404, "not_found");
    }
    let wrong = doors
        .call(Method::PUT, ENVIRONMENTS)
        .bearer(&doors.admin)
        .send()
        .await;
    wrong.refused(405, "method_not_allowed");
    let mut allowed: Vec<&str> = wrong
        .header("allow")
        .unwrap()
        .split(',')
        .map(str::trim)
        .collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    let head = doors
        .call(Method::HEAD, ENVIRONMENTS)
        .bearer(&doors.user)
        .send()
        .await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    let probe = doors.post("/healthz").send().await;
    probe.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn requests_are_counted_by_key_and_by_address() {
    let doors = Doors::with(Setting {
        key_rate: Rate::new(1, 3),
        address_rate: Rate::new(1, 5),
        ..Setting::default()
    })
    .await;
    let call = || doors.get(ENVIRONMENTS).bearer(&doors.user).send();
    for _ in 0..3 {
        call().await.ok();
    }
    let refused = call().await;
    let details = refused.refused(429, "rate_limit_exceeded");
    assert_eq!(details["retryable"], true);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Another key of the same address has one left: four of five are used.
    doors
        .get(ENVIRONMENTS)
        .bearer(&doors.admin)
        .send()
        .await
        .ok();
    doors
        .get(ENVIRONMENTS)
        .bearer(&doors.admin)
        .send()
        .await
        .refused(429, "rate_limit_exceeded");
    let page = doors.get("/sign-in").send().await;
    assert_eq!(page.status, 429, "the console is counted too");
    doors.app.clock.advance(Duration::from_secs(1));
    call().await.ok();
    doors.get("/healthz").send().await.ok();
}

#[tokio::test]
async fn a_failure_of_ours_says_nothing_about_itself() {
    let doors = Doors::open().await;
    doors.app.store.fail_once(Moment::Before("environments"));
    let failed = doors.get(ENVIRONMENTS).bearer(&doors.user).send().await;
    failed.refused(503, "service_unavailable");
    assert!(failed.header("retry-after").is_some());
    doors.app.store.die_once(Moment::Before("environments"));
    let panicked = doors.get(ENVIRONMENTS).bearer(&doors.user).send().await;
    panicked.refused(500, "internal_error");
    assert!(!panicked.text.contains("killed"), "{}", panicked.text);
    doors
        .get(ENVIRONMENTS)
        .bearer(&doors.user)
        .send()
        .await
        .ok();
}

#[tokio::test]
async fn pages_carry_a_strict_policy_with_a_fresh_nonce() {
    let doors = Doors::open().await;
    let policy = |answer: &crate::support::Answer| {
        answer.header("content-security-policy").unwrap().to_owned()
    };
    let first = doors.get("/sign-in").send().await;
    let second = doors.get("/sign-in").send().await;
    let found = policy(&first);
    assert_ne!(found, policy(&second));
    assert!(
        !found.contains("unsafe-inline") && !found.contains("'unsafe-eval'"),
        "{found}"
    );
    assert!(
        found.contains("frame-ancestors 'none'") && found.contains("'wasm-unsafe-eval'"),
        "{found}"
    );
    let nonce = found
        .split("'nonce-")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap();
    assert!(first.text.contains("<script"), "the page loads its script");
    for script in first.text.split("<script").skip(1) {
        assert!(
            script.split('>').next().unwrap().contains(nonce),
            "every script carries the nonce: {script:.80}"
        );
    }
    assert!(
        !first.text.contains(" style=\"") && !first.text.contains(" onclick="),
        "no inline styles or handlers"
    );
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(first.header(name), Some(value));
    }
    assert_eq!(
        first.header("strict-transport-security"),
        None,
        "not without TLS"
    );
}

#[tokio::test]
async fn behind_a_tls_proxy_browsers_are_told_to_stay_with_tls() {
    let doors = Doors::with(Setting {
        origins: Origins {
            trusted_proxies: Arc::from(["192.0.2.0/24".parse().unwrap()]),
            ..Origins::default()
        },
        ..Setting::default()
    })
    .await;
    let answer = doors
        .get("/healthz")
        .header("x-forwarded-proto", "https")
        .send()
        .await;
    assert!(answer.header("strict-transport-security").is_some());
}

#[tokio::test]
async fn hashed_files_are_kept_by_browsers_and_served_as_compressed_at_build_time() {
    let doors = Doors::open().await;
    let path = "/pkg/groundwork.0123456789abcdefABCDEF.js";
    let plain = doors.get(path).send().await;
    assert_eq!(plain.text, "1");
    assert_eq!(
        plain.header("cache-control"),
        Some("public, max-age=31536000, immutable")
    );
    let packed = doors.get(path).header("accept-encoding", "br").send().await;
    assert_eq!(
        (packed.text.as_str(), packed.header("content-encoding")),
        ("br", Some("br"))
    );
    let icon = doors.get("/favicon.svg").send().await;
    assert_eq!(icon.header("cache-control"), Some("public, max-age=300"));
    let missing = doors
        .get("/pkg/groundwork.0000000000000000000000.js")
        .send()
        .await;
    assert_eq!(
        (missing.status.as_u16(), missing.header("cache-control")),
        (404, Some("no-store"))
    );
    for outside in [
        "/pkg/../Cargo.toml",
        "/pkg/%2e%2e/favicon.svg",
        "/pkg/..%2f..%2fetc/passwd",
    ] {
        let answer = doors.get(outside).send().await;
        assert_eq!(answer.status, 404, "{outside}");
    }
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    let doors = Doors::open().await;
    doors.get("/healthz").send().await.ok();
    let before = doors.get("/readyz").send().await;
    assert_eq!(before.status, 503);
    let body = before.json();
    assert_eq!(
        (&body["database"], &body["worker"]),
        (&json!(true), &json!(false))
    );
    assert!(body["missing"][0].as_str().unwrap().contains("--no-worker"));
    let _worker = doors.app.worker("w").await;
    let after = doors.get("/readyz").send().await;
    assert_eq!(after.ok()["ready"], true);
}

#[tokio::test]
async fn a_database_that_hangs_is_not_ready_rather_than_silent() {
    let doors = Doors::open().await;
    doors
        .app
        .store
        .once(Moment::Before("ping"), std::future::pending);
    let answer = doors.get("/readyz").send().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["database"], false);
}

#[tokio::test]
async fn metrics_count_answers() {
    let doors = Doors::open().await;
    doors.get("/healthz").send().await.ok();
    let metrics = doors.get("/metrics").send().await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert!(
        metrics
            .text
            .contains("groundwork_http_answers_total{status=\"2xx\"} 1\n"),
        "{}",
        metrics.text
    );
}

#[tokio::test]
async fn a_person_whose_request_is_refused_at_the_door_sees_a_page() {
    let doors = Doors::with(Setting {
        address_rate: Rate::new(1, 1),
        ..Setting::default()
    })
    .await;
    let page = || {
        doors
            .get("/environments?query=%3Cscript%3E")
            .header("accept", "text/html,*/*")
            .send()
    };
    page().await;
    let refused = page().await;
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.text.contains("<h1>Too many requests</h1>"));
    assert!(
        refused
            .text
            .contains(refused.header("x-request-id").unwrap())
    );
}
