//! The HTTP doors: one router for the console, both API trees and the probes.

pub mod bodies;
pub mod cached;
pub mod console_routes;
pub mod door;
pub mod health;
pub mod limits;
pub mod metrics;
pub mod origin;
pub mod problem;
pub mod security;
pub mod session_port;
pub mod static_files;
pub mod stopping;
pub mod terminal;

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::FromRef,
    middleware,
    routing::{MethodRouter, get},
};
use control::{
    Control,
    ports::{Clock, Ids},
};
use leptos::config::LeptosOptions;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::{catch_panic::CatchPanicLayer, compression::CompressionLayer};

use self::{limits::RateLimiter, origin::Origins};
use crate::{auth, config::Settings, openapi, rest};

/// Calls that take no key, all of them `GET`: the router and the API's description are made from this list.
fn open_calls() -> Vec<(&'static str, MethodRouter<AppState>)> {
    vec![
        ("/openapi.json", get(openapi::openapi)),
        ("/healthz", get(health::healthz)),
        ("/readyz", get(health::readyz)),
        ("/metrics", get(metrics::metrics)),
    ]
}

/// The paths of calls that take no key.
pub fn open_paths() -> Vec<&'static str> {
    open_calls().into_iter().map(|(path, _)| path).collect()
}

/// What the doors need, once for the process: every layer and handler has a clone of it for every request.
#[derive(Clone)]
pub struct AppState(Arc<AppParts>);

/// The parts of [`AppState`].
pub struct AppParts {
    /// The application layer.
    pub control: Control,
    /// Ids, for requests.
    pub ids: Arc<dyn Ids>,
    /// Counts answers.
    pub metrics: Arc<metrics::Metrics>,
    /// Counts requests.
    pub limiter: Arc<RateLimiter>,
    /// Where requests may come from.
    pub origins: Origins,
    /// A sign-in that is not used for this long ends.
    pub sign_in_idle: Duration,
    /// Cancelled when the server stops: whatever is held open ends.
    pub stop: CancellationToken,
    /// The console's files.
    pub leptos: LeptosOptions,
}

impl AppState {
    /// From settings.
    pub fn new(
        settings: &Settings,
        control: Control,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        leptos: LeptosOptions,
        stop: CancellationToken,
    ) -> Self {
        let limits = settings.rate_limit;
        Self::from(AppParts {
            control,
            ids,
            metrics: Arc::default(),
            limiter: Arc::new(RateLimiter::new(
                clock,
                limits::Rate::new(limits.key_per_second, limits.key_burst),
                limits::Rate::new(limits.address_per_second, limits.address_burst),
            )),
            origins: Origins {
                public_url: settings.public_url.clone(),
                trusted_proxies: settings.trusted_proxies.clone().into(),
            },
            sign_in_idle: settings.sign_in.idle,
            stop,
            leptos,
        })
    }
}

impl From<AppParts> for AppState {
    fn from(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for AppState {
    type Target = AppParts;
    fn deref(&self) -> &AppParts {
        &self.0
    }
}

impl FromRef<AppState> for LeptosOptions {
    fn from_ref(state: &AppState) -> Self {
        state.leptos.clone()
    }
}

/// Everything. Layers of a router are listed from the innermost to the outermost, those of a stack the other way round.
pub fn router(state: AppState) -> Router {
    let console = console_routes::routes(&state)
        .layer(middleware::from_fn_with_state(
            state.stop.clone(),
            stopping::end_streams,
        ))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            auth::console::authenticate,
        ))
        .layer(auth::console::session_layer(&state))
        .layer(middleware::from_fn_with_state(
            state.clone(),
            origin::refuse_cross_site,
        ));
    let probes = open_calls()
        .into_iter()
        .fold(Router::new(), |router, (path, handler)| {
            router.route(path, handler)
        })
        .method_not_allowed_fallback(problem::method_not_allowed);
    // Layers that belong together are stacked before the router has them: it clones a service for each of its own layers
    // with every request.
    let bodies = ServiceBuilder::new()
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn(bodies::bound));
    let door = ServiceBuilder::new()
        .layer(middleware::from_fn_with_state(state.clone(), door::door))
        .layer(CatchPanicLayer::custom(problem::from_panic));
    Router::new()
        .merge(console)
        .merge(console_routes::files(&state))
        .merge(rest::routes(&state))
        .merge(probes)
        .layer(bodies)
        // As the servers inside send it: neither bounded nor compressed by us.
        .merge(session_port::routes())
        .layer(door)
        .with_state(state)
}
