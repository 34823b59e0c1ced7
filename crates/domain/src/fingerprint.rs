//! The hash of the fields that a verdict rests upon (spec 1-domain, the `V` column).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A hash of an environment's verification-relevant fields: `sha256:` and 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
