//! Checking a form without saving it.

use domain::{
    environment::{Definition, parse_create, parse_patch},
    fingerprint,
    ids::EnvironmentId,
    issues::Issues,
    roles::Action,
};
use serde_json::{Value, json};
use wire::console::{Validation, VerdictEffect};

use crate::{Control, OpCtx, Result, ports::rows::EnvironmentRow, secrets::clashes, view};

impl Control {
    /// Checks a form without saving: a create body, or an update body of `id`.
    pub async fn validate_environment(
        &self,
        ctx: &OpCtx,
        id: Option<EnvironmentId>,
        body: &Value,
    ) -> Result<Validation> {
        let script = body
            .pointer("/setup/script")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let warnings = view::warnings_of(&domain::setup_script::normalise(script));
        let refused = |issues: Issues| Validation {
            issues: issues.0,
            warnings: warnings.clone(),
            effect: None,
        };
        let Some(id) = id else {
            ctx.require(Action::ChangeEnvironments)?;
            return Ok(match parse_create(body, &self.0.catalog) {
                Ok(_) => refused(Issues::new()),
                Err(issues) => refused(issues),
            });
        };
        let saved = self
            .load_environment(ctx, id, Action::ChangeEnvironments)
            .await?;
        let mut whole = body.clone();
        if let Some(object) = whole.as_object_mut() {
            object.insert(
                "expected_access".to_owned(),
                json!({
                    "network_policy": saved.definition.network_policy.to_json(),
                    "privileged": saved.definition.privileged,
                }),
            );
        }
        let after = parse_patch(&whole, &self.0.catalog).and_then(|patch| {
            patch
                .apply(&saved.definition, &self.0.catalog)
                .map_err(|refusal| match refusal {
                    domain::environment::PatchRefusal::Invalid(issues) => issues,
                    // Cannot be: the expectation was filled in from what is saved.
                    _ => Issues::one("expected_access", "Reload the page and try again."),
                })
        });
        Ok(match after {
            Err(issues) => refused(issues),
            Ok(after) => Validation {
                issues: clashes(&after, &saved.secret_hashes).0,
                warnings,
                effect: effect(&saved, &after),
            },
        })
    }
}

/// What saving does to the verdict.
pub(crate) fn effect(saved: &EnvironmentRow, after: &Definition) -> Option<VerdictEffect> {
    match (saved.definition.has_script(), after.has_script()) {
        (true, false) => return Some(VerdictEffect::NothingToVerify),
        (false, true) => return Some(VerdictEffect::NeedsTest),
        _ => {}
    }
    let before = saved.verification.is_stale(&view::fingerprint_of(saved));
    let then = saved
        .verification
        .is_stale(&fingerprint::of_with_secrets(after, &saved.secret_hashes));
    match (before, then) {
        (false, true) => Some(VerdictEffect::BecomesStale),
        (true, false) => Some(VerdictEffect::BecomesCurrent),
        _ => None,
    }
}
