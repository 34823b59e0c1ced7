//! What others saved while the form was open: their other changes are in the form already, and for each field that both
//! changed one chooses. Nothing is saved, and nothing is lost, before that.

use leptos::prelude::*;

use crate::{
    components::{Alert, Difference, Tone},
    draft::{Clash, Merge},
    live::now::Ago,
    pages::inputs::Inputs,
    text::shown,
};

/// Which value a reader chose for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The reader's own.
    Mine,
    /// The other's.
    Theirs,
}

/// The panel above the form.
#[component]
pub fn MergePanel(
    /// What met.
    merge: RwSignal<Option<Merge>>,
    /// The form.
    inputs: Inputs,
    /// The form's base: set once everything is decided, so that a save before that is refused again.
    revision: RwSignal<i64>,
    /// Whether the panel came with the page: the form then keeps the reader's values until told otherwise.
    came_with_page: bool,
) -> impl IntoView {
    move || {
        let merge = merge.get()?;
        let first = came_with_page.then_some(Choice::Mine);
        let choices: Vec<RwSignal<Option<Choice>>> =
            merge.clashes.iter().map(|_| RwSignal::new(first)).collect();
        let open = {
            let choices = choices.clone();
            Memo::new(move |_| {
                choices
                    .iter()
                    .filter(|choice| choice.get().is_none())
                    .count()
            })
        };
        let new_base = merge.revision;
        Effect::new(move |_| {
            if open.get() == 0 && revision.get_untracked() != new_base {
                revision.set(new_base);
            }
        });
        let taken: Vec<String> = merge
            .taken
            .iter()
            .map(|taken| match &taken.by {
                Some(by) => format!("{} (by {})", taken.label, shown(by)),
                None => taken.label.clone(),
            })
            .collect();
        let no_clash = merge.clashes.is_empty();
        Some(view! {
            <div data-refusal tabindex="-1" id="merge">
                <Alert tone=Tone::Warn title="Somebody else saved this environment meanwhile." urgent=true>
                    {(!taken.is_empty())
                        .then(|| {
                            view! {
                                <p>"Their changes are in the form now: " {taken.join(", ")} "."</p>
                            }
                        })}
                    {if no_clash {
                        view! { <p>"What you typed is still there. Look it over, then save."</p> }.into_any()
                    } else {
                        view! {
                            <p>
                                {if came_with_page {
                                    "You both changed what follows. The form keeps yours; saving it replaces theirs."
                                } else {
                                    "You both changed what follows. Choose for each, then save."
                                }}
                            </p>
                        }
                            .into_any()
                    }}
                    <ul class="flex flex-col gap-3 mt-2">
                        {merge
                            .clashes
                            .into_iter()
                            .zip(choices)
                            .map(|(clash, choice)| view! { <OneClash clash choice inputs /> })
                            .collect_view()}
                    </ul>
                    {(!no_clash)
                        .then(|| {
                            view! {
                                <p class="mt-2 text-xs" role="status">
                                    {move || match open.get() {
                                        0 => "All decided: save when the form is as you want it.".to_owned(),
                                        1 => "One field left to decide.".to_owned(),
                                        n => format!("{n} fields left to decide."),
                                    }}
                                </p>
                            }
                        })}
                </Alert>
            </div>
        })
    }
}

#[component]
fn OneClash(clash: Clash, choice: RwSignal<Option<Choice>>, inputs: Inputs) -> impl IntoView {
    let alive = crate::components::basics::alive();
    let values = StoredValue::new(clash.inputs);
    let choose = move |wanted: Choice| {
        let holds_theirs = choice.get_untracked() == Some(Choice::Theirs);
        match wanted {
            // The form holds it already, with what was typed since.
            Choice::Mine if !holds_theirs => {}
            Choice::Mine => values.with_value(|values| {
                for (name, mine, _) in values {
                    inputs.set(name, mine);
                }
            }),
            Choice::Theirs if holds_theirs => {}
            Choice::Theirs => values.update_value(|values| {
                for (name, mine, theirs) in values {
                    *mine = inputs.get(name);
                    inputs.set(name, theirs);
                }
            }),
        }
        choice.set(Some(wanted));
    };
    let pressed = move |which: Choice| (choice.get() == Some(which)).to_string();
    let label = format!("Which value of {}", clash.label);
    view! {
        <li class="flex flex-col gap-1.5">
            <span class="flex flex-wrap items-baseline gap-x-2">
                <span class="font-medium">{clash.label.clone()}</span>
                <span class="text-xs text-ink-2">
                    "yours → theirs"
                    {clash.by.map(|by| view! { ", saved by " {shown(&by)} })}
                    {clash.at.map(|at| view! { ", " <Ago at /> })}
                </span>
            </span>
            <Difference label=clash.label before=clash.mine after=clash.theirs />
            <span class="flex flex-wrap gap-2" role="group" aria-label=label hidden=move || !alive.get()>
                <button
                    type="button"
                    class="button button-small"
                    aria-pressed=move || pressed(Choice::Theirs)
                    on:click=move |_| choose(Choice::Theirs)
                >
                    "Take theirs"
                </button>
                <button
                    type="button"
                    class="button button-small"
                    aria-pressed=move || pressed(Choice::Mine)
                    on:click=move |_| choose(Choice::Mine)
                >
                    "Keep mine"
                </button>
            </span>
        </li>
    }
    .into_any()
}
