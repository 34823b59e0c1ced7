//! Environments: the table, the form's pages, create, save, delete.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use server_fn::codec::{ByteStream, Streaming};
use wire::{
    console::{EnvironmentPage, EnvironmentsTable, NewEnvironmentPage, Sort, Validation},
    managed_agents::EnvironmentTemplate,
};

use super::AppError;
use crate::draft::{Draft, Merge};

/// The table's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TablePage {
    /// The table.
    pub table: EnvironmentsTable,
    /// Starting points, for the page without any environment; empty otherwise.
    pub templates: Vec<EnvironmentTemplate>,
    /// Idempotency key of the rows' *Test setup*.
    pub key: String,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// The create page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreatePage {
    /// What is offered, and the starting points.
    pub page: NewEnvironmentPage,
    /// What the form starts with.
    pub draft: Draft,
    /// The starting point that filled it.
    pub template: Option<String>,
    /// Name of the environment that filled it.
    pub copied_from: Option<String>,
    /// Secret variables of that environment: their values are not copied.
    pub secrets_left_out: Vec<String>,
    /// Idempotency key of the form.
    pub key: String,
}

/// An environment's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditPage {
    /// The environment, its runs, what is offered.
    pub page: EnvironmentPage,
    /// What the form starts with: what is saved, or the inputs of a refused save without scripting.
    pub draft: Draft,
    /// What others saved while that refused form was open, already merged into it.
    pub merge: Option<Merge>,
    /// The end of the newest run's log, for readers without scripting and until the live log has loaded.
    pub log_tail: Vec<domain::setup_run::LogLine>,
    /// Idempotency key of the *Test setup* form.
    pub key: String,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// What a save led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Why the setup test that was asked for did not start, though the environment was saved.
    pub not_tested: Option<AppError>,
}

/// The table: rows whose name or id holds `query`.
#[server(prefix = "/fn", endpoint = "environments")]
pub async fn load_environments(query: String, sort: Sort) -> Result<TablePage, AppError> {
    use super::door;
    let app = door::member()?;
    let table = door::answer(
        &app.ctx,
        app.control.environments_table(&app.ctx, &query, sort).await,
    )?;
    let templates = if table.total == 0 && table.may.change {
        door::answer(&app.ctx, app.control.new_environment_page(&app.ctx).await)?.templates
    } else {
        Vec::new()
    };
    Ok(TablePage {
        table,
        templates,
        key: format!("row-{}", app.ctx.request_id),
        now_micros: app.control.clock().now().micros(),
    })
}

/// News of the table, one JSON object a line.
#[server(prefix = "/fn", endpoint = "follow-environments", output = Streaming)]
pub async fn follow_environments() -> Result<ByteStream<AppError>, AppError> {
    use super::{door, setup_runs::json_lines};
    let app = door::member()?;
    let news = door::answer(
        &app.ctx,
        app.control.follow_environments(app.ctx.clone()).await,
    )?;
    Ok(json_lines(news))
}

/// The way to follow the table, for the browser.
#[cfg(feature = "hydrate")]
pub fn follow_environments_call() -> crate::live::stream::Call {
    crate::live::stream::Call {
        path: <FollowEnvironments as server_fn::ServerFn>::PATH,
        form: String::new(),
        // There may be no news for long.
        first_within: crate::live::stream::SILENCE_MAX,
    }
}

