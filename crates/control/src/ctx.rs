//! Who asks, and through which request: the first argument of every use case. Also the one place that decides whether
//! they may ([`OpCtx::require`]).

use domain::{
    ids::{ApiKeyId, OrganizationId, UserId},
    roles::{Action, Role, permits},
};
use serde_json::Value;
use wire::console::May;

use crate::{
    error::{Error, Result},
    ports::rows::AuditRow,
};

/// The context of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpCtx {
    /// Who asks.
    pub caller: Caller,
    /// The request's id, also in its answer and in the log.
    pub request_id: String,
    /// The caller's address, where one is known; for the audit log and the slow-down of failed sign-ins.
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
    Console(SignIn),
    /// Sent an API key.
    ApiKey(ApiKeyId),
}

/// What a console sign-in rests upon; what is held open by it ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignIn {
    /// The member's `session_epoch` when the sign-in was checked: another one ended all sign-ins from before.
    pub epoch: i64,
    /// SHA-256 of the browser's session id, where a browser asks: signing out removes its row.
    pub browser: Option<[u8; 32]>,
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

    /// The member who asks.
    ///
    /// # Errors
    /// `401 unauthorized` for anybody else.
    pub fn member(&self) -> Result<&Member> {
        match &self.caller {
            Caller::Member(member) => Ok(member),
            Caller::Anonymous | Caller::System(_) => Err(Error::unauthorized()),
        }
    }

    /// The member who asks, if their role allows the action. Every use case passes through here or through
    /// `Control::load_environment`, which does.
    ///
    /// # Errors
    /// `401 unauthorized` for anybody who is not a member, `403 forbidden` for a role that does not allow it.
    pub fn require(&self, action: Action) -> Result<&Member> {
        let member = self.member()?;
        if permits(member.role, action) {
            Ok(member)
        } else {
            Err(Error::forbidden(action))
        }
    }

    /// Refuses everybody but parts of ours.
    pub(crate) fn require_system(&self) -> Result<()> {
        match self.caller {
            Caller::System(_) => Ok(()),
            Caller::Anonymous | Caller::Member(_) => Err(Error::unauthorized()),
        }
    }

    /// What the caller may do, for what pages offer.
    pub fn may(&self) -> May {
        let allows = |action| {
            self.member()
                .is_ok_and(|member| permits(member.role, action))
        };
        May {
            change: allows(Action::ChangeEnvironments),
            test: allows(Action::TestEnvironments),
            use_sessions: allows(Action::UseSessions),
            manage_members: allows(Action::ManageMembers),
            manage_api_keys: allows(Action::ManageApiKeys),
            manage_workers: allows(Action::ManageWorkers),
            read_audit: allows(Action::ReadAudit),
        }
    }
}

impl crate::Control {
    /// An audit entry by the caller.
    pub(crate) fn audit(
        &self,
        ctx: &OpCtx,
        organization_id: OrganizationId,
        action: &str,
        subject: impl ToString,
        detail: Value,
    ) -> AuditRow {
        let (user_id, actor) = match &ctx.caller {
            Caller::Member(member) => (Some(member.user_id), member.email.clone()),
            Caller::System(name) => (None, (*name).to_owned()),
            Caller::Anonymous => (None, "anonymous".to_owned()),
        };
        AuditRow {
            audit_id: self.0.ids.next(),
            organization_id,
            at: self.0.clock.now(),
            user_id,
            actor,
            source: ctx.source.clone(),
            action: action.to_owned(),
            subject: subject.to_string(),
            detail,
        }
    }
}
