//! What the console's pages show beyond the shapes of the reference API: view models, made by the application layer
//! and read by the pages (spec 3-console). Our own shapes; free to change with the console.

use domain::{
    ids::{OrganizationId, UserId},
    roles::Role,
};
use serde::{Deserialize, Serialize};

mod administration;
mod environments;
mod history;
mod runs;

pub use administration::*;
pub use environments::*;
pub use history::*;
pub use runs::*;

/// What the viewer may do: drives what pages offer. The application layer asks the same table again at every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct May {
    /// Create, change, delete environments.
    pub change: bool,
    /// Start and cancel setup runs.
    pub test: bool,
    /// Start, use and stop sessions.
    pub use_sessions: bool,
    /// Members, invitations, roles.
    pub manage_members: bool,
    /// Everyone's API keys.
    pub manage_api_keys: bool,
    /// See workers.
    pub manage_workers: bool,
    /// Read the audit log.
    pub read_audit: bool,
}

/// Who looks at the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewer {
    /// The member.
    pub user_id: UserId,
    /// Lower case.
    pub email: String,
    /// May be empty.
    pub display_name: String,
    /// Organization.
    pub organization_id: OrganizationId,
    /// Its name.
    pub organization_name: String,
    /// Role.
    pub role: Role,
    /// What that allows.
    pub may: May,
}
