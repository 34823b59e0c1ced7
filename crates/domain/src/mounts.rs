//! Volumes and files put into the sandbox (spec 1-domain, *Mounts*).

use serde::{Deserialize, Serialize};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// `volume:NAME` or an `https://` URL.
    pub source: String,
    /// Absolute, under `/workspace/` or `/mnt/`, without `..`.
    pub mount_path: String,
}
