//! The frame around pages of people who signed in: sidebar, keyboard, the way to the content.

use leptos::{ev, prelude::*};
use leptos_router::{
    components::{Outlet, Redirect},
    hooks::{use_location, use_navigate},
};
use server_fn::ServerFn as _;
use wasm_bindgen::JsCast as _;
use wire::error::Code;

use crate::{
    api::{
        AppError, PageData, page_data,
        signing::{ChooseTheme, Frame, SignOut, load_frame},
    },
    components::{Dialog, Draw, Failure, Icon},
    links,
    pages::leaving::Leaving,
    text::shown,
    theme::Theme,
};

/// Who looks, for pages that want to know.
#[derive(Clone, Copy)]
pub struct FrameData(pub PageData<Result<Frame, AppError>>);

/// The frame.
#[component]
pub fn Console() -> impl IntoView {
    let frame = page_data(|| (), |()| load_frame());
    provide_context(FrameData(frame));
    let shortcuts = RwSignal::new(false);
    let may_create = RwSignal::new(false);
    let leaving = expect_context::<Leaving>();
    listen_to_keys(shortcuts, may_create, leaving);
    let keys = Keys {
        shortcuts,
        may_create,
    };
    let location = use_location();
    let at = Signal::derive(move || location.pathname.get());
    let sidebar = view! {
        <Transition fallback=|| view! { <Brand /> }>
            {move || Suspend::new(async move {
                frame.await.ok().map(|frame| view! { <Sidebar frame at keys /> })
            })}
        </Transition>
    };
    view! {
        <Around sidebar=sidebar.into_any()>
            <Outlet />
        </Around>
        <Shortcuts open=shortcuts may_create />
    }
    .into_any()
}

/// The frame's boxes.
#[component]
pub(crate) fn Around(sidebar: AnyView, children: Children) -> impl IntoView {
    view! {
        <a class="skip-link" href="#main">
            "Skip to content"
        </a>
        <div class="shell">
            <header class="topbar">
                <button
                    type="button"
                    class="button button-ghost button-icon"
                    popovertarget="sidebar"
                    aria-label="Menu"
                >
                    <Draw icon=Icon::Menu />
                </button>
                <Brand />
            </header>
            <aside id="sidebar" class="sidebar" popover="auto" aria-label="Sidebar">
                {sidebar}
            </aside>
            <main id="main" tabindex="-1">
                {children()}
            </main>
        </div>
    }
}

#[component]
fn Brand() -> impl IntoView {
    view! {
        <a class="brand" href=links::ENVIRONMENTS>
            <img class="brand-mark" src="/favicon.svg" alt="" width="22" height="22" />
            "Groundwork"
        </a>
    }
}

/// What the sidebar and the dialog of shortcuts tell each other.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    shortcuts: RwSignal<bool>,
    may_create: RwSignal<bool>,
}

