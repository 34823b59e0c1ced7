//! The reading side: takes what the script writes and what its driver says, in order, until the shell has ended.

use std::{
    future::Future,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    pin::pin,
    time::Duration,
};

use bytes::Bytes;
use domain::setup_run::Stream;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::mpsc,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    ControlDir, DriverEnd,
    place::Place,
    records::{Cutter, Kind, Record},
};
use crate::runtime::Event;

/// Bytes taken in one read.
const CHUNK: usize = 64 * 1024;
/// More bytes of records than our driver writes in one go, but for the longest.
const FLOOD: usize = 2 * 1024;
/// Bytes that a pipe should hold.
const PIPE_SIZE: libc::c_int = 1024 * 1024;
/// After the shell has ended, a process that it left behind may hold the pipes: they are read until nothing has come for
/// this long (what `> >(tee …)` still writes is worth waiting for) …
const QUIET_AFTER_END: Duration = Duration::from_millis(300);
/// … and at most for this long (the run ends within 2 s of its shell, spec 1-domain).
const DRAIN_AFTER_END: Duration = Duration::from_millis(1_500);
/// How long after a kill the exit is waited for, before the end is reported without it.
const EXIT_AFTER_KILL: Duration = Duration::from_secs(10);
/// Exit code of a script that our timer ended (spec 1-domain).
const TIMED_OUT: i32 = 124;

/// Why a script was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its timeout passed.
    Timeout,
    /// The caller asked.
    Cancelled,
}

/// What ends a script before its time.
pub struct Stops<'a> {
    /// After this everything is killed.
    pub timeout: Duration,
    /// The caller's wish to stop it.
    pub cancel: CancellationToken,
    /// Kills everything in the sandbox at once; called at most once.
    pub kill: Box<dyn FnOnce() + Send + 'a>,
}

/// What happened beside the script since it was asked last, in order. It is asked as each statement begins.
pub type Beside<'a> = Box<dyn FnMut() -> Vec<Event> + Send + 'a>;

/// Serves a script that has been started with [`ControlDir::command`], until its shell has ended and its output is read.
/// Never waits for the pipes to be closed. A full `sink` makes the script wait; a closed one makes its output be thrown
/// away.
///
/// `stdout` and `stderr` are the reading ends of pipes; `exit` gives the raw status of `wait`; `beside` is asked as each
/// statement begins, while the shell waits: what the statements before it did stands before its marker. Only in a loop that
/// has gone round often does the shell not wait; `beside` is asked a moment later then.
///
/// # Errors
/// When the descriptors cannot be watched.
pub async fn serve<E>(
    control: ControlDir,
    stdout: OwnedFd,
    stderr: OwnedFd,
    exit: E,
    stops: Stops<'_>,
    beside: Beside<'_>,
    sink: mpsc::Sender<Event>,
) -> io::Result<DriverEnd>
where
    E: Future<Output = i32>,
{
    let mut pump = Pump {
        mark: watch(control.mark.into())?,
        ack: control.ack.into(),
        out: Pipe::new(stdout)?,
        err: Pipe::new(stderr)?,
        cutter: Cutter::default(),
        place: Place::new(control.statements),
        announced: 0,
        beside,
        begun: false,
        sink,
        buffer: vec![0; CHUNK],
        tracing: false,
    };
    let Stops {
        timeout,
        cancel,
        kill,
    } = stops;
    let mut kill = Some(kill);
    let mut stopped: Option<(Stop, Instant)> = None;
    let mut clock = pin!(tokio::time::sleep(timeout));
    let status = {
        let mut work = pin!(pump.run_until(exit));
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if stopped.is_none() => stopped = Some((Stop::Cancelled, Instant::now())),
                () = &mut clock => match stopped {
                    None => stopped = Some((Stop::Timeout, Instant::now())),
                    // Killed, and still no exit: the sandbox is broken, and its end is not waited for.
                    Some(_) => break None,
                },
                status = &mut work => break Some(status?),
            }
            if let Some(kill) = kill.take() {
                kill();
                clock.as_mut().reset(Instant::now() + EXIT_AFTER_KILL);
            }
        }
    };
    let ended = stopped.map_or_else(Instant::now, |(_, at)| at);
    {
        // The script has ended by itself, so its verdict stays; but what it left behind gets no more time than it had.
        let mut draining = pin!(pump.drain_after_end());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if kill.is_some() => {}
                () = &mut clock, if kill.is_some() => {}
                drained = &mut draining => break drained?,
            }
            if let Some(kill) = kill.take() {
                kill();
            }
        }
    }
    let stop = stopped.map(|(stop, _)| stop);
    let mut exit_code = match stop {
        Some(Stop::Timeout) => TIMED_OUT,
        _ => status.map_or(128 + libc::SIGKILL, exit_code),
    };
    if exit_code == 0 && !pump.place.started {
        exit_code = 1;
        pump.send(Event::System {
            text: "The login profile ended the shell before the script started.".to_owned(),
        })
        .await;
    }
    Ok(pump.place.end(exit_code, stop, ended))
}

