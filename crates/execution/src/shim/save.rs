//! Keeping the prepared file system: the upper directory copied to a content-addressed layer.

use std::{fs, io, path::Path};

use super::{
    copy,
    sandbox::{End, Sandbox},
    sys,
};
use crate::runtime::{RuntimeError, SavedLayer};

/// Stack of the copying thread, in bytes; only what is used becomes memory.
const STACK: usize = 64 * 1024 * 1024;

fn failed(error: &io::Error) -> RuntimeError {
    let (reason, message) = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => ("no_space", "the machine's disk is full".to_owned()),
        Some(libc::EIO | libc::EROFS) => ("io_error", "the sandbox's disk lost data".to_owned()),
        _ => ("io_error", error.to_string()),
    };
    RuntimeError::Save {
        reason: reason.to_owned(),
        message,
    }
}

impl Sandbox {
    /// Stops everything inside and keeps the upper directory. Saving the same content twice gives the same layer.
    ///
    /// # Errors
    /// [`RuntimeError::Save`]; nothing half-made is left.
    pub async fn save(self: std::sync::Arc<Self>) -> Result<SavedLayer, RuntimeError> {
        self.stop(End::Stopped).await?;
        let (done, result) = tokio::sync::oneshot::channel();
        // Trees can be as deep as a path is long, and they are walked recursively.
        std::thread::Builder::new()
            .name("save".into())
            .stack_size(STACK)
            .spawn(move || done.send(self.save_stopped()))
            .map_err(|error| failed(&error))?;
        result
            .await
            .map_err(|_| RuntimeError::Other("saving broke off".into()))?
    }

    fn save_stopped(&self) -> Result<SavedLayer, RuntimeError> {
        self.close_root();
        // Reports what the disk lost since it was mounted, which nobody inside may have heard of.
        fs::File::open(self.disk())
            .and_then(sys::syncfs)
            .map_err(|error| failed(&error))?;
        let upper = self.upper();
        for scratch in ["tmp", "var/tmp"] {
            empty(&upper.join(scratch)).map_err(|error| failed(&error))?;
        }
        let layers = &self.plan.layers_dir;
        crate::images::make_private(layers).map_err(|error| failed(&error))?;
        let partial = layers.join(format!("{}.partial", self.plan.sandbox));
        let kept = keep(&upper, &partial, layers);
        if kept.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        let (digest, size_bytes) = kept.map_err(|error| failed(&error))?;
        Ok(SavedLayer {
            digest: format!("sha256:{digest}"),
            size_bytes,
            base_digest: self.plan.base_digest.clone(),
        })
    }
}

/// Copies, makes the copy durable, and gives it its name.
fn keep(upper: &Path, partial: &Path, layers: &Path) -> io::Result<(String, u64)> {
    if partial.exists() {
        fs::remove_dir_all(partial)?;
    }
    let copied = copy::tree(upper, partial)?;
    sys::syncfs(fs::File::open(partial)?)?;
    let kept = layers.join(&copied.digest);
    if kept.exists() {
        fs::remove_dir_all(partial)?;
    } else {
        fs::rename(partial, &kept)?;
        fs::File::open(layers)?.sync_all()?;
    }
    Ok((copied.digest, copied.bytes))
}

/// Removes what is in a directory of the upper, if the upper has it as a directory.
fn empty(dir: &Path) -> io::Result<()> {
    let is_dir = fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
    if !is_dir {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
