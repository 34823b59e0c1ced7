//! Environments in our own API, `/groundwork/v1` (spec 2-api).

use domain::ids::EnvironmentId;
use serde::{Deserialize, Serialize};

use crate::managed_agents::Environment;

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct EnvironmentSearch {
    /// Those that match, newest first.
    pub environments: Vec<Environment>,
    /// Pass as `cursor` for the next page; left out on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<EnvironmentId>,
}
