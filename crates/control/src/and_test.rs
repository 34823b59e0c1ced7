//! Commands of the console that change an environment and then test its setup. The change stands whether or not a test can
//! start: the answer says both.

use domain::ids::{EnvironmentId, SetupRunId};
use serde_json::Value;
use wire::managed_agents::Environment;

use crate::{Control, Keyed, OpCtx, Result};

/// What a member asks for after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then<'k> {
    /// Nothing.
    Rest,
    /// A setup test. With an idempotency key (of its own: it is another request than the change), a repeated request is
    /// the same test.
    Test {
        /// The key.
        key: Option<&'k str>,
    },
}

/// What became of a change, and of the test that was asked for with it.
#[derive(Debug)]
pub struct Changed {
    /// The environment as it was saved.
    pub environment: Environment,
    /// The run, or why none started; `None`: none was asked for.
    pub test: Option<Result<SetupRunId>>,
}

impl Control {
    /// Starts a setup test as the console does; with a key, a repeated request is the same test.
    ///
    /// # Errors
    /// As [`Self::start_setup_run`]; `400` for a key that is none.
    pub async fn test_setup(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        key: Option<&str>,
    ) -> Result<SetupRunId> {
        let path = format!("console/environments/{environment}/setup-runs");
        let key = key
            .map(|key| Keyed::new(key, "POST", &path, "", b""))
            .transpose()?;
        let started = self.start_setup_run(ctx, environment, key).await?;
        Ok(started.value.setup_run_id)
    }

    /// [`Self::create_environment`], and then.
    ///
    /// # Errors
    /// Of the creation alone.
    pub async fn create_environment_then(
        &self,
        ctx: &OpCtx,
        body: &Value,
        key: Option<Keyed>,
        then: Then<'_>,
    ) -> Result<Changed> {
        let created = self.create_environment(ctx, body, key).await?.value;
        Ok(self.and(ctx, created, then).await)
    }

    /// [`Self::save_environment_form`], and then.
    ///
    /// # Errors
    /// Of the save alone.
    pub async fn save_environment_form_then(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        base_revision: i64,
        body: &Value,
        then: Then<'_>,
    ) -> Result<Changed> {
        let saved = self
            .save_environment_form(ctx, id, base_revision, body)
            .await?;
        Ok(self.and(ctx, saved, then).await)
    }

    /// [`Self::allow_host`], with `group` [`Self::allow_host_group`], and then.
    ///
    /// # Errors
    /// Of the change alone.
    pub async fn allow_host_then(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        host: &str,
        group: bool,
        then: Then<'_>,
    ) -> Result<Changed> {
        let saved = if group {
            self.allow_host_group(ctx, environment, host).await?
        } else {
            self.allow_host(ctx, environment, host).await?
        };
        Ok(self.and(ctx, saved, then).await)
    }

    async fn and(&self, ctx: &OpCtx, environment: Environment, then: Then<'_>) -> Changed {
        let test = match then {
            Then::Rest => None,
            Then::Test { key } => Some(self.test_setup(ctx, environment.environment_id, key).await),
        };
        Changed { environment, test }
    }
}