/// The create page, filled from a template, from an environment, or from a refused form.
#[server(prefix = "/fn", endpoint = "new-environment")]
pub async fn load_new_environment(
    template: Option<String>,
    from: Option<String>,
) -> Result<CreatePage, AppError> {
    use super::door;
    let app = door::member()?;
    let page = door::answer(&app.ctx, app.control.new_environment_page(&app.ctx).await)?;
    let copied = match from.and_then(|id| id.parse::<EnvironmentId>().ok()) {
        Some(id) => Some(door::answer(
            &app.ctx,
            app.control.get_environment(&app.ctx, id).await,
        )?),
        None => None,
    };
    let secrets_left_out = match &copied {
        Some(environment) => {
            let list = app
                .control
                .list_secrets(&app.ctx, environment.environment_id)
                .await;
            let secrets = door::answer(&app.ctx, list)?.secrets;
            secrets.into_iter().map(|secret| secret.name).collect()
        }
        None => Vec::new(),
    };
    let chosen = template.and_then(|id| page.templates.iter().find(|t| t.id == id).cloned());
    let draft = match (&copied, &chosen, take_draft(&app, NEW_DRAFT).await?) {
        (_, _, Some(refused)) => refused.draft,
        (Some(environment), ..) => Draft::copy_of(environment),
        (None, Some(template), None) => Draft::from_template(template),
        (None, None, None) => Draft::blank(),
    };
    Ok(CreatePage {
        template: chosen.map(|t| t.id),
        secrets_left_out,
        copied_from: copied.map(|environment| environment.name),
        key: format!("form-{}", app.ctx.request_id),
        draft,
        page,
    })
}

/// One environment's page.
#[server(prefix = "/fn", endpoint = "environment")]
pub async fn load_environment(id: EnvironmentId) -> Result<EditPage, AppError> {
    use super::{door, setup_runs::log_part};
    let app = door::member()?;
    let page = door::answer(&app.ctx, app.control.environment_page(&app.ctx, id).await)?;
    let refused = take_draft(&app, &id.to_string()).await?;
    let log_tail = match page.active_run.as_ref().or(page.last_run.as_ref()) {
        Some(run) => log_part(&app, run, None).await?,
        None => Vec::new(),
    };
    let (draft, merge) = match refused {
        None => (Draft::of(&page.environment), None),
        Some(Kept {
            draft,
            base_revision: Some(base),
        }) if base != page.revision && page.may.change => {
            let merge = super::history::merged(&app, id, base, &draft).await?;
            (merge.merged.clone(), Some(merge))
        }
        Some(kept) => (kept.draft, None),
    };
    Ok(EditPage {
        draft,
        merge,
        log_tail,
        key: format!("test-{}", app.ctx.request_id),
        now_micros: app.control.clock().now().micros(),
        page,
    })
}

/// Creates an environment from the form; `then` is `test` for *Save and test setup*. `key` makes a repeated post one
/// environment.
#[server(name = CreateEnvironment, prefix = "/fn", endpoint = "create-environment")]
pub async fn create_environment(
    draft: Draft,
    key: String,
    #[server(default)] then: String,
) -> Result<Saved, AppError> {
    use super::door;
    let app = door::member()?;
    let body = keep_on_refusal(&app, NEW_DRAFT, (&draft, None), draft.create_body()).await?;
    let keyed = door::answer(
        &app.ctx,
        control::Keyed::new(
            &key,
            "POST",
            "console/environments",
            "",
            body.to_string().as_bytes(),
        ),
    )?;
    let test_key = door::further_key(&key, "test");
    let created = app
        .control
        .create_environment_then(&app.ctx, &body, Some(keyed), asked(&then, &test_key))
        .await;
    let created = door::answer(&app.ctx, created);
    let created = keep_on_refusal(&app, NEW_DRAFT, (&draft, None), created).await?;
    let saved = told(&app, created);
    door::redirect(&saved_path(&saved, &then));
    Ok(saved)
}

