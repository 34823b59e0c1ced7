//! The server's side of a server function: context, status, log, redirects (ssr only).

use control::{Caller, OpCtx};
use domain::ids::EnvironmentId;
use http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use leptos::prelude::use_context;
use leptos_axum::ResponseOptions;
use wire::error::{ApiError, Code};

use super::AppError;
pub use crate::context::{AppContext, app_context};

/// The context of the request, or a redirect to the sign-in page for a caller that nobody knows.
///
/// # Errors
/// `unauthorized` for an anonymous caller, with the redirect already set.
pub fn member() -> Result<AppContext, AppError> {
    let app = app_context()?;
    if matches!(app.ctx.caller, Caller::Anonymous) {
        redirect(&sign_in_path());
        let mut error = AppError(control::Error::unauthorized().into_api());
        name_request(&mut error.0, &app.ctx);
        // A page's answer is the redirect itself; a script that called hears what is wrong.
        if use_context::<Parts>().is_some_and(|parts| parts.method == Method::POST) {
            set_status(&error.0);
        }
        return Err(error);
    }
    Ok(app)
}

/// Translates a use case's answer: the error goes to the log once, gets the request's id, and sets the status.
///
/// # Errors
/// The use case's refusal or failure.
pub fn answer<T>(ctx: &OpCtx, result: control::Result<T>) -> Result<T, AppError> {
    result.map_err(|error| {
        let error = refusal(ctx, error);
        set_status(&error.0);
        error
    })
}

/// The same for an error that does not make the whole answer one: nothing is set.
pub fn refusal(ctx: &OpCtx, error: control::Error) -> AppError {
    let code = error.code();
    if code.status() >= 500 {
        tracing::error!(request_id = %ctx.request_id, %code, chain = ?error.chain(), "server function failed");
    } else {
        tracing::info!(request_id = %ctx.request_id, %code, "server function refused");
    }
    let mut api = error.into_api();
    name_request(&mut api, ctx);
    AppError(api)
}

/// The same refusal, naming the environment that was asked about: by the time it is shown, a page of many may have asked
/// about another one.
pub fn about(mut error: AppError, environment: EnvironmentId) -> AppError {
    error
        .0
        .details
        .insert("environmentId".to_owned(), environment.to_string().into());
    error
}

/// The idempotency key of a further request that a form's post with this key makes; that of a post without a key is empty,
/// too, so that it is refused and not taken for another one's.
pub fn further_key(key: &str, what: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}-{what}")
    }
}

fn name_request(error: &mut ApiError, ctx: &OpCtx) {
    error
        .details
        .insert("requestId".to_owned(), ctx.request_id.clone().into());
}

/// Sets the answer's status, but never that of a plain form post: it would replace the redirect, and show raw JSON.
fn set_status(error: &ApiError) {
    let Some(options) = use_context::<ResponseOptions>() else {
        return;
    };
    if is_plain_form_post() {
        return;
    }
    if let Ok(status) = StatusCode::from_u16(error.code.status()) {
        options.set_status(status);
    }
    if let Some(seconds) = error.retry_after {
        options.insert_header(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Says that the page which is being rendered does not exist, or must not be seen.
pub fn set_page_status(code: Code) {
    if let (Some(options), Ok(status)) = (
        use_context::<ResponseOptions>(),
        StatusCode::from_u16(code.status()),
    ) {
        options.set_status(status);
    }
}

/// Whether the request is a form that the browser sent by itself, without our script.
pub fn is_plain_form_post() -> bool {
    use_context::<Parts>().is_some_and(|parts| {
        parts.method == Method::POST
            && parts
                .headers
                .get(header::ACCEPT)
                .and_then(|value| value.to_str().ok())
                .is_some_and(|value| value.contains("text/html"))
    })
}

/// Adds a header to the answer.
pub fn append_header(name: HeaderName, value: &str) {
    if let (Some(options), Ok(value)) = (
        use_context::<ResponseOptions>(),
        HeaderValue::from_str(value),
    ) {
        options.append_header(name, value);
    }
}

/// Leads elsewhere: a page that is being rendered answers 302 whatever the reader accepts; a server function tells the
/// browser's script, or the browser itself after a plain form post.
pub fn redirect(path: &str) {
    leptos_axum::redirect(path);
    let is_page = use_context::<Parts>().is_some_and(|parts| parts.method == Method::GET);
    if let (true, Some(options)) = (is_page, use_context::<ResponseOptions>()) {
        options.set_status(StatusCode::FOUND);
    }
}

/// The sign-in page that leads back to where the caller wanted to go.
fn sign_in_path() -> String {
    let wanted = use_context::<Parts>().and_then(|parts| {
        if parts.method == Method::GET {
            return parts.uri.path_and_query().map(ToString::to_string);
        }
        // A server function: back to the page that called it.
        let referer = parts.headers.get(header::REFERER)?.to_str().ok()?;
        let after_scheme = referer.split_once("://")?.1;
        after_scheme
            .find('/')
            .map(|at| after_scheme[at..].to_owned())
    });
    crate::links::sign_in(wanted.as_deref())
}
