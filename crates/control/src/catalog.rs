//! What the deployment offers: providers and templates.

use wire::{
    console::Offer,
    managed_agents::{EnvironmentTemplate, Items, SandboxProvider},
};

use crate::{Control, Error, OpCtx, Result};

impl Control {
    /// Kinds of sandbox, the default first.
    pub async fn list_sandbox_providers(&self, ctx: &OpCtx) -> Result<Items<SandboxProvider>> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// Starting points, by id.
    pub async fn list_environment_templates(
        &self,
        ctx: &OpCtx,
    ) -> Result<Items<EnvironmentTemplate>> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// What forms offer.
    pub async fn offer(&self, ctx: &OpCtx) -> Result<Offer> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
}
