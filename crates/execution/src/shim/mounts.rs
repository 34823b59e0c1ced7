//! Volumes and files in the sandbox's root: id-mapped clones, attached below the overlay before anything runs inside.
//!
//! The root is the work of images and of earlier scripts, so nothing in it is trusted: every name of a target is opened by
//! itself, below the one before, and no link is followed.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2},
    sys::stat::{Mode, SFlag, fstat, mkdirat},
};
use serde::{Deserialize, Serialize};

use super::{idmap::Mapping, sys, trees};
use crate::{oci::config_json::USER, runtime::RuntimeError};

/// What is to appear in the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mounted {
    /// On the machine.
    pub source: PathBuf,
    /// Inside: absolute, without `.`, `..` and empty names.
    pub target: String,
    /// A file, and not a directory.
    pub file: bool,
    /// Whether the sandbox may change it.
    pub writable: bool,
    /// As messages name it.
    pub shown: String,
}

/// An id-mapped clone of what is to be mounted, attached nowhere yet.
///
/// # Errors
/// It is not there, or its file system cannot map ids.
pub fn clone_of(mounted: &Mounted, plain: &Mapping, base: u32) -> io::Result<OwnedFd> {
    if !mounted.writable {
        return trees::foreign_clone(&mounted.source, plain.fd(), true);
    }
    let found = fs::metadata(&mounted.source)?;
    let mapping = Mapping::of_volume(base, found.uid(), found.gid())?;
    trees::foreign_clone(&mounted.source, mapping.fd(), false)
}

/// Attaches them all below `root`, the assembled root of a sandbox whose ids begin at `base`. They go with the root.
///
/// # Errors
/// [`RuntimeError::Mount`] when something in the sandbox's own files is in the way or a source cannot be mounted.
pub fn attach(
    root: &Path,
    mounts: &[Mounted],
    plain: &Mapping,
    base: u32,
) -> Result<(), RuntimeError> {
    if mounts.is_empty() {
        return Ok(());
    }
    let mut ready = Vec::new();
    for mounted in mounts {
        let tree = clone_of(mounted, plain, base).map_err(|error| {
            tracing::error!(%error, source = %mounted.source.display(), "a mount cannot be cloned");
            RuntimeError::Mount(format!(
                "The mount {} cannot be made on this machine. Ask whoever runs the deployment to look at the worker's log.",
                mounted.shown
            ))
        })?;
        ready.push((mounted.clone(), tree));
    }
    let root = root.to_owned();
    // What is made on the way belongs to the sandbox. A thread of its own, because becoming somebody cannot be undone.
    let attaching = thread::spawn(move || -> Result<(), RuntimeError> {
        let other = |error: io::Error| RuntimeError::Other(format!("mounting: {error}"));
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(&root, flags, Mode::empty()).map_err(|error| other(error.into()))?;
        for (mounted, tree) in &ready {
            let owner = if mounted.target.starts_with("/workspace/") {
                USER
            } else {
                0
            };
            sys::act_as(base + owner).map_err(other)?;
            let target = target(root.as_fd(), mounted).map_err(|refusal| match refusal {
                Refusal::InTheWay(what) => RuntimeError::Mount(format!(
                    "The mount {} cannot be put at {}: {what}. Remove that from the image or the setup script, or choose another mount_path.",
                    mounted.shown, mounted.target
                )),
                Refusal::Other(error) => other(error),
            })?;
            trees::attach_at(tree.as_fd(), target.as_fd()).map_err(other)?;
        }
        Ok(())
    });
    attaching
        .join()
        .map_err(|_| RuntimeError::Other("the mounting thread broke".into()))?
}

/// Why there is no target.
#[derive(Debug)]
enum Refusal {
    /// A phrase about what the sandbox's own files hold there.
    InTheWay(String),
    Other(io::Error),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Other(error.into())
    }
}

/// Opens the target, made if it is not there, without following a link or entering another mount.
fn target(root: BorrowedFd<'_>, mounted: &Mounted) -> Result<OwnedFd, Refusal> {
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    let names: Vec<&str> = mounted
        .target
        .split('/')
        .filter(|name| !name.is_empty())
        .collect();
    let mut place = root.try_clone_to_owned().map_err(Refusal::Other)?;
    let mut path = String::new();
    for (number, name) in names.iter().enumerate() {
        path = format!("{path}/{name}");
        let file = mounted.file && number + 1 == names.len();
        let made = if file {
            let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            openat(&place, *name, flags, Mode::from_bits_truncate(0o444)).map(drop)
        } else {
            mkdirat(&place, *name, Mode::from_bits_truncate(0o755))
        };
        match made {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let kind = if file {
            OFlag::empty()
        } else {
            OFlag::O_DIRECTORY
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | kind)
            .resolve(resolve);
        let in_the_way = |what: &str| Refusal::InTheWay(format!("{path} is {what}"));
        place = openat2(&place, *name, how).map_err(|error| match error {
            Errno::ELOOP => in_the_way("a link"),
            Errno::ENOTDIR => in_the_way("not a directory"),
            Errno::EXDEV => in_the_way("another mount"),
            error => error.into(),
        })?;
        if file {
            let found = SFlag::from_bits_truncate(fstat(&place)?.st_mode) & SFlag::S_IFMT;
            if found != SFlag::S_IFREG {
                return Err(in_the_way("not a file"));
            }
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn at(path: &str, file: bool) -> Mounted {
        Mounted {
            source: PathBuf::new(),
            target: path.to_owned(),
            file,
            writable: false,
            shown: "volume:data".into(),
        }
    }

    #[test]
    fn a_target_is_made_below_the_root_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, victim) = (dir.path().join("root"), dir.path().join("victim"));
        for made in ["workspace/here", "mnt"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        fs::create_dir_all(&victim).unwrap();
        fs::write(root.join("mnt/file"), "x").unwrap();
        symlink(&victim, root.join("workspace/out")).unwrap();
        symlink("../../victim", root.join("mnt/up")).unwrap();
        symlink("here", root.join("workspace/inside")).unwrap();
        symlink("/dev/null", root.join("mnt/null")).unwrap();
        nix::unistd::mkfifo(&root.join("mnt/fifo"), Mode::S_IRUSR).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let open_root = open(&root, flags, Mode::empty()).unwrap();
        for (path, file, refused) in [
            ("/workspace/here", false, None),
            ("/workspace/new/a/b", false, None),
            ("/mnt/file", true, None),
            ("/mnt/new/file", true, None),
            ("/workspace/out", false, Some("/workspace/out is a link")),
            ("/workspace/out/x", false, Some("/workspace/out is a link")),
            ("/workspace/out/x", true, Some("/workspace/out is a link")),
            ("/workspace/inside", false, Some("a link")),
            ("/mnt/up/x/y", false, Some("/mnt/up is a link")),
            ("/mnt/null", true, Some("a link")),
            ("/mnt/file", false, Some("not a directory")),
            ("/mnt/file/x", false, Some("/mnt/file is not a directory")),
            ("/workspace/here", true, Some("not a file")),
            ("/mnt/fifo", true, Some("not a file")),
        ] {
            match (target(open_root.as_fd(), &at(path, file)), refused) {
                (Ok(_), None) => {
                    let made = root.join(path.trim_start_matches('/'));
                    assert_eq!(made.is_file(), file, "{path}");
                }
                (Err(Refusal::InTheWay(what)), Some(words)) => {
                    assert!(what.contains(words), "{path}: {what}");
                }
                (got, _) => panic!("{path}: {got:?}"),
            }
        }
        assert!(target(open_root.as_fd(), &at("/mnt/../../victim/x", false)).is_err());
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}
