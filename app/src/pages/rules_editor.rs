//! The rules of *Selected hosts*: as a list with live checks, or as text to paste into. The text is what is posted.

use domain::{
    host_groups::HostGroups,
    limits,
    network_policy::{HostGlob, NetworkPolicy, Rule, RuleAction},
};
use leptos::{ev, html, prelude::*};

use crate::{
    components::{
        AddRow, Draw, Icon, LineText, LinesField, RowButton, Rows, basics::alive, focus_button,
    },
    draft::{RuleLine, parse_rules, show_rules},
    hosts::in_ascii,
    text::shown,
};

const MOVE_UP: &str = "Move up";
const MOVE_DOWN: &str = "Move down";
const REMOVE: &str = "Remove";

/// The editor.
#[component]
pub fn RulesEditor(
    /// The text.
    rules: RwSignal<String>,
    /// Sets of hosts that are offered by name.
    groups: HostGroups,
    /// Only to read.
    readonly: bool,
) -> impl IntoView {
    let alive = alive();
    let as_text = RwSignal::new(false);
    let listed = Signal::derive(move || alive.get() && !as_text.get());
    let lines = LineText::new(rules);
    let groups = StoredValue::new(groups);
    view! {
        <div class="flex flex-col gap-2">
            <p class="field-hint">
                "Rules are checked in order, and the first match decides; what no rule allows is blocked. * stands for one or more characters, dots too: *.example.com covers a.example.com, not example.com."
            </p>
            <LinesField
                lines
                id="rules"
                name="draft[rules]"
                label="Rules, one host a line"
                rows=6
                placeholder="github.com\n*.example.com\ndeny ads.example.com"
                hint="One host a line; write “deny” in front of those to block."
                readonly
                hidden=listed
            />
            {move || {
                listed
                    .get()
                    .then(|| {
                        lines.track_outside();
                        view! { <RuleList lines readonly /> }
                    })
            }}
            <Show when=move || alive.get()>
                <div class="flex flex-wrap items-center gap-2">
                    <Show when=move || !readonly>
                        {groups
                            .with_value(|groups| {
                                groups
                                    .0
                                    .iter()
                                    .map(|(name, hosts)| {
                                        let hosts = hosts.clone();
                                        view! {
                                            <button
                                                type="button"
                                                class="button button-small"
                                                title=hosts.join("\n")
                                                on:click=move |_| rules.update(|text| add_hosts(text, &hosts))
                                            >
                                                <Draw icon=Icon::Plus />
                                                {name.clone()}
                                            </button>
                                        }
                                    })
                                    .collect_view()
                            })}
                    </Show>
                    <button
                        type="button"
                        class="button button-ghost button-small"
                        on:click=move |_| as_text.update(|on| *on = !*on)
                    >
                        {move || match (as_text.get(), readonly) {
                            (true, _) => "Show as a list",
                            (false, true) => "Show as text",
                            (false, false) => "Edit or paste as text",
                        }}
                    </button>
                </div>
                <Tester rules />
            </Show>
        </div>
    }
    .into_any()
}

/// Adds the hosts that are not there yet.
fn add_hosts(text: &mut String, hosts: &[String]) {
    let mut rules = parse_rules(text);
    for host in hosts {
        if !rules
            .iter()
            .any(|rule| rule.host.eq_ignore_ascii_case(host))
        {
            rules.push(RuleLine {
                allow: true,
                host: host.clone(),
            });
        }
    }
    *text = show_rules(&rules);
}

#[derive(Clone, Copy)]
struct Inputs {
    allow: RwSignal<bool>,
    host: RwSignal<String>,
}

impl Inputs {
    fn new(rule: RuleLine) -> Self {
        Self {
            allow: RwSignal::new(rule.allow),
            host: RwSignal::new(rule.host),
        }
    }

    fn line(self) -> RuleLine {
        RuleLine {
            allow: self.allow.get_untracked(),
            host: self.host.get_untracked().trim().to_owned(),
        }
    }
}

