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
use crate::oci::config_json::USER;

/// Ids of one sandbox.
pub const RANGE: u32 = 65_536;

/// First of the ids under which a writable volume keeps what does not belong to the sandbox's user.
const STORED: u32 = 2_000_000_000;

/// Whether this is one of the ids that writable volumes keep things under.
pub fn is_stored(id: u32) -> bool {
    (STORED..STORED + RANGE).contains(&id)
}

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
        let map = format!("0 {base} {RANGE}\n");
        Self::of(&map, &map)
    }

    /// For a directory of the machine's that the sandbox may change: what the directory's owner (`uid`, `gid`) has is the
    /// sandbox user's, and what everybody else in the sandbox makes is stored under ids that nobody on the machine has.
    /// Nothing is root's on both sides, so that no set-user-ID file made inside gives anything to a user of the machine.
    ///
    /// # Errors
    /// Not permitted.
    pub fn of_volume(base: u32, uid: u32, gid: u32) -> io::Result<Self> {
        let map = |owner: u32| {
            format!(
                "{owner} {} 1\n{STORED} {base} {USER}\n{} {} {}\n",
                base + USER,
                STORED + USER + 1,
                base + USER + 1,
                RANGE - USER - 1
            )
        };
        Self::of(&map(uid), &map(gid))
    }

    fn of(uids: &str, gids: &str) -> io::Result<Self> {
        sys::with_user_namespace_child(|pid| {
            fs::write(format!("/proc/{pid}/uid_map"), uids)?;
            fs::write(format!("/proc/{pid}/gid_map"), gids)?;
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
