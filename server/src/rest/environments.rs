//! Environments.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use control::search::{EnvironmentQuery, PAGE_MAX};
use http::{HeaderValue, header};
use wire::{
    console::{History, Staleness},
    environments::EnvironmentSearch,
    managed_agents::{Deleted, Environment, EnvironmentList},
    policy::{PolicyAnswer, PolicyQuestion},
};

use super::{
    extract::{Body, Ctx, OfEnvironment, OfRevision, Query},
    keyed::{Answered, KeyedCall},
};
use crate::http::{AppState, problem::Problem};

/// `listEnvironments`
pub async fn list(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<EnvironmentList>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.list_environments(&ctx).await?))
}

/// `createEnvironment`
pub async fn create(
    State(state): State<AppState>,
    call: KeyedCall,
) -> Result<Answered<Environment>, Problem> {
    let body = call.body.json()?;
    let created = state
        .control
        .create_environment(&call.ctx, &body, call.key)
        .await?;
    Ok(Answered(created))
}

/// `getEnvironment`
pub async fn read(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
) -> Result<Response, Problem> {
    query.only(&[])?;
    let json = state.control.get_environment_json(&ctx, id).await?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], Bytes::from_owner(json)).into_response())
}

/// `updateEnvironment`
pub async fn update(
    State(state): State<AppState>,
    OfEnvironment(id): OfEnvironment,
    call: KeyedCall,
) -> Result<Answered<Environment>, Problem> {
    let body = call.body.json()?;
    let updated = state
        .control
        .update_environment(&call.ctx, id, &body, call.key)
        .await?;
    Ok(Answered(updated))
}

/// `deleteEnvironment`
pub async fn remove(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
    Ok(Json(state.control.delete_environment(&ctx, id).await?))
}

/// Search, page by page.
pub async fn search(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<EnvironmentSearch>, Problem> {
    let query = query.only(&["query", "status", "limit", "cursor"])?;
    let wanted = EnvironmentQuery {
        text: query.text("query").unwrap_or_default().to_owned(),
        status: query.text("status").map(str::to_owned),
        limit: query.number("limit", 1, PAGE_MAX.into())?,
        after: query.id("cursor")?,
    };
    Ok(Json(
        state.control.search_environments(&ctx, &wanted).await?,
    ))
}

/// Which fields differ from what was verified.
pub async fn staleness(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
) -> Result<Json<Staleness>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.environment_staleness(&ctx, id).await?))
}

/// Every saved definition.
pub async fn history(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
) -> Result<Json<History>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.environment_history(&ctx, id).await?))
}

/// Back to a saved definition.
pub async fn restore(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRevision(id, revision): OfRevision,
    query: Query,
    body: Body,
) -> Result<Json<Environment>, Problem> {
    query.only(&[])?;
    body.none()?;
    Ok(Json(
        state
            .control
            .restore_environment(&ctx, id, revision)
            .await?,
    ))
}

/// Would these hosts be allowed, and by which rule.
pub async fn test_policy(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    body: Body,
) -> Result<Json<PolicyAnswer>, Problem> {
    query.only(&[])?;
    let question: PolicyQuestion = body.shape()?;
    Ok(Json(
        state.control.test_network_policy(&ctx, &question).await?,
    ))
}
