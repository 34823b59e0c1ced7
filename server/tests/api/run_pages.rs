//! What pages say of a run without a log, and of the image that one left.

use std::time::Duration;

use control::ports::Clock as _;
use domain::setup_run::{FailureCode, HintCode, Phase};
use serde_json::Value;
use testkit::{PASSWORD, TestWorker};
use wire::worker::{Gateway as _, RunOutcome};

use crate::support::{ADMIN, DEVELOPER, Doors, USER};

async fn page(doors: &Doors, path: &str) -> String {
    page_of(doors, USER, path).await
}

async fn cookie_of(doors: &Doors, who: &str) -> String {
    let form = [("email", who), ("password", PASSWORD)];
    let signed_in = doors.post("/fn/sign-in").form(&form).send().await;
    signed_in
        .cookie()
        .unwrap_or_else(|| panic!("{signed_in:#?}"))
}

async fn page_of(doors: &Doors, who: &str, path: &str) -> String {
    let cookie = cookie_of(doors, who).await;
    let call = doors.get(path).header("accept", "text/html");
    let page = call.header("cookie", &cookie).send().await;
    assert_eq!(page.status, 200, "{page:#?}");
    page.text
}

#[tokio::test]
async fn a_run_whose_log_was_removed_says_when_and_what_is_known_of_it() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "nope").await;
    let run = app.run(environment).await;
    let worker = app.worker("w").await;
    worker.fail(worker.claim().await.held).await;
    app.clock.advance(Duration::from_secs(91 * 86_400));
    app.control.tick_retention().await.unwrap();
    let day = app.clock.now().to_string()[..10].to_owned();
    let html = page(&doors, &format!("/environments/{environment}/runs/{run}")).await;
    // Between pieces of one text.
    let html = html.replace("<!>", "");
    for text in [
        "Log removed",
        &format!("The log was removed on {day}"),
        "The setup script failed on line 1.",
        "nope is not installed",
        "Exit code 127",
        "nope: command not found",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("Queued by"));
    let list = page(&doors, &format!("/environments/{environment}")).await;
    assert!(list.contains(&format!("/environments/{environment}/runs/{run}")));
}

