//! The setup script's editor: a plain text area with line numbers and the server's own advice beside the lines.

use domain::{
    limits,
    setup_script::{self, MovableExport, WarningCode},
};
use leptos::{ev, html, prelude::*};
use wasm_bindgen::JsCast as _;

use crate::{
    components::{Errors, FieldError, TextField, bind_text},
    draft::{parse_dotenv, with_variables},
    format,
    pages::inputs::Inputs,
    text::raw,
};

/// The editor with its timeout.
#[component]
pub fn ScriptEditor(
    /// The form.
    inputs: Inputs,
    /// Only to read.
    readonly: bool,
) -> impl IntoView {
    let node: NodeRef<html::Textarea> = NodeRef::new();
    let gutter: NodeRef<html::Div> = NodeRef::new();
    let script = inputs.script;
    bind_text(node, script);
    Effect::new(move |_| {
        if node.get().is_some() {
            // After the page has its places.
            request_animation_frame(aim);
        }
    });
    let error = use_context::<Errors>();
    let error =
        Signal::derive(move || error?.0.with(|error| error.as_ref()?.field("setup.script")));
    // Windows line ends come from pasted text; the server counts without them.
    let warnings = Memo::new(move |_| {
        script.with(|script| setup_script::lint(&setup_script::normalise(script)))
    });
    // Only where the variables can be read, so that one can be added.
    let movable = Memo::new(move |_| {
        let readable = !readonly && inputs.env_vars.with(|text| parse_dotenv(text).is_ok());
        let exports = warnings.with(|found| {
            found
                .iter()
                .any(|warning| warning.code == WarningCode::ExportDoesNotPersist)
        });
        if readable && exports {
            script.with(|script| setup_script::movable_exports(script))
        } else {
            Vec::new()
        }
    });
    let moved = RwSignal::new(String::new());
    let bytes = Memo::new(move |_| script.with(|script| setup_script::normalise(script).len()));
    let lines = Memo::new(move |_| {
        script.with(|script| script.lines().count().max(1) + usize::from(script.ends_with('\n')))
    });
    let numbers = move || {
        let flagged: Vec<u32> =
            warnings.with(|found| found.iter().map(|warning| warning.line).collect());
        (1..=lines.get().min(5_000))
            .map(|number| {
                let is_flagged =
                    u32::try_from(number).is_ok_and(|number| flagged.contains(&number));
                view! { <div class:has-warning=is_flagged>{number}</div> }
            })
            .collect_view()
    };
    let scrolled = RwSignal::new(0);
    let scroll = move |_| {
        if let (Some(area), Some(gutter)) = (node.get_untracked(), gutter.get_untracked()) {
            gutter.set_scroll_top(area.scroll_top());
            scrolled.set(area.scroll_top());
        }
    };
    // The line whose advice stands under it, and the one that the caret is in.
    let noted = RwSignal::new(None::<u32>);
    let caret = RwSignal::new(None::<u32>);
    let follow_caret = move || {
        caret.set(node.get_untracked().and_then(|area| caret_line(&area)));
    };
    let note = move || {
        let line = noted.get()?;
        let advice: Vec<String> = warnings.with(|found| {
            let of_line = found.iter().filter(|warning| warning.line == line);
            of_line.map(|warning| warning.message.to_string()).collect()
        });
        let top = i32::try_from(line)
            .unwrap_or(i32::MAX)
            .saturating_mul(LINE_PX)
            + PADDING_PX;
        (!advice.is_empty()).then(|| {
            view! {
                <div class="editor-note" aria-hidden="true" style:top=move || format!("{}px", top - scrolled.get())>
                    {advice.into_iter().map(|advice| view! { <p>{advice}</p> }).collect_view()}
                </div>
            }
        })
    };
    view! {
        <div class="field">
            <label class="field-label" for="script">
                "Setup script"
            </label>
            <p class="field-hint" id="script-hint">
                "Runs once on fresh compute, as the user sandbox, in a bash login shell with set -eo pipefail. One command per line: the first failing line ends the run."
                {(!readonly).then_some(" Press Escape, then Tab, to leave the editor.")}
            </p>
            <div class="editor" data-invalid=move || error.with(Option::is_some).to_string()>
                <div
                    class="editor-gutter"
                    node_ref=gutter
                    aria-hidden="true"
                    on:mouseover=move |event| noted.set(number_under(&event))
                    on:mouseleave=move |_| noted.set(None)
                    on:click=move |event| {
                        if let Some(line) = number_under(&event) {
                            go_to(line);
                            follow_caret();
                        }
                    }
                >
                    {numbers}
                </div>
                <textarea
                    node_ref=node
                    id="script"
                    name="draft[script]"
                    rows="9"
                    spellcheck="false"
                    autocapitalize="off"
                    autocomplete="off"
                    wrap="off"
                    readonly=readonly
                    aria-invalid=move || error.with(Option::is_some).then_some("true")
                    aria-describedby="script-error script-hint script-warnings"
                    placeholder="uv venv --seed /workspace/.venv"
                    on:input:target=move |event| script.set(event.target().value())
                    on:scroll=scroll
                    on:keyup=move |_| follow_caret()
                    on:click=move |_| follow_caret()
                    on:focus=move |_| follow_caret()
                    on:blur=move |_| caret.set(None)
                    on:keydown=move |event| {
                        if !readonly {
                            keep_tab(&event, node, script);
                        }
                    }
                >
                    {raw(&first_newline_kept(&script.get_untracked()))}
                </textarea>
                {note}
            </div>
            <div class="editor-foot">
                // As the log counts them: the empty line behind the last line end is none.
                <span>{move || format::count(script.with(|script| script.lines().count()) as u64, "line", "lines")}</span>
                <span class:text-bad=move || { bytes.get() > limits::SCRIPT_MAX_BYTES }>
                    {move || {
                        format!("{} of {} bytes", format::grouped(bytes.get() as u64), format::grouped(limits::SCRIPT_MAX_BYTES as u64))
                    }}
                </span>
            </div>
            <FieldError id="script-error".to_owned() message=error />
            <ul id="script-warnings" class="flex flex-col gap-1.5 text-xs" aria-live="polite">
                {move || {
                    warnings
                        .get()
                        .into_iter()
                        .map(|warning| {
                            let line = warning.line;
                            view! {
                                <li class="flex items-baseline gap-2" class:warning-here=move || caret.get() == Some(line)>
                                    <button
                                        type="button"
                                        class="mono text-warn hover:underline shrink-0"
                                        on:click=move |_| {
                                            go_to(line);
                                        }
                                        on:focus=move |_| noted.set(Some(line))
                                        on:blur=move |_| noted.set(None)
                                    >
                                        {format!("Line {line}")}
                                    </button>
                                    <span class="text-ink-2">
                                        {warning.message}
                                        {(warning.code == WarningCode::ExportDoesNotPersist)
                                            .then(|| {
                                                movable.with(|movable| movable.iter().find(|export| export.line == line).cloned())
                                            })
                                            .flatten()
                                            .map(|export| view! { " " <MoveButton inputs export moved /> })}
                                    </span>
                                </li>
                            }
                        })
                        .collect_view()
                }}
            </ul>
            <p class="text-xs text-ink-2" role="status">
                {move || moved.get()}
            </p>
        </div>
        <div class="[&_input]:max-w-60">
            <TextField
                id="setup_timeout"
                name="draft[setup_timeout]"
                label="Timeout (seconds)"
                value=inputs.setup_timeout
                path="setup.timeout_seconds"
                kind="number"
                inputmode="numeric"
                placeholder=limits::SETUP_TIMEOUT_DEFAULT.to_string()
                hint=format!("{} to {}. Past it the run fails with exit code 124.", limits::SETUP_TIMEOUT_MIN, format::grouped(u64::from(limits::SETUP_TIMEOUT_MAX)))
                readonly=readonly
            />
        </div>
    }
    .into_any()
}

