//! Commands in sessions: collected, or as they come. Dropping either kills the command.

use std::{future::Future, pin::Pin, time::Duration};

use domain::{
    exec::ExecRequest,
    ids::SessionId,
    limits,
    process::{CommandEnd, Input, Output},
    roles::Action,
    setup_run::Stream,
};
use tokio::sync::mpsc;
use wire::{session_host::HostError, sessions::ExecResult};

use super::{live::CommandGuard, refused};
use crate::{Control, Error, OpCtx, Result, Rights};

/// Pieces of output on their way; a slow reader slows the command down.
const PIECES: usize = 32;
/// Bytes of standard input in one piece.
const STDIN_PIECE: usize = 32 * 1024;

/// What comes from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// Bytes.
    Output(Output),
    /// It ended, after so many milliseconds.
    End(CommandEnd, u64),
}

type Running = Pin<Box<dyn Future<Output = std::result::Result<CommandEnd, HostError>> + Send>>;

/// A command that runs as long as this is asked for events.
pub struct Exec {
    running: Option<Running>,
    output: mpsc::Receiver<Output>,
    ended: Option<CommandEnd>,
    over: bool,
    began: Duration,
    guard: CommandGuard,
    ctx: OpCtx,
}

/// What a host's refusal of a command means.
pub(super) fn lost(error: HostError) -> Error {
    match error {
        HostError::Gone(_) => Error::session_not_running(
            "The session's sandbox ended meanwhile. Read the session again.",
        ),
        HostError::Refused(port) => Error::service_unavailable(format!(
            "Nothing listens on port {port} in the session yet. Start a server on it, then try again."
        )),
        HostError::Capacity(text) => Error::service_unavailable(text),
        HostError::Unsupported(text) | HostError::NoImage(text) => Error::session_not_running(text),
        HostError::Other(text) => Error::internal(text),
    }
}

impl Exec {
    /// The right that it rests upon: whoever reads its events ends with it, which kills the command.
    pub fn rights(&self) -> Rights {
        self.guard.control.rights(&self.ctx, Action::UseSessions)
    }

    /// The next event; `None` after the end. Whoever stops asking drops this, which kills the command.
    ///
    /// # Errors
    /// The sandbox went away under it.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            if let Some(end) = self.ended {
                // Everything was sent before the end.
                if let Ok(output) = self.output.try_recv() {
                    return Ok(Some(ExecEvent::Output(output)));
                }
                if self.over {
                    return Ok(None);
                }
                self.over = true;
                let now = self.guard.control.0.clock.monotonic();
                let took = now.saturating_sub(self.began).as_millis();
                let took = u64::try_from(took).unwrap_or(u64::MAX);
                return Ok(Some(ExecEvent::End(end, took)));
            }
            let Some(running) = &mut self.running else {
                return Ok(None);
            };
            tokio::select! {
                biased;
                output = self.output.recv(), if !self.output.is_closed() => {
                    if let Some(output) = output {
                        return Ok(Some(ExecEvent::Output(output)));
                    }
                }
                end = running => {
                    self.running = None;
                    self.ended = Some(end.map_err(lost)?);
                }
            }
        }
    }
}

impl Control {
    /// Starts a command in a running session.
    pub async fn exec(&self, ctx: &OpCtx, id: SessionId, request: ExecRequest) -> Result<Exec> {
        let row = self.load_session(ctx, id, Action::UseSessions).await?;
        let (command, stdin) = request.check()?;
        row.state.usable().map_err(refused)?;
        let host = self.reachable(&row)?.clone();
        let guard = CommandGuard::begin(self, id)
            .ok_or_else(|| Error::session_busy("commands", limits::SESSION_COMMANDS_MAX))?;
        let pieces: Vec<&[u8]> = stdin.chunks(STDIN_PIECE).collect();
        let (input, feed) = mpsc::channel(pieces.len().max(1));
        for piece in pieces {
            // There is room for all of it; then the sender goes, which is the end of the input.
            input
                .try_send(Input::Bytes(piece.to_vec()))
                .map_err(Error::internal)?;
        }
        drop(input);
        let (sender, output) = mpsc::channel(PIECES);
        let sandbox = row.sandbox_id;
        let running: Running =
            Box::pin(async move { host.exec(sandbox, command, feed, sender).await });
        Ok(Exec {
            running: Some(running),
            output,
            ended: None,
            over: false,
            began: self.0.clock.monotonic(),
            guard,
            ctx: ctx.clone(),
        })
    }

    /// Runs a command and answers when it has ended, with the beginning of what it wrote.
    pub async fn exec_collected(
        &self,
        ctx: &OpCtx,
        id: SessionId,
        request: ExecRequest,
    ) -> Result<ExecResult> {
        let exec = self.exec(ctx, id, request).await?;
        let rights = exec.rights();
        tokio::select! {
            ended = Self::collect(exec) => ended,
            error = rights.lost() => Err(error),
        }
    }

    async fn collect(mut exec: Exec) -> Result<ExecResult> {
        let mut out = Collected::default();
        let mut err = Collected::default();
        while let Some(event) = exec.next().await? {
            match event {
                ExecEvent::Output(piece) if piece.stream == Stream::Stderr => err.add(&piece.bytes),
                ExecEvent::Output(piece) => out.add(&piece.bytes),
                ExecEvent::End(end, duration_ms) => {
                    return Ok(ExecResult {
                        exit_code: end.exit_code,
                        truncated: out.truncated || err.truncated,
                        stdout: out.text(),
                        stderr: err.text(),
                        timed_out: end.timed_out,
                        duration_ms,
                    });
                }
            }
        }
        Err(Error::internal("a command ended without an end"))
    }
}

/// The beginning of a stream.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Collected {
    fn add(&mut self, bytes: &[u8]) {
        let room = limits::EXEC_OUTPUT_MAX_BYTES - self.bytes.len();
        self.truncated |= bytes.len() > room;
        self.bytes.extend(bytes.iter().take(room));
    }

    fn text(&self) -> String {
        let mut bytes = self.bytes.as_slice();
        if self.truncated {
            // A character that was cut in two at the limit was not wrong: it goes as a whole.
            let cut = bytes
                .iter()
                .rev()
                .take(3)
                .position(|byte| byte & 0xc0 == 0xc0);
            if let Some(back) = cut {
                let at = bytes.len() - 1 - back;
                let (whole, last) = bytes.split_at(at);
                if std::str::from_utf8(last).is_err_and(|e| e.error_len().is_none()) {
                    bytes = whole;
                }
            }
        }
        String::from_utf8_lossy(bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_kept_up_to_the_limit_without_half_a_character() {
        let mut all = Collected::default();
        all.add(b"ok \xff");
        assert_eq!((all.text().as_str(), all.truncated), ("ok \u{fffd}", false));
        let mut long = Collected::default();
        long.add(&vec![b'x'; limits::EXEC_OUTPUT_MAX_BYTES - 1]);
        long.add("é".as_bytes());
        assert!(long.truncated);
        assert_eq!(long.text().len(), limits::EXEC_OUTPUT_MAX_BYTES - 1);
        assert!(long.text().ends_with('x'));
    }
}