/// The shell's way of telling a wait status.
fn exit_code(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    #[allow(unsafe_code)]
    // SAFETY: an `OwnedFd` gives the same open descriptor for as long as it lives, which is as long as the `AsyncFd` does.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
        .map_err(|e| io::Error::other(e.to_string()))
}

struct Pipe {
    fd: AsyncFd<OwnedFd>,
    open: bool,
}

impl Pipe {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        // A burst should not make the script wait for the reader. Where the machine grants no more, the usual size does.
        let _ = fcntl(&fd, FcntlArg::F_SETPIPE_SZ(PIPE_SIZE));
        Ok(Self {
            fd: watch(fd)?,
            open: true,
        })
    }

    /// Waits for bytes and reads some of them: 0 at the end.
    async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        read(&self.fd, buffer).await
    }

    /// Bytes that are in the pipe now.
    fn waiting(&self) -> usize {
        waiting(&self.fd)
    }
}

/// Bytes that are in a pipe now.
fn waiting(pipe: &AsyncFd<OwnedFd>) -> usize {
    let mut count: libc::c_int = 0;
    #[allow(unsafe_code)]
    // SAFETY: FIONREAD writes one int, to an int that outlives the call; the descriptor is open.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result == 0 {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    }
}

async fn read(fd: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = fd.readable().await?;
        if let Ok(result) = ready.try_io(|fd| Ok(unistd::read(fd.as_fd(), buffer)?)) {
            return result;
        }
    }
}

struct Pump<'a> {
    mark: AsyncFd<OwnedFd>,
    ack: OwnedFd,
    out: Pipe,
    err: Pipe,
    cutter: Cutter,
    place: Place,
    /// The line that the last marker event named.
    announced: u32,
    beside: Beside<'a>,
    /// A statement has begun of which `beside` does not know yet.
    begun: bool,
    sink: mpsc::Sender<Event>,
    buffer: Vec<u8>,
    /// `set -x` was on at the last record.
    tracing: bool,
}

