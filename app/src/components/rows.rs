//! A text of lines that is edited as rows: what the editors of rules and of mounts have in common. The text is what is
//! posted, so that a form without scripting is the same.

use leptos::{html, prelude::*};

use super::{
    field::bind_text,
    icons::{Draw, Icon},
};
use crate::text::raw;

/// The text, and what the rows wrote of it.
#[derive(Clone, Copy)]
pub struct LineText {
    /// The text.
    pub text: RwSignal<String>,
    written: RwSignal<String>,
    outside: Memo<Option<String>>,
}

impl LineText {
    /// Of a text.
    pub fn new(text: RwSignal<String>) -> Self {
        let written = RwSignal::new(String::new());
        let outside = Memo::new(move |_| {
            text.with(|text| (*text != written.get_untracked()).then(|| text.clone()))
        });
        Self {
            text,
            written,
            outside,
        }
    }

    /// Runs the caller again when the text was changed by something else than the rows: they are made anew then.
    pub fn track_outside(self) {
        // Read, not only tracked: a memo that nobody reads never runs, and then never tells.
        self.outside.with(|_| ());
    }

    /// What the rows say now.
    pub fn write(self, text: String) {
        self.written.set(text.clone());
        self.text.set(text);
    }
}

/// The text as it is posted, and edited where there are no rows.
#[component]
pub fn LinesField(
    /// The text.
    lines: LineText,
    /// Id of the input.
    id: &'static str,
    /// Name in the form.
    name: &'static str,
    /// For screen readers.
    label: &'static str,
    /// Lines that are seen at once.
    rows: u8,
    /// In the empty input.
    placeholder: &'static str,
    /// How a line is written.
    hint: &'static str,
    /// Ids of what describes it beside the hint.
    #[prop(optional)]
    described_by: Option<&'static str>,
    /// Only to read.
    readonly: bool,
    /// Whether rows are shown in its place.
    #[prop(into)]
    hidden: Signal<bool>,
) -> impl IntoView {
    let node: NodeRef<html::Textarea> = NodeRef::new();
    let text = lines.text;
    bind_text(node, text);
    view! {
        <div hidden=move || hidden.get()>
            <label class="visually-hidden" for=id>
                {label}
            </label>
            <textarea
                node_ref=node
                id=id
                class="input input-code"
                name=name
                rows=rows.to_string()
                spellcheck="false"
                readonly=readonly
                aria-describedby=described_by
                placeholder=placeholder
                on:input:target=move |event| text.set(event.target().value())
            >
                {raw(&text.get_untracked())}
            </textarea>
            <p class="field-hint mt-1">{hint}</p>
        </div>
    }
    .into_any()
}

/// A row, which keeps its key wherever it moves.
#[derive(Clone, Copy)]
pub struct Keyed<T> {
    /// Its key.
    pub key: usize,
    /// Its inputs.
    pub row: T,
}

/// The rows.
pub struct Rows<T: Send + Sync + 'static> {
    /// In their order.
    pub entries: RwSignal<Vec<Keyed<T>>>,
    next_key: StoredValue<usize>,
    // The list's own: a row that is made while another one answers must outlive that one.
    owner: StoredValue<Owner>,
}

impl<T: Send + Sync + 'static> Clone for Rows<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Send + Sync + 'static> Copy for Rows<T> {}

impl<T: Copy + Send + Sync + 'static> Rows<T> {
    /// Of lines; `row` makes the inputs of one.
    pub fn new<L>(lines: Vec<L>, row: impl Fn(L) -> T) -> Self {
        let rows = Self {
            entries: RwSignal::new(Vec::new()),
            next_key: StoredValue::new(0),
            owner: StoredValue::new(Owner::current().unwrap_or_default()),
        };
        let entries = lines
            .into_iter()
            .map(|line| rows.keyed(|| row(line)))
            .collect();
        rows.entries.set(entries);
        rows
    }

    /// A row that is in no list yet.
    pub fn keyed(self, row: impl FnOnce() -> T) -> Keyed<T> {
        self.next_key.update_value(|key| *key += 1);
        Keyed {
            key: self.next_key.get_value(),
            row: self.owner.with_value(|owner| owner.with(row)),
        }
    }

    /// Adds a row at the end.
    pub fn push(self, row: impl FnOnce() -> T) {
        let entry = self.keyed(row);
        self.entries.update(|entries| entries.push(entry));
    }

    /// Takes a row out; answers where it stood, counted from 0.
    pub fn remove(self, key: usize) -> usize {
        let at = untrack(|| self.place(key)).unwrap_or_default();
        self.entries
            .update(|entries| entries.retain(|entry| entry.key != key));
        at
    }

    /// Where a row stands, counted from 0.
    pub fn place(self, key: usize) -> Option<usize> {
        self.entries
            .with(|entries| entries.iter().position(|entry| entry.key == key))
    }
}

/// Gives the focus to a button of the row at `at`, counted from 0, once the page shows the rows as they are now: what moves
/// in the page loses it. Where there is no such row any more, the button under the list takes it.
pub fn focus_button(list: NodeRef<html::Ol>, at: usize, label: &'static str) {
    use wasm_bindgen::JsCast as _;
    request_animation_frame(move || {
        let Some(Some(list)) = list.try_get_untracked() else {
            return;
        };
        let button = format!("li:nth-child({}) button[aria-label=\"{label}\"]", at + 1);
        let found = list.query_selector(&button).ok().flatten();
        let found = found.or_else(|| list.next_element_sibling());
        if let Some(found) = found.and_then(|found| found.dyn_into::<web_sys::HtmlElement>().ok()) {
            // What cannot take the focus leaves it where it is.
            let _ = found.focus();
        }
    });
}

/// The button under the rows that adds one.
#[component]
pub fn AddRow<T: Copy + Send + Sync + 'static>(
    /// The rows.
    rows: Rows<T>,
    /// What it says.
    label: &'static str,
    /// Rows that there may be.
    most: usize,
    /// Adds the row.
    #[prop(into)]
    add: Callback<()>,
) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button button-small self-start"
            disabled=move || rows.entries.with(|entries| entries.len() >= most)
            on:click=move |_| add.run(())
        >
            <Draw icon=Icon::Plus />
            {label}
        </button>
    }
    .into_any()
}

/// A small button at the end of a row.
#[component]
pub fn RowButton(
    /// What it does, for screen readers.
    label: &'static str,
    /// What it shows.
    icon: Icon,
    /// Does it.
    #[prop(into)]
    act: Callback<()>,
) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button button-ghost button-icon"
            aria-label=label
            on:click=move |_| act.run(())
        >
            <Draw icon />
        </button>
    }
    .into_any()
}
