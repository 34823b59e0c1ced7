//! Secret variables in our own API, `/groundwork/v1` (spec 2-api): their names, never their values.

use domain::{ids::UserId, timestamp::Timestamp};
use serde::{Deserialize, Serialize};

/// An environment's secret variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SecretList {
    /// By name.
    pub secrets: Vec<SecretItem>,
}

/// A secret variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SecretItem {
    /// Name.
    pub name: String,
    /// Who set its present value.
    pub set_by_user_id: UserId,
    /// That member's name, for people.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// A new value. Has no `Debug` and is never sent by us.
#[derive(Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SecretValue {
    /// At least 8 characters, at most 32 KiB.
    pub value: String,
}
