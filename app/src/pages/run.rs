//! One run's own page: its log fills it, and a line of it can be linked to (`#L42`).

use domain::ids::{EnvironmentId, SetupRunId};
use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};
use wire::error::Code;

use crate::{
    api::{
        AppError, page_data,
        setup_runs::{RunLogPage, load_run},
    },
    components::{CopyId, Failure, Loading, PageHead},
    format, links,
    live::now::{Ago, Now},
    pages::run_view::Run,
    text::shown,
};

/// The page.
#[component]
pub fn RunPage() -> impl IntoView {
    let params = use_params_map();
    let ids = Memo::new(move |_| {
        let params = params.read();
        let environment = params
            .get("id")
            .and_then(|id| id.parse::<EnvironmentId>().ok());
        environment.zip(
            params
                .get("run")
                .and_then(|id| id.parse::<SetupRunId>().ok()),
        )
    });
    // For readers without scripting: the page of the log that they look at.
    let from = use_query_map().with_untracked(|query| {
        query
            .get_str("from")
            .and_then(|from| from.parse::<u64>().ok())
            .filter(|from| *from > 0)
    });
    let page = page_data(
        move || ids.get(),
        move |ids| async move {
            match ids {
                Some((environment, run)) => load_run(environment, run, from).await,
                None => Err(AppError::new(Code::NotFound, "")),
            }
        },
    );
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(page) => view! { <Loaded page from /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Suspense>
    }
}

#[component]
fn Loaded(page: RunLogPage, from: Option<u64>) -> impl IntoView {
    provide_context(Now::start(page.now_micros));
    let run = page.page.run.clone();
    let script = page.page.script.clone();
    let above = (
        links::environment(run.environment_id),
        shown(&page.page.environment_name),
    );
    let has_script = !script.is_empty();
    let (by, created_at) = (shown(&run.by), run.created_at);
    let (short_id, whole_id) = (run.short_id.clone(), run.setup_run_id.to_string());
    view! {
        <div class="page page-wide">
            <PageHead title=format!("Setup run {}", run.short_id) above>
                <span class="flex items-center gap-3 text-sm text-ink-2">
                    <CopyId short=short_id whole=whole_id />
                    <span>{by} ", " <Ago at=created_at /></span>
                </span>
            </PageHead>
            <Run run part=page.lines from key=page.key previous=page.page.previous_ms tall=true />
            {has_script
                .then(|| {
                    view! {
                        <details class="section">
                            <summary>
                                <crate::components::Draw icon=crate::components::Icon::ChevronRight />
                                <h2>"The script that it ran"</h2>
                                <span class="section-summary">
                                    {format::count(script.lines().count() as u64, "line", "lines")}
                                </span>
                            </summary>
                            <div class="section-body">
                                <pre class="code-block" tabindex="0" aria-label="Setup script">
                                    {script}
                                </pre>
                            </div>
                        </details>
                    }
                })}
        </div>
    }
    .into_any()
}
