//! `groundwork test`.

use domain::setup_run::Phase;
use nix::{sys::signal::Signal, unistd::Pid};
use testkit::{TestWorker, TestWorker as Worker};
use wire::worker::{Assignment, Gateway, RunOutcome};

use crate::place::{Place, Running};

async fn claimed(place: &Place, worker: &Worker) -> Assignment {
    place
        .app
        .eventually("the run waits", || worker.try_claim())
        .await
}

async fn finish(worker: &Worker, work: &Assignment, outcome: RunOutcome) {
    worker.gateway.finish(work.held, outcome).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_printed_as_it_comes_and_the_exit_code_is_the_scripts() {
    let place = Place::open().await;
    place.app.environment("Followed", "nope\n").await;
    let worker = place.app.worker("w").await;
    let mut running = Running::start(place.command(&["test", "Followed", "--follow"]));
    let work = claimed(&place, &worker).await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    worker
        .write(
            work.held,
            work.next_seq,
            &["\u{1b}[32mgreen\u{1b}[0m", "second"],
        )
        .await
        .unwrap();
    running.until("green\nsecond").await;
    finish(&worker, &work, TestWorker::failed()).await;
    let ran = running.end().await;
    assert_eq!(ran.code, Some(127), "{ran:#?}");
    assert!(
        !ran.out.contains('\u{1b}'),
        "colours are for terminals: {ran:#?}"
    );
    for said in [
        "Failed at line 1: nope",
        "exit code 127",
        "nope is not installed",
    ] {
        assert!(ran.err.contains(said), "{said}: {ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_goes_on_after_a_lost_connection_without_a_gap_or_a_double_line() {
    let place = Place::open().await;
    place.app.environment("Followed", "make\n").await;
    let worker = place.app.worker("w").await;
    let (url, cut) = place.fragile().await;
    let mut command = place.command(&["test", "Followed", "--follow", "--color", "always"]);
    command.env("GROUNDWORK_URL", url);
    let mut running = Running::start(command);
    let work = claimed(&place, &worker).await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    let mut seq = work.next_seq;
    for round in 0..3 {
        let texts: Vec<String> = (0..5).map(|n| format!("line {round}.{n}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        worker.write(work.held, seq, &texts).await.unwrap();
        seq += 5;
        running.until(&format!("line {round}.4")).await;
        cut.send_modify(|times| *times += 1);
        worker
            .write(work.held, seq, &[&format!("meanwhile {round}")])
            .await
            .unwrap();
        seq += 1;
    }
    finish(
        &worker,
        &work,
        RunOutcome {
            phase: Phase::Cleanup,
            ..TestWorker::passed()
        },
    )
    .await;
    let ran = running.end().await;
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.err.contains("Setup verified"), "{ran:#?}");
    let lines: Vec<&str> = ran
        .out
        .lines()
        .filter(|line| line.starts_with("line ") || line.starts_with("meanwhile "))
        .collect();
    let expected: Vec<String> = (0..3)
        .flat_map(|round| {
            (0..5)
                .map(move |n| format!("line {round}.{n}"))
                .chain([format!("meanwhile {round}")])
        })
        .collect();
    assert_eq!(lines, expected, "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_with_124_and_a_fault_of_ours_with_125() {
    let place = Place::open().await;
    place.app.environment("Followed", "sleep 1d\n").await;
    let worker = place.app.worker("w").await;
    for (exit_code, expected) in [(Some(124), 124), (None, 125)] {
        let running = Running::start(place.command(&["test", "Followed", "--follow"]));
        let work = claimed(&place, &worker).await;
        worker.reach(work.held, Phase::Setup).await.unwrap();
        finish(
            &worker,
            &work,
            RunOutcome {
                exit_code,
                ..TestWorker::failed()
            },
        )
        .await;
        let ran = running.end().await;
        assert_eq!(ran.code, Some(expected), "{ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_following_the_runs_id_is_printed_and_a_second_start_names_the_first() {
    let place = Place::open().await;
    place.app.environment("Tested", "echo hi\n").await;
    let run = place.run(&["test", "Tested"]).await.ok();
    let refused = place.run(&["test", "Tested"]).await;
    assert!(refused.err.contains(run.trim()), "{refused:#?}");
    refused.failed("in flight");
    place.app.environment("No script", "").await;
    place.run(&["test", "No script"]).await.failed("script");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_without_a_terminal_leaves_the_run_and_says_so() {
    let place = Place::open().await;
    let environment = place.app.environment("Left", "make\n").await;
    let worker = place.app.worker("w").await;
    let mut running = Running::start(place.command(&["test", "Left", "--follow"]));
    let work = claimed(&place, &worker).await;
    worker.reach(work.held, Phase::Setup).await.unwrap();
    worker
        .write(work.held, work.next_seq, &["begun"])
        .await
        .unwrap();
    running.until("begun").await;
    nix::sys::signal::kill(
        Pid::from_raw(running.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let ran = running.end().await;
    assert_eq!(ran.code, Some(130), "{ran:#?}");
    assert!(ran.err.contains("/cancel"), "{ran:#?}");
    let now = place
        .app
        .control
        .get_environment(&place.app.admin, environment)
        .await
        .unwrap();
    assert!(now.setup_verification.active_setup_run_id.is_some());
}
