//! `/managed-agents/v1`: setup runs and their logs.

use std::time::Duration;

use domain::{ids::EnvironmentId, setup_run::Phase};
use serde_json::json;

use crate::support::{Call, Doors};

fn runs(environment: EnvironmentId) -> String {
    format!("/managed-agents/v1/environments/{environment}/setup-runs")
}

fn start<'d>(doors: &'d Doors, environment: EnvironmentId, key: &str) -> Call<'d> {
    doors
        .post(&runs(environment))
        .bearer(&doors.developer)
        .header("idempotency-key", key)
}

#[tokio::test]
async fn a_run_is_queued_driven_read_and_listed() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let queued = start(&doors, environment, "k").send().await;
    assert_eq!(queued.status, 202);
    let queued = queued.ok();
    assert_eq!(queued["status"], "queued");
    let id = queued["setup_run_id"].as_str().unwrap();
    let path = format!("{}/{id}", runs(environment));

    let worker = doors.app.worker("w").await;
    let work = worker.claim().await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    worker
        .write(work.held, work.next_seq, &["hello", "world"])
        .await
        .unwrap();
    let running = doors.get(&path).bearer(&doors.user).send().await.ok();
    assert_eq!(running["status"], "running");

    let first = doors
        .get(&format!("{path}/log?limit=1"))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(first["lines"][0]["seq"], 1);
    assert_eq!(
        first["lines"][0]["stream"], "system",
        "the first line is written when the run is admitted"
    );
    let mut texts = Vec::new();
    let mut after = 0;
    loop {
        let page = doors
            .get(&format!("{path}/log?limit=1&after={after}"))
            .bearer(&doors.user)
            .send()
            .await
            .ok();
        let lines = page["lines"].as_array().unwrap();
        after = page["next_after"].as_u64().unwrap();
        if lines.is_empty() {
            break;
        }
        texts.push(lines[0]["text"].as_str().unwrap().to_owned());
    }
    assert!(
        texts.ends_with(&["hello".to_owned(), "world".to_owned()]),
        "{texts:?}"
    );

    worker.pass(work.held).await;
    let done = doors
        .get(&format!("{path}?wait_seconds=60"))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(done["status"], "succeeded");
    let list = doors
        .get(&format!("{}?limit=50", runs(environment)))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(list["setup_runs"].as_array().unwrap().len(), 1);
    doors
        .post(&format!("{path}/cancel"))
        .bearer(&doors.developer)
        .send()
        .await
        .refused(409, "setup_run_finished");
}

#[tokio::test]
async fn an_environment_that_was_never_tested_lists_no_runs() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let list = doors
        .get(&runs(environment))
        .bearer(&doors.user)
        .send()
        .await;
    assert_eq!(list.text, r#"{"setup_runs":[]}"#);
}

#[tokio::test]
async fn a_start_needs_a_key_and_is_replayed_by_it() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let bare = doors
        .post(&runs(environment))
        .bearer(&doors.developer)
        .send()
        .await;
    assert_eq!(
        bare.refused(400, "invalid_request")["field"],
        "Idempotency-Key"
    );
    let first = start(&doors, environment, "k").send().await;
    let again = start(&doors, environment, "k").send().await;
    assert_eq!((again.status.as_u16(), &again.text), (202, &first.text));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let details = start(&doors, environment, "other")
        .send()
        .await
        .refused(409, "setup_run_in_progress");
    assert_eq!(details["setup_run_id"], first.ok()["setup_run_id"]);
}

#[tokio::test]
async fn the_fifth_manual_run_in_flight_is_refused_with_a_time_to_wait() {
    let doors = Doors::open().await;
    for n in 0..4 {
        let environment = doors.app.environment(&format!("{n}"), "echo hi\n").await;
        start(&doors, environment, &format!("k{n}"))
            .send()
            .await
            .ok();
    }
    let environment = doors.app.environment("fifth", "echo hi\n").await;
    let refused = start(&doors, environment, "k5").send().await;
    assert_eq!(
        refused.refused(429, "setup_run_limit")["in_flight"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn without_a_script_there_is_nothing_to_run() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "").await;
    start(&doors, environment, "k")
        .send()
        .await
        .refused(400, "invalid_request");
}

#[tokio::test]
async fn a_queued_run_is_cancelled_at_once() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let path = format!("{}/{run}/cancel", runs(environment));
    doors
        .post(&path)
        .bearer(&doors.user)
        .send()
        .await
        .refused(403, "forbidden");
    let cancelled = doors.post(&path).bearer(&doors.developer).send().await.ok();
    assert_eq!(cancelled["status"], "cancelled");
}

