//! Creating an environment, and one environment's page: its form beside the *Setup test* panel.

use domain::ids::EnvironmentId;
use leptos::{ev, prelude::*};
use leptos_router::{
    NavigateOptions,
    hooks::{use_navigate, use_params_map, use_query_map},
};
use wasm_bindgen::JsCast as _;
use wire::{
    console::{EnvironmentPage as EnvironmentFacts, Staleness, VerdictEffect},
    error::Code,
};

use crate::{
    api::{
        AppError,
        environments::{
            CreateEnvironment, CreatePage, DeleteEnvironment, EditPage, SaveEnvironment,
            check_environment, load_environment, load_new_environment,
        },
    },
    components::{
        Alert, CopyId, Draw, Errors, Failure, Icon, Loading, PageHead, SetupBadgeView, Submit,
        Tone, focus_first_error,
    },
    draft::Draft,
    links,
    live::now::{Ago, Now},
    pages::{
        environments::TemplateCards,
        form::Fields,
        inputs::Inputs,
        setup_panel::{PanelData, SetupPanel},
    },
};

/// *Create environment*.
#[component]
pub fn NewEnvironmentPage() -> impl IntoView {
    let query = use_query_map();
    let start = Memo::new(move |_| {
        let query = query.read();
        (query.get("template"), query.get("from"))
    });
    let page = Resource::new_blocking(
        move || start.get(),
        |(template, from)| load_new_environment(template, from),
    );
    // Here, so that a refusal outlives a change of the starting point.
    let action = ServerAction::<CreateEnvironment>::new();
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(page) if page.page.may.change => view! { <Create page action /> }.into_any(),
                    Ok(_) => {
                        let error = AppError::new(
                            Code::Forbidden,
                            "Your role may not create environments. Ask an admin of your organization.",
                        );
                        view! { <Failure error /> }.into_any()
                    }
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Transition>
    }
}

#[component]
fn Create(page: CreatePage, action: ServerAction<CreateEnvironment>) -> impl IntoView {
    let inputs = Inputs::new(&page.draft);
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    focus_on_refusal(errors);
    warn_before_leaving(inputs, RwSignal::new(page.draft.clone()), action.pending());
    let templates = page.page.templates;
    let note = match (&page.copied_from, &page.template) {
        (Some(name), _) => Some(format!(
            "Filled from {name}. The copy is a new environment, not tested yet."
        )),
        (None, Some(id)) => templates
            .iter()
            .find(|template| template.id == *id)
            .map(|template| {
                format!(
                    "Filled from {}. Review the settings, and change what you need.",
                    template.name
                )
            }),
        _ => None,
    };
    let chosen = page.template;
    let has_script = Signal::derive(move || inputs.script.with(|script| !script.trim().is_empty()));
    view! {
        <div class="page page-narrow">
            <PageHead
                title="Create environment"
                sub="Creating it starts no compute."
                above=(links::ENVIRONMENTS.to_owned(), "Environments".to_owned())
            />
            {(!templates.is_empty())
                .then(|| {
                    view! {
            <section aria-labelledby="start-title" class="flex flex-col gap-2">
                <h2 id="start-title" class="text-sm font-semibold">
                    "Choose a starting point"
                </h2>
                <div class="cards">
                    <TemplateCards templates chosen />
                </div>
                {note.map(|note| view! { <p class="text-sm text-ink-2" role="status">{note}</p> })}
            </section>
                    }
                })}
            <ActionForm action>
                <div class="flex flex-col gap-3">
                    <Refusal error=errors.0 />
                    <input type="hidden" name="key" value=page.key />
                    <Fields inputs offer=page.page.offer readonly=false />
                    <div class="save-bar">
                        <a class="button button-ghost" href=links::ENVIRONMENTS>
                            "Cancel"
                        </a>
                        <Submit
                            label="Create environment"
                            class="button-primary"
                            sends=("then", "save")
                            busy=action.pending()
                        />
                        <TestButton busy=action.pending() has_script />
                    </div>
                </div>
            </ActionForm>
        </div>
    }
    .into_any()
}

/// *Save and test setup*: only where there is a script; without scripting always, since the page cannot know.
#[component]
fn TestButton(#[prop(into)] busy: Signal<bool>, has_script: Signal<bool>) -> impl IntoView {
    let alive = crate::components::basics::alive();
    view! {
        <span hidden=move || alive.get() && !has_script.get()>
            <Submit label="Save and test setup" icon=Icon::FlaskConical sends=("then", "test") busy />
        </span>
    }
}

