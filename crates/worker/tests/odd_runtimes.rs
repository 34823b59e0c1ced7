//! What a worker does when its runtime misbehaves.

#![allow(clippy::unwrap_used)]

mod common;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use common::{State, Worker, config, plan, scripted};
use domain::{
    ids::SandboxId,
    mounts::Mount,
    process::{Command, CommandEnd, Input, Output, Sample},
    setup_run::{FailureCode, Phase},
};
use execution::{
    fetch::FetchedFile,
    runtime::{
        Check, Event, Leftover, MountSource, Runtime, RuntimeError, SandboxMount, SandboxSpec,
        SavedLayer, ScriptEnd, ScriptSpec, Tunnel,
    },
};
use testkit::{Scenario, ScriptedRuntime};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use wire::{
    session_host::{HostError, Presence, SessionHost, SessionPlan},
    worker::{Plan, RunResult},
};
use worker::{Sessions, SessionsConfig};

/// A runtime that misbehaves in one way.
struct Odd {
    inner: Arc<ScriptedRuntime>,
    way: Way,
}

enum Way {
    /// Making a sandbox takes so long.
    Slow(Duration),
    /// A file to mount takes so long, and making a sandbox so long after it.
    SlowFiles(Duration, Duration),
    /// Running a script panics.
    Panics,
    /// A file to mount comes, or the runtime says why not; `None`: neither.
    Fetches(Option<Result<u64, RuntimeError>>),
    /// Saving takes until the sandbox is stopped, and then says that it is lost.
    SavesUntilStopped(Notify),
    /// The sandbox dies while it is saved.
    DiesWhileSaved,
}

