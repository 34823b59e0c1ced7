//! What is kept of a run beside its log, in our own API, `/groundwork/v1` (spec 2-api).

use domain::{ids::SetupRunId, run_records::EgressOutcome, timestamp::Timestamp};
use serde::{Deserialize, Serialize};

/// Hosts that a run asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RunEgress {
    /// In order of first attempt, at most 10,000: what a run asks for beyond them is not listed.
    pub hosts: Vec<EgressHost>,
    /// Whether the run has ended: before that, more hosts may come, and counts are those of the first attempt.
    pub complete: bool,
    /// When the list was removed, with the run's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}

/// A host that a run asked for. Attempts that ended differently, or at another port, are entries of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct EgressHost {
    /// Host name, or address when dialled by address.
    pub host: String,
    /// Port; 0 = a name lookup.
    pub port: u16,
    /// Whether the policy let it through.
    pub allowed: bool,
    /// How it ended.
    pub outcome: EgressOutcome,
    /// Index of the deciding rule in the policy that the run had; left out: no rule matched, or the policy was
    /// unrestricted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// That rule's `host_glob`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_host_glob: Option<String>,
    /// The host whose HTTP redirect led here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_from: Option<String>,
    /// Script line that was running at the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How often.
    pub count: u64,
}

/// How long a run's script lines took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RunTimings {
    /// In order of first run; empty until the script has ended.
    pub lines: Vec<LineTiming>,
    /// Seconds of all of them together.
    pub total_seconds: f64,
    /// The run before it that has times, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousRun>,
    /// Whether the run has ended.
    pub complete: bool,
    /// When the times were removed, with the run's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}

/// A run to compare with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PreviousRun {
    /// Which.
    pub setup_run_id: SetupRunId,
    /// Seconds of all its lines together.
    pub total_seconds: f64,
}

/// How long a script line took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct LineTiming {
    /// Script line, from 1.
    pub line: u32,
    /// The line as written.
    pub text: String,
    /// Seconds, all its turns together.
    pub seconds: f64,
    /// The same line's in the previous run; left out where that run did not have the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_seconds: Option<f64>,
}
