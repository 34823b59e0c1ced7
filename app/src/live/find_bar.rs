//! Finding a text in the whole log.

use leptos::{ev, html, prelude::*};

use super::{log_bar::focus, viewer::Viewer};
use crate::{
    components::{Draw, Icon},
    format,
};

/// Id of the field.
const FIELD: &str = "log-find";

/// Opens the bar, and goes to its field.
pub(super) fn open(viewer: Viewer) {
    viewer.search.open.set(true);
    // The page is drawn later; whoever types on must not lose a letter until then.
    let bar = document()
        .get_element_by_id(FIELD)
        .and_then(|field| field.parent_element());
    if let Some(bar) = bar {
        // It is what the signal above does, too.
        let _ = bar.remove_attribute("hidden");
    }
    focus(FIELD);
}

/// Closes the bar, and goes back to the log.
fn close(viewer: Viewer) {
    viewer.search.open.set(false);
    if let Some(view) = viewer.nodes.0.get_untracked() {
        // It takes the focus.
        let _ = view.focus();
    }
}

/// The bar; it is there once one looks for something.
#[component]
pub fn FindBar(
    /// The log.
    viewer: Viewer,
) -> impl IntoView {
    let search = viewer.search;
    let field: NodeRef<html::Input> = NodeRef::new();
    let said = move || {
        if search.failed.get() {
            return "The search failed. Try again.".to_owned();
        }
        search.found.with(|found| match found {
            None => String::new(),
            Some(found) if found.total == 0 => "Not found".to_owned(),
            Some(found) => {
                let at = search.at.get().map_or(0, |at| at + 1);
                let more = if found.total > found.lines.len() as u64 {
                    format!(
                        " (the first {} can be gone to)",
                        format::grouped(found.lines.len() as u64)
                    )
                } else {
                    String::new()
                };
                format!(
                    "{} of {}{more}",
                    format::grouped(at as u64),
                    format::count(found.total, "line", "lines")
                )
            }
        })
    };
    let typed = move |event: &ev::KeyboardEvent| match event.key().as_str() {
        "Enter" => {
            event.prevent_default();
            viewer.step(!event.shift_key());
        }
        "Escape" => {
            event.prevent_default();
            event.stop_propagation();
            close(viewer);
        }
        _ => {}
    };
    view! {
        <div class="log-find" role="search" hidden=move || !search.open.get()>
            <Draw icon=Icon::Search />
            <input
                node_ref=field
                id=FIELD
                class="input log-find-field"
                type="search"
                placeholder="Find in the whole log"
                aria-label="Find in the whole log"
                autocomplete="off"
                spellcheck="false"
                on:input:target=move |event| {
                    search.text.set(event.target().value());
                    viewer.find();
                }
                on:keydown=move |event| typed(&event)
            />
            <span class="log-find-count" role="status">
                {said}
            </span>
            <StepButton viewer forward=false />
            <StepButton viewer forward=true />
            <button
                type="button"
                class="button button-ghost button-icon button-small"
                aria-label="Close the search"
                title="Close (Escape)"
                on:click=move |_| close(viewer)
            >
                <Draw icon=Icon::X />
            </button>
        </div>
    }
    .into_any()
}

#[component]
fn StepButton(viewer: Viewer, forward: bool) -> impl IntoView {
    let (label, title, icon) = if forward {
        ("Next match", "Next match (Enter)", Icon::ChevronDown)
    } else {
        (
            "Previous match",
            "Previous match (Shift+Enter)",
            Icon::ChevronUp,
        )
    };
    view! {
        <button
            type="button"
            class="button button-ghost button-icon button-small"
            aria-label=label
            title=title
            on:click=move |_| viewer.step(forward)
        >
            <Draw icon />
        </button>
    }
    .into_any()
}
