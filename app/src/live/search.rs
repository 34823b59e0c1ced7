//! Finding a text in the whole log: the server looks through what is stored, the browser through what comes after that.

use domain::log_text::{Folded, Needle};
use leptos::prelude::*;
use wire::console::Found;

use super::{lines::Lines, painter::Canvas, viewer::Viewer};
use crate::api::setup_runs::find_in_log;

/// What is looked for in the log.
#[derive(Clone, Copy)]
pub struct Search {
    /// Whether its bar is there.
    pub open: RwSignal<bool>,
    /// As typed.
    pub text: RwSignal<String>,
    /// What the server found, and what came since.
    pub found: RwSignal<Option<Found>>,
    /// Why it found nothing out.
    pub failed: RwSignal<bool>,
    /// The match that is shown: its place in `found`.
    pub at: RwSignal<Option<usize>>,
    /// Counts searches, so that a late answer to an earlier one is dropped.
    pub turn: StoredValue<u32>,
}

impl Search {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            open: RwSignal::new(false),
            text: RwSignal::new(String::new()),
            found: RwSignal::new(None),
            failed: RwSignal::new(false),
            at: RwSignal::new(None),
            turn: StoredValue::new(0),
        }
    }

    /// What to mark.
    pub fn needle(self) -> Option<Needle> {
        self.open
            .get()
            .then(|| self.text.with(|text| Needle::new(text)))
            .flatten()
    }

    /// The line of the match that is shown.
    pub fn line(self) -> Option<u64> {
        let at = self.at.get()?;
        self.found
            .with(|found| found.as_ref()?.lines.get(at).copied())
    }

    /// Looks through lines that came after what the server has looked through.
    pub fn grow(self, lines: &Lines) {
        let Some(needle) = untrack(|| self.needle()) else {
            return;
        };
        let through = self
            .found
            .with_untracked(|found| found.as_ref().map(|found| found.through));
        let Some(through) = through.filter(|through| *through < lines.last()) else {
            return;
        };
        let mut buffer = Folded::default();
        self.found.update(|found| {
            let Some(found) = found else { return };
            for line in (through + 1..=lines.last()).map_while(|seq| lines.get(seq)) {
                found.through = line.seq;
                if needle.is_in(&line.text, &mut buffer) {
                    found.total += 1;
                    found.lines.push(line.seq);
                }
            }
        });
    }
}

impl Viewer {
    /// Asks the server for the lines that hold what was typed.
    pub(super) fn find(self) {
        let search = self.search;
        search
            .turn
            .update_value(|turn| *turn = turn.wrapping_add(1));
        let turn = search.turn.get_value();
        search.at.set(None);
        search.failed.set(false);
        let text = search.text.get_untracked();
        if Needle::new(&text).is_none() {
            search.found.set(None);
            return;
        }
        let (environment, run) = self.ids();
        leptos::task::spawn_local(async move {
            // Not for every letter of a word.
            gloo_timers::future::TimeoutFuture::new(150).await;
            if search.turn.try_get_value() != Some(turn) {
                return;
            }
            let found = find_in_log(environment, run, text).await;
            if search.turn.try_get_value() != Some(turn) {
                return;
            }
            search.failed.set(found.is_err());
            search.found.set(found.ok());
            self.lines_came();
            // From what is seen on, as one reads.
            let from = self.canvas.with_value(Canvas::first_seen);
            let first = search.found.with_untracked(|found| {
                let lines = &found.as_ref()?.lines;
                let at = lines.partition_point(|line| *line < from);
                (!lines.is_empty()).then_some(if at < lines.len() { at } else { 0 })
            });
            if let Some(first) = first {
                self.go_to_match(first);
            }
        });
    }

    /// The next match, or the one before; at the ends it begins again.
    pub(super) fn step(self, forward: bool) {
        let count = self
            .search
            .found
            .with_untracked(|found| found.as_ref().map_or(0, |found| found.lines.len()));
        if count == 0 {
            return;
        }
        let at = match self.search.at.get_untracked() {
            Some(at) if forward => (at + 1) % count,
            Some(at) => (at + count - 1) % count,
            None => 0,
        };
        self.go_to_match(at);
    }

    fn go_to_match(self, at: usize) {
        self.search.at.set(Some(at));
        if let Some(line) = untrack(|| self.search.line()) {
            self.reveal(line);
        }
    }
}
