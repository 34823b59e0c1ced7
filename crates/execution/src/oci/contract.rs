//! The runtime contract, done by shims.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use domain::{
    ids::SandboxId,
    process::{Command, CommandEnd, Input, Output, Sample},
};
use tokio::sync::mpsc;

use super::{
    OciRuntime, commands,
    connection::{self, Connection},
    files::make_dir,
    host_layers, other, reclaim,
};
use crate::{
    doctor,
    fetch::FetchedFile,
    runtime::{
        Check, Event, Leftover, Runtime, RuntimeError, SandboxSpec, SavedLayer, ScriptEnd,
        ScriptSpec, Tunnel,
    },
    shim::{frames::Reply, frames::Request, kept::Kept},
};

#[async_trait]
impl Runtime for OciRuntime {
    fn name(&self) -> &'static str {
        "oci"
    }

    async fn check(&self) -> Vec<Check> {
        let config = self.config.clone();
        tokio::task::spawn_blocking(move || doctor::checks(&config))
            .await
            .unwrap_or_default()
    }

    async fn runner_image_digest(&self, reference: &str) -> Result<Option<String>, RuntimeError> {
        let image = self
            .config
            .images
            .runner_image(reference)
            .map_err(other("reading the images"))?;
        Ok(image.map(|image| image.digest))
    }

    async fn fetch(&self, source: &str) -> Result<FetchedFile, RuntimeError> {
        self.files.fetch(source).await
    }

    async fn prepare(&self, spec: &SandboxSpec) -> Result<(), RuntimeError> {
        let making = self.making.read().await;
        let known = self.sandboxes.lock().await.get(&spec.id).cloned();
        if known.is_some_and(|connection| connection.is_running()) {
            return Ok(());
        }
        self.end(spec.id, spec.keep_disk).await?;
        let dir = self.config.sandboxes().join(spec.id.to_string());
        let kept = Kept::read(&dir);
        if kept.is_some() && reclaim::is_attached(&dir) {
            return Err(RuntimeError::Other("its disk is still in use".into()));
        }
        let plan = self.plan(spec, &dir, kept).await?;
        make_dir(&dir, 0o711).map_err(other("making the sandbox's directory"))?;
        let connection = match Connection::open(&self.config, spec.id, &dir) {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                drop(making);
                self.clean_up(spec).await;
                return Err(other("starting the shim")(error));
            }
        };
        self.sandboxes
            .lock()
            .await
            .insert(spec.id, connection.clone());
        drop(making);
        let ready = connection.ask(Request::Prepare(Box::new(plan))).await;
        if ready.is_err() {
            self.clean_up(spec).await;
        }
        ready.map(drop)
    }

    async fn run_script(
        &self,
        id: SandboxId,
        script: &ScriptSpec,
        events: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError> {
        self.connection(id).await?.run(script.clone(), events).await
    }

    async fn stop(&self, id: SandboxId) -> Result<(), RuntimeError> {
        let Ok(connection) = self.connection(id).await else {
            return Ok(());
        };
        connection.let_events_flow();
        match connection.ask(Request::Stop).await {
            // With its shim gone, everything inside is gone.
            Ok(_) | Err(RuntimeError::Lost(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn save_image(&self, id: SandboxId) -> Result<SavedLayer, RuntimeError> {
        let connection = self.connection(id).await?;
        connection.let_events_flow();
        match connection.ask(Request::Save).await? {
            Reply::Saved(layer) => {
                self.pins.note_saved(&layer.digest);
                let dir = self.config.images.layer_dir(&layer.digest);
                if dir.is_some_and(|dir| dir.is_dir()) {
                    Ok(layer)
                } else {
                    // The same layer was there already, and was deleted at this very moment.
                    Err(RuntimeError::Save {
                        reason: "io_error".to_owned(),
                        message: "the saved layer was deleted while it was saved again".to_owned(),
                    })
                }
            }
            _ => Err(RuntimeError::Other(
                "the shim answered something else".into(),
            )),
        }
    }

    async fn exec(
        &self,
        id: SandboxId,
        command: &Command,
        input: mpsc::Receiver<Input>,
        output: mpsc::Sender<Output>,
    ) -> Result<CommandEnd, RuntimeError> {
        let connection = self.connection(id).await?;
        commands::exec(&connection, command, input, output).await
    }

    async fn sample(&self, id: SandboxId) -> Result<Sample, RuntimeError> {
        let connection = self.connection(id).await?;
        if !connection.is_running() {
            return Err(connection::lost());
        }
        match connection.ask(Request::Sample).await? {
            Reply::Sampled(sample) => Ok(sample),
            _ => Err(RuntimeError::Other(
                "the shim answered something else".into(),
            )),
        }
    }

    async fn connect(&self, id: SandboxId, port: u16) -> Result<Box<dyn Tunnel>, RuntimeError> {
        commands::connect(&*self.connection(id).await?, port).await
    }

    async fn suspend(&self, id: SandboxId) -> Result<(), RuntimeError> {
        if let Ok(connection) = self.connection(id).await {
            connection.let_events_flow();
            match connection.ask(Request::Suspend).await {
                // What it had written to its disk is there; the rest went with it.
                Ok(_) | Err(RuntimeError::Lost(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.end(id, true).await
    }

    async fn is_running(&self, id: SandboxId) -> Result<bool, RuntimeError> {
        let known = self.sandboxes.lock().await.get(&id).cloned();
        Ok(known.is_some_and(|connection| connection.is_running()))
    }

    async fn suspended(&self) -> Result<Vec<SandboxId>, RuntimeError> {
        let config = self.config.clone();
        let mut found = tokio::task::spawn_blocking(move || reclaim::kept(&config))
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?;
        let mut running = Vec::new();
        for (id, connection) in self.sandboxes.lock().await.iter() {
            if connection.is_running() {
                running.push(*id);
            }
        }
        found.retain(|id| !running.contains(id));
        Ok(found)
    }

    async fn destroy(&self, id: SandboxId) -> Result<(), RuntimeError> {
        self.end(id, false).await
    }

    async fn saved_layers(&self) -> Result<Vec<String>, RuntimeError> {
        let images = &self.config.images;
        let mut found = images.saved_layers().map_err(other("reading the layers"))?;
        let replaced = images.replaced_runners();
        found.extend(replaced.map_err(other("reading the images"))?);
        Ok(found)
    }

    async fn delete_layer(&self, digest: &str) -> Result<bool, RuntimeError> {
        self.remove_layer(digest).await
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, RuntimeError> {
        let (config, ours) = (self.config.clone(), self.alive().await);
        tokio::task::spawn_blocking(move || reclaim::find(&config, &ours))
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))
    }

    async fn reclaim(&self) -> Result<Vec<Leftover>, RuntimeError> {
        // What is being made has no owner yet that could be seen.
        let _none_made = self.making.write().await;
        let (config, ours) = (self.config.clone(), self.alive().await);
        let _none_generated = self.host_layers.lock().await;
        let all = move || {
            let removed = reclaim::all(&config, &ours)?;
            if ours.is_empty()
                && let Err(error) = host_layers::collect(&config)
            {
                tracing::error!(%error, "removing host layers");
            }
            Ok(removed)
        };
        tokio::task::spawn_blocking(all)
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?
    }

    fn state_dir(&self) -> PathBuf {
        self.config.state_dir.clone()
    }
}

impl OciRuntime {
    /// Ends a sandbox and removes what is left of it, but for its disk if that is kept.
    async fn end(&self, id: SandboxId, keep: bool) -> Result<(), RuntimeError> {
        let connection = self.sandboxes.lock().await.remove(&id);
        if let Some(connection) = connection {
            connection.close().await;
        }
        let config = self.config.clone();
        tokio::task::spawn_blocking(move || reclaim::sandbox(&config, id, keep))
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))??;
        self.pins.unpin(id);
        Ok(())
    }

    /// After a start that failed. A disk that had been kept before stays kept.
    async fn clean_up(&self, spec: &SandboxSpec) {
        if let Err(cleaning) = self.end(spec.id, spec.keep_disk).await {
            tracing::warn!(%cleaning, sandbox = %spec.id, "cleaning up after a failed start");
        }
    }

    async fn alive(&self) -> Vec<SandboxId> {
        self.sandboxes.lock().await.keys().copied().collect()
    }
}