/// Makes variables of the environment out of a line that exports them.
#[component]
fn MoveButton(
    inputs: Inputs,
    export: MovableExport,
    /// What was done, for the reader.
    moved: RwSignal<String>,
) -> impl IntoView {
    let act = move |_| {
        let text = inputs
            .env_vars
            .with_untracked(|text| with_variables(text, &export.variables));
        if let Ok(text) = text {
            let names: Vec<&str> = export
                .variables
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            moved.set(format!(
                "{} now stands under Environment variables; it takes effect when you save.",
                names.join(", ")
            ));
            inputs.env_vars.set(text);
            inputs
                .script
                .update(|script| *script = setup_script::without_line(script, export.line));
            // The button is gone.
            let line = export.line;
            request_animation_frame(move || {
                go_to(line);
            });
        }
    };
    view! {
        <button type="button" class="link" on:click=act>
            "Move to variables"
        </button>
    }
    .into_any()
}

/// Height of a line, and what stands above the first one, as `.editor` draws them.
const LINE_PX: i32 = 20;
const PADDING_PX: i32 = 10;

/// The number in the gutter that the pointer is on.
fn number_under(event: &ev::MouseEvent) -> Option<u32> {
    let number = event.target()?.dyn_into::<web_sys::Node>().ok()?;
    number.text_content()?.trim().parse().ok()
}

