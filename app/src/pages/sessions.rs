//! All sessions, and the way to a new one.

use domain::session::{Status, Wish};
use leptos::prelude::*;
use wire::sessions::{Session, Startable};

use crate::{
    api::{
        AppError, page_data,
        sessions::{AllSessions, StartSession, load_sessions},
    },
    components::{
        Alert, Behind, BehindNote, CopyId, Draw, Failure, Icon, Loading, PageHead, Select, Sign,
        Submit, Tone,
    },
    links,
    live::now::{Ago, Now},
    text::shown,
};

/// Where a session is, as a badge.
#[component]
pub fn SessionBadge(
    /// Where.
    status: Status,
    /// What was asked and is not done yet.
    pending: Option<Wish>,
) -> impl IntoView {
    let (tone, busy, text) = match (status, pending) {
        (_, Some(Wish::Delete)) => (Tone::Plain, true, "Deleting"),
        (_, Some(Wish::Stop)) => (Tone::Info, true, "Stopping"),
        (Status::Provisioning, None) => (Tone::Info, true, "Preparing"),
        (Status::Running, None) => (Tone::Good, false, "Running"),
        (Status::Stopped, None) => (Tone::Plain, false, "Stopped"),
        (Status::Failed, None) => (Tone::Bad, false, "Failed"),
        (Status::Deleted, None) => (Tone::Plain, false, "Deleted"),
    };
    view! { <Sign tone busy text /> }
}

/// The last eight characters of an id.
pub fn short(id: impl ToString) -> String {
    let text = id.to_string();
    text.get(text.len().saturating_sub(8)..)
        .unwrap_or_default()
        .to_owned()
}

/// Why a session, or something else of an environment, did not start, with the way to mend it.
#[component]
pub fn NotStarted(
    /// What did not.
    #[prop(default = "The session did not start.")]
    title: &'static str,
    /// Why.
    error: AppError,
    /// Whether it links to the environment, where the refusal names it.
    #[prop(default = true)]
    linked: bool,
) -> impl IntoView {
    view! {
        <Alert tone=Tone::Bad urgent=true title>
            <p>{shown(&error.to_string())}</p>
            {error
                .detail("environmentId")
                .filter(|_| linked)
                .map(|id| {
                    view! {
                        <a class="link" href=format!("{}/{id}", links::ENVIRONMENTS)>
                            "Open the environment"
                        </a>
                    }
                })}
        </Alert>
    }
    .into_any()
}

