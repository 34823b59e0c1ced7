//! Reading and applying an update.

use serde_json::Value;

use super::{
    AccessExpectation, COMPUTER_USE_PORT, Catalog, Definition, access,
    parse::{self, Given, SHARED_FIELDS},
};
use crate::{issues::Issues, json::Object};

/// A partial update: what was not given keeps its saved value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// What the caller believes is saved of access.
    pub expected_access: Option<AccessExpectation>,
    given: Given,
}

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchRefusal {
    /// Fields that are wrong together with what is saved.
    Invalid(Issues),
    /// `expected_access` is missing (428).
    PreconditionRequired,
    /// `expected_access` differs from what is saved (412).
    PreconditionFailed,
}

/// Reads the body of an update call.
///
/// # Errors
/// One issue for each rejected field.
pub fn parse_patch(body: &Value, catalog: &Catalog) -> Result<Patch, Issues> {
    let mut issues = Issues::new();
    let known: Vec<&str> = SHARED_FIELDS
        .iter()
        .copied()
        .chain(["expected_access"])
        .collect();
    let Some(object) = Object::open(body, "", &known, &mut issues) else {
        return Err(issues);
    };
    if object.map.is_empty() {
        return Err(Issues::one("body", "Send at least one field to change."));
    }
    let given = parse::read_given(&object, catalog, &mut issues);
    let expected_access = object
        .get("expected_access")
        .and_then(|value| AccessExpectation::read(value, &mut issues));
    issues.into_result(Patch {
        expected_access,
        given,
    })
}

impl Patch {
    /// Whether the setup is given, so that who set it last is to be recorded if it changed.
    pub const fn gives_setup(&self) -> bool {
        self.given.setup.is_some()
    }

    /// Whether applying it to `saved` changes access settings.
    pub fn changes_access(&self, saved: &Definition) -> bool {
        self.changes_policy(saved) || self.changes_privileged(saved)
    }

    /// Whether applying it to `saved` changes access or compute: two writers racing on these must not overwrite each other
    /// (`409 revision_conflict`).
    pub fn changes_access_or_compute(&self, saved: &Definition) -> bool {
        self.changes_access(saved)
            || self
                .given
                .resources
                .as_ref()
                .is_some_and(|resources| *resources != saved.resources)
            || self
                .given
                .pvc_size_gi
                .is_some_and(|size| size != saved.pvc_size_gi)
    }

    fn changes_policy(&self, saved: &Definition) -> bool {
        self.given
            .network_policy
            .as_ref()
            .is_some_and(|policy| !access::same_policy(policy, &saved.network_policy))
    }

    fn changes_privileged(&self, saved: &Definition) -> bool {
        self.given
            .privileged
            .is_some_and(|privileged| privileged != saved.privileged)
    }

    /// The definition after the patch. What the patch leaves alone is not checked again, so that an environment that
    /// the deployment would no longer accept as a whole can still be edited elsewhere.
    ///
    /// # Errors
    /// See [`PatchRefusal`].
    pub fn apply(&self, saved: &Definition, catalog: &Catalog) -> Result<Definition, PatchRefusal> {
        let next = self.merge(saved);
        let mut issues = Issues::new();
        if next.provider != saved.provider {
            issues.add(
                "provider",
                format!(
                    "The runtime of an environment never changes (it is {:?}): create another environment.",
                    saved.provider
                ),
            );
        }
        if next.computer_use && !saved.computer_use {
            parse::check_computer_use_offered(catalog, &mut issues);
        }
        if self.given.computer_use.is_some() || self.given.idle_stop_after_seconds.is_some() {
            parse::check_idle_stop(&next, &mut issues);
        }
        if self.changes_access(saved) {
            access::check(&next, catalog, &mut issues);
        }
        if !issues.is_empty() {
            return Err(PatchRefusal::Invalid(issues));
        }
        self.check_precondition(saved)?;
        Ok(next)
    }

    /// Opening or changing access needs proof that the caller knows what is saved; closing it does not.
    fn check_precondition(&self, saved: &Definition) -> Result<(), PatchRefusal> {
        let changes_restriction =
            self.changes_policy(saved) && !saved.network_policy.is_unrestricted();
        let turns_privileged_on = self.changes_privileged(saved) && !saved.privileged;
        match &self.expected_access {
            Some(expected) if !expected.matches(saved) => Err(PatchRefusal::PreconditionFailed),
            Some(_) => Ok(()),
            None if changes_restriction || turns_privileged_on => {
                Err(PatchRefusal::PreconditionRequired)
            }
            None => Ok(()),
        }
    }

    fn merge(&self, saved: &Definition) -> Definition {
        let given = &self.given;
        let or = |value: Option<u32>, saved: u32| value.unwrap_or(saved);
        let computer_use = given.computer_use.unwrap_or(saved.computer_use);
        let http_port = if computer_use {
            COMPUTER_USE_PORT
        } else if saved.computer_use {
            // The port was the desktop's, not the member's.
            given.http_port.unwrap_or(0)
        } else {
            given.http_port.unwrap_or(saved.http_port)
        };
        Definition {
            name: given.name.clone().unwrap_or_else(|| saved.name.clone()),
            description: given
                .description
                .clone()
                .unwrap_or_else(|| saved.description.clone()),
            metadata: given.metadata.clone().or_else(|| saved.metadata.clone()),
            template: saved.template.clone(),
            provider: given
                .provider
                .clone()
                .unwrap_or_else(|| saved.provider.clone()),
            image: saved.image.clone(),
            config: given.config.clone().or_else(|| saved.config.clone()),
            setup: given.setup.clone().unwrap_or_else(|| saved.setup.clone()),
            resources: given
                .resources
                .clone()
                .unwrap_or_else(|| saved.resources.clone()),
            network_policy: given
                .network_policy
                .clone()
                .unwrap_or_else(|| saved.network_policy.clone()),
            privileged: given.privileged.unwrap_or(saved.privileged),
            pvc_size_gi: or(given.pvc_size_gi, saved.pvc_size_gi),
            env_vars: given
                .env_vars
                .clone()
                .unwrap_or_else(|| saved.env_vars.clone()),
            mounts: given.mounts.clone().unwrap_or_else(|| saved.mounts.clone()),
            computer_use,
            http_port,
            idle_stop_after_seconds: or(
                given.idle_stop_after_seconds,
                saved.idle_stop_after_seconds,
            ),
            stopped_delete_after_seconds: or(
                given.stopped_delete_after_seconds,
                saved.stopped_delete_after_seconds,
            ),
        }
    }
}
