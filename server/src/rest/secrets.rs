//! Secret variables: names are told, values only taken.

use axum::{Json, extract::State};
use serde_json::Value;
use wire::{
    managed_agents::Deleted,
    secrets::{SecretItem, SecretList},
};

use super::extract::{Body, Ctx, OfEnvironment, OfSecret, Query};
use crate::http::{AppState, problem::Problem};

/// An environment's secrets.
pub async fn list(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfEnvironment(id): OfEnvironment,
    query: Query,
) -> Result<Json<SecretList>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.list_secrets(&ctx, id).await?))
}

/// One of them.
pub async fn read(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSecret(id, name): OfSecret,
    query: Query,
) -> Result<Json<SecretItem>, Problem> {
    query.only(&[])?;
    Ok(Json(state.control.get_secret(&ctx, id, &name).await?))
}

/// Sets or replaces one.
pub async fn put(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSecret(id, name): OfSecret,
    query: Query,
    body: Body,
) -> Result<Json<SecretItem>, Problem> {
    query.only(&[])?;
    let value = value_of(body.json()?)?;
    let set = state.control.set_secret(&ctx, id, &name, &value).await?;
    Ok(Json(set))
}

/// Read by hand: a message of the parser could repeat a part of the value.
fn value_of(body: Value) -> Result<control::Secret, Problem> {
    let shape = || Problem::invalid("value", "value: send an object with this text alone.");
    let Value::Object(mut map) = body else {
        return Err(shape());
    };
    match (map.remove("value"), map.is_empty()) {
        (Some(Value::String(value)), true) => Ok(control::Secret::new(value)),
        _ => Err(shape()),
    }
}

/// Removes one.
pub async fn remove(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSecret(id, name): OfSecret,
    query: Query,
    body: Body,
) -> Result<Json<Deleted>, Problem> {
    query.only(&[])?;
    body.none_to_delete()?;
    Ok(Json(state.control.delete_secret(&ctx, id, &name).await?))
}
