//! What stands around the rows of the environments table.

use domain::ids::EnvironmentId;
use leptos::{html, prelude::*};
use leptos_router::{NavigateOptions, hooks::use_navigate};
use server_fn::ServerFn as _;
use wire::{
    console::{EnvironmentItem, Sort, SortBy},
    managed_agents::EnvironmentTemplate,
};

use crate::{
    api::{AppError, environments::DeleteEnvironment, sessions::count_sessions_of},
    components::{Alert, Dialog, Draw, Icon, Refused, Submit, Tone, field::bind_input},
    links,
    text::shown,
};

/// The search: filters as one types, and stays in the address.
#[component]
pub fn Search(text: RwSignal<String>, sort: Sort) -> impl IntoView {
    let node: NodeRef<html::Input> = NodeRef::new();
    bind_input(node, text);
    // The key that searches leads here from every page.
    node.on_load(|input| {
        if window().location().hash().as_deref() == Ok("#search") {
            let _ = input.focus();
        }
    });
    let navigate = use_navigate();
    let address = move || {
        let mut parts: Vec<String> = Vec::new();
        let text = text.get_untracked();
        if !text.trim().is_empty() {
            parts.push(format!("query={}", links::encode(text.trim())));
        }
        if sort != Sort::default() {
            parts.push(format!("sort={}", sort_word(sort.by)));
            if sort.ascending {
                parts.push("order=up".to_owned());
            }
        }
        if parts.is_empty() {
            links::ENVIRONMENTS.to_owned()
        } else {
            format!("{}?{}", links::ENVIRONMENTS, parts.join("&"))
        }
    };
    view! {
        <form method="get" action=links::ENVIRONMENTS role="search" class="max-w-md">
            <div class="input-wrap">
                <Draw icon=Icon::Search />
                <input
                    node_ref=node
                    id="search"
                    class="input"
                    type="search"
                    name="query"
                    value=text.get_untracked()
                    placeholder="Search by name or ID"
                    aria-label="Search environments by name or ID"
                    autocomplete="off"
                    on:input:target=move |event| {
                        text.set(event.target().value());
                        navigate(
                            &address(),
                            NavigateOptions {
                                replace: true,
                                scroll: false,
                                ..NavigateOptions::default()
                            },
                        );
                    }
                />
                <kbd class="kbd" aria-hidden="true">
                    "/"
                </kbd>
            </div>
        </form>
    }
    .into_any()
}

/// A column heading that sorts.
#[component]
pub fn Heading(
    label: &'static str,
    by: SortBy,
    sort: Sort,
    text: RwSignal<String>,
) -> impl IntoView {
    let active = sort.by == by;
    // Names and sizes read best from the small end, times from the new end.
    let first_up = !matches!(by, SortBy::Updated | SortBy::Created);
    let up = if active { !sort.ascending } else { first_up };
    let icon = match (active, sort.ascending) {
        (false, _) => Icon::ArrowUpDown,
        (true, true) => Icon::ArrowUp,
        (true, false) => Icon::ArrowDown,
    };
    let href = move || {
        format!(
            "{}?sort={}{}{}",
            links::ENVIRONMENTS,
            sort_word(by),
            if up { "&order=up" } else { "" },
            text.with(|text| {
                if text.is_empty() {
                    String::new()
                } else {
                    format!("&query={}", links::encode(text))
                }
            })
        )
    };
    view! {
        <th scope="col" aria-sort=active.then_some(if sort.ascending { "ascending" } else { "descending" })>
            <a class="table-sort" href=href>
                {label}
                <Draw icon />
            </a>
        </th>
    }
}

