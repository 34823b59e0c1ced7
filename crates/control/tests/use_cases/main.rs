//! The use cases over real SQLite, with a clock that tests move.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "tests"
)]

mod accounts;
mod and_test;
mod api_keys;
mod authorization;
mod authorization_others;
mod console;
mod environments;
mod following;
mod forms;
mod gateway;
mod history;
mod idempotency;
mod images;
mod leases;
mod log_reading;
mod members;
mod policy;
mod retention;
mod run_records;
mod runner_refresh;
mod saving;
mod secrets;
mod session_commands;
mod session_keeping;
mod sessions;
mod setup_runs;
mod several_servers;
mod verification;
mod vertical;

use control::{Error, Result};
use domain::ids::EnvironmentId;
use serde_json::Value;
use testkit::TestApp;
use wire::{error::Code, managed_agents::Environment};

/// The refusal's code.
fn code<T>(result: Result<T>) -> Code {
    match result {
        Ok(_) => panic!("was not refused"),
        Err(error) => error.code(),
    }
}

/// The refusal.
fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("was not refused"),
        Err(error) => error,
    }
}

/// The environment as the admin's edit leaves it.
async fn edited(app: &TestApp, id: EnvironmentId, body: Value) -> Environment {
    let saved = app
        .control
        .update_environment(&app.admin, id, &body, None)
        .await;
    saved.unwrap().value
}

/// An environment whose setup test has passed.
async fn verified(app: &TestApp) -> EnvironmentId {
    let id = app.environment("one", "true").await;
    app.run(id).await;
    let worker = app.worker("w").await;
    worker.pass(worker.claim().await.held).await;
    id
}

/// How many definitions of an environment were saved.
async fn revisions(app: &TestApp, id: EnvironmentId) -> usize {
    let history = app.control.environment_history(&app.admin, id).await;
    history.unwrap().revisions.len()
}
