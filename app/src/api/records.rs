//! What is kept of a run beside its log: hosts asked for, seconds per script line; and the *Allow* action.

use domain::ids::{EnvironmentId, SetupRunId};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::{console::RunHosts, run_records::RunTimings};

use super::AppError;

/// What allowing a host led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// The host.
    pub host: String,
    /// The setup run that was asked for.
    pub started: Option<SetupRunId>,
    /// Why the setup test that was asked for did not start, though the host is allowed.
    pub not_tested: Option<AppError>,
}

/// Hosts that a run asked for so far.
#[server(prefix = "/fn", endpoint = "run-hosts")]
pub async fn load_run_hosts(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
) -> Result<RunHosts, AppError> {
    use super::door;
    let app = door::member()?;
    let hosts = app
        .control
        .run_hosts(&app.ctx, environment_id, setup_run_id)
        .await;
    door::answer(&app.ctx, hosts)
}

/// How long a run's script lines took, against the run before it.
#[server(prefix = "/fn", endpoint = "run-timings")]
pub async fn load_run_timings(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
) -> Result<RunTimings, AppError> {
    use super::door;
    let app = door::member()?;
    let timings = app
        .control
        .setup_run_timings(&app.ctx, environment_id, setup_run_id)
        .await;
    door::answer(&app.ctx, timings)
}

/// Allows a host with one more rule of the environment's policy, with `group` also the others of its group, and starts a
/// setup test if `then_test`. Allowing what is allowed already changes nothing; `key`, which a test needs, makes a repeated
/// post one run.
#[server(name = AllowHost, prefix = "/fn", endpoint = "allow-host")]
pub async fn allow_host(
    environment_id: EnvironmentId,
    host: String,
    then_test: bool,
    #[server(default)] group: bool,
    #[server(default)] key: String,
) -> Result<Allowed, AppError> {
    use super::door;
    let app = door::member()?;
    // Two buttons of one form: the test after the one is another request than the test after the other.
    let key = if group {
        door::further_key(&key, "group")
    } else {
        key
    };
    let then = if then_test {
        control::and_test::Then::Test { key: Some(&key) }
    } else {
        control::and_test::Then::Rest
    };
    let changed = app
        .control
        .allow_host_then(&app.ctx, environment_id, &host, group, then)
        .await;
    let (started, not_tested) = match door::answer(&app.ctx, changed)?.test {
        None => (None, None),
        Some(Ok(run)) => (Some(run), None),
        // The host stays allowed if no test can start now: the reader is told both.
        Some(Err(error)) => (None, Some(door::refusal(&app.ctx, error))),
    };
    Ok(Allowed {
        host,
        started,
        not_tested,
    })
}
