//! Patterns that are classes of the style sheet alone.

use leptos::prelude::*;

use super::{Part, Specimen, State};
use crate::components::{Draw, Icon, Sign, Tone};

/// Patterns.
#[component]
pub fn Patterns() -> impl IntoView {
    view! {
        <Part title="Patterns">
            <Specimen title=".table">
                <State name="default" class="w-full">
                    <Rows />
                </State>
                <State name="hover" class="w-full show-hover">
                    <Rows />
                </State>
            </Specimen>
            <Specimen title=".section">
                <State name="closed" class="w-full">
                    <Folded open=false />
                </State>
                <State name="open, focus" class="w-full show-focus">
                    <Folded open=true />
                </State>
            </Specimen>
            <Specimen title=".stepper">
                <ol class="stepper" aria-label="Phases of the sample">
                    <Step class="step-done" icon=Icon::Check label="Queue" />
                    <Step class="step-now" label="Setup" />
                    <Step class="step-bad" icon=Icon::X label="Image" />
                    <Step class="" label="Done" />
                </ol>
            </Specimen>
            <Specimen title=".segments">
                <State name="default">
                    <Segments name="sg-a" disabled=false />
                </State>
                <State name="disabled">
                    <Segments name="sg-b" disabled=true />
                </State>
            </Specimen>
            <Specimen title=".preset, .pick">
                <State name="default">
                    <Preset pressed="false" disabled=false />
                </State>
                <State name="hover" class="show-hover">
                    <Preset pressed="false" disabled=false />
                </State>
                <State name="focus" class="show-focus">
                    <Preset pressed="false" disabled=false />
                </State>
                <State name="chosen">
                    <Preset pressed="true" disabled=false />
                </State>
                <State name="disabled">
                    <Preset pressed="false" disabled=true />
                </State>
                <State name="a card to pick">
                    <a class="pick" href="#main">
                        <span class="pick-name">
                            <Draw icon=Icon::ChartSpline />
                            "Data analysis"
                        </span>
                        <span class="pick-text">"Python with pandas."</span>
                    </a>
                </State>
            </Specimen>
            <Specimen title=".nav-item, .tab, .link, .kbd">
                <div class="w-48">
                    <a class="nav-item" href="#main" aria-current="page">
                        <Draw icon=Icon::Layers />
                        "Here"
                    </a>
                    <a class="nav-item" href="#main">
                        <Draw icon=Icon::Terminal />
                        "Elsewhere"
                    </a>
                </div>
                <nav class="tabs" aria-label="Tabs of the sample">
                    <a class="tab" href="#main" aria-current="page">
                        "One"
                    </a>
                    <a class="tab" href="#main">
                        "Two"
                    </a>
                </nav>
                <p>
                    <a class="link" href="#main">
                        "A link in a text"
                    </a> ", and a key: " <kbd class="kbd">"?"</kbd>
                </p>
            </Specimen>
            <Specimen title=".code-block, .once, .pairs">
                <pre class="code-block" tabindex="0">"curl -fsS https://files.example/tool.tgz"</pre>
                <div class="once">"shown-once-then-never-again"</div>
                <dl class="pairs">
                    <dt>"Runtime"</dt>
                    <dd>"oci"</dd>
                    <dt>"Sessions"</dt>
                    <dd>"can start"</dd>
                </dl>
            </Specimen>
        </Part>
    }
    .into_any()
}

#[component]
fn Rows() -> impl IntoView {
    view! {
        <div class="table-wrap">
            <table class="table table-stack">
                <thead>
                    <tr>
                        <th scope="col" aria-sort="ascending">
                            <a class="table-sort" href="#main">
                                "Name"
                                <Draw icon=Icon::ArrowUp />
                            </a>
                        </th>
                        <th scope="col">"Setup"</th>
                    </tr>
                </thead>
                <tbody>
                    <tr>
                        <td class="cell-title">"data-analysis"</td>
                        <td data-label="Setup">
                            <Sign tone=Tone::Good text="Verified" />
                        </td>
                    </tr>
                </tbody>
            </table>
        </div>
    }
}

#[component]
fn Folded(open: bool) -> impl IntoView {
    view! {
        <details class="section" open=open>
            <summary>
                <Draw icon=Icon::ChevronRight />
                <span class="text-sm font-semibold">"Permissions"</span>
                <span class="section-summary">"No internet access"</span>
            </summary>
            <div class="section-body">
                <p class="text-sm">"What the section holds."</p>
            </div>
        </details>
    }
}

#[component]
fn Step(
    class: &'static str,
    #[prop(optional)] icon: Option<Icon>,
    label: &'static str,
) -> impl IntoView {
    view! {
        <li class=format!("step {class}")>
            <span class="step-dot" aria-hidden="true">
                {icon.map(|icon| view! { <Draw icon /> })}
            </span>
            {label}
            <span class="step-time">"1.2 s"</span>
        </li>
    }
}

#[component]
fn Segments(name: &'static str, disabled: bool) -> impl IntoView {
    view! {
        <div class="segments" role="radiogroup" aria-label="Internet access">
            <label>
                <input type="radio" name=name value="1" checked disabled=disabled />
                "Enabled"
            </label>
            <label>
                <input type="radio" name=name value="2" disabled=disabled />
                "No access"
            </label>
        </div>
    }
}

#[component]
fn Preset(pressed: &'static str, disabled: bool) -> impl IntoView {
    view! {
        <button type="button" class="preset" aria-pressed=pressed disabled=disabled>
            <span class="font-medium">"Small"</span>
            <span class="preset-size">"2 vCPU · 4 GiB"</span>
        </button>
    }
}
