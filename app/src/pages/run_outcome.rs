//! How a run ended, what would mend it, and what it used.

use domain::{
    compute::show_memory,
    mending::Raise,
    setup_run::{Phase, Status},
};
use leptos::prelude::*;
use wire::console::{HintGroup, RunView};

use crate::{
    api::{records::AllowHost, setup_runs::RaiseLimit},
    components::{Alert, Draw, Icon, Submit, Tone},
    format, links,
    pages::{
        script_editor,
        start_session::{StartForm, StartHere},
    },
    text::shown,
};

/// How it ended: on failure the hint, the failing line and command, the exit code and the last of stderr, in this order.
#[component]
pub fn Outcome(
    /// The run, which has ended.
    run: RunView,
    /// Idempotency key of the forms that mend and test again.
    key: String,
    /// Asks for fresh data after another run was started; without it the page leads there.
    reload: Option<Callback<()>>,
) -> impl IntoView {
    match run.status {
        Status::Succeeded => match run.image_capture_message.clone() {
            Some(message) => view! {
                <Alert tone=Tone::Warn title="Setup passed, but its reusable image failed.">
                    <p>{shown(&message)}</p>
                    <p>"Sessions cannot start until setup was tested again."</p>
                </Alert>
            }
            .into_any(),
            None => view! {
                <Alert tone=Tone::Good title="Setup verified.">
                    <p>{verified_text(&run)}</p>
                    {use_context::<StartHere>()
                        .map(|here| {
                            view! {
                                <Show when=move || here.possible.get()>
                                    <div class="mt-2">
                                        <StartForm here class="button-small button-primary" />
                                    </div>
                                </Show>
                            }
                        })}
                </Alert>
            }
            .into_any(),
        },
        Status::Failed => view! { <Failed run key reload /> }.into_any(),
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
        Some(image) => {
            let added = u64::try_from(image.size_bytes).unwrap_or(0);
            let held = match added {
                0 => String::new(),
                _ => format!(", which adds {} to the runner image", format::bytes(added)),
            };
            format!(
                "It took {took}. Sessions start from image {}{held}.",
                image.generation
            )
        }
        None => format!("It took {took}."),
    }
}