impl Pump<'_> {
    /// Passes on output and records until the shell has ended.
    async fn run_until<E: Future<Output = i32>>(&mut self, exit: E) -> io::Result<i32> {
        let mut exit = pin!(exit);
        let mut out = vec![0; CHUNK];
        let mut err = vec![0; CHUNK];
        let mut records = vec![0; CHUNK];
        loop {
            tokio::select! {
                n = self.out.read(&mut out), if self.out.open => {
                    self.stdout(&out[..n?]).await;
                }
                n = self.err.read(&mut err), if self.err.open => {
                    self.stderr(&err[..n?]).await;
                }
                n = read(&self.mark, &mut records) => {
                    let n = n?;
                    for record in self.cutter.push(&records[..n]) {
                        self.record(record).await?;
                    }
                    self.look_beside().await;
                    // Our driver waits for answers and writes little at once. Somebody who writes more would keep this
                    // thread from everything else: timers, and the news of the shell's end.
                    if n > FLOOD {
                        tokio::task::yield_now().await;
                    }
                }
                status = &mut exit => return Ok(status),
            }
        }
    }

    /// Takes what is left once the shell has ended, without waiting for those who may still hold the pipes, and no more of
    /// it than they let through in [`DRAIN_AFTER_END`].
    async fn drain_after_end(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_AFTER_END;
        self.last_records(deadline).await?;
        // The shell's own last words are in the pipes, however long the reader lets them wait.
        self.take_waiting().await;
        let mut out = vec![0; CHUNK];
        let mut err = vec![0; CHUNK];
        while self.out.open || self.err.open {
            let quiet = deadline.min(Instant::now() + QUIET_AFTER_END);
            tokio::select! {
                n = self.out.read(&mut out), if self.out.open => {
                    self.stdout(&out[..n?]).await;
                }
                n = self.err.read(&mut err), if self.err.open => {
                    self.stderr(&err[..n?]).await;
                }
                () = tokio::time::sleep_until(quiet) => break,
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        Ok(())
    }

    /// The records that are in the FIFO now, which are all that the shell can have written: whoever writes to it from here
    /// on is no driver, and may do so for ever.
    async fn last_records(&mut self, deadline: Instant) -> io::Result<()> {
        let mut left = waiting(&self.mark);
        let mut records = vec![0; CHUNK];
        while left > 0 {
            let size = left.min(records.len());
            match unistd::read(self.mark.as_fd(), &mut records[..size]) {
                Ok(n) if n > 0 => {
                    left -= n.min(left);
                    for record in self.cutter.push(&records[..n]) {
                        // Rubbish in the place of records, with output between them, can be made faster than it is read.
                        // Which statement failed is told by the last records: these are taken in any case.
                        if Instant::now() >= deadline {
                            self.late(&record);
                        } else {
                            self.record(record).await?;
                        }
                    }
                }
                Err(Errno::EINTR) => {}
                _ => break,
            }
        }
        self.look_beside().await;
        Ok(())
    }

    async fn record(&mut self, record: Record) -> io::Result<()> {
        // Everything written before the record is in the pipes already: it belongs before it.
        self.take_waiting().await;
        self.tracing = record.from.xtrace;
        match &record.kind {
            // Once: what comes later is not from the driver.
            Kind::Started { token } => {
                if self.place.start() {
                    self.send(Event::System {
                        text: record.shell_note(),
                    })
                    .await;
                }
                self.acknowledge(token)?;
            }
            Kind::NotParsed { token } => {
                if self.place.start() {
                    self.place.not_parsed(record.line);
                }
                self.acknowledge(token)?;
            }
            Kind::Mark { token } => {
                self.mark(&record).await;
                self.acknowledge(token)?;
            }
            // Many may have come at once: it is asked after the last.
            Kind::QuietMark => {
                self.place_mark(&record);
            }
            Kind::Failed { status } => self.place.fail(&record, *status),
        }
        Ok(())
    }

    /// A record for which nobody waits any more: what it tells of the script's end, without output and markers.
    fn late(&mut self, record: &Record) {
        match &record.kind {
            Kind::Started { .. } => {
                self.place.start();
            }
            Kind::NotParsed { .. } => {
                if self.place.start() {
                    self.place.not_parsed(record.line);
                }
            }
            Kind::Mark { .. } | Kind::QuietMark => {
                self.place_mark(record);
            }
            Kind::Failed { status } => self.place.fail(record, *status),
        }
    }

    async fn mark(&mut self, record: &Record) {
        let announced = self.place_mark(record);
        self.look_beside().await;
        if let Some((line, text)) = announced {
            self.announced = line;
            self.send(Event::Marker { line, text }).await;
        }
    }

    /// A statement is about to run, or runs already. Returns its line and text where they should be announced.
    fn place_mark(&mut self, record: &Record) -> Option<(u32, String)> {
        let line = self.place.line();
        let announced = self.place.mark(record, Instant::now());
        self.begun |= self.place.line() != line;
        announced
    }

    /// Asks `beside` if a statement has begun.
    async fn look_beside(&mut self) {
        if std::mem::take(&mut self.begun) {
            for event in (self.beside)() {
                self.send(event).await;
            }
        }
    }

    /// Reads as many bytes as are in the pipes now, and no more: somebody in the background may write for ever. In which
    /// order the two streams of one statement were written cannot be known; a trace (`set -x`) comes before what it tells.
    async fn take_waiting(&mut self) {
        if self.tracing {
            self.take_waiting_of(Stream::Stderr).await;
        }
        self.take_waiting_of(Stream::Stdout).await;
        self.take_waiting_of(Stream::Stderr).await;
    }

    fn pipe(&self, stream: Stream) -> &Pipe {
        if stream == Stream::Stdout {
            &self.out
        } else {
            &self.err
        }
    }

    async fn take_waiting_of(&mut self, stream: Stream) {
        let mut left = self.pipe(stream).waiting();
        while self.pipe(stream).open && left > 0 {
            let size = left.min(self.buffer.len());
            let source = if stream == Stream::Stdout {
                &self.out
            } else {
                &self.err
            };
            // Not through the readiness of tokio: that may lag behind, and here nothing may be missed.
            match unistd::read(source.fd.as_fd(), &mut self.buffer[..size]) {
                Ok(0) => break,
                Ok(n) => {
                    left -= n;
                    let bytes = Bytes::copy_from_slice(&self.buffer[..n]);
                    self.output_bytes(stream, bytes).await;
                }
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Bytes of stdout that have been read.
    async fn stdout(&mut self, bytes: &[u8]) {
        self.out.open = !bytes.is_empty();
        if self.tracing {
            self.take_waiting_of(Stream::Stderr).await;
        }
        self.output(Stream::Stdout, bytes).await;
    }

    /// Bytes of stderr that have been read.
    async fn stderr(&mut self, bytes: &[u8]) {
        self.err.open = !bytes.is_empty();
        self.output(Stream::Stderr, bytes).await;
    }

    async fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.output_bytes(stream, Bytes::copy_from_slice(bytes))
                .await;
        }
    }

    async fn output_bytes(&mut self, stream: Stream, bytes: Bytes) {
        let line = self.place.line();
        if line != self.announced {
            self.announced = line;
            let text = String::new();
            self.send(Event::Marker { line, text }).await;
        }
        self.send(Event::Output { stream, bytes }).await;
    }

    async fn send(&mut self, event: Event) {
        // A reader that went away must not keep the script from ending.
        let _ = self.sink.send(event).await;
    }

    fn acknowledge(&self, token: &str) -> io::Result<()> {
        match unistd::write(&self.ack, format!("{token}\n").as_bytes()) {
            // Full only if somebody in the sandbox fills it: the shell goes on by its own timer.
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
