//! Searching environments, page by page (spec 2-api, `/groundwork/v1`).

use domain::{ids::EnvironmentId, roles::Action};
use wire::environments::EnvironmentSearch;

use crate::{Control, Error, OpCtx, Result, view};

/// Most environments of a page.
pub const PAGE_MAX: u32 = 200;
/// Environments of a page unless asked otherwise.
pub const PAGE_DEFAULT: u32 = 50;
/// What `status` may be: the words of the verdict, and whether it is about another definition.
const STATUSES: [&str; 6] = [
    "not_applicable",
    "never",
    "running",
    "verified",
    "failed",
    "stale",
];

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvironmentQuery {
    /// Part of the name or the id, without case; empty: everything.
    pub text: String,
    /// A word of the verdict, or `stale`.
    pub status: Option<String>,
    /// 1 to [`PAGE_MAX`]; [`PAGE_DEFAULT`] unless given.
    pub limit: Option<u32>,
    /// The last environment of the page before.
    pub after: Option<EnvironmentId>,
}

impl Control {
    /// Environments that match, newest first.
    pub async fn search_environments(
        &self,
        ctx: &OpCtx,
        query: &EnvironmentQuery,
    ) -> Result<EnvironmentSearch> {
        let member = ctx.require(Action::ReadEnvironments)?;
        if let Some(status) = &query.status
            && !STATUSES.contains(&status.as_str())
        {
            return Err(Error::invalid_field(
                "status",
                format!("Use one of {}.", STATUSES.join(", ")),
            ));
        }
        let limit = query.limit.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid_field(
                "limit",
                format!("Use a number from 1 to {PAGE_MAX}."),
            ));
        }
        let limit = limit as usize;
        let text = query.text.trim().to_lowercase();
        let mut rows = self.0.store.environments(member.organization_id).await?;
        // Ids grow with time: one that is gone meanwhile still says where the page before ended.
        rows.sort_by_key(|row| std::cmp::Reverse(row.environment_id));
        let mut found: Vec<_> = rows
            .iter()
            .filter(|row| query.after.is_none_or(|after| row.environment_id < after))
            .filter(|row| {
                text.is_empty()
                    || row.definition.name.to_lowercase().contains(&text)
                    || row.environment_id.to_string().contains(&text)
            })
            .map(view::environment)
            .filter(|environment| match query.status.as_deref() {
                None => true,
                Some("stale") => environment.setup_verification.stale,
                Some(status) => environment.setup_verification.status == status,
            })
            .take(limit + 1)
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(EnvironmentSearch {
            next_cursor: found
                .last()
                .filter(|_| more)
                .map(|last| last.environment_id),
            environments: found,
        })
    }
}
