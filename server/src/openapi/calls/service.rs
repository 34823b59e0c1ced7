//! Probes and the document itself.

use domain::roles::Role::User;
use serde_json::json;

use super::super::describe::{Answer, Describe, Group::*, Kind, call, of};
use crate::http::health::{Health, Readiness};

pub(super) fn calls() -> Vec<Describe> {
    let ready = json!({"ready": true, "database": true, "worker": true, "runner_image": true});
    vec![
        call("GET", "/openapi.json", "getOpenapi", Service, User, "This document")
            .open()
            .text("OpenAPI 3.1, made from the server's own types.")
            .answer(Answer {
                status: 200,
                text: "The document.",
                kind: Kind::Json(|_| schemars::json_schema!({"type": "object"})),
                headers: Vec::new(),
                example: None,
            })
            .cached(),
        call("GET", "/healthz", "getHealth", Service, User, "Liveness")
            .open()
            .text("Answers as long as the process does.")
            .json::<Health>(200, "The process answers.", json!({"status": "ok"})),
        call("GET", "/readyz", "getReadiness", Service, User, "Readiness")
            .open()
            .text("Whether setup runs can be done now: the database, a worker, a runner image.")
            .json::<Readiness>(200, "Ready.", ready)
            .answer(Answer {
                status: 503,
                text: "Not ready; `missing` says what is missing and how to mend it.",
                kind: Kind::Json(of::<Readiness>()),
                headers: Vec::new(),
                example: Some(json!({
                    "ready": false, "database": true, "worker": false, "runner_image": false,
                    "missing": ["No worker was heard of lately; start one, or start the server without --no-worker."],
                })),
            }),
        call("GET", "/metrics", "getMetrics", Service, User, "Metrics")
            .open()
            .plain(&["text/plain"], "The text format of Prometheus.", "groundwork_ready{part=\"database\"} 1\n"),
    ]
}
