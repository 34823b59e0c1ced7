//! The document, the root component, and the pages' addresses.

use leptos::prelude::*;
use leptos_meta::{Title, provide_meta_context};
use leptos_router::{
    Lazy, SsrMode,
    components::{ParentRoute, Route, Router, Routes},
    path,
};

use crate::pages::{self, lazy};

/// The document around every page.
#[cfg(feature = "ssr")]
pub fn shell(options: LeptosOptions) -> impl IntoView {
    use leptos_meta::{HashedStylesheet, MetaTags};
    let parts = use_context::<http::request::Parts>();
    let theme = parts
        .as_ref()
        .and_then(|parts| parts.headers.get(http::header::COOKIE)?.to_str().ok())
        .map_or_else(Default::default, crate::theme::Theme::from_cookies);
    view! {
        <!DOCTYPE html>
        <html lang="en" data-theme=theme.attribute()>
            <head>
                <meta charset="utf-8" />
                <meta name="viewport" content="width=device-width, initial-scale=1" />
                <meta name="color-scheme" content="light dark" />
                <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
                <HashedStylesheet options=options.clone() id="style" />
                <HydrationScripts options />
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}

/// The pages' addresses, with those that only development builds have.
macro_rules! addresses {
    ($($development:tt)*) => {
        view! {
            <Title text="Groundwork" />
            <Router>
                <Routes fallback=pages::NotFound>
                    $($development)*
                    <Route path=path!("/setup") view={Lazy::<lazy::SetUpRoute>::new()} ssr=SsrMode::Async />
                    <Route path=path!("/sign-in") view={Lazy::<lazy::SignInRoute>::new()} ssr=SsrMode::Async />
                    <Route path=path!("/invite/:token") view={Lazy::<lazy::InviteRoute>::new()} ssr=SsrMode::Async />
                    <ParentRoute path=path!("") view=pages::Console ssr=SsrMode::Async>
                        <Route path=path!("/") view=pages::Home ssr=SsrMode::Async />
                        <Route path=path!("/environments") view=pages::EnvironmentsPage ssr=SsrMode::Async />
                        <Route path=path!("/environments/new") view={Lazy::<lazy::NewEnvironmentRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/environments/:id") view={Lazy::<lazy::EnvironmentRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/environments/:id/history") view={Lazy::<lazy::HistoryRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/environments/:id/delete") view={Lazy::<lazy::DeleteRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/environments/:id/runs/:run") view={Lazy::<lazy::RunRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/sessions") view={Lazy::<lazy::SessionsRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/sessions/:id") view={Lazy::<lazy::SessionRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/sessions/:id/delete") view={Lazy::<lazy::DeleteSessionRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/account") view={Lazy::<lazy::AccountRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/members") view={Lazy::<lazy::MembersRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/api-keys") view={Lazy::<lazy::KeysRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/workers") view={Lazy::<lazy::WorkersRoute>::new()} ssr=SsrMode::Async />
                        <Route path=path!("/audit") view={Lazy::<lazy::AuditRoute>::new()} ssr=SsrMode::Async />
                    </ParentRoute>
                </Routes>
            </Router>
            <Stopped />
        }
    };
}

/// What a page shows whose script has ended, by an error of its own or because a piece of it could not be loaded: after an
/// upgrade of the server its pieces are others. Hidden until [`stopped`].
#[component]
fn Stopped() -> impl IntoView {
    view! {
        <div id="stopped" class="stopped" role="alert" hidden>
            "This page has stopped: a part of it could not be loaded, or it met an error. "
            // Past the router, which has stopped with it.
            <a class="link" href="" rel="external">
                "Load it again"
            </a>
        </div>
    }
}

/// Says that the page's script has ended. For the panic hook: it asks nothing of the page's own state.
pub fn stopped() {
    if let Some(notice) = document().get_element_by_id("stopped") {
        // Elements take attributes.
        let _ = notice.remove_attribute("hidden");
    }
}

/// Marks the page as one that answers by itself, for tests. To be called when all that the server rendered has been taken
/// over: before that, a page whose piece is still on its way hears no key.
pub fn answers() {
    if let Some(body) = document().body() {
        // The body takes attributes.
        let _ = body.set_attribute("data-alive", "");
    }
}

/// The root component. Every page waits for its data before it is sent: it is whole without scripting, and one that does
/// not exist answers 404.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    provide_context(pages::Leaving::listen());
    #[cfg(debug_assertions)]
    let view = addresses! {
        <Route path=path!("/styleguide") view=pages::StyleguidePage ssr=SsrMode::Async />
    };
    #[cfg(not(debug_assertions))]
    let view = addresses! {};
    view
}
