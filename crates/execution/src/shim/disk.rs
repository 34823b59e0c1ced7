//! The sandbox's disk: a preallocated ext4 image behind a loop device that frees itself.
//!
//! Preallocated, because with a sparse image a full host loses the sandbox's data without any error for programs that do
//! not call fsync; never mounted with `discard`, which would give the reservation back.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
    mount::{MsFlags, mount},
    sys::statvfs::statvfs,
    unistd::{Whence, lseek64},
};

use super::{space::Space, sys};
use crate::runtime::RuntimeError;

/// A disk to make.
pub struct New<'a> {
    /// Where its image goes.
    pub image: &'a Path,
    /// Its size.
    pub bytes: u64,
    /// Bytes that the host's disk keeps free besides.
    pub reserve: u64,
    /// Directories of all sandboxes: what their disks have yet to take is spoken for.
    pub sandboxes: &'a Path,
    /// Where an empty file system of each size that was needed before lies.
    pub templates: &'a Path,
    /// It outlives its sandbox, and a crash of the machine.
    pub keep: bool,
}

/// Makes the image, its file system and the loop device, and mounts it at `target`. Nothing of a member's may run before
/// the result's reservation is complete: it goes on beside what else a sandbox needs.
///
/// # Errors
/// [`RuntimeError::Capacity`] when the host's disk has no room.
pub fn create(new: &New<'_>, target: &Path) -> Result<Reservation, RuntimeError> {
    let bytes = new.bytes;
    let file = make_image(new)?;
    let template = template(new.templates, bytes, new.keep)?;
    copy_data(&template, &file).map_err(|error| failed("making the file system", &error))?;
    mount_image(&file, target, new.keep)?;
    let reserving = file
        .try_clone()
        .map_err(|error| failed("making the disk image", &error))?;
    let reservation = Reservation(thread::spawn(move || allocate(&reserving, bytes)));
    Ok(reservation)
}

/// Mounts a disk that was kept, after a crash as after an orderly end.
///
/// # Errors
/// It is damaged beyond what a journal mends.
pub fn reopen(image: &Path, target: &Path) -> Result<Reservation, RuntimeError> {
    // Replays the journal; on a disk that was unmounted it looks at one block.
    let checked = Command::new("e2fsck")
        .arg("-p")
        .arg(image)
        .env("PATH", super::HOST_PATH)
        .output()
        .map_err(|error| failed("starting e2fsck", &error))?;
    // 0: clean, 1: mended.
    if !matches!(checked.status.code(), Some(0 | 1)) {
        return Err(RuntimeError::Other(format!(
            "the kept disk is damaged: {}",
            String::from_utf8_lossy(&checked.stdout).trim()
        )));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(image)
        .map_err(|error| failed("opening the kept disk", &error))?;
    mount_image(&file, target, true)?;
    // It has all its blocks.
    Ok(Reservation(thread::spawn(|| Ok(()))))
}

fn mount_image(image: &File, target: &Path, keep: bool) -> Result<(), RuntimeError> {
    let device = attach(image).map_err(|error| failed("attaching the loop device", &error))?;
    fs::create_dir_all(target).map_err(|error| failed("making the mount point", &error))?;
    // The image reads as zeroes where nothing was written: inode tables need no zeroing in the background. And what never
    // outlives a crash of the machine needs no flush: none of a sandbox's shall wait for the host's disk, nor its end.
    let options = if keep {
        "errors=remount-ro,noinit_itable"
    } else {
        "errors=remount-ro,noinit_itable,barrier=0"
    };
    mount(
        Some(&device.1),
        target,
        Some("ext4"),
        MsFlags::MS_NOATIME | MsFlags::MS_NODEV,
        Some(options),
    )
    .map_err(|error| failed("mounting the disk", &error.into()))
}

/// The disk's blocks being reserved.
pub struct Reservation(thread::JoinHandle<io::Result<()>>);

impl Reservation {
    /// Waits until every byte is reserved.
    ///
    /// # Errors
    /// [`RuntimeError::Capacity`] when the host's disk has no room.
    pub fn complete(self) -> Result<(), RuntimeError> {
        let reserved = self
            .0
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("reserving broke off")));
        reserved.map_err(|error| failed("reserving the disk", &error))
    }
}

/// In pieces: a file that is being reserved cannot be written, and the mount writes to it.
fn allocate(image: &File, bytes: u64) -> io::Result<()> {
    const PIECE: u64 = 256 << 20;
    let mut at = 0;
    while at < bytes {
        let length = PIECE.min(bytes - at);
        let number = |value: u64| i64::try_from(value).map_err(io::Error::other);
        fallocate(image, FallocateFlags::empty(), number(at)?, number(length)?)?;
        at += length;
    }
    Ok(())
}

fn failed(what: &str, error: &io::Error) -> RuntimeError {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            RuntimeError::Capacity(format!("the machine's disk is full ({what})"))
        }
        _ => RuntimeError::Other(format!("{what}: {error}")),
    }
}

