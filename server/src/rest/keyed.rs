//! Calls that can carry an `Idempotency-Key`: what they are read with, and how they answer.

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use control::{Keyed, OpCtx, Outcome};
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::extract::{Body, Ctx, Query};
use crate::http::{AppState, problem::Problem};

/// Set to `true` on the answer of an earlier request with the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Who calls, with which key, and what was sent. Such calls take no query.
pub struct KeyedCall {
    /// Who calls.
    pub ctx: OpCtx,
    /// The call's key, if it has one.
    pub key: Option<Keyed>,
    /// What was sent.
    pub body: Body,
}

impl FromRequest<AppState> for KeyedCall {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Ctx(ctx) = Ctx::from_request_parts(&mut parts, state).await?;
        // The body is read even when the query is refused, so that one over the limit says so.
        let query = Query::from_request_parts(&mut parts, state).await?;
        let body = Body::from_request(Request::from_parts(parts, body), state).await?;
        query.only(&[])?;
        let key = body.key()?;
        Ok(Self { ctx, key, body })
    }
}

/// The answer of such a call, byte for byte as first sent.
pub struct Answered<T>(pub Outcome<T>);

impl<T> IntoResponse for Answered<T> {
    fn into_response(self) -> Response {
        let Self(outcome) = self;
        let json = HeaderValue::from_static("application/json");
        let mut response = (
            StatusCode::from_u16(outcome.status).unwrap_or(StatusCode::OK),
            [(header::CONTENT_TYPE, json)],
            outcome.body,
        )
            .into_response();
        if outcome.replayed {
            let headers = response.headers_mut();
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
