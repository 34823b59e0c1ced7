//! The way to a session's `http_port`. A page from a sandbox must not be able to act as the member, so it never gets the
//! console's cookie: a member who opens the port gets a random token instead, which is part of the address of everything
//! below it and opens this one port of this one session for some hours. Browsers give such pages an origin of their own
//! (`docs/security.md`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use domain::{ids::SessionId, limits, roles::Action};
use wire::session_host::Tunnel;

use super::{exec::lost, refused};
use crate::{Control, Error, OpCtx, Result, Secret, accounts::lock};

/// How long a token opens the door, from when it was made.
const VALID_FOR: Duration = Duration::from_secs(8 * 3_600);
/// Tokens kept at most for one session; the oldest go first.
const TOKENS_PER_SESSION: usize = 64;

/// Open doors, by the hash of their token, and how many connections go through those of a session.
#[derive(Default)]
pub(crate) struct Doors(
    Mutex<HashMap<String, Arc<Open>>>,
    Mutex<HashMap<SessionId, usize>>,
);

struct Open {
    session: SessionId,
    ctx: OpCtx,
    opened: Duration,
    /// When the member's right was last checked.
    checked: Mutex<Duration>,
}

impl Doors {
    /// Ends all tokens of a session.
    pub(super) fn close(&self, session: SessionId) {
        lock(&self.0).retain(|_, open| open.session != session);
    }
}

/// A connection to a session's port.
pub struct HttpDoor {
    /// Bytes both ways.
    pub tunnel: Box<dyn Tunnel>,
    /// The port.
    pub port: u16,
    /// The session.
    pub session: SessionId,
    /// Whether the connection may go on; kept as long as it does.
    pub watch: DoorWatch,
}

/// A connection's place among those of its session, and its right to be there.
pub struct DoorWatch {
    control: Control,
    token: String,
    open: Arc<Open>,
}

impl DoorWatch {
    fn begin(control: &Control, token: String, open: Arc<Open>) -> Option<Self> {
        let mut counts = lock(&control.0.live.doors.1);
        let count = counts.entry(open.session).or_default();
        if *count >= limits::SESSION_PORT_CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        Some(Self {
            control: control.clone(),
            token,
            open,
        })
    }

    /// Comes back when the token opens nothing any more: the session stopped, the token is too old, or the member who
    /// opened the port lost the right to.
    pub async fn closed(&self) {
        let (clock, every) = (&self.control.0.clock, self.control.0.config.access_recheck);
        let still_open = async {
            loop {
                let known = lock(&self.control.0.live.doors.0).contains_key(&self.token);
                let age = clock.monotonic().saturating_sub(self.open.opened);
                if !known || age >= VALID_FOR {
                    return;
                }
                clock.sleep(every).await;
            }
        };
        let rights = self.control.rights(&self.open.ctx, Action::UseSessions);
        tokio::select! {
            () = still_open => {}
            _ = rights.lost() => {}
        }
    }
}

impl Drop for DoorWatch {
    fn drop(&mut self) {
        let mut counts = lock(&self.control.0.live.doors.1);
        if let Some(count) = counts.get_mut(&self.open.session) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.open.session);
            }
        }
    }
}

impl Control {
    /// A token for a session's port.
    pub async fn open_http_door(&self, ctx: &OpCtx, id: SessionId) -> Result<Secret> {
        let row = self.load_session(ctx, id, Action::UseSessions).await?;
        if row.definition.http_port == 0 {
            return Err(Error::session_not_running(
                "The session shows no port: its environment had no http_port when it was started. Set one and start another session.",
            ));
        }
        row.state.usable().map_err(refused)?;
        self.reachable(&row)?;
        let token = Secret::random("")?;
        let now = self.0.clock.monotonic();
        let mut doors = lock(&self.0.live.doors.0);
        doors.retain(|_, open| now.saturating_sub(open.opened) < VALID_FOR);
        let mut ours: Vec<_> = doors
            .iter()
            .filter(|(_, open)| open.session == id)
            .map(|(hash, open)| (open.opened, hash.clone()))
            .collect();
        if ours.len() >= TOKENS_PER_SESSION {
            ours.sort();
            for (_, hash) in ours.drain(..=ours.len() - TOKENS_PER_SESSION) {
                doors.remove(&hash);
            }
        }
        doors.insert(
            token.sha256_hex(),
            Arc::new(Open {
                session: id,
                ctx: ctx.clone(),
                opened: now,
                checked: Mutex::new(now),
            }),
        );
        Ok(token)
    }

    /// A connection to the port that a token opens.
    ///
    /// # Errors
    /// `404` for a token that opens nothing (any more); what the session's state or its server refuses.
    pub async fn pass_http_door(&self, token: &Secret) -> Result<HttpDoor> {
        let now = self.0.clock.monotonic();
        let open = lock(&self.0.live.doors.0)
            .get(&token.sha256_hex())
            .filter(|open| now.saturating_sub(open.opened) < VALID_FOR)
            .cloned()
            .ok_or_else(door_closed)?;
        let checked = *lock(&open.checked);
        if now.saturating_sub(checked) >= self.0.config.access_recheck {
            self.still_may_do(&open.ctx, Action::UseSessions)
                .await
                .map_err(|_| door_closed())?;
            *lock(&open.checked) = now;
        }
        let row = self
            .load_session(&open.ctx, open.session, Action::UseSessions)
            .await?;
        row.state.usable().map_err(refused)?;
        let port = row.definition.http_port;
        let host = self.reachable(&row)?;
        let watch = DoorWatch::begin(self, token.sha256_hex(), open.clone()).ok_or_else(|| {
            let most = limits::SESSION_PORT_CONNECTIONS_MAX;
            Error::session_busy("connections to its port", most)
        })?;
        let tunnel = host.connect(row.sandbox_id, port).await.map_err(lost)?;
        Ok(HttpDoor {
            tunnel,
            port,
            session: open.session,
            watch,
        })
    }
}

fn door_closed() -> Error {
    Error::not_found_because(
        "This address does not open a session's port any more. Open the port again from the session's page.",
    )
}
