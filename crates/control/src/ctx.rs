//! Who asks, and through which request. The first argument of every use case.

use domain::{
    ids::{ApiKeyId, OrganizationId, UserId},
    roles::Role,
};

/// The context of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpCtx {
    /// Who asks.
    pub caller: Caller,
    /// The request's id, also in its answer and in the log.
    pub request_id: String,
    /// The caller's address, where one is known; for the audit log.
    pub source: Option<String>,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nobody we know.
    Anonymous,
    /// A member.
    Member(Member),
    /// A part of ours that acts by itself, such as the lease reaper.
    System(&'static str),
}

/// A member who was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The member's organization.
    pub organization_id: OrganizationId,
    /// The member.
    pub user_id: UserId,
    /// For people.
    pub email: String,
    /// The role that counts: for an API key, the lower of the key's and the member's.
    pub role: Role,
    /// How the member was authenticated.
    pub via: Via,
}

/// How a member was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Signed in to the console.
    Console,
    /// Sent an API key.
    ApiKey(ApiKeyId),
}

impl OpCtx {
    /// A part of ours that acts by itself.
    pub fn system(name: &'static str) -> Self {
        Self {
            caller: Caller::System(name),
            request_id: name.to_owned(),
            source: None,
        }
    }
}
