//! The sandbox's disk: a preallocated ext4 image behind a loop device that frees itself.
//!
//! Preallocated, because with a sparse image a full host loses the sandbox's data without any error for programs that do
//! not call fsync; never mounted with `discard`, which would give the reservation back.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    fcntl::{FallocateFlags, fallocate},
    mount::{MsFlags, mount},
    sys::statvfs::statvfs,
};

use super::sys;
use crate::runtime::RuntimeError;

/// Makes the image, its file system and the loop device, and mounts it at `target`.
///
/// # Errors
/// [`RuntimeError::Capacity`] when the host's disk has no room.
pub fn create(image: &Path, bytes: u64, reserve: u64, target: &Path) -> Result<(), RuntimeError> {
    let file = allocate(image, bytes, reserve)?;
    make_file_system(image)?;
    let device = attach(&file).map_err(|error| failed("attaching the loop device", &error))?;
    fs::create_dir_all(target).map_err(|error| failed("making the mount point", &error))?;
    mount(
        Some(&device.1),
        target,
        Some("ext4"),
        MsFlags::MS_NOATIME | MsFlags::MS_NODEV,
        Some("errors=remount-ro"),
    )
    .map_err(|error| failed("mounting the disk", &error.into()))
}

fn failed(what: &str, error: &io::Error) -> RuntimeError {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            RuntimeError::Capacity(format!("the machine's disk is full ({what})"))
        }
        _ => RuntimeError::Other(format!("{what}: {error}")),
    }
}

/// Reserves every byte of the image, leaving `reserve` to the host.
fn allocate(image: &Path, bytes: u64, reserve: u64) -> Result<File, RuntimeError> {
    let dir = image.parent().unwrap_or(Path::new("/"));
    let free = statvfs(dir)
        .map(|stat| stat.blocks_available() * stat.fragment_size())
        .map_err(|error| failed("reading the free space", &error.into()))?;
    if free < bytes.saturating_add(reserve) {
        return Err(RuntimeError::Capacity(format!(
            "the machine's disk has {} free, and the sandbox needs {} besides {} that stay in reserve",
            gib(free),
            gib(bytes),
            gib(reserve)
        )));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(image)
        .map_err(|error| failed("making the disk image", &error))?;
    let length =
        i64::try_from(bytes).map_err(|_| RuntimeError::Other("the disk is too large".into()))?;
    fallocate(&file, FallocateFlags::empty(), 0, length)
        .map_err(|error| failed("reserving the disk", &error.into()))?;
    Ok(file)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// No journal (the disk never outlives a crash), no reserve for root (full is full for everybody), enough inodes for
/// trees of small files.
fn make_file_system(image: &Path) -> Result<(), RuntimeError> {
    let output = Command::new("mkfs.ext4")
        .args([
            "-q",
            "-F",
            "-m",
            "0",
            "-i",
            "8192",
            "-O",
            "^has_journal,^resize_inode",
        ])
        .args(["-E", "lazy_itable_init=1,nodiscard"])
        .arg(image)
        .env("PATH", super::HOST_PATH)
        .output()
        .map_err(|error| RuntimeError::Other(format!("starting mkfs.ext4: {error}")))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(RuntimeError::Other(format!(
            "mkfs.ext4: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
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
