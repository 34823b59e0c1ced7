//! Environments: list, read, create, change, delete, duplicate.

use std::{collections::BTreeMap, sync::Arc};

use domain::{
    environment::{Definition, Patch, parse_create, parse_patch},
    ids::EnvironmentId,
    limits,
    roles::{Action, permits},
    setup_run::{Command, LogLine, Stream},
    timestamp::Timestamp,
    verification::Verification,
};
use serde_json::{Value, json};
use wire::managed_agents::{Deleted, Environment, EnvironmentList};

use crate::{
    Control, Error, Keyed, Member, OpCtx, Outcome, RACES_MAX, Result,
    idempotency::ReceiptMaker,
    ports::{
        Effects, RunChange, Topic, Written,
        rows::{EnvironmentRow, RevisionRow},
    },
    secrets::no_clash,
    staleness::audit_changes,
    view,
    views::Shown,
};

/// What became of writing a definition.
pub(crate) enum Attempt {
    /// It is written.
    Written(Box<Environment>),
    /// Somebody else's edit came first: the row with it.
    Edited(Box<EnvironmentRow>),
}

impl Control {
    /// The only way to an environment's row: one of the caller's organization, for an action that the caller's role allows.
    ///
    /// # Errors
    /// `401` for nobody, `404` for what the caller may not know of, `403` for what the role does not allow.
    pub(crate) async fn load_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        action: Action,
    ) -> Result<EnvironmentRow> {
        let row = self.load_shared_environment(ctx, id, action).await?;
        Ok(Arc::unwrap_or_clone(row))
    }

    async fn load_shared_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        action: Action,
    ) -> Result<Arc<EnvironmentRow>> {
        let member = ctx.member()?;
        if !permits(member.role, Action::ReadEnvironments) {
            return Err(Error::not_found());
        }
        let row = self
            .0
            .store
            .shared_environment(member.organization_id, id)
            .await?
            .ok_or_else(Error::not_found)?;
        ctx.require(action)?;
        Ok(row)
    }

    /// All environments of the caller's organization, newest first; `null` without any.
    pub async fn list_environments(&self, ctx: &OpCtx) -> Result<EnvironmentList> {
        let member = ctx.require(Action::ReadEnvironments)?;
        let rows = self.0.store.environments(member.organization_id).await?;
        Ok(EnvironmentList {
            environments: (!rows.is_empty()).then(|| rows.iter().map(view::environment).collect()),
        })
    }

    /// One.
    pub async fn get_environment(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Environment> {
        let shown = self.show_environment(ctx, id).await?;
        Ok(Arc::unwrap_or_clone(shown.environment))
    }

    /// The same as JSON, shared with whoever reads it too.
    pub async fn get_environment_json(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Arc<[u8]>> {
        Ok(self.show_environment(ctx, id).await?.json)
    }

    async fn show_environment(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Shown> {
        let row = self
            .load_shared_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        self.0.views.of(&row)
    }

    /// Creates one from a create body of the API.
    pub async fn create_environment(
        &self,
        ctx: &OpCtx,
        body: &Value,
        key: Option<Keyed>,
    ) -> Result<Outcome<Environment>> {
        let member = ctx.require(Action::ChangeEnvironments)?.clone();
        let (control, ctx, body) = (self.clone(), ctx.clone(), body.clone());
        self.keyed(member.organization_id, key, 200, move |maker| async move {
            let definition = parse_create(&body, &control.0.catalog)?;
            control
                .insert(&ctx, &member, definition, "environment.create", &maker)
                .await
        })
        .await
    }

    async fn insert(
        &self,
        ctx: &OpCtx,
        member: &Member,
        definition: Definition,
        action: &str,
        maker: &ReceiptMaker,
    ) -> Result<Environment> {
        let now = self.0.clock.now();
        let scripted = definition.has_script();
        let row = EnvironmentRow {
            organization_id: member.organization_id,
            environment_id: self.0.ids.next(),
            version: 1,
            revision: 1,
            secret_hashes: BTreeMap::new(),
            verification: Verification::created(&definition),
            setup_updated_by: scripted.then_some(member.user_id),
            setup_updated_at: scripted.then_some(now),
            created_at: now,
            updated_at: now,
            definition,
        };
        let answer = view::environment(&row);
        let fx = Effects {
            receipt: maker.receipt(self, &answer)?,
            audit: vec![self.audit(
                ctx,
                row.organization_id,
                action,
                row.environment_id,
                json!({"name": row.definition.name, "revision": 1}),
            )],
            revision: Some(revision_of(&row, member, now)),
        };
        self.0.store.insert_environment(&row, fx).await?;
        Ok(answer)
    }

    /// Changes one with an update body of the API. A lost race is tried again on what the other edit left while the body
    /// changes neither access nor compute of any of them, and is `409 revision_conflict` otherwise.
    pub async fn update_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        body: &Value,
        key: Option<Keyed>,
    ) -> Result<Outcome<Environment>> {
        let member = ctx.member()?.clone();
        if !permits(member.role, Action::ChangeEnvironments) {
            // Tells 404 from 403.
            self.load_environment(ctx, id, Action::ChangeEnvironments)
                .await?;
        }
        let (control, ctx, body) = (self.clone(), ctx.clone(), body.clone());
        self.keyed(member.organization_id, key, 200, move |maker| async move {
            let saved = control
                .load_environment(&ctx, id, Action::ChangeEnvironments)
                .await?;
            let patch = parse_patch(&body, &control.0.catalog)?;
            control.apply(&ctx, saved, &patch, &maker).await
        })
        .await
    }

    pub(crate) async fn apply(
        &self,
        ctx: &OpCtx,
        mut saved: EnvironmentRow,
        patch: &Patch,
        maker: &ReceiptMaker,
    ) -> Result<Environment> {
        let mut sensitive = false;
        for _ in 0..RACES_MAX {
            // Asked anew of what each other edit left: a body that repeats saved values changes nothing until somebody
            // else changes them, and would then undo that.
            sensitive |= patch.changes_access_or_compute(&saved.definition);
            let definition = patch.apply(&saved.definition, &self.0.catalog)?;
            let attempt = self
                .write_unless_edited(ctx, saved, definition, "environment.update", maker)
                .await?;
            saved = match attempt {
                Attempt::Written(answer) => return Ok(*answer),
                Attempt::Edited(newer) => *newer,
            };
            if sensitive || patch.changes_access_or_compute(&saved.definition) {
                break;
            }
        }
        Err(Error::revision_conflict(Vec::new()))
    }

    /// Writes a new definition over a row as it was read, again while only the verdict moved: a run that starts or ends is
    /// nobody's edit.
    pub(crate) async fn write_unless_edited(
        &self,
        ctx: &OpCtx,
        mut saved: EnvironmentRow,
        definition: Definition,
        action: &str,
        maker: &ReceiptMaker,
    ) -> Result<Attempt> {
        for _ in 0..RACES_MAX {
            let (written, answer) = self
                .write_definition(ctx, &saved, definition.clone(), action, maker)
                .await?;
            if written == Written::Done {
                return Ok(Attempt::Written(Box::new(answer)));
            }
            let newer = self
                .load_environment(ctx, saved.environment_id, Action::ChangeEnvironments)
                .await?;
            if newer.revision != saved.revision {
                return Ok(Attempt::Edited(Box::new(newer)));
            }
            saved = newer;
        }
        Err(Error::unavailable("the environment kept changing"))
    }

    /// Writes a new definition over a row as it was read. The receipt is written even when nothing changes.
    pub(crate) async fn write_definition(
        &self,
        ctx: &OpCtx,
        saved: &EnvironmentRow,
        definition: Definition,
        action: &str,
        maker: &ReceiptMaker,
    ) -> Result<(Written, Environment)> {
        let member = ctx.require(Action::ChangeEnvironments)?;
        let now = self.0.clock.now();
        let mut row = saved.clone();
        row.version += 1;
        let changed = definition != saved.definition;
        if changed {
            no_clash(&definition, &saved.secret_hashes)?;
        }
        if changed {
            row.revision += 1;
            row.updated_at = now;
            row.verification = saved.verification.edited(&saved.definition, &definition);
            if definition.setup != saved.definition.setup {
                row.setup_updated_by = Some(member.user_id);
                row.setup_updated_at = Some(now);
            }
            row.definition = definition;
        }
        let answer = view::environment(&row);
        let mut fx = Effects {
            receipt: maker.receipt(self, &answer)?,
            ..Effects::default()
        };
        if changed {
            let detail = json!({
                "from_revision": saved.revision,
                "to_revision": row.revision,
                "changes": audit_changes(&saved.definition, &row.definition),
            });
            fx.audit =
                vec![self.audit(ctx, row.organization_id, action, row.environment_id, detail)];
            fx.revision = Some(revision_of(&row, member, now));
        }
        let written = self
            .0
            .store
            .update_environment(saved.version, &row, fx)
            .await?;
        Ok((written, answer))
    }

    /// Saves the console's form: `body` is a whole update body as the form holds it, made from revision `base_revision`.
    /// Only what the form changed is applied (so that nobody's edit is lost); fields that somebody else changed
    /// meanwhile to another value are `409 revision_conflict` with `details.fields`.
    pub async fn save_environment_form(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        base_revision: i64,
        body: &Value,
    ) -> Result<Environment> {
        let mut saved = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        let base = self.definition_at(&saved, base_revision).await?;
        for attempt in 0..RACES_MAX {
            // Against what each other edit left, as if it had been there from the beginning.
            let Some(minimal) = self.form_changes(&base, &saved.definition, body)? else {
                return Ok(view::environment(&saved));
            };
            let patch = parse_patch(&minimal, &self.0.catalog)?;
            if attempt > 0 && patch.changes_access_or_compute(&saved.definition) {
                break;
            }
            let definition = patch.apply(&saved.definition, &self.0.catalog)?;
            let (action, maker) = ("environment.update", ReceiptMaker::none());
            let written = self
                .write_unless_edited(ctx, saved, definition, action, &maker)
                .await?;
            saved = match written {
                Attempt::Written(answer) => return Ok(*answer),
                Attempt::Edited(newer) => *newer,
            };
        }
        Err(Error::revision_conflict(Vec::new()))
    }

    async fn definition_at(&self, saved: &EnvironmentRow, revision: i64) -> Result<Definition> {
        if revision == saved.revision {
            return Ok(saved.definition.clone());
        }
        self.0
            .store
            .revisions(saved.environment_id)
            .await?
            .into_iter()
            .find(|row| row.revision == revision)
            .map(|row| row.definition)
            .ok_or_else(|| Error::revision_conflict(Vec::new()))
    }

    /// The part of a form that changes something against the definition it was made from, with the access expectation
    /// that the form's reader had; `None`: nothing.
    fn form_changes(
        &self,
        base: &Definition,
        saved: &Definition,
        body: &Value,
    ) -> Result<Option<Value>> {
        let object = body.as_object().ok_or_else(|| {
            Error::invalid_request("The form must be an object. Reload the page and try again.")
        })?;
        let expected = json!({
            "network_policy": base.network_policy.to_json(), "privileged": base.privileged,
        });
        let mut whole = object.clone();
        whole.insert("expected_access".to_owned(), expected.clone());
        let wanted =
            parse_patch(&Value::Object(whole), &self.0.catalog)?.apply(base, &self.0.catalog)?;
        let (base, saved, wanted) = (fields(base)?, fields(saved)?, fields(&wanted)?);
        let changed = |key: &String| base.get(key) != wanted.get(key);
        let conflicts: Vec<String> = wanted
            .keys()
            .filter(|key| changed(key))
            .filter(|key| saved.get(*key) != base.get(*key) && saved.get(*key) != wanted.get(*key))
            .cloned()
            .collect();
        if !conflicts.is_empty() {
            return Err(Error::revision_conflict(conflicts));
        }
        let mut minimal: serde_json::Map<String, Value> = object
            .iter()
            .filter(|(key, _)| changed(key) && saved.get(*key) != wanted.get(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if minimal.is_empty() {
            return Ok(None);
        }
        if minimal.contains_key("network_policy") || minimal.contains_key("privileged") {
            minimal.insert("expected_access".to_owned(), expected);
        }
        Ok(Some(Value::Object(minimal)))
    }

    /// Deletes one, cancels its run in flight, and deletes its sessions.
    pub async fn delete_environment(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Deleted> {
        for _ in 0..RACES_MAX {
            let row = self
                .load_environment(ctx, id, Action::ChangeEnvironments)
                .await?;
            let now = self.0.clock.now();
            let run = match row.verification.active_setup_run_id {
                Some(run) => self.0.store.run(run).await?,
                None => None,
            };
            let mut gone = row.clone();
            gone.version += 1;
            gone.updated_at = now;
            gone.verification = row.verification.run_cancelled();
            let fx = Effects {
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    "environment.delete",
                    id,
                    json!({"name": row.definition.name, "revision": row.revision}),
                )],
                ..Effects::default()
            };
            // A run that ended in the meantime needs no change.
            let stopped = run.and_then(|run| {
                let state = run.state.decide(&Command::RequestCancel).ok()?;
                let mut next = run.clone();
                next.version += 1;
                next.state = state;
                if next.state.status.is_terminal() {
                    next.finished_at = Some(now);
                    next.record.message = "Cancelled: the environment was deleted.".to_owned();
                }
                Some((run.version, next))
            });
            let line = system_line(now, "Cancelled: the environment was deleted.");
            let change = stopped.as_ref().map(|(expected, next)| RunChange {
                expected: *expected,
                row: next,
                // While a worker drives the run, the worker numbers its lines.
                system_line: next.state.status.is_terminal().then_some(&line),
            });
            let written = self
                .0
                .store
                .delete_environment(row.version, &gone, now, change, fx)
                .await?;
            if written == Written::Done {
                if let Some((_, run)) = &stopped {
                    self.not_waiting(run.setup_run_id);
                }
                self.0.bell.ring(Topic::Orders);
                self.end_sessions_of(ctx, row.organization_id, id).await;
                return Ok(Deleted { deleted: true });
            }
        }
        Err(Error::unavailable("the environment kept changing"))
    }

    /// Copies one; the copy is not verified.
    pub async fn duplicate_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
    ) -> Result<Environment> {
        let row = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        let member = ctx.member()?;
        let mut definition = row.definition;
        definition.name = format!("Copy of {}", definition.name)
            .chars()
            .take(limits::NAME_MAX_CHARS)
            .collect::<String>()
            .trim_end()
            .to_owned();
        definition.image.clone_from(&self.0.catalog.runner_image);
        self.insert(
            ctx,
            member,
            definition,
            "environment.duplicate",
            &ReceiptMaker::none(),
        )
        .await
    }
}

/// A definition's fields by name, to compare them one by one.
fn fields(definition: &Definition) -> Result<serde_json::Map<String, Value>> {
    serde_json::to_value(definition)
        .and_then(serde_json::from_value)
        .map_err(Error::internal)
}

fn revision_of(row: &EnvironmentRow, member: &Member, at: Timestamp) -> RevisionRow {
    RevisionRow {
        environment_id: row.environment_id,
        revision: row.revision,
        definition: row.definition.clone(),
        by: member.user_id,
        at,
    }
}

/// A note of the control plane in a run's log; the store numbers it.
pub(crate) fn system_line(at: Timestamp, text: impl Into<String>) -> LogLine {
    LogLine {
        seq: 0,
        stream: Stream::System,
        line: None,
        text: text.into(),
        at,
    }
}