/// Makes the image, still without blocks, if the host keeps its reserve free once this one and all others have theirs. From
/// here on its size is promised: whoever looks next takes it into account (see [`Space`]).
fn make_image(new: &New<'_>) -> Result<File, RuntimeError> {
    let unread = |error| failed("reading the free space", &error);
    let space = Space {
        dir: new.image.parent().unwrap_or(Path::new("/")).to_owned(),
        sandboxes: new.sandboxes.to_owned(),
        reserve: new.reserve,
    };
    let _one = space.lock().map_err(unread)?;
    let available = space.available().map_err(unread)?;
    if available < new.bytes {
        return Err(RuntimeError::Capacity(format!(
            "the machine's disk has {} for sandboxes besides what others were promised and {} that stay in reserve, and this one needs {}",
            gib(available),
            gib(new.reserve),
            gib(new.bytes)
        )));
    }
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new.image)
        .and_then(|file| file.set_len(new.bytes).map(|()| file));
    made.map_err(|error| failed("making the disk image", &error))
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// An empty file system of this size: a sparse file of a few hundred KiB, made once. Copying it takes a tenth of the
/// time of making one. A journal only for a disk that outlives crashes, no reserve for root (full is full for everybody),
/// enough inodes for trees of small files.
fn template(dir: &Path, bytes: u64, keep: bool) -> Result<File, RuntimeError> {
    const OPTIONS: [&str; 6] = ["-q", "-F", "-m", "0", "-i", "8192"];
    let (word, journal): (&str, &[&str]) = if keep {
        (
            "kept.",
            &[
                "-O",
                "has_journal,^resize_inode",
                "-J",
                "size=16",
                "-E",
                "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
            ],
        )
    } else {
        (
            "",
            &[
                "-O",
                "^has_journal,^resize_inode",
                "-E",
                "lazy_itable_init=1,nodiscard",
            ],
        )
    };
    let path = dir.join(format!("{bytes}.{word}ext4"));
    if let Ok(file) = File::open(&path) {
        return Ok(file);
    }
    let partial = dir.join(format!("{bytes}.{word}{}.partial", std::process::id()));
    let made = || -> io::Result<File> {
        fs::create_dir_all(dir)?;
        File::create(&partial)?.set_len(bytes)?;
        let output = Command::new("mkfs.ext4")
            .args(OPTIONS)
            .args(journal)
            .arg(&partial)
            .env("PATH", super::HOST_PATH)
            .output()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("starting mkfs.ext4: {error}"))
            })?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let file = File::open(&partial)?;
        file.sync_all()?;
        // Somebody else may have been faster, with the same result.
        fs::rename(&partial, &path)?;
        Ok(file)
    };
    made().map_err(|error| {
        let _ = fs::remove_file(&partial);
        failed("making a file system", &error)
    })
}

/// Copies what a sparse file holds to the same places of another.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let size = i64::try_from(from.metadata()?.len()).map_err(io::Error::other)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut at = 0;
    while at < size {
        at = match lseek64(from, at, Whence::SeekData) {
            Ok(start) => start,
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = lseek64(from, at, Whence::SeekHole)?;
        while at < end {
            let position = u64::try_from(at).map_err(io::Error::other)?;
            let want = usize::try_from(end - at)
                .unwrap_or(buffer.len())
                .min(buffer.len());
            from.read_exact_at(&mut buffer[..want], position)?;
            to.write_all_at(&buffer[..want], position)?;
            at += i64::try_from(want).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// A loop device with the image behind it. The open device keeps it alive until the mount does.
fn attach(image: &File) -> io::Result<(File, PathBuf)> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // Another process may take the free device between the two calls.
    for _ in 0..64 {
        let number = sys::loop_get_free(control.as_fd())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        match sys::loop_configure(device.as_fd(), image.as_fd(), &CString::default()) {
            Ok(()) => return Ok((device, path)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no loop device stayed free"))
}

/// Bytes used and size, as the file system says.
pub fn usage(mounted: &Path) -> (u64, u64) {
    statvfs(mounted).map_or((0, 0), |stat| {
        let unit = stat.fragment_size();
        (
            (stat.blocks() - stat.blocks_free()) * unit,
            stat.blocks() * unit,
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::shim::kept::DISK;

    #[test]
    fn of_two_starts_at_once_that_only_one_has_room_for_one_is_refused_clearly() {
        let dir = tempfile::tempdir().unwrap();
        let (sandboxes, templates) = (dir.path().join("sandboxes"), dir.path().join("disks"));
        let stat = statvfs(dir.path()).unwrap();
        // Each has room for itself, and none takes a block of it here.
        let bytes = stat.blocks_available() * stat.fragment_size() / 5 * 3;
        let start = |name: &str, barrier: &Barrier| {
            let of_it = sandboxes.join(name);
            fs::create_dir_all(&of_it).unwrap();
            barrier.wait();
            make_image(&New {
                image: &of_it.join(DISK),
                bytes,
                reserve: 1 << 20,
                sandboxes: &sandboxes,
                templates: &templates,
                keep: false,
            })
        };
        for round in 0..20 {
            let barrier = Barrier::new(2);
            let results = thread::scope(|scope| {
                ["one", "two"]
                    .map(|name| scope.spawn(|| start(name, &barrier)))
                    .map(|running| running.join().unwrap())
            });
            let refused: Vec<String> = results
                .iter()
                .filter_map(|result| result.as_ref().err().map(ToString::to_string))
                .collect();
            assert_eq!(refused.len(), 1, "round {round}: {refused:?}");
            assert!(
                refused[0].contains("others were promised") && refused[0].contains("GiB"),
                "{refused:?}"
            );
            fs::remove_dir_all(&sandboxes).unwrap();
        }
        // What is gone is promised to nobody.
        start("three", &Barrier::new(1)).unwrap();
    }
}
