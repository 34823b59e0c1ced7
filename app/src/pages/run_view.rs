//! One run with its log: in the *Setup test* panel, and on its own page.

use domain::{
    setup_run::{LogLine, Phase, Status},
    timestamp::Timestamp,
};
use leptos::{html, prelude::*};
use wire::console::{PhaseStep, RunView, StepState};

use super::{
    run_outcome::{Outcome, RunFacts},
    setup_panel::status_sign,
};
use crate::{
    api::setup_runs::CancelRun,
    components::{Draw, Hosts, Icon, Prepared, Refused, Submit, Timings},
    format, links,
    live::{
        log_view::Log,
        now::{Ago, Now},
        viewer::Viewer,
    },
    text::shown,
    view::bring_into_view,
};

/// One run with its log, live.
#[component]
pub fn Run(
    /// The run.
    run: RunView,
    /// The part of its log that the server renders.
    part: Vec<LogLine>,
    /// Where that part begins, where it is not the end.
    #[prop(optional_no_strip)]
    from: Option<u64>,
    /// Idempotency key of the forms that mend and test again.
    key: String,
    /// How long the newest run before it took that passed, milliseconds.
    #[prop(into)]
    previous: Signal<Option<i64>>,
    /// Asks for fresh data once it has ended, or another was started; without it the page leads there.
    #[prop(optional, into)]
    reload: Option<Callback<()>>,
    /// The log fills the page.
    #[prop(optional)]
    tall: bool,
) -> impl IntoView {
    let viewer = Viewer::new(run.clone(), part.clone());
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        viewer.follow(Callback::new(move |()| {
            if let Some(reload) = reload {
                reload.run(());
            }
        }));
    });
    // The list below and the badge above follow the run from step to step.
    Effect::new(move |before: Option<Status>| {
        let status = viewer.run.with(|run| run.status);
        if let (Some(before), Some(reload)) = (before, reload)
            && before != status
            && !status.is_terminal()
        {
            reload.run(());
        }
        status
    });
    let view = viewer.run;
    let (environment_id, setup_run_id) = (run.environment_id, run.setup_run_id);
    let key = StoredValue::new(key);
    // Made once: its forms keep what they were told while the run goes on being told of.
    let ended = Memo::new(move |_| view.with(|run| run.finished));
    let image =
        Memo::new(move |_| view.with(|run| run.finished.then(|| run.image.clone()).flatten()));
    let outcome: NodeRef<html::Div> = NodeRef::new();
    Effect::new(move |before: Option<bool>| {
        let now = ended.get();
        if before == Some(false) && now {
            // Once it is in the page; what arrives after it (hosts, times) can move it again.
            for delay in [0, 300, 1_000] {
                set_timeout(
                    move || {
                        if let Some(Some(outcome)) = outcome.try_get_untracked() {
                            bring_into_view(&outcome);
                        }
                    },
                    std::time::Duration::from_millis(delay),
                );
            }
        }
        now
    });
    let allowed = Callback::new(move |()| {
        if let Some(reload) = reload {
            reload.run(());
        }
    });
    view! {
        <div class="run flex flex-col gap-3">
            <Head view />
            <Stepper view />
            <Progress viewer />
            <div node_ref=outcome class="run-outcome empty:hidden">
                {move || {
                    ended
                        .get()
                        .then(|| {
                            view! { <Outcome run=view.get_untracked() key=key.get_value() reload /> }
                        })
                }}
            </div>
            <div class="run-grid">
                <div class="run-log">
                    <Log viewer part from tall />
                </div>
                <aside class="run-side" aria-label="What the run used">
                    <RunFacts view previous />
                    {move || image.get().map(|image| view! { <Prepared image /> })}
                    <Hosts environment_id setup_run_id finished=ended allowed />
                    <Timings environment_id setup_run_id finished=ended />
                </aside>
            </div>
            {(!tall)
                .then(|| {
                    view! {
                        <p class="text-xs text-ink-3">
                            "Run " <code class="mono">{run.short_id.clone()}</code> " by " {shown(&run.by)} ", "
                            <Ago at=run.created_at /> " · "
                            <a class="link" href=links::run(environment_id, setup_run_id)>
                                "Open its page"
                            </a>
                        </p>
                    }
                })}
        </div>
    }
    .into_any()
}

