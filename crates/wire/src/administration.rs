//! Bodies and answers of administrative calls in our own API.

use domain::roles::Role;
use serde::{Deserialize, Serialize};

use crate::console::{ApiKeyItem, InvitationItem};

/// A member's new role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeMember {
    /// The role.
    pub role: Role,
}

/// Whom to invite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// The person's e-mail address.
    pub email: String,
    /// The role offered.
    pub role: Role,
}

/// An invitation with its link, which is shown this once.
#[derive(Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct SentInvitation {
    /// The invitation.
    #[serde(flatten)]
    pub item: InvitationItem,
    /// The link's path from the root of the console: `/invite/` and a token.
    pub path: String,
}

/// A key to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewApiKey {
    /// For people: 1 to 100 characters.
    #[cfg_attr(
        not(target_arch = "wasm32"),
        schemars(length(min = 1, max = 100), regex(pattern = "\\S"))
    )]
    pub name: String,
    /// At most the role of the key that asks.
    pub role: Role,
    /// Days until it ends; left out or null: it does not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(range(min = 1, max = 3650)))]
    pub expires_in_days: Option<u32>,
}

/// A key with its secret, which is shown this once.
#[derive(Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct CreatedApiKey {
    /// The key.
    #[serde(flatten)]
    pub item: ApiKeyItem,
    /// `rma_` and 43 base64url characters.
    pub secret: String,
}
