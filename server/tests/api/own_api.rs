//! `/groundwork/v1`

use std::time::Duration;

use domain::{ids::EnvironmentId, roles::Role, setup_run::Phase};
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use wire::worker::{Gateway, LogBatch};

use crate::support::Doors;

fn run_path(environment: EnvironmentId, run: impl std::fmt::Display) -> String {
    format!("/groundwork/v1/environments/{environment}/setup-runs/{run}")
}

/// Reads a stream of events to its end.
async fn events(doors: &Doors, path: &str, last: Option<&str>) -> Vec<(String, String, String)> {
    let mut call = doors.get(path).bearer(&doors.user);
    if let Some(last) = last {
        call = call.header("last-event-id", last);
    }
    let response = call.open().await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(
        response.headers().get("content-encoding").is_none(),
        "compression would hold events back"
    );
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.split("\n\n")
        .filter(|event| event.contains("event:"))
        .map(|event| {
            let field = |name: &str| {
                event
                    .lines()
                    .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                    .unwrap_or_default()
                    .to_owned()
            };
            (field("event"), field("id"), field("data"))
        })
        .collect()
}

#[tokio::test]
async fn a_log_streams_lines_status_and_an_end_and_goes_on_where_it_was() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    let work = worker.claim().await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    worker
        .write(work.held, work.next_seq, &["one", "two", "three"])
        .await
        .unwrap();
    worker.pass(work.held).await;

    let path = format!("{}/log/stream", run_path(environment, run));
    let all = events(&doors, &path, None).await;
    let lines: Vec<u64> = all
        .iter()
        .filter(|e| e.0 == "line")
        .map(|e| e.1.parse().unwrap())
        .collect();
    assert_eq!(
        lines,
        (1..=lines.len() as u64).collect::<Vec<_>>(),
        "without gaps"
    );
    assert!(
        all.iter()
            .any(|e| e.0 == "line" && e.2.contains("\"text\":\"two\""))
    );
    let status = all.iter().rfind(|e| e.0 == "status").unwrap();
    assert!(status.2.contains("\"status\":\"succeeded\""), "{status:?}");
    let end = all.last().unwrap();
    assert_eq!(end.0, "end");
    assert_eq!(end.2, format!("{{\"next_after\":{}}}", lines.len()));

    let rest = events(&doors, &format!("{path}?after=1"), Some("3")).await;
    let rest: Vec<String> = rest
        .into_iter()
        .filter(|e| e.0 == "line")
        .map(|e| e.1)
        .collect();
    assert_eq!(
        rest.first().map(String::as_str),
        Some("4"),
        "Last-Event-ID wins over after"
    );
    assert_eq!(rest.len(), lines.len() - 3);

    doors
        .get(&format!("{path}?after=x"))
        .bearer(&doors.user)
        .send()
        .await
        .refused(400, "invalid_request");
    doors
        .get(&path)
        .bearer(&doors.user)
        .header("last-event-id", "x")
        .send()
        .await
        .refused(400, "invalid_request");
}

#[tokio::test]
async fn a_stream_of_a_removed_log_says_so_and_when_once() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let path = format!("{}/log/stream", run_path(environment, run));
    let whole = events(&doors, &path, None).await;
    let last = whole.iter().filter(|e| e.0 == "line").count();
    doors.app.clock.advance(Duration::from_secs(91 * 86_400));
    let now = control::ports::Clock::now(&*doors.app.clock);
    doors.app.control.tick_retention().await.unwrap();
    // Whatever of the log the reader had.
    for (after, seen) in [(0, None), (1, None), (0, Some(format!("{last}-0000000f")))] {
        let told = events(&doors, &format!("{path}?after={after}"), seen.as_deref()).await;
        let names: Vec<&str> = told.iter().map(|event| event.0.as_str()).collect();
        assert_eq!(names, ["status", "line", "end"], "{after} {seen:?}");
        let note: serde_json::Value = serde_json::from_str(&told[1].2).unwrap();
        assert_eq!(note["stream"], "system");
        assert_eq!(note["text"], format!("The log was removed on {now}."));
        assert_eq!(told[1].1, (last + 1).to_string());
        assert_eq!(told[2].2, format!("{{\"next_after\":{}}}", last + 1));
    }
    let rest = events(&doors, &path, Some(&(last + 1).to_string())).await;
    assert!(rest.iter().all(|event| event.0 != "line"), "{rest:?}");
}

