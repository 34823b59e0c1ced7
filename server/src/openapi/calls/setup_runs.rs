//! Setup runs and their logs.

use domain::{
    limits::{LOG_PAGE_MAX, RUN_LIST_MAX, SAFE_INTEGER_MAX, WAIT_SECONDS_MAX},
    roles::Role::{Admin, Developer, User},
};
use serde_json::{Value, json};
use wire::{
    error::Code,
    managed_agents::{LogPage, SetupRun, SetupRunList},
    run_records::{RunEgress, RunTimings},
};

use super::super::{
    describe::{Describe, Group::*, Parameter, call, query},
    examples,
};

fn wait_seconds() -> Parameter {
    query(
        "wait_seconds",
        json!({"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX}),
        "Hold the answer for up to this many seconds while there is nothing new; at most 5 are held, so ask again.",
    )
}

fn after() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": SAFE_INTEGER_MAX})
}

pub(super) fn calls() -> Vec<Describe> {
    const ALL: &str = "/managed-agents/v1/environments/{environment_id}/setup-runs";
    const ONE: &str = "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}";
    vec![
        call("GET", ALL, "managedAgentsListEnvironmentSetupRuns", SetupRuns, User, "List setup runs")
            .text("Newest first. Runs and their logs are kept for 90 days.")
            .parameter(query(
                "limit",
                json!({"type": "integer", "minimum": 1, "maximum": RUN_LIST_MAX}),
                "Runs of the list; 50 unless given.",
            ))
            .json::<SetupRunList>(200, "The runs.", json!({"setup_runs": [examples::failed_run()]})),
        call("POST", ALL, "managedAgentsCreateEnvironmentSetupRun", SetupRuns, Developer, "Start a setup run")
            .text("Fresh compute is started, the setup script is run and logged, the prepared file system is kept, the compute \
                   is released. One run in flight per environment, four manual ones per organization.")
            .keyed(true)
            .no_body()
            .json::<SetupRun>(202, "The queued run.", examples::queued_run())
            .header("Idempotency-Replayed", "`true` when this is the answer to an earlier request with the same key.")
            .errors(&[
                Code::SetupRunInProgress,
                Code::SetupRunLimit,
                Code::SandboxProviderDisabled,
                Code::SetupRunNotStarted,
            ]),
        call("GET", ONE, "managedAgentsGetEnvironmentSetupRun", SetupRuns, User, "Get a setup run")
            .text("With `wait_seconds`, answers as soon as the run has ended.")
            .parameter(wait_seconds())
            .json::<SetupRun>(200, "The run.", examples::failed_run()),
        call(
            "GET",
            "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log",
            "managedAgentsGetEnvironmentSetupRunLog", SetupRuns, User, "Read a page of the log",
        )
            .text("Lines after a number, in order and without gaps; secrets are masked. Pass `next_after` as `after` to go on; with \
                   `wait_seconds`, answers as soon as there is a line. Up to 4 MiB and 1,000,000 lines are kept (`truncated` is true past that), for \
                   90 days: then one `system` line says that the log was removed, and when.")
            .parameter(query("after", after(), "The last `seq` that you have; 0 unless given."))
            .parameter(query(
                "limit",
                json!({"type": "integer", "minimum": 1, "maximum": LOG_PAGE_MAX}),
                "Lines of a page; 500 unless given.",
            ))
            .parameter(wait_seconds())
            .json::<LogPage>(200, "The lines.", examples::log_page()),
        call(
            "POST",
            "/managed-agents/v1/environments/{environment_id}/setup-runs/{setup_run_id}/cancel",
            "managedAgentsCancelEnvironmentSetupRun", SetupRuns, Developer, "Cancel a setup run",
        )
            .text("The script is killed and the compute released. An environment that was `verified`, and is unchanged, stays it; \
                   any other is `never` afterwards, since the start of the run cleared its earlier verdict.")
            .no_body()
            .json::<SetupRun>(200, "The run; it may still be letting its compute go.", examples::queued_run())
            .errors(&[Code::SetupRunFinished]),
        call(
            "GET",
            "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log/stream",
            "streamSetupRunLog", SetupRuns, User, "Follow the log",
        )
            .text("Server-sent events: `line` (a log line; one with the `seq` of the last line replaces it: it grew), `status` (the \
                   run changed), `end` (it has ended and every line was sent), `error` (an error, such as lost access). A comment \
                   comes every 10 seconds when nothing else does. The id of an event is the last `seq`, with a mark of \
                   the line's text where it may still change: come back with `Last-Event-ID` after a lost connection, and \
                   nothing is missing or doubled. In the place of a log that was removed comes one line that says so.")
            .parameter(query("after", after(), "The last `seq` that you have; 0 unless given."))
            .parameter(Parameter {
                name: "Last-Event-ID",
                place: "header",
                required: false,
                text: "The id of the last event that came; wins over `after`.",
                schema: json!({"type": "string", "pattern": "^[0-9]{1,16}(-[0-9a-f]{1,8})?$"}),
            })
            .plain(&["text/event-stream"], "The events.", &examples::events()),
        call(
            "GET",
            "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/log.txt",
            "downloadSetupRunLog", SetupRuns, User, "Download the whole log",
        )
            .text("As plain text, one line each, without colours.")
            .plain(&["text/plain"], "The log.", "$ uv venv --seed /workspace/.venv\nUsing CPython 3.13\n")
            .header("Content-Disposition", "A file name for the download."),
        call(
            "POST",
            "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/release",
            "releaseSetupRun", SetupRuns, Admin, "Take a run away from its worker",
        )
            .text("For a worker that hangs and still says that it lives; one that is silent loses its runs by itself. The run is \
                   tried again, at most twice in all, or ends; the worker can change nothing of it any more.")
            .no_body()
            .json::<SetupRun>(200, "The run, which waits for a worker or has ended.", examples::queued_run())
            .errors(&[Code::SetupRunFinished]),
        call(
            "GET",
            "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/egress",
            "listSetupRunHosts", SetupRuns, User, "List the hosts that a run asked for",
        )
            .text("Allowed and blocked, by which rule, and how often, in order of first attempt. While the run goes on, a host \
                   is listed at its first attempt; counts are complete when `complete` is true. Kept as long as the run's log.")
            .json::<RunEgress>(200, "The hosts.", examples::run_egress()),
        call(
            "GET",
            "/groundwork/v1/environments/{environment_id}/setup-runs/{setup_run_id}/timings",
            "listSetupRunTimings", SetupRuns, User, "List how long each script line took",
        )
            .text("In order of first run, once the script has ended, beside the time of the same line in the run before it that \
                   has times. Kept as long as the run's log.")
            .json::<RunTimings>(200, "The times.", examples::run_timings()),
    ]
}
