//! Bodies of requests: bounded, and read to their end even where the answer does not depend on them.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, HttpBody},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use domain::limits::BODY_MAX_BYTES;
use futures::{StreamExt, stream};
use http::{HeaderValue, header};

use super::limits::too_large;

/// How much of a body that nobody wants is read.
const UNWANTED_MAX_BYTES: usize = 8 << 20;
/// For how long.
const UNWANTED_WITHIN: Duration = Duration::from_secs(2);

/// A body that two sides can read from.
type Shared = Arc<Mutex<BodyDataStream>>;

/// The layer: a body over the limit is refused at once where its length is announced, and cut off while reading where it
/// is not. What a handler leaves unread is read before the answer goes out: the connection would be reset otherwise, and
/// a client that is still sending would see that instead of the answer.
pub async fn bound(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    let (parts, body) = request.into_parts();
    let shared: Shared = Arc::new(Mutex::new(body.into_data_stream()));
    let mut response = if announced.is_some_and(|length| length > BODY_MAX_BYTES as u64) {
        too_large().into_response()
    } else {
        let body = Body::from_stream(reader(&shared));
        let body = Body::new(http_body_util::Limited::new(body, BODY_MAX_BYTES));
        next.run(Request::from_parts(parts, body)).await
    };
    if !read_out(&shared).await {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn reader(
    shared: &Shared,
) -> impl futures::Stream<Item = Result<axum::body::Bytes, axum::Error>> + use<> {
    let shared = Arc::clone(shared);
    stream::poll_fn(move |cx| {
        shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .poll_next_unpin(cx)
    })
    // It may be polled after its end, by the other side.
    .fuse()
}

/// Reads what is left; whether that was all.
async fn read_out(shared: &Shared) -> bool {
    let mut rest = std::pin::pin!(reader(shared));
    let mut bytes = 0;
    let reading = async {
        while let Some(Ok(chunk)) = rest.next().await {
            bytes += chunk.len();
            if bytes > UNWANTED_MAX_BYTES {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(UNWANTED_WITHIN, reading)
        .await
        .unwrap_or(false)
}
