//! The worker in this process: its runtime, checked before anything starts, and its agent.

use std::{ffi::OsString, sync::Arc};

use control::{Control, LocalGateway};
use execution::{
    images::{ImageStore, is_remote},
    oci::{OciConfig, OciRuntime},
    runtime::{CheckState, Runtime},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::session_host::SessionHost;
use worker::{Agent, AgentConfig, Sessions, SessionsConfig};

use crate::{clock::SystemClock, config::Settings, datadir::DataDir, fatal::Fatal};

/// The images in a data directory.
pub fn images(dir: &DataDir) -> ImageStore {
    ImageStore::new(dir.path().join("images"))
}

/// The sandbox runtime on a data directory; its shims are this very program.
pub fn runtime(settings: &Settings, dir: &DataDir) -> Result<OciRuntime, Fatal> {
    let program = std::env::current_exe().map_err(|e| {
        Fatal::new(format!(
            "The program cannot find itself ({e}); start it by its full path."
        ))
    })?;
    let mut config = OciConfig::new(
        dir.path().join("oci"),
        images(dir),
        (program, vec![OsString::from("shim")]),
    );
    config.runtime.clone_from(&settings.runtime);
    config.runtime_kind = settings.runtime_kind;
    config.host = settings.sandbox.clone();
    config.opened.clone_from(&settings.open_networks);
    config.own_addresses.clone_from(&settings.own_addresses);
    config.volumes.clone_from(&settings.volumes);
    // Each sandbox has a range of user ids of its own.
    config.slots = settings.worker.capacity + settings.worker.session_slots;
    OciRuntime::new(config).map_err(|e| {
        Fatal::new(format!(
            "The sandboxes' directory in {} cannot be made ({e}); mend that, or start with --no-worker.",
            dir.path().display()
        ))
    })
}

/// Gets the runner image that the settings name, or its newer self. Without the registry, the one that is here will do.
async fn pull(settings: &Settings, dir: &DataDir) -> Result<(), Fatal> {
    let (images, reference) = (images(dir), &settings.runner_image);
    let pulled = images
        .pull_runner(reference, &settings.registry_login, |step| {
            tracing::info!(reference, step, "runner image");
        })
        .await;
    let Err(error) = pulled else { return Ok(()) };
    let here = images
        .runner_image(reference)
        .map_err(|e| Fatal::io("read the images in", images.root(), &e))?;
    if here.is_none() {
        return Err(Fatal::new(format!(
            "{error} The setting runner.image names it; correct that, or start the console and the API alone with --no-worker."
        )));
    }
    tracing::warn!(%error, reference, "the runner image is used as it was pulled before");
    Ok(())
}

/// A worker whose machine was checked.
pub struct Worker {
    runtime: Arc<dyn Runtime>,
    config: AgentConfig,
}

impl Worker {
    /// Checks the machine: a worker does not start where isolation rests upon something that is not there.
    pub async fn check(settings: &Settings, dir: &DataDir) -> Result<Self, Fatal> {
        if is_remote(&settings.runner_image) {
            pull(settings, dir).await?;
        }
        let runtime = runtime(settings, dir)?;
        let mut failed = Vec::new();
        for check in runtime.check().await {
            match check.state {
                CheckState::Ok => {}
                CheckState::Warning => {
                    tracing::warn!(
                        check = check.name,
                        found = check.found,
                        mend = check.mend,
                        "a check of this machine"
                    );
                }
                CheckState::Failed => failed.push(check),
            }
        }
        match failed.as_slice() {
            [] => Ok(Self {
                config: AgentConfig {
                    capacity: settings.worker.capacity,
                    session_slots: settings.worker.session_slots,
                    ..AgentConfig::new(
                        settings.worker.name.clone().unwrap_or_else(host_name),
                        settings.runner_image.clone(),
                    )
                },
                runtime: Arc::new(runtime),
            }),
            [first, rest @ ..] => {
                let more = match rest.len() {
                    0 => String::new(),
                    n => format!(" ({n} more: run `groundwork doctor`)"),
                };
                Err(Fatal::new(format!(
                    "This machine cannot run sandboxes, because of {}: {}{more}. {} Or start the console and the API alone with --no-worker.",
                    first.name, first.found, first.mend
                )))
            }
        }
    }

    /// What the control plane asks about sessions.
    pub fn sessions(&self, clock: SystemClock) -> Arc<dyn SessionHost> {
        Arc::new(Sessions::new(
            Arc::clone(&self.runtime),
            Arc::new(clock),
            SessionsConfig {
                capacity: self.config.session_slots as usize,
                ..SessionsConfig::new(self.config.name.clone())
            },
        ))
    }

    /// Starts it; it gives its runs back and ends when `stop` is cancelled.
    pub fn start(
        self,
        control: Control,
        clock: SystemClock,
        stop: CancellationToken,
    ) -> JoinHandle<()> {
        let agent = Agent::new(
            Arc::new(LocalGateway::new(control)),
            self.runtime,
            Arc::new(clock),
            self.config,
        );
        tokio::spawn(async move { agent.run(stop).await })
    }
}

/// The machine's name: a worker of the same name takes the place of the one before.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "worker".to_owned())
}
