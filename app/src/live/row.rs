//! One line of a log as a row: the same on the server and in the browser, which makes it by hand.

use std::collections::BTreeMap;

use domain::{
    log_text::Needle,
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};
use leptos::prelude::*;
use web_sys::Element;

use super::{lines::Outline, picked::Picked, prefs::Times, viewer::Viewer};
use crate::{ansi, format};

/// What rows look like now.
pub struct Look {
    times: Times,
    started: Timestamp,
    needle: Option<Needle>,
    found: Option<u64>,
    picked: Option<Picked>,
    /// Folded markers, with how many lines are away.
    folded: BTreeMap<u64, u64>,
}

impl Look {
    /// As the reader has set it.
    pub fn of(viewer: Viewer) -> Self {
        untrack(|| {
            let folded = viewer.folded.with(|folded| {
                if folded.is_empty() {
                    return BTreeMap::new();
                }
                let sections = viewer.outline.with_value(|outline| {
                    outline.as_ref().map(Outline::sections).unwrap_or_default()
                });
                sections
                    .into_iter()
                    .filter(|section| folded.contains(&section.marker))
                    .map(|section| (section.marker, section.end - section.marker))
                    .collect()
            });
            Self {
                times: viewer.prefs.get().times,
                started: viewer
                    .run
                    .with(|run| run.started_at.unwrap_or(run.created_at)),
                needle: viewer.search.needle(),
                found: viewer.search.line(),
                picked: viewer.picked.get(),
                folded,
            }
        })
    }

    /// What of it concerns one line alone.
    pub fn state_of(&self, line: u64) -> (bool, bool, Option<u64>) {
        (
            self.picked.is_some_and(|picked| picked.holds(line)),
            self.found == Some(line),
            self.folded.get(&line).copied(),
        )
    }

    fn time(&self, at: Timestamp) -> String {
        match self.times {
            Times::Off => String::new(),
            Times::Clock => super::now::local_time(at),
            Times::Since => format::clock(at.millis_since(self.started)),
        }
    }
}

const fn class(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "log-row",
        Stream::Stderr => "log-row log-stderr",
        Stream::Marker => "log-row log-marker",
        Stream::System => "log-row log-system",
    }
}

/// In front of a script line.
fn mark(line: &LogLine) -> Option<String> {
    (line.stream == Stream::Marker).then(|| match line.line {
        Some(number) => format!("{number} $ "),
        None => "$ ".to_owned(),
    })
}

/// Makes the row of a line that is here, or of one that is on its way.
pub fn build(number: u64, line: Option<&LogLine>, look: &Look) -> Option<Element> {
    let row = element("div", "log-row log-away")?;
    row.set_id(&format!("L{number}"));
    let set = |element: &Element, name: &str, value: &str| {
        // Attributes of ours have names that browsers take.
        let _ = element.set_attribute(name, value);
    };
    set(&row, "data-n", &number.to_string());
    let text = element("span", "log-text")?;
    let Some(line) = line else {
        text.set_text_content(Some("…"));
        row.append_child(&text).ok()?;
        return Some(row);
    };
    let (picked, found, folded) = look.state_of(number);
    let mut name = class(line.stream).to_owned();
    for (on, more) in [
        (picked, " log-picked"),
        (found, " log-found"),
        (folded.is_some(), " log-folded"),
    ] {
        if on {
            name.push_str(more);
        }
    }
    row.set_class_name(&name);
    set(&text, "data-t", &look.time(line.at));
    if line.stream == Stream::Marker {
        let fold = element("button", "log-fold")?;
        set(&fold, "type", "button");
        // Reached by the keys of the log: a tab stop for each would help nobody.
        set(&fold, "tabindex", "-1");
        set(&fold, "data-fold", &number.to_string());
        set(&fold, "aria-expanded", &folded.is_none().to_string());
        let label = line.line.map_or_else(
            || "Fold the output".to_owned(),
            |line| format!("Fold the output of script line {line}"),
        );
        set(&fold, "aria-label", &label);
        row.append_child(&fold).ok()?;
    } else if line.stream == Stream::Stderr {
        let said = element("span", "visually-hidden")?;
        said.set_text_content(Some("stderr: "));
        row.append_child(&said).ok()?;
    }
    fill(&text, line, look.needle.as_ref())?;
    row.append_child(&text).ok()?;
    if let Some(away) = folded.filter(|away| *away > 0) {
        let more = element("span", "log-more")?;
        more.set_text_content(Some(&format!(
            "{} folded",
            format::count(away, "line", "lines")
        )));
        row.append_child(&more).ok()?;
    }
    Some(row)
}

/// Puts the text in, with its colours and with what was found marked. Text is always text, whatever it holds.
fn fill(text: &Element, line: &LogLine, needle: Option<&Needle>) -> Option<()> {
    let spans = ansi::spans(&line.text);
    let plain: String = spans.iter().map(|span| span.text.as_str()).collect();
    let places = needle
        .map(|needle| needle.places(&plain))
        .unwrap_or_default();
    let mark = mark(line);
    if places.is_empty() && spans.iter().all(|span| span.class.is_empty()) {
        text.set_text_content(Some(&(mark.unwrap_or_default() + &plain)));
        return Some(());
    }
    let put = |tag: &str, class: &str, part: &str| {
        let piece = element(tag, class)?;
        piece.set_text_content(Some(part));
        text.append_child(&piece).ok()
    };
    if let Some(mark) = mark {
        put("span", "", &mark)?;
    }
    let mut at = 0;
    for span in &spans {
        let end = at + span.text.len();
        let mut from = at;
        let within = places
            .iter()
            .filter(|place| place.start < end && place.end > at);
        for place in within {
            let (start, stop) = (place.start.max(at), place.end.min(end));
            if start > from {
                put("span", &span.class, &plain[from..start])?;
            }
            put("mark", &span.class, &plain[start..stop])?;
            from = stop;
        }
        if from < end {
            put("span", &span.class, &plain[from..end])?;
        }
        at = end;
    }
    Some(())
}

fn element(tag: &str, class: &str) -> Option<Element> {
    let element = document().create_element(tag).ok()?;
    if !class.is_empty() {
        element.set_class_name(class);
    }
    Some(element)
}

/// The row as the server renders it.
pub fn still(line: &LogLine) -> AnyView {
    let mark = mark(line);
    let spans = ansi::spans(&line.text)
        .into_iter()
        .map(|span| {
            if span.class.is_empty() {
                span.text.into_any()
            } else {
                view! { <span class=span.class>{span.text}</span> }.into_any()
            }
        })
        .collect_view();
    let said = (line.stream == Stream::Stderr)
        .then(|| view! { <span class="visually-hidden">"stderr: "</span> });
    view! {
        <div class=class(line.stream) id=format!("L{}", line.seq) data-n=line.seq>
            {said}
            <span class="log-text" data-t=format::time_utc(line.at)>
                {mark}
                {spans}
            </span>
        </div>
    }
    .into_any()
}