/// The *Delete environment* dialog of the table.
#[component]
pub fn DeleteDialog(
    deleting: RwSignal<Option<EnvironmentItem>>,
    rows: RwSignal<Vec<EnvironmentItem>>,
) -> impl IntoView {
    let action = ServerAction::<DeleteEnvironment>::new();
    let open = RwSignal::new(false);
    // What the answer that comes is about: the dialog may ask about another one by then.
    let sent = StoredValue::new(None::<EnvironmentId>);
    let asks_about = move || deleting.with(|item| item.as_ref().map(|item| item.environment_id));
    let error = Signal::derive(move || {
        let asked = asks_about();
        let refused = action.value().get().and_then(Result::err);
        refused.filter(|_| asked == sent.get_value())
    });
    // The two follow each other; each is only told what it does not know, or they would go round for ever.
    Effect::new(move |_| {
        let wanted = deleting.with(Option::is_some);
        if open.get_untracked() != wanted {
            open.set(wanted);
        }
    });
    Effect::new(move |_| {
        if !open.get() && deleting.with_untracked(Option::is_some) {
            deleting.set(None);
        }
    });
    Effect::new(move |_| {
        if matches!(action.value().get(), Some(Ok(()))) {
            let gone = sent.get_value();
            rows.update(|rows| rows.retain(|row| Some(row.environment_id) != gone));
            if untrack(asks_about) == gone {
                deleting.set(None);
            }
        }
    });
    // Asked when the dialog opens: the table does not know.
    let sessions = RwSignal::new(None::<Result<u64, AppError>>);
    let unknown = Signal::derive(move || match sessions.with(Option::is_none) {
        true => "What runs on it is being looked up",
        false => "",
    });
    Effect::new(move |_| {
        sessions.set(None);
        if let Some(id) = asks_about() {
            action.clear();
            leptos::task::spawn_local(async move {
                let count = count_sessions_of(id).await;
                // The dialog may ask about another one by now.
                let asked = |now: &Option<EnvironmentItem>| {
                    now.as_ref().map(|now| now.environment_id) == Some(id)
                };
                if deleting.try_with_untracked(asked) == Some(true) {
                    sessions.set(Some(count));
                }
            });
        }
    });
    view! {
        <Dialog open title="Delete environment" heading_id="delete-title">
            {move || {
                deleting
                    .get()
                    .map(|item| {
                        view! {
                            <form
                                method="post"
                                action=DeleteEnvironment::url()
                                on:submit=move |event| {
                                    event.prevent_default();
                                    sent.set_value(Some(item.environment_id));
                                    action.dispatch(DeleteEnvironment { environment_id: item.environment_id });
                                }
                            >
                                <input type="hidden" name="environment_id" value=item.environment_id.to_string() />
                                <div class="dialog-body">
                                    <p>
                                        "Delete " <strong class="break-words">{shown(&item.name)}</strong>
                                        "? New sessions cannot use it any more, and there is no way back."
                                    </p>
                                    {move || {
                                        sessions
                                            .get()
                                            .map(|answer| match answer {
                                                Ok(0) => ().into_any(),
                                                Ok(count) => view! { <WhatRuns count /> }.into_any(),
                                                Err(error) => {
                                                    view! {
                                                        <Alert tone=Tone::Warn>
                                                            "Which sessions run on it could not be looked up: " {error.to_string()}
                                                        </Alert>
                                                    }
                                                        .into_any()
                                                }
                                            })
                                    }}
                                    {item
                                        .active_setup_run_id
                                        .is_some()
                                        .then(|| {
                                            view! {
                                                <Alert tone=Tone::Warn>
                                                    "A setup test is running on it now. It will be cancelled."
                                                </Alert>
                                            }
                                        })}
                                    <Refused error />
                                </div>
                                <div class="dialog-foot">
                                    <button type="button" class="button" autofocus on:click=move |_| deleting.set(None)>
                                        "Cancel"
                                    </button>
                                    <Submit label="Delete" class="button-danger" busy=action.pending() refused=unknown />
                                </div>
                            </form>
                        }
                    })
            }}
        </Dialog>
    }
    .into_any()
}

/// What a deletion takes along.
#[component]
pub fn WhatRuns(
    /// Sessions.
    count: u64,
) -> impl IntoView {
    view! {
        <Alert tone=Tone::Warn>
            {crate::format::count(count, "session", "sessions")}
            " of it will be stopped and deleted with all files."
        </Alert>
    }
    .into_any()
}

/// The page without any environment.
#[component]
pub fn Nothing(
    may_change: bool,
    templates: StoredValue<Vec<EnvironmentTemplate>>,
) -> impl IntoView {
    view! {
        <div class="card empty">
            <Draw icon=Icon::Layers />
            <p class="empty-title">"No environments yet"</p>
            <p class="empty-text">
                "An environment is the saved definition of a sandbox: its size, disk, network access and setup script. Creating one starts no compute."
            </p>
            {if may_change {
                view! {
                    {templates
                        .with_value(|templates| !templates.is_empty())
                        .then(|| {
                            view! {
                                <h2 class="text-sm font-semibold mt-4">"Choose a starting point"</h2>
                                <div class="cards w-full max-w-4xl mt-1">
                                    <TemplateCards templates=templates.get_value() chosen=None />
                                </div>
                            }
                        })}
                    <a class="link text-sm mt-2" href=links::NEW_ENVIRONMENT>
                        "Start from nothing"
                    </a>
                }
                    .into_any()
            } else {
                view! { <p class="empty-text">"A developer or an admin of your organization can create one."</p> }.into_any()
            }}
        </div>
    }
    .into_any()
}

/// Cards of starting points; each a link, so that it works without scripting.
#[component]
pub fn TemplateCards(
    /// The starting points.
    templates: Vec<EnvironmentTemplate>,
    /// The chosen one.
    chosen: Option<String>,
) -> impl IntoView {
    templates
        .into_iter()
        .map(|template| {
            let is_chosen = chosen.as_deref() == Some(template.id.as_str());
            view! {
                <a class="pick" href=links::from_template(&template.id) aria-current=is_chosen.then_some("true")>
                    <span class="pick-name">
                        <Draw icon=Icon::named(&template.icon) />
                        {template.name}
                    </span>
                    <span class="pick-text">{template.summary}</span>
                </a>
            }
        })
        .collect_view()
}

const fn sort_word(by: SortBy) -> &'static str {
    match by {
        SortBy::Updated => "updated",
        SortBy::Created => "created",
        SortBy::Name => "name",
        SortBy::Resources => "resources",
        SortBy::Setup => "setup",
    }
}
