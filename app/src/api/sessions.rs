//! Sessions: list, read, start, stop, resume, delete.

use domain::ids::{EnvironmentId, SessionId};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::sessions::{SessionPage, SessionsPage};

use super::AppError;

/// The page of all sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllSessions {
    /// What it shows.
    pub page: SessionsPage,
    /// Makes a repeated post of a form one start.
    pub key: String,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// One session's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneSession {
    /// What it shows.
    pub page: SessionPage,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// All sessions of the organization.
#[server(prefix = "/fn", endpoint = "sessions")]
pub async fn load_sessions() -> Result<AllSessions, AppError> {
    use super::door;
    let app = door::member()?;
    let page = door::answer(&app.ctx, app.control.sessions_page(&app.ctx).await)?;
    Ok(AllSessions {
        page,
        key: format!("session-{}", app.ctx.request_id),
        now_micros: app.control.clock().now().micros(),
    })
}

/// One session.
#[server(prefix = "/fn", endpoint = "session")]
pub async fn load_session(session_id: SessionId) -> Result<OneSession, AppError> {
    use super::door;
    let app = door::member()?;
    let page = app.control.session_page(&app.ctx, session_id).await;
    Ok(OneSession {
        page: door::answer(&app.ctx, page)?,
        now_micros: app.control.clock().now().micros(),
    })
}

/// How many sessions an environment has: its deletion takes them along.
#[server(prefix = "/fn", endpoint = "sessions-of")]
pub async fn count_sessions_of(environment_id: EnvironmentId) -> Result<u64, AppError> {
    use super::door;
    let app = door::member()?;
    let list = app
        .control
        .list_sessions(&app.ctx, Some(environment_id))
        .await;
    door::answer(&app.ctx, list).map(|list| list.sessions.len() as u64)
}

/// Starts a session and leads to its page; `key` makes a repeated post one session. A refusal says of which environment.
#[server(name = StartSession, prefix = "/fn", endpoint = "start-session")]
pub async fn start_session(
    environment_id: EnvironmentId,
    key: String,
) -> Result<SessionId, AppError> {
    use super::door;
    let app = door::member()?;
    let path = format!("console/environments/{environment_id}/sessions");
    let keyed = door::answer(&app.ctx, control::Keyed::new(&key, "POST", &path, "", b""))?;
    let started = app
        .control
        .start_session(&app.ctx, environment_id, Some(keyed))
        .await;
    let started = door::answer(&app.ctx, started);
    let id = started
        .map_err(|error| door::about(error, environment_id))?
        .value
        .session_id;
    door::redirect(&crate::links::session(id));
    Ok(id)
}

/// Stops a session.
#[server(name = StopSession, prefix = "/fn", endpoint = "stop-session")]
pub async fn stop_session(session_id: SessionId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let stopped = app.control.stop_session(&app.ctx, session_id).await;
    door::answer(&app.ctx, stopped).map(drop)
}

/// Starts a stopped session again.
#[server(name = ResumeSession, prefix = "/fn", endpoint = "resume-session")]
pub async fn resume_session(session_id: SessionId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let resumed = app.control.resume_session(&app.ctx, session_id).await;
    door::answer(&app.ctx, resumed).map(drop)
}

/// Deletes a session and leads to the list.
#[server(name = DeleteSession, prefix = "/fn", endpoint = "delete-session")]
pub async fn delete_session(session_id: SessionId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let deleted = app.control.delete_session(&app.ctx, session_id).await;
    door::answer(&app.ctx, deleted)?;
    door::redirect(crate::links::SESSIONS);
    Ok(())
}
