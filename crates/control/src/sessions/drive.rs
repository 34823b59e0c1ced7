//! Makes of a session what is written down: starts, stops and removes its sandbox. One task at a time drives a session;
//! each step is a compare-and-set, so that a wish that comes meanwhile is found and fulfilled.

use domain::{
    ids::{OrganizationId, SessionId},
    secrets::SecretVars,
    session::{Command, Status, Wish},
};
use std::sync::Arc;
use wire::session_host::{HostError, Presence, SessionHost, SessionPlan};

use crate::{
    Control, Error, RACES_MAX, Result,
    ports::{Effects, SessionRow, Written},
    secrets::CLOSED_SECRETS,
};

/// What to do next for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Start,
    Suspend,
    Destroy,
    Rest,
}

fn next_step(row: &SessionRow) -> Step {
    match (row.state.status, row.state.wish) {
        (_, Some(Wish::Delete)) => Step::Destroy,
        (Status::Provisioning | Status::Running, Some(Wish::Stop)) => Step::Suspend,
        (Status::Provisioning, None) => Step::Start,
        _ => Step::Rest,
    }
}

/// Whether a session was never up, and all that its sandbox is made from is there.
fn is_yet_to_come_up(row: &SessionRow) -> bool {
    let waits_for_image = row.record.refresh.is_some() && row.record.layers.is_empty();
    row.state.status == Status::Provisioning && row.started_at.is_none() && !waits_for_image
}

/// What the sandbox is made from.
fn plan(row: &SessionRow, secrets: SecretVars) -> SessionPlan {
    let definition = &row.definition;
    SessionPlan {
        sandbox_id: row.sandbox_id,
        runner_image: row.record.runner_image.clone(),
        layers: row.record.layers.clone(),
        base_digest: row
            .record
            .image
            .as_ref()
            .and_then(|image| image.base_digest.clone()),
        cpu_milli: definition.resources.effective_cpu_milli(),
        memory_mib: definition.resources.effective_memory_mib(),
        disk_gi: definition.effective_disk_gi(),
        sandbox_timeout_seconds: definition.resources.timeout_seconds,
        env_vars: definition.env_vars.clone(),
        secrets,
        network_policy: definition.network_policy.clone(),
        privileged: definition.privileged,
        mounts: definition.mounts.clone(),
    }
}

/// What a host's refusal says to people. What is only for the log stays there.
fn sentence(error: &HostError) -> String {
    match error {
        HostError::Capacity(text) => {
            format!(
                "The machine has no room for it: {}. Stop another session, or try again later.",
                text.trim_end_matches('.')
            )
        }
        HostError::NoImage(text) => {
            format!(
                "An image that it starts from is not on the machine: {}. Test the environment's setup again.",
                text.trim_end_matches('.')
            )
        }
        HostError::Unsupported(text) => text.clone(),
        HostError::Gone(_) | HostError::Refused(_) | HostError::Other(_) => {
            "Its sandbox could not be started. Try again; if it stays, ask your operator to look at the worker's log."
                .to_owned()
        }
    }
}

impl Control {
    /// The worker in this process.
    ///
    /// # Errors
    /// `503` with a sentence when there is none.
    pub(crate) fn host(&self) -> Result<&Arc<dyn SessionHost>> {
        self.0.host.as_ref().ok_or_else(|| {
            Error::service_unavailable(
                "This server has no worker, so it can run no sessions. Ask your operator to start one with a worker.",
            )
        })
    }

    /// The worker in this process, if it is the one that has this session's disk.
    ///
    /// # Errors
    /// `503` with a sentence otherwise.
    pub(crate) fn reachable(&self, row: &SessionRow) -> Result<&Arc<dyn SessionHost>> {
        let host = self.host()?;
        if host.name() == row.host {
            Ok(host)
        } else {
            Err(Error::service_unavailable(format!(
                "The session is on the worker {:?}, which this server does not drive. Use the server that does, or start another session.",
                row.host
            )))
        }
    }

    /// Sees to it that the session becomes what is written down. Sessions of other workers are theirs to drive.
    pub(crate) fn drive(&self, row: &SessionRow) {
        if self.reachable(row).is_err() || !self.0.live.begin_driving(row.session_id) {
            return;
        }
        let (control, org, id) = (self.clone(), row.organization_id, row.session_id);
        tokio::spawn(async move {
            loop {
                if let Err(error) = control.drive_to_rest(org, id).await {
                    tracing::warn!(session = %id, error = %error, chain = ?error.chain(), "a session could not be driven; it is tried again");
                }
                if control.0.live.end_driving(id) {
                    return;
                }
            }
        });
    }

