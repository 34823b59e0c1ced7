//! What a deployment offers.

use serde::{Deserialize, Serialize};

use super::PROVIDER_RUNS;
use crate::{
    compute::{Machine, Sizes},
    host_groups::HostGroups,
};

/// What a deployment offers; input is checked against it. Built from the server's configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Providers, the default first.
    pub providers: Vec<Provider>,
    /// Machine sizes that are offered.
    pub sizes: Sizes,
    /// Accelerator names that are offered.
    pub accelerators: Vec<String>,
    /// Placement providers that are offered; empty refuses `placement`.
    pub placements: Vec<String>,
    /// Whether computer use is offered.
    pub computer_use: bool,
    /// Whether hosts can be opened; when false only *No access* is accepted, since nothing else would be enforced.
    pub egress: bool,
    /// Whether privileged sandboxes can be given.
    pub privileged: bool,
    /// Whether mounts can be given.
    pub mounts: bool,
    /// Volumes that `volume:NAME` may name.
    pub volumes: Vec<String>,
    /// Keys that the provider honours in `config`.
    pub config_keys: Vec<String>,
    /// The runner image reference that new environments boot.
    pub runner_image: String,
    /// Named host groups, for templates and the policy editor.
    pub host_groups: HostGroups,
}

/// A kind of sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// The wire word, such as `runs`.
    pub provider: String,
    /// For people.
    pub display_name: String,
    /// One or two sentences.
    pub description: String,
}

impl Provider {
    /// The provider of every deployment.
    pub fn runs() -> Self {
        Self {
            provider: PROVIDER_RUNS.to_owned(),
            display_name: "Agent runner".to_owned(),
            description:
                "Linux compute with a workspace of its own, a network policy and setup verification."
                    .to_owned(),
        }
    }
}

impl Catalog {
    /// A deployment with the provider `runs` on machines of this size, the built-in host groups, and nothing that is
    /// optional. Switch on what else it has with the `with_…` methods or the fields.
    pub fn default_runs(runner_image: impl Into<String>, machine: Machine) -> Self {
        Self {
            providers: vec![Provider::runs()],
            sizes: Sizes {
                machines: vec![machine],
            },
            accelerators: Vec::new(),
            placements: Vec::new(),
            computer_use: false,
            egress: false,
            privileged: false,
            mounts: false,
            volumes: Vec::new(),
            config_keys: Vec::new(),
            runner_image: runner_image.into(),
            host_groups: HostGroups::built_in(),
        }
    }

    /// Hosts can be opened.
    #[must_use]
    pub fn with_egress(mut self) -> Self {
        self.egress = true;
        self
    }
    /// Privileged Docker can be given.
    #[must_use]
    pub fn with_privileged(mut self) -> Self {
        self.privileged = true;
        self
    }
    /// Computer use can be given.
    #[must_use]
    pub fn with_computer_use(mut self) -> Self {
        self.computer_use = true;
        self
    }
    /// Mounts can be given, of files and of these volumes.
    #[must_use]
    pub fn with_mounts<S: Into<String>>(mut self, volumes: impl IntoIterator<Item = S>) -> Self {
        self.mounts = true;
        self.volumes = volumes.into_iter().map(Into::into).collect();
        self
    }
    /// These accelerators can be given.
    #[must_use]
    pub fn with_accelerators<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        self.accelerators = names.into_iter().map(Into::into).collect();
        self
    }
    /// These places can be chosen.
    #[must_use]
    pub fn with_placements<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.placements = names.into_iter().map(Into::into).collect();
        self
    }
    /// The provider honours these keys in `config`.
    #[must_use]
    pub fn with_config_keys<S: Into<String>>(mut self, keys: impl IntoIterator<Item = S>) -> Self {
        self.config_keys = keys.into_iter().map(Into::into).collect();
        self
    }
    /// These machines are offered.
    #[must_use]
    pub fn with_machines(mut self, machines: impl IntoIterator<Item = Machine>) -> Self {
        self.sizes.machines = machines.into_iter().collect();
        self
    }
}
