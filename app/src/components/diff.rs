//! How fields differ: old and new beside each other, longer texts line by line.

use leptos::prelude::*;
use wire::console::FieldChange;

use crate::{
    lines::{Kind, compare},
    live::now::Ago,
    text::shown,
};

/// Characters of a value that is shown in a line with its field.
const SHORT: usize = 80;

/// One field's old and new value. What is long, or has lines, is compared line by line.
#[component]
pub fn Difference(
    /// The field's name, for screen readers.
    label: String,
    /// The old value.
    before: String,
    /// The new value.
    after: String,
) -> impl IntoView {
    let is_short = |text: &str| text.chars().count() <= SHORT && !text.contains('\n');
    if is_short(&before) && is_short(&after) {
        return view! {
            <span class="diff-values">
                <del class="diff-old">{value(&before)}</del>
                <span aria-hidden="true">" → "</span>
                <ins class="diff-new">{value(&after)}</ins>
            </span>
        }
        .into_any();
    }
    let rows = compare(&before, &after)
        .into_iter()
        .map(|line| {
            let number = line.number.map(|number| number.to_string());
            let text = shown(&line.text);
            match line.kind {
                Kind::LeftOut => view! { <div class="diff-gap">{text}</div> }.into_any(),
                Kind::Same => view! {
                    <div class="diff-line">
                        <span class="diff-number" aria-hidden="true">{number}</span>
                        <span class="diff-sign" aria-hidden="true">" "</span>
                        <span class="diff-text">{text}</span>
                    </div>
                }
                .into_any(),
                Kind::Added => view! {
                    <div class="diff-line diff-line-new">
                        <span class="diff-number" aria-hidden="true">{number}</span>
                        <span class="diff-sign" aria-hidden="true">"+"</span>
                        <ins class="diff-text">{text}</ins>
                    </div>
                }
                .into_any(),
                Kind::Removed => view! {
                    <div class="diff-line diff-line-old">
                        <span class="diff-number" aria-hidden="true">{number}</span>
                        <span class="diff-sign" aria-hidden="true">"−"</span>
                        <del class="diff-text">{text}</del>
                    </div>
                }
                .into_any(),
            }
        })
        .collect_view();
    view! {
        <div class="diff" tabindex="0" role="group" aria-label=format!("{label}, line by line")>
            {rows}
        </div>
    }
    .into_any()
}

fn value(text: &str) -> String {
    if text.is_empty() {
        "(empty)".to_owned()
    } else {
        shown(text)
    }
}

/// Changed fields one below the other.
#[component]
pub fn Changes(
    /// The fields.
    changes: Vec<FieldChange>,
) -> impl IntoView {
    view! {
        <ul class="changes">
            {changes
                .into_iter()
                .map(|change| {
                    view! {
                        <li>
                            <span class="changes-label">{shown(&change.label)}</span>
                            <Difference label=change.label before=change.before after=change.after />
                            {change
                                .by
                                .map(|by| {
                                    view! {
                                        <span class="text-xs text-ink-3">
                                            {shown(&by)} {change.at.map(|at| view! { ", " <Ago at /> })}
                                        </span>
                                    }
                                })}
                        </li>
                    }
                })
                .collect_view()}
        </ul>
    }
    .into_any()
}
