//! First start, sign-in, members, invitations, passwords.

use domain::{
    ids::{InvitationId, OrganizationId, UserId},
    roles::Role,
    timestamp::Timestamp,
};
use wire::console::{InvitationItem, InvitationPage, MemberItem, Viewer};

use crate::{Control, Error, Member, OpCtx, Result, Secret};

/// The first organization and its first admin.
pub struct Bootstrap {
    /// 1 to 100 characters.
    pub organization_name: String,
    /// The admin's address.
    pub email: String,
    /// May be empty.
    pub display_name: String,
    /// The admin's password.
    pub password: Secret,
}

/// Somebody who signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Who.
    pub member: Member,
    /// Keep it in the sign-in and hand it to [`Control::authenticate_web`].
    pub session_epoch: i64,
}

/// A fresh invitation. The token is shown once.
pub struct NewInvitation {
    /// The invitation.
    pub item: InvitationItem,
    /// For the link `/invite/{token}`.
    pub token: Secret,
}

impl Control {
    /// Whether the first organization is still to be made.
    pub async fn needs_setup(&self) -> Result<bool> {
        Err(Error::unavailable("not written yet"))
    }
    /// Makes a fresh one-time setup token for the link that the server prints; `None` once set up. Earlier ones end.
    pub async fn issue_setup_token(&self) -> Result<Option<Secret>> {
        Err(Error::unavailable("not written yet"))
    }
    /// Makes the first organization and its admin, with the one-time token.
    pub async fn bootstrap(
        &self,
        ctx: &OpCtx,
        token: &Secret,
        first: Bootstrap,
    ) -> Result<SignedIn> {
        let _ = (ctx, token, first);
        Err(Error::unavailable("not written yet"))
    }
    /// The same by the operator (`GROUNDWORK_ADMIN_EMAIL`), without a token; `None` if it is set up already. Needs a
    /// system context.
    pub async fn bootstrap_by_operator(
        &self,
        ctx: &OpCtx,
        first: Bootstrap,
    ) -> Result<Option<OrganizationId>> {
        let _ = (ctx, first);
        Err(Error::unavailable("not written yet"))
    }
    /// Signs in. Unknown address and wrong password answer alike, in the same time; repeated failures are slowed down
    /// (`429` with `Retry-After`) for each account and address (`ctx.source`).
    pub async fn sign_in(&self, ctx: &OpCtx, email: &str, password: &Secret) -> Result<SignedIn> {
        let _ = (ctx, email, password);
        Err(Error::unavailable("not written yet"))
    }
    /// Who a console sign-in is; `401` if the member was removed or the epoch is over.
    pub async fn authenticate_web(&self, user: UserId, session_epoch: i64) -> Result<Member> {
        let _ = (user, session_epoch);
        Err(Error::unavailable("not written yet"))
    }
    /// Who looks, for the console's frame.
    pub async fn viewer(&self, ctx: &OpCtx) -> Result<Viewer> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// Changes the caller's password and ends all other sign-ins: keep the answer's epoch in this one.
    pub async fn change_password(
        &self,
        ctx: &OpCtx,
        current: &Secret,
        new: &Secret,
    ) -> Result<i64> {
        let _ = (ctx, current, new);
        Err(Error::unavailable("not written yet"))
    }
    /// Ends all of the caller's sign-ins; the answer's epoch would keep this one.
    pub async fn sign_out_everywhere(&self, ctx: &OpCtx) -> Result<i64> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// Changes the caller's display name.
    pub async fn change_display_name(&self, ctx: &OpCtx, name: &str) -> Result<()> {
        let _ = (ctx, name);
        Err(Error::unavailable("not written yet"))
    }
    /// Members of the organization, oldest first.
    pub async fn members(&self, ctx: &OpCtx) -> Result<Vec<MemberItem>> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// Changes a member's role; the last admin keeps theirs.
    pub async fn change_role(&self, ctx: &OpCtx, user: UserId, role: Role) -> Result<MemberItem> {
        let _ = (ctx, user, role);
        Err(Error::unavailable("not written yet"))
    }
    /// Removes a member: sign-ins and API keys end at once; the last admin stays.
    pub async fn remove_member(&self, ctx: &OpCtx, user: UserId) -> Result<()> {
        let _ = (ctx, user);
        Err(Error::unavailable("not written yet"))
    }
    /// Adds a member without a password, for API keys (`groundwork admin create-member`); a system context means the
    /// deployment's first organization.
    pub async fn create_member(&self, ctx: &OpCtx, email: &str, role: Role) -> Result<MemberItem> {
        let _ = (ctx, email, role);
        Err(Error::unavailable("not written yet"))
    }
    /// Open invitations, newest first.
    pub async fn invitations(&self, ctx: &OpCtx) -> Result<Vec<InvitationItem>> {
        let _ = ctx;
        Err(Error::unavailable("not written yet"))
    }
    /// Invites somebody by link, for seven days.
    pub async fn invite(&self, ctx: &OpCtx, email: &str, role: Role) -> Result<NewInvitation> {
        let _ = (ctx, email, role);
        Err(Error::unavailable("not written yet"))
    }
    /// Withdraws an invitation.
    pub async fn withdraw_invitation(&self, ctx: &OpCtx, id: InvitationId) -> Result<()> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// What the page of an invitation shows; anyone with the link may ask. `404` when closed or expired.
    pub async fn invitation_page(&self, token: &Secret) -> Result<InvitationPage> {
        let _ = token;
        Err(Error::unavailable("not written yet"))
    }
    /// Accepts an invitation and signs in.
    pub async fn accept_invitation(
        &self,
        ctx: &OpCtx,
        token: &Secret,
        display_name: &str,
        password: &Secret,
    ) -> Result<SignedIn> {
        let _ = (ctx, token, display_name, password);
        Err(Error::unavailable("not written yet"))
    }
}

/// When an invitation made now ends.
pub(crate) const fn invitation_end(now: Timestamp) -> Timestamp {
    now.plus_seconds(7 * 86_400)
}
