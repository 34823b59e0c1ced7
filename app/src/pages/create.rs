//! *Create environment*.

use leptos::prelude::*;
use leptos_router::hooks::use_query_map;
use wasm_bindgen::JsCast as _;
use wire::error::Code;

use crate::{
    api::{
        AppError,
        environments::{CreateEnvironment, CreatePage, load_new_environment},
        page_data,
    },
    components::{Errors, Failure, Loading, PageHead, Submit},
    links,
    pages::{
        environment_parts::{Refusal, TestButton, focus_on_refusal},
        form::Fields,
        inputs::Inputs,
        leaving::warn_before_leaving,
        table_parts::TemplateCards,
    },
    text::shown,
};

/// *Create environment*.
#[component]
pub fn NewEnvironmentPage() -> impl IntoView {
    let query = use_query_map();
    let start = Memo::new(move |_| {
        let query = query.read();
        (query.get("template"), query.get("from"))
    });
    let page = page_data(
        move || start.get(),
        |(template, from)| load_new_environment(template, from),
    );
    // Here, so that a refusal outlives a change of the starting point.
    let action = ServerAction::<CreateEnvironment>::new();
    // So do the name and the description: no starting point has any.
    let kept = RwSignal::new((String::new(), String::new()));
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(page) if page.page.may.change => view! { <Create page action kept /> }.into_any(),
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
fn Create(
    page: CreatePage,
    action: ServerAction<CreateEnvironment>,
    kept: RwSignal<(String, String)>,
) -> impl IntoView {
    let inputs = Inputs::new(&page.draft);
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    focus_on_refusal(errors);
    for (input, text) in [inputs.name, inputs.description]
        .into_iter()
        .zip(<[String; 2]>::from(kept.get_untracked()))
    {
        if input.with_untracked(String::is_empty) && !text.is_empty() {
            input.set(text);
        }
    }
    Effect::new(move |_| kept.set((inputs.name.get(), inputs.description.get())));
    warn_before_leaving(inputs, RwSignal::new(page.draft.clone()), action.pending());
    if page.template.is_some() {
        // The next step.
        Effect::new(move |_| {
            request_animation_frame(|| {
                if let Some(name) = document().get_element_by_id("name")
                    && let Some(name) = name.dyn_ref::<web_sys::HtmlElement>()
                {
                    // What cannot take the focus leaves it where it is.
                    let _ = name.focus();
                }
            });
        });
    }
    let sets = page.draft.beside_blank();
    let templates = page.page.templates;
    let note = match (&page.copied_from, &page.template) {
        (Some(name), _) if page.secrets_left_out.is_empty() => Some(format!(
            "Filled from {}. The copy is a new environment, not tested yet.",
            shown(name)
        )),
        (Some(name), _) => Some(format!(
            "Filled from {}. The copy is a new environment, not tested yet. Secret variables are not copied; set their values once it is created: {}.",
            shown(name),
            page.secrets_left_out.join(", ")
        )),
        (None, Some(id)) => templates
            .iter()
            .find(|template| template.id == *id)
            .map(|template| {
                format!(
                    "Filled from {}: {sets}. Change what you need.",
                    template.name
                )
            }),
        _ => None,
    };
    let chosen = page.template;
    let is_filled = note.is_some();
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
                <div class="flex flex-wrap items-baseline gap-x-3 text-sm">
                    {note.map(|note| view! { <p class="text-ink-2" role="status">{note}</p> })}
                    {is_filled
                        .then(|| {
                            view! {
                                <a class="link" href=links::NEW_ENVIRONMENT>
                                    "Start from nothing"
                                </a>
                            }
                        })}
                </div>
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