/// A refusal above the form: its own text where no single field explains it, else how many fields there are.
#[component]
fn Refusal(
    #[prop(into)] error: Signal<Option<AppError>>,
    /// What a conflict offers.
    #[prop(optional)]
    keep_mine: Option<Callback<()>>,
) -> impl IntoView {
    move || {
        {
            error.get().map(|error| {
            let issues = error.issues();
            let conflict = error.code() == Code::RevisionConflict;
            let request = error
                .request_id()
                .filter(|_| error.code().status() >= 500)
                .map(ToOwned::to_owned);
            view! {
                <Alert tone=Tone::Bad title="Not saved." urgent=true>
                    {if issues.is_empty() {
                        view! { <p>{error.to_string()}</p> }.into_any()
                    } else {
                        view! {
                            <ul class="list-disc pl-4">
                                {issues
                                    .into_iter()
                                    .map(|(path, message)| {
                                        view! {
                                            <li>
                                                <span class="mono">{path}</span>
                                                ": "
                                                {message}
                                            </li>
                                        }
                                    })
                                    .collect_view()}
                            </ul>
                        }
                            .into_any()
                    }}
                    {request.map(|id| view! { <p class="text-xs text-ink-3">"Request " {id}</p> })}
                    {conflict
                        .then(|| {
                            view! {
                                <div class="flex flex-wrap items-center gap-2 mt-2">
                                    <span class="mono text-xs">{changed_fields(&error)}</span>
                                    <a class="button button-small" href="" rel="external">
                                        "Take theirs"
                                    </a>
                                    {keep_mine
                                        .map(|keep| {
                                            view! {
                                                <button
                                                    type="button"
                                                    class="button button-small"
                                                    on:click=move |_| keep.run(())
                                                >
                                                    "Keep mine"
                                                </button>
                                            }
                                        })}
                                </div>
                            }
                        })}
                </Alert>
            }
        })
        }
        .into_any()
    }
}

fn changed_fields(error: &AppError) -> String {
    let fields = error
        .0
        .details
        .get("fields")
        .and_then(|fields| fields.as_array());
    fields
        .into_iter()
        .flatten()
        .filter_map(|field| field.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn focus_on_refusal(errors: Errors) {
    Effect::new(move |_| {
        if errors.0.with(Option::is_some) {
            focus_first_error();
        }
    });
}

/// Asks before changes that were not saved are left behind.
fn warn_before_leaving(inputs: Inputs, saved: RwSignal<Draft>, sending: Memo<bool>) {
    let is_dirty = Memo::new(move |_| saved.with(|saved| inputs.draft() != *saved));
    Effect::new(move |_| {
        let unload = window_event_listener(ev::beforeunload, move |event| {
            if is_dirty.get_untracked() && !sending.get_untracked() {
                event.prevent_default();
            }
        });
        // In the capture phase, before the router takes the link.
        let closure = wasm_bindgen::closure::Closure::<dyn Fn(web_sys::MouseEvent)>::new(
            move |event: web_sys::MouseEvent| {
                let leaves = event
                    .target()
                    .and_then(|target| target.dyn_into::<web_sys::Element>().ok())
                    .and_then(|element| element.closest("a[href]").ok().flatten())
                    .and_then(|link| link.get_attribute("href"))
                    .is_some_and(|href| !href.starts_with('#') && !href.is_empty());
                if leaves && is_dirty.get_untracked() {
                    let stays = !window()
                        .confirm_with_message("Leave without saving your changes?")
                        .unwrap_or(true);
                    if stays {
                        event.prevent_default();
                        event.stop_propagation();
                    }
                }
            },
        );
        let function = closure.as_ref().unchecked_ref::<js_sys::Function>().clone();
        // The window takes listeners.
        let _ = window().add_event_listener_with_callback_and_bool("click", &function, true);
        let closure = send_wrapper::SendWrapper::new((closure, function));
        on_cleanup(move || {
            unload.remove();
            let _ =
                window().remove_event_listener_with_callback_and_bool("click", &closure.1, true);
            drop(closure);
        });
    });
}

/// One environment.
#[component]
pub fn EnvironmentPage() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| {
        params
            .read()
            .get("id")
            .and_then(|id| id.parse::<EnvironmentId>().ok())
    });
    let page = Resource::new_blocking(
        move || id.get(),
        |id| async move {
            match id {
                Some(id) => load_environment(id).await,
                None => Err(AppError::new(Code::NotFound, "")),
            }
        },
    );
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(page) => view! { <Edit page /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Suspense>
    }
}

