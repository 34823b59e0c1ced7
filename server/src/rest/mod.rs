//! The two REST trees (spec 2-api). Handlers parse, call one method of the application layer, and translate.

mod administration;
pub mod audit;
mod catalog;
mod environments;
pub(crate) mod extract;
mod keyed;
mod log_stream;
mod secrets;
mod sessions;
pub(crate) mod setup_runs;

use axum::{
    Router, middleware,
    routing::{MethodRouter, any, delete, get, patch, post, put},
};

use crate::{
    auth::bearer,
    http::{AppState, problem, terminal},
};

/// One call of the REST API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// HTTP method.
    pub method: &'static str,
    /// Path from the root, with `{…}` for parameters.
    pub path: &'static str,
}

/// Every call with its handler: the router is made from this list and from nothing else, so that the coverage test sees
/// all there is.
fn table() -> Vec<(Operation, MethodRouter<AppState>)> {
    let mut table = Vec::new();
    let mut add = |method: &'static str, path: &'static str, handler| {
        table.push((Operation { method, path }, handler));
    };
    add(
        "GET",
        "/managed-agents/v1/sandbox-providers",
        get(catalog::list_sandbox_providers),
    );
    add(
        "GET",
        "/managed-agents/v1/environment-templates",
        get(catalog::list_environment_templates),
    );
    add(
        "GET",
        "/managed-agents/v1/environments",
        get(environments::list),
    );
    add(
        "POST",
        "/managed-agents/v1/environments",
        post(environments::create),
    );
    add(
        "GET",
        "/managed-agents/v1/environments/{environment_id}",
        get(environments::read),
    );
    add(
        "PATCH",
        "/managed-agents/v1/environments/{environment_id}",
        patch(environments::update),
    );
    add(
        "DELETE",
        "/managed-agents/v1/environments/{environment_id}",
        delete(environments::remove),
    );
    add(
        "GET",
        "/managed-agents/v1/environments/{environment_id}/setup-runs",
        get(setup_runs::list),
    );
    add(
        "POST",
        "/managed-agents/v1/environments/{environment_id}/setup-runs",
        post(setup_runs::start),
    );
    add(
        "GET",
        "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}",
        get(setup_runs::read),
    );
    add(
        "GET",
        "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log",
        get(setup_runs::log),
    );
    add(
        "POST",
        "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/cancel",
        post(setup_runs::cancel),
    );

    add(
        "GET",
        "/groundwork/v1/environments",
        get(environments::search),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/staleness",
        get(environments::staleness),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/history",
        get(environments::history),
    );
    add(
        "POST",
        "/groundwork/v1/environments/{environment_id}/history/{revision}/restore",
        post(environments::restore),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/secrets",
        get(secrets::list),
    );
    for (method, handler) in [
        ("GET", get(secrets::read)),
        ("PUT", put(secrets::put)),
        ("DELETE", delete(secrets::remove)),
    ] {
        add(
            method,
            "/groundwork/v1/environments/{environment_id}/secrets/{name}",
            handler,
        );
    }
    add(
        "POST",
        "/groundwork/v1/network-policy/test",
        post(environments::test_policy),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log/stream",
        get(log_stream::stream),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log.txt",
        get(setup_runs::log_text),
    );
    add(
        "POST",
        "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/release",
        post(setup_runs::release),
    );
    add("GET", "/groundwork/v1/sessions", get(sessions::list));
    add("POST", "/groundwork/v1/sessions", post(sessions::create));
    add(
        "GET",
        "/groundwork/v1/sessions/{session_id}",
        get(sessions::read),
    );
    add(
        "DELETE",
        "/groundwork/v1/sessions/{session_id}",
        delete(sessions::remove),
    );
    add(
        "GET",
        "/groundwork/v1/sessions/{session_id}/samples",
        get(sessions::samples),
    );
    add(
        "POST",
        "/groundwork/v1/sessions/{session_id}/stop",
        post(sessions::stop),
    );
    add(
        "POST",
        "/groundwork/v1/sessions/{session_id}/resume",
        post(sessions::resume),
    );
    add(
        "POST",
        "/groundwork/v1/sessions/{session_id}/exec",
        post(sessions::exec),
    );
    add(
        "GET",
        "/groundwork/v1/sessions/{session_id}/terminal",
        get(terminal::terminal),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/egress",
        get(setup_runs::egress),
    );
    add(
        "GET",
        "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/timings",
        get(setup_runs::timings),
    );
    add(
        "GET",
        "/groundwork/v1/members",
        get(administration::members),
    );
    add(
        "PATCH",
        "/groundwork/v1/members/{user_id}",
        patch(administration::change_member),
    );
    add(
        "DELETE",
        "/groundwork/v1/members/{user_id}",
        delete(administration::remove_member),
    );
    add(
        "GET",
        "/groundwork/v1/members/invitations",
        get(administration::invitations),
    );
    add(
        "POST",
        "/groundwork/v1/members/invitations",
        post(administration::invite),
    );
    add(
        "DELETE",
        "/groundwork/v1/members/invitations/{invitation_id}",
        delete(administration::withdraw_invitation),
    );
    add(
        "GET",
        "/groundwork/v1/api-keys",
        get(administration::api_keys),
    );
    add(
        "POST",
        "/groundwork/v1/api-keys",
        post(administration::create_api_key),
    );
    add(
        "DELETE",
        "/groundwork/v1/api-keys/{api_key_id}",
        delete(administration::revoke_api_key),
    );
    add(
        "GET",
        "/groundwork/v1/workers",
        get(administration::workers),
    );
    add("GET", "/groundwork/v1/audit-events", get(audit::list));
    add(
        "GET",
        "/groundwork/v1/audit-events/export",
        get(audit::export),
    );
    table
}

/// Every call, for tests.
pub fn operations() -> Vec<Operation> {
    table()
        .into_iter()
        .map(|(operation, _)| operation)
        .collect()
}

/// Both trees. Whatever lies in them and is no call answers in the API's own shape.
pub fn routes(state: &AppState) -> Router<AppState> {
    let authenticated = table()
        .into_iter()
        .fold(Router::new(), |router, (operation, handler)| {
            router.route(operation.path, handler)
        })
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(middleware::from_fn_with_state(
            state.clone(),
            bearer::authenticate,
        ));
    ["/managed-agents", "/groundwork"]
        .into_iter()
        .fold(authenticated, |router, tree| {
            router
                .route(tree, any(problem::not_found))
                .route(&format!("{tree}/{{*rest}}"), any(problem::not_found))
        })
}
