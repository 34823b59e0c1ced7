//! What a log on a page knows: its lines, what of them is shown and how, what is looked for, which lines are picked. All
//! parts of the log share it; `painter.rs` draws it.

use std::collections::BTreeSet;

use domain::{
    log_text::push_plain,
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};
use leptos::{html, prelude::*};
use wire::console::RunView;

use super::{
    follow::{Follower, Link},
    lines::{Lines, Outline},
    painter::Canvas,
    picked::Picked,
    prefs::Prefs,
    rows::Streams,
    search::Search,
};
use crate::api::setup_runs::{load_lines, load_outline};

/// Lines of a page that is fetched.
const PAGE: u64 = 500;
/// Lines of a page when all are wanted.
const PAGE_MOST: u32 = 2_000;

/// A log; shared with the panel around it.
#[derive(Clone, Copy)]
pub struct Viewer {
    pub(super) follower: StoredValue<Follower>,
    /// Grows whenever lines came or grew.
    pub(super) news: RwSignal<u64>,
    /// The run.
    pub run: RwSignal<RunView>,
    /// How the log stands.
    pub link: RwSignal<Link>,
    /// The newest line: its script line, and when it came.
    pub newest: RwSignal<Option<(Option<u32>, Timestamp)>>,
    /// How it looks.
    pub(super) prefs: RwSignal<Prefs>,
    /// Streams that are not shown.
    pub(super) hidden: RwSignal<Streams>,
    /// Markers whose output is not shown.
    pub(super) folded: RwSignal<BTreeSet<u64>>,
    /// What the log is made of, once it was asked for.
    pub(super) outline: StoredValue<Option<Outline>>,
    /// Grows whenever the outline came.
    pub(super) outlined: RwSignal<u64>,
    /// Lines that the address names.
    pub(super) picked: RwSignal<Option<Picked>>,
    /// The end stays in view.
    pub(super) sticks: RwSignal<bool>,
    /// The end is in view, whether it sticks or not.
    pub(super) at_end: RwSignal<bool>,
    /// The last line when the end was let go.
    pub(super) left_at: RwSignal<u64>,
    /// What is looked for.
    pub(super) search: Search,
    /// What is drawn.
    pub(super) canvas: StoredValue<Canvas>,
    /// The part that scrolls, the space that all rows would take, and the rows.
    pub(super) nodes: (NodeRef<html::Div>, NodeRef<html::Div>, NodeRef<html::Div>),
    /// Something was just copied.
    pub(super) copied: RwSignal<bool>,
    fetching: StoredValue<bool>,
}

impl Viewer {
    /// Of a run as the page knows it, with the part of its log that the server has rendered.
    pub fn new(run: RunView, part: Vec<LogLine>) -> Self {
        let newest = newest(part.last(), part.iter().rev());
        let follower = Follower::new(run.clone(), part);
        Self {
            link: RwSignal::new(follower.link().clone()),
            newest: RwSignal::new(newest),
            follower: StoredValue::new(follower),
            news: RwSignal::new(0),
            run: RwSignal::new(run),
            prefs: RwSignal::new(Prefs::default()),
            hidden: RwSignal::new(Streams::default()),
            folded: RwSignal::new(BTreeSet::new()),
            outline: StoredValue::new(None),
            outlined: RwSignal::new(0),
            picked: RwSignal::new(None),
            sticks: RwSignal::new(true),
            at_end: RwSignal::new(true),
            left_at: RwSignal::new(0),
            search: Search::new(),
            canvas: StoredValue::new(Canvas::default()),
            nodes: (NodeRef::new(), NodeRef::new(), NodeRef::new()),
            copied: RwSignal::new(false),
            fetching: StoredValue::new(false),
        }
    }

    /// The number of the last line, now and whenever lines come.
    pub fn last(self) -> u64 {
        self.news.track();
        self.follower.with_value(|follower| follower.lines().last())
    }

    /// Whether there is any line.
    pub fn is_empty(self) -> bool {
        self.last() == 0
    }

    /// Works with the lines.
    pub(super) fn with_lines<T>(self, work: impl FnOnce(&Lines) -> T) -> Option<T> {
        self.follower
            .try_with_value(|follower| work(follower.lines()))
    }

