//! Members and invitations.

use std::collections::HashMap;

use domain::{
    ids::{InvitationId, OrganizationId, UserId},
    issues::Issues,
    roles::{Action, Role},
    timestamp::Timestamp,
};
use serde_json::json;
use wire::console::{InvitationItem, InvitationPage, MemberItem};

use crate::{
    Caller, Control, Error, OpCtx, RACES_MAX, Result, Secret,
    accounts::{SignedIn, by_user, check_password, parse_email, parse_name, signed_in, taken_or},
    ports::{
        Effects, Written,
        rows::{InvitationRow, UserRow},
    },
};

/// Seconds that an invitation is good for.
const INVITATION_SECONDS: i64 = 7 * 86_400;

/// A fresh invitation. The token is shown once.
pub struct NewInvitation {
    /// The invitation.
    pub item: InvitationItem,
    /// For the link `/invite/{token}`.
    pub token: Secret,
}

/// Names for people, each looked up once.
#[derive(Default)]
pub(crate) struct Names(HashMap<UserId, String>);

impl Names {
    /// Of a member, also when they have left.
    pub(crate) async fn of(&mut self, control: &Control, user: UserId) -> Result<String> {
        if let Some(known) = self.0.get(&user) {
            return Ok(known.clone());
        }
        let name = control.name_of(user).await?;
        self.0.insert(user, name.clone());
        Ok(name)
    }
}

fn item(user: UserRow, viewer: Option<UserId>) -> MemberItem {
    MemberItem {
        is_you: viewer == Some(user.user_id),
        user_id: user.user_id,
        email: user.email,
        display_name: user.display_name,
        role: user.role,
        has_password: user.password_hash.is_some(),
        created_at: user.created_at,
    }
}

fn last_admin() -> Error {
    Error::invalid_field(
        "role",
        "The organization needs an admin, and this is the last one. Make somebody else an admin first.",
    )
}

impl Control {
    /// The organization that an administrative call is about: the caller's; the deployment's first for the operator.
    pub(crate) async fn managed_organization(
        &self,
        ctx: &OpCtx,
        action: Action,
    ) -> Result<OrganizationId> {
        if let Caller::System(_) = ctx.caller {
            let first = self.0.store.organizations().await?.into_iter().next();
            return first.map(|first| first.organization_id).ok_or_else(|| {
                Error::invalid_request(
                    "There is no organization yet. Open the setup link, or start the server with an admin's address and password.",
                )
            });
        }
        Ok(ctx.require(action)?.organization_id)
    }

    /// A member's name for people, also when they have left.
    pub(crate) async fn name_of(&self, user: UserId) -> Result<String> {
        Ok(self.0.store.user(user).await?.map_or_else(
            || "somebody".to_owned(),
            |user| {
                if user.display_name.is_empty() {
                    user.email
                } else {
                    user.display_name
                }
            },
        ))
    }

    /// Members of the organization, oldest first.
    pub async fn members(&self, ctx: &OpCtx) -> Result<Vec<MemberItem>> {
        let member = ctx.require(Action::ManageMembers)?;
        let users = self.0.store.users(member.organization_id).await?;
        Ok(users
            .into_iter()
            .map(|user| item(user, Some(member.user_id)))
            .collect())
    }

    async fn load_member(&self, org: OrganizationId, id: UserId) -> Result<UserRow> {
        match self.0.store.user(id).await? {
            Some(user) if user.organization_id == org && user.removed_at.is_none() => Ok(user),
            _ => Err(Error::not_found()),
        }
    }

    async fn change_member(
        &self,
        ctx: &OpCtx,
        id: UserId,
        action: &str,
        change: impl Fn(&mut UserRow),
    ) -> Result<UserRow> {
        let org = self
            .managed_organization(ctx, Action::ManageMembers)
            .await?;
        for _ in 0..RACES_MAX {
            let before = self.load_member(org, id).await?;
            let mut user = before.clone();
            change(&mut user);
            if user == before {
                return Ok(user);
            }
            let stays_admin = user.role == Role::Admin && user.removed_at.is_none();
            if before.role == Role::Admin && !stays_admin {
                let admins = self.0.store.users(org).await?;
                if admins.iter().filter(|u| u.role == Role::Admin).count() < 2 {
                    return Err(last_admin());
                }
            }
            let detail = json!({
                "member": user.email,
                "before": {"role": before.role},
                "after": if user.removed_at.is_some() { json!(null) } else { json!({"role": user.role}) },
            });
            let fx = Effects {
                audit: vec![self.audit(ctx, org, action, id, detail)],
                ..Effects::default()
            };
            match self.0.store.update_user(&before, &user, fx).await? {
                Written::Done => return Ok(user),
                // Somebody was faster: look again, also whether an admin is left.
                Written::Stale => {}
            }
        }
        Err(Error::unavailable("the member's row kept changing"))
    }