/// The next piece of a stream as text.
async fn piece(body: &mut axum::body::Body) -> String {
    let frame = body.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_stream_without_news_carries_a_comment_every_ten_seconds() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let path = format!("{}/log/stream", run_path(environment, run));
    let response = doors.get(&path).bearer(&doors.user).open().await;
    let mut body = response.into_body();
    while !piece(&mut body).await.contains("event: line") {}
    // From here on time passes only while nothing else happens.
    tokio::time::pause();
    let mut quiet = tokio::time::Instant::now();
    for number in 0..4 {
        let comment = piece(&mut body).await;
        assert!(comment.starts_with(':'), "{comment:?}");
        let seconds = quiet.elapsed().as_secs_f64();
        // The first silence began before time stood still: the machine may have halted in between.
        let least = if number == 0 { 0.0 } else { 9.0 };
        assert!((least..=10.1).contains(&seconds), "{seconds}");
        quiet = tokio::time::Instant::now();
    }
}

#[tokio::test]
async fn who_follows_a_log_hears_at_once_that_it_was_cut() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    let work = worker.claim().await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    let path = format!("{}/log/stream", run_path(environment, run));
    let response = doors.get(&path).bearer(&doors.user).open().await;
    let mut body = response.into_body();
    let mut told = String::new();
    while !told.contains("\"status\":\"running\"") {
        told = piece(&mut body).await;
    }
    assert!(!told.contains("\"log_truncated\":true"), "{told}");
    let cut = LogBatch {
        number: work.next_seq,
        lines: vec![worker.line(work.next_seq, "cut here")],
        truncated: true,
        open: false,
    };
    worker.gateway.append_log(work.held, cut).await.unwrap();
    let heard = async {
        while !(told.contains("event: status") && told.contains("\"log_truncated\":true")) {
            told = piece(&mut body).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard)
        .await
        .expect("it is told while the run goes on");
}

#[tokio::test]
async fn a_stream_of_a_running_log_ends_when_the_server_stops() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let path = format!("{}/log/stream", run_path(environment, run));
    let response = doors.get(&path).bearer(&doors.user).open().await;
    doors.stop.cancel();
    tokio::time::timeout(Duration::from_secs(60), response.into_body().collect())
        .await
        .expect("the stream ends")
        .unwrap();
}

#[tokio::test]
async fn a_log_is_downloaded_as_text() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    let work = worker.claim().await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    worker
        .write(work.held, work.next_seq, &["one", "two"])
        .await
        .unwrap();
    let answer = doors
        .get(&format!("{}/log.txt", run_path(environment, run)))
        .bearer(&doors.user)
        .send()
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(
        answer
            .header("content-disposition")
            .unwrap()
            .contains(&run.to_string())
    );
    assert!(
        answer.text.contains("one\n") && answer.text.contains("two\n"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn an_edit_shows_in_staleness_and_history_and_can_be_put_back() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    let path = format!("/groundwork/v1/environments/{environment}");
    let stale = || async {
        doors
            .get(&format!("{path}/staleness"))
            .bearer(&doors.user)
            .send()
            .await
            .ok()
    };
    assert_eq!(stale().await["stale"], false);
    doors
        .call(
            Method::PATCH,
            &format!("/managed-agents/v1/environments/{environment}"),
        )
        .bearer(&doors.developer)
        .json(&json!({"setup": {"script": "echo ho\n"}}))
        .send()
        .await
        .ok();
    let found = stale().await;
    assert_eq!(
        (&found["stale"], &found["fields"][0]["field"]),
        (&json!(true), &json!("setup.script"))
    );
    let history = doors
        .get(&format!("{path}/history"))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2);

    let restore = format!("{path}/history/1/restore");
    doors
        .post(&restore)
        .bearer(&doors.user)
        .send()
        .await
        .refused(403, "forbidden");
    doors
        .post(&format!("{path}/history/0/restore"))
        .bearer(&doors.developer)
        .send()
        .await
        .refused(400, "invalid_request");
    doors
        .post(&format!("{path}/history/99/restore"))
        .bearer(&doors.developer)
        .send()
        .await
        .refused(404, "not_found");
    doors
        .post(&restore)
        .bearer(&doors.developer)
        .send()
        .await
        .ok();
    assert_eq!(
        stale().await["stale"],
        false,
        "undoing an edit makes the verdict current again"
    );
}

