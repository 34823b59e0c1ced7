//! PID 1 of every sandbox: a static program without dependencies, compiled by the build script of `execution`.
//!
//! - Standard input is a control pipe whose write end the shim holds. When it ends, so does this process, and with it the
//!   whole PID namespace (dead-man's switch).
//! - The control pipe carries commands: a 32-bit length (native order), then NUL-terminated strings: the number of
//!   arguments, the arguments, then the environment. Each command starts one child with standard input from
//!   `/dev/null` and its output on the FIFOs `/run/ctl/out` and `/run/ctl/err`. FIFOs and not inherited pipes: the OCI
//!   runtime would keep the latter open as well, and their end would never be seen.
//! - Descriptor 3 is the status pipe: records of eight bytes, kind and value (two native 32-bit integers): kind 1 = ready,
//!   2 = the child has ended with this wait status, 3 = the child could not be started (errno), 4 = it was started and
//!   holds the FIFOs.
//! - Orphans are reaped. TERM, INT and HUP end the sandbox.

use std::ffi::{c_char, c_int, c_ulong, c_void};

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

#[repr(C)]
struct SigSet {
    words: [c_ulong; 16],
}

unsafe extern "C" {
    fn _exit(code: c_int) -> !;
    fn close(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn fork() -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn setsid() -> c_int;
    fn sigaddset(set: *mut SigSet, signal: c_int) -> c_int;
    fn sigemptyset(set: *mut SigSet) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn signalfd(fd: c_int, mask: *const SigSet, flags: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SigSet, old: *mut SigSet) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize;
    fn __errno_location() -> *mut c_int;
}

const CONTROL: c_int = 0;
const STATUS: c_int = 3;
const F_SETFD: c_int = 2;
const F_SETFL: c_int = 4;
const FD_CLOEXEC: c_int = 1;
const O_RDWR: c_int = 2;
const O_WRONLY: c_int = 1;
const O_NONBLOCK: c_int = 0o4_000;
const O_CLOEXEC: c_int = 0o2_000_000;
const POLLIN: i16 = 1;
const POLLHUP: i16 = 0x10;
const POLLERR: i16 = 8;
const PR_SET_DUMPABLE: c_int = 4;
const SIGHUP: c_int = 1;
const SIGINT: c_int = 2;
const SIGPIPE: c_int = 13;
const SIGTERM: c_int = 15;
const SIGCHLD: c_int = 17;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const SIG_DFL: usize = 0;
const WNOHANG: c_int = 1;
/// Size of the kernel's `signalfd_siginfo`; its first field is the signal's number.
const SIGINFO_BYTES: usize = 128;
/// Largest command that is believed.
const COMMAND_MAX: usize = 4 * 1024 * 1024;

fn report(kind: i32, value: i32) {
    let mut record = [0_u8; 8];
    record[..4].copy_from_slice(&kind.to_ne_bytes());
    record[4..].copy_from_slice(&value.to_ne_bytes());
    // SAFETY: the buffer outlives the call; a record is smaller than PIPE_BUF, so it is written whole or not at all.
    unsafe { write(STATUS, record.as_ptr().cast(), record.len()) };
}

/// Reads exactly; `None` when the pipe ended.
fn read_exact(count: usize) -> Option<Vec<u8>> {
    let mut data = vec![0_u8; count];
    let mut done = 0;
    while done < count {
        // SAFETY: the pointer and the length stay inside `data`.
        let got = unsafe { read(CONTROL, data[done..].as_mut_ptr().cast(), count - done) };
        match got {
            1.. => done += got as usize,
            0 => return None,
            // SAFETY: errno of this thread.
            _ if unsafe { *__errno_location() } == 4 => {}
            _ => return None,
        }
    }
    Some(data)
}

/// Opens a FIFO for the child's output, without waiting for a reader that is not there.
fn output(path: &std::ffi::CStr) -> Option<c_int> {
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = unsafe { open(path.as_ptr(), O_WRONLY | O_NONBLOCK | O_CLOEXEC) };
    if fd < 0 {
        // SAFETY: errno of this thread.
        report(3, unsafe { *__errno_location() });
        return None;
    }
    // SAFETY: an open descriptor; children expect writes that wait.
    unsafe { fcntl(fd, F_SETFL, 0) };
    Some(fd)
}

/// Reads one command and starts it; `None` when the control pipe ended or makes no sense.
fn command(old_mask: &SigSet) -> Option<c_int> {
    let length = u32::from_ne_bytes(read_exact(4)?.try_into().ok()?) as usize;
    if length > COMMAND_MAX {
        return None;
    }
    let data = read_exact(length)?;
    let mut strings = data.split_inclusive(|byte| *byte == 0).filter(|s| s.last() == Some(&0));
    let count: usize = std::str::from_utf8(strings.next()?).ok()?.trim_end_matches('\0').parse().ok()?;
    let mut argv: Vec<*const c_char> = strings.by_ref().take(count).map(|s| s.as_ptr().cast()).collect();
    let mut env: Vec<*const c_char> = strings.map(|s| s.as_ptr().cast()).collect();
    let path = *argv.first()?;
    argv.push(std::ptr::null());
    env.push(std::ptr::null());
    let (Some(out), Some(err)) = (output(c"/run/ctl/out"), output(c"/run/ctl/err")) else {
        return Some(0);
    };
    // SAFETY: this process has one thread, so the child may run ordinary code; all pointers lie in `data`, which the
    // child has a copy of.
    unsafe {
        let pid = fork();
        if pid != 0 {
            close(out);
            close(err);
            report(4, pid);
            return Some(pid);
        }
        setsid();
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        // The memory limit shall take the children before this process.
        let score = open(c"/proc/self/oom_score_adj".as_ptr(), O_WRONLY | O_CLOEXEC);
        if score >= 0 {
            write(score, b"300".as_ptr().cast(), 3);
            close(score);
        }
        let null = open(c"/dev/null".as_ptr(), O_RDWR | O_CLOEXEC);
        if null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 {
            report(3, *__errno_location());
            _exit(127);
        }
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, old_mask, std::ptr::null_mut());
        execve(path, argv.as_ptr(), env.as_ptr());
        report(3, *__errno_location());
        _exit(127)
    }
}

