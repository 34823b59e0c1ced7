//! Setup runs: start, cancel, read, follow.

use domain::{
    ids::{EnvironmentId, SetupRunId},
    setup_run::LogLine,
};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use server_fn::codec::{ByteStream, Streaming};
use wire::console::{Found, LogOutline, RunPage};

use super::AppError;

/// Lines of a log that the server renders into a page.
pub const TAIL_LINES: u64 = 200;

/// A run's own page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunLogPage {
    /// The run.
    pub page: RunPage,
    /// The part of its log that the server renders.
    pub lines: Vec<LogLine>,
    /// Idempotency key of the form that mends and tests again.
    pub key: String,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// Starts a setup run; `key` makes a repeated post one run. The answer, and a refusal, say of which environment.
#[server(name = TestSetup, prefix = "/fn", endpoint = "test-setup")]
pub async fn test_setup(
    environment_id: EnvironmentId,
    key: String,
) -> Result<(EnvironmentId, SetupRunId), AppError> {
    use super::door;
    let app = door::member()?;
    let started = app
        .control
        .test_setup(&app.ctx, environment_id, Some(&key))
        .await;
    match door::answer(&app.ctx, started) {
        Ok(run) => Ok((environment_id, run)),
        Err(error) => Err(door::about(error, environment_id)),
    }
}

/// Asks for a run to be stopped.
#[server(name = CancelRun, prefix = "/fn", endpoint = "cancel-run")]
pub async fn cancel_run(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let cancelled = app
        .control
        .cancel_setup_run(&app.ctx, environment_id, setup_run_id)
        .await;
    door::answer(&app.ctx, cancelled).map(|_| ())
}

/// Raises the limit that a failed run ran into, and tests again; `key` makes a repeated post one run.
#[server(name = RaiseLimit, prefix = "/fn", endpoint = "raise-limit")]
pub async fn raise_limit(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
    key: String,
) -> Result<SetupRunId, AppError> {
    use super::door;
    let app = door::member()?;
    let path = format!("console/environments/{environment_id}/raise-limit/{setup_run_id}");
    let keyed = door::answer(&app.ctx, control::Keyed::new(&key, "POST", &path, "", b""))?;
    let started = app
        .control
        .raise_limit_and_test(&app.ctx, environment_id, setup_run_id, Some(keyed))
        .await;
    let started = door::answer(&app.ctx, started)?.value.setup_run_id;
    if door::is_plain_form_post() {
        door::redirect(&crate::links::environment(environment_id));
    }
    Ok(started)
}

/// Lines of a log after `after`, at most `limit`.
#[server(prefix = "/fn", endpoint = "log-lines")]
pub async fn load_lines(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
    after: u64,
    limit: u32,
) -> Result<Vec<LogLine>, AppError> {
    use super::door;
    let app = door::member()?;
    let query = control::setup_runs::LogQuery {
        after,
        limit: Some(limit),
        wait_seconds: None,
    };
    let page = app
        .control
        .setup_run_log(&app.ctx, environment_id, setup_run_id, query)
        .await;
    door::answer(&app.ctx, page).map(|page| page.lines)
}

/// What a log is made of, for folding and filtering.
#[server(prefix = "/fn", endpoint = "log-outline")]
pub async fn load_outline(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
) -> Result<LogOutline, AppError> {
    use super::door;
    let app = door::member()?;
    let outline = app
        .control
        .setup_run_log_outline(&app.ctx, environment_id, setup_run_id)
        .await;
    door::answer(&app.ctx, outline)
}

/// Lines of a log that hold a text.
#[server(prefix = "/fn", endpoint = "find-in-log")]
pub async fn find_in_log(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
    query: String,
) -> Result<Found, AppError> {
    use super::door;
    let app = door::member()?;
    let found = app
        .control
        .find_in_setup_run_log(&app.ctx, environment_id, setup_run_id, &query, 0)
        .await;
    door::answer(&app.ctx, found)
}

/// One run's own page. Lines from `from` on are rendered by the server; without it: the end of the log.
#[server(prefix = "/fn", endpoint = "run")]
pub async fn load_run(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
    from: Option<u64>,
) -> Result<RunLogPage, AppError> {
    use super::door;
    let app = door::member()?;
    let page = door::answer(
        &app.ctx,
        app.control
            .run_page(&app.ctx, environment_id, setup_run_id)
            .await,
    )?;
    let lines = log_part(&app, &page.run, from).await?;
    Ok(RunLogPage {
        key: format!("raise-{}", app.ctx.request_id),
        page,
        lines,
        now_micros: app.control.clock().now().micros(),
    })
}

/// Follows a run from the line after `after`: frames, one JSON object a line, until the run has ended and every line was
/// sent. A reader that lost the connection calls again with the last line that it has.
#[server(prefix = "/fn", endpoint = "follow-run", output = Streaming)]
pub async fn follow_run(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
    after: u64,
) -> Result<ByteStream<AppError>, AppError> {
    use super::door;
    let app = door::member()?;
    let frames = app
        .control
        .follow_setup_run(app.ctx.clone(), environment_id, setup_run_id, after)
        .await;
    Ok(json_lines(door::answer(&app.ctx, frames)?))
}

/// One JSON object a line. Fused: what is below it polls a stream once more after its end.
#[cfg(feature = "ssr")]
pub(super) fn json_lines<T: Serialize + 'static>(
    items: impl futures::Stream<Item = T> + Send + 'static,
) -> ByteStream<AppError> {
    use futures::StreamExt as _;
    ByteStream::new(
        items
            .map(|item| {
                let mut line = serde_json::to_vec(&item).unwrap_or_default();
                line.push(b'\n');
                Ok(line)
            })
            .fuse(),
    )
}

/// The way to follow a run, for the browser.
#[cfg(feature = "hydrate")]
pub fn follow_run_call(
    environment: EnvironmentId,
    run: SetupRunId,
    after: u64,
) -> crate::live::stream::Call {
    crate::live::stream::Call {
        path: <FollowRun as server_fn::ServerFn>::PATH,
        form: format!("environment_id={environment}&setup_run_id={run}&after={after}"),
        // The run's state comes at once.
        first_within: crate::live::stream::FIRST_MAX,
    }
}

/// A part of a run's log for the server to render: from a line on, or its end.
#[cfg(feature = "ssr")]
pub(super) async fn log_part(
    app: &super::door::AppContext,
    run: &wire::console::RunView,
    from: Option<u64>,
) -> Result<Vec<LogLine>, AppError> {
    use super::door;
    if run.log.removed_at.is_some() {
        return Ok(Vec::new());
    }
    let query = control::setup_runs::LogQuery {
        after: from.map_or(run.log.lines.saturating_sub(TAIL_LINES), |from| {
            from.saturating_sub(1)
        }),
        limit: u32::try_from(TAIL_LINES).ok(),
        wait_seconds: None,
    };
    let page = app
        .control
        .setup_run_log(&app.ctx, run.environment_id, run.setup_run_id, query)
        .await;
    door::answer(&app.ctx, page).map(|page| page.lines)
}
