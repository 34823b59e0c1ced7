//! What the create page and an environment's page share, and what stands beside the form.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use wire::{
    console::{EnvironmentPage as EnvironmentFacts, Staleness, VerdictEffect},
    error::Code,
};

use crate::{
    api::{AppError, environments::check_environment, history::PutBack},
    components::{Alert, Difference, Errors, Icon, Submit, Tone, focus_first_error},
    draft::Draft,
    format, links,
    live::now::Ago,
    pages::inputs::Inputs,
    text::shown,
};

/// *Save and test setup*: to be pressed where there is a script and no run in flight; without scripting always, since the
/// page cannot know.
#[component]
pub fn TestButton(
    /// Whether the form is on its way.
    #[prop(into)]
    busy: Signal<bool>,
    /// Whether the form holds a script.
    has_script: Signal<bool>,
    /// Whether a run is in flight.
    #[prop(optional)]
    testing: Signal<bool>,
) -> impl IntoView {
    let alive = crate::components::basics::alive();
    // There from the start and in one place, so that nothing beside it moves.
    let refused = Signal::derive(move || match (has_script.get(), testing.get()) {
        _ if !alive.get() => "",
        (false, _) => "Write a setup script first",
        (true, true) => "A setup run is in flight: wait for it or cancel it",
        (true, false) => "",
    });
    view! { <Submit label="Save and test setup" icon=Icon::FlaskConical sends=("then", "test") busy refused /> }
}

/// A refusal above the form: its own text where no single field explains it, else how many fields there are. That somebody
/// else saved meanwhile is told by the panel that merges, where there is one.
#[component]
pub fn Refusal(
    #[prop(into)] error: Signal<Option<AppError>>,
    /// Whether conflicts are told elsewhere.
    #[prop(optional)]
    merges: bool,
) -> impl IntoView {
    move || {
        error
            .get()
            .filter(|error| !(merges && error.code() == Code::RevisionConflict))
            .map(|error| {
                let issues = error.issues();
                let request = error
                    .request_id()
                    .filter(|_| error.code().status() >= 500)
                    .map(ToOwned::to_owned);
                view! {
                    <div data-refusal tabindex="-1">
                        <Alert tone=Tone::Bad title="Not saved." urgent=true>
                            {if issues.is_empty() {
                                view! { <p>{shown(&error.to_string())}</p> }.into_any()
                            } else {
                                view! {
                                    <ul class="list-disc pl-4">
                                        {issues
                                            .into_iter()
                                            .map(|(path, message)| {
                                                view! {
                                                    <li>
                                                        <span class="mono">{shown(&path)}</span>
                                                        ": "
                                                        {shown(&message)}
                                                    </li>
                                                }
                                            })
                                            .collect_view()}
                                    </ul>
                                }
                                    .into_any()
                            }}
                            {request.map(|id| view! { <p class="text-xs text-ink-3">"Request " {id}</p> })}
                        </Alert>
                    </div>
                }
            })
            .into_any()
    }
}

