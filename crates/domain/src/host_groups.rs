//! Named sets of hosts (spec 1-domain, *Templates*): data that a deployment's configuration can replace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Host globs by group name (`github`, `pypi`, `npm`, `debian`, `crates`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostGroups(pub BTreeMap<String, Vec<String>>);
