//! Members, invitations, workers, the audit log.

use domain::{
    ids::{AuditId, InvitationId, UserId},
    roles::Role,
};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::console::{AuditPage, InvitationItem, MemberItem, WorkerItem};

use super::AppError;

/// The members' page.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MembersPage {
    /// Oldest first.
    pub members: Vec<MemberItem>,
    /// Open invitations, newest first.
    pub invitations: Vec<InvitationItem>,
    /// The path of an invitation made by a plain form post; shown once.
    pub invited: Option<String>,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// The workers' page.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkersPage {
    /// Newest first.
    pub workers: Vec<WorkerItem>,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// Members and open invitations.
#[server(prefix = "/fn", endpoint = "members")]
pub async fn load_members() -> Result<MembersPage, AppError> {
    use super::door;
    let app = door::member()?;
    let members = door::answer(&app.ctx, app.control.members(&app.ctx).await)?;
    let invitations = door::answer(&app.ctx, app.control.invitations(&app.ctx).await)?;
    let invited = app.session.take_note("invited").await?;
    Ok(MembersPage {
        members,
        invitations,
        invited,
        now_micros: app.control.clock().now().micros(),
    })
}

/// Invites somebody; the answer is the path of the link, which is shown once.
#[server(name = Invite, prefix = "/fn", endpoint = "invite")]
pub async fn invite(email: String, role: Role) -> Result<String, AppError> {
    use super::door;
    let app = door::member()?;
    let invitation = door::answer(&app.ctx, app.control.invite(&app.ctx, &email, role).await)?;
    let path = format!("/invite/{}", invitation.token.expose());
    if door::is_plain_form_post() {
        app.session.put_note("invited", path.clone()).await?;
    }
    Ok(path)
}

/// Withdraws an invitation.
#[server(name = WithdrawInvitation, prefix = "/fn", endpoint = "withdraw-invitation")]
pub async fn withdraw_invitation(invitation_id: InvitationId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(
        &app.ctx,
        app.control
            .withdraw_invitation(&app.ctx, invitation_id)
            .await,
    )
}

/// Changes a member's role.
#[server(name = ChangeRole, prefix = "/fn", endpoint = "change-role")]
pub async fn change_role(user_id: UserId, role: Role) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(
        &app.ctx,
        app.control.change_role(&app.ctx, user_id, role).await,
    )
    .map(|_| ())
}

/// Removes a member.
#[server(name = RemoveMember, prefix = "/fn", endpoint = "remove-member")]
pub async fn remove_member(user_id: UserId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(&app.ctx, app.control.remove_member(&app.ctx, user_id).await)
}

/// Workers, newest first.
#[server(prefix = "/fn", endpoint = "workers")]
pub async fn load_workers() -> Result<WorkersPage, AppError> {
    use super::door;
    let app = door::member()?;
    let workers = door::answer(&app.ctx, app.control.workers(&app.ctx).await)?;
    Ok(WorkersPage {
        workers,
        now_micros: app.control.clock().now().micros(),
    })
}

/// A page of the audit log, newest first.
#[server(prefix = "/fn", endpoint = "audit")]
pub async fn load_audit(before: Option<AuditId>) -> Result<AuditPage, AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(&app.ctx, app.control.audit_log(&app.ctx, before).await)
}
