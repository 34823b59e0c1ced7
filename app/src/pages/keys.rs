//! API keys: one's own on the account page, everyone's for admins.

use domain::roles::Role;
use leptos::prelude::*;
use wire::console::ApiKeyItem;

use crate::{
    api::{
        keys::{CreateKey, KeysPage as KeysData, RevokeKey, load_keys},
        page_data,
    },
    components::{
        Alert, Copy, Draw, Errors, Failure, Icon, Loading, PageHead, Refused, Select, Submit,
        TextField, Tone,
    },
    format,
    live::now::{Ago, Now},
    pages::account::Told,
    text::shown,
};

/// Everyone's keys.
#[component]
pub fn KeysPage() -> impl IntoView {
    view! {
        <div class="page">
            <PageHead title="API keys" sub="The keys of all members. One makes keys for oneself on the account page." />
            <Keys everyones=true />
        </div>
    }
}

/// A list of keys; one's own with a form to make one.
#[component]
pub fn Keys(
    /// Everyone's, not one's own.
    everyones: bool,
) -> impl IntoView {
    let create = ServerAction::<CreateKey>::new();
    let revoke = ServerAction::<RevokeKey>::new();
    let keys = page_data(
        move || (create.version().get(), revoke.version().get()),
        move |_| load_keys(everyones),
    );
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match keys.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(page) => view! { <Listed page everyones create revoke /> }.into_any(),
                }
            })}
        </Transition>
    }
    .into_any()
}

#[component]
fn Listed(
    page: KeysData,
    everyones: bool,
    create: ServerAction<CreateKey>,
    revoke: ServerAction<RevokeKey>,
) -> impl IntoView {
    provide_context(Now::start(page.now_micros));
    let made = page.made;
    let secret = Signal::derive(move || match create.value().get() {
        Some(Ok(secret)) => Some(secret),
        _ => made.clone(),
    });
    let is_empty = page.keys.is_empty();
    view! {
        <section class="card" id="keys" aria-labelledby="keys-title">
            <div class="card-head">
                <h2 id="keys-title" class="card-title">
                    {if everyones { "Keys" } else { "API keys" }}
                </h2>
            </div>
            {(!everyones).then(|| view! { <Make create role=page.role secret /> })}
            <div class="px-4 empty:hidden">
                <Told value=Signal::derive(move || revoke.value().get()) done="The key was revoked." />
            </div>
            {if is_empty {
                view! { <p class="card-body muted">"No API keys."</p> }.into_any()
            } else {
                view! {
                    <table class="table table-stack">
                        <thead>
                            <tr>
                                <th scope="col">"Name"</th>
                                <th scope="col">"Key"</th>
                                <th scope="col">"Role"</th>
                                {everyones.then(|| view! { <th scope="col">"Owner"</th> })}
                                <th scope="col">"Created"</th>
                                <th scope="col">"Last used"</th>
                                <th scope="col">"Ends"</th>
                                <th scope="col">
                                    <span class="visually-hidden">"Actions"</span>
                                </th>
                            </tr>
                        </thead>
                        <tbody>{page.keys.into_iter().map(|key| row(key, everyones, revoke)).collect_view()}</tbody>
                    </table>
                }
                    .into_any()
            }}
        </section>
    }
    .into_any()
}

fn row(key: ApiKeyItem, everyones: bool, revoke: ServerAction<RevokeKey>) -> impl IntoView {
    let label = format!("Revoke the key {}", key.name);
    view! {
        <tr>
            <td class="cell-title font-medium break-words">{shown(&key.name)}</td>
            <td data-label="Key">
                <code class="mono text-ink-2">{key.shown}</code>
            </td>
            <td data-label="Role">{key.role.to_string()}</td>
            {everyones.then(|| view! { <td data-label="Owner">{key.owner}</td> })}
            <td data-label="Created" class="text-ink-2">
                <Ago at=key.created_at />
            </td>
            <td data-label="Last used" class="text-ink-2">
                {match key.last_used_at {
                    Some(at) => view! { <Ago at /> }.into_any(),
                    None => "never".into_any(),
                }}
            </td>
            <td data-label="Ends" class="text-ink-2">
                {match key.expires_at {
                    Some(at) => {
                        let date: String = format::exact_utc(at).chars().take(10).collect();
                        if key.expired { format!("over since {date}") } else { date }
                    }
                    None => "never".to_owned(),
                }}
            </td>
            <td class="actions">
                <ActionForm action=revoke>
                    <input type="hidden" name="api_key_id" value=key.api_key_id.to_string() />
                    <button type="submit" class="button button-small" aria-label=label>
                        "Revoke"
                    </button>
                </ActionForm>
            </td>
        </tr>
    }
}

#[component]
fn Make(
    create: ServerAction<CreateKey>,
    role: Role,
    #[prop(into)] secret: Signal<Option<String>>,
) -> impl IntoView {
    let errors = Errors::of(move || create.value().get());
    provide_context(errors);
    let chosen = RwSignal::new(role.to_string());
    let roles = Role::ALL
        .into_iter()
        .filter(|other| *other <= role)
        .rev()
        .map(|role| (role.to_string(), role.to_string()))
        .collect();
    view! {
        <div class="card-body border-b border-line flex flex-col gap-3">
            <ActionForm action=create>
                <div class="grid gap-3 sm:grid-cols-[minmax(0,1fr)_9rem_9rem_auto] items-end">
                    <TextField id="key-name" name="name" label="Name" path="name" required=true maxlength=100 placeholder="ci" />
                    <Select id="key-role" name="role" label="Role" value=chosen options=roles path="role" />
                    <TextField
                        id="key-days"
                        name="expires_in_days"
                        label="Ends in (days)"
                        path="expires_in_days"
                        kind="number"
                        inputmode="numeric"
                        placeholder="Never"
                    />
                    <Submit label="Create key" icon=Icon::KeyRound busy=create.pending() />
                </div>
            </ActionForm>
            <Refused error=errors.whole() />
            {move || {
                secret
                    .get()
                    .map(|secret| {
                        view! {
                            <Alert tone=Tone::Good title="Copy the key now: it is not shown again.">
                                <div class="once mt-1.5">
                                    <code class="flex-1 break-all">{secret.clone()}</code>
                                    <Copy text=secret label="Copy the key" />
                                </div>
                                <p class="text-xs text-ink-2 mt-1.5 flex items-center gap-1">
                                    <Draw icon=Icon::CodeXml />
                                    "Send it as Authorization: Bearer …"
                                </p>
                            </Alert>
                        }
                    })
            }}
        </div>
    }
    .into_any()
}