#[async_trait]
impl Runtime for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }
    async fn check(&self) -> Vec<Check> {
        Vec::new()
    }
    async fn runner_image_digest(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        self.inner.runner_image_digest(reference).await
    }
    async fn fetch(&self, source: &str) -> Result<FetchedFile, RuntimeError> {
        match &self.way {
            Way::Fetches(Some(come)) => come
                .clone()
                .map(|size| FetchedFile::borrowed("/fetched/1".into(), size, "ab12".into())),
            Way::Fetches(None) => std::future::pending().await,
            Way::SlowFiles(time, _) => {
                tokio::time::sleep(*time).await;
                Ok(FetchedFile::borrowed("/fetched/1".into(), 7, "ab12".into()))
            }
            _ => self.inner.fetch(source).await,
        }
    }
    async fn prepare(&self, spec: &SandboxSpec) -> Result<(), RuntimeError> {
        if let Way::Slow(time) | Way::SlowFiles(_, time) = self.way {
            tokio::time::sleep(time).await;
        }
        self.inner.prepare(spec).await
    }
    async fn run_script(
        &self,
        id: SandboxId,
        script: &ScriptSpec,
        events: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError> {
        assert!(!matches!(self.way, Way::Panics), "as asked for");
        self.inner.run_script(id, script, events).await
    }
    async fn stop(&self, id: SandboxId) -> Result<(), RuntimeError> {
        if let Way::SavesUntilStopped(stopped) = &self.way {
            stopped.notify_one();
        }
        self.inner.stop(id).await
    }
    async fn save_image(&self, id: SandboxId) -> Result<SavedLayer, RuntimeError> {
        let lost = |why: &str| Err(RuntimeError::Lost(why.to_owned()));
        match &self.way {
            Way::SavesUntilStopped(stopped) => {
                stopped.notified().await;
                lost("it has been stopped")
            }
            Way::DiesWhileSaved => lost("the process that held it ended"),
            _ => self.inner.save_image(id).await,
        }
    }
    async fn exec(
        &self,
        id: SandboxId,
        command: &Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, RuntimeError> {
        self.inner.exec(id, command, input, output).await
    }
    async fn sample(&self, id: SandboxId) -> Result<Sample, RuntimeError> {
        self.inner.sample(id).await
    }
    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, RuntimeError> {
        self.inner.connect(id, port).await
    }
    async fn suspend(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.inner.suspend(id).await
    }
    async fn is_running(&self, id: SandboxId) -> Result<bool, RuntimeError> {
        self.inner.is_running(id).await
    }
    async fn suspended(&self) -> Result<Vec<SandboxId>, RuntimeError> {
        self.inner.suspended().await
    }
    async fn destroy(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.inner.destroy(id).await
    }
    async fn leftovers(&self) -> Result<Vec<Leftover>, RuntimeError> {
        self.inner.leftovers().await
    }
    async fn reclaim(&self) -> Result<Vec<Leftover>, RuntimeError> {
        self.inner.reclaim().await
    }
    fn state_dir(&self) -> PathBuf {
        self.inner.state_dir()
    }
}

fn odd(way: Way) -> Worker {
    let inner = scripted([Scenario::passing()]);
    let runtime = Arc::new(Odd {
        inner: Arc::clone(&inner),
        way,
    });
    Worker::with(Arc::default(), inner, runtime, config("w1"))
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_takes_too_long_fails_the_run() {
    let worker = odd(Way::Slow(Duration::from_secs(600)));
    let run = worker.gateway.admit(plan("true\n"));
    let outcome = worker.outcome(run).await;
    assert_eq!(
        outcome.failure_code,
        Some(FailureCode::SandboxProvisionTimeout)
    );
    assert_eq!(
        outcome.message,
        "The sandbox was not ready within 120 seconds."
    );
    assert!(worker.runtime.calls().contains(&"destroy".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_the_sandbox_is_made_waits_for_it_and_removes_it() {
    let worker = odd(Way::Slow(Duration::from_secs(10)));
    let run = worker.gateway.admit(plan("true\n"));
    worker
        .until("it is claimed", |s| s.calls.contains(&"claim".to_owned()))
        .await;
    worker.gateway.cancel(run);
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Cancelled);
    assert_eq!(outcome.phase, Phase::Provision);
    assert_eq!(worker.runtime.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_driving_releases_compute_and_gives_the_run_back() {
    let worker = odd(Way::Panics);
    worker.gateway.admit(plan("true\n"));
    worker
        .until("it is given back", |s| !s.given_back.is_empty())
        .await;
    assert_eq!(worker.gateway.state().given_back[0].reason, "worker_fault");
    assert_eq!(worker.runtime.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_the_image_is_saved_breaks_the_save_off() {
    let worker = odd(Way::SavesUntilStopped(Notify::new()));
    let run = worker.gateway.admit(plan("true\n"));
    worker
        .until("it is saved", |s| s.phases.contains(&Phase::Commit))
        .await;
    let asked = Instant::now();
    worker.gateway.cancel(run);
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Cancelled);
    assert_eq!(outcome.phase, Phase::Commit);
    assert!(outcome.capture_failure.is_none(), "{outcome:?}");
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(worker.runtime.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_dies_while_it_is_saved_gives_the_run_back() {
    let worker = odd(Way::DiesWhileSaved);
    worker.gateway.admit(plan("true\n"));
    worker
        .until("it is given back", |s| !s.given_back.is_empty())
        .await;
    let state = worker.gateway.state();
    assert!(state.outcomes.is_empty(), "{:?}", state.outcomes);
    assert_eq!(state.given_back[0].reason, "sandbox_lost");
    assert_eq!(
        state.given_back[0].message,
        "The sandbox was lost: the process that held it ended."
    );
    assert_eq!(worker.runtime.living(), 0);
}

/// A plan with a volume and a file.
fn mounting() -> Plan {
    let mount = |source: &str, path: &str| Mount {
        source: source.to_owned(),
        mount_path: path.to_owned(),
    };
    Plan {
        mounts: vec![
            mount("volume:data", "/workspace/data"),
            mount("https://example.com/a?sig=token", "/mnt/a"),
        ],
        ..plan("true\n")
    }
}

#[tokio::test(start_paused = true)]
async fn files_are_fetched_before_the_sandbox_is_made_and_the_log_says_so() {
    let worker = odd(Way::Fetches(Some(Ok(7))));
    let run = worker.gateway.admit(mounting());
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Succeeded);
    let texts = worker.gateway.texts(run);
    let fetched = texts
        .iter()
        .position(|text| text.starts_with("Fetched "))
        .unwrap();
    assert_eq!(
        texts[fetched],
        "Fetched https://example.com/a?… for /mnt/a: 7 bytes, sha256 ab12."
    );
    assert!(texts.iter().all(|text| !text.contains("token")));
    let mounts = worker.runtime.specs()[0].mounts.clone();
    let mounted = |source, path: &str| SandboxMount {
        source,
        path: path.to_owned(),
    };
    assert_eq!(
        mounts,
        [
            mounted(MountSource::Volume("data".into()), "/workspace/data"),
            mounted(
                MountSource::File {
                    at: "/fetched/1".into(),
                    from: "https://example.com/a?…".into(),
                },
                "/mnt/a"
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_does_not_come_fails_the_run_before_a_sandbox_is_made() {
    let refused = RuntimeError::Mount("The file x could not be fetched: it is gone.".into());
    for (come, code, message) in [
        (
            Some(Err(refused)),
            FailureCode::EnvironmentSetupFailed,
            "The file x could not be fetched: it is gone. The script was not run.",
        ),
        (
            None,
            FailureCode::EnvironmentSetupFailed,
            "The files that the environment mounts could not be fetched within 90 seconds. Mount fewer or smaller ones, or fetch them in the setup script. The script was not run.",
        ),
        (
            Some(Err(RuntimeError::Capacity("the disk is full".into()))),
            FailureCode::SandboxCapacityUnavailable,
            "No sandbox could be started: the disk is full.",
        ),
    ] {
        let worker = odd(Way::Fetches(come));
        let run = worker.gateway.admit(mounting());
        let outcome = worker.outcome(run).await;
        assert_eq!(outcome.message, message);
        assert_eq!(outcome.failure_code, Some(code));
        assert_eq!(outcome.phase, Phase::Provision);
        assert!(!worker.runtime.calls().contains(&"prepare".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_a_file_is_fetched_waits_for_nothing() {
    let worker = odd(Way::Fetches(None));
    let run = worker.gateway.admit(mounting());
    worker
        .until("it is claimed", |s| s.calls.contains(&"claim".to_owned()))
        .await;
    worker.gateway.cancel(run);
    let outcome = worker.outcome(run).await;
    assert_eq!(outcome.result, RunResult::Cancelled);
    assert!(!worker.runtime.calls().contains(&"prepare".to_owned()));
}

/// A session's start with two mounts: what is told, after how many seconds, and that nothing of it stays.
async fn session_refused(way: Way) -> (HostError, u64) {
    let inner = scripted([Scenario::passing()]);
    let runtime = Arc::new(Odd {
        inner: Arc::clone(&inner),
        way,
    });
    let time = Arc::new(common::TokioTime::default());
    let config = SessionsConfig {
        capacity: 1,
        ..SessionsConfig::new("w1")
    };
    let host = Sessions::new(runtime, time, config);
    let run = mounting();
    let id = domain::ids::Id::from_uuid(uuid::Uuid::from_u128(1));
    let plan = SessionPlan {
        sandbox_id: id,
        runner_image: run.runner_image,
        layers: Vec::new(),
        base_digest: None,
        cpu_milli: run.cpu_milli,
        memory_mib: run.memory_mib,
        disk_gi: run.disk_gi,
        sandbox_timeout_seconds: 0,
        env_vars: run.env_vars,
        secrets: run.secrets,
        network_policy: run.network_policy,
        privileged: false,
        mounts: run.mounts,
    };
    let begun = Instant::now();
    let refused = host.start(plan).await.unwrap_err();
    let took = begun.elapsed().as_secs();
    assert_eq!(host.presence(id).await.unwrap(), Presence::Absent);
    assert_eq!(inner.living(), 0);
    (refused, took)
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_files_come_too_slowly_is_refused_before_the_control_plane_gives_up() {
    const CONTROL_PLANE_WAITS: u64 = 120;
    for (way, words) in [
        (
            Way::Fetches(None),
            "could not be fetched within 90 seconds. Mount fewer or smaller ones",
        ),
        (
            Way::SlowFiles(Duration::from_secs(85), Duration::from_secs(60)),
            "85 of them went by while the files that the environment mounts were fetched",
        ),
        (
            Way::Fetches(Some(Err(RuntimeError::Mount(
                "The file x could not be fetched: it redirects more than 5 times.".into(),
            )))),
            "redirects more than 5 times",
        ),
    ] {
        let (refused, took) = session_refused(way).await;
        assert!(
            matches!(&refused, HostError::Unsupported(text) if text.contains(words)),
            "{refused:?}"
        );
        assert!(took < CONTROL_PLANE_WAITS, "{took} s");
    }
    let slow = Way::SlowFiles(Duration::ZERO, Duration::from_secs(600));
    let (refused, took) = session_refused(slow).await;
    assert!(matches!(refused, HostError::Other(_)), "{refused:?}");
    assert!(took < CONTROL_PLANE_WAITS, "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_runner_image_that_takes_anothers_place_is_told_while_the_worker_goes_on() {
    let worker = Worker::start([Scenario::lines(&["a"], 0)]);
    let told = |digest: &'static str| {
        move |state: &State| {
            let runner = state.runner.as_ref();
            runner.is_some_and(|image| image.digest == digest)
        }
    };
    worker
        .until("the first is told", told("sha256:groundwork/runner:small"))
        .await;
    worker.runtime.replace_runner_image("sha256:newer");
    worker
        .until("the newer one is told", told("sha256:newer"))
        .await;
    // Registering again would cost it its runs.
    assert_eq!(worker.gateway.state().hellos.len(), 1);
    worker.shut_down().await;
}
