//! Which host layers are there, and which nothing needs any more. Beside each lies a note that says what it was generated
//! over; without one, nothing is known of a layer, and it is generated again when it is needed.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{OciConfig, host_layer};

/// End of a note's name.
const NOTE: &str = "over";

/// What a host layer was generated over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Over {
    /// Digest of the runner image.
    pub(super) base_digest: String,
    /// Digests of the saved layers above it.
    pub(super) layers: Vec<String>,
}

impl Over {
    fn has(&self, digest: &str) -> bool {
        self.base_digest == digest || self.layers.iter().any(|layer| layer == digest)
    }

    /// Whether a sandbox could still be made over it.
    fn is_there(&self, config: &OciConfig) -> io::Result<bool> {
        let base = config.images.rootfs_of(&self.base_digest)?;
        let layer = |digest: &String| {
            config
                .images
                .layer_dir(digest)
                .is_some_and(|dir| dir.is_dir())
        };
        Ok(base.is_some_and(|dir| dir.is_dir()) && self.layers.iter().all(layer))
    }
}

/// Where the host layers lie.
pub(super) fn dir(config: &OciConfig) -> PathBuf {
    config.state_dir.join("host-layers")
}

/// Notes what the layer at `target`, which may yet have to be generated, is over.
///
/// # Errors
/// Those of the file system.
pub(super) fn note(target: &Path, over: &Over) -> io::Result<()> {
    let path = target.with_extension(NOTE);
    if path.exists() {
        return Ok(());
    }
    let partial = target.with_extension("over-partial");
    fs::write(&partial, serde_json::to_vec(over)?)?;
    fs::rename(partial, path)
}

/// Removes the layers over an image or a saved layer that has just been deleted, which no sandbox is made from.
///
/// # Errors
/// Those of the file system.
pub(super) fn forget(config: &OciConfig, digest: &str) -> io::Result<()> {
    for name in names(config)? {
        let target = dir(config).join(&name);
        if read(&target)
            .is_some_and(|over| over.has(digest) && !over.is_there(config).unwrap_or(true))
        {
            remove(&target)?;
        }
    }
    Ok(())
}

/// Removes the layers that no sandbox can get any more: over what is gone, with other settings than the machine's, by
/// halves. Only while there is no sandbox.
///
/// # Errors
/// Those of the file system.
pub(super) fn collect(config: &OciConfig) -> io::Result<()> {
    for name in names(config)? {
        let target = dir(config).join(&name);
        let needed = match read(&target) {
            Some(over) => {
                let key = host_layer::key(&config.host, &over.base_digest, &over.layers)?;
                OsStr::new(&key) == name && over.is_there(config)?
            }
            None => false,
        };
        if !needed {
            remove(&target)?;
        }
    }
    Ok(())
}

fn read(target: &Path) -> Option<Over> {
    serde_json::from_slice(&fs::read(target.with_extension(NOTE)).ok()?).ok()
}

/// Names of layers, of which there may be the layer, its note, or a part of either.
fn names(config: &OciConfig) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir(config))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(OsStr::to_owned));
    }
    Ok(names)
}

fn remove(target: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    // The note last: what is cut off here is found again.
    gone(fs::remove_dir_all(target))?;
    gone(fs::remove_dir_all(target.with_extension("partial")))?;
    gone(fs::remove_file(target.with_extension("over-partial")))?;
    gone(fs::remove_file(target.with_extension(NOTE)))
}