fn panel_data(page: &EditPage) -> PanelData {
    let facts = &page.page;
    PanelData {
        environment_id: facts.environment.environment_id,
        run: facts.active_run.clone().or_else(|| facts.last_run.clone()),
        tail: page.log_tail.clone(),
        recent: facts.recent_runs.clone(),
        testable: !facts.environment.setup.script.is_empty(),
        may_test: facts.may.test,
        key: page.key.clone(),
    }
}

#[component]
fn Edit(page: EditPage) -> impl IntoView {
    provide_context(Now::start(page.now_micros));
    let id = page.page.environment.environment_id;
    let inputs = Inputs::new(&page.draft);
    let panel = RwSignal::new(panel_data(&page));
    let facts = RwSignal::new(page.page.clone());
    let revision = RwSignal::new(page.page.revision);
    let saved = RwSignal::new(Draft::of(&page.page.environment));
    let readonly = !page.page.may.change;
    let action = ServerAction::<SaveEnvironment>::new();
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    focus_on_refusal(errors);
    if !readonly {
        warn_before_leaving(inputs, saved, action.pending());
    }
    // Fresh facts never touch what is being typed.
    let reload = Callback::new(move |()| {
        leptos::task::spawn_local(async move {
            if let Ok(page) = load_environment(id).await {
                panel.set(panel_data(&page));
                facts.set(page.page);
            }
        });
    });
    Effect::new(move |_| {
        if matches!(action.value().get(), Some(Ok(_))) {
            leptos::task::spawn_local(async move {
                if let Ok(page) = load_environment(id).await {
                    let now_saved = Draft::of(&page.page.environment);
                    inputs.fill(&now_saved);
                    saved.set(now_saved);
                    revision.set(page.page.revision);
                    panel.set(panel_data(&page));
                    facts.set(page.page);
                }
            });
        }
    });
    let keep_mine = Callback::new(move |()| {
        leptos::task::spawn_local(async move {
            if let Ok(page) = load_environment(id).await {
                revision.set(page.page.revision);
                facts.set(page.page);
                action.value().set(None);
            }
        });
    });
    let query = use_query_map();
    let not_tested = Signal::derive(move || match action.value().get() {
        Some(Ok(saved)) => saved.not_tested.map(|error| error.to_string()),
        _ => query.read().get_str("not_tested").map(not_tested_text),
    });
    let just_saved = move || matches!(action.value().get(), Some(Ok(_)));
    let title = Signal::derive(move || facts.with(|facts| facts.environment.name.clone()));
    let has_script = Signal::derive(move || inputs.script.with(|script| !script.trim().is_empty()));
    let short_id = page.page.short_id.clone();
    view! {
        <div class="page page-wide">
            <PageHead title above=(links::ENVIRONMENTS.to_owned(), "Environments".to_owned())>
                <span class="flex flex-wrap items-center gap-2 text-sm text-ink-2">
                    {move || view! { <SetupBadgeView badge=facts.with(|facts| facts.badge) /> }}
                    <span>{move || facts.with(|facts| facts.resources.clone())}</span>
                    <CopyId short=short_id whole=id.to_string() />
                </span>
            </PageHead>
            {move || {
                not_tested
                    .get()
                    .map(|text| {
                        view! {
                            <Alert tone=Tone::Warn title="Saved, but the setup test did not start.">
                                {text}
                            </Alert>
                        }
                    })
            }}
            {move || facts.with(|facts| facts.staleness.clone().map(|staleness| view! { <Stale staleness /> }))}
            <div class="split">
                <ActionForm action>
                    <div class="flex flex-col gap-3">
                        <Refusal error=errors.0 keep_mine />
                        {readonly
                            .then(|| {
                                view! {
                                    <Alert tone=Tone::Plain>
                                        "You can see this environment. Changing it takes the role developer or admin."
                                    </Alert>
                                }
                            })}
                        <input type="hidden" name="environment_id" value=id.to_string() />
                        <input type="hidden" name="base_revision" value=move || revision.get() />
                        <input type="hidden" name="key" value=move || panel.with(|panel| format!("{}-save", panel.key)) />
                        <Fields inputs offer=page.page.offer.clone() readonly />
                        {(!readonly)
                            .then(|| {
                                view! {
                                    <WhatSavingDoes environment_id=id inputs saved />
                                    <div class="save-bar">
                                        <span class="mr-auto text-sm text-ink-2" role="status">
                                            {move || {
                                                if action.pending().get() {
                                                    "Saving…"
                                                } else if saved.with(|saved| inputs.draft() != *saved) {
                                                    "Unsaved changes"
                                                } else if just_saved() {
                                                    "Saved."
                                                } else {
                                                    ""
                                                }
                                            }}
                                        </span>
                                        <a class="button button-ghost" href=links::delete_environment(id)>
                                            <Draw icon=Icon::Trash2 />
                                            "Delete"
                                        </a>
                                        <Submit
                                            label="Save environment"
                                            class="button-primary"
                                            sends=("then", "save")
                                            busy=action.pending()
                                        />
                                        <TestButton busy=action.pending() has_script />
                                    </div>
                                }
                            })}
                    </div>
                </ActionForm>
                <div class="split-side">
                    <SetupPanel data=panel reload />
                    <Facts facts />
                </div>
            </div>
        </div>
    }
    .into_any()
}

