//! Rows as the API shows them.

use domain::{
    fingerprint::{self, Fingerprint},
    ids::{EnvironmentId, SetupRunId},
    setup_run::{FailureCode, Status},
    verification::{ImageCaptureFailure, RunSummary},
};
use wire::managed_agents::{
    Environment, ImageCapture, NextAction, Setup, SetupRun, SetupVerification, SetupWarning,
};

use crate::ports::rows::{EnvironmentRow, SetupRunRow};

/// Where the tree of the reference API begins.
const TREE: &str = "/managed-agents/v1";

/// Today's fingerprint of an environment.
pub(crate) fn fingerprint_of(row: &EnvironmentRow) -> Fingerprint {
    fingerprint::of_with_secrets(&row.definition, &row.secret_hashes)
}

/// Advice on a script.
pub(crate) fn warnings_of(script: &str) -> Vec<SetupWarning> {
    domain::setup_script::lint(script)
        .into_iter()
        .map(|warning| SetupWarning {
            code: warning.code.as_str().to_owned(),
            line: warning.line,
            message: warning.message,
        })
        .collect()
}

/// An environment as the API shows it.
pub(crate) fn environment(row: &EnvironmentRow) -> Environment {
    let definition = &row.definition;
    Environment {
        organization_id: row.organization_id,
        environment_id: row.environment_id,
        name: definition.name.clone(),
        description: definition.description.clone(),
        metadata: definition.metadata.clone(),
        scope: domain::environment::SCOPE_ORGANIZATION.to_owned(),
        template: definition.template.clone(),
        provider: definition.provider.clone(),
        image: definition.image.clone(),
        config: definition.config.clone(),
        setup: Setup {
            script: definition.setup.script.clone(),
            timeout_seconds: (definition.setup.timeout_seconds != 0)
                .then_some(definition.setup.timeout_seconds),
        },
        resources: definition.resources.clone(),
        network_policy: definition.network_policy.to_json(),
        privileged: definition.privileged,
        pvc_size_gi: definition.pvc_size_gi,
        env_vars: definition.env_vars.clone(),
        mounts: definition.mounts.clone(),
        computer_use: definition.computer_use,
        http_port: definition.http_port,
        idle_stop_after_seconds: definition.idle_stop_after_seconds,
        stopped_delete_after_seconds: definition.stopped_delete_after_seconds,
        setup_verification: verification(row),
        setup_warnings: warnings_of(&definition.setup.script),
        setup_updated_by_user_id: row.setup_updated_by,
        setup_updated_at: row.setup_updated_at,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

fn verification(row: &EnvironmentRow) -> SetupVerification {
    let verdict = &row.verification;
    SetupVerification {
        status: verdict.status.as_str().to_owned(),
        stale: verdict.fingerprint.is_some() && verdict.is_stale(&fingerprint_of(row)),
        active_setup_run_id: verdict.active_setup_run_id,
        setup_run_id: verdict.setup_run_id,
        at: verdict.at,
        fingerprint: verdict.fingerprint.clone(),
        verified_by_user_id: verdict.verified_by_user_id,
        last_run: verdict.last_run.clone(),
        image: verdict.image.clone(),
        image_capture: verdict.image_capture.as_ref().map(image_capture),
    }
}

fn image_capture(failure: &ImageCaptureFailure) -> ImageCapture {
    ImageCapture {
        status: "failed".to_owned(),
        setup_run_id: failure.setup_run_id,
        at: failure.at,
        reason: failure.reason.clone(),
        message: failure.message.clone(),
    }
}

/// Milliseconds from a run's start to its end.
pub(crate) fn duration_ms(row: &SetupRunRow) -> Option<i64> {
    Some(row.finished_at?.millis_since(row.started_at?))
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The part of a run that its environment repeats.
pub(crate) fn summary(row: &SetupRunRow) -> RunSummary {
    let record = &row.record;
    RunSummary {
        setup_run_id: row.setup_run_id,
        status: row.state.status,
        phase: row.state.phase,
        message: non_empty(&record.message),
        exit_code: record.exit_code,
        failed_line: record.failed_line,
        failed_command: record.failed_command.clone(),
        hint_code: record.hint_code,
        hint: record.hint.clone(),
        stderr_tail: record.stderr_tail.clone(),
        duration_ms: duration_ms(row),
    }
}

/// A run as the API shows it.
pub(crate) fn run(row: &SetupRunRow) -> SetupRun {
    let record = &row.record;
    SetupRun {
        organization_id: row.organization_id,
        environment_id: row.environment_id,
        setup_run_id: row.setup_run_id,
        kind: row.kind,
        status: row.state.status,
        phase: Some(row.state.phase),
        requested_by_user_id: Some(row.requested_by),
        session_id: row.session_id,
        message: non_empty(&record.message),
        exit_code: record.exit_code,
        failed_line: record.failed_line,
        failed_command: record.failed_command.clone(),
        hint_code: record.hint_code,
        hint: record.hint.clone(),
        stderr_tail: record.stderr_tail.clone(),
        failure_code: record.failure_code,
        duration_ms: duration_ms(row),
        log_lines: Some(row.log.lines),
        log_bytes: Some(row.log.bytes),
        log_truncated: row.log.truncated.then_some(true),
        fingerprint: Some(row.fingerprint.clone()),
        image: Some(row.definition.image.clone()),
        image_id: record.image.as_ref().map(|image| image.image_id.clone()),
        setup_image: record.image.clone(),
        image_capture: record.image_capture.as_ref().map(image_capture),
        compute_id: record.compute_id.clone(),
        compute_profile: record.compute_profile.clone(),
        created_at: row.created_at,
        started_at: row.started_at,
        finished_at: row.finished_at,
        next_action: next_action(row),
    }
}

/// The call that acts on a run; none where it would start a session, since that call is not in the reference's tree here.
fn next_action(row: &SetupRunRow) -> Option<NextAction> {
    let (environment, run) = (row.environment_id, row.setup_run_id);
    match row.state.status {
        Status::Queued | Status::Provisioning | Status::Running => Some(read_run(environment, run)),
        Status::Succeeded => None,
        // The script is at fault: its log says why.
        Status::Failed
            if matches!(
                row.record.failure_code,
                None | Some(FailureCode::EnvironmentSetupFailed)
            ) =>
        {
            Some(NextAction {
                operation_id: "managedAgentsGetEnvironmentSetupRunLog".to_owned(),
                method: "GET".to_owned(),
                path: format!("{TREE}/environments/{environment}/setup-runs/{run}/log"),
            })
        }
        Status::Failed | Status::Cancelled => Some(start_run(environment)),
    }
}

/// Read this run.
pub(crate) fn read_run(environment: EnvironmentId, run: SetupRunId) -> NextAction {
    NextAction {
        operation_id: "managedAgentsGetEnvironmentSetupRun".to_owned(),
        method: "GET".to_owned(),
        path: format!("{TREE}/environments/{environment}/setup-runs/{run}"),
    }
}

/// Start a run.
pub(crate) fn start_run(environment: EnvironmentId) -> NextAction {
    NextAction {
        operation_id: "managedAgentsCreateEnvironmentSetupRun".to_owned(),
        method: "POST".to_owned(),
        path: format!("{TREE}/environments/{environment}/setup-runs"),
    }
}

/// Change this environment.
pub(crate) fn change_environment(environment: EnvironmentId) -> NextAction {
    NextAction {
        operation_id: "managedAgentsUpdateEnvironment".to_owned(),
        method: "PATCH".to_owned(),
        path: format!("{TREE}/environments/{environment}"),
    }
}
