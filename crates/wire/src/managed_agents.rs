//! The shapes of `/managed-agents/v1`, exactly those of the reference's contract 0.14.0: its schemas forbid other
//! properties, absent optional ones are left out (spec 2-api).

use std::collections::BTreeMap;

use domain::{
    compute::Resources,
    environment::TemplateRef,
    fingerprint::Fingerprint,
    ids::{EnvironmentId, OrganizationId, SessionId, SetupRunId, UserId},
    mounts::Mount,
    setup_run::{FailureCode, HintCode, Kind, LogLine, Phase, Status},
    timestamp::Timestamp,
    verification::{RunSummary, SetupImage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An environment as the contract has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Environment {
    /// Owner.
    pub organization_id: OrganizationId,
    /// Id.
    pub environment_id: EnvironmentId,
    /// Name.
    pub name: String,
    /// Left out when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Always `organization`.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(extend("const" = "organization")))]
    pub scope: String,
    /// The template it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// Provider.
    pub provider: String,
    /// Runner image reference.
    pub image: String,
    /// Provider-specific settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Script and timeout; `{}` without a script.
    pub setup: Setup,
    /// As saved; `{}` for the defaults.
    pub resources: Resources,
    /// `{}` or `{"version":"v1","rules":[…]}`.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        schemars(schema_with = "crate::schema::network_policy")
    )]
    pub network_policy: Value,
    /// Privileged Docker.
    pub privileged: bool,
    /// GiB; 0 = default.
    pub pvc_size_gi: u32,
    /// Left out when empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
    /// Left out when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Computer use.
    pub computer_use: bool,
    /// 0 = none.
    pub http_port: u16,
    /// 0 = default.
    pub idle_stop_after_seconds: u32,
    /// 0 = default.
    pub stopped_delete_after_seconds: u32,
    /// The verdict.
    pub setup_verification: SetupVerification,
    /// Advice on the script; left out when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup_warnings: Vec<SetupWarning>,
    /// Who set the script last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_updated_by_user_id: Option<UserId>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_updated_at: Option<Timestamp>,
    /// Creation.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Script and timeout; absent where not set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Setup {
    /// The normalised script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

/// A script warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SetupWarning {
    /// For programs.
    pub code: String,
    /// From 1.
    pub line: u32,
    /// For people.
    pub message: String,
}

/// The verdict as the contract has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SetupVerification {
    /// Status word.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        schemars(with = "domain::verification::VerificationStatus")
    )]
    pub status: String,
    /// Whether the verdict is about another definition.
    pub stale: bool,
    /// The run in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_setup_run_id: Option<SetupRunId>,
    /// The verdict's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_run_id: Option<SetupRunId>,
    /// When it fell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Who asked for the run that verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_by_user_id: Option<UserId>,
    /// Summary of the recorded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunSummary>,
    /// The captured image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<SetupImage>,
    /// Why there is none.
    #[serde(
        default,
        rename = "imageCapture",
        skip_serializing_if = "Option::is_none"
    )]
    pub image_capture: Option<ImageCapture>,
}

/// A capture that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ImageCapture {
    /// Always `failed`.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(extend("const" = "failed")))]
    pub status: String,
    /// The run.
    pub setup_run_id: SetupRunId,
    /// When.
    pub at: Timestamp,
    /// A word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// `{"environments": […] | null}`: null without any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct EnvironmentList {
    /// Newest first.
    pub environments: Option<Vec<Environment>>,
}

/// `{"deleted": true}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}

/// A setup run as the contract has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SetupRun {
    /// Owner.
    pub organization_id: OrganizationId,
    /// Environment.
    pub environment_id: EnvironmentId,
    /// Id.
    pub setup_run_id: SetupRunId,
    /// What for.
    pub kind: Kind,
    /// Where it is.
    pub status: Status,
    /// Step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by_user_id: Option<UserId>,
    /// Of a session run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The script's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// 0 = unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_line: Option<u32>,
    /// As written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_command: Option<String>,
    /// Likely cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint_code: Option<HintCode>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Last of stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
    /// From start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Lines kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u64>,
    /// Bytes kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// Past the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_truncated: Option<bool>,
    /// What is tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Runner image reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The captured image's id.
    #[serde(default, rename = "imageId", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The captured image.
    #[serde(
        default,
        rename = "setupImage",
        skip_serializing_if = "Option::is_none"
    )]
    pub setup_image: Option<SetupImage>,
    /// Why there is none.
    #[serde(
        default,
        rename = "imageCapture",
        skip_serializing_if = "Option::is_none"
    )]
    pub image_capture: Option<ImageCapture>,
    /// The sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_id: Option<String>,
    /// What was measured of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_profile: Option<Map<String, Value>>,
    /// Creation.
    pub created_at: Timestamp,
    /// First claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// The call to make next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<NextAction>,
}

/// The call to make next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct NextAction {
    /// The contract's operation id.
    pub operation_id: String,
    /// HTTP method.
    pub method: String,
    /// Path from the root.
    pub path: String,
}

/// `{"setup_runs": […]}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SetupRunList {
    /// Newest first.
    pub setup_runs: Vec<SetupRun>,
}

/// A page of a run's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct LogPage {
    /// In order.
    pub lines: Vec<LogLine>,
    /// Pass as `after` next time.
    pub next_after: u64,
    /// The run's.
    pub status: Status,
    /// Left out when false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// `{"items": […]}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    not(target_arch = "wasm32"),
    derive(schemars::JsonSchema),
    schemars(rename = "{T}List")
)]
pub struct Items<T> {
    /// The items.
    pub items: Vec<T>,
}

/// A kind of sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxProvider {
    /// Wire word.
    pub provider: String,
    /// For people.
    pub display_name: String,
    /// For people.
    pub description: String,
    /// Used when none is named.
    pub default: bool,
    /// Always null today.
    pub requires_credential: Option<String>,
}

/// A starting point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct EnvironmentTemplate {
    /// Id.
    pub id: String,
    /// Revision.
    pub revision: i64,
    /// Name.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Icon name.
    pub icon: String,
    /// Short words.
    pub features: Vec<String>,
    /// A valid create body.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        schemars(schema_with = "crate::schema::object")
    )]
    pub definition: Value,
}