    /// Follows until the run has ended and every line is here; `ended` is called then, once.
    #[cfg(feature = "hydrate")]
    pub fn follow(self, ended: Callback<()>) {
        use super::{
            follow::Next,
            stream::{Ended, pause, read},
        };
        use crate::api::setup_runs::{follow_run_call, load_run};
        if self.follower.with_value(Follower::is_over) {
            return;
        }
        leptos::reactive::spawn_local_scoped_with_cancellation(async move {
            let (environment, run) = self.ids();
            let mut next = Next::Again(0);
            loop {
                match next {
                    Next::Done => break,
                    Next::Again(milliseconds) | Next::Ask(milliseconds) if milliseconds > 0 => {
                        pause(milliseconds).await;
                    }
                    Next::Again(_) | Next::Ask(_) => {}
                }
                let after = self.follower.try_with_value(Follower::cursor);
                let Some(after) = after else { return };
                if matches!(next, Next::Ask(_)) {
                    let answer = load_run(environment, run, Some(after + 1)).await;
                    let refused = answer.as_ref().err().and_then(|error| {
                        let status = error.code().status();
                        (status < 500).then(|| (error.code(), error.0.message.clone()))
                    });
                    let told = self.follower.try_update_value(|follower| match refused {
                        Some((code, why)) => {
                            let next = match follower.closed(Some((code, why.as_str()))) {
                                Next::Done => Next::Done,
                                _ => follower.asked(None).1,
                            };
                            (Default::default(), next)
                        }
                        None => follower.asked(answer.ok().map(|page| (page.page.run, page.lines))),
                    });
                    let Some((change, then)) = told else { return };
                    self.tell(change.lines, change.run);
                    next = then;
                    continue;
                }
                let end = read(follow_run_call(environment, run, after), |frame| {
                    let change = self
                        .follower
                        .try_update_value(|follower| follower.take(frame))
                        .unwrap_or_default();
                    self.tell(change.lines, change.run);
                    !change.hang_up
                })
                .await;
                let refused = match &end {
                    Ended::Refused(error) => Some((error.code(), error.0.message.as_str())),
                    Ended::Closed | Ended::Silent => None,
                };
                let then = self.follower.try_update_value(|follower| {
                    if matches!(end, Ended::Silent) {
                        follower.fell_silent();
                    }
                    follower.closed(refused)
                });
                let Some(then) = then else { return };
                self.tell(false, false);
                next = then;
            }
            ended.run(());
        });
    }

    #[cfg(feature = "hydrate")]
    fn tell(self, lines: bool, run: bool) {
        let follower = self.follower;
        follower.with_value(|follower| {
            if self.link.with_untracked(|link| link != follower.link()) {
                self.link.set(follower.link().clone());
            }
            if run {
                self.run.set(follower.run().clone());
            }
            if lines {
                let lines = follower.lines();
                let back = (1..=lines.last()).rev().take(2_000);
                self.newest.set(newest(
                    lines.get(lines.last()),
                    back.filter_map(|seq| lines.get(seq)),
                ));
            }
        });
        if lines {
            self.lines_came();
        }
    }

    pub(super) fn ids(self) -> (domain::ids::EnvironmentId, domain::ids::SetupRunId) {
        self.run
            .with_untracked(|run| (run.environment_id, run.setup_run_id))
    }

    /// Lines came: the outline and the matches grow along.
    pub(super) fn lines_came(self) {
        self.follower.with_value(|follower| {
            let lines = follower.lines();
            self.outline.update_value(|outline| {
                if let Some(outline) = outline {
                    while let Some(line) = lines.get(outline.through() + 1) {
                        outline.push(line.stream, line.line);
                    }
                }
            });
            self.search.grow(lines);
        });
        self.news.update(|news| *news += 1);
    }

    /// Fetches lines around a hole, one page at a time: what is looked at when it has come decides on the next.
    pub(super) fn fetch(self, first: u64, last: u64) {
        if self.fetching.get_value() {
            return;
        }
        self.fetching.set_value(true);
        let (environment, run) = self.ids();
        // Whole pages from a fixed grid, so that scrolling either way asks for few.
        let after = (first - 1) / PAGE * PAGE;
        let limit = u32::try_from(last - after).unwrap_or(PAGE_MOST);
        let limit = limit.next_multiple_of(PAGE as u32).min(PAGE_MOST);
        leptos::task::spawn_local(async move {
            let page = load_lines(environment, run, after, limit).await;
            let came = page.is_ok_and(|page| self.take_page(page));
            if !came {
                // Tried again while one still looks at the hole.
                gloo_timers::future::TimeoutFuture::new(1_000).await;
            }
            if self.fetching.try_set_value(false).is_none() {
                self.redraw();
            }
        });
    }

    /// Takes a page; answers whether it held anything and the log is still there.
    fn take_page(self, page: Vec<LogLine>) -> bool {
        !page.is_empty()
            && self
                .follower
                .try_update_value(|follower| follower.fill(page))
                .is_some()
    }