    /// Changes a member's role; the last admin keeps theirs.
    pub async fn change_role(&self, ctx: &OpCtx, user: UserId, role: Role) -> Result<MemberItem> {
        let row = self
            .change_member(ctx, user, "member.role", |user| user.role = role)
            .await?;
        Ok(item(row, ctx.member().ok().map(|member| member.user_id)))
    }

    /// Removes a member: sign-ins and API keys end at once; the last admin stays.
    pub async fn remove_member(&self, ctx: &OpCtx, user: UserId) -> Result<()> {
        let now = self.0.clock.now();
        self.change_member(ctx, user, "member.remove", |user| {
            user.removed_at = Some(now);
            user.session_epoch += 1;
        })
        .await
        .map(|_| ())
    }

    /// Adds a member without a password, for API keys (`groundwork admin create-member`); a system context means the
    /// deployment's first organization.
    ///
    /// Without an organization yet, the operator's first member makes it, and must be an admin.
    pub async fn create_member(&self, ctx: &OpCtx, email: &str, role: Role) -> Result<MemberItem> {
        if ctx.require_system().is_ok() && self.needs_setup().await? {
            return self.create_first_member(ctx, email, role).await;
        }
        let org = self
            .managed_organization(ctx, Action::ManageMembers)
            .await?;
        let mut issues = Issues::new();
        let email = parse_email(email, &mut issues);
        issues.into_result(())?;
        let user = UserRow {
            user_id: self.0.ids.next(),
            organization_id: org,
            email,
            display_name: String::new(),
            role,
            password_hash: None,
            session_epoch: 1,
            created_at: self.0.clock.now(),
            removed_at: None,
        };
        let detail = json!({"member": user.email, "after": {"role": role}});
        let fx = Effects {
            audit: vec![self.audit(ctx, org, "member.create", user.user_id, detail)],
            ..Effects::default()
        };
        match self
            .0
            .store
            .insert_user(&user, None, fx)
            .await
            .map_err(taken_or)?
        {
            Written::Done => Ok(item(user, None)),
            Written::Stale => Err(Error::unavailable("the member could not be added")),
        }
    }

    async fn create_first_member(
        &self,
        ctx: &OpCtx,
        email: &str,
        role: Role,
    ) -> Result<MemberItem> {
        let mut issues = Issues::new();
        let email = parse_email(email, &mut issues);
        if role != Role::Admin {
            issues.add(
                "role",
                "There is no organization yet, and its first member must be an admin: use the role admin.",
            );
        }
        issues.into_result(())?;
        match self
            .insert_first(ctx, "Groundwork".to_owned(), email, String::new(), None)
            .await?
        {
            Some(user) => Ok(item(user, None)),
            None => Err(Error::unavailable("the organization was made meanwhile")),
        }
    }

    fn invitation_item(&self, row: &InvitationRow, invited_by: String) -> InvitationItem {
        InvitationItem {
            invitation_id: row.invitation_id,
            email: row.email.clone(),
            role: row.role,
            invited_by,
            created_at: row.created_at,
            expires_at: row.expires_at,
            expired: row.expires_at <= self.0.clock.now(),
        }
    }

    /// Open invitations, newest first.
    pub async fn invitations(&self, ctx: &OpCtx) -> Result<Vec<InvitationItem>> {
        let member = ctx.require(Action::ManageMembers)?;
        let mut names = Names::default();
        let mut items = Vec::new();
        for row in self.0.store.invitations(member.organization_id).await? {
            let by = names.of(self, row.invited_by).await?;
            items.push(self.invitation_item(&row, by));
        }
        Ok(items)
    }

