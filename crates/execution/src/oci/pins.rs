//! Which saved layers and runner images sandboxes of this process and kept disks are made from: these are not deleted, whatever the control
//! plane says.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use domain::ids::SandboxId;

use super::{OciRuntime, host_layers, reclaim};
use crate::runtime::RuntimeError;

/// A layer just saved is not deleted for this long: until its run is reported, nothing but this process knows of it, and
/// it may have been there before, needed by nobody.
const FRESH: Duration = Duration::from_secs(600);

/// The layers in use.
#[derive(Debug, Default)]
pub(super) struct Pins(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_sandbox: HashMap<SandboxId, Vec<String>>,
    saved: HashMap<String, Instant>,
}

impl Pins {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on none of these layers is deleted; whether each is there is to be looked at after this.
    pub(super) fn pin(&self, id: SandboxId, layers: &[String]) {
        self.with(|state| state.by_sandbox.insert(id, layers.to_vec()));
    }

    /// The sandbox is gone.
    pub(super) fn unpin(&self, id: SandboxId) {
        self.with(|state| state.by_sandbox.remove(&id));
    }

    /// As [`Self::pin`], for a layer just saved.
    pub(super) fn note_saved(&self, digest: &str) {
        self.with(|state| {
            state.saved.retain(|_, at| at.elapsed() < FRESH);
            state.saved.insert(digest.to_owned(), Instant::now());
        });
    }

    /// Does `work` unless something uses the layer. Nothing can begin to use it meanwhile.
    fn unless_pinned<T>(&self, digest: &str, work: impl FnOnce() -> T) -> Option<T> {
        self.with(|state| {
            let used = state
                .by_sandbox
                .values()
                .flatten()
                .any(|used| used == digest);
            let fresh = state
                .saved
                .get(digest)
                .is_some_and(|at| at.elapsed() < FRESH);
            (!used && !fresh).then(work)
        })
    }
}

impl OciRuntime {
    /// Deletes a layer or a replaced runner image that no sandbox of this process and no kept disk uses; answers whether it is gone.
    pub(super) async fn remove_layer(&self, digest: &str) -> Result<bool, RuntimeError> {
        let (config, wanted) = (self.config().clone(), digest.to_owned());
        let below_kept =
            tokio::task::spawn_blocking(move || reclaim::is_below_kept(&config, &wanted));
        // A disk that is being made now is a sandbox's, and pins its layers until it is kept.
        if below_kept
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?
        {
            return Ok(false);
        }
        let condemned = self
            .pins
            .unless_pinned(digest, || self.config().images.condemn_layer(digest))
            .transpose()
            .map_err(super::other("deleting a layer"))?;
        if condemned.is_none() {
            return Ok(false);
        }
        let _none_made = self.host_layers.lock().await;
        let (config, gone) = (self.config().clone(), digest.to_owned());
        let clear = move || {
            config.images.clear_fragments()?;
            host_layers::forget(&config, &gone)
        };
        tokio::task::spawn_blocking(clear)
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?
            .map_err(super::other("deleting a layer"))?;
        Ok(true)
    }
}
