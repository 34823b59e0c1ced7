//! Environments: the saved definition of a sandbox (spec 1-domain, *Environment fields*).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{compute::Resources, limits, mounts::Mount, network_policy::NetworkPolicy};

mod access;
mod body;
mod catalog;
mod parse;
mod patch;

pub use access::AccessExpectation;
pub use catalog::{Catalog, Provider};
pub use parse::parse_create;
pub use patch::{Patch, PatchRefusal, parse_patch};

/// The provider every deployment lists (console word: *Agent runner*).
pub const PROVIDER_RUNS: &str = "runs";
/// The only scope.
pub const SCOPE_ORGANIZATION: &str = "organization";
/// The port that computer use is shown on; the server sets it.
pub const COMPUTER_USE_PORT: u16 = 6_901;

/// The fields of an environment that its members set, parsed and normalised. 0 stands for "the default" where
/// the specification says so; the `effective_*` methods resolve it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Trimmed, not blank, at most 256 characters.
    pub name: String,
    /// At most 2,000 characters; empty: none.
    #[serde(default)]
    pub description: String,
    /// The caller's own object; `None`: never given.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// The template it was made from.
    #[serde(default)]
    pub template: Option<TemplateRef>,
    /// Never changes after creation.
    pub provider: String,
    /// Server-set: the runner image reference it boots.
    pub image: String,
    /// Provider-specific settings; `None`: never given.
    #[serde(default)]
    pub config: Option<Map<String, Value>>,
    /// The script and its timeout.
    #[serde(default)]
    pub setup: Setup,
    /// CPU, memory, accelerator, placement, whole life.
    #[serde(default)]
    pub resources: Resources,
    /// Which hosts may be reached.
    pub network_policy: NetworkPolicy,
    /// Docker can run inside.
    #[serde(default)]
    pub privileged: bool,
    /// Workspace disk, GiB; 0 = 10.
    #[serde(default)]
    pub pvc_size_gi: u32,
    /// Variables of every process inside.
    #[serde(default)]
    pub env_vars: BTreeMap<String, String>,
    /// Volumes and files put inside before the script.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// A desktop that an agent can use.
    #[serde(default)]
    pub computer_use: bool,
    /// A port that the session exposes; 0 = none.
    #[serde(default)]
    pub http_port: u16,
    /// Seconds without activity after which a session stops; 0 = 1,800.
    #[serde(default)]
    pub idle_stop_after_seconds: u32,
    /// Seconds a stopped workspace is kept; 0 = 604,800.
    #[serde(default)]
    pub stopped_delete_after_seconds: u32,
}

impl Definition {
    /// Whether there is a script to verify.
    pub fn has_script(&self) -> bool {
        !self.setup.script.is_empty()
    }
    /// Disk in GiB with the default resolved.
    pub fn effective_disk_gi(&self) -> u32 {
        or_default(self.pvc_size_gi, limits::DISK_GI_DEFAULT)
    }
    /// Setup timeout in seconds with the default resolved.
    pub fn effective_setup_timeout(&self) -> u32 {
        or_default(self.setup.timeout_seconds, limits::SETUP_TIMEOUT_DEFAULT)
    }
    /// Idle stop in seconds with the default resolved.
    pub fn effective_idle_stop(&self) -> u32 {
        or_default(self.idle_stop_after_seconds, limits::IDLE_STOP_DEFAULT)
    }
    /// Retention of a stopped workspace in seconds with the default resolved.
    pub fn effective_stopped_delete(&self) -> u32 {
        or_default(
            self.stopped_delete_after_seconds,
            limits::STOPPED_DELETE_DEFAULT,
        )
    }
}

/// `value`, or the default where 0 stands for it.
pub(crate) const fn or_default(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

/// The setup script.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Normalised ([`crate::setup_script::normalise`]); empty: none.
    #[serde(default)]
    pub script: String,
    /// Seconds; 0 = 600.
    #[serde(default)]
    pub timeout_seconds: u32,
}

/// The template an environment was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct TemplateRef {
    /// The template's id.
    pub id: String,
    /// Its revision then.
    pub revision: i64,
}
