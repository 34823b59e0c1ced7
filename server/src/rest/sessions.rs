//! Sessions and the commands in them.

use std::convert::Infallible;

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use control::sessions::{Exec, ExecEvent};
use domain::{
    exec::ExecRequest, ids::EnvironmentId, limits::WAIT_SECONDS_MAX, process::Output,
    setup_run::Stream as Source,
};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::json;
use tokio::sync::mpsc;
use wire::{
    managed_agents::Deleted,
    sessions::{ExecResult, NewSession, Session, SessionList, SessionSamples},
};

use super::{
    extract::{Body, Ctx, OfSession, Query},
    keyed::{Answered, KeyedCall},
};
use crate::http::{AppState, problem::Problem};

/// Starts one.
pub async fn create(
    State(state): State<AppState>,
    call: KeyedCall,
) -> Result<Answered<Session>, Problem> {
    let wanted: NewSession = call.body.shape()?;
    let started = state
        .control
        .start_session(&call.ctx, wanted.environment_id, call.key)
        .await?;
    Ok(Answered(started))
}

/// All, newest first; `?environment_id=` of one environment.
pub async fn list(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<SessionList>, Problem> {
    let query = query.only(&["environment_id"])?;
    let environment = query.id::<EnvironmentId>("environment_id")?;
    Ok(Json(state.control.list_sessions(&ctx, environment).await?))
}

/// One.
pub async fn read(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
) -> Result<Json<Session>, Problem> {
    let query = query.only(&["wait_seconds"])?;
    let wait = query.number("wait_seconds", 0, WAIT_SECONDS_MAX.into())?;
    let held = state.control.get_session(&ctx, id, wait);
    let found = match state.stop.run_until_cancelled(held).await {
        Some(found) => found?,
        // The server stops: what is true now, without waiting.
        None => state.control.get_session(&ctx, id, None).await?,
    };
    Ok(Json(found))
}

/// What it used in the last hour.
pub async fn samples(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
) -> Result<Json<SessionSamples>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.session_samples(&ctx, id).await?))
}

/// Ends what runs and keeps the disk.
pub async fn stop(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
    body: Body,
) -> Result<Json<Session>, Problem> {
    query.only(&[])?;
    body.none()?;
    Ok(Json(state.control.stop_session(&ctx, id).await?))
}

/// Starts a stopped one again.
pub async fn resume(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
    body: Body,
) -> Result<Json<Session>, Problem> {
    query.only(&[])?;
    body.none()?;
    Ok(Json(state.control.resume_session(&ctx, id).await?))
}

/// Removes one with its disk.
pub async fn remove(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
    Ok(Json(state.control.delete_session(&ctx, id).await?))
}

/// Runs a command: collected, or as server-sent events to those who ask for `text/event-stream`. A caller who hangs up
/// kills the command either way.
pub async fn exec(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    query.only(&[])?;
    let request: ExecRequest = body.shape()?;
    if !wants_events(&headers) {
        let ran = state.control.exec_collected(&ctx, id, request);
        let result: ExecResult = match state.stop.run_until_cancelled(ran).await {
            Some(result) => result?,
            None => {
                return Err(Problem::from(control::Error::service_unavailable(
                    "The server stops, and the command with it. Try again when it is back.",
                )));
            }
        };
        return Ok(Json(result).into_response());
    }
    let exec = state.control.exec(&ctx, id, request).await?;
    // A task of its own: a reader that does not read holds neither the question nor the kill up.
    let (sender, mut receiver) = mpsc::channel(1);
    tokio::spawn(pass_on(exec, sender));
    let events = stream::poll_fn(move |cx| receiver.poll_recv(cx))
        .map(Ok::<_, Infallible>)
        .take_until(state.stop.clone().cancelled_owned());
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(super::log_stream::KEEP_ALIVE))
        .into_response();
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Hands events on until the command or the reader's right ends, or the reader goes. What is dropped then is killed.
async fn pass_on(mut exec: Exec, sender: mpsc::Sender<Event>) {
    let rights = exec.rights();
    let passing = async {
        loop {
            let (event, more) = tell(&mut exec).await;
            if sender.send(event).await.is_err() || !more {
                break;
            }
        }
    };
    let lost = tokio::select! {
        () = passing => return,
        () = sender.closed() => return,
        error = rights.lost() => error,
    };
    drop(exec);
    let _ = sender.send(event("error", &json!(lost.api()))).await;
}

fn wants_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The next event, and whether another one may follow.
async fn tell(exec: &mut Exec) -> (Event, bool) {
    match exec.next().await {
        Ok(Some(ExecEvent::Output(output))) => (output_event(&output), true),
        Ok(Some(ExecEvent::End(end, duration_ms))) => {
            let data = json!({
                "exit_code": end.exit_code, "timed_out": end.timed_out, "duration_ms": duration_ms,
            });
            (event("exit", &data), false)
        }
        Ok(None) => (event("error", &json!({})), false),
        Err(error) => (event("error", &json!(error.api())), false),
    }
}

/// Bytes as they came: as text where they are whole characters, else in base64.
fn output_event(output: &Output) -> Event {
    let name = match output.stream {
        Source::Stderr => "stderr",
        _ => "stdout",
    };
    let data = match std::str::from_utf8(&output.bytes) {
        Ok(text) => json!({"text": text}),
        Err(_) => json!({"base64": STANDARD.encode(&output.bytes)}),
    };
    event(name, &data)
}

fn event(name: &str, data: &serde_json::Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