    /// Invites somebody by link, for seven days. An open invitation of the same address ends.
    pub async fn invite(&self, ctx: &OpCtx, email: &str, role: Role) -> Result<NewInvitation> {
        let member = ctx.require(Action::ManageMembers)?;
        let org = member.organization_id;
        let mut issues = Issues::new();
        let email = parse_email(email, &mut issues);
        issues.into_result(())?;
        if self.0.store.user_by_email(&email).await?.is_some() {
            return Err(taken_or(crate::ports::StoreError::Constraint(
                "users.email".to_owned(),
            )));
        }
        let now = self.0.clock.now();
        for open in self.0.store.invitations(org).await? {
            if open.email == email {
                // Closed by somebody else meanwhile is closed as well.
                let _ = self.close(ctx, org, open.invitation_id, now).await?;
            }
        }
        let token = Secret::random("")?;
        let row = InvitationRow {
            invitation_id: self.0.ids.next(),
            organization_id: org,
            email,
            role,
            token_hash: token.sha256_hex(),
            invited_by: member.user_id,
            created_at: now,
            expires_at: now.plus_seconds(INVITATION_SECONDS),
            closed_at: None,
        };
        let detail = json!({"email": row.email, "role": role});
        let fx = Effects {
            audit: vec![self.audit(ctx, org, "invitation.create", row.invitation_id, detail)],
            ..Effects::default()
        };
        self.0.store.insert_invitation(&row, fx).await?;
        let by = self.name_of(member.user_id).await?;
        Ok(NewInvitation {
            item: self.invitation_item(&row, by),
            token,
        })
    }

    async fn close(
        &self,
        ctx: &OpCtx,
        org: OrganizationId,
        id: InvitationId,
        now: Timestamp,
    ) -> Result<Written> {
        let fx = Effects {
            audit: vec![self.audit(ctx, org, "invitation.withdraw", id, json!({}))],
            ..Effects::default()
        };
        Ok(self.0.store.close_invitation(org, id, now, fx).await?)
    }

    /// Withdraws an invitation.
    pub async fn withdraw_invitation(&self, ctx: &OpCtx, id: InvitationId) -> Result<()> {
        let member = ctx.require(Action::ManageMembers)?;
        let now = self.0.clock.now();
        match self.close(ctx, member.organization_id, id, now).await? {
            Written::Done => Ok(()),
            Written::Stale => Err(Error::not_found()),
        }
    }

    async fn open_invitation(&self, token: &Secret) -> Result<InvitationRow> {
        match self
            .0
            .store
            .invitation_by_token(&token.sha256_hex())
            .await?
        {
            Some(row) if row.closed_at.is_none() && row.expires_at > self.0.clock.now() => Ok(row),
            _ => Err(Error::invitation_over()),
        }
    }

    /// What the page of an invitation shows; anyone with the link may ask. `404` when closed or expired.
    pub async fn invitation_page(&self, token: &Secret) -> Result<InvitationPage> {
        let row = self.open_invitation(token).await?;
        let organization = self
            .0
            .store
            .organizations()
            .await?
            .into_iter()
            .find(|organization| organization.organization_id == row.organization_id)
            .ok_or_else(Error::invitation_over)?;
        Ok(InvitationPage {
            email: row.email,
            role: row.role,
            organization_name: organization.name,
            expires_at: row.expires_at,
        })
    }

    /// Accepts an invitation and signs in.
    pub async fn accept_invitation(
        &self,
        ctx: &OpCtx,
        token: &Secret,
        display_name: &str,
        password: &Secret,
    ) -> Result<SignedIn> {
        let invitation = self.open_invitation(token).await?;
        let mut issues = Issues::new();
        let display_name = parse_name("display_name", display_name, false, &mut issues);
        check_password("password", password, &invitation.email, &mut issues);
        issues.into_result(())?;
        let now = self.0.clock.now();
        let user = UserRow {
            user_id: self.0.ids.next(),
            organization_id: invitation.organization_id,
            email: invitation.email,
            display_name,
            role: invitation.role,
            password_hash: Some(self.0.passwords.hash(password).await?),
            session_epoch: 1,
            created_at: now,
            removed_at: None,
        };
        let mut entry = self.audit(
            ctx,
            user.organization_id,
            "invitation.accept",
            invitation.invitation_id,
            json!({"member": user.email, "after": {"role": user.role}}),
        );
        by_user(&mut entry, &user);
        let fx = Effects {
            audit: vec![entry],
            ..Effects::default()
        };
        match self
            .0
            .store
            .insert_user(&user, Some((invitation.invitation_id, now)), fx)
            .await
            .map_err(taken_or)?
        {
            Written::Done => Ok(signed_in(&user)),
            Written::Stale => Err(Error::invitation_over()),
        }
    }
}
