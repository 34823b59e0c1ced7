//! Asking a network policy (`POST /groundwork/v1/network-policy/test`).

use domain::ids::EnvironmentId;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;

/// Which hosts, and which policy: one that is sent, or the saved one of an environment; exactly one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyQuestion {
    /// The policy to ask.
    #[serde(
        default,
        deserialize_with = "policy_given",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        not(target_arch = "wasm32"),
        schemars(schema_with = "crate::schema::network_policy")
    )]
    pub network_policy: Option<Value>,
    /// The environment whose saved policy to ask.
    #[serde(
        default,
        deserialize_with = "id_given",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "EnvironmentId"))]
    pub environment_id: Option<EnvironmentId>,
    /// Names or addresses without scheme, port or path; 1 to 100.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1, max = 100)))]
    pub hosts: Vec<String>,
}

/// `null` is a policy that is refused, and not one that was left out.
fn policy_given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

fn id_given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<EnvironmentId>, D::Error> {
    let id = Option::deserialize(from)?;
    id.map(Some).ok_or_else(|| {
        D::Error::custom("must not be null; leave it out, or give an environment's id")
    })
}

/// A verdict for each host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PolicyAnswer {
    /// In the order asked.
    pub verdicts: Vec<PolicyVerdict>,
}

/// What a policy says of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct PolicyVerdict {
    /// The host as asked.
    pub host: String,
    /// Whether a sandbox could reach it.
    pub allowed: bool,
    /// The deciding rule's index, from 0; null: no rule decided.
    pub rule: Option<usize>,
    /// The deciding rule's glob.
    pub host_glob: Option<String>,
    /// Why, in a sentence.
    pub reason: String,
}
