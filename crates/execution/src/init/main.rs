//! PID 1 of every sandbox: a static program without dependencies, compiled by the build script of `execution`.
//!
//! - Descriptor 3 is a stream socket whose other end the shim holds. When that ends, so does this process, and with it the
//!   whole PID namespace (dead-man's switch). Standard input is not used: some OCI runtimes put a pipe of their own there.
//! - The socket carries commands: a 32-bit length (native order) with descriptors attached, then NUL-terminated strings:
//!   the command's number, flags, rows, columns, directory, the number of arguments, the arguments, the environment.
//!   Flags: `n` standard input is `/dev/null`; `p` a terminal of its own instead of pipes; `g` it enters a cgroup.
//!   Descriptors in order: standard input, output and error (none with `p`, no input with `n`), then with `g` the cgroup's
//!   `cgroup.procs`, opened by the host's root: a process that writes 0 there enters. Passed and not inherited, because
//!   the OCI runtime keeps open what it passes on, and the end of a pipe would never be seen.
//! - It answers with records of twelve bytes, kind, number and value (native 32-bit integers): kind 1 = ready, 2 = the
//!   command has ended with this wait status, 3 = it cannot be executed (errno; 2 follows), 4 = it was started, 5 = its
//!   directory cannot be entered (errno; 2 follows), 6 = its terminal, attached, 7 = it could not be started (errno).
//! - Orphans are reaped. TERM, INT and HUP end the sandbox.

mod kernel;

use std::ffi::{CStr, CString, c_char, c_int};

use kernel::*;

/// Size of a `cmsghdr` without descriptors.
const ATTACHED_HEADER: usize = 16;
/// Size of the kernel's `signalfd_siginfo`; its first field is the signal's number.
const SIGINFO_BYTES: usize = 128;
/// Largest command that is believed.
const COMMAND_MAX: usize = 4 * 1024 * 1024;

const READY: i32 = 1;
const ENDED: i32 = 2;
const NOT_EXECUTED: i32 = 3;
const STARTED: i32 = 4;
const NO_DIRECTORY: i32 = 5;
const TERMINAL: i32 = 6;
const NOT_STARTED: i32 = 7;

type Record = [u8; 12];

fn record(kind: i32, number: i32, value: i32) -> Record {
    let mut record = [0_u8; 12];
    record[..4].copy_from_slice(&kind.to_ne_bytes());
    record[4..8].copy_from_slice(&number.to_ne_bytes());
    record[8..].copy_from_slice(&value.to_ne_bytes());
    record
}

fn report(kind: i32, number: i32, value: i32) {
    let record = record(kind, number, value);
    // SAFETY: the buffer outlives the call; the socket takes a record of this size whole or waits.
    unsafe { write(SHIM, record.as_ptr().cast(), record.len()) };
}

fn errno() -> c_int {
    // SAFETY: errno of this thread.
    unsafe { *__errno_location() }
}

/// Sends the reading and writing end of a terminal.
fn send_terminal(number: i32, fd: c_int) {
    let mut record = record(TERMINAL, number, 0);
    let mut part = IoVec { base: record.as_mut_ptr().cast(), length: record.len() };
    let mut attached =
        Attached { length: ATTACHED_HEADER + 4, level: SOL_SOCKET, kind: SCM_RIGHTS, fds: [fd, 0, 0, 0] };
    let message = Message {
        name: std::ptr::null_mut(),
        name_length: 0,
        parts: &mut part,
        part_count: 1,
        control: std::ptr::from_mut(&mut attached).cast(),
        // As much as `CMSG_SPACE` says for one descriptor.
        control_length: ATTACHED_HEADER + 8,
        flags: 0,
    };
    // SAFETY: everything that the message points to lives until the call is over.
    unsafe { sendmsg(SHIM, &message, MSG_NOSIGNAL) };
}

