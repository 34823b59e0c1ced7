//! What is masked in the log of a run.

use std::sync::Arc;

use domain::redaction::Redactor;
use execution::logs::{Masking, Redact};
use wire::worker::Plan;

/// The masking for a run with this plan: the values of its secret variables in every form, and the shapes of tokens and
/// keys. A value in lower case counts too: that is what it looks like as part of a host's name.
pub(crate) fn for_plan(plan: &Plan) -> Box<dyn Redact> {
    let values = plan.secrets.expose().values();
    let lower: Vec<String> = values.clone().map(|value| value.to_lowercase()).collect();
    let known = values.chain(&lower).map(String::as_str);
    Box::new(Masking::new(Arc::new(Redactor::new(known))))
}
