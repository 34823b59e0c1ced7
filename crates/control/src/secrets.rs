//! Secret variables: set, replaced, listed by name, removed; never read again by anybody but a sandbox.

use std::collections::BTreeMap;

use domain::{
    environment::Definition,
    ids::EnvironmentId,
    issues::Issues,
    roles::Action,
    secrets::{self, SecretVars},
};
use serde_json::{Value, json};
use wire::{
    managed_agents::Deleted,
    secrets::{SecretItem, SecretList},
};

use crate::{
    Control, Error, OpCtx, RACES_MAX, Result, Secret,
    members::Names,
    ports::{
        Effects, Written,
        rows::{EnvironmentRow, SecretRow},
    },
    sealing::Place,
    variables::beyond_limits,
};

/// Name of the setting that names the key.
const KEY_SETTING: &str = "secrets_key";

/// Said where secret variables were sealed with another key, or are damaged.
pub(crate) const CLOSED_SECRETS: &str = "The environment's secret variables cannot be opened with this deployment's key. Set their values again, or ask your operator.";

/// Whether a deployment's key for secret variables is the one that they were sealed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    /// It is, or nothing was sealed yet.
    Fine,
    /// It is another one.
    Other,
}

fn place<'a>(row: &EnvironmentRow, name: &'a str) -> Place<'a> {
    Place {
        organization: row.organization_id,
        environment: row.environment_id,
        name,
    }
}

/// Refuses variables that are secrets as well.
pub(crate) fn no_clash(definition: &Definition, hashes: &BTreeMap<String, String>) -> Result<()> {
    let clashes = clashes(definition, hashes);
    if clashes.0.is_empty() {
        Ok(())
    } else {
        Err(Error::invalid(clashes))
    }
}

/// Variables that are secrets as well.
pub(crate) fn clashes(definition: &Definition, hashes: &BTreeMap<String, String>) -> Issues {
    let mut issues = Issues::new();
    for name in definition.env_vars.keys() {
        if hashes.contains_key(name) {
            issues.add(format!("env_vars.{name}"), secrets::clash(name));
        }
    }
    issues
}

