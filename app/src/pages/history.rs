//! Every saved definition of an environment: who, when, what it changed, and the way back to it.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};
use wire::{
    console::{RestorePreview, Revision},
    error::Code,
};

use crate::{
    api::{
        AppError,
        history::{HistoryData, RestoreRevision, load_history},
        page_data,
    },
    components::{Alert, Changes, Draw, Failure, Icon, Loading, PageHead, Sign, Submit, Tone},
    links,
    live::now::{Ago, Now},
    pages::environment_parts::effect_text,
    text::shown,
};

/// The page.
#[component]
pub fn HistoryPage() -> impl IntoView {
    let params = use_params_map();
    let query = use_query_map();
    let wanted = Memo::new(move |_| {
        let id = params
            .read()
            .get("id")
            .and_then(|id| id.parse::<EnvironmentId>().ok());
        let query = query.read();
        // A revision that is no number was never saved.
        let number = |name| {
            query
                .get_str(name)
                .map(|text| text.parse::<i64>().unwrap_or(-1))
        };
        (id, number("before"), number("compare"))
    });
    let page = page_data(
        move || wanted.get(),
        |(id, before, compare)| async move {
            match id {
                Some(id) => load_history(id, before, compare).await,
                None => Err(AppError::new(Code::NotFound, "")),
            }
        },
    );
    // Here, so that a refusal outlives the page's data.
    let action = ServerAction::<RestoreRevision>::new();
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(data) => view! { <Loaded data action /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Transition>
    }
}

#[component]
fn Loaded(data: HistoryData, action: ServerAction<RestoreRevision>) -> impl IntoView {
    provide_context(Now::start(data.now_micros));
    let page = data.page;
    let id = page.environment_id;
    let may_change = page.may.change;
    let newer = page
        .revisions
        .first()
        .is_some_and(|first| first.revision != page.revision);
    let older = page
        .older
        .map(|before| format!("{}?before={before}", links::history(id)));
    let seen = page.revision;
    view! {
        <div class="page page-narrow">
            <PageHead
                title="History"
                sub="Every saved definition, newest first. Going back to one saves it again as the newest."
                above=(links::environment(id), shown(&page.name))
            />
            {page.chosen.map(|preview| view! { <Chosen id seen may_change preview action /> })}
            <ol class="flex flex-col gap-3" aria-label="Saved definitions">
                {page
                    .revisions
                    .into_iter()
                    .map(|revision| view! { <Saved id revision /> })
                    .collect_view()}
            </ol>
            <nav class="flex gap-2 justify-end" aria-label="Pages">
                {newer.then(|| view! { <a class="button" href=links::history(id)>"Newest"</a> })}
                {older.map(|path| view! { <a class="button" href=path>"Older"</a> })}
            </nav>
        </div>
    }
    .into_any()
}

#[component]
fn Saved(id: EnvironmentId, revision: Revision) -> impl IntoView {
    let number = revision.revision;
    let is_first = number == 1;
    view! {
        <li class="card" id=format!("r{number}")>
            <div class="card-head">
                <h2 class="card-title flex items-center gap-2">
                    <a href=format!("#r{number}") class="hover:underline">"Revision " {number}</a>
                    {revision.current.then(|| view! { <Sign tone=Tone::Good text="Current" /> })}
                </h2>
                <span class="text-xs text-ink-2 min-w-0 break-words">{shown(&revision.by)} ", " <Ago at=revision.at /></span>
                {(!revision.current)
                    .then(|| {
                        view! {
                            <a class="button button-small ml-auto" href=links::compare(id, number)>
                                <Draw icon=Icon::History />
                                "Compare with today"
                                <span class="visually-hidden">"(revision " {number} ")"</span>
                            </a>
                        }
                    })}
            </div>
            <div class="card-body">
                {if revision.changes.is_empty() {
                    view! {
                        <p class="text-sm text-ink-2">
                            {if is_first { "Created." } else { "Nothing that is shown here changed." }}
                        </p>
                    }
                        .into_any()
                } else {
                    view! { <Changes changes=revision.changes /> }.into_any()
                }}
            </div>
        </li>
    }
    .into_any()
}

/// What going back to the chosen revision would change, and the button that does it.
#[component]
fn Chosen(
    id: EnvironmentId,
    seen: i64,
    may_change: bool,
    preview: RestorePreview,
    action: ServerAction<RestoreRevision>,
) -> impl IntoView {
    let number = preview.revision;
    let possible = may_change && preview.refused.is_empty() && !preview.changes.is_empty();
    let error = Signal::derive(move || action.value().get().and_then(Result::err));
    view! {
        <section class="card" aria-labelledby="chosen-title">
            <div class="card-head">
                <h2 id="chosen-title" class="card-title">
                    "Today and revision " {number}
                </h2>
                <span class="text-xs text-ink-2 min-w-0 break-words">{shown(&preview.by)} ", " <Ago at=preview.at /></span>
            </div>
            <div class="card-body flex flex-col gap-3">
                {move || {
                    error
                        .get()
                        .map(|error| {
                            let text = if error.code() == Code::RevisionConflict {
                                "Somebody saved this environment after you opened this page. Compare again, then decide.".to_owned()
                            } else {
                                error.to_string()
                            };
                            view! {
                                <Alert tone=Tone::Bad title="Not restored." urgent=true>
                                    {text}
                                    " "
                                    <a class="link" href=links::compare(id, number) rel="external">
                                        "Compare again"
                                    </a>
                                </Alert>
                            }
                        })
                }}
                {(!preview.refused.is_empty())
                    .then(|| {
                        view! {
                            <Alert tone=Tone::Warn title="It cannot come back as it was.">
                                <ul class="list-disc pl-4">
                                    {preview
                                        .refused
                                        .into_iter()
                                        .map(|issue| {
                                            view! {
                                                <li>
                                                    <span class="mono">{issue.path}</span>
                                                    ": "
                                                    {shown(&issue.message)}
                                                </li>
                                            }
                                        })
                                        .collect_view()}
                                </ul>
                            </Alert>
                        }
                    })}
                {if preview.changes.is_empty() {
                    view! { <p class="text-sm text-ink-2">"Going back to it would change nothing."</p> }.into_any()
                } else {
                    view! {
                        <p class="text-sm text-ink-2">"Today’s value, and the one that would come back:"</p>
                        <Changes changes=preview.changes />
                    }
                        .into_any()
                }}
                {preview
                    .effect
                    .map(|effect| {
                        let (tone, text) = effect_text(effect);
                        view! { <Alert tone>{text}</Alert> }
                    })}
            </div>
            <div class="card-foot">
                <a class="button" href=links::history(id)>
                    "Close"
                </a>
                {possible
                    .then(|| {
                        view! {
                            <ActionForm action>
                                <input type="hidden" name="environment_id" value=id.to_string() />
                                <input type="hidden" name="revision" value=number />
                                <input type="hidden" name="seen" value=seen />
                                <Submit
                                    label=format!("Restore revision {number}")
                                    class="button-primary"
                                    busy=action.pending()
                                />
                            </ActionForm>
                        }
                    })}
            </div>
        </section>
    }
    .into_any()
}
