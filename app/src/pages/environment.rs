//! One environment's page: its form beside the *Setup test* panel.

use domain::{ids::EnvironmentId, verification::VerificationStatus};
use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};
use wire::{console::EnvironmentPage as EnvironmentFacts, error::Code};

use crate::{
    api::{
        AppError,
        environments::{EditPage, SaveEnvironment, load_environment},
        history::{PutBack, merge_environment},
        page_data,
    },
    components::{
        Alert, CopyId, Draw, Errors, Failure, Icon, Loading, PageHead, Secrets, SetupBadgeView,
        Submit, Tone, VerdictHolds, focus_first_error,
    },
    draft::Draft,
    links,
    live::now::Now,
    pages::{
        environment_parts::{Facts, Refusal, Stale, TestButton, WhatSavingDoes, focus_on_refusal},
        form::Fields,
        inputs::Inputs,
        leaving::warn_before_leaving,
        merging::MergePanel,
        setup_panel::{PanelData, SetupPanel},
        start_session::{StartForm, StartHere},
    },
    text::shown,
};

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
    let page = page_data(
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
    let here = StartHere {
        environment: id,
        key: StoredValue::new(format!("{}-session", page.key)),
        possible: Memo::new(move |_| {
            facts.with(|facts| facts.may.use_sessions && facts.session_refusal.is_empty())
        })
        .into(),
    };
    provide_context(here);
    provide_context(VerdictHolds(
        Memo::new(move |_| {
            facts.with(|facts| {
                let verdict = &facts.environment.setup_verification;
                verdict.status == VerificationStatus::Verified.as_str() && !verdict.stale
            })
        })
        .into(),
    ));
    let run_id =
        Memo::new(move |_| panel.with(|panel| panel.run.as_ref().map(|run| run.setup_run_id)));
    let testing = Signal::derive(move || {
        panel.with(|panel| panel.run.as_ref().is_some_and(|run| !run.finished))
    });
    // The run beside which it is told that a test did not start.
    let told_beside = RwSignal::new(run_id.get_untracked());
    let merge = RwSignal::new(page.merge.clone());
    let came_merged = page.merge.is_some();
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
    // What is on its way: the answer is about it, not about what is typed meanwhile.
    let sent = StoredValue::new(page.draft.clone());
    // A further save is made from what this one has left, and waits until that is known.
    let settling = RwSignal::new(false);
    Effect::new(move |_| {
        if action.pending().get() {
            sent.set_value(untrack(|| inputs.draft()));
        }
    });
    let saving = Signal::derive(move || action.pending().get() || settling.get());
    // Any of these answers may come when the page has been left, and what it would change is gone.
    // Fresh facts never touch what is being typed; a form that nobody has touched follows what was saved elsewhere, such
    // as by a button that mends and tests again.
    let reload = Callback::new(move |()| {
        leptos::task::spawn_local(async move {
            if let Ok(page) = load_environment(id).await
                && !saved.is_disposed()
            {
                let untouched = untrack(|| saved.with(|saved| inputs.draft() == *saved));
                if untouched && revision.get_untracked() != page.page.revision {
                    let now_saved = Draft::of(&page.page.environment);
                    inputs.fill(&now_saved);
                    saved.set(now_saved);
                    revision.set(page.page.revision);
                }
                panel.set(panel_data(&page));
                facts.set(page.page);
            }
        });
    });
    Effect::new(move |_| {
        if matches!(action.value().get(), Some(Ok(_))) {
            settling.set(true);
            leptos::task::spawn_local(async move {
                let loaded = load_environment(id).await;
                let Some(sent) = sent.try_get_value() else {
                    return;
                };
                if let Ok(page) = loaded {
                    let now_saved = Draft::of(&page.page.environment);
                    inputs.fill_beside_typed(&sent, &now_saved);
                    saved.set(now_saved);
                    revision.set(page.page.revision);
                    merge.set(None);
                    panel.set(panel_data(&page));
                    facts.set(page.page);
                    told_beside.set(run_id.get_untracked());
                }
                settling.set(false);
            });
        }
    });
    // What others saved comes into the form; what was typed stays, and where both changed one thing it is asked.
    let take_in = Callback::new(move |somebody_else: bool| {
        let (base, draft) = (revision.get_untracked(), untrack(|| inputs.draft()));
        leptos::task::spawn_local(async move {
            let met = merge_environment(id, base, draft.clone()).await.ok();
            if merge.is_disposed() {
                return;
            }
            // Asked already: what was decided meanwhile stays.
            let met = met.filter(|met| {
                merge.with_untracked(|asked| {
                    asked.as_ref().is_none_or(|asked| {
                        asked.clashes.is_empty() || asked.revision != met.revision
                    })
                })
            });
            if let Some(met) = met {
                inputs.fill_beside_typed(&draft, &met.merged);
                saved.set(met.theirs.clone());
                if met.clashes.is_empty() {
                    revision.set(met.revision);
                }
                merge.set((somebody_else || !met.clashes.is_empty()).then_some(met));
                focus_first_error();
            }
            reload.run(());
        });
    });
    Effect::new(move |_| {
        let value = action.value().get();
        if let Some(Err(error)) = value
            && error.code() == Code::RevisionConflict
        {
            take_in.run(true);
        }
    });
    let put_back = ServerAction::<PutBack>::new();
    Effect::new(move |_| {
        if matches!(put_back.value().get(), Some(Ok(()))) {
            take_in.run(false);
        }
    });
    let query = use_query_map();
    let not_tested = Signal::derive(move || match action.value().get() {
        // Another run is shown since.
        _ if run_id.get() != told_beside.get() => None,
        Some(Ok(saved)) => saved.not_tested.map(|error| error.to_string()),
        Some(Err(_)) => None,
        None => query.read().get_str("not_tested").map(not_tested_text),
    });
    let told = Memo::new(move |_| {
        if saving.get() {
            "Saving…"
        } else if saved.with(|saved| inputs.draft() != *saved) {
            "Unsaved changes"
        } else if matches!(action.value().get(), Some(Ok(_))) {
            "Saved."
        } else {
            ""
        }
    });
    let title = Signal::derive(move || facts.with(|facts| shown(&facts.environment.name)));
    let has_script = Signal::derive(move || inputs.script.with(|script| !script.trim().is_empty()));
    let short_id = page.page.short_id.clone();
    view! {
        <div class="page page-wide">
            <PageHead title above=(links::ENVIRONMENTS.to_owned(), "Environments".to_owned())>
                <span class="flex flex-wrap items-center gap-2 text-sm text-ink-2">
                    {move || view! { <SetupBadgeView badge=facts.with(|facts| facts.badge) /> }}
                    <span>{move || facts.with(|facts| facts.resources.clone())}</span>
                    <CopyId short=short_id whole=id.to_string() />
                    <a class="link to-setup" href="#setup-test">
                        "Setup test"
                    </a>
                    <a class="link" href=links::history(id)>
                        "History"
                    </a>
                </span>
            </PageHead>
            {move || {
                not_tested
                    .get()
                    .map(|text| {
                        view! {
                            <Alert tone=Tone::Warn title="Saved, but the setup test did not start." urgent=true>
                                {text}
                            </Alert>
                        }
                    })
            }}
            {move || {
                facts
                    .with(|facts| facts.staleness.clone())
                    .map(|staleness| {
                        view! {
                            <Stale staleness environment_id=id revision may_change=!readonly action=put_back />
                        }
                    })
            }}
            <div class="split">
                <div class="flex flex-col gap-3 min-w-0">
                <ActionForm action>
                    <div class="flex flex-col gap-3">
                        <Refusal error=errors.0 merges=true />
                        <MergePanel merge inputs revision came_with_page=came_merged />
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
                                        <span
                                            class="mr-auto text-sm text-ink-2"
                                            class:save-bar-told=move || !told.get().is_empty()
                                            role="status"
                                        >
                                            {move || told.get()}
                                        </span>
                                        <a class="button button-ghost" href=links::delete_environment(id)>
                                            <Draw icon=Icon::Trash2 />
                                            <span class="save-bar-word">"Delete"</span>
                                        </a>
                                        <Submit
                                            label="Save environment"
                                            class="button-primary"
                                            sends=("then", "save")
                                            busy=saving
                                        />
                                        <TestButton busy=saving has_script testing />
                                    </div>
                                }
                            })}
                    </div>
                </ActionForm>
                <Secrets
                    environment_id=id
                    changed=reload
                    pasted=Callback::new(move |()| take_in.run(false))
                />
                </div>
                <div class="split-side">
                    <SetupPanel data=panel reload />
                    <Sessions facts here />
                    <Facts facts />
                </div>
            </div>
        </div>
    }
    .into_any()
}

/// The way to a session, or why there is none.
#[component]
fn Sessions(facts: RwSignal<EnvironmentFacts>, here: StartHere) -> impl IntoView {
    let may = facts.with_untracked(|facts| facts.may.use_sessions);
    let refusal = Memo::new(move |_| facts.with(|facts| facts.session_refusal.clone()));
    view! {
        <section class="card card-body flex flex-col gap-3" aria-label="Sessions">
            <div class="flex flex-wrap items-center justify-between gap-2">
                <h2 class="text-base font-semibold">"Sessions"</h2>
                <a class="link text-sm" href=links::SESSIONS>
                    "All sessions"
                </a>
            </div>
            {move || {
                let reason = refusal.get();
                if !may {
                    return view! {
                        <p class="text-sm text-ink-2">"Starting sessions takes the role developer or admin."</p>
                    }
                        .into_any();
                }
                if !reason.is_empty() {
                    return view! { <p class="text-sm text-ink-2">"No session can start. " {reason}</p> }.into_any();
                }
                view! { <StartForm here /> }.into_any()
            }}
        </section>
    }
    .into_any()
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