/// The hidden fields of the one form of a page that posts there.
fn hidden_fields(html: &str, action: &str) -> Vec<(String, String)> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let mut forms = html
        .split("<form")
        .skip(1)
        .filter(|form| attribute(form, "action").as_deref() == Some(action));
    let form = forms.next().unwrap_or_else(|| panic!("{action}: {html}"));
    assert!(forms.next().is_none(), "{action} twice: {html}");
    let (form, _) = form.split_once("</form>").unwrap();
    form.split("<input")
        .skip(1)
        .map(|tag| {
            let (tag, _) = tag.split_once('>').unwrap();
            (
                attribute(tag, "name").unwrap(),
                attribute(tag, "value").unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn allow_and_test_again_is_one_run_however_often_its_form_is_sent() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "true").await;
    let first = app.run(environment).await;
    let worker = app.worker("w").await;
    let outcome = RunOutcome {
        hint_code: Some(HintCode::EgressBlocked),
        hint_host: Some("packages.example".to_owned()),
        ..TestWorker::failed()
    };
    let held = worker.claim().await.held;
    worker.gateway.finish(held, outcome).await.unwrap();
    let path = format!("/environments/{environment}/runs/{first}");
    let html = page_of(&doors, DEVELOPER, &path).await;
    let fields = hidden_fields(&html, "/fn/allow-host");
    let mut fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let cookie = cookie_of(&doors, DEVELOPER).await;
    let send = async |fields: &[(&str, &str)]| {
        let call = doors.post("/fn/allow-host").form(fields);
        call.header("cookie", &cookie).send().await.ok()
    };
    // Both at once, as two clicks are, and once more when the run has ended.
    let (one, other) = tokio::join!(send(&fields), send(&fields));
    let started: Vec<&Value> = [&one, &other]
        .into_iter()
        .map(|answer| &answer["started"])
        .filter(|started| started.is_string())
        .collect();
    assert!(!started.is_empty(), "{one} {other}");
    let run = started[0];
    assert!(started.iter().all(|started| *started == run));
    for answer in [&one, &other] {
        let told = answer["not_tested"].to_string();
        assert!(
            answer["started"] == *run || told.contains("idempotency_in_progress"),
            "{answer}"
        );
    }
    assert_eq!(send(&fields).await["started"], *run);
    worker.pass(worker.claim().await.held).await;
    assert_eq!(send(&fields).await["started"], *run);
    let runs = async || {
        let runs = app
            .control
            .list_setup_runs(&app.admin, environment, None)
            .await;
        runs.unwrap().setup_runs.len()
    };
    assert_eq!(runs().await, 2);
    // The form's other button is another request.
    fields.push(("group", "true"));
    let group = send(&fields).await["started"].clone();
    assert!(group.is_string() && group != *run, "{group}");
    assert_eq!(send(&fields).await["started"], group);
    assert_eq!(runs().await, 3);
    // Without a key no test starts, and the host is allowed all the same.
    fields.retain(|(name, _)| !["key", "host"].contains(name));
    fields.push(("host", "keyless.example"));
    worker.pass(worker.claim().await.held).await;
    let keyless = send(&fields).await;
    assert_eq!(keyless["started"], Value::Null, "{keyless}");
    assert!(
        keyless["not_tested"]
            .to_string()
            .contains("Idempotency-Key"),
        "{keyless}"
    );
    let kept = app.control.get_environment(&app.admin, environment).await;
    assert!(
        kept.unwrap()
            .network_policy
            .to_string()
            .contains("keyless.example")
    );
    assert_eq!(runs().await, 3);
}

#[tokio::test]
async fn a_run_that_got_no_sandbox_says_why_without_a_line_of_the_script() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "true").await;
    let run = app.run(environment).await;
    let worker = app.worker("w").await;
    let outcome = RunOutcome {
        phase: Phase::Provision,
        message: "No sandbox could be started: the disk is full.".to_owned(),
        failure_code: Some(FailureCode::SandboxCapacityUnavailable),
        exit_code: None,
        failed_line: None,
        failed_command: None,
        hint_code: None,
        hint: None,
        stderr_tail: None,
        ..TestWorker::failed()
    };
    let held = worker.claim().await.held;
    worker.gateway.finish(held, outcome).await.unwrap();
    let html = page(&doors, &format!("/environments/{environment}/runs/{run}")).await;
    for text in [
        // The log begins when the run is admitted, whatever becomes of it.
        "Queued by",
        "The run failed outside of your script.",
        "No sandbox could be started: the disk is full.",
        "sandbox_capacity_unavailable",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[tokio::test]
async fn an_environments_page_tells_the_age_of_its_image_and_what_a_verdict_is_not_about() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("one", "true").await;
    let path = format!("/environments/{environment}");
    let about = "can change without making it stale";
    assert!(!page(&doors, &path).await.contains(about));
    app.run(environment).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    app.clock.advance(Duration::from_secs(3 * 86_400));
    let html = page(&doors, &path).await;
    for text in ["Prepared image", "generation 1, ", "3 d ago", about] {
        assert!(html.contains(text), "{text}");
    }
}

#[tokio::test]
async fn the_workers_page_names_what_each_holds_and_offers_to_release_it() {
    let doors = Doors::open().await;
    let app = &doors.app;
    let environment = app.environment("held by one", "true").await;
    let worker = app.worker("w").await;
    let idle = page_of(&doors, ADMIN, "/workers").await;
    assert!(!idle.contains("Release"));
    let run = app.run(environment).await;
    let held = worker.claim().await.held;
    worker.reach(held, Phase::Setup).await.unwrap();
    app.clock.advance(Duration::from_secs(12));
    let html = page_of(&doors, ADMIN, "/workers").await;
    for text in [
        "held by one",
        &format!("/environments/{environment}/runs/{run}"),
        "setup · last word 12 s ago",
        "/fn/release-run",
        "Release",
    ] {
        assert!(html.contains(text), "{text}");
    }
    // Also when its environment is gone, and over REST.
    app.control
        .delete_environment(&app.admin, environment)
        .await
        .unwrap();
    let html = page_of(&doors, ADMIN, "/workers").await;
    for text in ["(deleted environment)", "cancelling", "/fn/release-run"] {
        assert!(html.contains(text), "{text}");
    }
    let path = format!("/groundwork/v1/environments/{environment}/setup-runs/{run}/release");
    let released = doors.post(&path).bearer(&doors.admin).send().await.ok();
    assert_eq!(released["status"], "cancelled");
    assert!(!page_of(&doors, ADMIN, "/workers").await.contains("Release"));
}