/// The page.
#[component]
pub fn SessionsPage() -> impl IntoView {
    let sessions = page_data(|| (), |()| load_sessions());
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match sessions.await {
                    Ok(all) => view! { <Loaded all /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Suspense>
    }
}

#[component]
fn Loaded(all: AllSessions) -> impl IntoView {
    provide_context(Now::start(all.now_micros));
    let page = RwSignal::new(all.page.clone());
    let behind = Behind::default();
    follow(page, behind);
    let start = ServerAction::<StartSession>::new();
    let refused = Signal::derive(move || start.value().get().and_then(Result::err));
    let may_use = all.page.may_use;
    let (environments, key) = (all.page.environments, all.key);
    let none = Memo::new(move |_| page.with(|page| page.sessions.is_empty()));
    view! {
        <div class="page">
            <PageHead title="Sessions" sub="Sandboxes started from environments, and the commands in them." />
            {(!all.page.unavailable.is_empty())
                .then(|| view! { <Alert tone=Tone::Warn>{all.page.unavailable.clone()}</Alert> })}
            <BehindNote behind />
            {move || refused.get().map(|error| view! { <NotStarted error /> })}
            {may_use.then(|| view! { <Start environments key start /> })}
            <Show
                when=move || !none.get()
                fallback=move || {
                    view! {
                        <div class="card empty">
                            <Draw icon=Icon::Terminal />
                            <p class="empty-title">"No sessions"</p>
                            <p class="empty-text">
                                {if may_use {
                                    "Start one from an environment: it boots in seconds, with everything that its setup prepared."
                                } else {
                                    "A developer or an admin of your organization can start one from an environment."
                                }}
                            </p>
                        </div>
                    }
                }
            >
                <div class="table-wrap">
                    <table class="table table-stack table-fixed table-sessions">
                        <thead>
                            <tr>
                                <th scope="col">"Environment"</th>
                                <th scope="col">"ID"</th>
                                <th scope="col">"State"</th>
                                <th scope="col">"Started by"</th>
                                <th scope="col">"Created"</th>
                            </tr>
                        </thead>
                        <tbody>
                            <For
                                each=move || page.with(|page| page.sessions.clone())
                                key=|session| (session.session_id, session.status, session.pending, session.message.clone())
                                let:session
                            >
                                {
                                    let by = page
                                        .with_untracked(|page| {
                                            page.people.get(&session.requested_by_user_id.to_string()).cloned()
                                        });
                                    view! { <Row session by=by.unwrap_or_default() /> }
                                }
                            </For>
                        </tbody>
                    </table>
                </div>
            </Show>
        </div>
    }
    .into_any()
}

#[component]
fn Row(session: Session, by: String) -> impl IntoView {
    let id = session.session_id;
    view! {
        <tr>
            <td class="cell-title">
                <a class="font-medium hover:underline break-words" href=links::session(id)>
                    {shown(&session.environment_name)}
                </a>
            </td>
            <td data-label="ID">
                <CopyId short=short(id) whole=id.to_string() />
            </td>
            <td data-label="State">
                <span class="inline-flex flex-wrap items-center gap-x-2 gap-y-1">
                    <SessionBadge status=session.status pending=session.pending />
                    {(session.status != Status::Running)
                        .then(|| view! { <span class="text-xs text-ink-3">{shown(&session.message)}</span> })}
                </span>
            </td>
            <td data-label="Started by" class="text-ink-2 wrap-anywhere">
                {shown(&by)}
            </td>
            <td data-label="Created" class="text-ink-2 whitespace-nowrap">
                <Ago at=session.created_at />
            </td>
        </tr>
    }
    .into_any()
}

/// The form that starts one.
#[component]
fn Start(
    environments: Vec<Startable>,
    key: String,
    start: ServerAction<StartSession>,
) -> impl IntoView {
    if environments.is_empty() {
        return view! {
            <p class="text-sm text-ink-2">
                "There is no environment yet. "
                <a class="link" href=links::NEW_ENVIRONMENT>
                    "Create one"
                </a> " first."
            </p>
        }
        .into_any();
    }
    let first = environments
        .iter()
        .find(|environment| environment.reason.is_empty())
        .map(|environment| environment.environment_id.to_string());
    let none = first.is_none();
    let chosen = RwSignal::new(first.unwrap_or_default());
    let blocked = environments
        .iter()
        .filter(|environment| !environment.reason.is_empty())
        .map(|environment| {
            view! {
                <li>
                    <a class="link" href=links::environment(environment.environment_id)>
                        {shown(&environment.name)}
                    </a>
                    ": "
                    {environment.reason.clone()}
                </li>
            }
        })
        .collect_view();
    let blocked_count = environments
        .iter()
        .filter(|environment| !environment.reason.is_empty())
        .count();
    let options: Vec<(String, String)> = environments
        .iter()
        .filter(|environment| environment.reason.is_empty())
        .map(|environment| {
            (
                environment.environment_id.to_string(),
                shown(&environment.name),
            )
        })
        .collect();
    view! {
        <div class="card card-body flex flex-col gap-3">
            {if none {
                view! {
                    <p class="text-sm">"No environment can start a session as it is saved now."</p>
                }
                    .into_any()
            } else {
                view! {
                    <ActionForm action=start>
                        <input type="hidden" name="key" value=key />
                        <div class="start-row">
                            <Select
                                id="environment"
                                label="Environment"
                                name="environment_id"
                                value=chosen
                                options
                            />
                            <Submit
                                label="Start session"
                                class="button-primary"
                                icon=Icon::Play
                                busy=start.pending()
                            />
                        </div>
                    </ActionForm>
                }
                    .into_any()
            }}
            {(blocked_count > 0)
                .then(|| {
                    view! {
                        <details class="text-sm">
                            <summary class="cursor-pointer text-ink-2">
                                {crate::format::count(blocked_count as u64, "environment", "environments")}
                                " cannot start one now"
                            </summary>
                            <ul class="mt-2 flex flex-col gap-1 list-disc pl-5">{blocked}</ul>
                        </details>
                    }
                })}
        </div>
    }
    .into_any()
}

/// Keeps the list as it is on the server while the page is looked at.
#[cfg(feature = "hydrate")]
fn follow(page: RwSignal<wire::sessions::SessionsPage>, behind: Behind) {
    use crate::live::stream;
    leptos::reactive::spawn_local_scoped_with_cancellation(async move {
        loop {
            let moving = page.with_untracked(|page| {
                page.sessions.iter().any(|session| {
                    session.pending.is_some() || session.status == Status::Provisioning
                })
            });
            stream::pause(if moving { 1_000 } else { 5_000 }).await;
            if document().hidden() {
                continue;
            }
            let look = load_sessions().await;
            behind.looked(&look);
            if let Ok(all) = look {
                page.set(all.page);
            }
        }
    });
}

#[cfg(not(feature = "hydrate"))]
fn follow(_page: RwSignal<wire::sessions::SessionsPage>, _behind: Behind) {}
