//! The sandbox's range of user ids: a slot held by a lock file, and a user namespace that maps 0 to 65,535 onto it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

use nix::fcntl::{Flock, FlockArg};

use super::sys;

/// Ids of one sandbox.
pub const RANGE: u32 = 65_536;

/// A range of host ids that no other sandbox has while this lives.
pub struct Slot {
    _lock: Flock<File>,
    base: u32,
}

impl Slot {
    /// Takes the first free one; `None` when all are taken.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn take(dir: &Path, first: u32, count: u32) -> io::Result<Option<Self>> {
        fs::create_dir_all(dir)?;
        for number in 0..count {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(dir.join(number.to_string()))?;
            if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                return Ok(Some(Self {
                    _lock: lock,
                    base: first + number * RANGE,
                }));
            }
        }
        Ok(None)
    }

    /// Host id of the sandbox's root.
    pub fn base(&self) -> u32 {
        self.base
    }
}

/// A user namespace that exists only to describe the mapping.
pub struct Mapping {
    namespace: OwnedFd,
}

impl Mapping {
    /// Maps 0 to 65,535 onto the range that begins at `base`.
    ///
    /// # Errors
    /// Not permitted.
    pub fn new(base: u32) -> io::Result<Self> {
        sys::with_user_namespace_child(|pid| {
            let map = format!("0 {base} {RANGE}\n");
            fs::write(format!("/proc/{pid}/uid_map"), &map)?;
            fs::write(format!("/proc/{pid}/gid_map"), &map)?;
            Ok(Self {
                namespace: File::open(format!("/proc/{pid}/ns/user"))?.into(),
            })
        })
    }

    /// The namespace's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}
