//! Who may do what: the one table (spec 1-domain, *Roles*).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A member's role, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    User,
    /// Reads and changes environments, runs and sessions.
    Developer,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles, weakest first.
    pub const ALL: [Self; 3] = [Self::User, Self::Developer, Self::Admin];
    /// The role's wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Developer => "developer",
            Self::Admin => "admin",
        }
    }
}
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
/// The word names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a role: use admin, developer or user")]
pub struct BadRole;
impl FromStr for Role {
    type Err = BadRole;
    fn from_str(text: &str) -> Result<Self, BadRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(BadRole)
    }
}

/// Something that a caller may want to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// See environments, setup runs and their logs, templates, providers.
    ReadEnvironments,
    /// Create, change, delete environments.
    ChangeEnvironments,
    /// Start and cancel setup runs.
    TestEnvironments,
    /// Start, use and stop sessions.
    UseSessions,
    /// Create, list and revoke one's own API keys (with one's own role or a lower one).
    OwnApiKeys,
    /// Change one's own password, end one's own sign-ins.
    OwnAccount,
    /// Members, invitations, roles.
    ManageMembers,
    /// Everyone's API keys.
    ManageApiKeys,
    /// See workers.
    ManageWorkers,
    /// Read the audit log.
    ReadAudit,
}

impl Action {
    /// All actions, for tables and coverage tests.
    pub const ALL: [Self; 10] = [
        Self::ReadEnvironments,
        Self::ChangeEnvironments,
        Self::TestEnvironments,
        Self::UseSessions,
        Self::OwnApiKeys,
        Self::OwnAccount,
        Self::ManageMembers,
        Self::ManageApiKeys,
        Self::ManageWorkers,
        Self::ReadAudit,
    ];
    /// The weakest role that may do this.
    pub const fn least_role(self) -> Role {
        match self {
            Self::ReadEnvironments | Self::OwnApiKeys | Self::OwnAccount => Role::User,
            Self::ChangeEnvironments | Self::TestEnvironments | Self::UseSessions => {
                Role::Developer
            }
            Self::ManageMembers | Self::ManageApiKeys | Self::ManageWorkers | Self::ReadAudit => {
                Role::Admin
            }
        }
    }
}

/// Whether a member of this role may do this. The only such check; callers of every kind ask it.
pub fn permits(role: Role, action: Action) -> bool {
    role >= action.least_role()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_spec() {
        for (action, user, developer) in [
            (Action::ReadEnvironments, true, true),
            (Action::ChangeEnvironments, false, true),
            (Action::TestEnvironments, false, true),
            (Action::UseSessions, false, true),
            (Action::OwnApiKeys, true, true),
            (Action::OwnAccount, true, true),
            (Action::ManageMembers, false, false),
            (Action::ManageApiKeys, false, false),
            (Action::ManageWorkers, false, false),
            (Action::ReadAudit, false, false),
        ] {
            assert_eq!(permits(Role::User, action), user, "{action:?}");
            assert_eq!(permits(Role::Developer, action), developer, "{action:?}");
            assert!(permits(Role::Admin, action), "{action:?}");
        }
    }
}
