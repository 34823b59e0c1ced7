//! Draws a log: only the rows that are seen, and a few around them, are in the page. Drawn by hand rather than by the view
//! macro: rows are kept while one scrolls, and their heights are measured where lines wrap.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use leptos::{html, prelude::*};
use send_wrapper::SendWrapper;
use wasm_bindgen::JsCast as _;
use web_sys::{Element, HtmlElement};

use super::{
    row::{self, Look},
    rows::Rows,
    viewer::Viewer,
};

/// Height of a row in CSS pixels: `--log-row`.
pub const ROW: f64 = 24.0;
/// Rows kept above and below what is seen.
const MARGIN: usize = 16;
/// Lines fetched ahead of what is seen.
const AHEAD: u64 = 200;
/// Browsers lay out no taller elements than some millions of pixels; a log that would be taller scrolls faster instead.
const TALLEST: f64 = 15_000_000.0;

/// What is drawn.
#[derive(Default)]
pub struct Canvas {
    /// All rows.
    pub rows: Rows,
    /// A line that is to be brought into view.
    pub wants: Option<u64>,
    /// Rows must be arranged anew.
    pub stale: bool,
    /// Changes with what rows look like, so that they are made anew.
    pub generation: u32,
    drawn: Vec<Drawn>,
    /// The first line in view, and the pixels of it that are above.
    anchor: (u64, f64),
    /// Where it was scrolled to when it was drawn last.
    scrolled: f64,
    asked: bool,
}

/// A row in the page.
struct Drawn {
    line: u64,
    stamp: u64,
    element: SendWrapper<Element>,
}

impl Canvas {
    /// The first line in view.
    pub const fn first_seen(&self) -> u64 {
        self.anchor.0
    }

    /// Whether a whole line is in a view of this height.
    pub fn sees(&self, line: u64, seen: f64) -> bool {
        let row = self.rows.row_of(line);
        let top = pixels(self.rows.top(self.rows.row_of(self.anchor.0))) + self.anchor.1;
        let (above, below) = (pixels(self.rows.top(row)), pixels(self.rows.top(row + 1)));
        self.rows.shows(line) && above >= top && below <= top + seen
    }
}

/// How positions in the log become positions in the page.
#[derive(Clone, Copy)]
struct Scale {
    /// Pixels of the log, of its space in the page, and of what is seen.
    log: f64,
    space: f64,
    seen: f64,
}

impl Scale {
    fn new(rows: &Rows, seen: f64) -> Self {
        let log = pixels(rows.height());
        Self {
            log,
            space: log.min(TALLEST),
            seen,
        }
    }
    fn ratio(self) -> f64 {
        if self.log > self.space {
            (self.log - self.seen) / (self.space - self.seen)
        } else {
            1.0
        }
    }
    fn clamp(self, position: f64) -> f64 {
        position.min(self.log - self.seen).max(0.0)
    }
}

#[allow(clippy::cast_precision_loss, reason = "rows of a log are exact in f64")]
fn pixels(units: u64) -> f64 {
    units as f64 * ROW
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are not negative, and small"
)]
fn units(pixels: f64) -> u64 {
    (pixels / ROW).max(0.0) as u64
}

impl Viewer {
    /// Draws with the next frame.
    pub(super) fn redraw(self) {
        let asked = self
            .canvas
            .try_update_value(|canvas| std::mem::replace(&mut canvas.asked, true));
        if asked == Some(false) {
            request_animation_frame(move || self.draw());
        }
    }

    /// Draws.
    pub(super) fn draw(self) {
        let (view, space, holder) = self.nodes;
        let node = |node: NodeRef<html::Div>| node.try_get_untracked().flatten();
        let (Some(view), Some(space), Some(holder)) = (node(view), node(space), node(holder))
        else {
            self.canvas.try_update_value(|canvas| canvas.asked = false);
            return;
        };
        let hole = self
            .canvas
            .try_update_value(|canvas| paint(self, canvas, &view, &space, &holder))
            .flatten();
        if let Some((first, last)) = hole {
            self.fetch(first, last);
        }
    }

