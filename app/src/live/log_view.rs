//! A run's log on the page. The server renders its end; in the browser it is followed from the beginning, and only the
//! lines that are seen are in the page.

use domain::setup_run::{LogLine, Stream};
use leptos::{html, prelude::*};
use wire::console::{LogView as LogFacts, RunView};

use super::{
    follow::{Follower, Link},
    log_actions::{download, link_to_line, to_end},
};
use crate::{
    ansi,
    components::{Draw, Icon, basics::alive},
    format,
};

/// Height of a row in CSS pixels: `--log-row`.
const ROW: f64 = 24.0;
/// Rows kept above and below what is seen.
const MARGIN: usize = 30;

/// What the log knows and tells; shared with the panel around it.
#[derive(Clone, Copy)]
pub struct LogState {
    follower: StoredValue<Follower>,
    /// Grows whenever lines came or grew.
    news: RwSignal<u64>,
    /// The run.
    pub run: RwSignal<RunView>,
    /// How the log stands.
    pub link: RwSignal<Link>,
    /// The newest line: its script line, and when it came.
    pub newest: RwSignal<Option<(Option<u32>, domain::timestamp::Timestamp)>>,
}

impl LogState {
    /// Of a run as the page knows it.
    pub fn new(run: RunView, tail: &[LogLine]) -> Self {
        Self {
            newest: RwSignal::new(newest(tail)),
            follower: StoredValue::new(Follower::new(run.clone())),
            news: RwSignal::new(0),
            link: RwSignal::new(if run.log.removed_at.is_some() {
                Link::Complete
            } else {
                Link::Connecting
            }),
            run: RwSignal::new(run),
        }
    }

    /// The log as plain text.
    fn text(self) -> String {
        self.follower.with_value(|follower| {
            follower
                .lines()
                .iter()
                .map(|line| ansi::plain(&line.text) + "\n")
                .collect()
        })
    }

    fn lines_known(self) -> usize {
        self.news.track();
        self.follower.with_value(|follower| follower.lines().len())
    }

    /// Follows until the run has ended and every line is here; `ended` is called then, once.
    #[cfg(feature = "hydrate")]
    pub fn follow(self, ended: Callback<()>) {
        use super::{
            follow::Next,
            stream::{Ended, pause, read},
        };
        use crate::api::setup_runs::follow_run;
        if self.run.with_untracked(|run| run.log.removed_at.is_some()) {
            return;
        }
        leptos::reactive::spawn_local_scoped_with_cancellation(async move {
            let was_finished = self.run.with_untracked(|run| run.finished);
            let (environment, run) = self
                .run
                .with_untracked(|run| (run.environment_id, run.setup_run_id));
            loop {
                let after = self.follower.with_value(Follower::cursor);
                let end = read(follow_run(environment, run, after), |frame| {
                    let change = self
                        .follower
                        .try_update_value(|follower| follower.take(frame))
                        .unwrap_or_default();
                    self.tell(change.lines, change.run);
                    !change.hang_up
                })
                .await;
                let refused = match &end {
                    Ended::Refused(error) if !error.is_unreachable() => {
                        Some((error.code(), error.0.message.as_str()))
                    }
                    _ => None,
                };
                let next = self
                    .follower
                    .try_update_value(|follower| follower.closed(refused));
                self.tell(false, false);
                match next {
                    Some(Next::Again(milliseconds)) => pause(milliseconds).await,
                    _ => break,
                }
            }
            if !was_finished {
                ended.run(());
            }
        });
    }

    #[cfg(feature = "hydrate")]
    fn tell(self, lines: bool, run: bool) {
        self.follower.with_value(|follower| {
            if self.link.with_untracked(|link| link != follower.link()) {
                self.link.set(follower.link().clone());
            }
            if run {
                self.run.set(follower.run().clone());
            }
            if lines {
                self.newest.set(newest(follower.lines()));
                self.news.update(|news| *news += 1);
            }
        });
    }
}

fn newest(lines: &[LogLine]) -> Option<(Option<u32>, domain::timestamp::Timestamp)> {
    let last = lines.last()?;
    let line = lines.iter().rev().take(2_000).find_map(|line| line.line);
    Some((line, last.at))
}

