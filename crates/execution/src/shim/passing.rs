//! Descriptors on their way between processes, and pipes whose ends inside belong to the sandbox's user.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::{
    cmsg_space,
    errno::Errno,
    fcntl::OFlag,
    sys::{
        socket::{
            AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
            recvmsg, sendmsg, socketpair,
        },
        stat::{Mode, fchmod},
    },
    unistd::{Gid, Uid, fchown, pipe2},
};
use tokio::io::unix::AsyncFd;

use crate::oci::config_json::USER;

/// A socket pair that keeps messages apart, for handing descriptors over.
///
/// # Errors
/// Too many open files.
pub fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

/// Sends bytes with descriptors attached to the first of them, without waiting; the number of bytes that went.
///
/// # Errors
/// `WouldBlock`, or the other side is gone.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let attached = [ControlMessage::ScmRights(&raw)];
    let attached: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &attached };
    Ok(sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        attached,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        None,
    )?)
}

/// Receives bytes and the descriptors attached to them, without waiting; 0 bytes: the other side is gone.
///
/// # Errors
/// `WouldBlock`, or the socket broke.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let mut space = cmsg_space!([i32; 1]);
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut received = None;
    for attached in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = attached {
            for fd in fds {
                // SAFETY: the kernel has just made these descriptors for this process; nobody else owns them.
                received = Some(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Ok((message.bytes, received))
}

/// A pipe one end of which goes into the sandbox: its user can open it again by way of `/dev/stdout` and the like.
///
/// # Errors
/// Too many open files.
pub fn pipe(base: u32) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
    let user = base + USER;
    // One owner for both ends: a pipe has one inode.
    fchown(&read, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?;
    fchmod(&read, Mode::from_bits_truncate(0o666))?;
    Ok((read, write))
}

/// Makes reads and writes on it return at once.
fn never_wait(fd: impl AsFd) -> io::Result<()> {
    let flags = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_GETFL)?;
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Watches a descriptor on which nothing waits from then on. Not for an end that goes inside: its other users
/// would see that too.
///
/// # Errors
/// Not a descriptor that can be watched.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    never_wait(&fd)?;
    // SAFETY: an `OwnedFd` gives the same open descriptor for as long as it lives, which is as long as the `AsyncFd` does.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}

/// Reads into the buffer.
///
/// # Errors
/// As `read`; the end of a terminal whose other side is closed is an end like that of a pipe.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    match nix::unistd::read(fd, buffer) {
        Err(Errno::EIO) => Ok(0),
        other => Ok(other?),
    }
}
