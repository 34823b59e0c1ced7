//! Moves bytes between the two sides of a connection.

use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice},
    unistd::pipe2,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use super::config::Limits;

const BUFFER_FIRST: usize = 8 * 1024;
const BUFFER_MAX: usize = 128 * 1024;
const BUFFER_CROWDED: usize = 16 * 1024;
/// Connections beyond which buffers stay small, so that a sandbox cannot make us hold much memory.
const CROWD: usize = 128;
/// Bytes after which a direction counts as a bulk transfer, and is moved within the kernel.
const BULK: u64 = 1024 * 1024;
/// Bulk transfers at once that are moved so; each takes two descriptors.
const PIPES: usize = 64;
const PIPE_SIZE: usize = 1024 * 1024;

/// When something last moved on a connection, and whether one direction has ended.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    last: AtomicU64,
    half_open: AtomicBool,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            half_open: AtomicBool::new(false),
        }
    }

    pub(super) fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Ends when nothing has moved for too long.
    pub(super) async fn stalled(&self, limits: &Limits) -> io::Error {
        loop {
            let patience = match self.half_open.load(Ordering::Relaxed) {
                true => limits.half_open,
                false => limits.idle,
            };
            let last = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= patience {
                return io::ErrorKind::TimedOut.into();
            }
            // Looked at again early, since half-closing shortens the patience.
            sleep_until((last + patience).min(Instant::now() + limits.half_open.min(limits.idle)))
                .await;
        }
    }
}

/// What the connections of one sandbox share.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Connections now.
    pub connections: AtomicUsize,
    pipes: Semaphore,
}

impl Crowd {
    pub(super) const fn new() -> Self {
        Self {
            connections: AtomicUsize::new(0),
            pipes: Semaphore::const_new(PIPES),
        }
    }
}

/// One direction of a connection.
pub(super) struct Pump<'a, 'b> {
    pub from: &'a mut ReadHalf<'b>,
    pub to: &'a mut WriteHalf<'b>,
    pub activity: &'a Activity,
    pub crowd: &'a Crowd,
}

impl Pump<'_, '_> {
    /// Reads what is there into `buffer`, behind what is in it; 0 at the end.
    pub(super) async fn read_more(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let read = self.from.read_buf(buffer).await?;
        self.activity.touch();
        Ok(read)
    }

    /// Writes all of `bytes`. Each part that the far side takes counts as activity.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.to.write(bytes).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.activity.touch();
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Passes the end of this direction on.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.activity.half_open.store(true, Ordering::Relaxed);
        self.activity.touch();
        self.to.shutdown().await
    }

    /// Copies to the end.
    pub(super) async fn copy(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_FIRST];
        let mut copied = 0;
        loop {
            let read = self.from.read(&mut buffer).await?;
            if read == 0 {
                return self.end().await;
            }
            self.activity.touch();
            self.write(&buffer[..read]).await?;
            copied += read as u64;
            if copied >= BULK
                && let Ok(_place) = self.crowd.pipes.try_acquire()
                && let Ok(pipe) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            {
                drop(buffer);
                return self.move_within_kernel(&pipe).await;
            }
            let most = match self.crowd.connections.load(Ordering::Relaxed) > CROWD {
                true => BUFFER_CROWDED,
                false => BUFFER_MAX,
            };
            if read == buffer.len() && read < most {
                buffer.resize((read * 4).min(most), 0);
            } else if buffer.len() > most {
                buffer.truncate(most);
                buffer.shrink_to_fit();
            }
        }
    }

    /// The same without a copy of the bytes in our memory: from socket to pipe to socket.
    async fn move_within_kernel(&mut self, (out, into): &(OwnedFd, OwnedFd)) -> io::Result<()> {
        // Its default size works as well, at more calls.
        let _ = fcntl(into, FcntlArg::F_SETPIPE_SZ(PIPE_SIZE as i32));
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        let (from, to): (&TcpStream, &TcpStream) = (self.from.as_ref(), self.to.as_ref());
        loop {
            // The pipe is empty here, so a call that would block waits for the socket.
            let fill = || splice(from, None, into, None, PIPE_SIZE, flags).map_err(io::Error::from);
            let mut held = from.async_io(Interest::READABLE, fill).await?;
            if held == 0 {
                return self.end().await;
            }
            self.activity.touch();
            while held > 0 {
                let drain = || splice(out, None, to, None, held, flags).map_err(io::Error::from);
                held -= to.async_io(Interest::WRITABLE, drain).await?;
                self.activity.touch();
            }
        }
    }
}

/// Waits for both directions; an error in one ends both at once.
pub(super) async fn both(
    up: impl Future<Output = io::Result<()>>,
    down: impl Future<Output = io::Result<()>>,
    activity: &Activity,
    limits: &Limits,
) -> io::Result<()> {
    tokio::select! {
        ended = async { tokio::try_join!(up, down).map(|_| ()) } => ended,
        stalled = activity.stalled(limits) => Err(stalled),
    }
}