/// The log.
#[component]
pub fn Log(
    /// What it shows.
    state: LogState,
    /// The end of it, as the server has rendered it.
    tail: Vec<LogLine>,
    /// Fills the page.
    #[prop(optional)]
    tall: bool,
) -> impl IntoView {
    let alive = alive();
    let view_node: NodeRef<html::Div> = NodeRef::new();
    let sticks = RwSignal::new(true);
    let seen = RwSignal::new((0.0_f64, 600.0_f64));
    let target = RwSignal::new(None::<u64>);
    let tail = StoredValue::new(tail);
    // The whole log takes over once its first lines are here: until then the server's rendering stays.
    let is_live = Signal::derive(move || {
        alive.get() && (state.lines_known() > 0 || tail.with_value(Vec::is_empty))
    });
    let window = Memo::new(move |_| {
        let total = state.lines_known();
        let (top, height) = seen.get();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "scroll positions are small and not negative"
        )]
        let (first, count) = (
            (top / ROW).max(0.0) as usize,
            (height / ROW).ceil() as usize,
        );
        let from = first.saturating_sub(MARGIN).min(total);
        (from, (first + count + MARGIN).min(total))
    });
    let rows = move || {
        state.news.track();
        let (from, to) = window.get();
        state.follower.with_value(|follower| {
            follower.lines()[from.min(follower.lines().len())..to.min(follower.lines().len())]
                .to_vec()
        })
    };
    scroll_along(state, view_node, sticks, seen, target);

    view! {
        <div class="log">
            <Bar state sticks view_node />
            <div
                node_ref=view_node
                class="log-view"
                class:log-view-tall=tall
                tabindex="0"
                role="region"
                aria-label="Log"
                on:click=|event| link_to_line(&event)
                on:scroll:target=move |event| {
                    let view = event.target();
                    let (top, height) = (f64::from(view.scroll_top()), f64::from(view.client_height()));
                    let left = f64::from(view.scroll_height()) - top - height;
                    let (before, _) = seen.get_untracked();
                    seen.set((top, height));
                    // Lines may have come between the scrolling and this news of it: only going up lets go of the end.
                    if left < ROW * 1.5 {
                        sticks.set(true);
                    } else if top < before - 1.0 {
                        sticks.set(false);
                    }
                }
            >
                {move || {
                    if is_live.get() {
                        view! {
                            <div class="log-space" style:height=move || format!("{}px", pixels(state.lines_known()))>
                                <div
                                    class="log-rows"
                                    style:transform=move || format!("translateY({}px)", pixels(window.get().0))
                                >
                                    <For
                                        each=rows
                                        key=|line| (line.seq, line.text.len())
                                        children=move |line| row(&line, target, true)
                                    />
                                </div>
                            </div>
                        }
                            .into_any()
                    } else {
                        view! {
                            <div class="log-rows">
                                {tail.with_value(|tail| tail.iter().map(|line| row(line, target, false)).collect_view())}
                            </div>
                        }
                            .into_any()
                    }
                }}
                {move || {
                    let facts = state.run.with(|run| run.log);
                    (facts.lines == 0 && state.lines_known() == 0 && tail.with_value(Vec::is_empty))
                        .then(|| view! { <p class="p-3 text-ink-3">{nothing_to_show(facts, state.run.with(|run| run.finished))}</p> })
                }}
            </div>
        </div>
    }
    .into_any()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "at most some hundred thousand lines"
)]
fn pixels(rows: usize) -> f64 {
    rows as f64 * ROW
}

fn nothing_to_show(facts: LogFacts, finished: bool) -> String {
    match facts.removed_at {
        Some(at) => format!(
            "The log was removed on {}. What is known of the run stays.",
            &format::exact_utc(at)[..10]
        ),
        None if finished => "The run wrote nothing.".to_owned(),
        None => "Nothing was written yet.".to_owned(),
    }
}

/// One line.
fn row(line: &LogLine, target: RwSignal<Option<u64>>, local: bool) -> impl IntoView + use<> {
    let seq = line.seq;
    let class = match line.stream {
        Stream::Stdout => "log-row",
        Stream::Stderr => "log-row log-stderr",
        Stream::Marker => "log-row log-marker",
        Stream::System => "log-row log-system",
    };
    let at = line.at;
    #[cfg(feature = "hydrate")]
    let time = if local {
        super::now::local_time(at)
    } else {
        format::time_utc(at)
    };
    #[cfg(not(feature = "hydrate"))]
    let time = {
        let _ = local;
        format::time_utc(at)
    };
    // None rather than an empty text, which the server would render as a blank.
    let mark = (line.stream == Stream::Marker).then(|| match line.line {
        Some(number) => format!("{number} $ "),
        None => "$ ".to_owned(),
    });
    let said = match line.stream {
        Stream::Stderr => "stderr: ",
        Stream::Marker => "script line ",
        _ => "",
    };
    view! {
        <div class=class class:log-row-target=move || target.get() == Some(seq) id=format!("L{seq}")>
            // No link: a hundred tab stops would help nobody. The click is the log's.
            <span class="log-no" data-line=seq title="Link to this line">
                {seq}
            </span>
            <span class="log-at">{time}</span>
            <span>
                {(!said.is_empty()).then(|| view! { <span class="visually-hidden">{said}</span> })}
                {mark}
                {ansi::spans(&line.text)
                    .into_iter()
                    .map(|span| {
                        if span.class.is_empty() {
                            span.text.into_any()
                        } else {
                            view! { <span class=span.class>{span.text}</span> }.into_any()
                        }
                    })
                    .collect_view()}
            </span>
        </div>
    }
}

