//! Secret variables of an environment: a list of names, and forms of their own that set, replace and remove them.

use std::collections::BTreeMap;

use domain::{ids::EnvironmentId, secrets};
use leptos::{html, prelude::*};
use wire::secrets::SecretItem;

use super::{
    Alert, MakesStale, Submit, Tone,
    basics::alive,
    field::bind_text,
    icons::{Draw, Icon},
};
use crate::{
    api::{
        AppError,
        secrets::{DeleteSecret, SecretsView, SetSecret, SetVariables, VariablesSet, load_secrets},
    },
    draft::parse_dotenv,
    live::now::Ago,
    text::shown,
};

/// The card.
#[component]
pub fn Secrets(
    /// The environment.
    environment_id: EnvironmentId,
    /// Called when one was changed: the verdict may be stale now.
    changed: Callback<()>,
    /// Called when a pasted file was set: the environment may have changed too.
    pasted: Callback<()>,
) -> impl IntoView {
    let set = ServerAction::<SetSecret>::new();
    let paste = ServerAction::<SetVariables>::new();
    let delete = ServerAction::<DeleteSecret>::new();
    // Loaded anew after a change alone: a refusal keeps what was typed.
    let changes = RwSignal::new(0_u32);
    let list = Resource::new(move || changes.get(), move |_| load_secrets(environment_id));
    let text = RwSignal::new(String::new());
    Effect::new(move |_| {
        let done =
            matches!(set.value().get(), Some(Ok(_))) || matches!(delete.value().get(), Some(Ok(_)));
        if done {
            empty_fields();
            changes.update(|count| *count += 1);
            changed.run(());
        }
    });
    Effect::new(move |_| {
        if matches!(paste.value().get(), Some(Ok(_))) {
            text.set(String::new());
            changes.update(|count| *count += 1);
            pasted.run(());
        }
    });
    view! {
        <section class="card" id="secrets" aria-labelledby="secrets-title">
            <div class="card-head">
                <h2 id="secrets-title" class="card-title">
                    "Secret variables"
                </h2>
            </div>
            <div class="card-body flex flex-col gap-3">
                <p class="text-sm text-ink-2">
                    "Every process in the sandbox gets them, like environment variables. Values are encrypted, masked in logs, and never shown again; they are saved at once."
                </p>
                <div role="status" class="flex flex-col gap-2 empty:hidden">
                    {move || told(set.value().get(), |name| format!("{name} is set."))}
                    {move || told(paste.value().get(), |set| said(&set))}
                    {move || told(delete.value().get(), |name| format!("{name} is removed."))}
                </div>
                <Transition>
                    {move || Suspend::new(async move {
                        match list.await {
                            Ok(view) => view! { <List environment_id view set paste text delete /> }.into_any(),
                            Err(error) => {
                                view! {
                                    <Alert tone=Tone::Bad>
                                        {error.to_string()}
                                    </Alert>
                                }
                                    .into_any()
                            }
                        }
                    })}
                </Transition>
            </div>
        </section>
    }
    .into_any()
}

fn told<T>(
    answer: Option<Result<T, AppError>>,
    done: impl FnOnce(T) -> String,
) -> Option<impl IntoView> {
    answer.map(|answer| match answer.map(done) {
        Ok(text) => view! { <Alert tone=Tone::Good>{text}</Alert> }.into_any(),
        Err(error) => view! {
            <Alert tone=Tone::Bad urgent=true>
                {shown(&error.to_string())}
            </Alert>
        }
        .into_any(),
    })
}

/// Takes what was saved out of the page: a secret is not left to be read over a shoulder.
fn empty_fields() {
    use wasm_bindgen::JsCast as _;
    let Ok(found) =
        document().query_selector_all("#secrets [name=name].input, #secrets [name=value]")
    else {
        return;
    };
    for at in 0..found.length() {
        let Some(node) = found.item(at) else { continue };
        if let Some(input) = node.dyn_ref::<web_sys::HtmlInputElement>() {
            input.set_value("");
        } else if let Some(text) = node.dyn_ref::<web_sys::HtmlTextAreaElement>() {
            text.set_value("");
        }
    }
}

