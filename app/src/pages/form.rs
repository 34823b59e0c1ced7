//! The environment form's fields, in the specification's order; the same for create, edit and reading.

use std::collections::BTreeMap;

use domain::secrets::looks_secret;
use leptos::{html, prelude::*};
use wire::console::Offer;

use crate::{
    components::{Alert, Draw, Errors, FieldError, Icon, Switch, TextArea, TextField, Tone},
    draft::{INTERNET_ENABLED, INTERNET_HOSTS, INTERNET_NONE, is_on, parse_dotenv, parse_rules},
    format,
    pages::{
        form_size::{Compute, Storage},
        inputs::Inputs,
        mounts_editor::MountsEditor,
        rules_editor::RulesEditor,
        script_editor::ScriptEditor,
    },
    text::shown,
};

/// All fields.
#[component]
pub fn Fields(
    /// Their values.
    inputs: Inputs,
    /// What the deployment offers.
    offer: Offer,
    /// Only to read.
    readonly: bool,
) -> impl IntoView {
    view! {
        <input type="hidden" name="draft[template]" prop:value=move || inputs.template.get() value=inputs.template.get_untracked() />
        <input type="hidden" name="draft[provider]" value=inputs.provider.get_untracked() />
        <input type="hidden" name="draft[placement]" value=inputs.placement.get_untracked() />
        <input type="hidden" name="draft[had_metadata]" prop:value=move || inputs.had_metadata.get() value=inputs.had_metadata.get_untracked() />
        <section class="section">
            <div class="section-body pt-4">
                <TextField
                    id="name"
                    name="draft[name]"
                    label="Name"
                    value=inputs.name
                    path="name"
                    required=true
                    maxlength=256
                    readonly=readonly
                    placeholder="data-analysis"
                />
                <TextArea
                    id="description"
                    name="draft[description]"
                    label="Description"
                    value=inputs.description
                    path="description"
                    optional=true
                    rows=2
                    readonly=readonly
                />
            </div>
        </section>
        <Permissions inputs offer=offer.clone() readonly />
        <Compute inputs offer=offer.clone() readonly />
        <Storage inputs offer=offer.clone() readonly />
        <Variables inputs offer=offer readonly />
        <section class="section">
            <div class="section-body pt-4">
                <ScriptEditor inputs readonly />
            </div>
        </section>
    }
    .into_any()
}

/// A section that opens and closes, with what it holds in a few words.
#[component]
pub fn Section(
    title: &'static str,
    #[prop(optional)] open: bool,
    #[prop(into)] summary: Signal<String>,
    children: Children,
) -> impl IntoView {
    view! {
        <details class="section" open=open>
            <summary>
                <Draw icon=Icon::ChevronRight />
                <h2>{title}</h2>
                <span class="section-summary">{move || summary.get()}</span>
            </summary>
            <div class="section-body">{children()}</div>
        </details>
    }
    .into_any()
}

#[component]
fn Permissions(inputs: Inputs, offer: Offer, readonly: bool) -> impl IntoView {
    let catalog = offer.catalog;
    let internet = inputs.internet;
    let saved = internet.get_untracked();
    let choices: Vec<(&'static str, &'static str)> = [
        (INTERNET_ENABLED, "Enabled"),
        (INTERNET_NONE, "No access"),
        (INTERNET_HOSTS, "Selected hosts"),
    ]
    .into_iter()
    // What the deployment does not offer is not offered; what is saved is still shown as what it is.
    .filter(|(word, _)| *word == saved || (!readonly && (catalog.egress || *word == INTERNET_NONE)))
    .collect();
    let summary = Signal::derive(move || {
        let access = match internet.get().as_str() {
            INTERNET_ENABLED => "Internet access enabled".to_owned(),
            INTERNET_HOSTS => {
                let rules = inputs.rules.with(|text| parse_rules(text).len());
                format::count(rules as u64, "host rule", "host rules")
            }
            _ => "No internet access".to_owned(),
        };
        if is_on(&inputs.privileged.get()) {
            format!("{access} · privileged")
        } else {
            access
        }
    });
    let error = use_context::<Errors>();
    let error = Signal::derive(move || {
        error?
            .0
            .with(|error| error.as_ref()?.field("network_policy"))
    });
    let groups = catalog.host_groups.clone();
    let show_privileged = catalog.privileged || is_on(&inputs.privileged.get_untracked());
    view! {
        <Section title="Permissions" open=true summary>
            <fieldset class="field" aria-describedby="internet-error">
                <legend class="field-label mb-1.5">"Internet access"</legend>
                <div class="segments self-start">
                    {choices
                        .into_iter()
                        .map(|(word, label)| {
                            view! { <Choice word label value=internet readonly /> }
                        })
                        .collect_view()}
                </div>
                <FieldError id="internet-error".to_owned() message=error />
                {(!catalog.egress)
                    .then(|| {
                        view! {
                            <p class="field-hint">
                                "This deployment cannot open hosts: every sandbox is without internet access."
                            </p>
                        }
                    })}
                <Show when=move || internet.with(|now| now == INTERNET_ENABLED)>
                    <p class="field-hint">
                        "Every public host can be reached. Code in the sandbox can send anything anywhere: allow only the hosts the work needs when agents process untrusted content."
                    </p>
                </Show>
                <Show when=move || internet.with(|now| now == INTERNET_NONE)>
                    <p class="field-hint">"No host can be reached: neither by the setup script nor by commands."</p>
                </Show>
            </fieldset>
            // Kept in the page whatever the choice, so that nothing typed is lost and a post without scripting has it.
            <div class="rules-of">
                <RulesEditor rules=inputs.rules groups readonly />
            </div>
            {show_privileged
                .then(|| {
                    view! {
                        <Switch
                            id="privileged"
                            name="draft[privileged]"
                            label="Privileged Docker"
                            value=inputs.privileged
                            path="privileged"
                            hint="Docker can run inside the sandbox. Needs internet access to be enabled."
                            disabled=readonly
                        />
                    }
                })}
        </Section>
    }
    .into_any()
}

