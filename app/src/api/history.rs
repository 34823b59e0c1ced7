//! The saved definitions of an environment: its history, going back, and edits that met.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::console::HistoryPage;

use super::AppError;
use crate::draft::{Draft, Merge};

/// The history page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryData {
    /// What was saved.
    pub page: HistoryPage,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// A page of the history before a revision, and what going back to one would change.
#[server(prefix = "/fn", endpoint = "history")]
pub async fn load_history(
    id: EnvironmentId,
    before: Option<i64>,
    compare: Option<i64>,
) -> Result<HistoryData, AppError> {
    use super::door;
    let app = door::member()?;
    let page = app
        .control
        .environment_history_page(&app.ctx, id, before, compare)
        .await;
    Ok(HistoryData {
        page: door::answer(&app.ctx, page)?,
        now_micros: app.control.clock().now().micros(),
    })
}

/// Goes back to a saved definition, for a reader who saw revision `seen` as the present one.
#[server(name = RestoreRevision, prefix = "/fn", endpoint = "restore-revision")]
pub async fn restore_revision(
    environment_id: EnvironmentId,
    revision: i64,
    seen: i64,
) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let restored = app
        .control
        .restore_environment_as_seen(&app.ctx, environment_id, revision, seen)
        .await;
    door::answer(&app.ctx, restored)?;
    door::redirect(&crate::links::environment(environment_id));
    Ok(())
}

/// Gives a field (all that differ, without one) the value again that the verdict is about.
#[server(name = PutBack, prefix = "/fn", endpoint = "put-back")]
pub async fn put_back(
    environment_id: EnvironmentId,
    seen: i64,
    #[server(default)] field: String,
) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let only: Vec<String> = (!field.is_empty()).then_some(field).into_iter().collect();
    let put = app
        .control
        .put_back_verified(&app.ctx, environment_id, &only, seen)
        .await;
    door::answer(&app.ctx, put)?;
    // With scripting the page itself takes over what changed, and keeps what is being typed.
    if door::is_plain_form_post() {
        door::redirect(&crate::links::environment(environment_id));
    }
    Ok(())
}

/// Merges a form that was made from revision `base_revision` with what was saved since. Saves nothing.
#[server(prefix = "/fn", endpoint = "merge-environment")]
pub async fn merge_environment(
    environment_id: EnvironmentId,
    base_revision: i64,
    draft: Draft,
) -> Result<Merge, AppError> {
    use super::door;
    let app = door::member()?;
    merged(&app, environment_id, base_revision, &draft).await
}

#[cfg(feature = "ssr")]
pub(super) async fn merged(
    app: &super::door::AppContext,
    id: EnvironmentId,
    base_revision: i64,
    draft: &Draft,
) -> Result<Merge, AppError> {
    let saved = app
        .control
        .saved_meanwhile(&app.ctx, id, base_revision)
        .await;
    let saved = super::door::answer(&app.ctx, saved)?;
    Ok(crate::draft::merge(
        &Draft::of(&saved.base),
        draft,
        &Draft::of(&saved.present),
        &saved.changes,
        saved.revision,
    ))
}
