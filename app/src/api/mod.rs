//! Server functions: the console's way to the application layer. Each gets the context, calls `control` once, and
//! translates. Every one is a public endpoint, whatever page it stands beside.

use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use server_fn::{codec::JsonEncoding, error::ServerFnErrorErr};
use wire::error::{ApiError, Code};

#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod admin;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod environments;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod history;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod keys;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod records;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod secrets;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod sessions;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod setup_runs;
#[allow(
    missing_docs,
    reason = "the server macro makes a field of each argument"
)]
pub mod signing;

#[cfg(feature = "ssr")]
pub mod door;

/// What a page is rendered from: loaded on the server before the page is sent, and sent along with it.
pub type PageData<T> = Resource<T, PageJson>;

/// [`PageData`] that is loaded again whenever what `source` reads changes.
pub fn page_data<S, T, Fut>(
    source: impl Fn() -> S + Send + Sync + 'static,
    load: impl Fn(S) -> Fut + Send + Sync + 'static,
) -> PageData<T>
where
    S: PartialEq + Clone + Send + Sync + 'static,
    T: Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    Resource::new_with_options(source, load, true)
}

/// JSON that is read as server functions read theirs, from bytes: so the browser is sent one reader of each type, not two.
#[derive(Debug, Clone, Copy)]
pub struct PageJson;

impl<T: Serialize> codee::Encoder<T> for PageJson {
    type Error = serde_json::Error;
    type Encoded = String;

    fn encode(value: &T) -> Result<String, Self::Error> {
        serde_json::to_string(value)
    }
}

impl<T: serde::de::DeserializeOwned> codee::Decoder<T> for PageJson {
    type Error = serde_json::Error;
    type Encoded = str;

    fn decode(text: &str) -> Result<T, Self::Error> {
        serde_json::from_slice(text.as_bytes())
    }
}

/// What a server function refuses with: the same flat error as the REST API, or the browser's news that no answer came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppError(pub ApiError);

impl AppError {
    /// An error of this code with this message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(ApiError {
            code,
            message: message.into(),
            details: serde_json::Map::new(),
            retry_after: None,
        })
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.0.code
    }

    /// The request id to quote, where the answer came from our server.
    pub fn request_id(&self) -> Option<&str> {
        self.0.details.get("requestId").and_then(|id| id.as_str())
    }

    /// Whether no answer came at all.
    pub fn is_unreachable(&self) -> bool {
        self.0.details.contains_key("unreachable")
    }

    /// A text in `details`.
    pub fn detail(&self, name: &str) -> Option<&str> {
        self.0.details.get(name).and_then(|value| value.as_str())
    }

    /// Rejected fields as `(path, message)`, from `details.issues`.
    pub fn issues(&self) -> Vec<(String, String)> {
        let lines = self
            .0
            .details
            .get("issues")
            .and_then(|value| value.as_array());
        lines
            .into_iter()
            .flatten()
            .filter_map(|line| line.as_str()?.split_once(": "))
            .map(|(path, message)| (path.to_owned(), message.to_owned()))
            .collect()
    }

    /// The message of the field at this path, or below it (`env_vars` finds `env_vars.PATH`).
    pub fn field(&self, path: &str) -> Option<String> {
        let texts: Vec<String> = self
            .issues()
            .into_iter()
            .filter(|(at, _)| is_at_or_below(at, path))
            .map(|(at, message)| {
                if at == path {
                    message
                } else {
                    format!("{}: {message}", at[path.len()..].trim_start_matches('.'))
                }
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }
}

/// Whether the path `at` is `path` or something inside it.
pub fn is_at_or_below(at: &str, path: &str) -> bool {
    at.strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

impl From<ApiError> for AppError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)
    }
}
impl std::error::Error for AppError {}

impl FromServerFnError for AppError {
    type Encoder = JsonEncoding;

    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        match error {
            ServerFnErrorErr::Request(_) => {
                let mut error = Self::new(
                    Code::ServiceUnavailable,
                    "The server could not be reached. Check your connection, then try again.",
                );
                error
                    .0
                    .details
                    .insert("unreachable".to_owned(), true.into());
                error
            }
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) => Self::new(
                Code::InvalidRequest,
                "The form was not complete. Reload the page and fill it in again.",
            ),
            // An answer that cannot be read comes from something in between, or from another version of ours.
            ServerFnErrorErr::Deserialization(_) => Self::new(
                Code::ServiceUnavailable,
                "The answer could not be read. Reload the page and try again.",
            ),
            _ => Self::new(
                Code::InternalError,
                "Something went wrong on our side. Try again; if it stays, give your operator the request id.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(lines: &[&str]) -> AppError {
        let mut error = AppError::new(Code::InvalidRequest, "no");
        error
            .0
            .details
            .insert("issues".to_owned(), serde_json::json!(lines));
        error
    }

    #[test]
    fn a_field_finds_its_message_and_those_below_it() {
        let error = refused(&[
            "name: Give it a name.",
            "env_vars.PATH: Cannot be set.",
            "network_policy.rules[2].match.host_glob: Give the host alone: no scheme.",
        ]);
        for (path, message) in [
            ("name", Some("Give it a name.")),
            ("env_vars", Some("PATH: Cannot be set.")),
            (
                "network_policy",
                Some("rules[2].match.host_glob: Give the host alone: no scheme."),
            ),
            ("env", None),
            ("setup.script", None),
        ] {
            assert_eq!(error.field(path).as_deref(), message, "{path}");
        }
    }

    #[test]
    fn an_error_survives_its_encoding() {
        let error = refused(&["name: Give it a name."]);
        assert_eq!(AppError::de(error.ser()), error);
    }
}