impl Control {
    /// Names of an environment's secrets, with who set each and when.
    pub async fn list_secrets(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<SecretList> {
        self.load_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        let mut names = Names::default();
        let mut items = Vec::new();
        for row in self.0.store.secrets(id).await? {
            items.push(SecretItem {
                name: row.name,
                set_by_user_id: row.set_by,
                set_by: names.of(self, row.set_by).await?,
                set_at: row.set_at,
            });
        }
        Ok(SecretList { secrets: items })
    }

    /// One of them.
    ///
    /// # Errors
    /// `404` for a name that is not set.
    pub async fn get_secret(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        name: &str,
    ) -> Result<SecretItem> {
        let list = self.list_secrets(ctx, id).await?;
        list.secrets
            .into_iter()
            .find(|secret| secret.name == name)
            .ok_or_else(Error::not_found)
    }

    /// Sets a secret or replaces its value. Another value makes the verdict stale, the same one again does not.
    ///
    /// # Errors
    /// `400` for a bad name or value, for a name that is an environment variable too, and past the limits.
    pub async fn set_secret(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        name: &str,
        value: &Secret,
    ) -> Result<SecretItem> {
        for _ in 0..RACES_MAX {
            let row = self
                .load_environment(ctx, id, Action::ChangeEnvironments)
                .await?;
            let member = ctx.require(Action::ChangeEnvironments)?;
            self.may_be_set(&row, name, value).await?;
            let place = place(&row, name);
            let key = &self.0.config.secrets_key;
            let replaced = row.secret_hashes.contains_key(name);
            let mut next = row.clone();
            next.version += 1;
            next.secret_hashes
                .insert(name.to_owned(), key.hash(place, value)?);
            let secret = SecretRow {
                environment_id: id,
                name: name.to_owned(),
                sealed: key.seal(place, value)?,
                bytes: value.expose().len(),
                set_by: member.user_id,
                set_at: self.0.clock.now(),
            };
            let action = if replaced {
                "secret.replace"
            } else {
                "secret.set"
            };
            let fx = self.named(ctx, &row, action, name);
            let written = self
                .0
                .store
                .put_secret(row.version, &next, &secret, fx)
                .await?;
            if written == Written::Done {
                return self.get_secret(ctx, id, name).await;
            }
        }
        Err(Error::unavailable("the environment kept changing"))
    }

    async fn may_be_set(&self, row: &EnvironmentRow, name: &str, value: &Secret) -> Result<()> {
        let mut issues = Issues::new();
        if let Some(problem) = secrets::bad_name(name) {
            issues.add("name", problem);
        } else if row.definition.env_vars.contains_key(name) {
            issues.add("name", secrets::clash(name));
        }
        if let Some(problem) = secrets::bad_value(value.expose()) {
            issues.add("value", problem);
        }
        let others: Vec<SecretRow> = self
            .0
            .store
            .secrets(row.environment_id)
            .await?
            .into_iter()
            .filter(|other| other.name != name)
            .collect();
        issues
            .0
            .extend(beyond_limits(&others, std::iter::once((name, value))).0);
        if issues.0.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(issues))
        }
    }

    /// Removes a secret.
    ///
    /// # Errors
    /// `404` for a name that is not set.
    pub async fn delete_secret(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        name: &str,
    ) -> Result<Deleted> {
        for _ in 0..RACES_MAX {
            let row = self
                .load_environment(ctx, id, Action::ChangeEnvironments)
                .await?;
            let mut next = row.clone();
            next.version += 1;
            if next.secret_hashes.remove(name).is_none() {
                return Err(Error::not_found());
            }
            let fx = self.named(ctx, &row, "secret.delete", name);
            let written = self
                .0
                .store
                .delete_secret(row.version, &next, name, fx)
                .await?;
            if written == Written::Done {
                return Ok(Deleted { deleted: true });
            }
        }
        Err(Error::unavailable("the environment kept changing"))
    }

    /// An audit row that names the secret and nothing of its value.
    fn named(&self, ctx: &OpCtx, row: &EnvironmentRow, action: &str, name: &str) -> Effects {
        let detail: Value = json!({"name": name});
        Effects {
            audit: vec![self.audit(ctx, row.organization_id, action, row.environment_id, detail)],
            ..Effects::default()
        }
    }

    /// The values of an environment's secrets, for a sandbox, with the hashes that stand for them in the fingerprint.
    pub(crate) async fn secret_values(
        &self,
        organization: domain::ids::OrganizationId,
        environment: EnvironmentId,
    ) -> Result<(SecretVars, BTreeMap<String, String>)> {
        let key = &self.0.config.secrets_key;
        let (mut values, mut hashes) = (BTreeMap::new(), BTreeMap::new());
        for row in self.0.store.secrets(environment).await? {
            let place = Place {
                organization,
                environment,
                name: &row.name,
            };
            let value = key.open(place, &row.sealed)?;
            hashes.insert(row.name.clone(), key.hash(place, &value)?);
            values.insert(row.name, value.expose().to_owned());
        }
        Ok((SecretVars::new(values), hashes))
    }

    /// Compares the deployment's key with the one that secrets were sealed with, and remembers it at the first start (and
    /// while nothing is sealed).
    pub async fn check_secrets_key(&self) -> Result<KeyCheck> {
        let store = &self.0.store;
        let id = self.0.config.secrets_key.id()?;
        match store.setting(KEY_SETTING).await? {
            Some(known) if known == id => Ok(KeyCheck::Fine),
            Some(_) if store.any_secret().await? => Ok(KeyCheck::Other),
            _ => {
                store.set_setting(KEY_SETTING, Some(&id)).await?;
                Ok(KeyCheck::Fine)
            }
        }
    }
}