    async fn drive_to_rest(&self, org: OrganizationId, id: SessionId) -> Result<()> {
        for _ in 0..RACES_MAX {
            let Some(row) = self.0.store.session(org, id).await? else {
                return Ok(());
            };
            let host = self.reachable(&row)?;
            match next_step(&row) {
                Step::Rest => return Ok(()),
                Step::Start if row.record.refresh.is_some() && row.record.layers.is_empty() => {
                    if !self.after_refresh(&row).await? {
                        // The reconciler looks again.
                        return Ok(());
                    }
                }
                Step::Start => self.bring_up(host, &row).await?,
                Step::Suspend => {
                    self.0.live.terminals.end_all(id);
                    host.suspend(row.sandbox_id)
                        .await
                        .map_err(Error::internal)?;
                    let kept = self.kept_by(host, &row).await?;
                    if !kept && is_yet_to_come_up(&row) {
                        // What was stopped can be resumed, whenever the wish came: there must be a disk.
                        self.bring_up(host, &row).await?;
                        continue;
                    }
                    let command = if kept {
                        Command::Suspended
                    } else {
                        Command::Lost { kept: false }
                    };
                    self.note(&row, command, |_| {}).await?;
                }
                Step::Destroy => {
                    self.0.live.terminals.end_all(id);
                    host.destroy(row.sandbox_id)
                        .await
                        .map_err(Error::internal)?;
                    self.note(&row, Command::Destroyed, |_| {}).await?;
                }
            }
        }
        Ok(())
    }

    async fn kept_by(&self, host: &Arc<dyn SessionHost>, row: &SessionRow) -> Result<bool> {
        let presence = host
            .presence(row.sandbox_id)
            .await
            .map_err(Error::internal)?;
        Ok(presence != Presence::Absent)
    }

    async fn bring_up(&self, host: &Arc<dyn SessionHost>, row: &SessionRow) -> Result<()> {
        let limit = self.0.config.session_start_within;
        let values = self
            .secret_values(row.organization_id, row.environment_id)
            .await;
        let started = match values {
            Ok((secrets, _)) => tokio::select! {
                started = host.start(plan(row, secrets)) => started,
                () = self.0.clock.sleep(limit) => Err(HostError::Other("it took too long".to_owned())),
            },
            Err(error) if error.retryable() => return Err(error),
            Err(error) => {
                tracing::error!(session = %row.session_id, chain = ?error.chain(), "secret variables do not open");
                Err(HostError::Unsupported(CLOSED_SECRETS.to_owned()))
            }
        };
        match started {
            Ok(()) => {
                self.0
                    .live
                    .came_up(row.session_id, self.0.clock.monotonic());
                self.note(row, Command::Started, |next| {
                    next.record.message = "Runs.".to_owned();
                })
                .await
            }
            Err(error) => {
                tracing::warn!(session = %row.session_id, cause = %error, "a session's sandbox did not start");
                // What came up halfway must not stay; a disk from an earlier start does.
                host.suspend(row.sandbox_id)
                    .await
                    .map_err(Error::internal)?;
                let resumed = row.started_at.is_some();
                let kept = resumed && self.kept_by(host, row).await?;
                if !kept {
                    host.destroy(row.sandbox_id)
                        .await
                        .map_err(Error::internal)?;
                }
                let text = sentence(&error);
                self.note(row, Command::NotStarted { kept }, |next| {
                    next.record.message = text.clone();
                })
                .await
            }
        }
    }

    /// Writes down what happened to a session, unless it has become something else meanwhile.
    pub(super) async fn note(
        &self,
        row: &SessionRow,
        command: Command,
        also: impl Fn(&mut SessionRow),
    ) -> Result<()> {
        let mut row = row.clone();
        for _ in 0..RACES_MAX {
            let Ok(state) = row.state.decide(command) else {
                return Ok(());
            };
            let now = self.0.clock.now();
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            also(&mut next);
            match state.status {
                Status::Running => next.started_at = Some(now),
                Status::Stopped | Status::Failed if row.state.status.is_live() => {
                    next.stopped_at = Some(now);
                    next.kept_seconds = 0;
                }
                Status::Deleted => next.deleted_at = Some(now),
                _ => {}
            }
            let written = self
                .0
                .store
                .update_session(row.version, &next, Effects::default())
                .await?;
            if written == Written::Done {
                if !state.status.is_live() {
                    self.0.live.went_down(row.session_id);
                    self.0.live.terminals.end_all(row.session_id);
                    self.0.live.doors.close(row.session_id);
                }
                return Ok(());
            }
            let Some(found) = self
                .0
                .store
                .session(row.organization_id, row.session_id)
                .await?
            else {
                return Ok(());
            };
            // The same sandbox in another state: only wishes may have come meanwhile.
            if found.state.status != row.state.status {
                return Ok(());
            }
            row = found;
        }
        Err(Error::unavailable("the session kept changing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_refusal_is_told_in_whole_sentences() {
        for (error, text) in [
            (
                HostError::Capacity("the disk is full".to_owned()),
                "The machine has no room for it: the disk is full. Stop another session, or try again later.",
            ),
            (
                HostError::Capacity("the disk is full.".to_owned()),
                "The machine has no room for it: the disk is full. Stop another session, or try again later.",
            ),
            (
                HostError::NoImage("its layer was removed".to_owned()),
                "An image that it starts from is not on the machine: its layer was removed. Test the environment's setup again.",
            ),
        ] {
            assert_eq!(sentence(&error), text);
        }
    }
}
