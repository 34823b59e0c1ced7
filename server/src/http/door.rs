//! The outermost layer: gives every request an id and its source, writes the access log, completes errors, and sets the
//! headers that every answer has (spec 2-api).

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use control::ports::Ids;
use http::{HeaderName, HeaderValue, header};

use super::{AppState, problem::Problem, security};

/// The header that carries a request's id, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub Arc<str>);

/// The layer.
pub async fn door(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id(&request, state.ids.as_ref());
    request.extensions_mut().insert(id.clone());
    let source = state.origins.of(&request);
    let tls = source.tls;
    request.extensions_mut().insert(source);
    let method = request.method().clone();
    let for_a_person = wants_page(&request);
    // The route's pattern, not the path: paths and queries may hold one-time tokens.
    let route = request.extensions().get::<MatchedPath>().cloned();

    let held = state.metrics.hold();
    let mut response = next.run(request).await;
    drop(held);

    let problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        let rendered = if for_a_person {
            problem.render_page(&id.0)
        } else {
            problem.render(&id.0)
        };
        let allow = response.headers_mut().remove(header::ALLOW);
        let (mut parts, body) = rendered.into_parts();
        // Headers that inner layers set (security, organization) stay; the body and its kind are the error's.
        for (name, value) in response.headers() {
            if name != header::CONTENT_LENGTH && name != header::CONTENT_TYPE {
                parts.headers.append(name, value.clone());
            }
        }
        if let Some(allow) = allow {
            parts.headers.insert(header::ALLOW, allow);
        }
        response = Response::from_parts(parts, body);
    }
    security::set(response.headers_mut(), tls);
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }

    let status = response.status().as_u16();
    let took = start.elapsed();
    state.metrics.count(status, took);
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let route = route.as_ref().map_or("-", MatchedPath::as_str);
    let code = problem.as_ref().map_or("", |p| p.error.code.as_str());
    let cause = problem
        .as_ref()
        .and_then(|p| p.chain.as_deref())
        .unwrap_or_default();
    let probe = route == "/healthz" || route == "/readyz";
    if probe || route.starts_with("/pkg") {
        // "Not ready" is an answer, not a failure.
        tracing::debug!(request_id = %id.0, %method, route, status, millis, "request");
    } else if status >= 500 {
        tracing::error!(request_id = %id.0, %method, route, status, millis, code, cause, "request failed");
    } else if status >= 400 {
        tracing::info!(request_id = %id.0, %method, route, status, millis, code, cause, "request refused");
    } else {
        tracing::info!(request_id = %id.0, %method, route, status, millis, "request");
    }
    response
}

/// Whether a browser asks for a page of the console, rather than a program for an answer.
fn wants_page(request: &Request) -> bool {
    let path = request.uri().path();
    let api = [
        "/managed-agents",
        "/groundwork",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ]
    .iter()
    .any(|tree| path.starts_with(tree));
    !api && request
        .headers()
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("text/html"))
}

/// The caller's own id where it is harmless, else a new one.
fn request_id(request: &Request, ids: &dyn Ids) -> RequestId {
    let given = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|text| {
            (1..=128).contains(&text.len())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
        });
    RequestId(match given {
        Some(text) => text.into(),
        None => ids.next_uuid().to_string().into(),
    })
}
