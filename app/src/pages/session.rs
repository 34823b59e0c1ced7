//! One session: how it stands, its terminal, what it uses.

use domain::{
    ids::SessionId,
    session::{Status, Wish},
};
use leptos::prelude::*;
use leptos_router::hooks::use_params_map;
use wire::{error::Code, sessions::SessionPage as Page};

use crate::{
    api::{
        AppError, page_data,
        sessions::{DeleteSession, OneSession, ResumeSession, StopSession, load_session},
    },
    components::{
        Alert, Behind, BehindNote, ConfirmDelete, CopyId, Draw, Failure, Icon, Loading, PageHead,
        Refused, Submit, Tone,
    },
    links,
    live::now::{Ago, Now},
    pages::{
        session_charts::Charts,
        sessions::{SessionBadge, short},
    },
    text::shown,
};

fn session_id() -> Memo<Option<SessionId>> {
    let params = use_params_map();
    Memo::new(move |_| {
        params
            .read()
            .get("id")
            .and_then(|id| id.parse::<SessionId>().ok())
    })
}

async fn load(id: Option<SessionId>) -> Result<OneSession, AppError> {
    match id {
        Some(id) => load_session(id).await,
        None => Err(AppError::new(Code::NotFound, "")),
    }
}

/// The page.
#[component]
pub fn SessionPage() -> impl IntoView {
    let id = session_id();
    let page = page_data(move || id.get(), load);
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Ok(one) => view! { <Loaded one /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Suspense>
    }
}

#[component]
fn Loaded(one: OneSession) -> impl IntoView {
    provide_context(Now::start(one.now_micros));
    let id = one.page.session.session_id;
    let page = RwSignal::new(one.page.clone());
    let gone = RwSignal::new(false);
    let stop = ServerAction::<StopSession>::new();
    let resume = ServerAction::<ResumeSession>::new();
    let behind = Behind::default();
    follow(id, page, gone, behind, (stop, resume));
    let refused = Signal::derive(move || {
        let stopped = stop.value().get().and_then(Result::err);
        stopped.or_else(|| resume.value().get().and_then(Result::err))
    });
    let standing =
        Memo::new(move |_| page.with(|page| (page.session.status, page.session.pending)));
    let usable = Memo::new(move |_| {
        standing.get() == (Status::Running, None) && page.with(|page| page.may_use)
    });
    let first = one.page.session;
    let environment = first.environment_id;
    let name = shown(&first.environment_name);
    let title = format!("Session {}", short(id));
    view! {
        <div class="page page-wide">
            <PageHead title above=(links::SESSIONS.to_owned(), "Sessions".to_owned())>
                <Actions page standing stop resume />
            </PageHead>
            <p class="flex flex-wrap items-center gap-3 text-sm text-ink-2">
                <span role="status">
                    {move || {
                        let (status, pending) = standing.get();
                        view! { <SessionBadge status pending /> }
                    }}
                </span>
                <span>
                    {if one.page.environment_exists {
                        view! {
                            <a class="link" href=links::environment(environment)>
                                {name}
                            </a>
                        }
                            .into_any()
                    } else {
                        view! { <span>{name} " (deleted)"</span> }.into_any()
                    }}
                </span>
                <CopyId short=short(id) whole=id.to_string() />
                <span>{shown(&one.page.started_by)} ", " <Ago at=first.created_at /></span>
            </p>
            <BehindNote behind />
            <Refused error=refused />
            <Show when=move || gone.get()>
                <Alert tone=Tone::Plain title="This session is gone.">
                    <a class="link" href=links::SESSIONS>
                        "All sessions"
                    </a>
                </Alert>
            </Show>
            <Standing page standing />
            <div class="split">
                <section class="card terminal-card" aria-label="Terminal">
                    {move || {
                        if usable.get() {
                            view! { <Shell id /> }.into_any()
                        } else {
                            view! { <NoShell page standing /> }.into_any()
                        }
                    }}
                </section>
                <div class="split-side">
                    <section class="card card-body flex flex-col gap-3" aria-label="Resources">
                        <h2 class="text-base font-semibold">"Resources"</h2>
                        {move || {
                            let running = standing.get().0 == Status::Running;
                            let (session, samples) = page
                                .with(|page| (page.session.clone(), page.samples.clone()));
                            if running {
                                view! { <Charts session samples /> }.into_any()
                            } else {
                                view! { <p class="text-sm text-ink-2">"Measured while it runs."</p> }.into_any()
                            }
                        }}
                    </section>
                    <Facts page />
                </div>
            </div>
        </div>
    }
    .into_any()
}

