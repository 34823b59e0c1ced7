//! Members, invitations, workers, the audit log.

#[cfg(feature = "ssr")]
use domain::ids::AuditId;
use domain::{
    ids::{EnvironmentId, InvitationId, SetupRunId, UserId},
    roles::Role,
    timestamp::Timestamp,
};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::{
    console::{AuditPage, InvitationItem, MemberItem, WorkerItem},
    error::Code,
};

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

/// Takes a run away from the worker that holds it.
#[server(name = ReleaseRun, prefix = "/fn", endpoint = "release-run")]
pub async fn release_run(
    environment_id: EnvironmentId,
    setup_run_id: SetupRunId,
) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let released = app
        .control
        .release_setup_run(&app.ctx, environment_id, setup_run_id)
        .await;
    door::answer(&app.ctx, released).map(|_| ())
}

/// What entries of the audit log are wanted, as a form or an address writes it; empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditWanted {
    /// The actor's address.
    pub actor: String,
    /// The action; one that ends with a dot means all that begin so.
    pub action: String,
    /// The id that it was about.
    pub subject: String,
    /// From this day (`2026-09-17`, UTC) or RFC 3339 time on.
    pub since: String,
    /// Up to this day, with it, or before this RFC 3339 time.
    pub until: String,
    /// The last entry of the page before.
    pub before: String,
}

impl AuditWanted {
    /// As a query of an address, without `?`; what is empty is left out.
    pub fn query(&self) -> String {
        [
            ("actor", &self.actor),
            ("action", &self.action),
            ("subject", &self.subject),
            ("since", &self.since),
            ("until", &self.until),
            ("before", &self.before),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", crate::links::encode(value)))
        .collect::<Vec<_>>()
        .join("&")
    }

    /// Whether nothing is chosen but perhaps a page.
    pub fn is_all(&self) -> bool {
        *self
            == Self {
                before: self.before.clone(),
                ..Self::default()
            }
    }

    /// The moments of [`Self::since`] and [`Self::until`]; a day that is written alone is counted whole.
    ///
    /// # Errors
    /// `invalid_request` on the first that is neither a day nor a time.
    pub fn times(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), AppError> {
        Ok((
            moment("since", &self.since, 0)?,
            moment("until", &self.until, 86_400)?,
        ))
    }
}

fn moment(field: &str, text: &str, of_day: i64) -> Result<Option<Timestamp>, AppError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let day = || {
        format!("{text}T00:00:00Z")
            .parse::<Timestamp>()
            .map(|at| at.plus_seconds(of_day))
    };
    text.parse().or_else(|_| day()).map(Some).map_err(|_| {
        AppError::new(
            Code::InvalidRequest,
            format!(
                "{field}: Write a day such as 2026-09-17, or a time such as 2026-09-17T12:00:00Z."
            ),
        )
    })
}

/// A page of the audit log, newest first.
#[server(prefix = "/fn", endpoint = "audit")]
pub async fn load_audit(#[server(default)] wanted: AuditWanted) -> Result<AuditPage, AppError> {
    use super::door;
    use control::audit::{AuditFilter, AuditQuery};
    let app = door::member()?;
    let (since, until) = match wanted.times() {
        Ok(times) => times,
        // Whether one may see the log at all comes first.
        Err(error) => {
            door::answer(&app.ctx, app.control.audit_log(&app.ctx, None).await)?;
            return Err(error);
        }
    };
    let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let query = AuditQuery {
        filter: AuditFilter {
            actor: text(&wanted.actor),
            action: text(&wanted.action),
            subject: text(&wanted.subject),
            since,
            until,
        },
        limit: None,
        before: wanted.before.parse::<AuditId>().ok(),
    };
    door::answer(&app.ctx, app.control.audit_events(&app.ctx, &query).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(since: &str, until: &str) -> AuditWanted {
        AuditWanted {
            since: since.to_owned(),
            until: until.to_owned(),
            ..AuditWanted::default()
        }
    }

    #[test]
    fn a_day_is_counted_whole_and_a_time_as_written() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (since, until, times) in [
            ("", "", (None, None)),
            (
                "2026-09-17",
                "2026-09-17",
                (
                    Some(at("2026-09-17T00:00:00Z")),
                    Some(at("2026-09-18T00:00:00Z")),
                ),
            ),
            (
                "2026-09-17T12:00:00Z",
                "",
                (Some(at("2026-09-17T12:00:00Z")), None),
            ),
        ] {
            assert_eq!(wanted(since, until).times().unwrap(), times);
        }
        assert!(wanted("yesterday", "").times().is_err());
    }

    #[test]
    fn a_choice_is_an_address_again() {
        let mut one = wanted("2026-09-17", "");
        one.actor = "a b@example.com".to_owned();
        assert_eq!(one.query(), "actor=a%20b%40example.com&since=2026-09-17");
        assert!(!one.is_all());
        assert!(AuditWanted::default().is_all());
    }
}
