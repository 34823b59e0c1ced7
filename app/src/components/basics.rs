//! Buttons that submit, badges, alerts, copy buttons.

use domain::verification::SetupBadge;
use leptos::prelude::*;

use super::icons::{Draw, Icon};
use crate::{api::AppError, text::shown};

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// Went well.
    Good,
    /// Needs attention.
    Warn,
    /// Went wrong.
    Bad,
    /// Under way, or just to know.
    Info,
}

impl Tone {
    const fn badge(self) -> &'static str {
        match self {
            Self::Plain => "badge",
            Self::Good => "badge badge-good",
            Self::Warn => "badge badge-warn",
            Self::Bad => "badge badge-bad",
            Self::Info => "badge badge-info",
        }
    }
    const fn alert(self) -> &'static str {
        match self {
            Self::Plain => "alert",
            Self::Good => "alert alert-good",
            Self::Warn => "alert alert-warn",
            Self::Bad => "alert alert-bad",
            Self::Info => "alert alert-info",
        }
    }
    const fn icon(self) -> Icon {
        match self {
            Self::Plain | Self::Info => Icon::Info,
            Self::Good => Icon::CircleCheck,
            Self::Warn => Icon::TriangleAlert,
            Self::Bad => Icon::CircleX,
        }
    }
}

/// Why an action was refused; nothing while it was not.
#[component]
pub fn Refused(
    /// The refusal.
    #[prop(into)]
    error: Signal<Option<AppError>>,
) -> impl IntoView {
    move || {
        error.get().map(|error| {
            view! {
                <Alert tone=Tone::Bad urgent=true>
                    {shown(&error.to_string())}
                </Alert>
            }
        })
    }
}

/// A button that submits its form, and says when the form is on its way.
#[component]
pub fn Submit(
    /// The label.
    #[prop(into)]
    label: String,
    /// Whether the form is on its way.
    #[prop(into, default = false.into())]
    busy: Signal<bool>,
    /// Why it cannot be pressed now; empty: it can.
    #[prop(optional, into)]
    refused: Signal<&'static str>,
    /// `button-primary`, `button-danger`, …
    #[prop(optional)]
    class: &'static str,
    /// In front of the label.
    #[prop(optional)]
    icon: Option<Icon>,
    /// Name and value that this button adds to the form.
    #[prop(optional)]
    sends: Option<(&'static str, &'static str)>,
    /// More about what it does, shown on hover.
    #[prop(optional, into)]
    title: String,
) -> impl IntoView {
    view! {
        <button
            type="submit"
            class=format!("button {class}")
            name=sends.map(|(name, _)| name)
            value=sends.map(|(_, value)| value)
            disabled=move || busy.get() || !refused.get().is_empty()
            title=move || {
                let why = refused.get();
                let text = if why.is_empty() { title.clone() } else { why.to_owned() };
                (!text.is_empty()).then_some(text)
            }
            aria-busy=move || busy.get().to_string()
        >
            {move || {
                if busy.get() {
                    view! { <span class="spinner" aria-hidden="true"></span> }.into_any()
                } else {
                    icon.map(|icon| view! { <Draw icon /> }).into_any()
                }
            }}
            {label}
        </button>
    }
}

/// A small word with a colour.
#[component]
pub fn Sign(
    /// The colour.
    tone: Tone,
    /// Whether it is under way.
    #[prop(optional)]
    busy: bool,
    /// The word.
    #[prop(into)]
    text: String,
) -> impl IntoView {
    view! { <span class=tone.badge() class:badge-busy=busy>{text}</span> }
}

/// The *Setup* badge.
#[component]
pub fn SetupBadgeView(
    /// Which.
    badge: SetupBadge,
) -> impl IntoView {
    let (tone, busy) = match badge {
        SetupBadge::Ready | SetupBadge::Verified => (Tone::Good, false),
        SetupBadge::Retesting | SetupBadge::Testing => (Tone::Info, true),
        SetupBadge::NotTested => (Tone::Plain, false),
        SetupBadge::Failed => (Tone::Bad, false),
        SetupBadge::Stale | SetupBadge::NoImage => (Tone::Warn, false),
    };
    view! { <Sign tone busy text=badge.label() /> }
}

/// A message in place.
#[component]
pub fn Alert(
    /// The colour.
    tone: Tone,
    /// In front of the text.
    #[prop(optional, into)]
    title: String,
    /// Announced at once by screen readers.
    #[prop(optional)]
    urgent: bool,
    /// The text.
    children: Children,
) -> impl IntoView {
    view! {
        <div class=tone.alert() role=urgent.then_some("alert")>
            <Draw icon=tone.icon() />
            <div class="min-w-0 flex-1">
                {(!title.is_empty()).then(|| view! { <p class="alert-title">{title}</p> })} {children()}
            </div>
        </div>
    }
    .into_any()
}

/// A button that copies a text; it appears once the page is alive, in a place that was kept for it.
#[component]
pub fn Copy(
    /// What is copied.
    #[prop(into)]
    text: Signal<String>,
    /// What a screen reader says.
    #[prop(into)]
    label: String,
    /// Shown beside the icon.
    #[prop(optional)]
    caption: &'static str,
) -> impl IntoView {
    let copied = RwSignal::new(false);
    let alive = alive();
    let copy = move |_| {
        copy_text(&text.get_untracked());
        copied.set(true);
        set_timeout(
            move || copied.set(false),
            std::time::Duration::from_millis(1_600),
        );
    };
    view! {
        <button
            type="button"
            class="button button-ghost button-small"
            class:button-icon=caption.is_empty()
            class:invisible=move || !alive.get()
            on:click=copy
            title=label.clone()
            aria-label=label
        >
            {move || view! { <Draw icon=if copied.get() { Icon::Check } else { Icon::Copy } /> }} {caption}
            <span class="visually-hidden" aria-live="polite">
                {move || if copied.get() { "Copied" } else { "" }}
            </span>
        </button>
    }
    .into_any()
}

/// A short id that copies the whole one.
#[component]
pub fn CopyId(
    /// Shown.
    short: String,
    /// Copied.
    whole: String,
) -> impl IntoView {
    let label = format!("Copy the id {whole}");
    view! {
        <span class="inline-flex items-center gap-1">
            <code class="mono text-ink-2" title=whole.clone()>
                {short}
            </code>
            <Copy text=whole label />
        </span>
    }
}

/// Whether scripts run: false on the server and in the first rendering.
pub fn alive() -> ReadSignal<bool> {
    let (alive, set_alive) = signal(false);
    Effect::new(move |_| set_alive.set(true));
    alive
}

/// Puts a text on the clipboard.
pub fn copy_text(text: &str) {
    let clipboard = window().navigator().clipboard();
    // Browsers refuse outside of secure contexts; nothing can be done about it here.
    let _ = clipboard.write_text(text);
}
