//! System calls that the `nix` crate does not wrap, each behind a safe function.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use domain::process::PtySize;

/// A path as the kernel wants it.
pub fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Sets an extended attribute; a symlink is not followed.
///
/// # Errors
/// The file system's.
pub fn set_attribute(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: both strings are NUL-terminated, the value's length is its own; all outlive the call.
    let result = unsafe {
        libc::lsetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    check(libc::c_long::from(result)).map(drop)
}

/// Turns -1 into the error that `errno` names.
pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A descriptor of a process that can't be confused with a later one of the same number.
///
/// # Errors
/// The process is gone.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe {
        let fd = check(libc::syscall(libc::SYS_pidfd_open, pid, 0))?;
        Ok(OwnedFd::from_raw_fd(
            i32::try_from(fd).map_err(io::Error::other)?,
        ))
    }
}

/// Sends a signal; a process that is gone already is fine.
///
/// # Errors
/// Not permitted.
pub fn pidfd_signal(process: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the information pointer may be null.
    let result = check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    });
    match result {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

/// Makes the calling *thread* create files as this host id while it keeps every capability. There is no way back that is
/// worth having: call it on a thread that ends soon.
///
/// # Errors
/// Not permitted.
pub fn act_as(id: u32) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    // SAFETY: both calls take and return plain numbers; they concern the calling thread only.
    unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
    }
    let mut header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 of the interface reads and writes two `Data`, and `pid` 0 means the calling thread.
    unsafe {
        check(libc::syscall(
            libc::SYS_capget,
            std::ptr::from_mut(&mut header),
            data.as_mut_ptr(),
        ))?;
        for part in &mut data {
            part.effective = part.permitted;
        }
        check(libc::syscall(
            libc::SYS_capset,
            std::ptr::from_mut(&mut header),
            data.as_ptr(),
        ))?;
    }
    Ok(())
}

/// Writes everything of the file system that holds `file` to its device.
///
/// # Errors
/// `EIO` when the device lost data since the last call.
pub fn syncfs(file: impl AsFd) -> io::Result<()> {
    // SAFETY: no pointers.
    check(libc::c_long::from(unsafe {
        libc::syncfs(file.as_fd().as_raw_fd())
    }))?;
    Ok(())
}

/// Gives a process of its own user namespace to `with` while it lives, then ends it.
///
/// # Errors
/// The kernel allows no user namespace, or what `with` says.
pub fn with_user_namespace_child<T>(with: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
    let flags = libc::c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    // SAFETY: like `fork`, with a null stack; the child makes only async-signal-safe calls until it is killed.
    let pid = unsafe {
        let pid = check(libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0))?;
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            loop {
                libc::pause();
            }
        }
        i32::try_from(pid).map_err(io::Error::other)?
    };
    let result = with(pid);
    // SAFETY: the child is ours and not reaped yet, so the number is still its.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    result
}

/// Takes descriptors 0 and 1 (two sockets) away from everybody else in this process: returns them on higher numbers,
/// leaves `/dev/null` on 0 and 1, and occupies what is free below 10, so that later descriptors stay clear of the numbers
/// that children get.
///
/// # Errors
/// One of them is not open.
pub fn claim_stdio() -> io::Result<[OwnedFd; 2]> {
    let take = |fd: libc::c_int| -> io::Result<OwnedFd> {
        // SAFETY: the duplicate belongs to the result.
        unsafe {
            let fd = check(libc::c_long::from(libc::fcntl(
                fd,
                libc::F_DUPFD_CLOEXEC,
                10,
            )))?;
            Ok(OwnedFd::from_raw_fd(
                i32::try_from(fd).map_err(io::Error::other)?,
            ))
        }
    };
    let sockets = [take(0)?, take(1)?];
    // SAFETY: plain descriptor calls; the fillers belong to nobody, on purpose.
    unsafe {
        loop {
            let null = check(libc::c_long::from(libc::open(
                c"/dev/null".as_ptr(),
                libc::O_RDWR | libc::O_CLOEXEC,
            )))?;
            let null = i32::try_from(null).map_err(io::Error::other)?;
            if null >= 10 {
                libc::dup3(null, 0, libc::O_CLOEXEC);
                libc::dup3(null, 1, libc::O_CLOEXEC);
                libc::close(null);
                return Ok(sockets);
            }
        }
    }
}

/// Sets `O_CLOEXEC` duplicates aside at 10 or above.
///
/// # Errors
/// Too many open files.
pub fn lift(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the result is a new descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::c_long::from(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_DUPFD_CLOEXEC,
            10,
        )))?;
        Ok(OwnedFd::from_raw_fd(
            i32::try_from(fd).map_err(io::Error::other)?,
        ))
    }
}

/// Gives a child, between fork and exec, these descriptors as 3, 4, 5 and so on. They must be 10 or above.
pub fn pass_descriptors(command: &mut std::process::Command, fds: Vec<OwnedFd>) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes only `dup2` calls, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            for (number, fd) in (3..).zip(&fds) {
                check(libc::c_long::from(libc::dup2(fd.as_raw_fd(), number)))?;
            }
            Ok(())
        });
    }
}

/// Lets this process have as many open files as it may. Call it when nothing is started any more that would inherit this.
///
/// # Errors
/// None that is known.
pub fn raise_file_limit() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure has the kernel's layout and outlives both calls.
    unsafe {
        check(libc::c_long::from(libc::getrlimit(
            libc::RLIMIT_NOFILE,
            &mut limit,
        )))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::c_long::from(libc::setrlimit(
            libc::RLIMIT_NOFILE,
            &limit,
        )))?;
    }
    Ok(())
}

/// Sets the size of a terminal; its foreground processes hear of it.
///
/// # Errors
/// Not a terminal.
pub fn set_window_size(terminal: BorrowedFd<'_>, size: PtySize) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure has the kernel's layout and outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(
            terminal.as_raw_fd(),
            libc::TIOCSWINSZ,
            std::ptr::from_ref(&size),
        )
    }))?;
    Ok(())
}

/// Brings up the loopback interface of the calling thread's network namespace.
///
/// # Errors
/// Not permitted.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: the request structure is zeroed, has the kernel's layout, and outlives both calls; the socket is closed.
    unsafe {
        let socket = check(libc::c_long::from(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        )))?;
        let socket = OwnedFd::from_raw_fd(i32::try_from(socket).map_err(io::Error::other)?);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        check(libc::c_long::from(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS,
            &mut request,
        )))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::c_long::from(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS,
            &request,
        )))?;
    }
    Ok(())
}

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// Number of a free loop device (which another process may take meanwhile).
///
/// # Errors
/// The kernel has none.
pub fn loop_get_free(control: BorrowedFd<'_>) -> io::Result<i64> {
    // SAFETY: no pointers.
    check(libc::c_long::from(unsafe {
        libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE)
    }))
}

/// Puts a file behind a loop device that frees itself when its last user is gone.
///
/// # Errors
/// `EBUSY` when another process was faster.
pub fn loop_configure(device: BorrowedFd<'_>, file: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    for (to, from) in config
        .info
        .file_name
        .iter_mut()
        .take(63)
        .zip(name.to_bytes())
    {
        *to = *from;
    }
    // SAFETY: the structure has the kernel's layout and outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            LOOP_CONFIGURE,
            std::ptr::from_ref(&config),
        )
    }))?;
    Ok(())
}

/// Takes the file from behind a loop device.
///
/// # Errors
/// It has none, or is in use.
pub fn loop_clear(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(libc::c_long::from(unsafe {
        libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD)
    }))?;
    Ok(())
}