    /// The reader scrolled, or we did.
    pub(super) fn scrolled(self) {
        let Some(view) = self.nodes.0.get_untracked() else {
            return;
        };
        let top = f64::from(view.scroll_top());
        let before = self.canvas.with_value(|canvas| canvas.scrolled);
        if (top - before).abs() < 1.5 {
            return;
        }
        let left = f64::from(view.scroll_height() - view.client_height()) - top;
        self.canvas.update_value(|canvas| canvas.scrolled = top);
        // Lines may have come between the scrolling and this news of it: only going up lets go of the end.
        if left < ROW {
            self.sticks.set(true);
        } else if top < before {
            self.let_go();
        }
        self.redraw();
    }
}

/// Brings the page up to date; answers which lines are missing.
fn paint(
    viewer: Viewer,
    canvas: &mut Canvas,
    view: &HtmlElement,
    space: &HtmlElement,
    holder: &HtmlElement,
) -> Option<(u64, u64)> {
    canvas.asked = false;
    let total = viewer.with_lines(|lines| lines.last())?;
    let moved = arrange(viewer, canvas, total);
    let sticks = viewer.sticks.get_untracked();
    let seen = f64::from(view.client_height());
    let scrolled = f64::from(view.scroll_top());
    let scale = Scale::new(&canvas.rows, seen);
    let top_of = |rows: &Rows, line: u64| pixels(rows.top(rows.row_of(line)));
    // A line that is not there yet is waited for.
    let wanted = canvas.wants.filter(|line| *line <= total);
    let aim = |rows: &Rows| wanted.map(|line| top_of(rows, line) - (seen / 3.0).floor());
    let position = scale.clamp(if let Some(position) = aim(&canvas.rows) {
        position
    } else if sticks {
        scale.log
    } else if moved {
        top_of(&canvas.rows, canvas.anchor.0) + canvas.anchor.1
    } else {
        scrolled * scale.ratio()
    });
    let first = canvas.rows.at(units(position));
    let last = canvas.rows.at(units(position + seen));
    let from = first.saturating_sub(MARGIN);
    let to = (last + 1 + MARGIN).min(canvas.rows.count());
    let into_first = position - pixels(canvas.rows.top(first));
    reconcile(viewer, canvas, holder, from, to);
    let mut position = position;
    let mut scale = scale;
    if canvas.rows.wraps() && measure(canvas, from) {
        scale = Scale::new(&canvas.rows, seen);
        position = scale.clamp(if let Some(position) = aim(&canvas.rows) {
            position
        } else if sticks {
            scale.log
        } else {
            pixels(canvas.rows.top(first)) + into_first
        });
    }
    if wanted.is_some() {
        canvas.wants = None;
    }
    set_style(space, "height", &format!("{}px", scale.space));
    let scroll_to = (position / scale.ratio()).round();
    let shift = scroll_to + pixels(canvas.rows.top(from)) - position;
    set_style(holder, "transform", &format!("translateY({shift}px)"));
    if (scroll_to - scrolled).abs() > 0.5 {
        #[allow(clippy::cast_possible_truncation, reason = "pixels of a page fit")]
        view.set_scroll_top(scroll_to as i32);
    }
    canvas.scrolled = scroll_to;
    let first = canvas.rows.at(units(position));
    canvas.anchor = (
        canvas.rows.line_of(first).unwrap_or(1),
        position - pixels(canvas.rows.top(first)),
    );
    let at_end = position + seen > scale.log - 1.0;
    if viewer.at_end.get_untracked() != at_end {
        viewer.at_end.set(at_end);
    }
    let low = canvas.rows.line_of(first).unwrap_or(1);
    let high = canvas.rows.line_of(last).unwrap_or(total);
    viewer
        .with_lines(|lines| {
            // What is seen comes before what may be.
            lines
                .missing(low, high)
                .filter(|_| !canvas.rows.hides() || high - low < AHEAD * 10)
                .or_else(|| {
                    let drawn = || canvas.drawn.iter().map(|drawn| drawn.line);
                    drawn()
                        .find(|line| lines.get(*line).is_none())
                        .map(|line| (line, line))
                })
                .or_else(|| lines.missing(low.saturating_sub(AHEAD), high + AHEAD))
        })
        .flatten()
}