/// Says before saving what the change does to the verdict.
#[component]
fn WhatSavingDoes(
    environment_id: EnvironmentId,
    inputs: Inputs,
    saved: RwSignal<Draft>,
) -> impl IntoView {
    let effect: RwSignal<Option<VerdictEffect>> = RwSignal::new(None);
    let asked = StoredValue::new(0_u64);
    Effect::new(move |_| {
        let draft = inputs.draft();
        let is_dirty = saved.with(|saved| draft != *saved);
        asked.update_value(|count| *count += 1);
        let turn = asked.get_value();
        if !is_dirty {
            effect.set(None);
            return;
        }
        // Asks once the typing pauses; only the newest answer counts.
        set_timeout(
            move || {
                if asked.try_get_value() != Some(turn) {
                    return;
                }
                leptos::task::spawn_local(async move {
                    let checked = check_environment(environment_id, draft).await;
                    if asked.try_get_value() == Some(turn) {
                        effect.set(checked.ok().and_then(|checked| checked.effect));
                    }
                });
            },
            std::time::Duration::from_millis(700),
        );
    });
    move || {
        let (tone, text) = match effect.get()? {
            VerdictEffect::BecomesStale => (
                Tone::Warn,
                "Saving makes the verdict stale: sessions cannot start until setup was tested again.",
            ),
            VerdictEffect::BecomesCurrent => (
                Tone::Good,
                "Saving brings back what was verified: the verdict counts again.",
            ),
            VerdictEffect::NeedsTest => (
                Tone::Warn,
                "Saving adds a setup script: it must be tested before sessions can start.",
            ),
            VerdictEffect::NothingToVerify => (
                Tone::Info,
                "Saving removes the setup script: there is nothing to verify, and sessions can start.",
            ),
        };
        Some(view! { <div role="status"><Alert tone>{text}</Alert></div> })
    }
}

/// The sentence for a test that did not start after a save without scripting; only the code travels in the address.
fn not_tested_text(code: &str) -> String {
    match code {
        "setup_run_limit" => "Your organization has the most setup runs in flight that it may have. Wait for one to end or cancel one.",
        "setup_run_in_progress" => "A setup run of this environment is in flight. Wait for it or cancel it.",
        "invalid_request" => "There is no setup script to test.",
        _ => "Try again with Test setup.",
    }
    .to_owned()
}

/// What differs from what was verified.
#[component]
fn Stale(staleness: Staleness) -> impl IntoView {
    let verified_at = staleness.verified_at;
    view! {
        <Alert tone=Tone::Warn title="The verdict is about an earlier configuration.">
            <p>
                "Sessions cannot start until setup was tested again" {verified_at.map(|at| view! { " (last tested " <Ago at /> ")" })} "."
            </p>
            <ul class="mt-1.5 flex flex-col gap-1">
                {staleness
                    .fields
                    .into_iter()
                    .map(|change| {
                        let who = change.by.map(|by| format!(", by {by}")).unwrap_or_default();
                        let lines = change.field == "setup.script" || change.before.contains('\n');
                        view! {
                            <li class="break-words">
                                <span class="font-medium">{change.label}</span>
                                {if lines {
                                    " was changed".to_owned()
                                } else {
                                    format!(": {} → {}", short(&change.before), short(&change.after))
                                }}
                                <span class="text-ink-3">{who} {change.at.map(|at| view! { ", " <Ago at /> })}</span>
                            </li>
                        }
                    })
                    .collect_view()}
            </ul>
        </Alert>
    }
    .into_any()
}

fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None if text.is_empty() => "none".to_owned(),
        None => text.to_owned(),
    }
}

