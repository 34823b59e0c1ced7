//! What the init takes from the kernel and the C library.

use std::ffi::{c_char, c_int, c_ulong, c_void};

#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

#[repr(C)]
pub struct SigSet {
    pub words: [c_ulong; 16],
}

#[repr(C)]
pub struct IoVec {
    pub base: *mut c_void,
    pub length: usize,
}

/// `struct msghdr`.
#[repr(C)]
pub struct Message {
    pub name: *mut c_void,
    pub name_length: u32,
    pub parts: *mut IoVec,
    pub part_count: usize,
    pub control: *mut c_void,
    pub control_length: usize,
    pub flags: c_int,
}

/// `struct cmsghdr` with room for descriptors.
#[repr(C)]
pub struct Attached {
    pub length: usize,
    pub level: c_int,
    pub kind: c_int,
    pub fds: [c_int; FDS_MAX],
}

/// The kernel's `struct winsize`.
#[repr(C)]
pub struct WindowSize {
    pub rows: u16,
    pub cols: u16,
    pub x: u16,
    pub y: u16,
}

/// The kernel's `struct termios`.
#[repr(C)]
pub struct Termios {
    pub input: u32,
    pub output: u32,
    pub control: u32,
    pub local: u32,
    pub line: u8,
    pub characters: [u8; 19],
}

unsafe extern "C" {
    pub fn _exit(code: c_int) -> !;
    pub fn chdir(path: *const c_char) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    pub fn dup2(from: c_int, to: c_int) -> c_int;
    pub fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    pub fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    pub fn fork() -> c_int;
    pub fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn pipe2(fds: *mut c_int, flags: c_int) -> c_int;
    pub fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    pub fn prctl(option: c_int, ...) -> c_int;
    pub fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    pub fn recvmsg(fd: c_int, message: *mut Message, flags: c_int) -> isize;
    pub fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize;
    pub fn setsid() -> c_int;
    pub fn sigaddset(set: *mut SigSet, signal: c_int) -> c_int;
    pub fn sigemptyset(set: *mut SigSet) -> c_int;
    pub fn signal(signal: c_int, handler: usize) -> usize;
    pub fn signalfd(fd: c_int, mask: *const SigSet, flags: c_int) -> c_int;
    pub fn sigprocmask(how: c_int, set: *const SigSet, old: *mut SigSet) -> c_int;
    pub fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    pub fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize;
    pub fn __errno_location() -> *mut c_int;
}

pub const SHIM: c_int = 3;
pub const F_SETFD: c_int = 2;
pub const FD_CLOEXEC: c_int = 1;
pub const O_RDWR: c_int = 2;
pub const O_WRONLY: c_int = 1;
pub const O_NOCTTY: c_int = 0o400;
pub const O_NONBLOCK: c_int = 0o4_000;
pub const O_CLOEXEC: c_int = 0o2_000_000;
pub const POLLIN: i16 = 1;
pub const POLLHUP: i16 = 0x10;
pub const POLLERR: i16 = 8;
pub const PR_SET_DUMPABLE: c_int = 4;
pub const SIGHUP: c_int = 1;
pub const SIGINT: c_int = 2;
pub const SIGPIPE: c_int = 13;
pub const SIGTERM: c_int = 15;
pub const SIGCHLD: c_int = 17;
pub const SIG_BLOCK: c_int = 0;
pub const SIG_SETMASK: c_int = 2;
pub const SIG_DFL: usize = 0;
pub const WNOHANG: c_int = 1;
pub const ENOENT: c_int = 2;
pub const EINTR: c_int = 4;
pub const ENOEXEC: c_int = 8;
pub const EACCES: c_int = 13;
pub const ENOTDIR: c_int = 20;
pub const SOL_SOCKET: c_int = 1;
pub const SCM_RIGHTS: c_int = 1;
pub const MSG_NOSIGNAL: c_int = 0x4000;
pub const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
pub const TCGETS: c_ulong = 0x5401;
pub const TCSETS: c_ulong = 0x5402;
pub const TIOCSCTTY: c_ulong = 0x540E;
pub const TIOCSWINSZ: c_ulong = 0x5414;
pub const TIOCGPTPEER: c_ulong = 0x5441;
pub const TIOCSPTLCK: c_ulong = 0x4004_5431;
pub const IUTF8: u32 = 0o40_000;
/// Most descriptors of one command.
pub const FDS_MAX: usize = 4;
