//! Directories of the machine that sandboxes can be given.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use super::OciConfig;
use crate::{
    runtime::{MountSource, RuntimeError, SandboxMount},
    shim::{idmap, mounts::Mounted},
};

/// A directory of the machine that environments name as `volume:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The name.
    pub name: String,
    /// The directory; what is mounted below it stays out.
    pub directory: PathBuf,
    /// Whether sandboxes may change it.
    pub writable: bool,
}

impl Volume {
    /// Whether it can be given as it is.
    ///
    /// # Errors
    /// A phrase: the directory cannot be read, or it is to be writable and belongs to root. What a sandbox's user writes
    /// gets the directory's owner, and a set-user-ID file of root's would be a way to take over the machine.
    pub fn usable(&self) -> Result<(), String> {
        let shown = self.directory.display();
        let found = fs::metadata(&self.directory)
            .map_err(|error| format!("its directory {shown} cannot be read ({error})"))?;
        if !self.writable {
            return Ok(());
        }
        if found.uid() == 0 || found.gid() == 0 {
            return Err(format!(
                "it is writable, and {shown} belongs to root: what sandboxes write there gets the owner and group of the directory, so give it others (chown)"
            ));
        }
        if idmap::is_stored(found.uid()) || idmap::is_stored(found.gid()) {
            return Err(format!(
                "{shown} belongs to an id from 2,000,000,000 that sandboxes use themselves, so give it another (chown)"
            ));
        }
        Ok(())
    }
}

/// What the shim must mount.
pub(super) fn planned(
    config: &OciConfig,
    mounts: &[SandboxMount],
) -> Result<Vec<Mounted>, RuntimeError> {
    mounts
        .iter()
        .map(|mount| {
            let shown = mount.source.shown();
            let (source, file, writable) = match &mount.source {
                MountSource::File { at, .. } => (at.clone(), true, false),
                MountSource::Volume(name) => {
                    let declared = config.volumes.iter().find(|volume| volume.name == *name);
                    let volume = declared.ok_or_else(|| {
                        RuntimeError::Mount(format!(
                            "This deployment does not offer {shown} any more. Remove it from the environment's mounts, or ask whoever runs the deployment."
                        ))
                    })?;
                    if let Err(why) = volume.usable() {
                        tracing::error!(volume = name, why, "a volume cannot be given");
                        return Err(RuntimeError::Mount(format!(
                            "The directory of {shown} cannot be used on this machine. Ask whoever runs the deployment to look at the worker's log."
                        )));
                    }
                    (volume.directory.clone(), false, volume.writable)
                }
            };
            Ok(Mounted {
                source,
                target: mount.path.clone(),
                file,
                writable,
                shown,
            })
        })
        .collect()
}