#[tokio::test]
async fn a_run_of_another_environment_is_not_found() {
    let doors = Doors::open().await;
    let one = doors.app.environment("One", "echo hi\n").await;
    let two = doors.app.environment("Two", "echo hi\n").await;
    let run = doors.app.run(one).await;
    for path in ["", "/log"] {
        doors
            .get(&format!("{}/{run}{path}", runs(two)))
            .bearer(&doors.user)
            .send()
            .await
            .refused(404, "not_found");
    }
}

#[tokio::test]
async fn calls_without_a_body_take_none_or_an_empty_object() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    start(&doors, environment, "a")
        .json(&json!({"force": true}))
        .send()
        .await
        .refused(400, "invalid_request");
    start(&doors, environment, "b")
        .raw("application/json", "{")
        .send()
        .await
        .refused(400, "invalid_json");
    start(&doors, environment, "c")
        .raw("text/plain", "x")
        .send()
        .await
        .refused(415, "unsupported_media_type");
    start(&doors, environment, "d")
        .json(&json!({}))
        .send()
        .await
        .ok();
}

#[tokio::test]
async fn parameters_out_of_range_are_named() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let (runs, run) = (runs(environment), format!("{}/{run}", runs(environment)));
    for (path, field) in [
        (format!("{runs}?limit=0"), "limit"),
        (format!("{runs}?limit=51"), "limit"),
        (format!("{runs}?limit=+5"), "limit"),
        (format!("{runs}?limit=ten"), "limit"),
        (format!("{runs}?limit="), "limit"),
        (format!("{runs}?limit=5&limit=5"), "limit"),
        (format!("{runs}?page=2"), "page"),
        (format!("{run}?wait_seconds=61"), "wait_seconds"),
        (format!("{run}?wait_seconds=-1"), "wait_seconds"),
        (format!("{run}?wait=1"), "wait"),
        (format!("{run}/log?limit=0"), "limit"),
        (format!("{run}/log?limit=2001"), "limit"),
        (format!("{run}/log?after=-1"), "after"),
        (format!("{run}/log?after=9007199254740992"), "after"),
        (format!("{run}/log?wait_seconds=99"), "wait_seconds"),
    ] {
        let details = doors
            .get(&path)
            .bearer(&doors.user)
            .send()
            .await
            .refused(400, "invalid_request");
        assert_eq!(details["field"], field, "{path}");
    }
    doors
        .get(&format!(
            "{run}/log?after=9007199254740991&limit=2000&wait_seconds=0"
        ))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
}

#[tokio::test]
async fn what_is_held_ends_at_once_when_the_server_stops() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let path = format!("{}/{run}", runs(environment));
    let (read, log) = (
        doors
            .get(&format!("{path}?wait_seconds=60"))
            .bearer(&doors.user)
            .send(),
        doors
            .get(&format!("{path}/log?after=1&wait_seconds=60"))
            .bearer(&doors.user)
            .send(),
    );
    // The clock stands still: without the stop both would wait for ever.
    let stop = async {
        tokio::task::yield_now().await;
        doors.stop.cancel();
    };
    let (read, log, ()) = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::join!(read, log, stop)
    })
    .await
    .expect("held requests end");
    assert_eq!(read.ok()["status"], "queued");
    assert_eq!(log.ok()["lines"], json!([]));
}

#[tokio::test]
async fn a_page_of_a_log_holds_500_lines_unless_asked_otherwise() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let run = doors.app.run(environment).await;
    let worker = doors.app.worker("w").await;
    let work = worker.claim().await;
    let texts: Vec<String> = (0..600).map(|n| format!("line {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    worker
        .write(work.held, work.next_seq, &texts)
        .await
        .unwrap();
    let path = format!("{}/{run}/log", runs(environment));
    let page = doors.get(&path).bearer(&doors.user).send().await.ok();
    assert_eq!(page["lines"].as_array().unwrap().len(), 500);
    assert_eq!(page["next_after"], 500);
}

#[tokio::test]
async fn a_list_of_runs_holds_50_unless_asked_otherwise() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("One", "echo hi\n").await;
    let mut last = String::new();
    for _ in 0..51 {
        let run = doors.app.run(environment).await;
        let stopped = doors
            .app
            .control
            .cancel_setup_run(&doors.app.admin, environment, run);
        stopped.await.unwrap();
        last = run.to_string();
    }
    let list = doors
        .get(&runs(environment))
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    let listed = list["setup_runs"].as_array().unwrap();
    assert_eq!(listed.len(), 50);
    assert_eq!(listed[0]["setup_run_id"], last, "newest first");
}
