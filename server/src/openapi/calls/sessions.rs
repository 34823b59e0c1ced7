//! Sessions and the commands in them.

use domain::{
    exec::ExecRequest,
    limits::WAIT_SECONDS_MAX,
    roles::Role::{Developer, User},
};
use serde_json::json;
use wire::{
    error::Code,
    managed_agents::Deleted,
    sessions::{ExecResult, NewSession, Session, SessionList, SessionSamples},
};

use super::super::{
    describe::{Answer, Describe, Group::*, Kind, call, of, query},
    examples,
};

pub(super) fn calls() -> Vec<Describe> {
    [life(), work()].concat()
}

fn life() -> Vec<Describe> {
    vec![
        call("GET", "/groundwork/v1/sessions", "listSessions", Sessions, User, "List sessions")
            .text("Newest first, deleted ones left out.")
            .parameter(query(
                "environment_id",
                json!({"type": "string", "format": "uuid"}),
                "Only those of this environment.",
            ))
            .json::<SessionList>(200, "The sessions.", json!({"sessions": [examples::session()]})),
        call("POST", "/groundwork/v1/sessions", "createSession", Sessions, Developer, "Start a session")
            .text("Starts a sandbox from a usable environment: one without a setup script, or one whose script is verified as it is \
                   saved now (`422` otherwise; `details.next_action` names the call that mends it). The answer comes at once with \
                   the status `provisioning`: read the session with `wait_seconds` until it is `running`. The session keeps what \
                   it was started from; later edits of the environment do not touch it, but for its secret variables: \
                   whenever the sandbox is started, it is given those that are set then.")
            .keyed(false)
            .body::<NewSession>(json!({"environment_id": examples::ENVIRONMENT}))
            .json::<Session>(202, "The session, whose sandbox is being prepared.", examples::session())
            .header("Idempotency-Replayed", "`true` when this is the answer to an earlier request with the same key.")
            .errors(&[
                Code::NotFound,
                Code::EnvironmentNotVerified,
                Code::SandboxProviderDisabled,
                Code::SessionLimit,
            ]),
        call("GET", "/groundwork/v1/sessions/{session_id}", "getSession", Sessions, User, "Get a session")
            .text("With `wait_seconds`, answers as soon as nothing is under way: it runs, is stopped, or has failed. A deleted one \
                   answers `404`.")
            .parameter(query(
                "wait_seconds",
                json!({"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX}),
                "Hold the answer for up to this many seconds; at most 5 are held, so ask again.",
            ))
            .json::<Session>(200, "The session.", examples::session()),
        call("DELETE", "/groundwork/v1/sessions/{session_id}", "deleteSession", Sessions, Developer, "Delete a session")
            .text("Ends what runs and removes its files. Done soon after the answer.")
            .json::<Deleted>(200, "It is being removed.", json!({"deleted": true})),
        call("POST", "/groundwork/v1/sessions/{session_id}/stop", "stopSession", Sessions, Developer, "Stop a session")
            .text("Ends what runs and keeps its files for `stopped_delete_after_seconds`. Done soon after the answer, which says \
                   `pending: stop`.")
            .no_body()
            .json::<Session>(200, "The session.", examples::session())
            .errors(&[Code::SessionNotRunning]),
        call("POST", "/groundwork/v1/sessions/{session_id}/resume", "resumeSession", Sessions, Developer, "Resume a session")
            .text("Starts a stopped one again with its files as they were. Processes do not come back. Secret variables are \
                   those that are set now: a replaced one has its new value, and a removed one is gone.")
            .no_body()
            .json::<Session>(200, "The session.", examples::session())
            .errors(&[Code::SessionNotRunning, Code::SessionLimit]),
        call("GET", "/groundwork/v1/sessions/{session_id}/samples", "getSessionSamples", Sessions, User, "What a session used")
            .text("CPU, memory, disk and processes in the last hour, every 5 seconds, oldest first; empty unless it runs.")
            .json::<SessionSamples>(200, "The measurements.", json!({"samples": [examples::usage()]})),
    ]
}

fn work() -> Vec<Describe> {
    let result = json!({
        "exit_code": 0, "stdout": "hi\n", "stderr": "", "truncated": false, "timed_out": false, "duration_ms": 12,
    });
    vec![
        call("POST", "/groundwork/v1/sessions/{session_id}/exec", "execInSession", Sessions, Developer, "Run a command")
            .text("As the user `sandbox` in `/workspace`: `command` is a line for `bash -c`, `argv` a program and its arguments \
                   that no shell reads. The answer comes when it has ended, with up to 1 MiB of each stream. With `Accept: \
                   text/event-stream` it comes as it is written: events `stdout` and `stderr` (`{\"text\": …}`, or `{\"base64\": \
                   …}` where the bytes are no whole UTF-8), then `exit` (`{exit_code, timed_out, duration_ms}`), or `error`. \
                   Hanging up kills the command. Up to 64 run in a session at once.")
            .body::<ExecRequest>(json!({"command": "echo hi", "timeout_seconds": 60}))
            .answer(Answer {
                status: 200,
                text: "How it ended and what it wrote, or events.",
                kind: Kind::JsonOr(of::<ExecResult>(), &["text/event-stream"]),
                headers: Vec::new(),
                example: Some(result),
            })
            .errors(&[Code::SessionNotRunning, Code::SessionLimit]),
        call("GET", "/groundwork/v1/sessions/{session_id}/terminal", "openSessionTerminal", Sessions, Developer, "Open a terminal")
            .text("A WebSocket. Binary frames are bytes of a login shell's terminal, both ways. Text frames are JSON: send \
                   `{\"type\":\"resize\",\"cols\":120,\"rows\":40}`; first comes `{\"type\":\"terminal\",\"terminal_id\":…}`, at \
                   the end `{\"type\":\"exit\",\"exit_code\":…}` or `{\"type\":\"error\",\"message\":…}`. A terminal lives on for \
                   two minutes without a connection: come back with its `terminal_id`, and its last 64 KiB come first.")
            .parameter(query(
                "terminal_id",
                json!({"type": "string", "format": "uuid"}),
                "The terminal to come back to; a new one unless given.",
            ))
            .parameter(query("cols", json!({"type": "integer", "minimum": 1, "maximum": 1000}), "Columns; 80 unless given."))
            .parameter(query("rows", json!({"type": "integer", "minimum": 1, "maximum": 1000}), "Rows; 24 unless given."))
            .answer(Answer {
                status: 101,
                text: "The connection is a WebSocket now.",
                kind: Kind::Empty,
                headers: Vec::new(),
                example: None,
            })
            .errors(&[Code::SessionNotRunning, Code::SessionLimit]),
    ]
}
