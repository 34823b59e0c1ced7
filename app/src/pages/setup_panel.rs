//! The *Setup test* panel: one run and its log, the runs before it, and the buttons that start and stop one.

use domain::{
    ids::EnvironmentId,
    setup_run::{LogLine, Phase, Status},
};
use leptos::prelude::*;
use wire::console::{PhaseStep, RunItem, RunView, StepState};

use crate::{
    api::{
        AppError,
        setup_runs::{CancelRun, TestSetup},
    },
    components::{Alert, Draw, Icon, Sign, Submit, Tone},
    format, links,
    live::{
        log_view::{Log, LogState},
        now::{Ago, Now},
    },
};

/// What the panel shows.
#[derive(Clone, PartialEq)]
pub struct PanelData {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// The run in flight, or the newest one.
    pub run: Option<RunView>,
    /// The end of its log.
    pub tail: Vec<LogLine>,
    /// Newest first.
    pub recent: Vec<RunItem>,
    /// Whether the saved environment has a script.
    pub testable: bool,
    /// Whether the viewer may start and cancel runs.
    pub may_test: bool,
    /// Idempotency key of the next start.
    pub key: String,
}

/// The panel.
#[component]
pub fn SetupPanel(
    /// What it shows.
    data: RwSignal<PanelData>,
    /// Asks for fresh data, after a run was started or has ended.
    reload: Callback<()>,
) -> impl IntoView {
    let test = ServerAction::<TestSetup>::new();
    Effect::new(move |_| {
        if matches!(test.value().get(), Some(Ok(_))) {
            reload.run(());
        }
    });
    let refused = Signal::derive(move || test.value().get().and_then(Result::err));
    let run_id =
        Memo::new(move |_| data.with(|data| data.run.as_ref().map(|run| run.setup_run_id)));
    let in_flight =
        Memo::new(move |_| data.with(|data| data.run.as_ref().is_some_and(|run| !run.finished)));
    let offers_test = move || data.with(|data| data.may_test && data.testable) && !in_flight.get();
    view! {
        <section class="card" aria-labelledby="setup-test-title">
            <div class="card-head">
                <h2 id="setup-test-title" class="card-title">
                    "Setup test"
                </h2>
                <Show when=offers_test>
                    <ActionForm action=test>
                        <input type="hidden" name="environment_id" value=data.with_untracked(|data| data.environment_id.to_string()) />
                        <input type="hidden" name="key" value=move || data.with(|data| data.key.clone()) />
                        <Submit label="Test setup" icon=Icon::FlaskConical busy=test.pending() />
                    </ActionForm>
                </Show>
            </div>
            <div class="card-body flex flex-col gap-4">
                {move || refused.get().map(|error| view! { <Refused error /> })}
                {move || match run_id.get() {
                    Some(_) => {
                        data.with_untracked(|data| {
                            data.run.clone().map(|run| view! { <Run run tail=data.tail.clone() reload /> })
                        })
                            .into_any()
                    }
                    None => {
                        view! {
                            <p class="text-ink-2">
                                {move || {
                                    if data.with(|data| data.testable) {
                                        "A setup test starts fresh compute, runs the setup script, and saves the result as the image that sessions start from."
                                    } else {
                                        "There is no setup script, so there is nothing to test: sessions can start right away."
                                    }
                                }}
                            </p>
                        }
                            .into_any()
                    }
                }}
                <Recent data />
            </div>
        </section>
    }
    .into_any()
}

#[component]
fn Refused(error: AppError) -> impl IntoView {
    view! {
        <Alert tone=Tone::Bad title="The setup test did not start." urgent=true>
            {error.to_string()}
        </Alert>
    }
}

