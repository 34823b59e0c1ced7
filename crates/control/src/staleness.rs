//! Which fields differ from what was verified.

use std::collections::{BTreeSet, HashMap};

use domain::{
    diff::{self, changed_fields},
    environment::Definition,
    ids::EnvironmentId,
    roles::Action,
};
use serde_json::{Value, json};
use wire::console::{FieldChange, Staleness};

use crate::{
    Control, OpCtx, Result,
    members::Names,
    ports::rows::{AuditFilter, AuditRow, EnvironmentRow, RevisionRow, SetupRunRow},
    view::fingerprint_of,
};

/// A difference of two definitions without who and when.
pub(crate) fn plain(change: diff::FieldChange) -> FieldChange {
    FieldChange {
        field: change.path,
        label: change.label,
        before: change.before,
        after: change.after,
        affects_verdict: change.affects_verdict,
        by: None,
        by_user_id: None,
        at: None,
    }
}

/// The revision (of a list, newest first) that gave a field the value it has in the newest.
pub(crate) fn came_with<'a>(revisions: &'a [RevisionRow], path: &str) -> Option<&'a RevisionRow> {
    let newest = revisions.first()?;
    revisions
        .iter()
        .take_while(|row| {
            !changed_fields(&row.definition, &newest.definition)
                .iter()
                .any(|change| change.path == path)
        })
        .last()
}

/// Changes for the audit log. Texts that may hold secrets or are long (scripts, variables, mounts, metadata) are named, not
/// repeated: the saved definitions keep them.
pub(crate) fn audit_changes(before: &Definition, after: &Definition) -> Vec<Value> {
    changed_fields(before, after)
        .into_iter()
        .map(|change| {
            let named_only = ["env_vars", "mounts", "metadata", "config", "setup.script"]
                .iter()
                .any(|prefix| change.path.starts_with(prefix));
            if named_only {
                json!({"field": change.path})
            } else {
                json!({"field": change.path, "before": change.before, "after": change.after})
            }
        })
        .collect()
}

/// Audit entries of removals that are read at once.
const REMOVALS_PAGE: u32 = 200;

impl Control {
    /// Which fields differ from what the verdict's run tested: old, new, by whom, when.
    pub async fn environment_staleness(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Staleness> {
        let row = self
            .load_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        self.staleness_of(&row).await
    }

    pub(crate) async fn staleness_of(&self, row: &EnvironmentRow) -> Result<Staleness> {
        let verdict = &row.verification;
        let mut answer = Staleness {
            stale: verdict.is_stale(&fingerprint_of(row)),
            setup_run_id: verdict.setup_run_id,
            verified_at: verdict.at,
            fields: Vec::new(),
        };
        let (true, Some(run)) = (answer.stale, verdict.setup_run_id) else {
            return Ok(answer);
        };
        let Some(tested) = self.0.store.run(run).await? else {
            return Ok(answer);
        };
        let revisions = self.0.store.revisions(row.environment_id).await?;
        let mut names = Names::default();
        answer.fields = self.changed_secrets(row, &tested, &mut names).await?;
        for change in changed_fields(&tested.definition, &row.definition) {
            if !change.affects_verdict {
                continue;
            }
            let mut field = plain(change);
            if let Some(revision) = came_with(&revisions, &field.field) {
                field.by = Some(names.of(self, revision.by).await?);
                field.by_user_id = Some(revision.by);
                field.at = Some(revision.at);
            }
            answer.fields.push(field);
        }
        Ok(answer)
    }

    /// Secrets that are not the ones that a run was given: by name, without their values.
    async fn changed_secrets(
        &self,
        row: &EnvironmentRow,
        tested: &SetupRunRow,
        people: &mut Names,
    ) -> Result<Vec<FieldChange>> {
        let (now, then) = (&row.secret_hashes, &tested.record.secret_hashes);
        if now == then {
            return Ok(Vec::new());
        }
        let rows = self.0.store.secrets(row.environment_id).await?;
        let gone = then.keys().filter(|name| !now.contains_key(*name));
        let removals = self.removals_of_secrets(row, gone.collect()).await?;
        let names: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
        let mut changes = Vec::new();
        for name in names {
            let (before, after) = match (then.get(name), now.get(name)) {
                (before, after) if before == after => continue,
                (Some(_), Some(_)) => ("one value", "another value"),
                (Some(_), None) => ("set", "not set"),
                (None, _) => ("not set", "set"),
            };
            let mut change = FieldChange {
                field: format!("secrets.{name}"),
                label: format!("Secret variable {name}"),
                before: before.to_owned(),
                after: after.to_owned(),
                affects_verdict: true,
                by: None,
                by_user_id: None,
                at: None,
            };
            if let Some(secret) = rows.iter().find(|secret| secret.name == *name) {
                change.by = Some(people.of(self, secret.set_by).await?);
                change.by_user_id = Some(secret.set_by);
                change.at = Some(secret.set_at);
            } else if let Some(removal) = removals.get(name) {
                change.by = Some(match removal.user_id {
                    Some(user) => people.of(self, user).await?,
                    None => removal.actor.clone(),
                });
                change.by_user_id = removal.user_id;
                change.at = Some(removal.at);
            }
            changes.push(change);
        }
        Ok(changes)
    }

    /// The newest removal of each of these secrets: their rows are gone, so that the audit log alone tells by whom and when.
    async fn removals_of_secrets(
        &self,
        row: &EnvironmentRow,
        mut names: BTreeSet<&String>,
    ) -> Result<HashMap<String, AuditRow>> {
        let filter = AuditFilter {
            action: Some("secret.delete".to_owned()),
            subject: Some(row.environment_id.to_string()),
            ..AuditFilter::default()
        };
        let mut found = HashMap::new();
        let mut before = None;
        while !names.is_empty() {
            let entries = self
                .0
                .store
                .audit_matching(row.organization_id, &filter, before, REMOVALS_PAGE)
                .await?;
            let Some(last) = entries.last() else { break };
            before = Some(last.audit_id);
            for entry in entries {
                let name = entry.detail["name"].as_str().map(ToOwned::to_owned);
                if let Some(name) = name.filter(|name| names.remove(name)) {
                    found.insert(name, entry);
                }
            }
        }
        Ok(found)
    }
}
