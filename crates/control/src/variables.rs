//! A pasted `.env` file: some of its lines become environment variables, the others secret ones.

use std::collections::BTreeMap;

use domain::{
    environment::{Definition, parse_patch},
    ids::EnvironmentId,
    issues::Issues,
    limits,
    roles::Action,
    secrets,
};
use serde_json::json;

use crate::{
    Control, Error, OpCtx, RACES_MAX, Result, Secret,
    idempotency::ReceiptMaker,
    ports::{
        Written,
        rows::{EnvironmentRow, SecretRow},
    },
};

/// The lines, told apart.
pub struct Variables {
    /// What everyone who sees the environment may read.
    pub plain: BTreeMap<String, String>,
    /// What nobody reads again.
    pub secret: BTreeMap<String, Secret>,
}

/// What secrets would be beyond the limits with these set.
///
/// `kept` are those that stay as they are.
pub(crate) fn beyond_limits<'a>(
    kept: &[SecretRow],
    set: impl Iterator<Item = (&'a str, &'a Secret)> + Clone,
) -> Issues {
    let mut issues = Issues::new();
    if kept.len() + set.clone().count() > limits::SECRETS_MAX {
        issues.add(
            "name",
            format!(
                "At most {} secret variables: remove one first.",
                limits::SECRETS_MAX
            ),
        );
    }
    let total: usize = kept
        .iter()
        .map(|other| other.name.len() + other.bytes)
        .chain(set.map(|(name, value)| name.len() + value.expose().len()))
        .sum();
    if total > limits::ENV_VARS_TOTAL_MAX_BYTES {
        issues.add(
            "value",
            format!(
                "Names and values of all secret variables have {total} bytes together; at most {} are allowed.",
                limits::ENV_VARS_TOTAL_MAX_BYTES
            ),
        );
    }
    issues
}

impl Control {
    /// Sets all of them. A name that becomes secret is an environment variable no more, so that its line can be pasted
    /// again as a secret; variables that are not among them stay.
    ///
    /// # Errors
    /// `400` that names every line that cannot be set, and nothing is set then.
    pub async fn set_variables(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        variables: &Variables,
    ) -> Result<()> {
        let row = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        self.may_all_be_set(&row, variables).await?;
        self.set_plain(ctx, row, variables).await?;
        for (name, value) in &variables.secret {
            self.set_secret(ctx, id, name, value).await?;
        }
        Ok(())
    }

    async fn may_all_be_set(&self, row: &EnvironmentRow, variables: &Variables) -> Result<()> {
        let mut issues = Issues::new();
        for (name, value) in &variables.secret {
            let problem = secrets::bad_name(name).or_else(|| secrets::bad_value(value.expose()));
            if let Some(problem) = problem {
                issues.add(name.as_str(), problem);
            }
        }
        for name in variables.plain.keys() {
            if row.secret_hashes.contains_key(name) {
                issues.add(
                    name.as_str(),
                    "It is a secret variable: mark the line as secret to replace its value, or remove the secret first.",
                );
            }
        }
        let kept: Vec<SecretRow> = self
            .0
            .store
            .secrets(row.environment_id)
            .await?
            .into_iter()
            .filter(|other| !variables.secret.contains_key(&other.name))
            .collect();
        let set = variables
            .secret
            .iter()
            .map(|(name, value)| (name.as_str(), value));
        issues.0.extend(beyond_limits(&kept, set).0);
        if !issues.0.is_empty() {
            return Err(Error::invalid(issues));
        }
        // Names and values of the plain ones, which the update judges.
        self.with_plain(row, variables).map(drop)
    }

    async fn set_plain(
        &self,
        ctx: &OpCtx,
        mut saved: EnvironmentRow,
        variables: &Variables,
    ) -> Result<()> {
        for _ in 0..RACES_MAX {
            let definition = self.with_plain(&saved, variables)?;
            if definition == saved.definition {
                return Ok(());
            }
            let (written, _) = self
                .write_definition(
                    ctx,
                    &saved,
                    definition,
                    "environment.update",
                    &ReceiptMaker::none(),
                )
                .await?;
            if written == Written::Done {
                return Ok(());
            }
            saved = self
                .load_environment(ctx, saved.environment_id, Action::ChangeEnvironments)
                .await?;
        }
        Err(Error::revision_conflict(Vec::new()))
    }

    fn with_plain(&self, saved: &EnvironmentRow, variables: &Variables) -> Result<Definition> {
        let mut env_vars = saved.definition.env_vars.clone();
        env_vars.retain(|name, _| !variables.secret.contains_key(name));
        env_vars.extend(variables.plain.clone());
        let patch = parse_patch(&json!({"env_vars": env_vars}), &self.0.catalog)?;
        Ok(patch.apply(&saved.definition, &self.0.catalog)?)
    }
}
