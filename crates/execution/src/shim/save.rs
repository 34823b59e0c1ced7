//! Keeping the prepared file system: the upper directory copied to a content-addressed layer.

use std::{fs, io, os::fd::AsRawFd, path::Path};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::stat::Mode,
};

use super::{
    copy, disk,
    sandbox::{End, Sandbox},
    space::Space,
    sys,
};
use crate::runtime::{RuntimeError, SavedLayer};

/// Stack of the copying thread, in bytes; only what is used becomes memory.
const STACK: usize = 64 * 1024 * 1024;

fn failed(error: &io::Error) -> RuntimeError {
    let (reason, message) = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => (
            "no_space",
            "the machine's disk has no room for it besides what stays in reserve".to_owned(),
        ),
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
    /// [`RuntimeError::Save`]; [`RuntimeError::Lost`] when it was broken off. Nothing half-made is left.
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
        let _one = self.saving.blocking_lock();
        self.keep_upper().map_err(|error| {
            if self.is_broken_off() {
                RuntimeError::Lost("it has been stopped".into())
            } else {
                failed(&error)
            }
        })
    }

    /// An error as soon as nobody wants the save any more.
    fn still_wanted(&self) -> io::Result<()> {
        if self.is_broken_off() {
            return Err(io::Error::other("the save was broken off"));
        }
        Ok(())
    }

    fn keep_upper(&self) -> io::Result<SavedLayer> {
        self.still_wanted()?;
        self.close_root();
        // Reports what the disk lost since it was mounted, which nobody inside may have heard of.
        fs::File::open(self.disk()).and_then(sys::syncfs)?;
        let upper = self.upper();
        for scratch in ["tmp", "var/tmp"] {
            empty(&upper, Path::new(scratch))?;
        }
        let layers = &self.plan.layers_dir;
        crate::images::make_private(layers)?;
        let partial = layers.join(format!("{}.partial", self.plan.sandbox));
        let space = Space {
            dir: layers.clone(),
            sandboxes: self.plan.sandboxes_dir(),
            reserve: self.plan.disk_reserve,
        };
        let (used, _) = disk::usage(&self.disk());
        let wanted = || self.still_wanted();
        let kept = space
            .need(used)
            .and_then(|()| keep(&upper, &partial, layers, &space, &wanted));
        if kept.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        let (digest, size_bytes) = kept?;
        Ok(SavedLayer {
            digest: format!("sha256:{digest}"),
            size_bytes,
            base_digest: self.plan.base_digest.clone(),
        })
    }
}

/// Copies, makes the copy durable, and gives it its name. Running sandboxes and the database need room, too: what stays in
/// reserve, and what sandboxes were promised, is not for the copy. An error of `wanted` ends it.
fn keep(
    upper: &Path,
    partial: &Path,
    layers: &Path,
    space: &Space,
    wanted: &dyn Fn() -> io::Result<()>,
) -> io::Result<(String, u64)> {
    if partial.exists() {
        fs::remove_dir_all(partial)?;
    }
    let mut room = space.watch();
    let copied = copy::tree(upper, partial, &mut |bytes| {
        wanted()?;
        room(bytes)
    })?;
    sys::syncfs(fs::File::open(partial)?)?;
    wanted()?;
    let kept = layers.join(&copied.digest);
    if kept.exists() {
        fs::remove_dir_all(partial)?;
    } else {
        fs::rename(partial, &kept)?;
        fs::File::open(layers)?.sync_all()?;
    }
    Ok((copied.digest, copied.bytes))
}

/// Removes what is in a directory of the upper, if the upper has it as a directory. The upper is the script's work: a
/// symlink on the way would lead to the host's files.
fn empty(upper: &Path, dir: &Path) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(upper, flags, Mode::empty())?;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let dir = match openat2(&root, dir, how) {
        Ok(dir) => dir,
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn emptying_follows_no_link_out_of_the_upper() {
        let dir = tempfile::tempdir().unwrap();
        let (upper, victim) = (dir.path().join("upper"), dir.path().join("victim"));
        fs::create_dir_all(victim.join("tmp")).unwrap();
        fs::write(victim.join("tmp/file"), "x").unwrap();
        fs::create_dir_all(upper.join("tmp/deep")).unwrap();
        symlink(&victim, upper.join("tmp/link")).unwrap();
        symlink(&victim, upper.join("var")).unwrap();
        symlink(victim.join("tmp"), upper.join("opt")).unwrap();
        for dir in ["tmp", "var/tmp", "opt", "absent", "../victim/tmp"] {
            empty(&upper, Path::new(dir)).unwrap();
        }
        assert_eq!(fs::read_dir(upper.join("tmp")).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(victim.join("tmp/file")).unwrap(), "x");
    }
}