    /// Asks what the log is made of, once.
    pub(super) fn want_outline(self) {
        if self.outline.with_value(Option::is_some) {
            return;
        }
        let (environment, run) = self.ids();
        leptos::task::spawn_local(async move {
            if let Ok(told) = load_outline(environment, run).await
                && self
                    .outline
                    .try_set_value(Some(Outline::new(&told)))
                    .is_none()
            {
                self.lines_came();
                self.outlined.update(|count| *count += 1);
            }
        });
    }

    /// Shows or hides a stream.
    pub(super) fn toggle_stream(self, stream: Stream) {
        self.want_outline();
        self.hidden
            .update(|hidden| *hidden = hidden.toggled(stream));
    }

    /// Folds the output of a marker, or unfolds it.
    pub(super) fn toggle_fold(self, marker: u64) {
        self.want_outline();
        self.folded.update(|folded| {
            if !folded.remove(&marker) {
                folded.insert(marker);
            }
        });
    }

    /// Folds the output of every marker; waits for the outline where it is not here.
    pub(super) fn fold_all(self) {
        let (environment, run) = self.ids();
        leptos::task::spawn_local(async move {
            if self.outline.try_with_value(Option::is_none) == Some(true)
                && let Ok(told) = load_outline(environment, run).await
                && self
                    .outline
                    .try_set_value(Some(Outline::new(&told)))
                    .is_none()
            {
                self.lines_came();
            }
            let all = self.outline.try_with_value(|outline| {
                let sections = outline.as_ref().map(Outline::sections).unwrap_or_default();
                sections
                    .into_iter()
                    .filter(|section| section.end > section.marker)
                    .map(|section| section.marker)
                    .collect::<BTreeSet<u64>>()
            });
            if let Some(all) = all {
                self.folded.set(all);
            }
        });
    }

    /// Brings a line into view, unfolding what hides it.
    pub(super) fn reveal(self, line: u64) {
        let around = self.outline.with_value(|outline| {
            outline
                .as_ref()?
                .sections()
                .into_iter()
                .find(|section| line > section.marker && line <= section.end)
        });
        if let Some(section) = around
            && self
                .folded
                .with_untracked(|folded| folded.contains(&section.marker))
        {
            self.toggle_fold(section.marker);
        }
        self.let_go();
        self.canvas.update_value(|canvas| canvas.wants = Some(line));
        self.redraw();
    }

    /// Brings a line into view where it is not.
    pub(super) fn keep_in_view(self, line: u64) {
        let Some(view) = self.nodes.0.get_untracked() else {
            return;
        };
        let seen = f64::from(view.client_height());
        if self.canvas.with_value(|canvas| canvas.sees(line, seen)) {
            self.let_go();
            self.redraw();
        } else {
            self.reveal(line);
        }
    }

    /// The end is no longer followed.
    pub(super) fn let_go(self) {
        if self.sticks.get_untracked() {
            self.left_at.set(untrack(|| self.last()));
            self.sticks.set(false);
        }
    }

    /// Follows the end.
    pub(super) fn to_end(self) {
        self.sticks.set(true);
        self.redraw();
    }

    /// Picks lines, or none.
    pub(super) fn pick(self, picked: Option<Picked>) {
        self.picked.set(picked);
    }

    /// The text to copy: the picked lines, or all that are shown. Fetches what is not here.
    pub(super) async fn text(self) -> Option<String> {
        let (first, last) = self
            .picked
            .try_get_untracked()?
            .map_or((1, u64::MAX), Picked::bounds);
        let (environment, run) = self.ids();
        while let Some((from, _)) = self.with_lines(|lines| lines.missing(first, last))? {
            let page = load_lines(environment, run, from - 1, PAGE_MOST)
                .await
                .ok()?;
            if !self.take_page(page) {
                return None;
            }
        }
        let picked = self.picked.try_get_untracked()?.is_some();
        let canvas = self.canvas;
        self.with_lines(|lines| {
            let mut text = String::new();
            for line in (first..=last.min(lines.last())).filter_map(|seq| lines.get(seq)) {
                if picked || canvas.with_value(|canvas| canvas.rows.shows(line.seq)) {
                    push_line(line, &mut text);
                }
            }
            text
        })
    }
}

/// A line as text: markers and notes set off, as in the downloaded log.
fn push_line(line: &LogLine, text: &mut String) {
    text.push_str(match line.stream {
        Stream::Marker => "$ ",
        Stream::System => "# ",
        Stream::Stdout | Stream::Stderr => "",
    });
    push_plain(&line.text, text);
    text.push('\n');
}

fn newest<'l>(
    last: Option<&LogLine>,
    mut back: impl Iterator<Item = &'l LogLine>,
) -> Option<(Option<u32>, Timestamp)> {
    Some((back.find_map(|line| line.line), last?.at))
}
