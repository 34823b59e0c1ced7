//! The whole way of a run: a real worker over the gateway, with a scripted sandbox below it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use control::LocalGateway;
use domain::{
    ids::{EnvironmentId, SetupRunId},
    setup_run::{FailureCode, Status, Stream},
    timestamp::Timestamp,
};
use execution::runtime::RuntimeError;
use futures::StreamExt as _;
use testkit::{Scenario, ScriptedRuntime, TestApp};
use tokio_util::sync::CancellationToken;
use wire::{console::Frame, managed_agents::SetupRun};
use worker::{Agent, AgentConfig};

/// Tokio's time for the worker; the control plane's clock stands still.
struct RealTime(tokio::time::Instant);

impl worker::Time for RealTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000)
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

struct Story {
    app: TestApp,
    runtime: Arc<ScriptedRuntime>,
    stop: CancellationToken,
    agent: tokio::task::JoinHandle<()>,
}

async fn story(scenarios: impl IntoIterator<Item = Scenario>) -> Story {
    let app = TestApp::start().await;
    let runtime = ScriptedRuntime::new(app.clock.clone(), app.directory(), scenarios);
    let agent = Agent::new(
        Arc::new(LocalGateway::new(app.control.clone())),
        Arc::clone(&runtime) as _,
        Arc::new(RealTime(tokio::time::Instant::now())),
        AgentConfig::new("embedded", "groundwork/runner:full"),
    );
    let stop = CancellationToken::new();
    let until = stop.clone();
    Story {
        agent: tokio::spawn(async move { agent.run(until).await }),
        app,
        runtime,
        stop,
    }
}

impl Story {
    /// Starts a run, follows it to its end as the console does, and reads it.
    async fn run(&self, script: &str) -> (EnvironmentId, SetupRun, Vec<String>) {
        let id = self.app.environment("one", script).await;
        let run = self.app.run(id).await;
        let (read, lines) = self.follow(id, run).await;
        (id, read, lines)
    }

    async fn follow(&self, id: EnvironmentId, run: SetupRunId) -> (SetupRun, Vec<String>) {
        let mut frames = self
            .app
            .control
            .follow_setup_run(self.app.admin.clone(), id, run, 0)
            .await
            .unwrap();
        let mut lines = Vec::new();
        let read = async {
            while let Some(frame) = frames.next().await {
                match frame {
                    Frame::Lines(new) => {
                        for line in new {
                            lines.truncate(usize::try_from(line.seq).unwrap() - 1);
                            assert_eq!(lines.len() as u64 + 1, line.seq);
                            lines.push(match line.stream {
                                Stream::System => "# note".to_owned(),
                                Stream::Marker => format!("$ {}", line.text),
                                _ => line.text,
                            });
                        }
                    }
                    Frame::Stopped(text) => panic!("{text}"),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .expect("the run comes to its end");
        let read = self
            .app
            .control
            .get_setup_run(&self.app.admin, id, run, None)
            .await
            .unwrap();
        (read, lines)
    }

    async fn end(self) {
        self.stop.cancel();
        // The claim in flight waits on the control plane's clock.
        let agent = self.agent;
        self.app
            .eventually("the worker stops", || async {
                self.app.clock.advance(Duration::from_secs(1));
                agent.is_finished().then_some(())
            })
            .await;
        assert_eq!(self.runtime.living(), 0, "no sandbox is left");
    }
}

#[tokio::test]
async fn a_script_that_passes_is_watched_to_verified() {
    let story = story([Scenario::lines(&["one", "two"], 0)]).await;
    let (id, run, lines) = story.run("echo one\necho two").await;
    assert_eq!(run.status, Status::Succeeded, "{run:?}");
    assert!(run.setup_image.is_some());
    let script: Vec<_> = lines
        .iter()
        .filter(|line| *line != "# note")
        .map(String::as_str)
        .collect();
    assert_eq!(script, ["$ echo one", "one", "$ echo two", "two"]);
    let page = story
        .app
        .control
        .environment_page(&story.app.admin, id)
        .await
        .unwrap();
    assert_eq!(page.badge_label, "Verified");
    assert!(page.usable);
    story.end().await;
}

#[tokio::test]
async fn a_script_that_fails_names_its_line() {
    let story = story([Scenario::lines(&["one", "two"], 3)]).await;
    let (_, run, _) = story.run("echo one\nfalse").await;
    assert_eq!(run.status, Status::Failed);
    assert_eq!((run.exit_code, run.failed_line), (Some(3), Some(2)));
    assert_eq!(run.failure_code, Some(FailureCode::EnvironmentSetupFailed));
    story.end().await;
}

#[tokio::test]
async fn a_cancelled_run_ends_when_its_sandbox_is_gone() {
    let story = story([Scenario::hanging()]).await;
    let id = story.app.environment("one", "sleep infinity").await;
    let run = story.app.run(id).await;
    story
        .app
        .eventually("the script runs", || async {
            let view = story
                .app
                .control
                .run_view(&story.app.admin, id, run)
                .await
                .unwrap();
            (view.running_line == Some(1)).then_some(())
        })
        .await;
    story
        .app
        .control
        .cancel_setup_run(&story.app.admin, id, run)
        .await
        .unwrap();
    let (read, _) = story.follow(id, run).await;
    assert_eq!(read.status, Status::Cancelled);
    assert_eq!(story.runtime.living(), 0);
    story.end().await;
}

#[tokio::test]
async fn a_machine_without_room_says_so() {
    let full = RuntimeError::Capacity("The disk of the machine is full.".to_owned());
    let story = story([Scenario::unprepared(full)]).await;
    let (_, run, _) = story.run("true").await;
    assert_eq!(run.status, Status::Failed);
    assert_eq!(
        run.failure_code,
        Some(FailureCode::SandboxCapacityUnavailable),
        "{run:?}"
    );
    story.end().await;
}

#[tokio::test]
async fn a_sandbox_that_dies_is_replaced_and_the_log_goes_on() {
    let story = story([Scenario::dying(), Scenario::lines(&["fine"], 0)]).await;
    let (_, run, lines) = story.run("echo fine").await;
    assert_eq!(run.status, Status::Succeeded, "{run:?}");
    assert!(lines.contains(&"fine".to_owned()));
    story.end().await;
}