fn main() {
    let mut old = SigSet { words: [0; 16] };
    let mut wanted = SigSet { words: [0; 16] };
    // SAFETY: plain system calls on values that live until the end of `main`.
    let signals = unsafe {
        // Processes of the same user must not read or steer PID 1.
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        fcntl(STATUS, F_SETFD, FD_CLOEXEC);
        sigemptyset(&mut wanted);
        for number in [SIGCHLD, SIGTERM, SIGINT, SIGHUP] {
            sigaddset(&mut wanted, number);
        }
        sigprocmask(SIG_BLOCK, &wanted, &mut old);
        signalfd(-1, &wanted, O_CLOEXEC)
    };
    report(1, 0);
    let mut child = 0;
    loop {
        let mut fds =
            [PollFd { fd: CONTROL, events: POLLIN, revents: 0 }, PollFd { fd: signals, events: POLLIN, revents: 0 }];
        // SAFETY: the array has two elements.
        if unsafe { poll(fds.as_mut_ptr(), 2, -1) } < 0 {
            continue;
        }
        if fds[1].revents & POLLIN != 0 {
            let mut info = [0_u8; SIGINFO_BYTES];
            // SAFETY: the buffer has the size of one record.
            let got = unsafe { read(signals, info.as_mut_ptr().cast(), info.len()) };
            let number = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            if got > 0 && number != SIGCHLD {
                // SAFETY: ends the process.
                unsafe { _exit(128 + number) };
            }
            loop {
                let mut status = 0;
                // SAFETY: `status` is valid for writing.
                let pid = unsafe { waitpid(-1, &mut status, WNOHANG) };
                if pid <= 0 {
                    break;
                }
                if pid == child {
                    child = 0;
                    report(2, status);
                }
            }
        }
        if fds[0].revents & (POLLIN | POLLHUP | POLLERR) != 0 {
            match command(&old) {
                Some(pid) => child = pid,
                // SAFETY: ends the process.
                None => unsafe { _exit(0) },
            }
        }
    }
}
