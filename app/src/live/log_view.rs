//! A run's log on the page. The server renders its end, so that it is there before any script; in the browser it is followed
//! from there, and only the lines that are seen are in the page.

use domain::setup_run::LogLine;
use leptos::{ev, prelude::*};
use wasm_bindgen::JsCast as _;
use wire::console::LogView as LogFacts;

use super::{
    find_bar::FindBar, log_bar::Bar, now::local_date, picked::Picked, prefs::Prefs, row,
    viewer::Viewer,
};
use crate::{
    api::setup_runs::TAIL_LINES,
    components::{Draw, Icon, basics::alive},
    format, links,
};

/// The log.
#[component]
pub fn Log(
    /// What it shows.
    viewer: Viewer,
    /// The part of it that the server renders.
    part: Vec<LogLine>,
    /// Where that part begins, where it is not the end.
    #[prop(optional_no_strip)]
    from: Option<u64>,
    /// Fills the page.
    #[prop(optional)]
    tall: bool,
) -> impl IntoView {
    let alive = alive();
    let part = StoredValue::new(part);
    // Until the page is alive, the server's rendering stays.
    let shows_all = Memo::new(move |_| alive.get() && !viewer.is_empty());
    watch(viewer, from);
    let prefs = viewer.prefs;
    let (view, space, rows) = viewer.nodes;
    view! {
        <div
            class="log"
            class:log-wrap=move || prefs.get().wrap
            class:log-plain=move || !prefs.get().numbers
            data-times=move || match prefs.get().times {
                super::prefs::Times::Off => "off",
                _ => "on",
            }
        >
            <Bar viewer />
            <FindBar viewer />
            <div class="log-frame">
                <div
                    node_ref=view
                    class="log-view"
                    class:log-view-tall=tall
                    class:log-view-still=move || !shows_all.get() && from.is_none()
                    tabindex="0"
                    role="region"
                    aria-label="Log"
                    aria-keyshortcuts="J K Home End F"
                    on:mousedown=move |event| {
                        // With Shift the browser would select the text in between.
                        if event.shift_key() && number_of(&event, "data-n").is_some() {
                            event.prevent_default();
                        }
                    }
                    on:click=move |event| clicked(viewer, &event)
                    on:keydown=move |event| super::keys::pressed(viewer, &event)
                    on:scroll=move |_| viewer.scrolled()
                >
                    {move || {
                        if shows_all.get() {
                            view! {
                                <div class="log-space" node_ref=space>
                                    <div class="log-rows" node_ref=rows></div>
                                </div>
                            }
                                .into_any()
                        } else {
                            part.with_value(|part| view! { <div class="log-rows">{part.iter().map(row::still).collect_view()}</div> }.into_any())
                        }
                    }}
                    {move || {
                        let facts = viewer.run.with(|run| run.log);
                        let nothing = viewer.is_empty() || facts.removed_at.is_some();
                        nothing
                            .then(|| {
                                view! {
                                    <p class="p-3 text-ink-3">
                                        {nothing_to_show(facts, viewer.run.with(|run| run.finished))}
                                    </p>
                                }
                            })
                    }}
                </div>
                <ToEnd viewer />
            </div>
            <Pages viewer part from />
            <p class="visually-hidden" aria-live="polite">
                {move || spoken(viewer)}
            </p>
        </div>
    }
    .into_any()
}

fn nothing_to_show(facts: LogFacts, finished: bool) -> AnyView {
    match facts.removed_at {
        Some(at) => {
            view! { "The log was removed on " {local_date(at)} ". What is known of the run stays." }
                .into_any()
        }
        None if finished => "The run wrote nothing.".into_any(),
        None => "Nothing was written yet.".into_any(),
    }
}

/// What a screen reader says of a line that was picked by hand; lines that come are not read out.
fn spoken(viewer: Viewer) -> String {
    let Some(picked) = viewer.picked.get() else {
        return String::new();
    };
    let text = viewer
        .with_lines(|lines| {
            lines
                .get(picked.head)
                .map(|line| crate::ansi::plain(&line.text))
        })
        .flatten()
        .unwrap_or_default();
    format!("Line {}: {text}", picked.head)
}

/// The way back to the end, once one has scrolled up.
#[component]
fn ToEnd(viewer: Viewer) -> impl IntoView {
    let alive = alive();
    let away = move || alive.get() && !viewer.sticks.get() && !viewer.at_end.get();
    let label = move || {
        let more = viewer.last().saturating_sub(viewer.left_at.get());
        if more == 0 {
            "Jump to the end".to_owned()
        } else {
            format!(
                "Jump to the end · {}",
                format::count(more, "new line", "new lines")
            )
        }
    };
    view! {
        <button type="button" class="button button-small log-to-end" hidden=move || !away() on:click=move |_| viewer.to_end()>
            <Draw icon=Icon::ArrowDownToLine />
            {label}
        </button>
    }
    .into_any()
}

