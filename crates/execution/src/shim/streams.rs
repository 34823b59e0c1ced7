//! What a command reads and writes, between its descriptors and the worker's socket.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use domain::setup_run::Stream;
use tokio::{
    io::{AsyncWriteExt, Interest, unix::AsyncFd},
    net::unix::OwnedWriteHalf,
    sync::{Mutex, mpsc},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    frames::{self, Told},
    passing,
};

/// Bytes taken from a command in one read.
const CHUNK: usize = 64 * 1024;
/// After a command has ended, a process that it left behind may hold its output: it is read until nothing has come for
/// this long …
const QUIET_AFTER_END: Duration = Duration::from_millis(300);
/// … and at most for this long, and so many bytes.
const DRAIN_AFTER_END: Duration = Duration::from_millis(1_500);
const BYTES_AFTER_END: usize = 2 * 1024 * 1024;
/// The side of a command's socket that speaks; a frame at a time.
#[derive(Clone)]
pub struct Voice(Arc<Mutex<OwnedWriteHalf>>);

impl Voice {
    /// Speaks on this socket.
    pub fn new(socket: OwnedWriteHalf) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    /// Says it.
    ///
    /// # Errors
    /// The worker is gone.
    pub async fn tell(&self, told: &Told, body: &[u8]) -> io::Result<()> {
        let frame = frames::encode(told, body)?;
        self.0.lock().await.write_all(&frame).await
    }
}

/// What all parts of a running command know.
#[derive(Clone, Default)]
pub struct Signals {
    /// Its first process has ended.
    pub ended: CancellationToken,
    /// Its terminal hangs up.
    pub hang_up: CancellationToken,
}

/// Passes output on until it ends, its terminal hangs up, or the command has ended and somebody else holds it; true for
/// the last.
pub async fn pump(fd: &AsyncFd<OwnedFd>, stream: Stream, voice: &Voice, signals: &Signals) -> bool {
    let mut buffer = vec![0; CHUNK];
    let (mut bytes, mut waited) = (0, Duration::ZERO);
    loop {
        let since = Instant::now();
        let quiet = async {
            signals.ended.cancelled().await;
            sleep(QUIET_AFTER_END).await;
        };
        let got = tokio::select! {
            biased;
            () = signals.hang_up.cancelled() => return false,
            got = fd.async_io(Interest::READABLE, |fd| passing::read(fd.as_fd(), &mut buffer)) => got,
            () = quiet => return true,
        };
        let count = match got {
            Ok(0) | Err(_) => return false,
            Ok(count) => count,
        };
        let told = voice.tell(&Told::Output(stream), &buffer[..count]).await;
        if told.is_err() {
            return false;
        }
        if signals.ended.is_cancelled() {
            bytes += count;
            waited += since.elapsed().min(QUIET_AFTER_END);
            if bytes > BYTES_AFTER_END || waited > DRAIN_AFTER_END {
                return true;
            }
        }
    }
}

/// Reads for nobody until the end.
pub async fn discard(fd: &AsyncFd<OwnedFd>) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(1..) = fd
        .async_io(Interest::READABLE, |fd| {
            passing::read(fd.as_fd(), &mut buffer)
        })
        .await
    {}
}

/// Gives a command its input, and tells how much of it was taken. The end of it closes a pipe and hangs up a terminal.
pub async fn feed(
    fd: Arc<AsyncFd<OwnedFd>>,
    is_terminal: bool,
    mut parts: mpsc::UnboundedReceiver<Bytes>,
    voice: Voice,
    signals: Signals,
) {
    let mut open = true;
    loop {
        let part = tokio::select! {
            biased;
            () = signals.ended.cancelled() => return,
            part = parts.recv() => part,
        };
        let Some(part) = part else { break };
        let mut rest = &part[..];
        while open && !rest.is_empty() {
            let wrote = tokio::select! {
                biased;
                () = signals.ended.cancelled() => return,
                wrote = fd.async_io(Interest::WRITABLE, |fd| Ok(nix::unistd::write(fd, rest)?)) => wrote,
            };
            match wrote {
                Ok(count) => rest = &rest[count..],
                // It does not read any more; what still comes is for nobody.
                Err(_) => open = false,
            }
        }
        let took = u32::try_from(part.len()).unwrap_or(u32::MAX);
        if voice.tell(&Told::Took(took), &[]).await.is_err() {
            return;
        }
    }
    if is_terminal {
        signals.hang_up.cancel();
    }
}
