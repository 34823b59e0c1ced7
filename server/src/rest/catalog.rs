//! What the deployment offers, with validators, so that clients can keep it.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::extract::{Ctx, Query};
use crate::http::{
    AppState, cached,
    problem::{Problem, internal},
};

/// `listSandboxProviders`
pub async fn list_sandbox_providers(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.only(&[])?;
    with_validator(&headers, &state.control.list_sandbox_providers(&ctx).await?)
}

/// `listEnvironmentTemplates`
pub async fn list_environment_templates(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.only(&[])?;
    with_validator(
        &headers,
        &state.control.list_environment_templates(&ctx).await?,
    )
}

/// The answer with its `ETag`, or `304` when the caller has it already.
fn with_validator<T: Serialize>(headers: &HeaderMap, value: &T) -> Result<Response, Problem> {
    let body = serde_json::to_string(value).map_err(|e| internal(e.to_string()))?;
    let digest = hex::encode(Sha256::digest(body.as_bytes()));
    // Weak, because compression changes the bytes on the way.
    let tag = format!("W/\"{}\"", digest.get(..32).unwrap_or(&digest));
    let tag = HeaderValue::from_str(&tag).map_err(|e| internal(e.to_string()))?;
    let mut response = if cached::knows(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        (
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )],
            body,
        )
            .into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    Ok(response)
}
