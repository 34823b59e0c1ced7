//! What stands above a log: how it stands, and what one can do with it.

use domain::{limits::log_limit_reached, setup_run::Stream};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;

use super::{
    follow::{ASK_EVERY, Link},
    prefs::{Prefs, Times},
    viewer::Viewer,
};
use crate::{
    components::{
        Draw, Icon,
        basics::{alive, copy_text},
    },
    format, links,
};

/// Moves the focus.
pub(super) fn focus(id: &str) {
    let element = document().get_element_by_id(id);
    if let Some(element) = element.and_then(|it| it.dyn_into::<web_sys::HtmlElement>().ok()) {
        // It is there, and takes the focus.
        let _ = element.focus();
    }
}

/// Copies the picked lines, or all that are shown.
pub(super) fn copy(viewer: Viewer) {
    leptos::task::spawn_local(async move {
        if let Some(text) = viewer.text().await {
            copy_text(&text);
            viewer.copied.set(true);
            set_timeout(
                move || {
                    // The page may be gone.
                    viewer.copied.try_set(false);
                },
                std::time::Duration::from_millis(1_600),
            );
        }
    });
}

/// How the log stands: for the style sheet, and for people.
fn standing(viewer: Viewer, alive: bool) -> (&'static str, String) {
    let (removed, finished) = viewer
        .run
        .with(|run| (run.log.removed_at.is_some(), run.finished));
    if removed {
        return ("removed", "Log removed".to_owned());
    }
    if !alive {
        let text = if finished { "Complete" } else { "As of now" };
        return ("still", text.to_owned());
    }
    match viewer.link.get() {
        Link::Connecting => ("connecting", "Connecting…".to_owned()),
        Link::Live => ("live", "Live".to_owned()),
        Link::Reconnecting => ("reconnecting", "Reconnecting…".to_owned()),
        Link::Asking => ("live", format!("Live, every {} s", ASK_EVERY / 1_000)),
        Link::Complete => ("complete", "Complete".to_owned()),
        Link::Stopped(why) => ("stopped", why),
    }
}

/// The bar.
#[component]
pub fn Bar(
    /// The log.
    viewer: Viewer,
) -> impl IntoView {
    let alive = alive();
    let standing = Memo::new(move |_| standing(viewer, alive.get()));
    let (environment, run) = viewer.ids();
    let removed = move || viewer.run.with(|run| run.log.removed_at.is_some());
    view! {
        <div class="log-bar">
            <span class="log-state" data-state=move || standing.get().0 role="status">
                {move || standing.get().1}
            </span>
            <span>
                {move || {
                    let facts = viewer.run.with(|run| run.log);
                    let lines = facts.lines.max(viewer.last());
                    let size = if facts.bytes > 0 { format!(" · {}", format::bytes(facts.bytes)) } else { String::new() };
                    format!("{}{size}", format::count(lines, "line", "lines"))
                }}
            </span>
            {move || {
                viewer
                    .run
                    .with(|run| run.log.truncated.then(|| log_limit_reached(run.log.lines)))
                    .map(|limit| {
                        view! {
                            <span class="text-warn">
                                {format!("Cut at {limit}: the beginning is kept, and the last of stderr.")}
                            </span>
                        }
                    })
            }}
            <span class="log-tools" hidden=removed>
                <span class="contents" hidden=move || !alive.get()>
                    <Tool label="Find" title="Find in the whole log (f)" icon=Icon::Search act=move || super::find_bar::open(viewer) />
                    <ShowMenu viewer />
                    <FoldAll viewer />
                    <Tool label="Copy" title="Copy the picked lines, or all that are shown (c)" icon=Icon::Copy act=move || copy(viewer) />
                </span>
                <a
                    class="button button-ghost button-small"
                    href=format!("{}/log.txt", links::run(environment, run))
                    download=""
                    rel="external"
                    title="Download the whole log as text"
                >
                    <Draw icon=Icon::Download />
                    <span class="log-tool-name">"Download"</span>
                </a>
            </span>
            <span class="visually-hidden" aria-live="polite">
                {move || if viewer.copied.get() { "Copied" } else { "" }}
            </span>
        </div>
    }
    .into_any()
}

