//! The document, the root component, and the pages' addresses.

use leptos::prelude::*;
use leptos_meta::{Title, provide_meta_context};
use leptos_router::{
    SsrMode,
    components::{ParentRoute, Route, Router, Routes},
    path,
};

use crate::pages;

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

/// The root component. Every page waits for its data before it is sent: it is whole without scripting, and one that does
/// not exist answers 404.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    // For the style sheet and for tests: from here on the page answers by itself.
    Effect::new(move |_| {
        if let Some(body) = document().body() {
            // The body takes attributes.
            let _ = body.set_attribute("data-alive", "");
        }
    });
    view! {
        <Title text="Groundwork" />
        <Router>
            <Routes fallback=pages::NotFound>
                <Route path=path!("/setup") view=pages::SetUpPage ssr=SsrMode::Async />
                <Route path=path!("/sign-in") view=pages::SignInPage ssr=SsrMode::Async />
                <Route path=path!("/invite/:token") view=pages::InvitePage ssr=SsrMode::Async />
                <ParentRoute path=path!("") view=pages::Console ssr=SsrMode::Async>
                    <Route path=path!("/") view=pages::Home ssr=SsrMode::Async />
                    <Route path=path!("/environments") view=pages::EnvironmentsPage ssr=SsrMode::Async />
                    <Route path=path!("/environments/new") view=pages::NewEnvironmentPage ssr=SsrMode::Async />
                    <Route path=path!("/environments/:id") view=pages::EnvironmentPage ssr=SsrMode::Async />
                    <Route path=path!("/environments/:id/delete") view=pages::DeletePage ssr=SsrMode::Async />
                    <Route path=path!("/environments/:id/runs/:run") view=pages::RunPage ssr=SsrMode::Async />
                    <Route path=path!("/account") view=pages::AccountPage ssr=SsrMode::Async />
                    <Route path=path!("/members") view=pages::MembersPage ssr=SsrMode::Async />
                    <Route path=path!("/api-keys") view=pages::KeysPage ssr=SsrMode::Async />
                    <Route path=path!("/workers") view=pages::WorkersPage ssr=SsrMode::Async />
                    <Route path=path!("/audit") view=pages::AuditPage ssr=SsrMode::Async />
                </ParentRoute>
            </Routes>
        </Router>
    }
}