#[component]
fn RuleList(lines: LineText, readonly: bool) -> impl IntoView {
    let saved = lines.text.with_untracked(|text| parse_rules(text));
    let rows = Rows::new(saved, Inputs::new);
    let entries = rows.entries;
    let write = move || {
        let rules: Vec<RuleLine> = entries.with_untracked(|entries| {
            entries
                .iter()
                .map(|entry| entry.row.line())
                .filter(|rule| !rule.host.is_empty())
                .collect()
        });
        lines.write(show_rules(&rules));
    };
    // Rows that are dragged change places as they pass each other.
    let dragged: RwSignal<Option<usize>> = RwSignal::new(None);
    let pass = move |over: usize| {
        let Some(key) = dragged.get_untracked().filter(|key| *key != over) else {
            return;
        };
        entries.update(|entries| {
            let at = |wanted: usize| entries.iter().position(|entry| entry.key == wanted);
            if let (Some(from), Some(to)) = (at(key), at(over)) {
                let entry = entries.remove(from);
                entries.insert(to, entry);
            }
        });
    };
    // A list that is pasted into a row becomes rows.
    let spread = move |key: usize, text: &str| -> bool {
        let pasted = parse_rules(text);
        if pasted.len() < 2 {
            return false;
        }
        let fresh: Vec<_> = pasted
            .into_iter()
            .map(|rule| rows.keyed(|| Inputs::new(rule)))
            .collect();
        entries.update(|entries| {
            let Some(at) = entries.iter().position(|entry| entry.key == key) else {
                return;
            };
            let is_empty = entries[at]
                .row
                .host
                .with_untracked(|host| host.trim().is_empty());
            let end = at + usize::from(is_empty);
            let begin = if is_empty { at } else { at + 1 };
            entries.splice(begin..end.max(begin), fresh);
            entries.truncate(limits::NETWORK_RULES_MAX);
        });
        write();
        true
    };
    let list: NodeRef<html::Ol> = NodeRef::new();
    let shift = move |key: usize, by: isize, label: &'static str| {
        entries.update(|entries| {
            if let Some(at) = entries.iter().position(|entry| entry.key == key)
                && let Some(to) = at.checked_add_signed(by).filter(|to| *to < entries.len())
            {
                entries.swap(at, to);
            }
        });
        write();
        if let Some(at) = untrack(|| rows.place(key)) {
            focus_button(list, at, label);
        }
    };
    let remove = move |key: usize| {
        let at = rows.remove(key);
        write();
        focus_button(list, at, REMOVE);
    };
    view! {
        <ol node_ref=list class="flex flex-col gap-1.5" aria-label="Rules">
            <For each=move || entries.get() key=|entry| entry.key let:entry>
                <li
                    class="rule-row"
                    class:rule-dragged=move || dragged.get() == Some(entry.key)
                    on:dragover=move |event: ev::DragEvent| {
                        if dragged.get_untracked().is_some() {
                            event.prevent_default();
                            pass(entry.key);
                        }
                    }
                    on:drop=move |event: ev::DragEvent| event.prevent_default()
                >
                    {(!readonly)
                        .then(|| {
                            view! {
                                <span
                                    class="rule-grip"
                                    draggable="true"
                                    title="Drag to reorder"
                                    aria-hidden="true"
                                    on:dragstart=move |event: ev::DragEvent| {
                                        if let Some(data) = event.data_transfer() {
                                            // Browsers drag nothing without data; the row is moved by its key.
                                            let _ = data.set_data("text/plain", "");
                                        }
                                        dragged.set(Some(entry.key));
                                    }
                                    on:dragend=move |_| {
                                        dragged.set(None);
                                        write();
                                    }
                                >
                                    <Draw icon=Icon::GripVertical />
                                </span>
                            }
                        })}
                    <span class="rule-number" aria-hidden="true">
                        {move || rows.place(entry.key).map(|at| at + 1)}
                    </span>
                    <select
                        class="input w-24"
                        aria-label="Action"
                        disabled=readonly
                        on:change:target=move |event| {
                            entry.row.allow.set(event.target().value() == "allow");
                            write();
                        }
                    >
                        <option value="allow" selected=entry.row.allow.get_untracked()>
                            "Allow"
                        </option>
                        <option value="deny" selected=!entry.row.allow.get_untracked()>
                            "Deny"
                        </option>
                    </select>
                    <div class="flex-1 min-w-40">
                        <input
                            class="input input-code"
                            aria-label="Host"
                            aria-invalid=move || {
                                entry
                                    .row
                                    .host
                                    .with(|host| !host.trim().is_empty() && HostGlob::parse(&in_ascii(host.trim())).is_err())
                                    .then_some("true")
                            }
                            readonly=readonly
                            prop:value=move || entry.row.host.get()
                            placeholder="host or *.host"
                            spellcheck="false"
                            autocapitalize="off"
                            on:input:target=move |event| {
                                entry.row.host.set(event.target().value());
                                write();
                            }
                            on:paste=move |event: ev::ClipboardEvent| {
                                let text = event.clipboard_data().and_then(|data| data.get_data("text").ok());
                                if !readonly && text.is_some_and(|text| spread(entry.key, &text)) {
                                    event.prevent_default();
                                }
                            }
                        />
                        {move || {
                            entry
                                .row
                                .host
                                .with(|host| (!host.trim().is_empty()).then(|| HostGlob::parse(&in_ascii(host.trim())).err()).flatten())
                                .map(|bad| view! { <p class="field-error mt-1">{shown(&bad.0)}</p> })
                        }}
                    </div>
                    {(!readonly)
                        .then(|| {
                            view! {
                                <div class="flex">
                                    <RowButton label=MOVE_UP icon=Icon::ArrowUp act=move |()| shift(entry.key, -1, MOVE_UP) />
                                    <RowButton label=MOVE_DOWN icon=Icon::ArrowDown act=move |()| shift(entry.key, 1, MOVE_DOWN) />
                                    <RowButton label=REMOVE icon=Icon::X act=move |()| remove(entry.key) />
                                </div>
                            }
                        })}
                </li>
            </For>
        </ol>
        {(!readonly)
            .then(|| {
                view! {
                    <AddRow
                        rows
                        label="Add rule"
                        most=limits::NETWORK_RULES_MAX
                        add=move |()| {
                            rows.push(|| {
                                Inputs::new(RuleLine {
                                    allow: true,
                                    host: String::new(),
                                })
                            });
                        }
                    />
                }
            })}
    }
    .into_any()
}