#[component]
fn Facts(facts: RwSignal<EnvironmentFacts>) -> impl IntoView {
    view! {
        <section class="card" aria-labelledby="about-title">
            <div class="card-head">
                <h2 id="about-title" class="card-title">
                    "About"
                </h2>
            </div>
            <div class="card-body">
                {move || {
                    facts
                        .with(|facts| {
                            let environment = &facts.environment;
                            let runtime = facts
                                .offer
                                .providers
                                .iter()
                                .find(|provider| provider.provider == environment.provider)
                                .map_or_else(|| environment.provider.clone(), |provider| provider.display_name.clone());
                            let script = environment
                                .setup_updated_at
                                .map(|at| {
                                    let by = facts.setup_updated_by.clone().map(|by| format!(" by {by}")).unwrap_or_default();
                                    view! {
                                        <dt>"Script changed"</dt>
                                        <dd>
                                            <Ago at /> {by}
                                        </dd>
                                    }
                                });
                            view! {
                                <dl class="pairs">
                                    <dt>"Sessions"</dt>
                                    <dd>{if facts.usable { "can start" } else { "cannot start yet" }}</dd>
                                    <dt>"Runtime"</dt>
                                    <dd>{runtime}</dd>
                                    <dt>"Image"</dt>
                                    <dd class="mono">{environment.image.clone()}</dd>
                                    {environment
                                        .template
                                        .clone()
                                        .map(|template| {
                                            view! {
                                                <dt>"Template"</dt>
                                                <dd>{template.id} ", revision " {template.revision}</dd>
                                            }
                                        })}
                                    {script}
                                    <dt>"Created"</dt>
                                    <dd>
                                        <Ago at=environment.created_at />
                                    </dd>
                                    <dt>"Updated"</dt>
                                    <dd>
                                        <Ago at=environment.updated_at />
                                    </dd>
                                </dl>
                            }
                        })
                }}
            </div>
        </section>
    }
    .into_any()
}

/// Asks before an environment is deleted: the page behind the dialog's link, for readers without scripting.
#[component]
pub fn DeletePage() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| {
        params
            .read()
            .get("id")
            .and_then(|id| id.parse::<EnvironmentId>().ok())
    });
    let page = Resource::new_blocking(
        move || id.get(),
        |id| async move {
            match id {
                Some(id) => load_environment(id).await,
                None => Err(AppError::new(Code::NotFound, "")),
            }
        },
    );
    let action = ServerAction::<DeleteEnvironment>::new();
    let error = Signal::derive(move || action.value().get().and_then(Result::err));
    let navigate = use_navigate();
    Effect::new(move |_| {
        if matches!(action.value().get(), Some(Ok(()))) {
            navigate(links::ENVIRONMENTS, NavigateOptions::default());
        }
    });
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                let page = match page.await {
                    Ok(page) => page.page,
                    Err(error) => return view! { <Failure error /> }.into_any(),
                };
                if !page.may.change {
                    let error = AppError::new(Code::Forbidden, "Your role may not delete environments.");
                    return view! { <Failure error /> }.into_any();
                }
                let id = page.environment.environment_id;
                let name = page.environment.name;
                view! {
                    <div class="page page-narrow">
                        <PageHead
                            title="Delete environment"
                            above=(links::environment(id), name.clone())
                        />
                        <ActionForm action>
                            <input type="hidden" name="environment_id" value=id.to_string() />
                            <div class="card">
                                <div class="card-body flex flex-col gap-3">
                                    <p>
                                        "Delete " <strong class="break-words">{name}</strong>
                                        "? New sessions cannot use it any more, and there is no way back."
                                    </p>
                                    {page
                                        .active_run
                                        .is_some()
                                        .then(|| {
                                            view! {
                                                <Alert tone=Tone::Warn>
                                                    "A setup test is running on it now. It will be cancelled."
                                                </Alert>
                                            }
                                        })}
                                    {move || {
                                        error
                                            .get()
                                            .map(|error| {
                                                view! {
                                                    <Alert tone=Tone::Bad urgent=true>
                                                        {error.to_string()}
                                                    </Alert>
                                                }
                                            })
                                    }}
                                </div>
                                <div class="card-foot">
                                    <a class="button" href=links::environment(id)>
                                        "Cancel"
                                    </a>
                                    <Submit label="Delete" class="button-danger" busy=action.pending() />
                                </div>
                            </div>
                        </ActionForm>
                    </div>
                }
                    .into_any()
            })}
        </Suspense>
    }
}