/// Reads exactly; `None` when the socket ended.
fn read_exact(data: &mut [u8]) -> Option<()> {
    let mut done = 0;
    while done < data.len() {
        // SAFETY: the pointer and the length stay inside `data`.
        let got = unsafe { read(SHIM, data[done..].as_mut_ptr().cast(), data.len() - done) };
        match got {
            1.. => done += got as usize,
            0 => return None,
            _ if errno() == EINTR => {}
            _ => return None,
        }
    }
    Some(())
}

/// Reads a command's length and descriptors; `None` when the socket ended.
fn read_length() -> Option<(usize, Vec<c_int>)> {
    let mut length = [0_u8; 4];
    let mut attached = Attached { length: 0, level: 0, kind: 0, fds: [0; FDS_MAX] };
    let got = loop {
        let mut part = IoVec { base: length.as_mut_ptr().cast(), length: length.len() };
        let mut message = Message {
            name: std::ptr::null_mut(),
            name_length: 0,
            parts: &mut part,
            part_count: 1,
            control: std::ptr::from_mut(&mut attached).cast(),
            control_length: size_of::<Attached>(),
            flags: 0,
        };
        // SAFETY: everything that the message points to lives until the call is over.
        let got = unsafe { recvmsg(SHIM, &mut message, MSG_CMSG_CLOEXEC) };
        if got >= 0 {
            if message.control_length < ATTACHED_HEADER {
                attached.length = 0;
            }
            break got as usize;
        }
        if errno() != EINTR {
            return None;
        }
    };
    if got == 0 {
        return None;
    }
    read_exact(&mut length[got..])?;
    let count = attached.length.saturating_sub(ATTACHED_HEADER) / 4;
    let fds = if attached.level == SOL_SOCKET && attached.kind == SCM_RIGHTS {
        attached.fds[..count.min(FDS_MAX)].to_vec()
    } else {
        Vec::new()
    };
    Some((u32::from_ne_bytes(length) as usize, fds))
}

/// What a command is, its strings still with their NUL.
struct Command<'a> {
    number: i32,
    flags: &'a [u8],
    rows: u16,
    cols: u16,
    directory: &'a CStr,
    argv: Vec<&'a CStr>,
    env: Vec<&'a CStr>,
}

fn parse(data: &[u8]) -> Option<Command<'_>> {
    let mut strings = data.split_inclusive(|byte| *byte == 0).map_while(|s| CStr::from_bytes_with_nul(s).ok());
    fn number<T: std::str::FromStr>(text: &CStr) -> Option<T> {
        text.to_str().ok()?.parse().ok()
    }
    let id = number(strings.next()?)?;
    let flags = strings.next()?.to_bytes();
    let rows = number(strings.next()?)?;
    let cols = number(strings.next()?)?;
    let directory = strings.next()?;
    let count = number(strings.next()?)?;
    let argv: Vec<&CStr> = strings.by_ref().take(count).collect();
    argv.first()?;
    Some(Command { number: id, flags, rows, cols, directory, argv, env: strings.collect() })
}

/// A terminal: the side that the shim gets, and the command's.
fn terminal(rows: u16, cols: u16) -> Option<(c_int, c_int)> {
    let size = WindowSize { rows, cols, x: 0, y: 0 };
    // SAFETY: all pointers live until their call is over; every descriptor is ours.
    unsafe {
        let ours = open(c"/dev/pts/ptmx".as_ptr(), O_RDWR | O_NOCTTY | O_CLOEXEC);
        if ours < 0 {
            return None;
        }
        let unlocked: c_int = 0;
        ioctl(ours, TIOCSPTLCK, &unlocked);
        let theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if theirs < 0 {
            close(ours);
            return None;
        }
        ioctl(theirs, TIOCSWINSZ, &size);
        let mut modes = std::mem::zeroed::<Termios>();
        if ioctl(theirs, TCGETS, &mut modes) == 0 {
            // A character that is erased is a whole one.
            modes.input |= IUTF8;
            ioctl(theirs, TCSETS, &modes);
        }
        Some((ours, theirs))
    }
}

