//! What a worker does in each story of a run.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{FakeGateway, Worker, config, plan, scripted};
use domain::setup_run::{FailureCode, HintCode, Phase, Stream};
use execution::runtime::{EgressEvent, EgressOutcome, RuntimeError};
use testkit::{Scenario, Step};
use tokio::time::Instant;
use wire::worker::RunResult;

#[tokio::test(start_paused = true)]
async fn a_passing_script_goes_through_all_phases_and_is_saved() {
    let (worker, run, outcome) = Worker::one(Scenario::lines(&["a", "b"], 0)).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    assert_eq!(outcome.message, "Setup verified.");
    assert_eq!(outcome.phase, Phase::Cleanup);
    assert_eq!(outcome.exit_code, Some(0));
    assert_eq!(outcome.image.unwrap().size_bytes, 1_234);
    assert_eq!(outcome.compute_profile["memory_mib"], 4_096);
    assert_eq!(
        worker.gateway.state().phases,
        [Phase::Setup, Phase::Profile, Phase::Commit, Phase::Cleanup]
    );
    assert_eq!(
        worker.runtime.calls(),
        ["reclaim", "prepare", "run_script", "save_image", "destroy"]
    );
    assert_eq!(worker.runtime.living(), 0);
    let texts = worker.gateway.texts(run);
    assert!(texts[0].starts_with("The sandbox is ready"), "{texts:?}");
    assert!(texts[1].starts_with("Network: no host can be reached"));
    assert_eq!(texts[2..6], ["echo a", "a", "echo b", "b"]);
    assert_eq!(texts.last().unwrap(), "Setup verified.");
}

