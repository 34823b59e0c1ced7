//! Liveness and readiness, for whoever supervises the process.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde::Serialize;

use super::AppState;

/// `{"status":"ok"}` while the process answers.
pub async fn healthz() -> Json<serde_json::Value> {
    Json(serde_json::json!({"status": "ok"}))
}

#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    database: bool,
    worker: bool,
    runner_image: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<&'static str>,
}

/// `200` when setup runs can be done, else `503` and what is missing.
pub async fn readyz(State(state): State<AppState>) -> Response {
    let found = state.control.readiness().await;
    let missing = [
        (
            found.database,
            "The database does not answer; check that it runs and that --database is right.",
        ),
        (
            found.worker,
            "No worker was heard of lately; start one, or start the server without --no-worker.",
        ),
        (
            found.runner_image,
            "No worker has a runner image; build one with `groundwork runner-image build`.",
        ),
    ]
    .into_iter()
    .filter_map(|(ok, sentence)| (!ok).then_some(sentence))
    .collect();
    let body = Readiness {
        ready: found.ready(),
        database: found.database,
        worker: found.worker,
        runner_image: found.runner_image,
        missing,
    };
    let status = if body.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body)).into_response()
}
