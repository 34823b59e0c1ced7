//! What is said of a run: its end, its numbers, its sentences.

use std::time::Duration;

use domain::{
    hints::{Evidence, hint},
    network_policy::NetworkPolicy,
    setup_run::{FailureCode, Phase},
};
use execution::runtime::{SavedLayer, ScriptEnd};
use serde_json::{Map, Value, json};
use wire::worker::{CapturedImage, Fault, Plan, RunOutcome, RunResult};

use crate::log::RunLog;

/// Lines whose time is told in the profile.
const SLOWEST_LINES: usize = 10;

fn outcome(result: RunResult, phase: Phase, message: impl Into<String>) -> RunOutcome {
    RunOutcome {
        result,
        phase,
        message: message.into(),
        exit_code: None,
        failed_line: None,
        failed_command: None,
        hint_code: None,
        hint: None,
        hint_host: None,
        stderr_tail: None,
        failure_code: None,
        image: None,
        capture_failure: None,
        compute_profile: Map::new(),
    }
}

/// The script passed.
pub(crate) fn passed(
    end: &ScriptEnd,
    saved: Result<SavedLayer, Fault>,
    profile: Map<String, Value>,
) -> RunOutcome {
    let (image, capture_failure) = match saved {
        Ok(layer) => (
            Some(CapturedImage {
                digest: layer.digest,
                size_bytes: layer.size_bytes,
                base_image_digest: layer.base_digest,
            }),
            None,
        ),
        Err(fault) => (None, Some(fault)),
    };
    RunOutcome {
        exit_code: Some(end.exit_code),
        image,
        capture_failure,
        compute_profile: profile,
        ..outcome(RunResult::Succeeded, Phase::Cleanup, "Setup verified.")
    }
}

/// The script did not pass.
pub(crate) fn failed(plan: &Plan, end: &ScriptEnd, log: &RunLog) -> RunOutcome {
    let command = log.redact(&end.failed_command);
    let tail = log.stderr_tail();
    let hint = hint(&Evidence {
        exit_code: end.exit_code,
        timed_out: end.timed_out,
        timeout_seconds: plan.setup_timeout_seconds,
        failed_line: end.failed_line,
        failed_command: &command,
        last_line: end.last_line,
        last_line_seconds: end.last_line_for.as_secs_f64().round() as u64,
        out_of_memory: end.out_of_memory,
        memory_mib: plan.memory_mib,
        disk_used: end.disk_used,
        disk_size: end.disk_size,
        disk_gi: plan.disk_gi,
        policy: &plan.network_policy,
        blocked: &log.blocked(end.failed_line),
        output_tail: &log.recent(),
        gpu_expected: false,
    });
    let hint_host = hint.as_ref().and_then(|hint| hint.host.clone());
    let (hint_code, hint) = hint.map(|h| (h.code, h.text)).unzip();
    RunOutcome {
        exit_code: Some(end.exit_code),
        failed_line: Some(end.failed_line),
        failed_command: (!command.is_empty()).then_some(command),
        hint_code,
        hint,
        hint_host,
        stderr_tail: (!tail.is_empty()).then_some(tail),
        failure_code: Some(FailureCode::EnvironmentSetupFailed),
        ..outcome(RunResult::Failed, Phase::Setup, failure_sentence(plan, end))
    }
}

/// One sentence on how the script failed.
fn failure_sentence(plan: &Plan, end: &ScriptEnd) -> String {
    if end.timed_out {
        return format!(
            "The script ran longer than {} seconds and was ended.",
            plan.setup_timeout_seconds
        );
    }
    let code = end.exit_code;
    let place = match (end.failed_line, &end.failed_in) {
        (0, _) => "The script".to_owned(),
        (line, None) => format!("Line {line}"),
        (line, Some(file)) => format!("Line {line} (in {file})"),
    };
    if end.out_of_memory {
        return format!(
            "{place} failed with exit code {code}: the memory limit of {} MiB was reached.",
            plan.memory_mib
        );
    }
    format!("{place} failed with exit code {code}.")
}

/// A member cancelled.
pub(crate) fn cancelled(phase: Phase) -> RunOutcome {
    outcome(RunResult::Cancelled, phase, "Cancelled.")
}

