//! What an environment mounts, turned into what the machine can put into a sandbox.

use std::time::Duration;

use domain::mounts::{Mount, shown_source};
use execution::{
    fetch::FetchedFile,
    runtime::{MountSource, Runtime, RuntimeError, SandboxMount},
};

use crate::time::Time;

/// How long all files of one sandbox may take.
const FETCH_WITHIN: Duration = Duration::from_secs(90);

/// Mounts that are ready to be used. The files go with this value, once the sandbox has them.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// For the sandbox.
    pub(crate) mounts: Vec<SandboxMount>,
    /// A sentence for the log on each file that was fetched.
    pub(crate) notes: Vec<String>,
    _files: Vec<FetchedFile>,
}

/// Fetches the files, one after the other, in the order of the environment, all within a time that leaves some of the time
/// that a start may take.
///
/// # Errors
/// The first that did not come.
pub(crate) async fn gather(
    runtime: &dyn Runtime,
    time: &dyn Time,
    mounts: &[Mount],
) -> Result<Gathered, RuntimeError> {
    if mounts.is_empty() {
        return Ok(Gathered::default());
    }
    tokio::select! {
        gathered = in_order(runtime, mounts) => gathered,
        () = time.sleep(FETCH_WITHIN) => Err(RuntimeError::Mount(format!(
            "The files that the environment mounts could not be fetched within {} seconds. Mount fewer or smaller ones, or fetch them in the setup script.",
            FETCH_WITHIN.as_secs()
        ))),
    }
}

async fn in_order(runtime: &dyn Runtime, mounts: &[Mount]) -> Result<Gathered, RuntimeError> {
    let mut gathered = Gathered::default();
    for mount in mounts {
        let source = match mount.source.strip_prefix("volume:") {
            Some(name) => MountSource::Volume(name.to_owned()),
            None => {
                let file = runtime.fetch(&mount.source).await?;
                let from = shown_source(&mount.source);
                gathered.notes.push(format!(
                    "Fetched {from} for {}: {} bytes, sha256 {}.",
                    mount.mount_path, file.size, file.sha256
                ));
                let at = file.at.clone();
                gathered._files.push(file);
                MountSource::File { at, from }
            }
        };
        gathered.mounts.push(SandboxMount {
            source,
            path: mount.mount_path.clone(),
        });
    }
    Ok(gathered)
}
