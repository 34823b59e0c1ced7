//! Setup runs and their logs.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use control::{Error, setup_runs::LogQuery};
use domain::limits::{LOG_PAGE_MAX, RUN_LIST_MAX, SAFE_INTEGER_MAX, WAIT_SECONDS_MAX};
use http::{HeaderValue, header};
use wire::{
    managed_agents::{LogPage, SetupRun, SetupRunList},
    run_records::{RunEgress, RunTimings},
};

use super::{
    extract::{Body, Ctx, OfEnvironment, OfRun, Query},
    keyed::{Answered, KeyedCall},
};
use crate::http::{AppState, problem::Problem};

/// `listEnvironmentSetupRuns`
pub async fn list(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
) -> Result<Json<SetupRunList>, Problem> {
    let query = query.only(&["limit"])?;
    let limit = query.number("limit", 1, RUN_LIST_MAX.into())?;
    Ok(Json(state.control.list_setup_runs(&ctx, id, limit).await?))
}

/// `createEnvironmentSetupRun`
pub async fn start(
    State(state): State<AppState>,
    OfEnvironment(id): OfEnvironment,
    call: KeyedCall,
) -> Result<Answered<SetupRun>, Problem> {
    let key = call.key.ok_or_else(Error::idempotency_key_required)?;
    call.body.none()?;
    let started = state
        .control
        .start_setup_run(&call.ctx, id, Some(key))
        .await?;
    Ok(Answered(started))
}

/// `getEnvironmentSetupRun`
pub async fn read(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
) -> Result<Json<SetupRun>, Problem> {
    let query = query.only(&["wait_seconds"])?;
    let wait = query.number("wait_seconds", 0, WAIT_SECONDS_MAX.into())?;
    let held = state.control.get_setup_run(&ctx, id, run, wait);
    let found = match state.stop.run_until_cancelled(held).await {
        Some(found) => found?,
        // The server stops: what is true now, without waiting.
        None => state.control.get_setup_run(&ctx, id, run, None).await?,
    };
    Ok(Json(found))
}

/// `getEnvironmentSetupRunLog`
pub async fn log(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
) -> Result<Json<LogPage>, Problem> {
    let query = query.only(&["after", "limit", "wait_seconds"])?;
    let wanted = LogQuery {
        after: query
            .number("after", 0, SAFE_INTEGER_MAX.unsigned_abs())?
            .unwrap_or_default(),
        limit: query.number("limit", 1, LOG_PAGE_MAX.into())?,
        wait_seconds: query.number("wait_seconds", 0, WAIT_SECONDS_MAX.into())?,
    };
    let held = state.control.setup_run_log(&ctx, id, run, wanted);
    let page = match state.stop.run_until_cancelled(held).await {
        Some(page) => page?,
        None => {
            let now = LogQuery {
                wait_seconds: None,
                ..wanted
            };
            state.control.setup_run_log(&ctx, id, run, now).await?
        }
    };
    Ok(Json(page))
}

/// `cancelEnvironmentSetupRun`
pub async fn cancel(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
    body: Body,
) -> Result<Json<SetupRun>, Problem> {
    query.only(&[])?;
    body.none()?;
    Ok(Json(state.control.cancel_setup_run(&ctx, id, run).await?))
}

/// Takes the run away from its worker.
pub async fn release(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
    body: Body,
) -> Result<Json<SetupRun>, Problem> {
    query.only(&[])?;
    body.none()?;
    Ok(Json(state.control.release_setup_run(&ctx, id, run).await?))
}

/// The whole log as plain text.
pub async fn log_text(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
) -> Result<Response, Problem> {
    query.only(&[])?;
    let text = state.control.setup_run_log_text(&ctx, id, run).await?;
    let name = HeaderValue::from_str(&format!("attachment; filename=\"setup-run-{run}.log\""))
        .unwrap_or(HeaderValue::from_static("attachment"));
    Ok((
        [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/plain; charset=utf-8"),
            ),
            (header::CONTENT_DISPOSITION, name),
        ],
        text,
    )
        .into_response())
}

/// Hosts that the run asked for.
pub async fn egress(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
) -> Result<Json<RunEgress>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.setup_run_egress(&ctx, id, run).await?))
}

/// Seconds per script line.
pub async fn timings(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(id, run): OfRun,
    query: Query,
) -> Result<Json<RunTimings>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.setup_run_timings(&ctx, id, run).await?))
}
