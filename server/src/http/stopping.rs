//! What is held open for news: passed on by proxies as it comes, and ended when the server stops; its reader comes back
//! and goes on where it was.

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures::StreamExt;
use http::{HeaderName, HeaderValue, header};
use tokio_util::sync::CancellationToken;

/// The layer for streaming server functions. Pages and small answers, which end by themselves, are left alone.
pub async fn end_streams(
    State(stop): State<CancellationToken>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let streams = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/octet-stream");
    if !streams {
        return response;
    }
    let mut response = response;
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response.map(|body| {
        Body::from_stream(
            body.into_data_stream()
                .take_until(stop.cancelled_owned())
                // It is polled after its end behind compression.
                .fuse(),
        )
    })
}