/// One run with its log, live.
#[component]
pub fn Run(
    /// The run.
    run: RunView,
    /// The end of its log.
    tail: Vec<LogLine>,
    /// Called once it has ended.
    #[prop(optional, into)]
    reload: Option<Callback<()>>,
    /// The log fills the page.
    #[prop(optional)]
    tall: bool,
) -> impl IntoView {
    let state = LogState::new(run.clone(), &tail);
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        state.follow(Callback::new(move |()| {
            if let Some(reload) = reload {
                reload.run(());
            }
        }));
    });
    // The list below and the badge above follow the run from step to step.
    Effect::new(move |before: Option<Status>| {
        let status = state.run.with(|run| run.status);
        if let (Some(before), Some(reload)) = (before, reload)
            && before != status
            && !status.is_terminal()
        {
            reload.run(());
        }
        status
    });
    let cancel = ServerAction::<CancelRun>::new();
    let cancel_refused = Signal::derive(move || cancel.value().get().and_then(Result::err));
    let view = state.run;
    let (environment_id, setup_run_id) = (run.environment_id, run.setup_run_id);
    let may_cancel =
        Memo::new(move |_| view.with(|run| run.may_cancel && !run.finished && !run.cancelling));
    view! {
        <div class="flex flex-col gap-3">
            <div class="flex flex-wrap items-center gap-x-3 gap-y-2">
                {move || view.with(|run| status_sign(run.status, &run.status_label))}
                // Once it has ended the box below says it; here it is only announced.
                <span class="text-sm text-ink-2 min-w-0" class:visually-hidden=move || view.with(|run| run.finished) role="status">
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
            {move || {
                cancel_refused
                    .get()
                    .map(|error| {
                        view! {
                            <Alert tone=Tone::Bad urgent=true>
                                {error.to_string()}
                            </Alert>
                        }
                    })
            }}
            <Stepper view />
            <Progress state />
            {move || view.with(|run| run.finished.then(|| view! { <Outcome run=run.clone() /> }))}
            <Log state tail tall />
            {(!tall)
                .then(|| {
                    view! {
                        <p class="text-xs text-ink-3">
                            "Run " <code class="mono">{run.short_id.clone()}</code> " by " {run.by.clone()} ", "
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

/// A run's status as a badge.
pub fn status_sign(status: Status, label: &str) -> impl IntoView + use<> {
    let (tone, busy) = match status {
        Status::Queued => (Tone::Plain, true),
        Status::Provisioning | Status::Running => (Tone::Info, true),
        Status::Succeeded => (Tone::Good, false),
        Status::Failed => (Tone::Bad, false),
        Status::Cancelled => (Tone::Plain, false),
    };
    view! { <Sign tone busy text=label.to_owned() /> }
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
fn Progress(state: LogState) -> impl IntoView {
    let now = use_context::<Now>();
    let text = move || {
        let now = now?.get();
        state.run.with(|run| {
            if run.finished {
                return None;
            }
            let since = now.millis_since(run.now);
            let newest = state.newest.get();
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
                parts.push(format!("last output {}", format::relative(at, now)));
            }
            Some(parts.join(" · "))
        })
    };
    move || text().map(|text| view! { <p class="text-xs text-ink-2 tabular-nums">{text}</p> })
}

/// How it ended: on failure the hint, the failing line and command, the exit code and the last of stderr, in this order.
#[component]
fn Outcome(run: RunView) -> impl IntoView {
    match run.status {
        Status::Succeeded => match run.image_capture_message.clone() {
            Some(message) => view! {
                <Alert tone=Tone::Warn title="Setup passed, but its reusable image failed.">
                    <p>{message}</p>
                    <p>"Sessions cannot start until setup was tested again."</p>
                </Alert>
            }
            .into_any(),
            None => view! {
                <Alert tone=Tone::Good title="Setup verified.">
                    <p>{verified_text(&run)}</p>
                </Alert>
            }
            .into_any(),
        },
        Status::Failed => view! { <Failed run /> }.into_any(),
        Status::Cancelled => view! {
            <Alert tone=Tone::Plain title="Cancelled.">
                "Nothing was recorded."
            </Alert>
        }
        .into_any(),
        _ => ().into_any(),
    }
}

fn verified_text(run: &RunView) -> String {
    let took = format::duration(run.elapsed_ms);
    match &run.image {
        Some(image) => format!(
            "It took {took}. Sessions start from image {}, {}.",
            image.generation,
            format::bytes(u64::try_from(image.size_bytes).unwrap_or(0))
        ),
        None => format!("It took {took}."),
    }
}

#[component]
fn Failed(run: RunView) -> impl IntoView {
    let title = match (run.phase, run.failed_line) {
        (Phase::Setup, Some(line)) if line > 0 => format!("The setup script failed on line {line}."),
        (Phase::Setup, _) => "The setup script failed.".to_owned(),
        _ => "The run failed outside of your script. Test setup once more before you change anything.".to_owned(),
    };
    // Without a hint the sentence above names it already.
    let exit = run.exit_code.filter(|_| run.hint.is_some()).map(|code| {
        if code == 124 {
            format!("Exit code {code}: it ran past its timeout.")
        } else {
            format!("Exit code {code}.")
        }
    });
    view! {
        <Alert tone=Tone::Bad title>
            <div class="flex flex-col gap-2">
                <p>{run.hint.clone().unwrap_or_else(|| run.message.clone())}</p>
                {run
                    .failed_command
                    .clone()
                    .map(|command| {
                        view! {
                            <pre class="code-block" tabindex="0" aria-label="Failing command">
                                {command}
                            </pre>
                        }
                    })}
                {exit.map(|exit| view! { <p class="text-ink-2">{exit}</p> })}
                {run
                    .stderr_tail
                    .clone()
                    .filter(|tail| !tail.trim().is_empty())
                    .map(|tail| {
                        view! {
                            <div>
                                <p class="text-ink-2 mb-1">"The last of stderr"</p>
                                <pre class="code-block" tabindex="0" aria-label="The last of stderr">
                                    {crate::ansi::plain(&tail)}
                                </pre>
                            </div>
                        }
                    })}
                {run
                    .failure_code
                    .map(|code| view! { <p class="text-xs text-ink-3 mono">{code.as_str()}</p> })}
            </div>
        </Alert>
    }
    .into_any()
}

#[component]
fn Recent(data: RwSignal<PanelData>) -> impl IntoView {
    let environment = data.with_untracked(|data| data.environment_id);
    let recent = Memo::new(move |_| data.with(|data| data.recent.clone()));
    move || {
        {
        let runs = recent.get();
        (!runs.is_empty())
            .then(|| {
                view! {
                    <div>
                        <h3 class="text-sm font-semibold mb-1.5">"Recent runs"</h3>
                        <ul class="flex flex-col divide-y divide-line border-y border-line">
                            {runs
                                .into_iter()
                                .map(|run| {
                                    let path = links::run(environment, run.setup_run_id);
                                    let note = match (run.log_removed_at, run.hint.clone()) {
                                        (_, Some(hint)) => hint,
                                        (Some(_), None) => "Log removed".to_owned(),
                                        (None, None) => String::new(),
                                    };
                                    view! {
                                        <li class="flex flex-wrap items-center gap-x-3 gap-y-0.5 py-1.5 text-sm">
                                            {status_sign(run.status, &run.status_label)}
                                            <a class="mono link" href=path>
                                                {run.short_id}
                                            </a>
                                            <span class="text-ink-2">
                                                <Ago at=run.created_at /> " by " {run.by}
                                            </span>
                                            <span class="ml-auto text-ink-3 tabular-nums">
                                                {run.duration_ms.map(format::duration)}
                                            </span>
                                            {(!note.is_empty())
                                                .then(|| view! { <p class="basis-full text-xs text-ink-3 truncate">{note}</p> })}
                                        </li>
                                    }
                                })
                                .collect_view()}
                        </ul>
                    </div>
                }
            })
    }
    .into_any()
    }
}
