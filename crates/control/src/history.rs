//! The saved definitions of an environment: what each changed, going back to one, going back to what was verified, and
//! what others saved while a form was open.

use domain::{
    diff::changed_fields,
    environment::{Definition, parse_create},
    ids::EnvironmentId,
    roles::Action,
};
use serde_json::Value;
use wire::{
    console::{FieldChange, History, HistoryPage, MeanwhileSaved, RestorePreview, Revision},
    managed_agents::Environment,
};

use crate::{
    Control, Error, OpCtx, Result,
    environments::Attempt,
    idempotency::ReceiptMaker,
    members::Names,
    ports::rows::{EnvironmentRow, RevisionRow},
    staleness::{came_with, plain},
    validation::effect,
    view,
};

/// Saved definitions of a page of the console.
const PAGE: usize = 20;
/// Fields that never change after creation: going back leaves them as they are.
const FIXED: [&str; 3] = ["provider", "image", "template"];

impl Control {
    /// Every saved definition, newest first.
    pub async fn environment_history(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<History> {
        let row = self
            .load_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        let rows = self.0.store.revisions(id).await?;
        let revisions = self.revisions_of(&row, &rows, 0..rows.len()).await?;
        Ok(History { revisions })
    }

    /// A page of the history, newest first, before a revision if given; with what going back to `chosen` would change.
    pub async fn environment_history_page(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        before: Option<i64>,
        chosen: Option<i64>,
    ) -> Result<HistoryPage> {
        let row = self
            .load_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        let rows = self.0.store.revisions(id).await?;
        let from = before.map_or(0, |before| {
            rows.iter()
                .position(|saved| saved.revision < before)
                .unwrap_or(rows.len())
        });
        let to = rows.len().min(from + PAGE);
        let chosen = match chosen {
            None => None,
            Some(revision) => {
                let saved = rows
                    .iter()
                    .find(|saved| saved.revision == revision)
                    .ok_or_else(Error::not_found)?;
                Some(self.preview(&row, saved).await?)
            }
        };
        Ok(HistoryPage {
            environment_id: id,
            name: row.definition.name.clone(),
            revision: row.revision,
            revisions: self.revisions_of(&row, &rows, from..to).await?,
            older: (to < rows.len())
                .then(|| rows.get(to.saturating_sub(1)).map(|last| last.revision))
                .flatten(),
            chosen,
            may: ctx.may(),
        })
    }

    async fn revisions_of(
        &self,
        row: &EnvironmentRow,
        rows: &[RevisionRow],
        wanted: std::ops::Range<usize>,
    ) -> Result<Vec<Revision>> {
        let mut names = Names::default();
        let mut revisions = Vec::with_capacity(wanted.len());
        for index in wanted {
            let Some(saved) = rows.get(index) else { break };
            let changes = rows.get(index + 1).map_or_else(Vec::new, |before| {
                changed_fields(&before.definition, &saved.definition)
                    .into_iter()
                    .map(plain)
                    .collect()
            });
            revisions.push(Revision {
                revision: saved.revision,
                by: names.of(self, saved.by).await?,
                by_user_id: saved.by,
                at: saved.at,
                changes,
                current: saved.revision == row.revision,
            });
        }
        Ok(revisions)
    }

    async fn preview(&self, row: &EnvironmentRow, saved: &RevisionRow) -> Result<RestorePreview> {
        let mut preview = RestorePreview {
            revision: saved.revision,
            by: self.name_of(saved.by).await?,
            at: saved.at,
            current: saved.revision == row.revision,
            changes: Vec::new(),
            effect: None,
            refused: Vec::new(),
        };
        match self.restored(row, &saved.definition) {
            Ok(definition) => {
                preview.changes = changed_fields(&row.definition, &definition)
                    .into_iter()
                    .map(plain)
                    .collect();
                preview.effect = effect(row, &definition);
            }
            Err(issues) => preview.refused = issues.0,
        }
        Ok(preview)
    }

    /// A saved definition as it may come back: checked against what the deployment offers today, fixed fields as they are.
    fn restored(
        &self,
        saved: &EnvironmentRow,
        wanted: &Definition,
    ) -> std::result::Result<Definition, domain::issues::Issues> {
        let mut definition = parse_create(&wanted.to_create_body(), &self.0.catalog)?;
        definition.provider.clone_from(&saved.definition.provider);
        definition.image.clone_from(&saved.definition.image);
        definition.template.clone_from(&saved.definition.template);
        Ok(definition)
    }

    /// Goes back to a saved definition (as a new revision); fields that never change keep their present value. What the
    /// deployment does not offer any more is refused.
    pub async fn restore_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        revision: i64,
    ) -> Result<Environment> {
        self.go_back(ctx, id, revision, None).await
    }