/// The ways through the console, for who looks from the page `at`; with the button of the shortcuts where there are any.
#[component]
pub(crate) fn Sidebar(
    frame: Frame,
    at: Signal<String>,
    #[prop(optional)] keys: Option<Keys>,
) -> impl IntoView {
    let viewer = frame.viewer;
    let may = viewer.may;
    Effect::new(move |_| {
        if let Some(keys) = keys {
            keys.may_create.set(may.change);
        }
    });
    let admin = may.manage_members || may.manage_api_keys || may.manage_workers || may.read_audit;
    let name = if viewer.display_name.is_empty() {
        viewer.email.clone()
    } else {
        viewer.display_name.clone()
    };
    let name = shown(&name);
    let initial: String = name.chars().take(1).collect();
    view! {
        <Brand />
        <p class="nav-title truncate">{shown(&viewer.organization_name)}</p>
        <nav class="flex flex-col gap-0.5" aria-label="Main">
            <Item at path=links::ENVIRONMENTS icon=Icon::Layers label="Environments" />
            <Item at path=links::SESSIONS icon=Icon::Terminal label="Sessions" />
            // A page of the server's own, outside the router's.
            <a class="nav-item" href=links::API rel="external" aria-current=current(links::API, at)>
                <Draw icon=Icon::CodeXml />
                "API"
            </a>
            {admin.then(|| view! { <p class="nav-title">"Administration"</p> })}
            {may.manage_members.then(|| view! { <Item at path="/members" icon=Icon::Users label="Members" /> })}
            {may.manage_api_keys.then(|| view! { <Item at path="/api-keys" icon=Icon::KeyRound label="API keys" /> })}
            {may.manage_workers.then(|| view! { <Item at path="/workers" icon=Icon::Server label="Workers" /> })}
            {may.read_audit.then(|| view! { <Item at path="/audit" icon=Icon::ScrollText label="Audit log" /> })}
        </nav>
        <div class="nav-foot">
            <div class="flex items-center justify-between">
                <ThemeSwitch />
                {keys
                    .map(|keys| {
                        view! {
                            <button
                                type="button"
                                class="button button-ghost button-icon button-small"
                                aria-label="Keyboard shortcuts"
                                title="Keyboard shortcuts"
                                on:click=move |_| keys.shortcuts.set(true)
                            >
                                <Draw icon=Icon::Keyboard />
                            </button>
                        }
                    })}
            </div>
            <div class="flex items-center gap-2 border-t border-line pt-3">
                <a
                    class="nav-item flex-1 min-w-0 h-auto py-1.5"
                    href="/account"
                    aria-current=current("/account", at)
                >
                    <span class="avatar" aria-hidden="true">
                        {initial}
                    </span>
                    <span class="min-w-0 flex flex-col leading-tight">
                        <span class="truncate text-ink">{name}</span>
                        <span class="truncate text-xs font-normal text-ink-3">{viewer.role.to_string()}</span>
                    </span>
                </a>
                <SignOutButton />
            </div>
        </div>
    }
    .into_any()
}

#[component]
fn SignOutButton() -> impl IntoView {
    // A plain form: the whole page goes, and with it whatever it knew.
    view! {
        <form method="post" action=SignOut::url()>
            <button type="submit" class="button button-ghost button-icon" aria-label="Sign out" title="Sign out">
                <Draw icon=Icon::LogOut />
            </button>
        </form>
    }
}

