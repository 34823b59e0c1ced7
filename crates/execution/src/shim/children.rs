//! Talking to PID 1: starting children in the sandbox and hearing of their end. See `init/main.rs` for what is said.

use std::{
    collections::HashMap,
    ffi::CString,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
};

use domain::process::PtySize;
use tokio::{io::Interest, net::UnixStream, sync::mpsc};

use super::passing;

/// Largest command that is sent, in bytes; the init believes twice as much.
const COMMAND_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a record of the init's.
const RECORD: usize = 12;

/// What a child has as its standard streams.
pub enum Streams<'a> {
    /// Nothing to read, and two pipes.
    Output([BorrowedFd<'a>; 2]),
    /// Three pipes.
    Pipes([BorrowedFd<'a>; 3]),
    /// A terminal of this size.
    Terminal(PtySize),
}

/// A child to start.
pub struct Start<'a> {
    /// Program and arguments; a name without a slash is looked up in the environment's `PATH`.
    pub argv: &'a [String],
    /// Its whole environment.
    pub env: &'a [(String, String)],
    /// Where it starts.
    pub directory: &'a str,
    /// Its standard streams.
    pub streams: Streams<'a>,
    /// `cgroup.procs` of the cgroup that it enters.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// What kept a child from being executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The program: errno.
    Program(i32),
    /// The directory: errno.
    Directory(i32),
}

enum Report {
    Started,
    Terminal(OwnedFd),
    Failed(Failure),
    Refused(i32),
    Ended(i32),
}

/// `None` once the init is gone.
type Waiting = Option<HashMap<i32, mpsc::UnboundedSender<Report>>>;

/// The init.
pub struct Children {
    socket: Arc<UnixStream>,
    writing: tokio::sync::Mutex<()>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicI32,
}

/// A started child.
pub struct Child {
    reports: mpsc::UnboundedReceiver<Report>,
    /// Its terminal's other side, if it has one.
    pub terminal: Option<OwnedFd>,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Children {
    /// Waits until the init at the other end of the socket is ready.
    ///
    /// # Errors
    /// It ended, or said something else.
    pub async fn meet(socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(socket)?);
        let ((kind, ..), _) = record(&socket).await?;
        if kind != 1 {
            return Err(io::Error::other("the init said something else first"));
        }
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(listen(socket.clone(), waiting.clone()));
        Ok(Self {
            socket,
            writing: tokio::sync::Mutex::default(),
            waiting,
            next: AtomicI32::new(1),
        })
    }

    /// Starts a child as the sandbox's user.
    ///
    /// # Errors
    /// The init is gone (see [`is_end`]), or cannot start more processes; `InvalidInput` and `ArgumentListTooLong` for a
    /// command that no system would take.
    pub async fn start(&self, start: &Start<'_>) -> io::Result<Child> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let message = message(number, start)?;
        let fds = match &start.streams {
            Streams::Output(fds) => fds.to_vec(),
            Streams::Pipes(fds) => fds.to_vec(),
            Streams::Terminal(_) => Vec::new(),
        };
        let fds: Vec<BorrowedFd<'_>> = fds.into_iter().chain(start.cgroup).collect();
        let (sender, reports) = mpsc::unbounded_channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(number, sender),
            None => return Err(ErrorKind::BrokenPipe.into()),
        };
        {
            let _one = self.writing.lock().await;
            let mut sent = 0;
            while sent < message.len() {
                // The descriptors go with the length, which is sent by itself.
                let (part, fds) = match sent {
                    0 => (&message[..4], fds.as_slice()),
                    _ => (&message[sent..], [].as_slice()),
                };
                let socket = self.socket.as_fd();
                sent += self
                    .socket
                    .async_io(Interest::WRITABLE, || passing::send(socket, part, fds))
                    .await?;
            }
        }
        let mut child = Child {
            reports,
            terminal: None,
        };
        loop {
            match child.reports.recv().await {
                Some(Report::Started) => return Ok(child),
                Some(Report::Terminal(fd)) => child.terminal = Some(fd),
                Some(Report::Refused(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Some(Report::Failed(_) | Report::Ended(_)) => {}
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

impl Child {
    /// Waits for its end: the status of `wait`, and what kept it from being executed.
    ///
    /// # Errors
    /// The init is gone.
    pub async fn ended(&mut self) -> io::Result<(i32, Option<Failure>)> {
        let mut failure = None;
        loop {
            match self.reports.recv().await {
                Some(Report::Ended(status)) => return Ok((status, failure)),
                Some(Report::Failed(what)) => failure = Some(what),
                Some(_) => {}
                None => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

/// Whether an error says that the init is gone.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
    )
}

fn message(number: i32, start: &Start<'_>) -> io::Result<Vec<u8>> {
    let (mut flags, size) = match start.streams {
        Streams::Output(_) => ("n".to_owned(), PtySize { cols: 0, rows: 0 }),
        Streams::Pipes(_) => (String::new(), PtySize { cols: 0, rows: 0 }),
        Streams::Terminal(size) => ("p".to_owned(), size),
    };
    if start.cgroup.is_some() {
        flags.push('g');
    }
    let mut message = vec![0; 4];
    let mut push = |text: &str| -> io::Result<()> {
        message.extend_from_slice(CString::new(text)?.as_bytes_with_nul());
        Ok(())
    };
    for text in [
        &number.to_string(),
        &flags,
        &size.rows.to_string(),
        &size.cols.to_string(),
        start.directory,
        &start.argv.len().to_string(),
    ] {
        push(text)?;
    }
    for arg in start.argv {
        push(arg)?;
    }
    for (name, value) in start.env {
        push(&format!("{name}={value}"))?;
    }
    if message.len() > COMMAND_MAX {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let length = u32::try_from(message.len() - 4).map_err(io::Error::other)?;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    Ok(message)
}

/// The next record: kind, number, value, and what was attached.
async fn record(socket: &UnixStream) -> io::Result<((i32, i32, i32), Option<OwnedFd>)> {
    let mut bytes = [0; RECORD];
    let mut got = 0;
    let mut attached = None;
    while got < RECORD {
        let (count, fd) = socket
            .async_io(Interest::READABLE, || {
                passing::receive(socket.as_fd(), &mut bytes[got..])
            })
            .await?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        got += count;
        attached = fd.or(attached);
    }
    let number =
        |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(((number(0), number(4), number(8)), attached))
}

/// Hands out what the init says until it is gone.
async fn listen(socket: Arc<UnixStream>, waiting: Arc<Mutex<Waiting>>) {
    while let Ok(((kind, number, value), attached)) = record(&socket).await {
        let report = match (kind, attached) {
            (2, _) => Report::Ended(value),
            (3, _) => Report::Failed(Failure::Program(value)),
            (4, _) => Report::Started,
            (5, _) => Report::Failed(Failure::Directory(value)),
            (6, Some(fd)) => Report::Terminal(fd),
            (7, _) => Report::Refused(value),
            _ => continue,
        };
        let last = matches!(report, Report::Ended(_) | Report::Refused(_));
        if let Some(waiting) = lock(&waiting).as_mut() {
            if let Some(child) = waiting.get(&number) {
                // Nobody may wait for it any more.
                let _ = child.send(report);
            }
            if last {
                waiting.remove(&number);
            }
        }
    }
    // Dropping the senders tells everybody who waits.
    lock(&waiting).take();
}
