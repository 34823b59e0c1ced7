//! The *Setup test* panel: one run and its log, the runs before it, and the buttons that start and stop one.

use domain::{
    ids::{EnvironmentId, SetupRunId},
    setup_run::{LogLine, Status},
};
use leptos::{html, prelude::*};
use wire::console::{RunItem, RunView};

use super::run_view::Run;
use crate::{
    api::{AppError, setup_runs::TestSetup},
    components::{Alert, Icon, Sign, Submit, Tone},
    format, links,
    live::now::Ago,
    text::shown,
    view::bring_into_view,
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
    let panel: NodeRef<html::Section> = NodeRef::new();
    Effect::new(move |before: Option<Option<SetupRunId>>| {
        let now = run_id.get();
        if before.is_some_and(|before| before != now) {
            // Why a test did not start is old news beside another run.
            test.clear();
        }
        // A run that was started here, or the one that the form before this page has asked for.
        let is_wanted = match before {
            Some(before) => before != now,
            None => window()
                .location()
                .hash()
                .is_ok_and(|hash| hash == "#setup-test"),
        };
        if is_wanted {
            request_animation_frame(move || {
                if let Some(Some(panel)) = panel.try_get_untracked() {
                    bring_into_view(&panel);
                }
            });
        }
        now
    });
    let in_flight =
        Memo::new(move |_| data.with(|data| data.run.as_ref().is_some_and(|run| !run.finished)));
    let previous = Signal::derive(move || data.with(previous_ms));
    let offers_test = move || data.with(|data| data.may_test && data.testable) && !in_flight.get();
    view! {
        <section class="card" id="setup-test" node_ref=panel aria-labelledby="setup-test-title">
            <div class="card-head">
                <h2 id="setup-test-title" class="card-title">
                    "Setup test"
                </h2>
                <Show when=offers_test>
                    <ActionForm action=test>
                        <input type="hidden" name="environment_id" value=data.with_untracked(|data| data.environment_id.to_string()) />
                        <input type="hidden" name="key" value=move || data.with(|data| data.key.clone()) />
                        // The next step, where nothing was tested yet.
                        <Submit
                            label="Test setup"
                            icon=Icon::FlaskConical
                            class=if run_id.get_untracked().is_none() { "button-primary" } else { "" }
                            busy=test.pending()
                        />
                    </ActionForm>
                </Show>
            </div>
            <div class="card-body flex flex-col gap-4">
                {move || refused.get().map(|error| view! { <Refused error /> })}
                {move || match run_id.get() {
                    Some(_) => {
                        data.with_untracked(|data| {
                            data.run.clone().map(|run| view! { <Run run part=data.tail.clone() key=data.key.clone() previous reload /> })
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

/// How long the newest run before the shown one took that passed.
fn previous_ms(data: &PanelData) -> Option<i64> {
    let shown = data.run.as_ref()?.setup_run_id;
    let before = data
        .recent
        .iter()
        .skip_while(|run| run.setup_run_id != shown);
    before
        .skip(1)
        .find(|run| run.status == Status::Succeeded)?
        .duration_ms
}

#[component]
fn Refused(error: AppError) -> impl IntoView {
    view! {
        <Alert tone=Tone::Bad title="The setup test did not start." urgent=true>
            {error.to_string()}
        </Alert>
    }
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
                                                <Ago at=run.created_at /> " by " {shown(&run.by)}
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
