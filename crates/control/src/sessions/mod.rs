//! Sessions: start, list, read, stop, resume, delete. What members ask for is written down as a state or a wish
//! (`domain::session`); [`drive`] makes it so and the reconciler ([`watch`]) makes up for whatever was missed.

mod drive;
mod exec;
mod http_door;
mod live;
mod pages;
mod refresh;
mod ring;
mod terminals;
mod watch;

use domain::{
    ids::{EnvironmentId, OrganizationId, SessionId},
    roles::{Action, permits},
    session::{Barred, Command, Refusal, SessionState, Status, Wish, startable},
    verification::Usability,
};
use serde_json::json;
use wire::{
    managed_agents::Deleted,
    sessions::{Session, SessionImage, SessionList, SessionResources, SessionSamples},
};

pub use exec::{Exec, ExecEvent};
pub use http_door::{DoorWatch, HttpDoor};
pub(crate) use live::Live;
pub(crate) use pages::startable_view;
pub use terminals::{Terminal, TerminalEvent, TerminalId};

use crate::{
    Control, Error, Keyed, Member, OpCtx, Outcome, RACES_MAX, Result,
    idempotency::ReceiptMaker,
    ports::{
        Effects, ImageOrigin, SessionAdmission, SessionRecord, SessionRow, Topic, Written,
        rows::EnvironmentRow,
    },
    view,
};

/// The layers above the runner image that a session of this environment starts on, lowest first, and the image they are
/// of. The one place that decides it: whatever makes an image usable again (such as a new runner image below it) is asked
/// here.
fn layers_for(environment: &EnvironmentRow) -> Result<(Vec<String>, Option<ImageOrigin>)> {
    if !environment.definition.has_script() {
        return Ok((Vec::new(), None));
    }
    let image = environment
        .verification
        .image
        .as_ref()
        .filter(|image| image.usable)
        .ok_or_else(|| {
            Error::environment_not_verified(Some(view::start_run(environment.environment_id)))
        })?;
    let digest = image
        .digest()
        .map(str::to_owned)
        .ok_or_else(|| Error::internal("a setup image's reference has no digest"))?;
    Ok((
        vec![digest],
        Some(ImageOrigin {
            image_id: image.image_id.clone(),
            generation: image.generation,
            setup_run_id: image.setup_run_id,
            base_digest: Some(image.base_image_digest.clone()),
        }),
    ))
}

/// Refuses an environment that no session may start from, naming the call that mends it.
fn require_startable(row: &EnvironmentRow) -> Result<()> {
    let id = row.environment_id;
    startable(&row.definition, &row.verification, &view::fingerprint_of(row)).map_err(|barred| match barred {
        Barred::PrivilegedWithPolicy => Error::environment_not_startable(
            "The environment is privileged and has a network policy, which cannot be kept inside Docker. Turn privileged off, or open the network ({}), then start the session.",
            &view::change_environment(id),
        ),
        Barred::Verdict(Usability::WaitFor(run)) => Error::environment_not_startable(
            "A setup run of the environment is in flight, and nothing is verified yet. Wait for it, then start the session.",
            &view::read_run(id, run),
        ),
        Barred::Verdict(_) => Error::environment_not_verified(Some(view::start_run(id))),
    })
}

/// What cannot be done with a session as it is, and what can.
fn refused(refusal: Refusal) -> Error {
    Error::session_not_running(match refusal {
        Refusal::Pending(Wish::Stop) => {
            "The session is being stopped. Resume it when it is stopped."
        }
        Refusal::Pending(Wish::Delete) => "The session is being deleted. Start another one.",
        Refusal::Illegal(Status::Provisioning) => {
            "The session's sandbox is being prepared. Try again when its status is running."
        }
        Refusal::Illegal(Status::Stopped) => "The session is stopped. Resume it first.",
        Refusal::Illegal(Status::Failed) => {
            "The session has failed; its message says why. Delete it and start another one."
        }
        Refusal::Illegal(Status::Running | Status::Deleted) => {
            "The session cannot do this as it is now. Read it again."
        }
    })
}

impl Control {
    /// A session as the API shows it.
    pub(crate) fn session_view(&self, row: &SessionRow) -> Session {
        let definition = &row.definition;
        Session {
            organization_id: row.organization_id,
            session_id: row.session_id,
            environment_id: row.environment_id,
            environment_name: definition.name.clone(),
            environment_revision: row.record.revision,
            status: row.state.status,
            pending: row.state.wish,
            message: row.record.message.clone(),
            requested_by_user_id: row.requested_by,
            worker: row.host.clone(),
            resources: SessionResources {
                cpu_milli: definition.resources.effective_cpu_milli(),
                memory_mib: definition.resources.effective_memory_mib(),
                disk_gi: definition.effective_disk_gi(),
            },
            image: row.record.image.as_ref().map(|image| SessionImage {
                image_id: image.image_id.clone(),
                generation: image.generation,
                setup_run_id: image.setup_run_id,
            }),
            setup_run_id: row.record.refresh,
            http_port: (definition.http_port != 0).then_some(definition.http_port),
            idle_stop_after_seconds: definition.effective_idle_stop(),
            stopped_delete_after_seconds: definition.effective_stopped_delete(),
            usage: (row.state.status == Status::Running)
                .then(|| self.0.live.usage(row.session_id))
                .flatten(),
            created_at: row.created_at,
            started_at: row.started_at,
            stopped_at: row.stopped_at,
        }
    }

