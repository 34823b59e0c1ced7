//! Liveness and readiness, for whoever supervises the process.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::AppState;

/// How long a probe waits for the database.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// `{"status":"ok"}` while the process answers.
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The process answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// What setup runs need, and whether it is there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Readiness {
    /// Everything is.
    ready: bool,
    /// The database answers.
    database: bool,
    /// A worker was heard of lately.
    worker: bool,
    /// A worker has a runner image.
    runner_image: bool,
    /// What is missing, and what to do; left out when nothing is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<&'static str>,
}

/// Readiness of this deployment. A database that hangs is one that does not answer: whoever supervises us does not wait
/// as long as a request would.
pub async fn found(state: &AppState) -> control::workers::Readiness {
    tokio::time::timeout(ANSWER_WITHIN, state.control.readiness())
        .await
        .unwrap_or(control::workers::Readiness {
            database: false,
            worker: false,
            runner_image: false,
        })
}

/// `200` when setup runs can be done, else `503` and what is missing.
pub async fn readyz(State(state): State<AppState>) -> Response {
    let found = found(&state).await;
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