#[component]
fn Failed(run: RunView, key: String, reload: Option<Callback<()>>) -> impl IntoView {
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
                <p>{shown(run.hint.as_ref().unwrap_or(&run.message))}</p>
                <Mend run=run.clone() key reload />
                {run
                    .failed_command
                    .clone()
                    .map(|command| {
                        view! {
                            <pre class="code-block" tabindex="0" aria-label="Failing command">
                                {shown(&command)}
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
                                // Opens at its end: what went wrong is said last.
                                <pre class="code-block code-block-end" tabindex="0" aria-label="The last of stderr">
                                    <code>{crate::ansi::plain(&tail)}</code>
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

/// What would mend it: a larger limit, or the line of the script.
#[component]
fn Mend(run: RunView, key: String, reload: Option<Callback<()>>) -> impl IntoView {
    let (environment, id) = (run.environment_id, run.setup_run_id);
    let raise = run.raise.filter(|_| run.may_change);
    let line = run
        .failed_line
        .or(run.running_line)
        .filter(|line| *line > 0 && run.phase == Phase::Setup);
    let host = run.hint_host.clone().filter(|_| run.may_change);
    let group = run.hint_group.clone();
    (raise.is_some() || line.is_some() || host.is_some()).then(|| {
        view! {
            <div class="flex flex-wrap items-center gap-2">
                {host
                    .map(|host| {
                        view! { <AllowForm environment host group key=key.clone() reload /> }
                    })}
                {raise
                    .map(|raise| {
                        view! { <RaiseForm environment id raise timeout=run.timeout_seconds key reload /> }
                    })}
                {line
                    .map(|line| {
                        view! {
                            <a
                                class="button button-small"
                                href=links::script_line(environment, line)
                                on:click=move |event| {
                                    // Elsewhere it is a link to the editor's page.
                                    if script_editor::go_to(line) {
                                        event.prevent_default();
                                    }
                                }
                            >
                                <Draw icon=Icon::FileTerminal />
                                {format!("Go to line {line}")}
                            </a>
                        }
                    })}
            </div>
        }
        .into_any()
    })
}

#[component]
fn AllowForm(
    environment: domain::ids::EnvironmentId,
    host: String,
    group: Option<HintGroup>,
    key: String,
    reload: Option<Callback<()>>,
) -> impl IntoView {
    let action = ServerAction::<AllowHost>::new();
    let done = Signal::derive(
        move || matches!(action.value().get(), Some(Ok(allowed)) if allowed.not_tested.is_none()),
    );
    started(done, environment, reload);
    let told = Signal::derive(move || match action.value().get()? {
        Ok(allowed) => allowed.not_tested.map(|error| {
            let host = shown(&allowed.host);
            format!("{host} is allowed now, but the setup test did not start. {error}")
        }),
        Err(error) => Some(error.to_string()),
    });
    // Allowed it is: the form and the verdict are others now.
    Effect::new(move |_| {
        if let (Some(Ok(allowed)), Some(reload)) = (action.value().get(), reload)
            && allowed.not_tested.is_some()
        {
            reload.run(());
        }
    });
    view! {
        <ActionForm action>
            <input type="hidden" name="environment_id" value=environment.to_string() />
            <input type="hidden" name="host" value=host.clone() />
            <input type="hidden" name="then_test" value="true" />
            <input type="hidden" name="key" value=format!("{key}-allow") />
            <span class="flex flex-wrap items-center gap-2">
                <Submit
                    label=format!("Allow {host} and test again")
                    icon=Icon::Globe
                    class="button-small button-primary"
                    busy=action.pending()
                />
                // A tool that needs one of them needs the others next.
                {group
                    .map(|group| {
                        view! {
                            <Submit
                                label=format!("Allow all {} {} hosts", group.hosts.len(), group.name)
                                title=group.hosts.join("\n")
                                class="button-small"
                                sends=("group", "true")
                                busy=action.pending()
                            />
                        }
                    })}
            </span>
        </ActionForm>
        {move || told.get().map(refusal)}
    }
    .into_any()
}

#[component]
fn RaiseForm(
    environment: domain::ids::EnvironmentId,
    id: domain::ids::SetupRunId,
    raise: Raise,
    timeout: u32,
    key: String,
    reload: Option<Callback<()>>,
) -> impl IntoView {
    let action = ServerAction::<RaiseLimit>::new();
    let done = Signal::derive(move || matches!(action.value().get(), Some(Ok(_))));
    started(done, environment, reload);
    let refused = Signal::derive(move || action.value().get().and_then(Result::err));
    let minutes = |seconds: u32| format::duration(i64::from(seconds) * 1_000);
    let (label, what) = match raise {
        Raise::Timeout(to) => (
            "Raise the timeout",
            format!(
                "from {} to {}, and test again",
                minutes(timeout),
                minutes(to)
            ),
        ),
        Raise::Disk(to) => ("Raise the disk", format!("to {to} GiB, and test again")),
        Raise::Memory(to) => (
            "Raise the memory",
            format!("to {}, and test again", show_memory(to)),
        ),
    };
    view! {
        <ActionForm action>
            <input type="hidden" name="environment_id" value=environment.to_string() />
            <input type="hidden" name="setup_run_id" value=id.to_string() />
            <input type="hidden" name="key" value=format!("{key}-raise") />
            <span class="flex flex-wrap items-center gap-2">
                <Submit label icon=Icon::ArrowUp class="button-small button-primary" busy=action.pending() />
                <span class="text-xs text-ink-2">{what}</span>
            </span>
        </ActionForm>
        {move || refused.get().map(|error| refusal(error.to_string()))}
    }
    .into_any()
}

/// Why mending did not work.
fn refusal(text: String) -> AnyView {
    view! {
        <p class="text-sm basis-full" role="alert">
            {shown(&text)}
        </p>
    }
    .into_any()
}

/// Once another run was started: fresh data where the page shows it, else the environment's page.
fn started(
    done: Signal<bool>,
    environment: domain::ids::EnvironmentId,
    reload: Option<Callback<()>>,
) {
    let navigate = leptos_router::hooks::use_navigate();
    Effect::new(move |_| {
        if done.get() {
            match reload {
                Some(reload) => reload.run(()),
                None => navigate(
                    &links::environment(environment),
                    leptos_router::NavigateOptions::default(),
                ),
            }
        }
    });
}

/// What the run used, once it has ended.
#[component]
pub fn RunFacts(
    /// The run.
    view: RwSignal<RunView>,
    /// How long the newest run before it took that passed, milliseconds.
    previous: Signal<Option<i64>>,
) -> impl IntoView {
    move || {
        let facts = view.with(|run| facts(run, previous.get()));
        (!facts.is_empty()).then(|| {
            view! {
                <dl class="run-facts">
                    {facts
                        .into_iter()
                        .map(|(name, value)| {
                            view! {
                                <div>
                                    <dt>{name}</dt>
                                    <dd>{value}</dd>
                                </div>
                            }
                        })
                        .collect_view()}
                </dl>
            }
            .into_any()
        })
    }
}

fn facts(run: &RunView, previous: Option<i64>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !run.finished {
        return facts;
    }
    if run.started_at.is_some() {
        facts.push(("Took", took(run.elapsed_ms, previous)));
    }
    if let Some((used, size)) = run.disk {
        facts.push((
            "Disk used",
            format!("{} of {}", format::bytes(used), format::bytes(size)),
        ));
    }
    if let Some(code) = run.exit_code {
        facts.push(("Exit code", code.to_string()));
    }
    facts
}

/// `41 s, 12 s longer than the run before`
fn took(now: i64, previous: Option<i64>) -> String {
    let took = format::duration(now);
    match previous.map(|previous| now - previous) {
        None => took,
        Some(more) if more.abs() < 1_000 => format!("{took}, as long as the run before"),
        Some(more) => format!(
            "{took}, {} {} than the run before",
            format::duration(more.abs()),
            if more > 0 { "longer" } else { "shorter" }
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_compared_with_the_one_before() {
        for (now, previous, text) in [
            (41_000, None, "41 s"),
            (
                41_000,
                Some(29_000),
                "41 s, 12 s longer than the run before",
            ),
            (
                29_000,
                Some(41_000),
                "29 s, 12 s shorter than the run before",
            ),
            (41_000, Some(41_400), "41 s, as long as the run before"),
        ] {
            assert_eq!(took(now, previous), text);
        }
    }
}