/// The line that the caret is in.
fn caret_line(area: &web_sys::HtmlTextAreaElement) -> Option<u32> {
    let at = usize::try_from(area.selection_start().ok()??).ok()?;
    // Positions of browsers count UTF-16.
    let text = area.value();
    let ends = text
        .encode_utf16()
        .take(at)
        .filter(|unit| *unit == u16::from(b'\n'));
    u32::try_from(ends.count() + 1).ok()
}

/// HTML swallows a line end right behind `<textarea>`.
fn first_newline_kept(script: &str) -> String {
    if script.starts_with('\n') {
        format!("\n{script}")
    } else {
        script.to_owned()
    }
}

/// Tab writes a tab; after Escape it moves on, so that the keyboard is never caught.
fn keep_tab(event: &ev::KeyboardEvent, node: NodeRef<html::Textarea>, script: RwSignal<String>) {
    let Some(area) = node.get_untracked() else {
        return;
    };
    match event.key().as_str() {
        "Escape" => {
            // The next Tab leaves.
            let _ = area.set_attribute("data-leaving", "");
        }
        "Tab" if !event.shift_key() && area.get_attribute("data-leaving").is_none() => {
            event.prevent_default();
            let (Ok(Some(start)), Ok(Some(end))) = (area.selection_start(), area.selection_end())
            else {
                return;
            };
            // Works on the browser's own text, so that its positions (UTF-16) stay right.
            if area
                .set_range_text_with_start_and_end("\t", start, end)
                .is_ok()
            {
                let _ = area.set_selection_range(start + 1, start + 1);
            }
            script.set(area.value());
        }
        _ => {
            let _ = area.remove_attribute("data-leaving");
        }
    }
}

/// Selects a line and brings it into view; answers whether the editor is on this page.
pub fn go_to(line: u32) -> bool {
    let area = document()
        .get_element_by_id("script")
        .and_then(|area| area.dyn_into::<web_sys::HtmlTextAreaElement>().ok());
    let Some(area) = area else {
        return false;
    };
    let text = area.value();
    let wanted = line.saturating_sub(1) as usize;
    let before: usize = text
        .split('\n')
        .take(wanted)
        .map(|line| line.encode_utf16().count() + 1)
        .sum();
    let length = text
        .split('\n')
        .nth(wanted)
        .map_or(0, |line| line.encode_utf16().count());
    let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let _ = area.focus();
    let _ = area.set_selection_range(position(before), position(before + length));
    area.set_scroll_top(i32::try_from(line.saturating_sub(4)).unwrap_or(0) * LINE_PX);
    true
}

/// Goes to the line that the address names: `#script-L7`.
fn aim() {
    let fragment = window().location().hash().unwrap_or_default();
    let line = fragment
        .strip_prefix("#script-L")
        .and_then(|line| line.parse::<u32>().ok());
    if let Some(line) = line {
        go_to(line);
    }
}
