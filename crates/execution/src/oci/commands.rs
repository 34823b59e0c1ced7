//! The worker's side of a session's commands and connections.

use std::{collections::VecDeque, io};

use bytes::Bytes;
use domain::process::{Command, CommandEnd, Input, Output};
use tokio::{
    io::AsyncWriteExt,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{Semaphore, mpsc},
};

use super::connection::{Connection, lost};
use crate::{
    runtime::{RuntimeError, Tunnel},
    shim::frames::{self, Heard, Opening, Told},
};

/// Bytes of input that may be with the shim and not be taken by the command yet.
const WINDOW: usize = 256 * 1024;
/// Bytes of input in one frame.
const PART: usize = 64 * 1024;
/// Bytes of input that wait here while that window is full, so that what comes behind them is heard: a resize, a kill.
const WAITING_MAX: usize = 1024 * 1024;

fn broke(error: &io::Error) -> RuntimeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => lost(),
        _ => RuntimeError::Other(format!("a command's socket broke: {error}")),
    }
}

/// Runs a command; see [`crate::runtime::Runtime::exec`]. Dropping this closes its socket, at which the shim kills it.
pub(super) async fn exec(
    connection: &Connection,
    command: &Command,
    input: mpsc::Receiver<Input>,
    output: mpsc::Sender<Output>,
) -> Result<CommandEnd, RuntimeError> {
    let socket = connection.channel(&Opening::Exec(command.clone())).await?;
    let (read, write) = socket.into_split();
    let window = Semaphore::new(WINDOW);
    tokio::select! {
        end = listen(read, output, &window) => end,
        () = feed(write, input, &window) => Err(lost()),
    }
}

/// Passes output on until the end.
async fn listen(
    mut read: OwnedReadHalf,
    output: mpsc::Sender<Output>,
    window: &Semaphore,
) -> Result<CommandEnd, RuntimeError> {
    loop {
        let (told, body) = match frames::read::<Told>(&mut read).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(lost()),
            Err(error) => return Err(broke(&error)),
        };
        match told {
            Told::Output(stream) => {
                let bytes = body.to_vec();
                // A caller that listens no more must not keep the command from ending.
                let _ = output.send(Output { stream, bytes }).await;
            }
            Told::Took(count) => window.add_permits(count as usize),
            Told::Ended(end) => return end,
            Told::Connected(_) => {
                return Err(RuntimeError::Other(
                    "the shim answered something else".into(),
                ));
            }
        }
    }
}

/// Passes input on. Ends only when the shim is gone.
async fn feed(mut write: OwnedWriteHalf, mut input: mpsc::Receiver<Input>, window: &Semaphore) {
    let mut waiting: VecDeque<Bytes> = VecDeque::new();
    let mut bytes = 0;
    let mut open = true;
    loop {
        let next = waiting.front().map_or(0, |part| part.len().min(PART));
        let heard = tokio::select! {
            item = input.recv(), if open && bytes < WAITING_MAX => match item {
                Some(Input::Bytes(more)) => {
                    if !more.is_empty() {
                        bytes += more.len();
                        waiting.push_back(more.into());
                    }
                    continue;
                }
                Some(Input::Resize(size)) => (Heard::Resize(size), Bytes::new()),
                Some(Input::Kill) => (Heard::Kill, Bytes::new()),
                None => {
                    open = false;
                    if waiting.is_empty() {
                        (Heard::InputEnd, Bytes::new())
                    } else {
                        continue;
                    }
                }
            },
            permits = window.acquire_many(u32::try_from(next).unwrap_or(0)), if next > 0 => {
                if let Ok(permits) = permits {
                    permits.forget();
                }
                let Some(part) = waiting.front_mut() else { continue };
                let part = part.split_to(next);
                if waiting.front().is_some_and(Bytes::is_empty) {
                    waiting.pop_front();
                }
                bytes -= next;
                (Heard::Input, part)
            }
            else => std::future::pending().await,
        };
        let was_last = !open && waiting.is_empty() && matches!(heard.0, Heard::Input);
        let mut frame = match frames::encode(&heard.0, &heard.1) {
            Ok(frame) => frame,
            Err(_) => return,
        };
        if was_last && let Ok(end) = frames::encode(&Heard::InputEnd, &[]) {
            frame.extend_from_slice(&end);
        }
        if write.write_all(&frame).await.is_err() {
            // What it said before its end is still to be read.
            return std::future::pending().await;
        }
    }
}

/// Connects to a port inside.
pub(super) async fn connect(
    connection: &Connection,
    port: u16,
) -> Result<Box<dyn Tunnel>, RuntimeError> {
    let mut socket = connection.channel(&Opening::Connect(port)).await?;
    match frames::read::<Told>(&mut socket).await {
        Ok(Some((Told::Connected(result), _))) => {
            result?;
            Ok(Box::new(socket))
        }
        Ok(Some(_)) => Err(RuntimeError::Other(
            "the shim answered something else".into(),
        )),
        Ok(None) => Err(lost()),
        Err(error) => Err(broke(&error)),
    }
}
