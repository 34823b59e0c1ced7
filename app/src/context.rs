//! What the server gives to every page and every server function, and the only way they reach anything (ssr only).
//!
//! The server builds one [`AppContext`] for a request and calls [`provide`], both in the context function of
//! `leptos_axum`'s page routes and in that of its server function handler.

use std::sync::Arc;

use async_trait::async_trait;
use control::ctx::OpCtx;
use domain::ids::UserId;
use leptos::prelude::{provide_context, use_context};
use wire::error::ApiError;

/// The browser's sign-in, behind its cookie. Implemented by the server over its session store.
#[async_trait]
pub trait ConsoleSession: Send + Sync {
    /// Signs in: the browser gets a new session id, whatever it had before (no fixation).
    ///
    /// # Errors
    /// `service_unavailable` when the session cannot be stored.
    async fn sign_in(&self, user_id: UserId, session_epoch: i64) -> Result<(), ApiError>;

    /// Ends this browser's sign-in and removes its cookie.
    ///
    /// # Errors
    /// `service_unavailable` when the session cannot be removed.
    async fn sign_out(&self) -> Result<(), ApiError>;

    /// Keeps a small text for the next page of this browser: the inputs of a refused form when scripting is off, or a key
    /// that is shown once. Never put into a URL or a log.
    ///
    /// # Errors
    /// `service_unavailable` when the session cannot be stored.
    async fn put_note(&self, name: &str, text: String) -> Result<(), ApiError>;

    /// Takes that text: it is gone with the answer to this request, within which every call finds the same.
    ///
    /// # Errors
    /// `service_unavailable` when the session cannot be read.
    async fn take_note(&self, name: &str) -> Result<Option<String>, ApiError>;
}

/// Everything a page or a server function may use.
#[derive(Clone)]
pub struct AppContext {
    /// The application layer.
    pub control: control::Control,
    /// Who asks, and through which request.
    pub ctx: OpCtx,
    /// The browser's sign-in.
    pub session: Arc<dyn ConsoleSession>,
}

/// Makes the context known to the page or server function about to run.
pub fn provide(context: AppContext) {
    provide_context(context);
}

/// The context of the page or server function that runs.
///
/// # Errors
/// `internal_error` where the server forgot to provide it.
pub fn app_context() -> Result<AppContext, ApiError> {
    use_context::<AppContext>().ok_or_else(|| ApiError {
        code: wire::error::Code::InternalError,
        message: "The page was set up without its context.".to_owned(),
        details: serde_json::Map::default(),
        retry_after: None,
    })
}
