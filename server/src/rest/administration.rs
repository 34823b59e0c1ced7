//! Members, API keys, workers, the audit log.

use axum::{Json, extract::State};
use control::api_keys::{ApiKeyRequest, Whose};
use domain::{ids::AuditId, roles::Role};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use wire::{
    console::{ApiKeyItem, AuditPage, MemberItem, WorkerItem},
    managed_agents::{Deleted, Items},
};

use super::extract::{Body, Ctx, OfApiKey, Query};
use crate::http::{AppState, problem::Problem};

/// Members of the organization, oldest first.
pub async fn members(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<Items<MemberItem>>, Problem> {
    query.only(&[])?;
    let items = state.control.members(&ctx).await?;
    Ok(Json(Items { items }))
}

/// API keys: the caller's, or with `?all=true` everyone's.
pub async fn api_keys(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<Items<ApiKeyItem>>, Problem> {
    let query = query.only(&["all"])?;
    let whose = match query.text("all") {
        None | Some("false") => Whose::Mine,
        Some("true") => Whose::Everyones,
        Some(_) => return Err(Problem::invalid("all", "all: use true or false.")),
    };
    let items = state.control.api_keys(&ctx, whose).await?;
    Ok(Json(Items { items }))
}

/// The body of a new key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    role: Role,
    expires_in_days: Option<u32>,
}

/// A new key with its secret, which is shown this once.
#[derive(Serialize)]
pub struct ShownKey {
    #[serde(flatten)]
    item: ApiKeyItem,
    secret: String,
}

/// Makes a key for the caller.
pub async fn create_api_key(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    body: Body,
) -> Result<(StatusCode, Json<ShownKey>), Problem> {
    query.only(&[])?;
    let wanted: NewKey = body.shape()?;
    let made = state
        .control
        .create_api_key(
            &ctx,
            ApiKeyRequest {
                name: wanted.name,
                role: wanted.role,
                expires_in_days: wanted.expires_in_days,
            },
        )
        .await?;
    Ok((
        StatusCode::CREATED,
        Json(ShownKey {
            item: made.item,
            secret: made.secret.expose().to_owned(),
        }),
    ))
}

/// Ends a key at once.
pub async fn revoke_api_key(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfApiKey(id): OfApiKey,
    query: Query,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    state.control.revoke_api_key(&ctx, id).await?;
    Ok(Json(Deleted { deleted: true }))
}

/// Workers, newest first.
pub async fn workers(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<Items<WorkerItem>>, Problem> {
    query.only(&[])?;
    let items = state.control.workers(&ctx).await?;
    Ok(Json(Items { items }))
}

/// The audit log, newest first; `?before=` the id of the last entry of the page before.
pub async fn audit_events(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<AuditPage>, Problem> {
    let query = query.only(&["before"])?;
    let before = query.id::<AuditId>("before")?;
    Ok(Json(state.control.audit_log(&ctx, before).await?))
}
