//! The console: pages, server functions, and its files.

use std::{
    path::Path,
    sync::{Arc, LazyLock},
};

use app::context::AppContext;
use axum::{
    Router, middleware,
    routing::{any, get},
};
use control::OpCtx;
use http::{HeaderValue, header, request::Parts};
use leptos::{context::use_context, nonce::use_nonce};
use leptos_axum::{AxumRouteListing, LeptosRoutes, ResponseOptions, generate_route_list};
use tower_sessions::Session;

use super::{AppState, origin, problem, security, session_port, terminal};
use crate::{auth::console::BrowserSession, openapi, rest};

/// The console's pages as its router lists them, once for the process: while a list is made, Leptos loads no data for
/// any page of the process, and one that is being rendered on another thread would wait for ever.
static PAGES: LazyLock<Vec<AxumRouteListing>> = LazyLock::new(|| generate_route_list(app::App));

/// The console's pages, by the router's own list.
pub fn pages() -> Vec<AxumRouteListing> {
    PAGES.clone()
}

/// Pages and server functions. What no route names is the console's *not found* page.
pub fn routes(state: &AppState) -> Router<AppState> {
    let (page, missing) = (state.clone(), state.clone());
    let options = state.leptos.clone();
    Router::new()
        .leptos_routes_with_context(
            state,
            pages(),
            move || provide(&page),
            move || app::shell(options.clone()),
        )
        // A file to download, also without scripting: the REST door's own, behind the console's sign-in.
        .route(
            "/environments/{environment_id}/runs/{setup_run_id}/log.txt",
            get(rest::setup_runs::log_text),
        )
        // The API's own export, for whoever signed in: a browser saves it as a file.
        .route("/audit/export", get(rest::audit::export))
        .route("/api", get(openapi::page::page))
        .route(
            "/sessions/{session_id}/terminal",
            get(terminal::terminal).layer(middleware::from_fn_with_state(
                state.clone(),
                origin::require_own_page,
            )),
        )
        .route("/sessions/{session_id}/http/", get(session_port::open))
        .route(
            "/sessions/{session_id}/http/{*path}",
            get(session_port::open),
        )
        .route("/fn/{*function}", any(problem::not_found))
        .fallback(leptos_axum::file_and_error_handler_with_context::<
            AppState,
            _,
        >(move || provide(&missing), app::shell))
}

/// The console's files, which need no sign-in.
pub fn files(state: &AppState) -> Router<AppState> {
    let site = Path::new(state.leptos.site_root.as_ref());
    super::static_files::routes(site, &super::static_files::assets(site))
}

/// The one function that gives pages and server functions their context.
fn provide(state: &AppState) {
    if let (Some(nonce), Some(response)) = (use_nonce(), use_context::<ResponseOptions>())
        && let Ok(policy) = HeaderValue::from_str(&security::page_policy(&nonce.to_string()))
    {
        response.insert_header(header::CONTENT_SECURITY_POLICY, policy);
    }
    // Absent while the router lists its pages.
    let Some(parts) = use_context::<Parts>() else {
        return;
    };
    if let (Some(ctx), Some(session)) = (
        parts.extensions.get::<OpCtx>().cloned(),
        parts.extensions.get::<Session>().cloned(),
    ) {
        app::context::provide(AppContext {
            control: state.control.clone(),
            ctx,
            session: Arc::new(BrowserSession::new(session, state.control.clock().clone())),
        });
    }
}