    /// The same for a reader who saw revision `seen` as the present one: where somebody saved since, it is
    /// `409 revision_conflict`, since nobody agreed to replace that.
    pub async fn restore_environment_as_seen(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        revision: i64,
        seen: i64,
    ) -> Result<Environment> {
        self.go_back(ctx, id, revision, Some(seen)).await
    }

    async fn go_back(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        revision: i64,
        seen: Option<i64>,
    ) -> Result<Environment> {
        let saved = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        if let Some(seen) = seen {
            not_saved_since(&saved, seen)?;
        }
        let wanted = self.saved_at(&saved, revision).await?;
        let definition = self.restored(&saved, &wanted)?;
        self.write_back(ctx, saved, definition, "environment.restore")
            .await
    }

    /// Gives fields the value again that the verdict is about: all that differ, or those named as staleness names them.
    /// `seen` is the revision that the reader saw; another is `409 revision_conflict`.
    pub async fn put_back_verified(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        only: &[String],
        seen: i64,
    ) -> Result<Environment> {
        let saved = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        not_saved_since(&saved, seen)?;
        let tested = match saved.verification.setup_run_id {
            Some(run) => self.0.store.run(run).await?,
            None => None,
        };
        let tested = tested.ok_or_else(|| {
            Error::invalid_request("Nothing was verified yet: there is nothing to put back.")
        })?;
        let mut wanted = serde_json::to_value(&saved.definition).map_err(Error::internal)?;
        let then = serde_json::to_value(&tested.definition).map_err(Error::internal)?;
        for change in changed_fields(&tested.definition, &saved.definition) {
            let named = only.is_empty() || only.contains(&change.path);
            if named && change.affects_verdict && !FIXED.contains(&change.path.as_str()) {
                take(&then, &mut wanted, &change.path);
            }
        }
        let wanted: Definition = serde_json::from_value(wanted).map_err(Error::internal)?;
        let definition = self.restored(&saved, &wanted)?;
        self.write_back(ctx, saved, definition, "environment.put_back")
            .await
    }

    /// What was saved since revision `base`, for a form that was made from it: both definitions, and who changed what.
    pub async fn saved_meanwhile(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        base: i64,
    ) -> Result<MeanwhileSaved> {
        let row = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        let then = self.saved_at(&row, base).await?;
        let revisions = self.0.store.revisions(id).await?;
        let mut names = Names::default();
        let mut changes: Vec<FieldChange> = Vec::new();
        for change in changed_fields(&then, &row.definition) {
            let mut change = plain(change);
            if let Some(revision) = came_with(&revisions, &change.field) {
                change.by = Some(names.of(self, revision.by).await?);
                change.by_user_id = Some(revision.by);
                change.at = Some(revision.at);
            }
            changes.push(change);
        }
        let mut old = row.clone();
        old.definition = then;
        Ok(MeanwhileSaved {
            revision: row.revision,
            base: view::environment(&old),
            present: view::environment(&row),
            changes,
        })
    }

    async fn saved_at(&self, row: &EnvironmentRow, revision: i64) -> Result<Definition> {
        self.0
            .store
            .revisions(row.environment_id)
            .await?
            .into_iter()
            .find(|saved| saved.revision == revision)
            .map(|saved| saved.definition)
            .ok_or_else(Error::not_found)
    }

    async fn write_back(
        &self,
        ctx: &OpCtx,
        saved: EnvironmentRow,
        definition: Definition,
        action: &str,
    ) -> Result<Environment> {
        let attempt = self
            .write_unless_edited(ctx, saved, definition, action, &ReceiptMaker::none())
            .await?;
        match attempt {
            Attempt::Written(answer) => Ok(*answer),
            Attempt::Edited(_) => Err(Error::revision_conflict(Vec::new())),
        }
    }
}

fn not_saved_since(saved: &EnvironmentRow, seen: i64) -> Result<()> {
    if saved.revision == seen {
        Ok(())
    } else {
        Err(Error::revision_conflict(Vec::new()))
    }
}

/// Copies what `path` names. A size is one thing: an accelerator comes with its CPU and memory.
fn take(from: &Value, into: &mut Value, path: &str) {
    let (field, member) = match path.split_once('.') {
        Some(("resources", _)) => ("resources", None),
        Some((field, member)) => (field, Some(member)),
        None => (path, None),
    };
    let value = match member {
        None => from.get(field),
        Some(member) => from.get(field).and_then(|map| map.get(member)),
    };
    let place = match member {
        None => into.as_object_mut(),
        Some(_) => into.get_mut(field).and_then(Value::as_object_mut),
    };
    let Some(place) = place else { return };
    let name = member.unwrap_or(field);
    match value {
        Some(value) => place.insert(name.to_owned(), value.clone()),
        None => place.remove(name),
    };
}
