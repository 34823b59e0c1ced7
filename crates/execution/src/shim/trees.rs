//! Mounts by descriptor: cloned, given attributes, and attached, each behind a safe function.
#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::Path,
};

use super::sys::{c_path, check};

/// `AT_EMPTY_PATH`, `AT_FDCWD` come from libc; these do not on every version of it.
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC as libc::c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Argument of `mount_setattr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// A new, unattached mount of the directory, with ids translated by the user namespace.
///
/// # Errors
/// The kernel or the file system can't map ids, or the path is wrong.
pub fn id_mapped_clone(dir: &Path, userns: BorrowedFd<'_>, read_only: bool) -> io::Result<OwnedFd> {
    let tree = open_clone(dir)?;
    set_attributes(
        tree.as_fd(),
        userns,
        if read_only { MOUNT_ATTR_RDONLY } else { 0 },
    )?;
    Ok(tree)
}

/// As [`id_mapped_clone`], of a directory or file that is somebody else's: no set-user-ID bit in it counts.
///
/// # Errors
/// As [`id_mapped_clone`].
pub fn foreign_clone(path: &Path, userns: BorrowedFd<'_>, read_only: bool) -> io::Result<OwnedFd> {
    let tree = open_clone(path)?;
    let read_only = if read_only { MOUNT_ATTR_RDONLY } else { 0 };
    set_attributes(tree.as_fd(), userns, MOUNT_ATTR_NOSUID | read_only)?;
    Ok(tree)
}

/// A new, unattached mount of what the path names, without what is mounted below it.
fn open_clone(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated and outlives the call; the result is a new descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_open_tree,
            libc::AT_FDCWD,
            path.as_ptr(),
            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC,
        ))?;
        Ok(OwnedFd::from_raw_fd(
            i32::try_from(fd).map_err(io::Error::other)?,
        ))
    }
}

/// Translates the ids of an unattached mount and gives it attributes besides `nodev`.
fn set_attributes(tree: BorrowedFd<'_>, userns: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    let attr = MountAttr {
        set: MOUNT_ATTR_IDMAP | MOUNT_ATTR_NODEV | attributes,
        clear: 0,
        propagation: 0,
        userns_fd: u64::try_from(userns.as_raw_fd()).map_err(io::Error::other)?,
    };
    // SAFETY: `attr` has the layout and size that are passed, and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(&attr),
            size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

/// Attaches an unattached mount.
///
/// # Errors
/// The target is not a directory, or the mount is attached already.
pub fn attach(mount: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    move_mount(mount, libc::AT_FDCWD, &c_path(target)?, 0)
}

/// Attaches an unattached mount at exactly what is open.
///
/// # Errors
/// One is a directory and the other is not, or the mount is attached already.
pub fn attach_at(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    move_mount(mount, target.as_raw_fd(), c"", MOVE_MOUNT_T_EMPTY_PATH)
}

fn move_mount(
    mount: BorrowedFd<'_>,
    place: libc::c_int,
    target: &CStr,
    flags: libc::c_uint,
) -> io::Result<()> {
    // SAFETY: both paths are NUL-terminated and outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            place,
            target.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | flags,
        )
    })?;
    Ok(())
}