#[tokio::test]
async fn environments_are_searched_page_by_page() {
    let doors = Doors::open().await;
    for n in 0..5 {
        doors.app.environment(&format!("Web {n}"), "").await;
    }
    doors.app.environment("Data", "echo hi\n").await;
    let search = |query: &str| {
        let path = format!("/groundwork/v1/environments{query}");
        let doors = &doors;
        async move { doors.get(&path).bearer(&doors.user).send().await }
    };
    let names = |body: &serde_json::Value| -> Vec<String> {
        body["environments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = search(&format!("?query=wEb&limit=2{cursor}")).await.ok();
        seen.extend(names(&page));
        match page.get("next_cursor") {
            Some(next) => cursor = format!("&cursor={}", next.as_str().unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, ["Web 4", "Web 3", "Web 2", "Web 1", "Web 0"]);
    assert_eq!(names(&search("?status=never").await.ok()), ["Data"]);
    assert_eq!(names(&search("?status=stale").await.ok()), [""; 0]);
    assert_eq!(names(&search("").await.ok()).len(), 6);
    for (query, field) in [
        ("?status=fine", "status"),
        ("?limit=0", "limit"),
        ("?limit=201", "limit"),
        ("?cursor=x", "cursor"),
        ("?name=x", "name"),
    ] {
        let details = search(query).await.refused(400, "invalid_request");
        assert_eq!(details["field"], field, "{query}");
    }
}

#[tokio::test]
async fn administration_is_for_admins() {
    let doors = Doors::open().await;
    for path in ["members", "workers", "audit-events", "api-keys?all=true"] {
        let path = format!("/groundwork/v1/{path}");
        for role in [Role::User, Role::Developer] {
            doors
                .get(&path)
                .bearer(doors.key_of(role))
                .send()
                .await
                .refused(403, "forbidden");
        }
        let body = doors.get(&path).bearer(&doors.admin).send().await.ok();
        assert!(body["items"].is_array(), "{path}: {body}");
    }
    doors
        .get("/groundwork/v1/audit-events?before=x")
        .bearer(&doors.admin)
        .send()
        .await
        .refused(400, "invalid_request");
    doors
        .get("/groundwork/v1/api-keys?all=1")
        .bearer(&doors.admin)
        .send()
        .await
        .refused(400, "invalid_request");
}

#[tokio::test]
async fn a_key_is_made_shown_once_used_and_revoked() {
    let doors = Doors::open().await;
    let make = |role: &str| {
        doors
            .post("/groundwork/v1/api-keys")
            .bearer(&doors.developer)
            .json(&json!({"name": "ci", "role": role, "expires_in_days": 30}))
            .send()
    };
    let higher = make("admin").await.refused(400, "invalid_request");
    assert_eq!(higher["field"], "role", "at most one's own");
    let made = make("user").await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    let secret = made["secret"].as_str().unwrap();
    let id = made["api_key_id"].as_str().unwrap();
    let list = doors
        .get("/groundwork/v1/api-keys")
        .bearer(secret)
        .send()
        .await;
    assert!(!list.text.contains(secret), "a secret is shown once");
    assert!(list.text.contains(id));
    doors
        .post("/groundwork/v1/api-keys")
        .bearer(secret)
        .json(&json!({"name": "x", "role": "user", "extra": 1}))
        .send()
        .await
        .refused(400, "invalid_request");
    let gone = doors
        .call(Method::DELETE, &format!("/groundwork/v1/api-keys/{id}"))
        .bearer(&doors.developer)
        .send()
        .await;
    assert_eq!(gone.ok(), json!({"deleted": true}));
    doors
        .get("/groundwork/v1/api-keys")
        .bearer(secret)
        .send()
        .await
        .refused(401, "unauthorized");
}
