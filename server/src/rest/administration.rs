//! Members, invitations, API keys, workers.

use axum::{Json, extract::State};
use control::api_keys::{ApiKeyRequest, Whose};
use http::StatusCode;
use wire::{
    administration::{ChangeMember, CreatedApiKey, NewApiKey, NewInvitation, SentInvitation},
    console::{ApiKeyItem, InvitationItem, MemberItem, WorkerItem},
    managed_agents::{Deleted, Items},
};

use super::extract::{Body, Ctx, OfApiKey, OfInvitation, OfMember, Query};
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

/// Changes a member's role.
pub async fn change_member(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfMember(id): OfMember,
    query: Query,
    body: Body,
) -> Result<Json<MemberItem>, Problem> {
    query.only(&[])?;
    let wanted: ChangeMember = body.shape()?;
    Ok(Json(
        state.control.change_role(&ctx, id, wanted.role).await?,
    ))
}

/// Removes a member.
pub async fn remove_member(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfMember(id): OfMember,
    query: Query,
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
    state.control.remove_member(&ctx, id).await?;
    Ok(Json(Deleted { deleted: true }))
}

/// Open invitations, newest first.
pub async fn invitations(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
) -> Result<Json<Items<InvitationItem>>, Problem> {
    query.only(&[])?;
    let items = state.control.invitations(&ctx).await?;
    Ok(Json(Items { items }))
}

/// Invites somebody; the link is shown this once.
pub async fn invite(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    body: Body,
) -> Result<(StatusCode, Json<SentInvitation>), Problem> {
    query.only(&[])?;
    let wanted: NewInvitation = body.shape()?;
    let made = state
        .control
        .invite(&ctx, &wanted.email, wanted.role)
        .await?;
    Ok((
        StatusCode::CREATED,
        Json(SentInvitation {
            item: made.item,
            path: format!("/invite/{}", made.token.expose()),
        }),
    ))
}

/// Withdraws an invitation.
pub async fn withdraw_invitation(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfInvitation(id): OfInvitation,
    query: Query,
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
    state.control.withdraw_invitation(&ctx, id).await?;
    Ok(Json(Deleted { deleted: true }))
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

/// Makes a key for the caller; its secret is shown this once.
pub async fn create_api_key(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    body: Body,
) -> Result<(StatusCode, Json<CreatedApiKey>), Problem> {
    query.only(&[])?;
    let wanted: NewApiKey = body.shape()?;
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
        Json(CreatedApiKey {
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
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
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