/// Saves the form of an environment that was read at `base_revision`; `then` is `test` for *Save and test setup*.
#[server(name = SaveEnvironment, prefix = "/fn", endpoint = "save-environment")]
pub async fn save_environment(
    environment_id: EnvironmentId,
    base_revision: i64,
    draft: Draft,
    key: String,
    #[server(default)] then: String,
) -> Result<Saved, AppError> {
    use super::door;
    let app = door::member()?;
    let name = environment_id.to_string();
    let kept = (&draft, Some(base_revision));
    let body = keep_on_refusal(&app, &name, kept, draft.update_body()).await?;
    let test_key = door::further_key(&key, "test");
    let saved = app
        .control
        .save_environment_form_then(
            &app.ctx,
            environment_id,
            base_revision,
            &body,
            asked(&then, &test_key),
        )
        .await;
    let saved = keep_on_refusal(&app, &name, kept, door::answer(&app.ctx, saved)).await?;
    let saved = told(&app, saved);
    if door::is_plain_form_post() {
        door::redirect(&saved_path(&saved, &then));
    }
    Ok(saved)
}

/// What saving the form would do: fields that would be refused, and what happens to the verdict. Saves nothing.
#[server(prefix = "/fn", endpoint = "check-environment")]
pub async fn check_environment(
    environment_id: EnvironmentId,
    draft: Draft,
) -> Result<Validation, AppError> {
    use super::door;
    let app = door::member()?;
    let body = draft.update_body()?;
    let checked = app
        .control
        .validate_environment(&app.ctx, Some(environment_id), &body)
        .await;
    door::answer(&app.ctx, checked)
}

/// Deletes an environment, and cancels its run in flight.
#[server(name = DeleteEnvironment, prefix = "/fn", endpoint = "delete-environment")]
pub async fn delete_environment(environment_id: EnvironmentId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(
        &app.ctx,
        app.control
            .delete_environment(&app.ctx, environment_id)
            .await,
    )?;
    // With scripting the page itself knows what to do: the table stays as it is.
    if door::is_plain_form_post() {
        door::redirect(crate::links::ENVIRONMENTS);
    }
    Ok(())
}

/// Under which name the inputs of a refused create form are kept.
#[cfg(feature = "ssr")]
const NEW_DRAFT: &str = "new";

/// The inputs of a refused form, and what they were made from.
#[cfg(feature = "ssr")]
#[derive(Serialize, Deserialize)]
struct Kept {
    draft: Draft,
    base_revision: Option<i64>,
}

/// Keeps the inputs for the page that a plain form post is led back to.
#[cfg(feature = "ssr")]
async fn keep_on_refusal<T>(
    app: &super::door::AppContext,
    name: &str,
    (draft, base_revision): (&Draft, Option<i64>),
    result: Result<T, AppError>,
) -> Result<T, AppError> {
    if result.is_err() && super::door::is_plain_form_post() {
        let kept = Kept {
            draft: draft.clone(),
            base_revision,
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        app.session.put_note(&format!("draft:{name}"), text).await?;
    }
    result
}

#[cfg(feature = "ssr")]
async fn take_draft(app: &super::door::AppContext, name: &str) -> Result<Option<Kept>, AppError> {
    let note = app.session.take_note(&format!("draft:{name}")).await?;
    Ok(note.and_then(|text| serde_json::from_str(&text).ok()))
}

/// What the form's button asks for after the save.
#[cfg(feature = "ssr")]
fn asked<'k>(then: &str, test_key: &'k str) -> control::and_test::Then<'k> {
    if then == "test" {
        control::and_test::Then::Test {
            key: Some(test_key),
        }
    } else {
        control::and_test::Then::Rest
    }
}

#[cfg(feature = "ssr")]
fn told(app: &super::door::AppContext, changed: control::and_test::Changed) -> Saved {
    Saved {
        environment_id: changed.environment.environment_id,
        not_tested: changed
            .test
            .and_then(Result::err)
            .map(|error| super::door::refusal(&app.ctx, error)),
    }
}

#[cfg(feature = "ssr")]
fn saved_path(saved: &Saved, then: &str) -> String {
    let path = crate::links::environment(saved.environment_id);
    match &saved.not_tested {
        Some(error) => format!("{path}?not_tested={}", error.code()),
        // Where the run that was asked for is seen.
        None if then == "test" => format!("{path}#setup-test"),
        None => path,
    }
}