#[component]
fn Tool(
    label: &'static str,
    title: &'static str,
    icon: Icon,
    act: impl Fn() + 'static,
) -> impl IntoView {
    view! {
        <button type="button" class="button button-ghost button-small" title=title aria-label=label on:click=move |_| act()>
            <Draw icon />
            <span class="log-tool-name">{label}</span>
        </button>
    }
    .into_any()
}

#[component]
fn FoldAll(viewer: Viewer) -> impl IntoView {
    let folded = move || viewer.folded.with(|folded| !folded.is_empty());
    let label = move || if folded() { "Unfold all" } else { "Fold all" };
    view! {
        <button
            type="button"
            class="button button-ghost button-small"
            title="Fold or unfold the output of every script line"
            aria-label=label
            on:click=move |_| {
                if viewer.folded.with_untracked(|folded| !folded.is_empty()) {
                    viewer.folded.update(std::collections::BTreeSet::clear);
                } else {
                    viewer.fold_all();
                }
            }
        >
            {move || view! { <Draw icon=if folded() { Icon::ChevronDown } else { Icon::ChevronRight } /> }}
            <span class="log-tool-name">{label}</span>
        </button>
    }
    .into_any()
}

/// What is shown, and how.
#[component]
fn ShowMenu(viewer: Viewer) -> impl IntoView {
    let prefs = viewer.prefs;
    let change = move |change: fn(&mut Prefs)| {
        prefs.update(change);
        prefs.get_untracked().keep();
    };
    let streams = [
        (Stream::Marker, "Script lines"),
        (Stream::Stdout, "stdout"),
        (Stream::Stderr, "stderr"),
        (Stream::System, "Notes of the run"),
    ];
    let times = [
        (
            Times::Clock,
            "Time of day",
            (|prefs| prefs.times = Times::Clock) as fn(&mut Prefs),
        ),
        (Times::Since, "Since the start", |prefs| {
            prefs.times = Times::Since
        }),
        (Times::Off, "No times", |prefs| prefs.times = Times::Off),
    ];
    view! {
        <button type="button" class="button button-ghost button-small" popovertarget="log-show" title="What is shown, and how">
            <Draw icon=Icon::ScrollText />
            <span class="log-tool-name">"Show"</span>
            {move || (!viewer.hidden.get().is_empty()).then(|| view! { <span class="log-filtered">"filtered"</span> })}
        </button>
        <div id="log-show" popover="auto" class="menu log-show">
            <fieldset>
                <legend>"Lines of"</legend>
                {streams
                    .into_iter()
                    .map(|(stream, label)| {
                        tick(
                            "checkbox",
                            "",
                            label,
                            Signal::derive(move || !viewer.hidden.get().has(stream)),
                            Box::new(move || viewer.toggle_stream(stream)),
                        )
                    })
                    .collect_view()}
            </fieldset>
            <fieldset>
                <legend>"Look"</legend>
                {tick(
                    "checkbox",
                    "",
                    "Wrap long lines",
                    Signal::derive(move || prefs.get().wrap),
                    Box::new(move || change(|prefs| prefs.wrap = !prefs.wrap)),
                )}
                {tick(
                    "checkbox",
                    "",
                    "Line numbers",
                    Signal::derive(move || prefs.get().numbers),
                    Box::new(move || change(|prefs| prefs.numbers = !prefs.numbers)),
                )}
            </fieldset>
            <fieldset>
                <legend>"Times"</legend>
                {times
                    .into_iter()
                    .map(|(times, label, set)| {
                        tick(
                            "radio",
                            "log-times",
                            label,
                            Signal::derive(move || prefs.get().times == times),
                            Box::new(move || change(set)),
                        )
                    })
                    .collect_view()}
            </fieldset>
        </div>
    }
    .into_any()
}

/// A choice of the menu.
fn tick(
    kind: &'static str,
    name: &'static str,
    label: &'static str,
    on: Signal<bool>,
    act: Box<dyn Fn()>,
) -> AnyView {
    view! {
        <label class="menu-item">
            <input
                type=kind
                name=(!name.is_empty()).then_some(name)
                prop:checked=move || on.get()
                checked=on.get_untracked()
                on:change=move |_| act()
            />
            {label}
        </label>
    }
    .into_any()
}
