//! Environments: list, read, create, change, delete, duplicate, history.

use domain::ids::EnvironmentId;
use serde_json::Value;
use wire::{
    console::{History, Validation},
    managed_agents::{Deleted, Environment, EnvironmentList},
};

use crate::{Control, Error, Keyed, OpCtx, Outcome, Result};

impl Control {
    /// All environments of the caller's organization, newest first; `null` without any.
    pub async fn list_environments(&self, ctx: &OpCtx) -> Result<EnvironmentList> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// One.
    pub async fn get_environment(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Environment> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Creates one from a create body of the API.
    pub async fn create_environment(
        &self,
        ctx: &OpCtx,
        body: &Value,
        key: Option<Keyed>,
    ) -> Result<Outcome<Environment>> {
        let _ = (ctx, body, key);
        Err(Error::unavailable("not written yet"))
    }
    /// Changes one with an update body of the API. A lost race is tried again once when the body touches neither access
    /// nor compute, and is `409 revision_conflict` otherwise.
    pub async fn update_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        body: &Value,
        key: Option<Keyed>,
    ) -> Result<Outcome<Environment>> {
        let _ = (ctx, id, body, key);
        Err(Error::unavailable("not written yet"))
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
        let _ = (ctx, id, base_revision, body);
        Err(Error::unavailable("not written yet"))
    }
    /// Deletes one and cancels its run in flight.
    pub async fn delete_environment(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<Deleted> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Copies one; the copy is not verified.
    pub async fn duplicate_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
    ) -> Result<Environment> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Checks a form without saving: a create body, or an update body of `id`.
    pub async fn validate_environment(
        &self,
        ctx: &OpCtx,
        id: Option<EnvironmentId>,
        body: &Value,
    ) -> Result<Validation> {
        let _ = (ctx, id, body);
        Err(Error::unavailable("not written yet"))
    }
    /// Every saved definition, newest first.
    pub async fn environment_history(&self, ctx: &OpCtx, id: EnvironmentId) -> Result<History> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Goes back to a saved definition (as a new revision); fields that never change keep their present value.
    pub async fn restore_environment(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
        revision: i64,
    ) -> Result<Environment> {
        let _ = (ctx, id, revision);
        Err(Error::unavailable("not written yet"))
    }
}
