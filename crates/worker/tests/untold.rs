//! What a worker tells of the hosts that a run asks for, and what it does when the control plane cannot keep what it is told.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{FakeGateway, Worker, config, plan, scripted};
use domain::setup_run::HintCode;
use execution::runtime::{EgressEvent, EgressOutcome};
use testkit::{Scenario, Step};
use tokio::time::Instant;
use wire::worker::{GatewayError, RunResult};

/// A script that asks for a host and goes on for a while.
fn asking(host: &str) -> Scenario {
    let mut scenario = Scenario::lines(&["a"], 0);
    scenario.steps = vec![
        Step::Egress(EgressEvent::new(host, 443, EgressOutcome::Denied)),
        Step::Wait(Duration::from_secs(60)),
    ];
    scenario
}

fn answered(call: &'static str, answer: GatewayError) -> Arc<FakeGateway> {
    let gateway = Arc::new(FakeGateway::default());
    gateway.state().failing.insert(call, answer);
    gateway
}

fn worker_of(gateway: Arc<FakeGateway>, scenario: Scenario) -> Worker {
    let runtime = scripted([scenario]);
    Worker::with(gateway, Arc::clone(&runtime), runtime, config("w1"))
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_too_long_is_masked_and_then_cut() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    // The cut would go through the token.
    let host = format!("{}.{token}.example", "a".repeat(230));
    let worker = Worker::start([asking(&host)]);
    let run = worker.gateway.admit(plan("curl a\n"));
    worker.outcome(run).await;
    let state = worker.gateway.state();
    let kept = &state.records[0].hosts[0].host;
    assert!(kept.len() <= 253 && !kept.contains("ghp_"), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn the_failing_lines_hosts_are_known_and_told_however_many_were_asked_for_before() {
    const BEFORE: u64 = 1_001;
    let event = |host: &str, outcome, count| {
        Step::Egress(EgressEvent {
            count,
            ..EgressEvent::new(host, 443, outcome)
        })
    };
    let denied = |host: &str, count| event(host, EgressOutcome::Denied, count);
    let mut scenario = Scenario::lines(&["a"], 6);
    scenario.steps = vec![Step::Marker(1, "crawl || true".to_owned())];
    scenario
        .steps
        .extend((0..BEFORE).map(|n| denied(&format!("n{n}.example"), 1)));
    scenario.steps.push(Step::Marker(2, "fetch".to_owned()));
    scenario.steps.push(denied("needed.example", 1));
    scenario.steps.push(denied("repeated.example", 1));
    // Neither these nor what was let through takes the place of another host of the line.
    scenario
        .steps
        .extend((2..BEFORE + 2).map(|count| denied("repeated.example", count)));
    scenario
        .steps
        .extend((0..BEFORE).map(|n| event(&format!("good{n}.example"), EgressOutcome::Allowed, 1)));
    scenario
        .steps
        .push(Step::Err(b"cannot resolve needed.example\n".to_vec()));
    scenario.end.failed_line = 2;
    let (worker, _, outcome) = Worker::one(scenario).await;
    assert_eq!(outcome.hint_code, Some(HintCode::EgressBlocked));
    assert_eq!(outcome.hint_host.as_deref(), Some("needed.example"));
    let hint = outcome.hint.unwrap();
    assert!(
        hint.contains("(repeated.example was blocked too.)"),
        "{hint}"
    );
    let state = worker.gateway.state();
    let told: Vec<_> = state.records.iter().flat_map(|told| &told.hosts).collect();
    let needed = told.iter().find(|told| told.host == "needed.example");
    assert_eq!(needed.unwrap().line, Some(2));
    let again = told.iter().filter(|told| told.count > 1).count();
    assert_eq!(again, 1_000, "what is told again is bounded");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_records_are_refused_ends_as_its_script_did() {
    let refused = GatewayError::Refused("no".to_owned());
    let worker = worker_of(answered("record", refused), asking("a.example"));
    let run = worker.gateway.admit(plan("curl a\n"));
    assert_eq!(worker.outcome(run).await.result, RunResult::Succeeded);
    assert!(worker.gateway.state().records.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_log_is_refused_is_let_go() {
    let refused = GatewayError::Refused("no".to_owned());
    let worker = worker_of(answered("append_log", refused), Scenario::passing());
    worker.gateway.admit(plan("true\n"));
    worker
        .until("it is claimed", |s| s.calls.iter().any(|c| c == "claim"))
        .await;
    let since = Instant::now();
    while worker.runtime.calls().last().map(String::as_str) != Some("destroy") {
        assert!(since.elapsed() < Duration::from_secs(40), "it never let go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(worker.runtime.living(), 0);
    // Its place is free for another.
    worker.gateway.state().failing.clear();
    let next = worker.gateway.admit(plan("true\n"));
    assert_eq!(worker.outcome(next).await.result, RunResult::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_though_what_it_tells_cannot_be_kept() {
    for call in ["record", "append_log"] {
        let away = GatewayError::Unavailable("full".to_owned());
        let worker = worker_of(answered(call, away), asking("a.example"));
        let run = worker.gateway.admit(plan("curl a\n"));
        worker
            .until("it is driven", |s| s.calls.iter().any(|c| c == "claim"))
            .await;
        // The lease is good all the while: the heartbeat is answered.
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert!(worker.gateway.state().outcomes.is_empty(), "{call}");
        worker.gateway.cancel(run);
        let asked = Instant::now();
        let outcome = worker.outcome(run).await;
        assert_eq!(outcome.result, RunResult::Cancelled, "{call}");
        assert!(asked.elapsed() < Duration::from_secs(20), "{call}");
        assert_eq!(worker.runtime.living(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_shuts_down_though_what_its_runs_tell_cannot_be_kept() {
    let away = GatewayError::Unavailable("full".to_owned());
    let worker = worker_of(answered("record", away), asking("a.example"));
    worker.gateway.admit(plan("curl a\n"));
    worker
        .until("it is driven", |s| s.calls.iter().any(|c| c == "claim"))
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (gateway, runtime) = (Arc::clone(&worker.gateway), Arc::clone(&worker.runtime));
    let asked = Instant::now();
    worker.shut_down().await;
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(gateway.state().given_back[0].reason, "worker_stopped");
    assert_eq!(runtime.living(), 0);
}
