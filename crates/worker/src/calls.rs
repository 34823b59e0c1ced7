//! Calls to the control plane that are tried until they are answered.

use std::{future::Future, sync::Arc, time::Duration};

use wire::worker::GatewayError;

use crate::{
    time::Time,
    wish::{Wish, WishSender, Wishes},
};

/// First pause between two tries; doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long what happened in a run may still take to be kept once the run is to stop.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The run is not ours any more, or nobody waits for what was to be told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// Pauses that grow.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) const fn new() -> Self {
        Self(PAUSE_MIN)
    }
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

/// Makes calls for one run.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) time: Arc<dyn Time>,
    pub(crate) wishes: Wishes,
    pub(crate) wish: WishSender,
}

impl Caller {
    /// Tells what happens in a run: tries until the control plane answers or the lease is lost; where the run is to stop
    /// (somebody has cancelled it and waits, or the worker is shut down), a little longer.
    pub(crate) async fn persist<T, F>(&self, call: impl Fn() -> F) -> Result<T, Gone>
    where
        F: Future<Output = Result<T, GatewayError>>,
    {
        let mut wishes = self.wishes.clone();
        let waited_for = async {
            wishes.stop().await;
            self.time.sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            told = self.insist(call) => told,
            () = waited_for => Err(Gone),
        }
    }

    /// Tells how a run ended: tries until the control plane answers or the lease is lost. What it refuses it would refuse
    /// the next time, too: the run is let go, and its lease runs out.
    pub(crate) async fn insist<T, F>(&self, call: impl Fn() -> F) -> Result<T, Gone>
    where
        F: Future<Output = Result<T, GatewayError>>,
    {
        let mut pauses = Pauses::new();
        let mut wishes = self.wishes.clone();
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(GatewayError::Fenced) => {
                    self.wish.send(Wish::Abandon);
                    return Err(Gone);
                }
                Err(GatewayError::Refused(reason)) => {
                    tracing::error!(reason, "the control plane refuses what it is told of a run");
                    self.wish.send(Wish::Abandon);
                    return Err(Gone);
                }
                Err(GatewayError::Unavailable(reason)) => {
                    tracing::debug!(reason, "the control plane is unavailable; trying again");
                }
            }
            tokio::select! {
                biased;
                () = wishes.abandon() => return Err(Gone),
                () = self.time.sleep(pauses.next()) => {}
            }
        }
    }
}