/// Would this host be allowed?
#[component]
fn Tester(rules: RwSignal<String>) -> impl IntoView {
    let host = RwSignal::new(String::new());
    let verdict = move || {
        let host = host.get();
        let host = host.trim();
        if host.is_empty() {
            return None;
        }
        let rules = rules.with(|text| parse_rules(text));
        let policy = NetworkPolicy::Rules(
            rules
                .iter()
                .map(|rule| Rule {
                    host_glob: in_ascii(&rule.host).into_owned(),
                    action: if rule.allow {
                        RuleAction::Allow
                    } else {
                        RuleAction::Deny
                    },
                })
                .collect(),
        );
        let verdict = policy.verdict(&in_ascii(host));
        let by = match verdict
            .rule
            .and_then(|index| rules.get(index).map(|rule| (index + 1, rule)))
        {
            Some((number, rule)) => format!("by rule {number}, {}", shown(&rule.host)),
            None => "since no rule matches".to_owned(),
        };
        Some((
            verdict.allowed,
            format!(
                "{} is {} {by}.",
                shown(host),
                if verdict.allowed {
                    "allowed"
                } else {
                    "blocked"
                }
            ),
        ))
    };
    view! {
        <div class="flex flex-col gap-1 max-w-md mt-1">
            <div class="input-wrap">
                <Draw icon=Icon::Globe />
                <input
                    class="input input-code"
                    type="text"
                    aria-label="Test a host against the rules"
                    placeholder="Would this host be allowed?"
                    spellcheck="false"
                    autocapitalize="off"
                    autocomplete="off"
                    on:input:target=move |event| host.set(event.target().value())
                    on:keydown=|event| {
                        // Enter here must not save the form.
                        if event.key() == "Enter" {
                            event.prevent_default();
                        }
                    }
                />
            </div>
            <p class="text-xs" aria-live="polite">
                {move || {
                    verdict()
                        .map(|(allowed, text)| {
                            view! {
                                <span class:text-good=allowed class:text-bad=!allowed>
                                    {text}
                                </span>
                            }
                        })
                }}
            </p>
        </div>
    }
    .into_any()
}
