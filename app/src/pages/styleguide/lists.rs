//! Rows that are edited, and the question before something is deleted.

use leptos::prelude::*;
use wire::error::Code;

use super::{Specimen, State};
use crate::{
    api::AppError,
    components::{AddRow, ConfirmDelete, Icon, LineText, LinesField, RowButton, Rows},
};

/// Rows that a list may have here, so that the button is seen as it is when the list is full.
const MOST: usize = 3;

/// Lists and questions.
#[component]
pub fn Lists() -> impl IntoView {
    let hosts = || vec!["github.com".to_owned(), "*.example.com".to_owned()];
    let text = RwSignal::new("github.com\n*.example.com\n".to_owned());
    let lines = LineText::new(text);
    let rows = Rows::new(hosts(), RwSignal::new);
    let refused = AppError::new(
        Code::RevisionConflict,
        "Somebody changed it meanwhile. Load the page again.",
    );
    view! {
        <Specimen title="Rows, AddRow, RowButton">
            <div class="flex flex-col gap-1.5 w-full">
                <For each=move || rows.entries.get() key=|entry| entry.key let:entry>
                    <div class="rule-row">
                        <span class="rule-number" aria-hidden="true">
                            {move || rows.place(entry.key).map(|at| at + 1)}
                        </span>
                        <input
                            class="input input-code flex-1 min-w-40"
                            aria-label="Sample"
                            prop:value=move || entry.row.get()
                            on:input:target=move |event| entry.row.set(event.target().value())
                        />
                        <RowButton label="Remove" icon=Icon::X act=move |()| {
                            rows.remove(entry.key);
                        } />
                    </div>
                </For>
                <AddRow rows label="Add row" most=MOST add=move |()| rows.push(|| RwSignal::new(String::new())) />
            </div>
        </Specimen>
        <Specimen title="LinesField">
            <div class="w-full">
                <LinesField
                    lines
                    id="sg-lines"
                    name="s"
                    label="Hosts, one a line"
                    rows=3
                    placeholder="github.com"
                    hint="The same as text; without scripting it is all there is."
                    readonly=false
                    hidden=false
                />
            </div>
        </Specimen>
        <Specimen title="ConfirmDelete">
            <State name="default" class="flex-1 basis-64">
                <ConfirmDelete back="#".to_owned() error=Signal::stored(None) busy=false>
                    <p>"Delete " <strong>"data-analysis"</strong> "? There is no way back."</p>
                </ConfirmDelete>
            </State>
            <State name="refused" class="flex-1 basis-64">
                <ConfirmDelete back="#".to_owned() error=Signal::stored(Some(refused)) busy=false>
                    <p>"Delete " <strong>"data-analysis"</strong> "? There is no way back."</p>
                </ConfirmDelete>
            </State>
        </Specimen>
    }
}
