//! What pages say of a run without a log, and of the image that one left.

use std::time::Duration;

use control::ports::Clock as _;
use domain::setup_run::{FailureCode, Phase};
use testkit::{PASSWORD, TestWorker};
use wire::worker::{Gateway as _, RunOutcome};

use crate::support::{ADMIN, Doors, USER};

async fn page(doors: &Doors, path: &str) -> String {
    page_of(doors, USER, path).await
}

async fn page_of(doors: &Doors, who: &str, path: &str) -> String {
    let form = [("email", who), ("password", PASSWORD)];
    let signed_in = doors.post("/fn/sign-in").form(&form).send().await;
    let cookie = signed_in
        .cookie()
        .unwrap_or_else(|| panic!("{signed_in:#?}"));
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
