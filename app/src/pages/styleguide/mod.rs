//! The style guide: the tokens, and every component with its states, in the chosen scheme. Development builds only.

mod controls;
mod lists;
mod messages;
mod patterns;
mod records;
#[cfg(test)]
mod tests;
mod tokens;

use leptos::{nonce::use_nonce, prelude::*};

use super::console::ThemeSwitch;
use crate::{components::PageHead, links, live::now::Now};

/// Draws the states that only a pointer or a key brings about.
const STATES: &str = include_str!("states.js");
/// The time that the guide's samples count from, microseconds.
const NOW: i64 = 1_790_000_000_000_000;

/// The style guide.
#[component]
pub fn StyleguidePage() -> impl IntoView {
    provide_context(Now::start(NOW));
    view! {
        <main id="main" class="page" tabindex="-1">
            <PageHead
                title="Style guide"
                sub="Tokens, and every component with its states. Only in development builds."
                above=(links::ENVIRONMENTS.to_owned(), "Environments".to_owned())
            >
                <ThemeSwitch />
            </PageHead>
            <tokens::Tokens />
            <controls::Controls />
            <messages::Messages />
            <records::Records />
            <patterns::Patterns />
        </main>
        <script type="module" nonce=use_nonce() inner_html=STATES></script>
    }
    .into_any()
}

/// A part of the guide.
#[component]
fn Part(title: &'static str, children: Children) -> impl IntoView {
    view! {
        <section class="flex flex-col gap-3">
            <h2 class="text-lg font-semibold">{title}</h2>
            {children()}
        </section>
    }
    .into_any()
}

/// One component.
#[component]
fn Specimen(title: &'static str, children: Children) -> impl IntoView {
    view! {
        <section class="card">
            <div class="card-head">
                <h3 class="card-title mono">{title}</h3>
            </div>
            <div class="card-body flex flex-wrap items-start gap-4">{children()}</div>
        </section>
    }
    .into_any()
}

/// One state of it. `show-hover`, `show-focus` and `show-active` draw what lies within as if the pointer or the focus was
/// there.
#[component]
fn State(
    name: &'static str,
    #[prop(optional)] class: &'static str,
    children: Children,
) -> impl IntoView {
    view! {
        <div class=format!("flex flex-col gap-1.5 min-w-0 {class}")>
            <p class="text-xs text-ink-3">{name}</p>
            <div class="min-w-0">{children()}</div>
        </div>
    }
    .into_any()
}