/// One radio; keeps what was chosen before the page came alive.
#[component]
fn Choice(
    word: &'static str,
    label: &'static str,
    value: RwSignal<String>,
    readonly: bool,
) -> impl IntoView {
    let node: NodeRef<html::Input> = NodeRef::new();
    Effect::new(move |before: Option<()>| {
        let Some(input) = node.get() else { return };
        let wanted = value.with(|now| now == word);
        if before.is_none() && input.checked() && !wanted {
            value.set(word.to_owned());
        } else if wanted && !input.checked() {
            input.set_checked(true);
        }
    });
    view! {
        <label>
            <input
                node_ref=node
                type="radio"
                name="draft[internet]"
                value=word
                checked=value.with_untracked(|now| now == word)
                disabled=readonly
                on:change=move |_| value.set(word.to_owned())
            />
            {label}
        </label>
    }
}

/// What is said of variables that had better be secret.
fn secret_looking(vars: BTreeMap<String, String>) -> Option<String> {
    let names: Vec<String> = vars
        .into_iter()
        .filter(|(name, value)| looks_secret(name, value))
        .map(|(name, _)| shown(&name))
        .collect();
    let them = if names.len() > 1 {
        "They look"
    } else {
        "It looks"
    };
    (!names.is_empty()).then(|| {
        format!(
            "{}: {them} secret, and everyone who sees this environment and its history can read it. On the environment's page, Secret variables keeps such values encrypted.",
            names.join(", ")
        )
    })
}

#[component]
fn Variables(inputs: Inputs, offer: Offer, readonly: bool) -> impl IntoView {
    let vars = Memo::new(move |_| inputs.env_vars.with(|text| parse_dotenv(text)));
    let summary = Signal::derive(move || match vars.get() {
        Ok(vars) if vars.is_empty() => "None".to_owned(),
        Ok(vars) => format::count(vars.len() as u64, "variable", "variables"),
        Err(_) => "Cannot be read".to_owned(),
    });
    let metadata = Signal::derive(move || {
        if inputs.metadata.with(|text| text.trim().is_empty()) {
            "None".to_owned()
        } else {
            "Set".to_owned()
        }
    });
    let mounts =
        offer.catalog.mounts || inputs.mounts.with_untracked(|text| !text.trim().is_empty());
    let volumes = offer.catalog.volumes;
    view! {
        <Section title="Environment variables" summary>
            <TextArea
                id="env_vars"
                name="draft[env_vars]"
                label="Variables"
                value=inputs.env_vars
                path="env_vars"
                code=true
                rows=5
                placeholder="NAME=value"
                hint="NAME=value, one a line; paste a .env file as it is. Everyone who sees this environment sees them, so they are no place for passwords."
                readonly=readonly
            />
            {move || {
                vars.get()
                    .err()
                    .map(|message| {
                        view! {
                            <Alert tone=Tone::Warn>{message}</Alert>
                        }
                    })
            }}
            {move || {
                (!readonly)
                    .then(|| secret_looking(vars.get().ok()?))
                    .flatten()
                    .map(|text| view! { <Alert tone=Tone::Warn>{text}</Alert> })
            }}
        </Section>
        {mounts
            .then(|| {
                view! {
                    <Section title="Mounts" summary=Signal::derive(move || {
                        let lines = |text: &String| text.lines().filter(|line| !line.trim().is_empty()).count();
                        match inputs.mounts.with(lines) {
                            0 => "None".to_owned(),
                            count => format::count(count as u64, "mount", "mounts"),
                        }
                    })>
                        <MountsEditor mounts=inputs.mounts volumes readonly />
                    </Section>
                }
            })}
        <Section title="Metadata" summary=metadata>
            <TextArea
                id="metadata"
                name="draft[metadata]"
                label="Metadata"
                value=inputs.metadata
                path="metadata"
                code=true
                rows=4
                placeholder="{\"team\": \"data\"}"
                hint="A JSON object of your own, returned unchanged. At most 16 KiB."
                readonly=readonly
            />
        </Section>
    }
    .into_any()
}