/// What a pasted file set, in a sentence or two.
fn said(set: &VariablesSet) -> String {
    let part = |one: &str, several: &str, names: &[String]| match names.len() {
        0 => None,
        1 => Some(format!("Set as {one}: {}.", names.join(", "))),
        _ => Some(format!("Set as {several}: {}.", names.join(", "))),
    };
    [
        part("a secret variable", "secret variables", &set.secret),
        part(
            "an environment variable",
            "environment variables",
            &set.plain,
        ),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" ")
}

/// Its list, with what changes it.
#[component]
pub fn List(
    /// The environment.
    environment_id: EnvironmentId,
    /// The names.
    view: SecretsView,
    /// Sets one.
    set: ServerAction<SetSecret>,
    /// Sets those of a file.
    paste: ServerAction<SetVariables>,
    /// The file.
    text: RwSignal<String>,
    /// Removes one.
    delete: ServerAction<DeleteSecret>,
) -> impl IntoView {
    let may_change = view.may_change;
    let none = view.secrets.is_empty();
    let row =
        move |secret: SecretItem| view! { <Row environment_id secret may_change set delete /> };
    view! {
        {none.then(|| view! { <p class="muted text-sm">"No secret variables."</p> })}
        {(!none)
            .then(|| view! { <ul class="flex flex-col divide-y divide-line">{view.secrets.into_iter().map(row).collect_view()}</ul> })}
        {may_change
            .then(|| {
                view! {
                    <MakesStale change="Setting or removing one" />
                    <ActionForm action=set>
                        <div class="flex flex-col gap-2">
                            <input type="hidden" name="environment_id" value=environment_id.to_string() />
                            <div class="field">
                                <label class="field-label" for="secret-name">
                                    "Name"
                                </label>
                                <input
                                    class="input mono"
                                    id="secret-name"
                                    name="name"
                                    required
                                    maxlength="256"
                                    autocomplete="off"
                                    autocapitalize="off"
                                    spellcheck="false"
                                    placeholder="API_TOKEN"
                                />
                            </div>
                            <Value id="secret-value".to_owned() label="Value" />
                            <span>
                                <Submit label="Set secret" icon=Icon::Lock busy=set.pending() />
                            </span>
                        </div>
                    </ActionForm>
                    <Paste environment_id paste text />
                }
            })}
    }
    .into_any()
}

/// A `.env` file, and which of its lines are secret.
#[component]
fn Paste(
    environment_id: EnvironmentId,
    paste: ServerAction<SetVariables>,
    text: RwSignal<String>,
) -> impl IntoView {
    let node: NodeRef<html::Textarea> = NodeRef::new();
    bind_text(node, text);
    let alive = alive();
    let lines = Memo::new(move |_| text.with(|text| parse_dotenv(text)));
    // What the reader decided otherwise than by the guess.
    let decided: RwSignal<BTreeMap<String, bool>> = RwSignal::new(BTreeMap::new());
    view! {
        <details class="section">
            <summary>
                <Draw icon=Icon::ChevronRight />
                <h3 class="text-sm font-semibold">"Paste a .env file"</h3>
            </summary>
            <div class="section-body">
                <ActionForm action=paste>
                    <div class="flex flex-col gap-3">
                        <input type="hidden" name="environment_id" value=environment_id.to_string() />
                        <div class="field">
                            <label class="field-label" for="secret-dotenv">
                                "Lines to set"
                            </label>
                            <textarea
                                class="input input-code"
                                node_ref=node
                                id="secret-dotenv"
                                name="dotenv"
                                rows="5"
                                required
                                autocomplete="off"
                                autocapitalize="off"
                                spellcheck="false"
                                placeholder="API_TOKEN=…"
                                aria-describedby="secret-dotenv-hint"
                                on:input:target=move |event| text.set(event.target().value())
                            ></textarea>
                            <p class="field-hint" id="secret-dotenv-hint">
                                {move || match alive.get() {
                                    true => "NAME=value, one a line. You choose below which lines are secret; the others become environment variables, which everyone who sees this environment can read.",
                                    false => "NAME=value, one a line. Lines whose names speak of a token, a key, a password or the like become secret variables, the others environment variables.",
                                }}
                            </p>
                        </div>
                        {move || match lines.get() {
                            Ok(lines) if lines.is_empty() => ().into_any(),
                            Ok(lines) => view! { <Choices lines decided /> }.into_any(),
                            Err(message) => view! { <Alert tone=Tone::Warn>{message}</Alert> }.into_any(),
                        }}
                        <span>
                            <Submit label="Set variables" busy=paste.pending() />
                        </span>
                    </div>
                </ActionForm>
            </div>
        </details>
    }
    .into_any()
}

