//! Errors as answers: the flat `{code, message, details?}` of spec 2-api. The body is completed with the request's id at
//! the outermost layer ([`super::door`]), so that every refusal, whoever makes it, has one.

use axum::{
    Json,
    extract::Request,
    response::{Html, IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use wire::error::{ApiError, Code};

/// An error on its way out, with what the log must know and the caller must not.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What the caller sees.
    pub error: ApiError,
    /// The chain of causes, for the log alone.
    pub chain: Option<String>,
}

impl Problem {
    /// An error with a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            error: ApiError {
                code,
                message: message.into(),
                details: Map::new(),
                retry_after: None,
            },
            chain: None,
        }
    }

    /// A wrong parameter, header or body.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message).detail("field", field)
    }

    /// Adds a detail.
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.error.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the cause for the log.
    pub fn because(mut self, chain: impl Into<String>) -> Self {
        self.chain = Some(chain.into());
        self
    }

    /// Says after how many seconds to try again.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.error.retry_after = Some(seconds);
        self
    }

    /// The answer's status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The answer for this request's id.
    pub fn render(&self, request_id: &str) -> Response {
        let mut error = self.error.clone();
        error
            .details
            .insert("requestId".to_owned(), Value::from(request_id));
        let mut response = (self.status(), Json(&error)).into_response();
        if let Some(seconds) = error.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.error.code == Code::Unauthorized {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// The same for a person whose browser asked for a page, where no page of the console can say it.
    pub fn render_page(&self, request_id: &str) -> Response {
        let title = match self.status() {
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::PAYLOAD_TOO_LARGE => "Too large",
            StatusCode::SERVICE_UNAVAILABLE => "Not ready right now",
            _ => "Something went wrong",
        };
        let page = format!(
            "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title} · Groundwork</title></head><body><main><h1>{title}</h1><p>{}</p><p><a \
             href=\"/environments\">Back to the console</a></p><p><small>Request {}</small></p></main></body></html>",
            escape(&self.error.message),
            escape(request_id),
        );
        let mut response = (self.status(), Html(page)).into_response();
        if let Some(seconds) = self.error.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// A panic's answer; the payload goes to the log.
pub fn from_panic(payload: Box<dyn std::any::Any + Send + 'static>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("panic");
    internal(format!("panic: {text}")).into_response()
}

/// Our fault; the cause goes to the log.
pub fn internal(chain: impl Into<String>) -> Problem {
    Problem::new(
        Code::InternalError,
        "Something went wrong on our side. Try again; if it stays, give the request id to the operator.",
    )
    .detail("retryable", true)
    .because(chain)
}

/// No such path in an API tree.
pub async fn not_found(_: Request) -> Problem {
    Problem::new(
        Code::NotFound,
        "There is no such path. Check it against the API's description.",
    )
}

/// The path exists, the method does not; the router adds `Allow`.
pub async fn method_not_allowed(request: Request) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!(
            "{} is not possible here. The Allow header lists what is.",
            request.method()
        ),
    )
}

impl From<control::Error> for Problem {
    fn from(error: control::Error) -> Self {
        let chain = error.chain();
        Self {
            chain: (!chain.is_empty()).then(|| chain.join(": ")),
            error: error.into_api(),
        }
    }
}
