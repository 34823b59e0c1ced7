//! Room on the machine's disk: what is free, less what has been promised to sandboxes and not been taken yet, less what
//! stays in reserve. Each sandbox has a process of its own, so promises are read from the disk: an image that is being
//! made has its whole size at once, and its blocks one after the other.

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

/// How often the room is looked at while something is written, in bytes.
const LOOK_EVERY: u64 = 32 << 20;
/// Unit in which a file system gives room, in bytes.
const BLOCK: u64 = 512;

/// Where room is needed.
#[derive(Debug, Clone)]
pub struct Space {
    /// A directory of the file system in question.
    pub dir: PathBuf,
    /// Directories of sandboxes with their disks' images.
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

    /// What the sandboxes' disks on the same file system have yet to take.
    fn promised(&self) -> io::Result<u64> {
        let device = fs::metadata(&self.dir)?.dev();
        let mut sum = 0_u64;
        for entry in fs::read_dir(&self.sandboxes).into_iter().flatten() {
            let image = entry.and_then(|entry| fs::metadata(entry.path().join(DISK)));
            // Sandboxes come and go meanwhile.
            if let Ok(image) = image
                && image.dev() == device
            {
                let missing = image.len().saturating_sub(image.blocks() * BLOCK);
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

/// Held while room is looked at and promised, by one process of the machine at a time.
///
/// # Errors
/// Those of the file system.
pub fn lock(dir: &Path) -> io::Result<Flock<File>> {
    fs::create_dir_all(dir)?;
    let file = File::create(dir.join("promises.lock"))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
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
