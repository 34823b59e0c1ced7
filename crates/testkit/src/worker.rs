//! A worker that a test plays by hand, through the same gateway as real ones.

use std::{sync::Arc, time::Duration};

use control::{LocalGateway, ports::Clock as _};
use domain::{
    ids::WorkerId,
    setup_run::{FailureCode, HintCode, LogLine, Phase, Stream},
};
use serde_json::Map;
use wire::worker::{
    Assignment, CapturedImage, Fault, Gateway, GatewayError, Held, Hello, LogBatch, Order, Reached,
    RunOutcome, RunResult, RunnerImage,
};

use crate::ManualClock;

/// The played worker.
pub struct TestWorker {
    /// Its gateway.
    pub gateway: LocalGateway,
    /// Its id.
    pub id: WorkerId,
    clock: Arc<ManualClock>,
}

impl TestWorker {
    pub(crate) async fn register(
        gateway: LocalGateway,
        clock: &Arc<ManualClock>,
        name: &str,
    ) -> Self {
        let id = gateway
            .register(Hello {
                name: name.to_owned(),
                runtime: "scripted".to_owned(),
                version: "0.0.0".to_owned(),
                capacity: 4,
                session_slots: 32,
                runner_image: Some(Self::runner_image("runner")),
            })
            .await
            .expect("the worker is registered");
        Self {
            gateway,
            id,
            clock: Arc::clone(clock),
        }
    }

    /// A runner image under the usual reference, with the digest `sha256:NAME`. Registered is the one called `runner`.
    pub fn runner_image(name: &str) -> RunnerImage {
        RunnerImage {
            reference: "groundwork/runner:full".to_owned(),
            digest: format!("sha256:{name}"),
        }
    }

    /// Takes the waiting run; there must be one.
    pub async fn claim(&self) -> Assignment {
        self.try_claim().await.expect("a run waits")
    }

    /// Takes the waiting run, if there is one.
    pub async fn try_claim(&self) -> Option<Assignment> {
        self.gateway
            .claim(self.id, Duration::ZERO)
            .await
            .expect("the gateway answers")
    }

    /// A heartbeat for one lease.
    pub async fn beat(&self, held: Held) -> Order {
        let directives = self
            .gateway
            .heartbeat(self.id, &[held])
            .await
            .expect("the gateway answers");
        directives.first().expect("one lease, one directive").order
    }

    /// Says that the run reached a phase.
    pub async fn reach(&self, held: Held, phase: Phase) -> Result<(), GatewayError> {
        self.gateway.reach(held, phase, Reached::default()).await
    }

    /// A line of the script's output, numbered by the caller.
    pub fn line(&self, seq: u64, text: &str) -> LogLine {
        LogLine {
            seq,
            stream: Stream::Stdout,
            line: Some(1),
            text: text.to_owned(),
            at: self.clock.now(),
        }
    }

    /// Appends lines of output, numbered from `first`.
    pub async fn write(&self, held: Held, first: u64, texts: &[&str]) -> Result<(), GatewayError> {
        let lines = (first..)
            .zip(texts)
            .map(|(seq, text)| self.line(seq, text))
            .collect();
        self.gateway
            .append_log(
                held,
                LogBatch {
                    number: first,
                    lines,
                    truncated: false,
                    open: false,
                },
            )
            .await
    }

    /// Goes through all phases and says that the script passed and its image was saved.
    pub async fn pass(&self, held: Held) {
        for phase in [Phase::Setup, Phase::Profile, Phase::Commit, Phase::Cleanup] {
            self.reach(held, phase).await.expect("the lease is good");
        }
        self.gateway
            .finish(held, Self::passed())
            .await
            .expect("the lease is good");
    }

    /// Says that the script failed.
    pub async fn fail(&self, held: Held) {
        self.reach(held, Phase::Setup)
            .await
            .expect("the lease is good");
        self.gateway
            .finish(held, Self::failed())
            .await
            .expect("the lease is good");
    }

    /// A script that passed, with its image.
    pub fn passed() -> RunOutcome {
        RunOutcome {
            result: RunResult::Succeeded,
            phase: Phase::Cleanup,
            message: "Setup verified.".to_owned(),
            exit_code: Some(0),
            failed_line: None,
            failed_command: None,
            hint_code: None,
            hint: None,
            hint_host: None,
            stderr_tail: None,
            failure_code: None,
            image: Some(CapturedImage {
                digest: "sha256:layer".to_owned(),
                size_bytes: 1_234,
                base_image_digest: "sha256:runner".to_owned(),
            }),
            capture_failure: None,
            compute_profile: Map::new(),
        }
    }

    /// A script that passed and whose image could not be saved.
    pub fn passed_without_image() -> RunOutcome {
        RunOutcome {
            image: None,
            capture_failure: Some(Fault {
                reason: "no_space".to_owned(),
                message: "The disk of the image store is full.".to_owned(),
            }),
            ..Self::passed()
        }
    }

    /// A script that failed in line 1.
    pub fn failed() -> RunOutcome {
        RunOutcome {
            result: RunResult::Failed,
            phase: Phase::Setup,
            message: "Line 1 failed with exit code 127.".to_owned(),
            exit_code: Some(127),
            failed_line: Some(1),
            failed_command: Some("nope".to_owned()),
            hint_code: Some(HintCode::CommandNotFound),
            hint: Some("Line 1: nope is not installed.".to_owned()),
            hint_host: None,
            stderr_tail: Some("nope: command not found".to_owned()),
            failure_code: Some(FailureCode::EnvironmentSetupFailed),
            image: None,
            ..Self::passed()
        }
    }

    /// A run that was stopped because somebody asked.
    pub fn cancelled() -> RunOutcome {
        RunOutcome {
            result: RunResult::Cancelled,
            phase: Phase::Setup,
            message: "Cancelled.".to_owned(),
            exit_code: None,
            image: None,
            ..Self::passed()
        }
    }
}
