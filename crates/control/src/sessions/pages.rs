//! What the console's pages about sessions show.

use std::collections::BTreeMap;

use domain::{
    ids::SessionId,
    roles::{Action, permits},
    session::{Barred, startable},
    verification::Usability,
};
use wire::sessions::{SessionPage, SessionsPage, Startable};

use crate::{
    Control, OpCtx, Result, members::Names, ports::rows::EnvironmentRow, view::fingerprint_of,
};

/// Whether a session may start from an environment, and if not, why.
pub(crate) fn startable_view(row: &EnvironmentRow) -> Startable {
    let (reason, wait_for) =
        match startable(&row.definition, &row.verification, &fingerprint_of(row)) {
            Ok(()) => (String::new(), None),
            Err(Barred::PrivilegedWithPolicy) => (
                "It is privileged and restricts the network. Turn one of the two off.".to_owned(),
                None,
            ),
            Err(Barred::Verdict(Usability::WaitFor(run))) => (
                "Its setup is being tested. Wait for the run.".to_owned(),
                Some(run),
            ),
            Err(Barred::Verdict(_)) => (
                "Its setup is not verified as it is saved now. Test it first.".to_owned(),
                None,
            ),
        };
    Startable {
        environment_id: row.environment_id,
        name: row.definition.name.clone(),
        reason,
        wait_for,
    }
}

impl Control {
    /// The page of all sessions.
    pub async fn sessions_page(&self, ctx: &OpCtx) -> Result<SessionsPage> {
        let list = self.list_sessions(ctx, None).await?;
        let member = ctx.member()?;
        let mut names = Names::default();
        let mut people = BTreeMap::new();
        for session in &list.sessions {
            let user = session.requested_by_user_id;
            people.insert(user.to_string(), names.of(self, user).await?);
        }
        let may_use = permits(member.role, Action::UseSessions);
        let environments = if may_use {
            self.0.store.environments(member.organization_id).await?
        } else {
            Vec::new()
        };
        Ok(SessionsPage {
            sessions: list.sessions,
            people,
            environments: environments.iter().map(startable_view).collect(),
            may_use,
            unavailable: self
                .host()
                .err()
                .map(|error| error.api().message.clone())
                .unwrap_or_default(),
        })
    }

    /// One session's page.
    pub async fn session_page(&self, ctx: &OpCtx, id: SessionId) -> Result<SessionPage> {
        let row = self.load_session(ctx, id, Action::ReadEnvironments).await?;
        let member = ctx.member()?;
        Ok(SessionPage {
            started_by: self.name_of(row.requested_by).await?,
            samples: self.0.live.usages(id),
            environment_exists: row.environment_deleted_at.is_none(),
            may_use: permits(member.role, Action::UseSessions),
            session: self.session_view(&row),
        })
    }
}
