//! The console: pages, components, server functions.
#![recursion_limit = "512"]

use leptos::prelude::*;

/// The root component.
#[component]
pub fn App() -> impl IntoView {
    view! { <main>"Groundwork"</main> }
}
