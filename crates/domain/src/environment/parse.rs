//! Reading a create body.

use serde_json::Value;

use super::{Catalog, Definition};
use crate::issues::Issues;

/// Reads the body of a create call: checks every field, fills in defaults, normalises.
///
/// # Errors
/// One issue for each rejected field.
pub fn parse_create(body: &Value, catalog: &Catalog) -> Result<Definition, Issues> {
    let _ = (body, catalog);
    Err(Issues::one("body", "not implemented"))
}
