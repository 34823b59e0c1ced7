//! Heads of pages, and the states in which there is no page to show: loading, not found, forbidden, failed.

use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::hooks::use_location;
use wire::error::Code;

use super::{
    basics::{Alert, Tone},
    icons::{Draw, Icon},
};
use crate::{api::AppError, links, text::raw};

/// The head of a page.
#[component]
pub fn PageHead(
    /// Title, also of the document.
    #[prop(into)]
    title: Signal<String>,
    /// Under the title.
    #[prop(optional, into)]
    sub: String,
    /// Path and name of the page above.
    #[prop(optional)]
    above: Option<(String, String)>,
    /// Actions.
    #[prop(optional)]
    children: Option<Children>,
) -> impl IntoView {
    view! {
        // The document's title is asked for once more when the page goes, and its signal may be gone by then.
        <Title text=move || match title.try_get() {
            Some(title) => raw(&format!("{title} · Groundwork")),
            None => "Groundwork".to_owned(),
        } />
        <header class="page-head">
            <div class="min-w-0">
                {above
                    .map(|(path, name)| {
                        view! {
                            <nav class="crumbs" aria-label="Breadcrumb">
                                <Draw icon=Icon::ChevronRight />
                                <a href=path>{name}</a>
                            </nav>
                        }
                    })} <h1 class="page-title">{move || title.get()}</h1>
                {(!sub.is_empty()).then(|| view! { <p class="page-sub">{sub}</p> })}
            </div>
            {children.map(|children| view! { <div class="flex flex-wrap gap-2">{children()}</div> })}
        </header>
    }
    .into_any()
}

/// The page around forms before signing in.
#[component]
pub fn Gate(
    /// Title.
    #[prop(into)]
    title: String,
    /// Under the title.
    #[prop(optional, into)]
    sub: String,
    /// The form.
    children: Children,
) -> impl IntoView {
    view! {
        <Title text=raw(&format!("{title} · Groundwork")) />
        <main id="main" class="gate" tabindex="-1">
            <div class="gate-box">
                <div class="flex flex-col gap-3">
                    <img class="brand-mark" src="/favicon.svg" alt="" width="22" height="22" />
                    <div>
                        <h1 class="page-title">{title}</h1>
                        {(!sub.is_empty()).then(|| view! { <p class="page-sub">{sub}</p> })}
                    </div>
                </div>
                {children()}
            </div>
        </main>
    }
    .into_any()
}

/// A page whose data is on its way.
#[component]
pub fn Loading() -> impl IntoView {
    view! {
        <div class="page" aria-busy="true">
            <span class="visually-hidden">"Loading"</span>
            <span class="skeleton w-48 h-6"></span>
            <div class="card card-body flex flex-col gap-4">
                <span class="skeleton w-full"></span>
                <span class="skeleton w-5/6"></span>
                <span class="skeleton w-2/3"></span>
                <span class="skeleton w-3/4"></span>
            </div>
        </div>
    }
}

/// The page in place of one that cannot be shown; gives the answer its status.
#[component]
pub fn Failure(
    /// Why.
    error: AppError,
) -> impl IntoView {
    #[cfg(feature = "ssr")]
    if error.code() != Code::Unauthorized {
        crate::api::door::set_page_status(error.code());
    }
    let title = title(error.code());
    view! {
        <Title text=format!("{title} · Groundwork") />
        <div class="page">
            <NoPage error />
        </div>
    }
    .into_any()
}

/// Why the last look of a page that keeps itself up to date failed; nothing when it did not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Behind(RwSignal<Option<Code>>);

impl Behind {
    /// How a look went.
    pub fn looked<T>(self, answer: &Result<T, AppError>) {
        let failed = answer.as_ref().err().map(AppError::code);
        // What stays as it was is not announced again.
        self.0.maybe_update(|code| {
            let news = *code != failed;
            *code = failed;
            news
        });
    }
}

/// Says so, and why, while a page is behind.
#[component]
pub fn BehindNote(
    /// The page's.
    behind: Behind,
) -> impl IntoView {
    view! {
        <div role="status" class="empty:hidden">
            {move || {
                let out = behind.0.get()? == Code::Unauthorized;
                Some(
                    view! {
                        <Alert tone=Tone::Warn>
                            "This page is no longer kept up to date: "
                            {if out { "you are signed out. " } else { "the server cannot be reached; it is tried again." }}
                            {out
                                .then(|| {
                                    view! {
                                        <a class="link" href=sign_in_here()>
                                            "Sign in"
                                        </a>
                                    }
                                })}
                        </Alert>
                    },
                )
            }}
        </div>
    }
    .into_any()
}

/// The sign-in page that leads back to the page that is shown: the router's, which the browser's own address may follow later.
fn sign_in_here() -> String {
    let at = use_location();
    let (path, search) = (at.pathname.get_untracked(), at.search.get_untracked());
    let mark = if search.is_empty() { "" } else { "?" };
    links::sign_in(Some(&format!("{path}{mark}{search}")))
}

const fn title(code: Code) -> &'static str {
    match code {
        Code::NotFound => "Not found",
        Code::Forbidden => "Not for your role",
        Code::Unauthorized => "Signed out",
        _ => "This page could not be loaded",
    }
}

/// Why there is no page, and the ways on.
#[component]
pub fn NoPage(
    /// Why.
    error: AppError,
) -> impl IntoView {
    let (icon, text) = match error.code() {
        Code::NotFound => (
            Icon::Search,
            "There is nothing at this address. It may have been deleted, or the link is wrong."
                .to_owned(),
        ),
        Code::Forbidden => (Icon::Lock, error.to_string()),
        Code::Unauthorized => (Icon::Lock, "Sign in to see this page.".to_owned()),
        _ => (Icon::TriangleAlert, error.to_string()),
    };
    let retry = !matches!(
        error.code(),
        Code::NotFound | Code::Forbidden | Code::Unauthorized
    );
    let request_id = error.request_id().map(ToOwned::to_owned);
    view! {
        <div class="empty" role="alert">
            <Draw icon />
            <h1 class="empty-title">{title(error.code())}</h1>
            <p class="empty-text">{text}</p>
            <div class="flex gap-2 mt-2">
                {retry.then(|| view! { <a class="button button-primary" href="" rel="external">"Try again"</a> })}
                {(error.code() == Code::Unauthorized)
                    .then(|| view! { <a class="button button-primary" href=sign_in_here()>"Sign in"</a> })}
                <a class="button" href=links::ENVIRONMENTS>
                    "Environments"
                </a>
            </div>
            {request_id.map(|id| view! { <p class="muted text-xs mt-3">"Request " <code class="mono">{id}</code></p> })}
        </div>
    }
    .into_any()
}