#[component]
fn Bar(state: LogState, sticks: RwSignal<bool>, view_node: NodeRef<html::Div>) -> impl IntoView {
    let alive = alive();
    let standing = move || {
        let removed = state.run.with(|run| run.log.removed_at.is_some());
        if removed {
            return ("removed", "Log removed".to_owned());
        }
        if !alive.get() {
            let finished = state.run.with(|run| run.finished);
            return (
                "still",
                if finished { "Complete" } else { "As of now" }.to_owned(),
            );
        }
        match state.link.get() {
            Link::Connecting => ("connecting", "Connecting…".to_owned()),
            Link::Live => ("live", "Live".to_owned()),
            Link::Reconnecting => ("reconnecting", "Reconnecting…".to_owned()),
            Link::Complete => ("complete", "Complete".to_owned()),
            Link::Stopped(why) => ("stopped", why),
        }
    };
    let below = move || sticks.get();
    view! {
        <div class="log-bar">
            <span class="log-state" data-state=move || standing().0 role="status">
                {move || standing().1}
            </span>
            <span>
                {move || {
                    let facts = state.run.with(|run| run.log);
                    let lines = facts.lines.max(state.lines_known() as u64);
                    format!("{} · {}", format::count(lines, "line", "lines"), format::bytes(facts.bytes))
                }}
            </span>
            {move || {
                state
                    .run
                    .with(|run| run.log.truncated)
                    .then(|| {
                        view! {
                            <span class="text-warn">
                                "Cut at 4 MiB: the beginning is kept, and the last of stderr."
                            </span>
                        }
                    })
            }}
            <span class="ml-auto flex items-center gap-1">
                <button
                    type="button"
                    class="button button-ghost button-small"
                    hidden=move || below() || !alive.get()
                    on:click=move |_| {
                        sticks.set(true);
                        to_end(view_node);
                    }
                >
                    <Draw icon=Icon::ArrowDownToLine />
                    "To the end"
                </button>
                <button
                    type="button"
                    class="button button-ghost button-small"
                    hidden=move || !alive.get()
                    on:click=move |_| {
crate::components::basics::copy_text(&state.text());
                    }
                >
                    <Draw icon=Icon::Copy />
                    "Copy"
                </button>
                <button
                    type="button"
                    class="button button-ghost button-small"
                    hidden=move || !alive.get()
                    on:click=move |_| {
                        let name = state.run.with_untracked(|run| format!("setup-run-{}.txt", run.short_id));
                        download(&name, &state.text());
                    }
                >
                    <Draw icon=Icon::Download />
                    "Download"
                </button>
            </span>
        </div>
    }
    .into_any()
}

/// Keeps the end in view unless one scrolled up, and brings the line that the address names into view.
fn scroll_along(
    state: LogState,
    node: NodeRef<html::Div>,
    sticks: RwSignal<bool>,
    seen: RwSignal<(f64, f64)>,
    target: RwSignal<Option<u64>>,
) {
    let wanted = StoredValue::new(None::<u64>);
    Effect::new(move |_| {
        let named = || {
            let hash = window().location().hash().ok()?;
            hash.strip_prefix("#L")?
                .parse::<u64>()
                .ok()
                .filter(|line| *line > 0)
        };
        let aim = move || {
            if let Some(line) = named() {
                target.set(Some(line));
                wanted.set_value(Some(line));
                sticks.set(false);
                state.news.update(|news| *news += 1);
            }
        };
        aim();
        let handle = window_event_listener(leptos::ev::hashchange, move |_| aim());
        on_cleanup(move || handle.remove());
    });
    Effect::new(move |_| {
        let known = state.lines_known();
        let Some(view) = node.get() else { return };
        // After the rows have their places.
        request_animation_frame(move || {
            // The page may have gone meanwhile.
            let (Some(wanted_line), Some(is_at_end)) =
                (wanted.try_get_value(), sticks.try_get_untracked())
            else {
                return;
            };
            if let Some(line) = wanted_line {
                if line <= known as u64 {
                    wanted.set_value(None);
                    let above = usize::try_from(line.saturating_sub(6)).unwrap_or(0);
                    #[allow(clippy::cast_possible_truncation, reason = "pixels of a log fit")]
                    view.set_scroll_top(pixels(above) as i32);
                }
            } else if is_at_end {
                view.set_scroll_top(view.scroll_height());
            }
            seen.set((
                f64::from(view.scroll_top()),
                f64::from(view.client_height()),
            ));
        });
    });
}