#[tokio::test(start_paused = true)]
async fn a_failing_step_is_named_and_nothing_is_saved() {
    let mut scenario = Scenario::lines(&["a", "b"], 1);
    scenario.steps.push(Step::Err(b"no such thing".to_vec()));
    scenario.end.failed_command = "false".to_owned();
    let (worker, run, outcome) = Worker::one(scenario).await;
    assert_eq!(outcome.result, RunResult::Failed);
    assert_eq!(outcome.message, "Line 2 failed with exit code 1.");
    assert_eq!(outcome.phase, Phase::Setup);
    assert_eq!(outcome.failed_line, Some(2));
    assert_eq!(outcome.failed_command.as_deref(), Some("false"));
    assert_eq!(outcome.stderr_tail.as_deref(), Some("no such thing"));
    assert_eq!(
        outcome.failure_code,
        Some(FailureCode::EnvironmentSetupFailed)
    );
    assert!(outcome.image.is_none());
    assert!(!worker.runtime.calls().contains(&"save_image".to_owned()));
    assert_eq!(worker.runtime.living(), 0);
    let texts = worker.gateway.texts(run);
    assert_eq!(
        texts[texts.len() - 2..],
        ["no such thing", "Line 2 failed with exit code 1."]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_with_its_likely_cause() {
    let refused = |host: &str, from: Option<&str>| {
        Step::Egress(EgressEvent {
            redirected_from: from.map(str::to_owned),
            ..EgressEvent::new(host, 443, EgressOutcome::Denied)
        })
    };
    let mut scenario = Scenario::lines(&["a"], 6);
    scenario.steps = vec![
        Step::Marker(1, "curl one || true".to_owned()),
        refused("one.example", None),
        Step::Marker(2, "curl two".to_owned()),
        refused("cdn.example", Some("two.example")),
        Step::Err(b"curl: (6) Could not resolve host\n".to_vec()),
    ];
    scenario.end.failed_line = 2;
    let (_, _, outcome) = Worker::one(scenario).await;
    assert_eq!(outcome.hint_code, Some(HintCode::EgressBlocked));
    let hint = outcome.hint.unwrap();
    assert!(
        hint.contains("cdn.example") && hint.contains("two.example"),
        "{hint}"
    );
    assert!(!hint.contains("one.example"), "{hint}");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_masked_before_anything_leaves_the_worker() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut scenario = Scenario::lines(&["a"], 1);
    scenario.steps = vec![
        Step::Marker(1, format!("curl -H {token}")),
        Step::Out(format!("using {token}\n").into_bytes()),
        Step::Err(format!("bad {token}").into_bytes()),
    ];
    scenario.end.failed_command = format!("curl -H {token}");
    let (worker, run, outcome) = Worker::one(scenario).await;
    let told = format!("{outcome:?} {:?}", worker.gateway.texts(run));
    assert!(!told.contains(&token[6..20]), "{told}");
    assert!(told.contains("***"));
}

#[tokio::test(start_paused = true)]
async fn a_script_that_the_memory_limit_ends_says_so() {
    let (_, _, outcome) = Worker::one(Scenario::out_of_memory()).await;
    assert_eq!(outcome.exit_code, Some(137));
    assert!(outcome.message.contains("4096 MiB"), "{}", outcome.message);
}

#[tokio::test(start_paused = true)]
async fn a_script_past_its_timeout_says_so() {
    let (worker, _, outcome) = Worker::one(Scenario::hanging()).await;
    assert_eq!(outcome.result, RunResult::Failed);
    assert_eq!(outcome.exit_code, Some(124));
    assert_eq!(
        outcome.message,
        "The script ran longer than 600 seconds and was ended."
    );
    assert_eq!(worker.runtime.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_is_reported_within_moments_and_only_once_its_compute_is_gone() {
    let worker = Worker::start([Scenario::hanging()]);
    let run = worker.gateway.admit(plan("sleep infinity\n"));
    worker
        .until("the script runs", |s| s.phases.contains(&Phase::Setup))
        .await;
    let asked = Instant::now();
    worker.gateway.cancel(run);
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Cancelled);
    assert!(asked.elapsed() < Duration::from_secs(2));
    let calls = worker.runtime.calls();
    assert_eq!(calls[calls.len() - 2..], ["stop", "destroy"]);
    assert_eq!(worker.runtime.living(), 0);
    assert_eq!(worker.gateway.texts(run).last().unwrap(), "Cancelled.");
}

#[tokio::test(start_paused = true)]
async fn only_a_refusal_that_the_environment_cannot_mend_says_that_there_was_no_room() {
    let capacity = RuntimeError::Capacity("the machine's disk is full".to_owned());
    let cases = [
        (
            capacity,
            FailureCode::SandboxCapacityUnavailable,
            "No sandbox could be started: the machine's disk is full.",
        ),
        (
            RuntimeError::NoImage("groundwork/runner:full".to_owned()),
            FailureCode::SandboxCapacityUnavailable,
            "The runner image groundwork/runner:full is not on this machine. Ask your operator to get it there (groundwork runner-image), then test again.",
        ),
        (
            RuntimeError::Unsupported("docker cannot run here".to_owned()),
            FailureCode::EnvironmentSetupFailed,
            "Docker cannot run here. The script was not run.",
        ),
    ];
    for (error, code, message) in cases {
        let (worker, _, outcome) = Worker::one(Scenario::unprepared(error)).await;
        assert_eq!(outcome.message, message);
        assert_eq!(outcome.failure_code, Some(code), "{message}");
        assert_eq!(outcome.phase, Phase::Provision);
        assert!(worker.runtime.calls().contains(&"destroy".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_ours_gives_the_run_back() {
    let broken = Scenario::unprepared(RuntimeError::Other("mkfs failed".to_owned()));
    for (scenario, reason) in [
        (broken, "provision_failed"),
        (Scenario::dying(), "sandbox_lost"),
    ] {
        let worker = Worker::start([scenario]);
        worker.gateway.admit(plan("true\n"));
        worker
            .until("it is given back", |s| !s.given_back.is_empty())
            .await;
        assert_eq!(worker.gateway.state().given_back[0].reason, reason);
        assert!(worker.gateway.state().outcomes.is_empty());
        assert_eq!(worker.runtime.living(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_life_is_over_is_not_tried_again() {
    let mut scenario = Scenario::dying();
    scenario.steps.push(Step::Wait(Duration::from_secs(30)));
    let worker = Worker::start([scenario]);
    let mut plan = plan("sleep 60\n");
    plan.sandbox_timeout_seconds = 30;
    let run = worker.gateway.admit(plan);
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.failure_code, Some(FailureCode::SandboxLost));
    assert!(
        outcome.message.contains("30 seconds"),
        "{}",
        outcome.message
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_saved_does_not_fail_the_script() {
    let mut scenario = Scenario::passing();
    scenario.save = Some(RuntimeError::Save {
        reason: "no_space".to_owned(),
        message: "the image store is full".to_owned(),
    });
    let (_, _, outcome) = Worker::one(scenario).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    assert!(outcome.image.is_none());
    let fault = outcome.capture_failure.unwrap();
    assert_eq!(fault.reason, "no_space");
    assert_eq!(fault.message, "The image store is full.");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_output_is_cut_and_the_verdict_stands() {
    let mut scenario = Scenario::passing();
    let chunk = "0123456789abcdef\n".repeat(4_000).into_bytes();
    scenario.steps = vec![Step::Out(chunk); 100];
    let (worker, run, outcome) = Worker::one(scenario).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    let state = worker.gateway.state();
    assert!(state.truncated);
    let bytes: usize = state.log[&run].iter().map(|l| l.text.len()).sum();
    assert!(bytes <= 4 * 1024 * 1024 + 4096, "{bytes}");
    assert_eq!(state.log[&run].last().unwrap().text, "Setup verified.");
}

#[tokio::test(start_paused = true)]
async fn while_the_control_plane_is_away_nothing_is_lost() {
    let mut scenario = Scenario::passing();
    for i in 0..500 {
        scenario
            .steps
            .push(Step::Marker(i + 1, format!("step {i}")));
        scenario
            .steps
            .push(Step::Out(format!("{i}\n").into_bytes()));
        scenario.steps.push(Step::Wait(Duration::from_millis(20)));
    }
    let worker = Worker::start([scenario]);
    let run = worker.gateway.admit(plan("true\n"));
    worker.until("it runs", |s| s.batches > 20).await;
    worker.gateway.state().down = true;
    tokio::time::sleep(Duration::from_secs(15)).await;
    worker.gateway.state().down = false;
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    let state = worker.gateway.state();
    let out: Vec<&str> = state.log[&run]
        .iter()
        .filter(|l| l.stream == Stream::Stdout)
        .map(|l| l.text.as_str())
        .collect();
    let expected: Vec<String> = (0..500).map(|i| i.to_string()).collect();
    assert_eq!(out, expected);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_not_heard_lets_go_of_its_run() {
    let worker = Worker::start([Scenario::hanging()]);
    let run = worker.gateway.admit(plan("sleep infinity\n"));
    worker
        .until("the script runs", |s| s.phases.contains(&Phase::Setup))
        .await;
    worker.gateway.state().down = true;
    let since = Instant::now();
    while worker.runtime.living() > 0 {
        assert!(since.elapsed() < Duration::from_secs(40), "it never let go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(since.elapsed() > Duration::from_secs(15));
    worker.gateway.state().down = false;
    // Once it is heard again it takes runs again.
    worker.runtime.then(Scenario::passing());
    worker.gateway.expire(run);
    worker
        .until("it is driven again", |s| {
            s.calls.iter().filter(|c| *c == "claim").count() == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn of_two_workers_the_one_that_lost_the_run_changes_nothing() {
    let mut one = config("w1");
    one.capacity = 1;
    let runtime = scripted([Scenario::hanging()]);
    let used = Arc::clone(&runtime);
    let first = Worker::with(Arc::default(), runtime, used, one);
    let run = first.gateway.admit(plan("sleep infinity\n"));
    first
        .until("the script runs", |s| s.phases.contains(&Phase::Setup))
        .await;
    // The lease ran out, without the first one's knowing.
    first.gateway.expire(run);
    let runtime = scripted([Scenario::lines(&["second"], 0)]);
    let second = Worker::with(
        Arc::clone(&first.gateway),
        Arc::clone(&runtime),
        runtime,
        config("w2"),
    );
    let outcome = second.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    let since = Instant::now();
    while first.runtime.living() > 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "it never let go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let state = first.gateway.state();
    assert_eq!(state.calls.iter().filter(|c| *c == "finish").count(), 1);
    assert!(state.given_back.is_empty());
    assert_eq!(state.outcomes[&run].result, RunResult::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gets_its_own_lost_run_anew_lets_go_of_the_earlier_attempt() {
    let worker = Worker::start([Scenario::hanging(), Scenario::lines(&["second"], 0)]);
    let run = worker.gateway.admit(plan("sleep infinity\n"));
    worker
        .until("the script runs", |s| s.phases.contains(&Phase::Setup))
        .await;
    worker.gateway.expire(run);
    assert_eq!(worker.outcome(run).await.result, RunResult::Succeeded);
    let since = Instant::now();
    while worker.runtime.living() > 0 {
        assert!(since.elapsed() < Duration::from_secs(5), "it never let go");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn shutting_down_gives_runs_back_and_claims_no_more() {
    let worker = Worker::start([Scenario::hanging()]);
    worker.gateway.admit(plan("sleep infinity\n"));
    worker
        .until("the script runs", |s| s.phases.contains(&Phase::Setup))
        .await;
    let (gateway, runtime) = (Arc::clone(&worker.gateway), Arc::clone(&worker.runtime));
    let since = Instant::now();
    worker.shut_down().await;
    assert!(since.elapsed() < Duration::from_secs(5));
    assert_eq!(gateway.state().given_back[0].reason, "worker_stopped");
    assert_eq!(runtime.living(), 0);
    gateway.admit(plan("true\n"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        gateway
            .state()
            .calls
            .iter()
            .filter(|c| *c == "claim")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_runs_are_taken_than_there_is_room_for() {
    let gateway = Arc::new(FakeGateway::default());
    let runtime = scripted([Scenario::hanging()]);
    let mut config = config("w1");
    config.capacity = 2;
    let used = Arc::clone(&runtime);
    let worker = Worker::with(gateway, runtime, used, config);
    for _ in 0..3 {
        worker.gateway.admit(plan("sleep infinity\n"));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(worker.runtime.living(), 2);
    assert_eq!(worker.gateway.state().hellos[0].capacity, 2);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_away_at_the_start_is_waited_for() {
    let gateway = Arc::new(FakeGateway::default());
    gateway.state().down = true;
    let runtime = scripted([Scenario::passing()]);
    let used = Arc::clone(&runtime);
    let worker = Worker::with(gateway, runtime, used, config("w1"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    // Leftovers go before anything else, whether or not it answers.
    assert_eq!(worker.runtime.calls(), ["reclaim"]);
    worker.gateway.state().down = false;
    let run = worker.gateway.admit(plan("true\n"));
    assert_eq!(worker.outcome(run).await.result, RunResult::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn hosts_are_reported_at_once_and_counted_at_the_end() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let event = |host: &str, outcome, count| EgressEvent {
        rule: Some(3),
        count,
        ..EgressEvent::new(host, 443, outcome)
    };
    let mut scenario = Scenario::lines(&["a"], 0);
    scenario.steps = vec![
        Step::Marker(4, "curl a".to_owned()),
        Step::Egress(event("a.example", EgressOutcome::Denied, 1)),
        Step::Egress(event(&format!("{token}.example"), EgressOutcome::Denied, 1)),
        Step::Wait(Duration::from_secs(60)),
    ];
    scenario.end.egress = vec![event("a.example", EgressOutcome::Denied, 7)];
    scenario.end.timings = vec![(4, Duration::from_millis(1_500))];
    let worker = Worker::start([scenario]);
    let run = worker.gateway.admit(plan("echo a\n"));
    worker
        .until("hosts are told", |s| !s.records.is_empty())
        .await;
    {
        let state = worker.gateway.state();
        assert!(state.outcomes.is_empty(), "the run goes on");
        let first = &state.records[0].hosts[0];
        assert_eq!(
            (first.host.as_str(), first.line, first.rule),
            ("a.example", Some(4), Some(3))
        );
        assert!(!format!("{:?}", state.records).contains(&token[6..20]));
    }
    worker.outcome(run).await;
    let state = worker.gateway.state();
    let last = state.records.last().unwrap();
    assert_eq!(last.hosts[0].count, 7);
    assert_eq!(
        (last.timings[0].line, last.timings[0].micros),
        (4, 1_500_000)
    );
}

#[tokio::test(start_paused = true)]
async fn secret_values_reach_the_sandbox_and_leave_it_in_no_form() {
    let (value, second) = ("Hush-Hush/42 ü", "line-two-of-it");
    let both = format!("{value}\n{second}");
    let base64 = "SHVzaC1IdXNoLzQyIMO8";
    let url = "Hush-Hush%2F42%20%C3%BC";
    let mut scenario = Scenario::lines(&["a"], 1);
    scenario.steps = vec![
        Step::Marker(1, format!("curl {value}")),
        Step::Out(value.as_bytes()[..5].to_vec()),
        Step::Wait(Duration::from_secs(1)),
        Step::Out(format!("{}\n{second}\n", &value[5..]).into_bytes()),
        Step::Err(format!("{url} {base64}\nbad {value}").into_bytes()),
        Step::Egress(EgressEvent::new(
            "hush-hush/42 ü.example",
            443,
            EgressOutcome::Denied,
        )),
    ];
    scenario.end.failed_command = format!("curl {value}");
    scenario.end.failed_in = Some(format!("/tmp/{value}:1"));
    scenario.end.left_behind = vec![value.to_owned()];
    scenario.end.egress = vec![EgressEvent::new(
        "hush-hush/42 ü.example",
        443,
        EgressOutcome::Denied,
    )];
    let worker = Worker::start([scenario]);
    let mut plan = plan("echo a\n");
    plan.secrets = domain::secrets::SecretVars::new([("TOKEN".to_owned(), both)].into());
    let run = worker.gateway.admit(plan);
    let outcome = worker.outcome(run).await;
    assert_eq!(
        worker.runtime.specs()[0].secrets.expose()["TOKEN"]
            .lines()
            .count(),
        2
    );
    let told = format!(
        "{outcome:?} {:?} {:?} {:?}",
        worker.gateway.texts(run),
        worker.gateway.state().records,
        worker.runtime.specs()
    );
    for form in [value, second, base64, url, "hush-hush/42", "Hush-"] {
        assert!(!told.contains(form), "{form}: {told}");
    }
    assert!(told.contains("***"));
}