/// No sandbox could be had.
pub(crate) fn not_provided(code: FailureCode, message: String) -> RunOutcome {
    RunOutcome {
        failure_code: Some(code),
        ..outcome(RunResult::Failed, Phase::Provision, message)
    }
}

/// The sandbox's time to live ended before the script did.
pub(crate) fn life_over(message: String) -> RunOutcome {
    RunOutcome {
        failure_code: Some(FailureCode::SandboxLost),
        ..outcome(RunResult::Failed, Phase::Setup, message)
    }
}

/// What the compute turned out to be (`compute_profile`): bytes, seconds, thousandths of a core.
pub(crate) fn profile(plan: &Plan, end: &ScriptEnd, runtime: &str) -> Map<String, Value> {
    let mut slowest = end.timings.clone();
    slowest.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    slowest.truncate(SLOWEST_LINES);
    let slowest: Vec<Value> = slowest
        .into_iter()
        .map(|(line, took)| json!({ "line": line, "seconds": seconds(took) }))
        .collect();
    let profile = json!({
        "runtime": runtime,
        "cpu_milli": plan.cpu_milli,
        "memory_mib": plan.memory_mib,
        "disk_gi": plan.disk_gi,
        "gpus": 0,
        "docker": plan.privileged,
        "cpu_seconds": seconds(Duration::from_millis(end.cpu_millis)),
        "memory_peak_bytes": end.memory_peak,
        "disk_used_bytes": end.disk_used,
        "disk_size_bytes": end.disk_size,
        "slowest_lines": slowest,
    });
    match profile {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Seconds to the millisecond.
fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1_000.0
}

/// The note on a sandbox that is ready.
pub(crate) fn ready_note(plan: &Plan, took: Duration) -> String {
    format!(
        "The sandbox is ready after {}: {} vCPU, {} MiB memory, {} GiB disk.",
        span(took),
        f64::from(plan.cpu_milli) / 1_000.0,
        plan.memory_mib,
        plan.disk_gi
    )
}

/// The note on the policy in force, with the beginning of its hash.
pub(crate) fn policy_sentence(policy: &NetworkPolicy, hash: [u8; 4]) -> String {
    let [a, b, c, d] = hash;
    let hash = format!("{a:02x}{b:02x}{c:02x}{d:02x}");
    match policy {
        NetworkPolicy::Unrestricted => {
            format!("Network: unrestricted (policy {hash}); it is ready.")
        }
        NetworkPolicy::Rules(rules) if policy.is_closed() => format!(
            "Network: no host can be reached ({}, policy {hash}).",
            count(rules.len(), "rule")
        ),
        NetworkPolicy::Rules(rules) => format!(
            "Network: {} in force (policy {hash}); it is ready.",
            count(rules.len(), "rule")
        ),
    }
}

/// The note on what the checks of the prepared sandbox found.
pub(crate) fn profile_note(plan: &Plan, end: &ScriptEnd) -> String {
    let mut parts = vec![format!(
        "{} of CPU time",
        span(Duration::from_millis(end.cpu_millis))
    )];
    if end.memory_peak > 0 {
        parts.push(format!(
            "{} of {} MiB memory at most",
            size(end.memory_peak),
            plan.memory_mib
        ));
    }
    if end.disk_size > 0 {
        parts.push(format!(
            "{} of {} GiB disk",
            size(end.disk_used),
            plan.disk_gi
        ));
    }
    format!("The script passed. It used {}.", parts.join(", "))
}

/// The note on a saved file system.
pub(crate) fn saved_note(layer: &SavedLayer, took: Duration) -> String {
    format!(
        "The prepared file system is saved: {} in {}.",
        size(layer.size_bytes),
        span(took)
    )
}

/// The text as a sentence: a capital first, a full stop last.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.trim().chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    let rest = chars.as_str();
    let stop = if rest.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{first}{rest}{stop}")
}

fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds >= 60 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

fn size(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let bytes = bytes as f64;
    if bytes >= 1024.0 * MIB {
        format!("{:.1} GiB", bytes / MIB / 1024.0)
    } else {
        format!("{:.1} MiB", bytes / MIB)
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