/// Moves the focus to the first refused field.
pub fn focus_on_refusal(errors: Errors) {
    Effect::new(move |_| {
        if errors.0.with(Option::is_some) {
            focus_first_error();
        }
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
        let (tone, text) = effect_text(effect.get()?);
        Some(view! { <div role="status"><Alert tone>{text}</Alert></div> })
    }
}

/// What a save does to the verdict, in a sentence.
pub const fn effect_text(effect: VerdictEffect) -> (Tone, &'static str) {
    match effect {
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
    }
}

/// What differs from what was verified: old, new, who, when, and the way back.
#[component]
pub fn Stale(
    staleness: Staleness,
    environment_id: EnvironmentId,
    /// The revision that the reader sees.
    revision: RwSignal<i64>,
    may_change: bool,
    /// Puts values back.
    action: ServerAction<PutBack>,
) -> impl IntoView {
    let verified_at = staleness.verified_at;
    // The runtime and the runner image are not the reader's to set, and nobody knows a secret's old value.
    let can = move |field: &str| {
        may_change && !matches!(field, "provider" | "image") && !field.starts_with("secrets.")
    };
    let several = staleness
        .fields
        .iter()
        .filter(|change| can(&change.field))
        .count()
        > 1;
    let error = Signal::derive(move || action.value().get().and_then(Result::err));
    view! {
        <Alert tone=Tone::Warn title="The verdict is about an earlier configuration.">
            <p>
                "Sessions cannot start until setup was tested again" {verified_at.map(|at| view! { " (last tested " <Ago at /> ")" })} "."
            </p>
            {move || {
                error
                    .get()
                    .map(|error| view! { <p class="text-bad" role="alert">"Not put back: " {shown(&error.to_string())}</p> })
            }}
            <ActionForm action>
                <input type="hidden" name="environment_id" value=environment_id.to_string() />
                <input type="hidden" name="seen" value=move || revision.get() />
                <ul class="changes mt-2">
                    {staleness
                        .fields
                        .into_iter()
                        .map(|change| {
                            let who = change.by.map(|by| format!("by {}", shown(&by))).unwrap_or_default();
                            let back = can(&change.field)
                                .then(|| {
                                    view! {
                                        <button
                                            type="submit"
                                            class="button button-small"
                                            name="field"
                                            value=change.field.clone()
                                            disabled=move || action.pending().get()
                                        >
                                            "Put it back"
                                            <span class="visually-hidden">"(" {change.label.clone()} ")"</span>
                                        </button>
                                    }
                                });
                            view! {
                                <li>
                                    <span class="changes-label">{shown(&change.label)}</span>
                                    <Difference label=change.label before=change.before after=change.after />
                                    <span class="flex flex-wrap items-center gap-2 text-xs text-ink-2">
                                        <span>{who} {change.at.map(|at| view! { ", " <Ago at /> })}</span>
                                        {back}
                                    </span>
                                </li>
                            }
                        })
                        .collect_view()}
                </ul>
                {several
                    .then(|| {
                        view! {
                            <button
                                type="submit"
                                class="button button-small mt-3"
                                disabled=move || action.pending().get()
                            >
                                "Put everything back"
                            </button>
                        }
                    })}
            </ActionForm>
        </Alert>
    }
    .into_any()
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
                                    let by = facts.setup_updated_by.clone().map(|by| format!(" by {}", shown(&by))).unwrap_or_default();
                                    view! {
                                        <dt>"Script changed"</dt>
                                        <dd>
                                            <Ago at /> {by}
                                        </dd>
                                    }
                                });
                            let prepared = environment.setup_verification.image.clone();
                            let has_image = prepared.is_some();
                            let prepared = prepared
                                .map(|image| {
                                    let size = format::bytes(u64::try_from(image.size_bytes).unwrap_or(0));
                                    let gone = if image.usable { "" } else { ", no longer there" };
                                    let run = links::run(environment.environment_id, image.setup_run_id);
                                    view! {
                                        <dt>"Prepared image"</dt>
                                        <dd>
                                            {format!("generation {}, adds {size}, saved ", image.generation)} <Ago at=image.captured_at /> " by "
                                            <a class="link" href=run>
                                                "this run"
                                            </a>
                                            {gone}
                                        </dd>
                                    }
                                });
                            view! {
                                <dl class="pairs">
                                    <dt>"Sessions"</dt>
                                    <dd>{if facts.usable { "can start" } else { "cannot start yet" }}</dd>
                                    <dt>"Runtime"</dt>
                                    <dd>{runtime}</dd>
                                    <dt>"Runner image"</dt>
                                    <dd class="mono">{environment.image.clone()}</dd>
                                    {prepared}
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
                                {has_image
                                    .then(|| {
                                        view! {
                                            <p class="mt-3 text-xs text-ink-2">
                                                "A verdict is about what stands on this page. What the script downloads, and what lies behind a mount's address or in a volume, can change without making it stale: test setup again to renew it."
                                            </p>
                                        }
                                    })}
                            }
                        })
                }}
            </div>
        </section>
    }
    .into_any()
}