/// Stop, resume, delete, and the way to the port. Forms, so that they work without scripting.
#[component]
fn Actions(
    page: RwSignal<Page>,
    standing: Memo<(Status, Option<Wish>)>,
    stop: ServerAction<StopSession>,
    resume: ServerAction<ResumeSession>,
) -> impl IntoView {
    move || {
        let (status, pending) = standing.get();
        let (id, port, may) = page.with(|page| {
            let session = &page.session;
            (session.session_id, session.http_port, page.may_use)
        });
        if !may {
            return None;
        }
        let running = status == Status::Running && pending.is_none();
        let stoppable = status.is_live() && pending.is_none();
        let resumable = status == Status::Stopped && pending.is_none();
        Some(view! {
            {port
                .filter(|_| running)
                .map(|port| {
                    view! {
                        <a class="button" href=links::session_port(id) target="_blank" rel="noopener external">
                            <Draw icon=Icon::Globe />
                            {format!("Open port {port}")}
                        </a>
                    }
                })}
            {stoppable
                .then(|| {
                    view! {
                        <ActionForm action=stop>
                            <input type="hidden" name="session_id" value=id.to_string() />
                            <Submit label="Stop" icon=Icon::CircleStop busy=stop.pending() />
                        </ActionForm>
                    }
                })}
            {resumable
                .then(|| {
                    view! {
                        <ActionForm action=resume>
                            <input type="hidden" name="session_id" value=id.to_string() />
                            <Submit
                                label="Resume"
                                class="button-primary"
                                icon=Icon::Play
                                busy=resume.pending()
                            />
                        </ActionForm>
                    }
                })}
            {(pending != Some(Wish::Delete))
                .then(|| {
                    view! {
                        <a class="button button-ghost" href=links::delete_session(id)>
                            <Draw icon=Icon::Trash2 />
                            "Delete"
                        </a>
                    }
                })}
        })
    }
}

/// What there is to know when it does not simply run.
#[component]
fn Standing(page: RwSignal<Page>, standing: Memo<(Status, Option<Wish>)>) -> impl IntoView {
    move || {
        let (status, pending) = standing.get();
        let message = page.with(|page| shown(&page.session.message));
        match (status, pending) {
            (Status::Failed, None) => Some(view! {
                <Alert tone=Tone::Bad title="It failed.">
                    {message}
                </Alert>
            }),
            (Status::Stopped, None) => Some(view! {
                <Alert tone=Tone::Plain title="It is stopped.">
                    {message}
                </Alert>
            }),
            _ => None,
        }
    }
}

/// The terminal; drawn by `public/terminal/terminal.js`.
#[component]
fn Shell(id: SessionId) -> impl IntoView {
    load_terminal();
    view! {
        <session-terminal src=links::session_terminal(id)></session-terminal>
        <p class="terminal-foot" id="terminal-after" tabindex="-1">
            "Tab goes to the shell; "
            <kbd class="kbd">"Shift"</kbd>
            " + "
            <kbd class="kbd">"Esc"</kbd>
            " leaves the terminal. A lost connection comes back to the same shell."
        </p>
        <noscript>
            <p class="card-body">"The terminal needs scripting. Without it, run commands through the API."</p>
        </noscript>
    }
    .into_any()
}

#[component]
fn NoShell(page: RwSignal<Page>, standing: Memo<(Status, Option<Wish>)>) -> impl IntoView {
    let may = page.with_untracked(|page| page.may_use);
    let text = move || match standing.get() {
        _ if !may => "Using sessions takes the role developer or admin.",
        (_, Some(Wish::Delete)) => "The session is being deleted.",
        (_, Some(Wish::Stop)) => "The session is being stopped; its files are kept.",
        (Status::Provisioning, _) => "The sandbox is being prepared.",
        (Status::Stopped, _) => {
            "Resume the session to open a terminal. Its files are as they were."
        }
        _ => "There is no terminal.",
    };
    view! {
        <div class="empty terminal-none">
            <Draw icon=Icon::Terminal />
            <p class="empty-text">{text}</p>
        </div>
    }
    .into_any()
}

