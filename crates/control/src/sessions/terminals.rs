//! Terminals. Each is a task that holds a command on a pty; connections come and go. One without a connection lives on
//! for two minutes, and whoever comes back gets its last 64 KiB again. One connection at a time: a newer one takes over,
//! as happens when a page is opened anew before the old connection is noticed to be dead.

use std::{
    collections::HashMap,
    fmt,
    str::FromStr,
    sync::{Arc, Mutex},
    time::Duration,
};

use domain::{
    ids::{SandboxId, SessionId},
    limits,
    process::{Command, Input, Output, PtySize},
    roles::Action,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wire::session_host::{HostError, SessionHost};

use super::{exec::lost, refused, ring::Ring};
use crate::{Control, Error, OpCtx, Result, Rights, accounts::lock};

/// Bytes that a connected reader may be behind before the terminal waits for it.
const BEHIND_MAX: u64 = 256 * 1024;
/// Bytes of one event.
const PIECE: usize = 32 * 1024;
/// Pieces of output and input on their way, each of at most [`PIECE`] bytes.
const PIECES: usize = 64;
/// Largest terminal, in characters either way.
const SIDE_MAX: u16 = 1_000;

/// A terminal's id, for coming back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(Uuid);

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The text is no terminal's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a terminal")]
pub struct BadTerminalId;

impl FromStr for TerminalId {
    type Err = BadTerminalId;
    fn from_str(text: &str) -> std::result::Result<Self, BadTerminalId> {
        if text.len() != 36 {
            return Err(BadTerminalId);
        }
        Uuid::try_parse(text).map(Self).map_err(|_| BadTerminalId)
    }
}

/// What a terminal's connection gets.
#[derive(Debug)]
pub enum TerminalEvent {
    /// Bytes to show.
    Output(Vec<u8>),
    /// The shell ended.
    Exit(i32),
    /// The connection is over though the shell may not be; a reason to show.
    Over(Error),
}

/// All terminals of this process.
#[derive(Default)]
pub(super) struct Terminals(Mutex<HashMap<TerminalId, Arc<Shared>>>);

impl Terminals {
    /// Ends the terminals of a session.
    pub(super) fn end_all(&self, session: SessionId) {
        for shared in lock(&self.0).values() {
            if shared.session == session {
                shared.end.cancel();
            }
        }
    }

    /// Adds a terminal, unless its session has the most already. Those that ended and wait for somebody to come back for
    /// their last words count too, and make room.
    fn add(&self, shared: &Arc<Shared>) -> bool {
        let mut all = lock(&self.0);
        let ours: Vec<_> = all
            .values()
            .filter(|other| other.session == shared.session)
            .cloned()
            .collect();
        if ours.len() >= limits::SESSION_TERMINALS_MAX {
            let over = ours.iter().filter_map(|other| {
                let state = lock(&other.state);
                let over = state.end.is_some() && state.reader.is_none();
                over.then_some((state.alone_since, other.id, other))
            });
            let Some((_, _, over)) = over.min_by_key(|(since, id, _)| (*since, *id)) else {
                return false;
            };
            over.end.cancel();
            all.remove(&over.id);
        }
        all.insert(shared.id, shared.clone());
        true
    }
}

struct Shared {
    id: TerminalId,
    session: SessionId,
    state: Mutex<State>,
    /// Rings when there is something for the reader.
    news: watch::Sender<u64>,
    /// Rings when the reader came, went or read on.
    moved: watch::Sender<u64>,
    input: mpsc::Sender<Input>,
    end: CancellationToken,
}

struct State {
    ring: Ring,
    /// The connection that counts, and how far it read.
    reader: Option<(u64, u64)>,
    /// Connections so far.
    connections: u64,
    /// Since when there is no connection.
    alone_since: Option<Duration>,
    end: Option<std::result::Result<i32, HostError>>,
}

fn ring(bell: &watch::Sender<u64>) {
    bell.send_modify(|count| *count = count.wrapping_add(1));
}

/// A connection to a terminal. Dropping it leaves the terminal alone.
pub struct Terminal {
    control: Control,
    ctx: OpCtx,
    shared: Arc<Shared>,
    number: u64,
    news: watch::Receiver<u64>,
    checked: Duration,
    /// Whether the terminal was there before and its last bytes come first.
    pub reattached: bool,
    /// How many bytes come that were written before this connection was.
    pub replayed: u64,
}

/// The way into a terminal.
#[derive(Clone)]
pub struct TerminalInput {
    control: Control,
    shared: Arc<Shared>,
}

impl TerminalInput {
    /// Types bytes; waits while the terminal does not read. False: it has ended.
    pub async fn send(&self, bytes: Vec<u8>) -> bool {
        let now = self.control.0.clock.monotonic();
        self.control.0.live.touch(self.shared.session, now);
        // In pieces: what waits for a terminal that does not read is counted by them.
        for piece in bytes.chunks(PIECE) {
            let piece = Input::Bytes(piece.to_vec());
            if self.shared.input.send(piece).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Says how large the terminal is now.
    pub async fn resize(&self, size: PtySize) -> bool {
        let size = bounded(size);
        self.shared.input.send(Input::Resize(size)).await.is_ok()
    }
}

fn bounded(size: PtySize) -> PtySize {
    PtySize {
        cols: size.cols.clamp(1, SIDE_MAX),
        rows: size.rows.clamp(1, SIDE_MAX),
    }
}

impl Control {
    /// Opens a terminal in a running session, or comes back to one.
    pub async fn open_terminal(
        &self,
        ctx: &OpCtx,
        id: SessionId,
        again: Option<TerminalId>,
        size: PtySize,
    ) -> Result<Terminal> {
        let row = self.load_session(ctx, id, Action::UseSessions).await?;
        row.state.usable().map_err(refused)?;
        let host = self.reachable(&row)?;
        let terminals = &self.0.live.terminals;
        let known = again.and_then(|again| lock(&terminals.0).get(&again).cloned());
        let reattached = known.is_some();
        let shared = match known {
            Some(shared) if shared.session == id => shared,
            Some(_) => return Err(Error::not_found()),
            None if again.is_some() => {
                return Err(Error::session_not_running(
                    "The terminal is not there any more: it ended, or was without a connection for two minutes. Open a new one.",
                ));
            }
            None => self
                .new_terminal(host.clone(), id, row.sandbox_id, bounded(size))
                .ok_or_else(|| Error::session_busy("terminals", limits::SESSION_TERMINALS_MAX))?,
        };
        let (number, replayed) = {
            let mut state = lock(&shared.state);
            state.connections += 1;
            let number = state.connections;
            let from = state.ring.replay_from(limits::TERMINAL_REPLAY_BYTES);
            state.reader = Some((number, from));
            state.alone_since = None;
            (number, state.ring.end() - from)
        };
        // A connection that was there before learns that it was replaced.
        ring(&shared.news);
        ring(&shared.moved);
        let now = self.0.clock.monotonic();
        self.0.live.touch(id, now);
        let news = shared.news.subscribe();
        let terminal = Terminal {
            control: self.clone(),
            ctx: ctx.clone(),
            shared,
            number,
            news,
            checked: now,
            reattached,
            replayed,
        };
        if reattached {
            terminal.input().resize(size).await;
        }
        Ok(terminal)
    }

    fn new_terminal(
        &self,
        host: Arc<dyn SessionHost>,
        session: SessionId,
        sandbox: SandboxId,
        size: PtySize,
    ) -> Option<Arc<Shared>> {
        let (input, feed) = mpsc::channel(PIECES);
        let shared = Arc::new(Shared {
            id: TerminalId(self.0.ids.next_uuid()),
            session,
            state: Mutex::new(State {
                ring: Ring::default(),
                reader: None,
                connections: 0,
                alone_since: Some(self.0.clock.monotonic()),
                end: None,
            }),
            news: watch::Sender::new(0),
            moved: watch::Sender::new(0),
            input,
            end: CancellationToken::new(),
        });
        if !self.0.live.terminals.add(&shared) {
            return None;
        }
        let task = Task {
            control: self.clone(),
            shared: shared.clone(),
        };
        tokio::spawn(task.run(host, sandbox, size, feed));
        Some(shared)
    }
}

/// The task behind a terminal.
struct Task {
    control: Control,
    shared: Arc<Shared>,
}

impl Task {
    async fn run(
        self,
        host: Arc<dyn SessionHost>,
        sandbox: SandboxId,
        size: PtySize,
        feed: mpsc::Receiver<Input>,
    ) {
        let command = Command {
            argv: Vec::new(),
            cwd: None,
            env: std::collections::BTreeMap::new(),
            timeout: None,
            pty: Some(size),
        };
        let (sender, mut output) = mpsc::channel::<Output>(PIECES);
        let end = {
            let mut running = std::pin::pin!(host.exec(sandbox, command, feed, sender));
            let mut moved = self.shared.moved.subscribe();
            loop {
                let room = self.room();
                let alone = self.alone_for_too_long();
                tokio::select! {
                    biased;
                    () = self.shared.end.cancelled() => {
                        break Err(HostError::Gone("the session was stopped".to_owned()));
                    }
                    piece = output.recv(), if room && !output.is_closed() => {
                        if let Some(piece) = piece {
                            self.take(&piece.bytes);
                        }
                    }
                    end = &mut running => break end.map(|end| end.exit_code),
                    _ = moved.changed() => {}
                    () = alone => {
                        break Err(HostError::Gone("nobody was connected for too long".to_owned()));
                    }
                }
            }
        };
        while let Ok(piece) = output.try_recv() {
            self.take(&piece.bytes);
        }
        lock(&self.shared.state).end = Some(end);
        ring(&self.shared.news);
        // Whoever is connected, or comes back in time, still sees the end.
        let mut moved = self.shared.moved.subscribe();
        loop {
            tokio::select! {
                () = self.alone_for_too_long() => break,
                () = self.shared.end.cancelled() => break,
                _ = moved.changed() => {}
            }
        }
        lock(&self.control.0.live.terminals.0).remove(&self.shared.id);
    }

    fn take(&self, bytes: &[u8]) {
        {
            let mut state = lock(&self.shared.state);
            let wanted = state.reader.map(|(_, at)| at);
            state
                .ring
                .push(bytes, limits::TERMINAL_REPLAY_BYTES, wanted);
        }
        let now = self.control.0.clock.monotonic();
        self.control.0.live.touch(self.shared.session, now);
        ring(&self.shared.news);
    }

    /// Whether more output may be taken: a connected reader is not left too far behind.
    fn room(&self) -> bool {
        let state = lock(&self.shared.state);
        state
            .reader
            .is_none_or(|(_, at)| state.ring.end().saturating_sub(at) < BEHIND_MAX)
    }

    async fn alone_for_too_long(&self) {
        let since = lock(&self.shared.state).alone_since;
        let Some(since) = since else {
            return std::future::pending().await;
        };
        let clock = &self.control.0.clock;
        let end = since + Duration::from_secs(limits::TERMINAL_DETACHED_SECONDS);
        clock.sleep(end.saturating_sub(clock.monotonic())).await;
    }
}

impl Terminal {
    /// Its id, for coming back.
    pub fn id(&self) -> TerminalId {
        self.shared.id
    }

    /// The way into it.
    pub fn input(&self) -> TerminalInput {
        TerminalInput {
            control: self.control.clone(),
            shared: self.shared.clone(),
        }
    }

    /// The right that it rests upon. Whoever writes to a peer that may not read waits for its loss as well.
    pub fn rights(&self) -> Rights {
        self.control.rights(&self.ctx, Action::UseSessions)
    }

    /// What comes next; nothing comes after an exit or an end. May be dropped and asked again.
    pub async fn next(&mut self) -> TerminalEvent {
        loop {
            let recheck = self.control.0.config.access_recheck;
            let left = (self.checked + recheck).saturating_sub(self.control.0.clock.monotonic());
            if left.is_zero() {
                let may = self
                    .control
                    .still_may_do(&self.ctx, Action::UseSessions)
                    .await;
                if let Err(error) = may {
                    return TerminalEvent::Over(error);
                }
                self.checked = self.control.0.clock.monotonic();
                continue;
            }
            // Asked before: output without end does not put it off.
            self.news.mark_unchanged();
            if let Some(event) = self.look() {
                return event;
            }
            tokio::select! {
                // The sender lives in what this holds.
                _ = self.news.changed() => {}
                () = self.control.0.clock.sleep(left) => {}
            }
        }
    }

    fn look(&self) -> Option<TerminalEvent> {
        let mut state = lock(&self.shared.state);
        let Some((number, at)) = state.reader else {
            return Some(TerminalEvent::Over(replaced()));
        };
        if number != self.number {
            return Some(TerminalEvent::Over(replaced()));
        }
        let (bytes, next) = state.ring.read(at, PIECE);
        if !bytes.is_empty() {
            state.reader = Some((number, next));
            drop(state);
            ring(&self.shared.moved);
            return Some(TerminalEvent::Output(bytes));
        }
        match &state.end {
            None => None,
            Some(Ok(code)) => Some(TerminalEvent::Exit(*code)),
            Some(Err(error)) => Some(TerminalEvent::Over(lost(error.clone()))),
        }
    }
}

fn replaced() -> Error {
    Error::session_not_running("The terminal was opened elsewhere. Reload to take it back.")
}

impl Drop for Terminal {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.shared.state);
            if state.reader.is_none_or(|(number, _)| number != self.number) {
                return;
            }
            state.reader = None;
            state.alone_since = Some(self.control.0.clock.monotonic());
        }
        ring(&self.shared.moved);
    }
}