fn current(path: &'static str, at: Signal<String>) -> impl Fn() -> Option<&'static str> {
    move || {
        at.with(|at| {
            at.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
        .then_some("page")
    }
}

#[component]
fn Item(at: Signal<String>, path: &'static str, icon: Icon, label: &'static str) -> impl IntoView {
    view! {
        <a class="nav-item" href=path aria-current=current(path, at)>
            <Draw icon />
            {label}
        </a>
    }
}

/// The colour scheme, chosen.
#[component]
pub fn ThemeSwitch() -> impl IntoView {
    let choice = |theme: Theme, icon: Icon, label: &'static str| {
        view! {
            <button
                type="submit"
                name="theme"
                value=theme.word()
                class="button button-ghost button-icon button-small"
                aria-label=label
                title=label
                on:click=move |event: ev::MouseEvent| {
                    event.prevent_default();
                    apply(theme);
                }
            >
                <Draw icon />
            </button>
        }
    };
    view! {
        <form method="post" action=ChooseTheme::url()>
            <div class="flex" role="group" aria-label="Colour scheme">
                {choice(Theme::System, Icon::Monitor, "As the system")}
                {choice(Theme::Light, Icon::Sun, "Light")} {choice(Theme::Dark, Icon::Moon, "Dark")}
            </div>
        </form>
    }
    .into_any()
}

/// Shows a scheme at once and remembers it, without asking the server.
fn apply(theme: Theme) {
    let document = document();
    if let Some(root) = document.document_element() {
        // The document's element takes attributes.
        let _ = match theme.attribute() {
            Some(word) => root.set_attribute("data-theme", word),
            None => root.remove_attribute("data-theme"),
        };
    }
    if let Ok(document) = document.dyn_into::<web_sys::HtmlDocument>() {
        let secure = if window().location().protocol().as_deref() == Ok("https:") {
            "; Secure"
        } else {
            ""
        };
        // Refused only where cookies are off; the choice then lasts for this page.
        let _ = document.set_cookie(&format!("{}{secure}", theme.cookie()));
    }
}

const KEYS: [(&str, &str); 4] = [
    ("/", "Search environments"),
    ("n", "Create environment"),
    ("e", "Go to environments"),
    ("?", "Show these shortcuts"),
];

#[component]
fn Shortcuts(open: RwSignal<bool>, may_create: RwSignal<bool>) -> impl IntoView {
    view! {
        <Dialog open title="Keyboard shortcuts" heading_id="shortcuts-title">
            <div class="dialog-body">
                <dl class="pairs">
                    {KEYS
                        .map(|(key, what)| {
                            view! {
                                <dt hidden=move || key == "n" && !may_create.get()>
                                    <kbd class="kbd">{key}</kbd>
                                </dt>
                                <dd hidden=move || key == "n" && !may_create.get()>{what}</dd>
                            }
                        })
                        .into_iter()
                        .collect_view()}
                </dl>
                <p class="field-hint mt-4">"They can be turned off on the page of your account."</p>
            </div>
            <div class="dialog-foot">
                <button type="button" class="button" on:click=move |_| open.set(false)>
                    "Close"
                </button>
            </div>
        </Dialog>
    }
    .into_any()
}

/// Under which name a browser keeps that its reader turned the keys off.
const KEYS_KEPT: &str = "groundwork.keys";
const OFF: &str = "off";

/// Whether single keys do something. Who speaks to the machine, or hits keys unwillingly, turns them off.
pub(crate) fn keys_are_on() -> bool {
    let storage = window().local_storage().ok().flatten();
    let kept = storage.and_then(|storage| storage.get_item(KEYS_KEPT).ok().flatten());
    kept.as_deref() != Some(OFF)
}

/// Keeps whether they do.
pub(crate) fn turn_keys(on: bool) {
    if let Ok(Some(storage)) = window().local_storage() {
        // A full or forbidden storage forgets, and that is all.
        let _ = storage.set_item(KEYS_KEPT, if on { "" } else { OFF });
    }
}

/// Single keys, unless one is typing, a dialog is open, or they are turned off.
fn listen_to_keys(shortcuts: RwSignal<bool>, may_create: RwSignal<bool>, leaving: Leaving) {
    let navigate = use_navigate();
    Effect::new(move |_| {
        let navigate = navigate.clone();
        let go = move |address: &str| {
            if leaving.may(address) {
                navigate(address, Default::default());
            }
        };
        let handle = window_event_listener(ev::keydown, move |event| {
            if event.ctrl_key()
                || event.meta_key()
                || event.alt_key()
                || event.default_prevented()
                || is_typing(&event)
                || !keys_are_on()
            {
                return;
            }
            match event.key().as_str() {
                "/" => {
                    event.prevent_default();
                    if let Some(search) = focusable("search") {
                        let _ = search.focus();
                    } else {
                        go(&format!("{}#search", links::ENVIRONMENTS));
                    }
                }
                "n" if may_create.get_untracked() => go(links::NEW_ENVIRONMENT),
                "e" => go(links::ENVIRONMENTS),
                "?" => shortcuts.set(true),
                _ => {}
            }
        });
        on_cleanup(move || handle.remove());
    });
}

fn focusable(id: &str) -> Option<web_sys::HtmlElement> {
    document().get_element_by_id(id)?.dyn_into().ok()
}

fn is_typing(event: &ev::KeyboardEvent) -> bool {
    let Some(element) = event
        .target()
        .and_then(|target| target.dyn_into::<web_sys::Element>().ok())
    else {
        return false;
    };
    matches!(element.tag_name().as_str(), "INPUT" | "TEXTAREA" | "SELECT")
        || document()
            .query_selector("dialog[open]")
            .ok()
            .flatten()
            .is_some()
}

/// `/` is the environments.
#[component]
pub fn Home() -> impl IntoView {
    view! { <Redirect path=links::ENVIRONMENTS /> }
}

/// Nothing has this address.
#[component]
pub fn NotFound() -> impl IntoView {
    view! {
        <main id="main" tabindex="-1">
            <Failure error=AppError::new(Code::NotFound, "") />
        </main>
    }
}
