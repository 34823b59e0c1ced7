//! Secret variables of an environment: a list of names, and forms of their own that set, replace and remove them.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use wire::secrets::SecretItem;

use super::{
    Alert, Submit, Tone,
    icons::{Draw, Icon},
};
use crate::{
    api::{
        AppError,
        secrets::{DeleteSecret, SecretsView, SetSecret, SetSecrets, load_secrets},
    },
    live::now::Ago,
};

/// The card.
#[component]
pub fn Secrets(
    /// The environment.
    environment_id: EnvironmentId,
    /// Called when one was changed: the verdict may be stale now.
    changed: Callback<()>,
) -> impl IntoView {
    let set = ServerAction::<SetSecret>::new();
    let paste = ServerAction::<SetSecrets>::new();
    let delete = ServerAction::<DeleteSecret>::new();
    let list = Resource::new(
        move || {
            (
                set.version().get(),
                paste.version().get(),
                delete.version().get(),
            )
        },
        move |_| load_secrets(environment_id),
    );
    Effect::new(move |_| {
        let done = matches!(set.value().get(), Some(Ok(_)))
            || matches!(paste.value().get(), Some(Ok(_)))
            || matches!(delete.value().get(), Some(Ok(_)));
        if done {
            changed.run(());
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
                    {move || told(paste.value().get(), |names| format!("Set: {names}."))}
                    {move || told(delete.value().get(), |name| format!("{name} is removed."))}
                </div>
                <Transition>
                    {move || Suspend::new(async move {
                        match list.await {
                            Ok(view) => view! { <List environment_id view set paste delete /> }.into_any(),
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

fn told(
    answer: Option<Result<String, AppError>>,
    done: impl FnOnce(String) -> String,
) -> Option<impl IntoView> {
    answer.map(|answer| match answer.map(done) {
        Ok(text) => view! { <Alert tone=Tone::Good>{text}</Alert> }.into_any(),
        Err(error) => view! {
            <Alert tone=Tone::Bad urgent=true>
                {error.to_string()}
            </Alert>
        }
        .into_any(),
    })
}

#[component]
fn List(
    environment_id: EnvironmentId,
    view: SecretsView,
    set: ServerAction<SetSecret>,
    paste: ServerAction<SetSecrets>,
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
                    <ActionForm action=set>
                        <div class="flex flex-col gap-2">
                            <input type="hidden" name="environment_id" value=environment_id.to_string() />
                            <div class="field">
                                <label class="label" for="secret-name">
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
                    <details class="section">
                        <summary>
                            <Draw icon=Icon::ChevronRight />
                            <h3 class="text-sm font-semibold">"Paste a .env file"</h3>
                        </summary>
                        <div class="section-body">
                            <ActionForm action=paste>
                                <div class="flex flex-col gap-2">
                                    <input type="hidden" name="environment_id" value=environment_id.to_string() />
                                    <div class="field">
                                        <label class="label" for="secret-dotenv">
                                            "Lines to set as secrets"
                                        </label>
                                        <textarea
                                            class="input mono"
                                            id="secret-dotenv"
                                            name="dotenv"
                                            rows="4"
                                            required
                                            autocomplete="off"
                                            autocapitalize="off"
                                            spellcheck="false"
                                            placeholder="API_TOKEN=…"
                                        ></textarea>
                                        <p class="hint">
                                            "Every variable here becomes a secret. Paste what is no secret into Environment variables."
                                        </p>
                                    </div>
                                    <span>
                                        <Submit label="Set all" busy=paste.pending() />
                                    </span>
                                </div>
                            </ActionForm>
                        </div>
                    </details>
                }
            })}
    }
    .into_any()
}

#[component]
fn Value(id: String, label: &'static str) -> impl IntoView {
    view! {
        <div class="field">
            <label class="label" for=id.clone()>
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
            <p class="hint">"At least 8 characters; may have several lines."</p>
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
    let shown = name.clone();
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
            <code class="mono break-all">{shown}</code>
            <span class="text-ink-3 mr-auto">
                "set " <Ago at=secret.set_at /> " by " {secret.set_by}
            </span>
            {actions}
        </li>
    }
    .into_any()
}
