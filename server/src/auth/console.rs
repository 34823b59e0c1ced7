//! The browser's sign-in.

use std::{collections::HashMap, sync::Arc, time::Duration};

use app::context::ConsoleSession;
use async_trait::async_trait;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use control::{Caller, Via, ports::Clock};
use domain::ids::UserId;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tower_sessions::{
    Expiry, Session, SessionManagerLayer,
    cookie::{SameSite, time},
};
use wire::error::{ApiError, Code};

use super::StoredSessions;
use crate::http::{
    AppState,
    limits::{Who, too_many},
    origin::Source,
    problem::{self, Problem},
};

/// The cookie's name.
pub const COOKIE: &str = "groundwork_session";
/// Where the sign-in lies in the session.
const KEY: &str = "sign_in";
/// A used sign-in's end is pushed back at most this often, so that reading pages does not write.
const PUSH_BACK_EVERY: Duration = Duration::from_secs(3_600);

/// Who signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SignIn {
    user_id: UserId,
    session_epoch: i64,
    /// Microseconds; when the end was last pushed back.
    seen: i64,
}

/// The session layer: an opaque id in a cookie that scripts cannot read. `Secure` is added behind TLS by
/// [`crate::http::security`].
pub fn session_layer(state: &AppState) -> SessionManagerLayer<StoredSessions> {
    let idle = time::Duration::try_from(state.sign_in_idle).unwrap_or(time::Duration::DAY);
    SessionManagerLayer::new(StoredSessions::new(
        state.control.store().clone(),
        state.control.clock().clone(),
        state.sign_in_idle,
    ))
    .with_name(COOKIE)
    .with_http_only(true)
    .with_same_site(SameSite::Lax)
    .with_secure(false)
    .with_path("/")
    .with_expiry(Expiry::OnInactivity(idle))
}

/// The layer inside it: finds who signed in and puts an `OpCtx` into the request. A sign-in that is over (member
/// removed, password changed) makes an anonymous caller.
pub async fn authenticate(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = request
        .extensions()
        .get::<Source>()
        .and_then(|source| source.address);
    if let Some(address) = address
        && let Err(wait) = state.limiter.take(Who::address(address))
    {
        return too_many(wait).into_response();
    }
    let Some(session) = request.extensions().get::<Session>().cloned() else {
        return problem::internal("the session layer is missing").into_response();
    };
    match identify(&state, &session).await {
        Ok(caller) => {
            let ctx = super::op_ctx(&request, caller);
            request.extensions_mut().insert(ctx);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn identify(state: &AppState, session: &Session) -> Result<Caller, Problem> {
    let Some(sign_in) = session.get::<SignIn>(KEY).await.map_err(unavailable)? else {
        return Ok(Caller::Anonymous);
    };
    match state
        .control
        .authenticate_web(sign_in.user_id, sign_in.session_epoch)
        .await
    {
        Ok(mut member) => {
            if let Via::Console(sign_in) = &mut member.via {
                sign_in.browser = session.id().as_ref().map(super::digest);
            }
            let now = state.control.clock().now().micros();
            let every = i64::try_from(PUSH_BACK_EVERY.as_micros()).unwrap_or(i64::MAX);
            if now.saturating_sub(sign_in.seen) > every {
                let sign_in = SignIn {
                    seen: now,
                    ..sign_in
                };
                session.insert(KEY, sign_in).await.map_err(unavailable)?;
            }
            Ok(Caller::Member(member))
        }
        Err(error) if error.code() == Code::Unauthorized => {
            session.flush().await.map_err(unavailable)?;
            Ok(Caller::Anonymous)
        }
        Err(error) => Err(error.into()),
    }
}

fn unavailable(error: tower_sessions::session::Error) -> Problem {
    control::Error::unavailable(error).into()
}

/// What pages and server functions sign in and out with.
pub struct BrowserSession {
    session: Session,
    clock: Arc<dyn Clock>,
    /// Notes that this request took: a page may build a part of itself twice before it is sent, and both ask.
    taken: Mutex<HashMap<String, Option<String>>>,
}

impl BrowserSession {
    /// Of this request.
    pub fn new(session: Session, clock: Arc<dyn Clock>) -> Self {
        Self {
            session,
            clock,
            taken: Mutex::default(),
        }
    }
}

fn note_key(name: &str) -> String {
    format!("note.{name}")
}

fn refused(error: tower_sessions::session::Error) -> ApiError {
    tracing::error!(cause = %error, "a console session could not be read or stored");
    control::Error::unavailable(error).into_api()
}

#[async_trait]
impl ConsoleSession for BrowserSession {
    async fn sign_in(&self, user_id: UserId, session_epoch: i64) -> Result<(), ApiError> {
        // Nothing of whoever used this browser before comes along, and neither does the id.
        self.session.clear().await;
        self.session.cycle_id().await.map_err(refused)?;
        let sign_in = SignIn {
            user_id,
            session_epoch,
            seen: self.clock.now().micros(),
        };
        self.session.insert(KEY, sign_in).await.map_err(refused)
    }

    async fn sign_out(&self) -> Result<(), ApiError> {
        self.session.flush().await.map_err(refused)
    }

    async fn put_note(&self, name: &str, text: String) -> Result<(), ApiError> {
        self.session
            .insert(&note_key(name), text)
            .await
            .map_err(refused)
    }

    async fn take_note(&self, name: &str) -> Result<Option<String>, ApiError> {
        let key = note_key(name);
        let mut taken = self.taken.lock().await;
        if let Some(note) = taken.get(&key) {
            return Ok(note.clone());
        }
        // Reading first: removing what is not there would mark the session as changed and write it.
        let note = self.session.get::<String>(&key).await.map_err(refused)?;
        if note.is_some() {
            self.session.remove::<String>(&key).await.map_err(refused)?;
        }
        taken.insert(key, note.clone());
        Ok(note)
    }
}