/// Which rows there are; answers whether rows may have moved other than at the end.
fn arrange(viewer: Viewer, canvas: &mut Canvas, total: u64) -> bool {
    if !canvas.stale && !canvas.rows.hides() {
        canvas.rows.grow(total);
        return false;
    }
    viewer.outline.with_value(|outline| {
        viewer.folded.with_untracked(|folded| {
            let hidden = viewer.hidden.get_untracked();
            canvas.rows.arrange(total, outline.as_ref(), hidden, folded);
        });
    });
    let wrap = viewer.prefs.with_untracked(|prefs| prefs.wrap);
    if wrap != canvas.rows.wraps() {
        canvas.rows.wrap(wrap);
    }
    std::mem::take(&mut canvas.stale)
}

/// Makes the rows from `from` to `to` the ones in the page: those that are right already stay.
fn reconcile(viewer: Viewer, canvas: &mut Canvas, holder: &HtmlElement, from: usize, to: usize) {
    let look = Look::of(viewer);
    let mut old = std::mem::take(&mut canvas.drawn).into_iter().peekable();
    let mut drawn = Vec::with_capacity(to - from);
    viewer.with_lines(|lines| {
        for line in (from..to).filter_map(|row| canvas.rows.line_of(row)) {
            while let Some(gone) = old.next_if(|old| old.line < line) {
                gone.element.remove();
            }
            let known = lines.get(line);
            let stamp = {
                let mut hasher = DefaultHasher::new();
                known.map(|known| &known.text).hash(&mut hasher);
                (canvas.generation, look.state_of(line)).hash(&mut hasher);
                hasher.finish()
            };
            let same = old.next_if(|old| old.line == line);
            if let Some(same) = same.as_ref()
                && same.stamp == stamp
            {
                drawn.extend(same_row(same));
                continue;
            }
            let Some(element) = row::build(line, known, &look) else {
                continue;
            };
            // Fails only for a page that is gone.
            let _ = match (&same, old.peek()) {
                (Some(same), _) => same.element.replace_with_with_node_1(&element),
                (None, Some(next)) => holder
                    .insert_before(&element, Some(&next.element))
                    .map(|_| ()),
                (None, None) => holder.append_child(&element).map(|_| ()),
            };
            drawn.push(Drawn {
                line,
                stamp,
                element: SendWrapper::new(element),
            });
        }
    });
    for gone in old {
        gone.element.remove();
    }
    canvas.drawn = drawn;
}

fn same_row(row: &Drawn) -> Option<Drawn> {
    Some(Drawn {
        line: row.line,
        stamp: row.stamp,
        element: row.element.clone(),
    })
}

/// Notes the heights of the rows in the page; answers whether any is news.
fn measure(canvas: &mut Canvas, from: usize) -> bool {
    let mut news = false;
    for (row, drawn) in (from..).zip(&canvas.drawn) {
        let height = drawn
            .element
            .dyn_ref::<HtmlElement>()
            .map_or(ROW, |element| f64::from(element.offset_height()));
        let units = u32::try_from(units(height + ROW / 2.0)).unwrap_or(1).max(1);
        news |= canvas.rows.measure(row, units);
    }
    news
}

fn set_style(element: &HtmlElement, name: &str, value: &str) {
    // The browser skips what is the same.
    let _ = element.style().set_property(name, value);
}