    /// The only way to a session's row: one of the caller's organization, for an action that the caller's role allows.
    pub(crate) async fn load_session(
        &self,
        ctx: &OpCtx,
        id: SessionId,
        action: Action,
    ) -> Result<SessionRow> {
        let member = ctx.member()?;
        if !permits(member.role, Action::ReadEnvironments) {
            return Err(Error::not_found());
        }
        let row = self
            .0
            .store
            .session(member.organization_id, id)
            .await?
            .ok_or_else(Error::not_found)?;
        ctx.require(action)?;
        Ok(row)
    }

    /// Starts a session. The answer comes as soon as it is admitted: its sandbox is made meanwhile.
    pub async fn start_session(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        key: Option<Keyed>,
    ) -> Result<Outcome<Session>> {
        let member = ctx.member()?.clone();
        if !permits(member.role, Action::UseSessions) {
            // Tells 404 from 403.
            self.load_environment(ctx, environment, Action::UseSessions)
                .await?;
        }
        let (control, ctx) = (self.clone(), ctx.clone());
        self.keyed(member.organization_id, key, 202, move |maker| async move {
            control
                .admit_session(&ctx, &member, environment, &maker)
                .await
        })
        .await
    }

    async fn admit_session(
        &self,
        ctx: &OpCtx,
        member: &Member,
        id: EnvironmentId,
        maker: &ReceiptMaker,
    ) -> Result<Session> {
        for _ in 0..RACES_MAX {
            let environment = self.load_environment(ctx, id, Action::UseSessions).await?;
            let offered = &self.0.catalog.providers;
            let provider = &environment.definition.provider;
            if !offered.iter().any(|offer| offer.provider == *provider) {
                return Err(Error::sandbox_provider_disabled(provider));
            }
            require_startable(&environment)?;
            let host = self.host()?;
            let (layers, image) = layers_for(&environment)?;
            let refresh = match self
                .refresh_for(ctx, member, &environment, &host.name())
                .await?
            {
                refresh::Refresh::NotNeeded => None,
                refresh::Refresh::By(run) => Some(run),
                // The environment is another one now: it has a run in flight.
                refresh::Refresh::Begun => continue,
            };
            let (layers, image) = if refresh.is_some() {
                (Vec::new(), None)
            } else {
                (layers, image)
            };
            let definition = environment.definition.clone();
            let row = SessionRow {
                organization_id: environment.organization_id,
                environment_id: id,
                session_id: self.0.ids.next(),
                state: SessionState::admitted(),
                version: 1,
                sandbox_id: self.0.ids.next(),
                host: host.name(),
                record: SessionRecord {
                    message: if refresh.is_some() {
                        "The runner image has changed: waiting for the setup run that prepares the environment on the new one."
                    } else {
                        "Preparing a sandbox."
                    }
                    .to_owned(),
                    refresh,
                    runner_image: definition.image.clone(),
                    layers,
                    image,
                    revision: environment.revision,
                },
                definition,
                requested_by: member.user_id,
                kept_seconds: 0,
                created_at: self.0.clock.now(),
                started_at: None,
                stopped_at: None,
                deleted_at: None,
                environment_deleted_at: None,
            };
            let answer = self.session_view(&row);
            let fx = Effects {
                receipt: maker.receipt(self, &answer)?,
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    "session.start",
                    row.session_id,
                    json!({"environment_id": id, "revision": environment.revision}),
                )],
                ..Effects::default()
            };
            let limit = self.0.config.sessions_live_max;
            match self
                .0
                .store
                .admit_session(&row, environment.version, limit, fx)
                .await?
            {
                SessionAdmission::Admitted => {
                    self.drive(&row);
                    self.drive_after_refresh(&row);
                    return Ok(answer);
                }
                SessionAdmission::Stale => {}
                SessionAdmission::LimitReached(live) => return Err(Error::session_limit(live)),
            }
        }
        Err(Error::unavailable("the environment kept changing"))
    }

    /// Whether the caller may use this session, for doors that have more to check before they use it.
    pub async fn check_session_use(&self, ctx: &OpCtx, id: SessionId) -> Result<()> {
        self.load_session(ctx, id, Action::UseSessions)
            .await
            .map(drop)
    }

    /// All sessions of the caller's organization (of one environment, if given), newest first.
    pub async fn list_sessions(
        &self,
        ctx: &OpCtx,
        environment: Option<EnvironmentId>,
    ) -> Result<SessionList> {
        let member = ctx.require(Action::ReadEnvironments)?;
        let rows = self
            .0
            .store
            .sessions(member.organization_id, environment)
            .await?;
        Ok(SessionList {
            sessions: rows.iter().map(|row| self.session_view(row)).collect(),
        })
    }

    /// One; with `wait_seconds` (0 to 60, held at most 5 s) until it is on its way nowhere.
    pub async fn get_session(
        &self,
        ctx: &OpCtx,
        id: SessionId,
        wait_seconds: Option<u32>,
    ) -> Result<Session> {
        let end = self.0.clock.monotonic() + crate::setup_runs::held(wait_seconds)?;
        let mut bell = self.0.bell.listen(Topic::Sessions);
        loop {
            bell.mark_unchanged();
            let row = self.load_session(ctx, id, Action::ReadEnvironments).await?;
            let left = end.saturating_sub(self.0.clock.monotonic());
            let settled = row.state.status != Status::Provisioning && row.state.wish.is_none();
            if settled || left.is_zero() {
                return Ok(self.session_view(&row));
            }
            self.wait(&mut bell, left).await;
        }
    }

    /// What it used in the last hour.
    pub async fn session_samples(&self, ctx: &OpCtx, id: SessionId) -> Result<SessionSamples> {
        let row = self.load_session(ctx, id, Action::ReadEnvironments).await?;
        Ok(SessionSamples {
            samples: self.0.live.usages(row.session_id),
        })
    }

    /// Ends what runs and keeps the disk. The answer says that it is wished; it is done soon after.
    pub async fn stop_session(&self, ctx: &OpCtx, id: SessionId) -> Result<Session> {
        let by = ctx.member()?.email.clone();
        let row = self.load_session(ctx, id, Action::UseSessions).await?;
        self.reachable(&row)?;
        self.wish(
            ctx,
            row,
            Command::RequestStop,
            "session.stop",
            &format!("Stopped by {by}."),
        )
        .await
    }

    /// Starts a stopped one again on its disk.
    pub async fn resume_session(&self, ctx: &OpCtx, id: SessionId) -> Result<Session> {
        for _ in 0..RACES_MAX {
            let row = self.load_session(ctx, id, Action::UseSessions).await?;
            self.reachable(&row)?;
            let state = row.state.decide(Command::Resume).map_err(refused)?;
            if state == row.state {
                return Ok(self.session_view(&row));
            }
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            next.kept_seconds = 0;
            next.record.message = "Starting again on its disk.".to_owned();
            let fx = Effects {
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    "session.resume",
                    id,
                    json!({"environment_id": row.environment_id}),
                )],
                ..Effects::default()
            };
            let limit = self.0.config.sessions_live_max;
            match self
                .0
                .store
                .resume_session(row.version, &next, limit, fx)
                .await?
            {
                SessionAdmission::Admitted => {
                    self.drive(&next);
                    return Ok(self.session_view(&next));
                }
                SessionAdmission::Stale => {}
                SessionAdmission::LimitReached(live) => return Err(Error::session_limit(live)),
            }
        }
        Err(Error::unavailable("the session kept changing"))
    }

    /// Removes it with its disk. The answer says that it is wished; it is done soon after.
    pub async fn delete_session(&self, ctx: &OpCtx, id: SessionId) -> Result<Deleted> {
        let row = self.load_session(ctx, id, Action::UseSessions).await?;
        self.wish(
            ctx,
            row,
            Command::RequestDelete,
            "session.delete",
            "Being deleted.",
        )
        .await?;
        Ok(Deleted { deleted: true })
    }

    /// Writes a wish down, with the sentence that the session's end will say.
    async fn wish(
        &self,
        ctx: &OpCtx,
        mut row: SessionRow,
        command: Command,
        action: &str,
        message: &str,
    ) -> Result<Session> {
        for _ in 0..RACES_MAX {
            let state = row.state.decide(command).map_err(refused)?;
            if state == row.state {
                self.drive(&row);
                return Ok(self.session_view(&row));
            }
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            next.record.message = message.to_owned();
            let fx = Effects {
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    action,
                    row.session_id,
                    json!({"environment_id": row.environment_id, "reason": message}),
                )],
                ..Effects::default()
            };
            if self.0.store.update_session(row.version, &next, fx).await? == Written::Done {
                self.drive(&next);
                return Ok(self.session_view(&next));
            }
            row = self
                .0
                .store
                .session(row.organization_id, row.session_id)
                .await?
                .ok_or_else(Error::not_found)?;
        }
        Err(Error::unavailable("the session kept changing"))
    }

    /// Deletes the sessions of a deleted environment. What fails here is made up for by the reconciler.
    pub(crate) async fn end_sessions_of(
        &self,
        ctx: &OpCtx,
        organization: OrganizationId,
        environment: EnvironmentId,
    ) {
        let rows = match self.0.store.sessions(organization, Some(environment)).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%environment, error = %error, "the sessions of a deleted environment could not be listed");
                return;
            }
        };
        for row in rows {
            let id = row.session_id;
            if let Err(error) = self
                .wish(
                    ctx,
                    row,
                    Command::RequestDelete,
                    "session.delete",
                    "Its environment was deleted.",
                )
                .await
            {
                tracing::warn!(session = %id, error = %error, "a session of a deleted environment could not be deleted yet");
            }
        }
    }
}
