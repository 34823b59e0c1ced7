//! The control plane as workers in this process see it.

use std::time::Duration;

use async_trait::async_trait;
use domain::{ids::WorkerId, setup_run::Phase};
use wire::worker::{
    Assignment, Directive, Fault, Gateway, GatewayError, Held, Hello, LogBatch, Reached, RunOutcome,
};

use crate::Control;

/// [`Gateway`] without a wire between.
#[derive(Clone)]
pub struct LocalGateway(#[allow(dead_code)] Control);

impl LocalGateway {
    /// Of this application layer.
    pub const fn new(control: Control) -> Self {
        Self(control)
    }
}

fn unwritten() -> GatewayError {
    GatewayError::Unavailable("not written yet".to_owned())
}

#[async_trait]
impl Gateway for LocalGateway {
    async fn register(&self, hello: Hello) -> Result<WorkerId, GatewayError> {
        let _ = hello;
        Err(unwritten())
    }
    async fn claim(
        &self,
        worker: WorkerId,
        wait: Duration,
    ) -> Result<Option<Assignment>, GatewayError> {
        let _ = (worker, wait);
        Err(unwritten())
    }
    async fn heartbeat(
        &self,
        worker: WorkerId,
        held: &[Held],
    ) -> Result<Vec<Directive>, GatewayError> {
        let _ = (worker, held);
        Err(unwritten())
    }
    async fn reach(&self, held: Held, phase: Phase, detail: Reached) -> Result<(), GatewayError> {
        let _ = (held, phase, detail);
        Err(unwritten())
    }
    async fn append_log(&self, held: Held, batch: LogBatch) -> Result<(), GatewayError> {
        let _ = (held, batch);
        Err(unwritten())
    }
    async fn finish(&self, held: Held, outcome: RunOutcome) -> Result<(), GatewayError> {
        let _ = (held, outcome);
        Err(unwritten())
    }
    async fn give_back(&self, held: Held, fault: Fault) -> Result<(), GatewayError> {
        let _ = (held, fault);
        Err(unwritten())
    }
}
