//! Reading and applying an update.

use serde_json::Value;

use super::{AccessExpectation, Catalog, Definition};
use crate::issues::Issues;

/// A partial update: what is `None` keeps its saved value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Patch {
    /// What the caller believes is saved of access.
    pub expected_access: Option<AccessExpectation>,
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
    let _ = (body, catalog);
    Err(Issues::one("body", "not implemented"))
}

impl Patch {
    /// The definition after the patch.
    ///
    /// # Errors
    /// See [`PatchRefusal`].
    pub fn apply(&self, saved: &Definition, catalog: &Catalog) -> Result<Definition, PatchRefusal> {
        let _ = catalog;
        Ok(saved.clone())
    }
}
