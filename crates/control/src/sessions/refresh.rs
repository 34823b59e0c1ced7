//! Runner refresh (spec 1-domain, *Verification*): the runner image below a verified image has changed, and the first
//! session that wants the environment has it prepared anew. Whoever comes meanwhile waits for the same run.

use domain::{
    ids::SetupRunId,
    limits,
    session::Command,
    setup_run::{Kind, LogLine, Status},
};
use serde_json::json;
use std::time::Duration;

use crate::{
    Control, Member, OpCtx, Result,
    environments::system_line,
    ports::{
        Admission, Effects, ImageOrigin, SessionRow, Topic, Written,
        rows::{EnvironmentRow, SetupRunRow},
    },
};

/// What must come before a session can start.
pub(super) enum Refresh {
    /// Nothing.
    NotNeeded,
    /// The end of this run.
    By(SetupRunId),
    /// A run was admitted just now, or somebody was faster: look at the environment again.
    Begun,
}

impl Control {
    /// Whether the image that a session would start from lies on another runner image than the one on its worker, and
    /// which run mends that; starts it where none is in flight.
    pub(super) async fn refresh_for(
        &self,
        ctx: &OpCtx,
        member: &Member,
        environment: &EnvironmentRow,
        host: &str,
    ) -> Result<Refresh> {
        let workers = self.0.store.workers().await?;
        let now_there = workers
            .into_iter()
            .find(|worker| worker.name == host)
            .and_then(|worker| worker.runner_image)
            .filter(|(reference, _)| *reference == environment.definition.image);
        let Some((_, digest)) = now_there else {
            return Ok(Refresh::NotNeeded);
        };
        if !environment.verification.needs_refresh(&digest) {
            return Ok(Refresh::NotNeeded);
        }
        // Whatever it was started for: it prepares the environment on the runner image that is there.
        if let Some(run) = environment.verification.active_setup_run_id {
            return Ok(Refresh::By(run));
        }
        let run = SetupRunRow {
            kind: Kind::RunnerRefresh,
            ..self.new_run(member, environment).await?
        };
        let mut tested = environment.clone();
        tested.version += 1;
        tested.verification = environment
            .verification
            .run_started(run.setup_run_id, &run.fingerprint);
        let first = LogLine {
            seq: 1,
            ..system_line(
                run.created_at,
                format!(
                    "The runner image has changed to {digest}. Preparing the environment on it for a session of {}. Waiting for a worker.",
                    member.email
                ),
            )
        };
        let fx = Effects {
            audit: vec![self.audit(
                ctx,
                environment.organization_id,
                "setup_run.start",
                run.setup_run_id,
                json!({
                    "environment_id": environment.environment_id,
                    "revision": environment.revision,
                    "kind": Kind::RunnerRefresh,
                }),
            )],
            ..Effects::default()
        };
        let admission = self
            .0
            .store
            .admit_run(
                &run,
                &first,
                environment.version,
                &tested,
                limits::MANUAL_RUNS_IN_FLIGHT_MAX,
                fx,
            )
            .await?;
        if admission == Admission::Admitted {
            self.waits(run.setup_run_id);
        }
        Ok(Refresh::Begun)
    }

    /// Has a new session go on as soon as the run that it waits for has ended. After a restart of the server the
    /// reconciler sees to it.
    pub(super) fn drive_after_refresh(&self, row: &SessionRow) {
        let Some(run) = row.record.refresh else {
            return;
        };
        let (control, row) = (self.clone(), row.clone());
        tokio::spawn(async move {
            let mut bell = control.0.bell.listen(Topic::Run(run));
            loop {
                bell.mark_unchanged();
                match control.0.store.run(run).await {
                    Ok(Some(run)) if !run.state.status.is_terminal() => {}
                    // A store that does not answer now is asked by whoever drives, again and again.
                    Ok(_) | Err(_) => return control.drive(&row),
                }
                control.wait(&mut bell, Duration::MAX).await;
            }
        });
    }

    /// Looks whether the run that a session waits for has ended. Answers whether the session is another one now: it has
    /// its image, or has failed.
    pub(super) async fn after_refresh(&self, row: &SessionRow) -> Result<bool> {
        let run = match row.record.refresh {
            Some(id) => self.0.store.run(id).await?,
            None => None,
        };
        if let Some(run) = &run
            && !run.state.status.is_terminal()
        {
            return Ok(false);
        }
        let image = run
            .as_ref()
            .filter(|run| run.state.status == Status::Succeeded)
            .and_then(|run| run.record.image.as_ref())
            .and_then(|image| Some((image, image.digest()?.to_owned())));
        let Some((image, digest)) = image else {
            let why = run.map_or_else(
                || "It is not there any more.".to_owned(),
                |run| match run.state.status {
                    Status::Cancelled => "It was cancelled.".to_owned(),
                    Status::Succeeded => "Its image could not be saved.".to_owned(),
                    _ => run.record.message,
                },
            );
            let text = format!(
                "The runner image has changed, and the setup run on the new one did not succeed: {why} Read its log, mend the script, and start another session."
            );
            self.note(row, Command::NotStarted { kept: false }, |next| {
                next.record.message.clone_from(&text);
            })
            .await?;
            return Ok(true);
        };
        let mut next = row.clone();
        next.version += 1;
        next.record.message = "Preparing a sandbox.".to_owned();
        next.record.layers = vec![digest];
        next.record.image = Some(ImageOrigin {
            image_id: image.image_id.clone(),
            generation: image.generation,
            setup_run_id: image.setup_run_id,
            base_digest: Some(image.base_image_digest.clone()),
        });
        let written = self
            .0
            .store
            .update_session(row.version, &next, Effects::default())
            .await?;
        // Stale: a wish came meanwhile, and is found in the next look.
        Ok(matches!(written, Written::Done | Written::Stale))
    }
}
