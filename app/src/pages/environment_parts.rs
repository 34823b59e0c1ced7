//! What the create page and an environment's page share, and what stands beside the form.

use domain::ids::EnvironmentId;
use leptos::{ev, prelude::*};
use wasm_bindgen::JsCast as _;
use wire::{
    console::{EnvironmentPage as EnvironmentFacts, Staleness, VerdictEffect},
    error::Code,
};

use crate::{
    api::{AppError, environments::check_environment},
    components::{Alert, Errors, Icon, Submit, Tone, focus_first_error},
    draft::Draft,
    live::now::Ago,
    pages::inputs::Inputs,
};

/// *Save and test setup*: only where there is a script; without scripting always, since the page cannot know.
#[component]
pub fn TestButton(#[prop(into)] busy: Signal<bool>, has_script: Signal<bool>) -> impl IntoView {
    let alive = crate::components::basics::alive();
    view! {
        <span hidden=move || alive.get() && !has_script.get()>
            <Submit label="Save and test setup" icon=Icon::FlaskConical sends=("then", "test") busy />
        </span>
    }
}

/// A refusal above the form: its own text where no single field explains it, else how many fields there are.
#[component]
pub fn Refusal(
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
                <div data-refusal tabindex="-1">
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
                </div>
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

/// Moves the focus to the first refused field.
pub fn focus_on_refusal(errors: Errors) {
    Effect::new(move |_| {
        if errors.0.with(Option::is_some) {
            focus_first_error();
        }
    });
}

/// Asks before changes that were not saved are left behind.
pub fn warn_before_leaving(inputs: Inputs, saved: RwSignal<Draft>, sending: Memo<bool>) {
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

/// Says before saving what the change does to the verdict.
#[component]
pub fn WhatSavingDoes(
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

/// What differs from what was verified.
#[component]
pub fn Stale(staleness: Staleness) -> impl IntoView {
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

/// What is to know beside the form.
#[component]
pub fn Facts(facts: RwSignal<EnvironmentFacts>) -> impl IntoView {
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
