//! The description of the API (spec 2-api, *The description of the API*): one OpenAPI 3.1 document, made from the table of
//! calls (`rest::operations`), from what [`calls`] says of each, and from the types that handlers answer with. A call
//! without a description, and a description without a call, fail a test.

mod assemble;
mod bodies;
mod calls;
mod describe;
mod examples;
pub mod page;
mod schemas;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use describe::{Answer, Describe, Group, Kind, Parameter};

/// The document, made once.
pub struct Document {
    /// As JSON.
    pub value: Value,
    /// As it is sent.
    pub text: String,
    /// Of `text`.
    etag: HeaderValue,
}

/// What is said of every call, in the order of the table.
pub fn descriptions() -> &'static [Describe] {
    static ALL: LazyLock<Vec<Describe>> = LazyLock::new(calls::all);
    &ALL
}

/// The document.
pub fn document() -> &'static Document {
    static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
        let value = assemble::document(descriptions());
        let text = value.to_string();
        let digest = hex::encode(Sha256::digest(text.as_bytes()));
        // Weak, because compression changes the bytes on the way.
        let etag = format!("W/\"{}\"", digest.get(..32).unwrap_or(&digest));
        Document {
            value,
            text,
            etag: HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("W/\"0\"")),
        }
    });
    &DOCUMENT
}

/// `GET /openapi.json`: for anyone, with a validator. Scripts of other sites may read it too, so that tools in a browser can.
pub async fn openapi(headers: HeaderMap) -> Response {
    let document = document();
    let mut response = if crate::http::cached::knows(&headers, &document.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        (
            [(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )],
            document.text.as_str(),
        )
            .into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, document.etag.clone());
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, no-cache"),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    response
}
