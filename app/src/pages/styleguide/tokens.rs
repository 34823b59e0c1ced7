//! Tokens. Their values are in `style/tailwind.css`; what is drawn here takes them from there by name.

use leptos::prelude::*;

use super::{Part, Specimen};
use crate::components::{Draw, Icon};

/// Colours with what they are for; a test holds them against the style sheet.
pub const COLOURS: [(&str, &str); 31] = [
    ("canvas", "the page"),
    ("surface", "cards, inputs"),
    ("raised", "menus, dialogs"),
    ("sunken", "what is behind a surface"),
    ("hover", "under the pointer"),
    ("line", "edges"),
    ("line-strong", "edges of controls"),
    ("line-field", "edges of inputs, 3:1"),
    ("ink", "text"),
    ("ink-2", "second text"),
    ("ink-3", "labels, hints"),
    ("accent", "links, focus"),
    ("accent-soft", "chosen"),
    ("on-accent", "text on the accent"),
    ("primary", "the main button"),
    ("primary-hover", "the same, hovered"),
    ("on-primary", "its text"),
    ("good", "went well"),
    ("good-soft", "behind it"),
    ("good-line", "around it"),
    ("warn", "needs attention"),
    ("warn-soft", "behind it"),
    ("warn-line", "around it"),
    ("bad", "went wrong"),
    ("bad-soft", "behind it"),
    ("bad-line", "around it"),
    ("danger", "what destroys"),
    ("danger-hover", "the same, hovered"),
    ("info", "under way"),
    ("info-soft", "behind it"),
    ("info-line", "around it"),
];

const TYPE: [(&str, &str); 6] = [
    ("text-2xl", "24 / 32"),
    ("text-xl", "20 / 28, page titles"),
    ("text-lg", "16 / 24, dialogs"),
    ("text-base", "14 / 22, text"),
    ("text-sm", "13 / 20, controls, tables"),
    ("text-xs", "12 / 18, labels, hints"),
];

/// Pixels; steps of the spacing scale, as `gap-1` to `gap-12`.
const SPACES: [(&str, u32); 8] = [
    ("1", 4),
    ("1.5", 6),
    ("2", 8),
    ("3", 12),
    ("4", 16),
    ("5", 20),
    ("8", 32),
    ("12", 48),
];

/// Pixels, and what has such corners.
const RADII: [(u32, &str); 5] = [
    (4, "keys, skeletons"),
    (6, "buttons, inputs"),
    (8, "alerts, menus"),
    (10, "cards, tables"),
    (12, "dialogs"),
];

/// Tokens.
#[component]
pub fn Tokens() -> impl IntoView {
    let colours = COLOURS
        .into_iter()
        .map(|(name, what)| {
            view! {
                <div class="flex items-center gap-2 min-w-0">
                    // An attribute of the picture, since the policy refuses styles in markup.
                    <svg class="w-8 h-8 flex-none" aria-hidden="true">
                        <rect x="0.5" y="0.5" width="31" height="31" rx="6" fill=format!("var(--{name})") stroke="var(--line)" />
                    </svg>
                    <span class="min-w-0 text-xs">
                        <code class="mono block">{name}</code>
                        <span class="text-ink-3">{what}</span>
                    </span>
                </div>
            }
        })
        .collect_view();
    let types = TYPE
        .into_iter()
        .map(|(class, what)| {
            view! {
                <p class=class>
                    "Environments for agents " <span class="text-xs text-ink-3">{class} ", " {what}</span>
                </p>
            }
        })
        .collect_view();
    let spaces = SPACES
        .into_iter()
        .map(|(step, pixels)| {
            view! {
                <div class="flex items-center gap-2 text-xs">
                    <span class="w-8 text-right text-ink-3 tabular-nums">{step}</span>
                    <svg class="flex-none h-3" width=pixels aria-hidden="true">
                        <rect width=pixels height="12" fill="var(--accent)" />
                    </svg>
                    {pixels} " px"
                </div>
            }
        })
        .collect_view();
    let radii = RADII
        .into_iter()
        .map(|(radius, what)| {
            view! {
                <div class="text-xs">
                    <svg class="w-8 h-8" aria-hidden="true">
                        <rect x="0.5" y="0.5" width="31" height="31" rx=radius fill="var(--sunken)" stroke="var(--line-field)" />
                    </svg>
                    <p>{radius} " px"</p>
                    <p class="text-ink-3">{what}</p>
                </div>
            }
        })
        .collect_view();
    let icons = Icon::ALL
        .into_iter()
        .map(|icon| {
            view! {
                <span class="inline-flex items-center gap-1.5 text-xs text-ink-2">
                    <Draw icon />
                    {format!("{icon:?}")}
                </span>
            }
        })
        .collect_view();
    view! {
        <Part title="Tokens">
            <Specimen title="Colour">
                <div class="grid gap-3 w-full grid-cols-2 sm:grid-cols-3 lg:grid-cols-5">{colours}</div>
            </Specimen>
            <Specimen title="Colours of a log">
                <div class="log mono text-xs p-3 flex flex-wrap gap-x-4">
                    {(0..16).map(|n| view! { <span class=format!("sgr-{n}")>{format!("sgr-{n}")}</span> }).collect_view()}
                    {(0..8).map(|n| view! { <span class=format!("sgr-bg-{n}")>{format!("sgr-bg-{n}")}</span> }).collect_view()}
                </div>
            </Specimen>
            <Specimen title="Type">
                <div class="flex flex-col gap-1 w-full">
                    {types} <p class="mono">"apt-get install -y jq  " <span class="text-xs text-ink-3">"mono"</span></p>
                </div>
            </Specimen>
            <Specimen title="Space">
                <div class="flex flex-col gap-1">{spaces}</div>
            </Specimen>
            <Specimen title="Radius">{radii}</Specimen>
            <Specimen title="Shadow">
                <div class="card card-body text-xs">"shadow-card"</div>
                <div class="card-body rounded-lg bg-raised text-xs shadow-(--shadow-pop)">"shadow-pop"</div>
            </Specimen>
            <Specimen title="Motion">
                <p class="text-sm text-ink-2">
                    "Colours change in 0.12 s, a section's arrow turns in 0.15 s. What is under way turns, pulses or shimmers; nothing else moves, and nothing at all where the reader asked for reduced motion."
                </p>
                <span class="spinner" aria-hidden="true"></span>
                <span class="badge badge-info badge-busy">"pulse"</span>
                <span class="skeleton w-48"></span>
            </Specimen>
            <Specimen title="Icon, Draw">{icons}</Specimen>
        </Part>
    }
    .into_any()
}