/// Reads one command and starts it; `None` when the socket ended or makes no sense. The number and the process of what was
/// started; a process of 0 is none.
fn command(old_mask: &SigSet, errors: c_int) -> Option<(i32, c_int)> {
    let (length, mut fds) = read_length()?;
    if length > COMMAND_MAX {
        return None;
    }
    let mut data = vec![0_u8; length];
    read_exact(&mut data)?;
    let command = parse(&data)?;
    let number = command.number;
    let has = |flag: u8| command.flags.contains(&flag);
    let refused = |fds: Vec<c_int>, why: c_int| {
        for fd in fds {
            // SAFETY: these are ours.
            unsafe { close(fd) };
        }
        report(NOT_STARTED, number, why);
        Some((number, 0))
    };
    let entry = if has(b'g') { fds.pop() } else { None };
    let mut theirs = None;
    if has(b'p') {
        let Some((shim_side, command_side)) = terminal(command.rows, command.cols) else {
            let why = errno();
            return refused(entry.into_iter().collect(), why);
        };
        send_terminal(number, shim_side);
        // SAFETY: ours; the shim has its own. Left open it would keep the terminal from hanging up.
        unsafe { close(shim_side) };
        fds = vec![command_side; 3];
        theirs = Some(command_side);
    } else if has(b'n') {
        // SAFETY: the path is NUL-terminated.
        let null = unsafe { open(c"/dev/null".as_ptr(), O_RDWR | O_CLOEXEC) };
        if null < 0 {
            let why = errno();
            return refused(fds.into_iter().chain(entry).collect(), why);
        }
        fds.insert(0, null);
    }
    if fds.len() != 3 {
        return None;
    }
    // SAFETY: this process has one thread, so the child may run ordinary code; all pointers lie in `data`, which the
    // child has a copy of.
    let pid = unsafe { fork() };
    if pid == 0 {
        child(&command, &fds, entry, theirs, old_mask, errors);
    }
    let why = errno();
    let ours: Vec<c_int> = if let Some(fd) = theirs { vec![fd] } else { fds };
    let ours = ours.into_iter().chain(entry).collect::<Vec<_>>();
    if pid < 0 {
        return refused(ours, why);
    }
    for fd in ours {
        // SAFETY: these are ours; the child has copies.
        unsafe { close(fd) };
    }
    report(STARTED, number, pid);
    Some((number, pid))
}

/// Becomes the command. Failures go to `errors` and not to the socket: once this process can be looked into by others of
/// its user, it must not have the socket any more.
fn child(
    command: &Command<'_>,
    fds: &[c_int],
    entry: Option<c_int>,
    terminal: Option<c_int>,
    old_mask: &SigSet,
    errors: c_int,
) -> ! {
    let failed = |kind: i32, why: c_int, code: c_int| -> ! {
        let record = record(kind, command.number, why);
        // SAFETY: the buffer outlives the call; a record is smaller than PIPE_BUF, so it is written whole.
        unsafe {
            write(errors, record.as_ptr().cast(), record.len());
            _exit(code)
        }
    };
    // SAFETY: plain system calls on values that live until the process is another program.
    unsafe {
        if let Some(entry) = entry {
            if write(entry, c"0".as_ptr().cast(), 1) < 0 {
                failed(NOT_EXECUTED, errno(), 126);
            }
            close(entry);
        }
        close(SHIM);
        setsid();
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        // The memory limit shall take the children before PID 1.
        let score = open(c"/proc/self/oom_score_adj".as_ptr(), O_WRONLY | O_CLOEXEC);
        if score >= 0 {
            write(score, c"300".as_ptr().cast(), 3);
            close(score);
        }
        if let Some(terminal) = terminal {
            ioctl(terminal, TIOCSCTTY, 0);
        }
        // None of them is below 3: those are open in this process.
        for (to, fd) in (0..).zip(fds) {
            if dup2(*fd, to) < 0 {
                failed(NOT_EXECUTED, errno(), 126);
            }
        }
        if chdir(command.directory.as_ptr()) < 0 {
            failed(NO_DIRECTORY, errno(), 126);
        }
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, old_mask, std::ptr::null_mut());
    }
    let why = execute(command);
    failed(NOT_EXECUTED, why, if why == ENOENT { 127 } else { 126 })
}