#[component]
fn Facts(page: RwSignal<Page>) -> impl IntoView {
    let first = page.with_untracked(|page| page.session.clone());
    let size = first.resources;
    let kept = crate::format::duration(i64::from(first.stopped_delete_after_seconds) * 1_000);
    let idle = crate::format::duration(i64::from(first.idle_stop_after_seconds) * 1_000);
    let image = match (&first.image, first.environment_id) {
        (Some(image), environment) => {
            let path = links::run(environment, image.setup_run_id);
            let text = format!("generation {}", image.generation);
            view! {
                <a class="link" href=path>
                    {text}
                </a>
            }
            .into_any()
        }
        (None, environment) => match first.setup_run_id {
            Some(run) => {
                let path = links::run(environment, run);
                view! {
                    "an image that "
                    <a class="link" href=path>
                        "this setup run"
                    </a>
                    " was to prepare on the changed runner image"
                }
                .into_any()
            }
            None => view! { "the runner image alone" }.into_any(),
        },
    };
    view! {
        <section class="card card-body" aria-label="Facts">
            <dl class="pairs">
                <dt>"Size"</dt>
                <dd>
                    {format!(
                        "{} vCPU · {} GiB · {} GiB disk",
                        f64::from(size.cpu_milli) / 1_000.0,
                        f64::from(size.memory_mib) / 1_024.0,
                        size.disk_gi,
                    )}
                </dd>
                <dt>"Started from"</dt>
                <dd>"revision " {first.environment_revision} ", " {image}</dd>
                <dt>"Idle stop"</dt>
                <dd>"after " {idle} " without a command or terminal"</dd>
                <dt>"Kept when stopped"</dt>
                <dd>{kept}</dd>
                <dt>"Worker"</dt>
                <dd class="break-all">{first.worker}</dd>
            </dl>
        </section>
    }
    .into_any()
}

/// Asks before a session is deleted.
#[component]
pub fn DeleteSessionPage() -> impl IntoView {
    let id = session_id();
    let page = page_data(move || id.get(), load);
    let action = ServerAction::<DeleteSession>::new();
    let error = Signal::derive(move || action.value().get().and_then(Result::err));
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                let page = match page.await {
                    Ok(one) => one.page,
                    Err(error) => return view! { <Failure error /> }.into_any(),
                };
                if !page.may_use {
                    let error = AppError::new(Code::Forbidden, "Your role may not delete sessions.");
                    return view! { <Failure error /> }.into_any();
                }
                let id = page.session.session_id;
                let live = page.session.status.is_live();
                view! {
                    <div class="page page-narrow">
                        <PageHead
                            title="Delete session"
                            above=(links::session(id), format!("Session {}", short(id)))
                        />
                        <ActionForm action>
                            <input type="hidden" name="session_id" value=id.to_string() />
                            <ConfirmDelete back=links::session(id) error busy=action.pending()>
                                <p>
                                    "Delete the session of "
                                    <strong class="break-words">{shown(&page.session.environment_name)}</strong>
                                    " with its files? There is no way back. The environment stays."
                                </p>
                                {live
                                    .then(|| {
                                        view! {
                                            <Alert tone=Tone::Warn>"It runs. Everything in it will be ended."</Alert>
                                        }
                                    })}
                            </ConfirmDelete>
                        </ActionForm>
                    </div>
                }
                    .into_any()
            })}
        </Suspense>
    }
}

/// Keeps the page as the session is while it is looked at.
#[cfg(feature = "hydrate")]
fn follow(
    id: SessionId,
    page: RwSignal<Page>,
    gone: RwSignal<bool>,
    behind: Behind,
    (stop, resume): (ServerAction<StopSession>, ServerAction<ResumeSession>),
) {
    use crate::live::stream;
    let look = move || async move {
        let look = load_session(id).await;
        // The page may have been left meanwhile.
        if page.is_disposed() {
            return;
        }
        if look.as_ref().err().map(AppError::code) == Some(Code::NotFound) {
            gone.set(true);
            return;
        }
        behind.looked(&look);
        if let Ok(one) = look {
            page.set(one.page);
        }
    };
    Effect::new(move |_| {
        stop.version().track();
        resume.version().track();
        leptos::task::spawn_local(look());
    });
    leptos::reactive::spawn_local_scoped_with_cancellation(async move {
        while !gone.get_untracked() {
            let moving = page.with_untracked(|page| {
                page.session.pending.is_some() || page.session.status == Status::Provisioning
            });
            stream::pause(if moving { 500 } else { 5_000 }).await;
            if !document().hidden() {
                look().await;
            }
        }
    });
}

#[cfg(not(feature = "hydrate"))]
fn follow(
    _id: SessionId,
    _page: RwSignal<Page>,
    _gone: RwSignal<bool>,
    _behind: Behind,
    _actions: (ServerAction<StopSession>, ServerAction<ResumeSession>),
) {
}

/// Loads the terminal's script, on this page alone.
fn load_terminal() {
    const PATH: &str = "/terminal/terminal.js";
    Effect::new(move |_| {
        let document = document();
        let there = document
            .query_selector("script[data-terminal]")
            .ok()
            .flatten();
        if there.is_some() {
            return;
        }
        let (Ok(script), Some(head)) = (document.create_element("script"), document.head()) else {
            return;
        };
        // A fresh element takes attributes, and a head takes children.
        let _ = script.set_attribute("type", "module");
        let _ = script.set_attribute("data-terminal", "");
        let _ = script.set_attribute("src", PATH);
        let _ = head.append_child(&script);
    });
}
