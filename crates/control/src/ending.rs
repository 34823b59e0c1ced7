//! What the end of a run means for its environment: one function for every way a run ends.

use domain::{setup_run::Status, timestamp::Timestamp, verification::RunEnd};

use crate::{
    ports::rows::{EnvironmentRow, SetupRunRow},
    view,
};

/// The environment after `run` ended; `None`: nothing of it changes (the run has not ended, is not the one in flight, or
/// the environment is gone).
pub(crate) fn conclude(
    run: &SetupRunRow,
    environment: Option<&EnvironmentRow>,
    now: Timestamp,
) -> Option<EnvironmentRow> {
    let environment = environment?;
    if !run.state.status.is_terminal()
        || environment.verification.active_setup_run_id != Some(run.setup_run_id)
    {
        return None;
    }
    let mut next = environment.clone();
    next.version += 1;
    next.verification = match run.state.status {
        Status::Cancelled => environment.verification.run_cancelled(),
        _ => environment.verification.run_finished(
            &RunEnd {
                summary: view::summary(run),
                kind: run.kind,
                fingerprint: run.fingerprint.clone(),
                at: run.finished_at.unwrap_or(now),
                requested_by: run.requested_by,
                image: run.record.image.clone(),
                image_capture: run.record.image_capture.clone(),
            },
            environment.definition.has_script(),
        ),
    };
    Some(next)
}
