//! The log's keys: j and k (or the arrows) go from line to line, with Shift they pick several; Home and End; f finds; Enter
//! folds; c copies; Escape lets go.

use domain::setup_run::Stream;
use leptos::{ev, prelude::*};

use super::{painter::Canvas, picked::Picked, viewer::Viewer};

/// A key was pressed in the log.
pub(super) fn pressed(viewer: Viewer, event: &ev::KeyboardEvent) {
    if event.ctrl_key() || event.meta_key() || event.alt_key() {
        return;
    }
    match event.key().as_str() {
        "j" | "J" | "ArrowDown" => go(viewer, true, event.shift_key()),
        "k" | "K" | "ArrowUp" => go(viewer, false, event.shift_key()),
        "Home" => {
            viewer.reveal(1);
        }
        "End" => viewer.to_end(),
        "f" => super::find_bar::open(viewer),
        "c" => super::log_bar::copy(viewer),
        "Enter" => {
            let Some(picked) = viewer.picked.get_untracked() else {
                return;
            };
            let is_marker = viewer.with_lines(|lines| {
                lines
                    .get(picked.head)
                    .is_some_and(|line| line.stream == Stream::Marker)
            });
            if is_marker != Some(true) {
                return;
            }
            viewer.toggle_fold(picked.head);
        }
        "Escape" if viewer.picked.with_untracked(Option::is_some) => viewer.pick(None),
        _ => return,
    }
    // The page's own shortcuts and the browser's scrolling have no part in it.
    event.prevent_default();
    event.stop_propagation();
}

/// To the next line that is shown, or the one before.
fn go(viewer: Viewer, down: bool, extend: bool) {
    let picked = viewer.picked.get_untracked();
    let head = viewer.canvas.with_value(|canvas| {
        let rows = &canvas.rows;
        match picked {
            None => rows.line_of(rows.row_of(Canvas::first_seen(canvas))),
            Some(picked) => {
                let row = rows.row_of(picked.head);
                let next = if down { row + 1 } else { row.saturating_sub(1) };
                rows.line_of(next.min(rows.count().saturating_sub(1)))
            }
        }
    });
    let Some(head) = head else { return };
    viewer.pick(Some(match picked {
        Some(picked) if extend => Picked { head, ..picked },
        _ => Picked::line(head),
    }));
    viewer.keep_in_view(head);
}
