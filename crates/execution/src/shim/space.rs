//! Room on the machine's disk: what is free, less what has been promised to sandboxes and to files that are fetched for
//! them and not been taken yet, less what stays in reserve. Each sandbox has a process of its own, so promises are read
//! from the disk: what is being made has its whole size at once, and its blocks one after the other.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::statvfs::statvfs,
};

use super::kept::DISK;
use crate::oci::FETCHED;

/// How often the room is looked at while something is written, in bytes.
const LOOK_EVERY: u64 = 32 << 20;
/// Unit in which a file system gives room, in bytes.
const BLOCK: u64 = 512;

/// Where room is needed.
#[derive(Debug, Clone)]
pub struct Space {
    /// A directory of the file system in question.
    pub dir: PathBuf,
    /// Directories of sandboxes with their disks' images; beside it lie the fetched files.
    pub sandboxes: PathBuf,
    /// Bytes that stay free.
    pub reserve: u64,
}

impl Space {
    /// Bytes that can be taken now.
    ///
    /// # Errors
    /// The file system does not say.
    pub fn available(&self) -> io::Result<u64> {
        let stat = statvfs(&self.dir)?;
        let free = stat.blocks_available() * stat.fragment_size();
        let taken = self.promised()?.saturating_add(self.reserve);
        Ok(free.saturating_sub(taken))
    }

    /// What the sandboxes' disks and files on the same file system have yet to take.
    fn promised(&self) -> io::Result<u64> {
        let device = fs::metadata(&self.dir)?.dev();
        let mut sum = 0_u64;
        let paths = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path())
        };
        let disks = paths(&self.sandboxes).map(|sandbox| sandbox.join(DISK));
        let files = paths(&self.sandboxes.with_file_name(FETCHED));
        for path in disks.chain(files) {
            // Sandboxes come and go meanwhile.
            if let Ok(made) = fs::metadata(path)
                && made.dev() == device
            {
                let missing = made.len().saturating_sub(made.blocks() * BLOCK);
                sum = sum.saturating_add(missing);
            }
        }
        Ok(sum)
    }

    /// Whether this much can be taken now.
    ///
    /// # Errors
    /// `ENOSPC` when not.
    pub fn need(&self, bytes: u64) -> io::Result<()> {
        if self.available()? < bytes {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    /// Held while room is looked at and promised, by one process of the machine at a time.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lock(&self) -> io::Result<Flock<File>> {
        let file = File::create(self.sandboxes.with_file_name("promises.lock"))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
    }

    /// Watches the room while something is written.
    pub fn watch(&self) -> impl FnMut(u64) -> io::Result<()> + '_ {
        let mut unlooked = 0_u64;
        move |written| {
            unlooked += written;
            if unlooked < LOOK_EVERY {
                return Ok(());
            }
            unlooked = 0;
            // Something must be left: with none, the next bytes already come out of the reserve.
            self.need(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sandboxes_were_promised_and_have_not_taken_is_not_available() {
        let dir = tempfile::tempdir().unwrap();
        let space = Space {
            dir: dir.path().to_owned(),
            sandboxes: dir.path().join("sandboxes"),
            reserve: 1 << 20,
        };
        let before = space.available().unwrap();
        let of_it = space.sandboxes.join("one");
        fs::create_dir_all(&of_it).unwrap();
        let promised = before / 2;
        let image = File::create(of_it.join(DISK)).unwrap();
        image.set_len(promised).unwrap();
        // Others write to this disk, too.
        let after = space.available().unwrap();
        assert!(
            after.abs_diff(before - promised) < before / 4,
            "{before} {promised} {after}"
        );
        let fetched = dir.path().join(FETCHED);
        fs::create_dir(&fetched).unwrap();
        let file = File::create(fetched.join("1.0")).unwrap();
        file.set_len(before / 8).unwrap();
        let with_file = space.available().unwrap();
        assert!(
            with_file.abs_diff(after - before / 8) < before / 16,
            "{before} {after} {with_file}"
        );
        fs::remove_dir_all(fetched).unwrap();
        assert!(space.need(before / 4).is_ok());
        let short = space.need(before / 8 * 7).unwrap_err();
        assert_eq!(short.raw_os_error(), Some(libc::ENOSPC));
        let greedy = Space {
            reserve: u64::MAX,
            ..space
        };
        assert_eq!(greedy.available().unwrap(), 0);
        let mut watch = greedy.watch();
        assert!(watch(LOOK_EVERY - 1).is_ok(), "not at every byte");
        assert_eq!(watch(1).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
}