/// A choice for each line.
#[component]
fn Choices(
    lines: BTreeMap<String, String>,
    decided: RwSignal<BTreeMap<String, bool>>,
) -> impl IntoView {
    let row = move |(name, value): (String, String)| {
        let problem = secrets::bad_value(&value).is_some();
        let guess = secrets::looks_secret(&name, &value);
        let id = format!("secret-line-{name}");
        let key = name.clone();
        let is_secret = Memo::new(move |_| {
            !problem && decided.with(|decided| decided.get(&key).copied().unwrap_or(guess))
        });
        let key = name.clone();
        view! {
            <li class="check py-1">
                <input
                    type="checkbox"
                    id=id.clone()
                    name="secret[]"
                    value=name.clone()
                    prop:checked=move || is_secret.get()
                    checked=is_secret.get_untracked()
                    disabled=problem
                    on:change:target=move |event| {
                        let on = event.target().checked();
                        decided.update(|decided| {
                            decided.insert(key.clone(), on);
                        });
                    }
                />
                <label class="flex flex-wrap gap-x-3 flex-1 min-w-0" for=id>
                    <span class="mono break-all mr-auto">{shown(&name)}</span>
                    <span class="text-xs text-ink-3">
                        {move || match (problem, is_secret.get()) {
                            (true, _) => "environment variable: too short to be masked",
                            (_, true) => "secret variable",
                            (_, false) => "environment variable",
                        }}
                    </span>
                </label>
            </li>
        }
    };
    view! {
        <fieldset class="field">
            <legend class="field-label mb-1">"Secret lines"</legend>
            // Tells the server that nothing is left to guess.
            <input type="hidden" name="chosen" value="true" />
            <ul class="flex flex-col divide-y divide-line">{lines.into_iter().map(row).collect_view()}</ul>
        </fieldset>
    }
    .into_any()
}

#[component]
fn Value(id: String, label: &'static str) -> impl IntoView {
    view! {
        <div class="field">
            <label class="field-label" for=id.clone()>
                {label}
            </label>
            <textarea
                class="input mono"
                id=id
                name="value"
                rows="2"
                required
                minlength="8"
                autocomplete="off"
                autocapitalize="off"
                spellcheck="false"
            ></textarea>
            <p class="field-hint">"At least 8 characters; may have several lines."</p>
        </div>
    }
}

#[component]
fn Row(
    environment_id: EnvironmentId,
    secret: SecretItem,
    may_change: bool,
    set: ServerAction<SetSecret>,
    delete: ServerAction<DeleteSecret>,
) -> impl IntoView {
    let name = secret.name;
    let shown_name = shown(&name);
    let actions = may_change.then(|| {
        let again = name.clone();
        let (replace, remove) = (format!("Replace {name}"), format!("Remove {name}"));
        let id = format!("secret-value-{name}");
        view! {
            <ActionForm action=delete>
                <input type="hidden" name="environment_id" value=environment_id.to_string() />
                <input type="hidden" name="name" value=name.clone() />
                <button type="submit" class="button button-small" aria-label=remove disabled=move || delete.pending().get()>
                    "Remove"
                </button>
            </ActionForm>
            <details class="basis-full">
                <summary class="text-sm text-ink-2 py-1" aria-label=replace>
                    "Replace"
                </summary>
                <ActionForm action=set>
                    <div class="flex flex-col gap-2 pt-1">
                        <input type="hidden" name="environment_id" value=environment_id.to_string() />
                        <input type="hidden" name="name" value=again.clone() />
                        <Value id label="New value" />
                        <span>
                            <Submit label="Replace value" class="button-small" busy=set.pending() />
                        </span>
                    </div>
                </ActionForm>
            </details>
        }
    });
    view! {
        <li class="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5 text-sm">
            <Draw icon=Icon::Lock />
            <code class="mono break-all">{shown_name}</code>
            <span class="text-ink-3 mr-auto">
                "set " <Ago at=secret.set_at /> " by " {shown(&secret.set_by)}
            </span>
            {actions}
        </li>
    }
    .into_any()
}
