//! Schemas of properties whose Rust type says less than the API promises.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object with any properties.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

/// `{}` or `{"version":"v1","rules":[…]}`.
pub(crate) fn network_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"$ref": "#/components/schemas/NetworkPolicy"})
}