/// Pages of the log, for readers without scripting.
#[component]
fn Pages(viewer: Viewer, part: StoredValue<Vec<LogLine>>, from: Option<u64>) -> impl IntoView {
    let alive = alive();
    let (environment, run) = viewer.ids();
    let address = links::run(environment, run);
    let ends = part.with_value(|part| Some((part.first()?.seq, part.last()?.seq)));
    let last = viewer.run.with_untracked(|run| run.log.lines);
    let page = move |label: &'static str, from: Option<u64>| {
        let href = match from {
            Some(from) => format!("{address}?from={from}"),
            None => address.clone(),
        };
        // A page of its own: the router would keep what it has.
        view! {
            <a class="link" href=href rel="external">
                {label}
            </a>
        }
    };
    let earlier = ends.filter(|(first, _)| *first > 1).map(|(first, _)| {
        page(
            "Earlier lines",
            Some(first.saturating_sub(TAIL_LINES).max(1)),
        )
    });
    let later = ends
        .filter(|(_, end)| from.is_some() && *end < last)
        .map(|(_, end)| page("Later lines", Some(end + 1)));
    let unfinished = !viewer.run.with_untracked(|run| run.finished);
    let newest = (from.is_some() || unfinished)
        .then(|| page(if unfinished { "Refresh" } else { "The end" }, None));
    view! {
        <nav class="log-pages" aria-label="Pages of the log" hidden=move || alive.get()>
            {earlier}
            {later}
            {newest}
        </nav>
    }
    .into_any()
}

/// Draws whenever something changes that is seen, and keeps the address and the browser's memory along.
fn watch(viewer: Viewer, from: Option<u64>) {
    Effect::new(move |_| {
        viewer.prefs.set(Prefs::load());
        if let Some(from) = from {
            viewer.sticks.set(false);
            viewer
                .canvas
                .update_value(|canvas| canvas.wants = Some(from));
        }
        aim(viewer);
        let handle = window_event_listener(ev::hashchange, move |_| aim(viewer));
        on_cleanup(move || handle.remove());
    });
    Effect::new(move |_| {
        viewer.news.track();
        viewer.sticks.track();
        viewer.redraw();
    });
    // What rows look like.
    Effect::new(move |_| {
        viewer.prefs.track();
        viewer.picked.track();
        viewer.search.needle();
        viewer.search.at.track();
        viewer.search.found.track();
        viewer.folded.track();
        viewer.outlined.track();
        viewer
            .canvas
            .update_value(|canvas| canvas.generation = canvas.generation.wrapping_add(1));
        viewer.redraw();
    });
    // Which rows there are.
    Effect::new(move |_| {
        viewer.prefs.track();
        viewer.folded.track();
        viewer.hidden.track();
        viewer.outlined.track();
        viewer.canvas.update_value(|canvas| canvas.stale = true);
        viewer.redraw();
    });
    Effect::new(move |_| {
        // At once when they are there: the server's rendering is gone by then.
        if viewer.nodes.2.get().is_some() {
            viewer.canvas.update_value(|canvas| canvas.stale = true);
            viewer.draw();
        }
    });
    Effect::new(move |_| {
        let Some(view) = viewer.nodes.0.get() else {
            return;
        };
        let width = StoredValue::new(view.client_width());
        let node = view.clone();
        let resized = wasm_bindgen::closure::Closure::<dyn FnMut()>::new(move || {
            // Lines break elsewhere in another width.
            if width.try_get_value() != Some(node.client_width()) {
                width.try_set_value(node.client_width());
                viewer.canvas.try_update_value(|canvas| {
                    if canvas.rows.wraps() {
                        canvas.rows.wrap(true);
                        canvas.stale = true;
                    }
                });
            }
            viewer.redraw();
        });
        if let Ok(observer) = web_sys::ResizeObserver::new(resized.as_ref().unchecked_ref()) {
            observer.observe(&view);
            let kept = send_wrapper::SendWrapper::new((observer, resized));
            on_cleanup(move || kept.0.disconnect());
        }
    });
    // The address names what is picked; written late, since browsers count how often it changes.
    Effect::new(move |before: Option<Option<Picked>>| {
        let picked = viewer.picked.get();
        if before.flatten() != picked && before.is_some() {
            set_timeout(
                move || {
                    if viewer.picked.try_get_untracked() == Some(picked) {
                        write_address(picked);
                    }
                },
                std::time::Duration::from_millis(120),
            );
        }
        picked
    });
}

/// Goes to the lines that the address names.
fn aim(viewer: Viewer) {
    let fragment = window().location().hash().unwrap_or_default();
    let Some(picked) = Picked::read(&fragment) else {
        return;
    };
    viewer.pick(Some(picked));
    viewer.reveal(picked.bounds().0);
}

fn write_address(picked: Option<Picked>) {
    let location = window().location();
    let (Ok(path), Ok(query), Ok(history)) =
        (location.pathname(), location.search(), window().history())
    else {
        return;
    };
    let fragment = picked.map(Picked::fragment).unwrap_or_default();
    let state = history.state().unwrap_or_default();
    // Refused only where scripts change it too often: then the next one counts.
    let _ = history.replace_state_with_url(&state, "", Some(&format!("{path}{query}{fragment}")));
}

/// What the element under the pointer says in this attribute.
fn number_of(event: &ev::MouseEvent, name: &str) -> Option<u64> {
    let target = event.target()?.dyn_into::<web_sys::Element>().ok()?;
    target.get_attribute(name)?.parse().ok()
}

/// A click on a line number picks the line, with Shift all up to it; one on a marker's button folds its output.
fn clicked(viewer: Viewer, event: &ev::MouseEvent) {
    if let Some(marker) = number_of(event, "data-fold") {
        viewer.toggle_fold(marker);
    } else if let Some(line) = number_of(event, "data-n") {
        let picked = match viewer.picked.get_untracked() {
            Some(picked) if event.shift_key() => Picked {
                head: line,
                ..picked
            },
            Some(picked) if picked == Picked::line(line) => {
                viewer.pick(None);
                return;
            }
            _ => Picked::line(line),
        };
        viewer.let_go();
        viewer.pick(Some(picked));
    }
}