/// The run's status, what it does, and the button that stops it.
#[component]
fn Head(view: RwSignal<RunView>) -> impl IntoView {
    let cancel = ServerAction::<CancelRun>::new();
    let refused = Signal::derive(move || cancel.value().get().and_then(Result::err));
    let may_cancel =
        Memo::new(move |_| view.with(|run| run.may_cancel && !run.finished && !run.cancelling));
    let (environment_id, setup_run_id) =
        view.with_untracked(|run| (run.environment_id, run.setup_run_id));
    view! {
        <div class="flex flex-wrap items-center gap-x-3 gap-y-2">
            {move || view.with(|run| status_sign(run.status, &run.status_label))}
            // Once it has ended the box below says it; here it is only announced.
            <span
                class="text-sm text-ink-2 min-w-0"
                class:visually-hidden=move || view.with(|run| run.finished)
                role="status"
            >
                {move || view.with(|run| run.outcome.clone().unwrap_or_else(|| run.message.clone()))}
            </span>
            <Show when=move || may_cancel.get()>
                <span class="ml-auto">
                    <ActionForm action=cancel>
                        <input type="hidden" name="environment_id" value=environment_id.to_string() />
                        <input type="hidden" name="setup_run_id" value=setup_run_id.to_string() />
                        <Submit label="Cancel run" icon=Icon::CircleStop class="button-small" busy=cancel.pending() />
                    </ActionForm>
                </span>
            </Show>
        </div>
        <Refused error=refused />
    }
    .into_any()
}

#[component]
fn Stepper(view: RwSignal<RunView>) -> impl IntoView {
    let now = use_context::<Now>();
    let step = move |step: PhaseStep| {
        let (class, said) = match step.state {
            StepState::Waiting => ("step", "waiting"),
            StepState::Active => ("step step-now", "under way"),
            StepState::Done => ("step step-done", "done"),
            StepState::Failed => ("step step-bad", "failed"),
            StepState::Cancelled => ("step", "cancelled"),
            StepState::Skipped => ("step", "not reached"),
        };
        let icon = match step.state {
            StepState::Done => Some(Icon::Check),
            StepState::Failed | StepState::Cancelled => Some(Icon::X),
            _ => None,
        };
        let time = move || match (step.state, step.started_at, step.duration_ms) {
            (StepState::Active, Some(since), _) => {
                now.map(|now| format::clock(now.get().millis_since(since)))
            }
            (_, _, taken) => taken.map(format::duration),
        };
        view! {
            <li class=class>
                <span class="step-dot" aria-hidden="true">
                    {icon.map(|icon| view! { <Draw icon /> })}
                </span>
                {step.label}
                <span class="visually-hidden">{said}</span>
                <span class="step-time">{time}</span>
            </li>
        }
    };
    view! { <ol class="stepper" aria-label="Phases">{move || view.with(|run| run.phases.clone()).into_iter().map(step).collect_view()}</ol> }
}

/// `line 3 of 12 · 0:41 of 15:00 · last output 2 s ago`
#[component]
fn Progress(viewer: Viewer) -> impl IntoView {
    let now = use_context::<Now>();
    let text = move || {
        let now = now?.get();
        viewer.run.with(|run| {
            if run.finished {
                return None;
            }
            let since = now.millis_since(run.now);
            let newest = viewer.newest.get();
            let mut parts: Vec<String> = Vec::new();
            if run.phase == Phase::Setup {
                let line = newest.and_then(|(line, _)| line).or(run.running_line);
                if let Some(line) = line {
                    parts.push(format!("line {line} of {}", run.script_lines));
                }
                if let Some(elapsed) = run.script_elapsed_ms {
                    parts.push(format!(
                        "{} of {}",
                        format::clock(elapsed + since),
                        format::clock(i64::from(run.timeout_seconds) * 1_000)
                    ));
                }
            } else if run.status == Status::Queued {
                parts.push(format!(
                    "waiting for {}",
                    format::clock(run.elapsed_ms + since)
                ));
            } else {
                parts.push(format::clock(run.elapsed_ms + since));
            }
            let last = newest.map(|(_, at)| at).max(run.last_output_at);
            if let Some(at) = last {
                parts.push(format!("last output {}", ago(at, now)));
            }
            Some(parts.join(" · "))
        })
    };
    move || text().map(|text| view! { <p class="text-xs text-ink-2 tabular-nums">{text}</p> })
}

/// `2 s ago`: to the second, since a silence is what one looks for.
fn ago(at: Timestamp, now: Timestamp) -> String {
    match now.millis_since(at) / 1_000 {
        seconds @ ..60 => format!("{} s ago", seconds.max(0)),
        _ => format::relative(at, now).unwrap_or_else(|| format::date_utc(at)),
    }
}