/// Executes as a shell does: looks a name without a slash up in `PATH`, and gives a file that is no program to `sh`.
/// Returns what hindered it.
fn execute(command: &Command<'_>) -> c_int {
    let pointers = |strings: &[&CStr]| -> Vec<*const c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&command.argv), pointers(&command.env));
    let name = command.argv[0];
    let attempt = |path: &CStr| -> c_int {
        // SAFETY: all pointers lead to NUL-terminated strings, and both lists end with a null.
        unsafe { execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        let why = errno();
        if why != ENOEXEC {
            return why;
        }
        let mut script = vec![c"sh", path];
        script.extend(&command.argv[1..]);
        let script = pointers(&script);
        // SAFETY: as above.
        unsafe { execve(c"/bin/sh".as_ptr(), script.as_ptr(), env.as_ptr()) };
        errno()
    };
    if name.to_bytes().is_empty() {
        return ENOENT;
    }
    if name.to_bytes().contains(&b'/') {
        return attempt(name);
    }
    let path = command.env.iter().rev().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    let mut denied = false;
    for dir in path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin").split(|byte| *byte == b':') {
        let mut full = if dir.is_empty() { b".".to_vec() } else { dir.to_vec() };
        full.push(b'/');
        full.extend_from_slice(name.to_bytes());
        let Ok(full) = CString::new(full) else { continue };
        match attempt(&full) {
            ENOENT | ENOTDIR => {}
            EACCES => denied = true,
            other => return other,
        }
    }
    if denied { EACCES } else { ENOENT }
}

/// Passes on what children could not do. Reads only what is there.
fn pass_errors(errors: c_int) {
    let mut record: Record = [0; 12];
    // SAFETY: the buffers have the sizes that are passed.
    unsafe {
        while read(errors, record.as_mut_ptr().cast(), record.len()) == record.len() as isize {
            write(SHIM, record.as_ptr().cast(), record.len());
        }
    }
}

/// Reports every child that has ended.
fn reap(children: &mut Vec<(i32, c_int)>) {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        let pid = unsafe { waitpid(-1, &mut status, WNOHANG) };
        if pid <= 0 {
            return;
        }
        if let Some(at) = children.iter().position(|(_, of)| *of == pid) {
            let (number, _) = children.swap_remove(at);
            report(ENDED, number, status);
        }
    }
}

fn main() {
    let mut old = SigSet { words: [0; 16] };
    let mut wanted = SigSet { words: [0; 16] };
    let mut errors = [0; 2];
    // SAFETY: plain system calls on values that live until the end of `main`.
    let signals = unsafe {
        // Processes of the same user must not read or steer PID 1.
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        fcntl(SHIM, F_SETFD, FD_CLOEXEC);
        pipe2(errors.as_mut_ptr(), O_CLOEXEC | O_NONBLOCK);
        sigemptyset(&mut wanted);
        for number in [SIGCHLD, SIGTERM, SIGINT, SIGHUP] {
            sigaddset(&mut wanted, number);
        }
        sigprocmask(SIG_BLOCK, &wanted, &mut old);
        signalfd(-1, &wanted, O_CLOEXEC)
    };
    report(READY, 0, 0);
    let mut children: Vec<(i32, c_int)> = Vec::new();
    loop {
        let mut fds = [SHIM, signals].map(|fd| PollFd { fd, events: POLLIN, revents: 0 });
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
            // A child says why it failed before it ends.
            pass_errors(errors[0]);
            reap(&mut children);
        }
        if fds[0].revents & (POLLIN | POLLHUP | POLLERR) != 0 {
            match command(&old, errors[1]) {
                Some((_, 0)) => {}
                Some(started) => children.push(started),
                // SAFETY: ends the process.
                None => unsafe { _exit(0) },
            }
        }
    }
}
