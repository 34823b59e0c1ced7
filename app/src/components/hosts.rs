//! The hosts that a run asked for, beside its log: blocked ones first, with a button that allows them.

use domain::{
    ids::{EnvironmentId, SetupRunId},
    run_records::EgressOutcome,
};
use leptos::prelude::*;
use wire::console::{RunHost, RunHosts};

use super::{
    Alert, MakesStale, Sign, Tone,
    icons::{Draw, Icon},
};
use crate::{
    api::records::{AllowHost, load_run_hosts},
    format,
    live::now::Now,
};

/// While a run goes on, its hosts are asked for anew after this long.
const AGAIN_AFTER_MICROS: i64 = 3_000_000;
/// Hosts that are shown before the rest is folded away.
const SHOWN: usize = 12;

/// The hosts of a run.
#[component]
pub fn Hosts(
    /// The environment.
    environment_id: EnvironmentId,
    /// The run.
    setup_run_id: SetupRunId,
    /// Whether the run has ended.
    #[prop(into)]
    finished: Signal<bool>,
    /// Called when a host was allowed: the environment has changed.
    #[prop(optional, into)]
    allowed: Option<Callback<()>>,
) -> impl IntoView {
    let now = use_context::<Now>();
    let turn = Memo::new(move |_| match now {
        Some(now) if !finished.get() => now.get().micros() / AGAIN_AFTER_MICROS,
        _ => -1,
    });
    let allow = ServerAction::<AllowHost>::new();
    let hosts = Resource::new(
        move || (turn.get(), allow.version().get()),
        move |_| load_run_hosts(environment_id, setup_run_id),
    );
    Effect::new(move |_| {
        if let (Some(Ok(_)), Some(allowed)) = (allow.value().get(), allowed) {
            allowed.run(());
        }
    });
    let told = move || {
        allow.value().get().map(|answer| match answer {
            Ok(done) => view! {
                <Alert tone=Tone::Good>{format!("{} is allowed from the next run on.", done.host)}</Alert>
            }
            .into_any(),
            Err(error) => view! {
                <Alert tone=Tone::Bad urgent=true>
                    {error.to_string()}
                </Alert>
            }
            .into_any(),
        })
    };
    view! {
        <Transition>
            {move || Suspend::new(async move {
                match hosts.await {
                    Ok(hosts) => view! { <List environment_id hosts allow /> }.into_any(),
                    // The log beside says what is wrong with the connection; the next turn asks again.
                    Err(_) => ().into_any(),
                }
            })}
        </Transition>
        <div role="status">{told}</div>
    }
    .into_any()
}

/// Its list; nothing where no host was asked for.
#[component]
pub fn List(
    /// The environment.
    environment_id: EnvironmentId,
    /// The hosts.
    hosts: RunHosts,
    /// Allows one.
    allow: ServerAction<AllowHost>,
) -> impl IntoView {
    if hosts.hosts.is_empty() {
        return ().into_any();
    }
    let (blocked, left_out) = (hosts.blocked, hosts.more);
    let all = format::count(hosts.hosts.len() as u64 + left_out, "host", "hosts");
    let summary = match blocked {
        0 => all,
        blocked => format!("{all}, {} blocked", format::grouped(blocked)),
    };
    let mut shown = hosts.hosts;
    let may_allow = shown.iter().any(|host| host.may_allow);
    let more = shown.split_off(shown.len().min(SHOWN));
    let row = move |host: RunHost| view! { <Row environment_id host allow /> };
    view! {
        <details class="section" open={blocked > 0}>
            <summary>
                <Draw icon=Icon::ChevronRight />
                <h3 class="text-sm font-semibold">"Hosts asked for"</h3>
                <span class="section-summary">{summary}</span>
            </summary>
            <div class="section-body">
                {may_allow.then(|| view! { <MakesStale change="Allowing one" /> })}
                <ul class="flex flex-col divide-y divide-line">{shown.into_iter().map(row).collect_view()}</ul>
                {(!more.is_empty())
                    .then(|| {
                        view! {
                            <details>
                                <summary class="text-sm text-ink-2 py-1.5">{format!("{} more", more.len())}</summary>
                                <ul class="flex flex-col divide-y divide-line">
                                    {more.into_iter().map(row).collect_view()}
                                </ul>
                            </details>
                        }
                    })}
                {(left_out > 0)
                    .then(|| {
                        view! {
                            <p class="text-sm text-ink-3 py-1.5">
                                {format!("{} further hosts are not shown; the API lists them all.", format::grouped(left_out))}
                            </p>
                        }
                    })}
            </div>
        </details>
    }
    .into_any()
}

#[component]
fn Row(
    environment_id: EnvironmentId,
    host: RunHost,
    allow: ServerAction<AllowHost>,
) -> impl IntoView {
    let asked = host.asked;
    let tone = match asked.outcome {
        EgressOutcome::Allowed => Tone::Good,
        EgressOutcome::UpstreamFailed => Tone::Warn,
        _ => Tone::Bad,
    };
    let place = match (asked.port, asked.host.contains(':')) {
        (0, _) => asked.host.clone(),
        (port, true) => format!("[{}]:{port}", asked.host),
        (port, false) => format!("{}:{port}", asked.host),
    };
    let mut notes = Vec::new();
    match (&asked.rule_host_glob, asked.rule) {
        (Some(glob), Some(rule)) => notes.push(format!("rule {}: {glob}", rule + 1)),
        _ if asked.outcome == EgressOutcome::Denied => notes.push("no rule allows it".to_owned()),
        _ => {}
    }
    if let Some(from) = &asked.redirected_from {
        notes.push(format!("{from} redirected to it"));
    }
    if let Some(line) = asked.line {
        notes.push(format!("first in line {line}"));
    }
    if host.allowed_since {
        notes.push("allowed since".to_owned());
    }
    let action = host.may_allow.then(|| {
        let label = format!("Allow {}", asked.host);
        view! {
            <ActionForm action=allow>
                <input type="hidden" name="environment_id" value=environment_id.to_string() />
                <input type="hidden" name="host" value=asked.host.clone() />
                <input type="hidden" name="then_test" value="false" />
                <button type="submit" class="button button-small" aria-label=label disabled=move || allow.pending().get()>
                    "Allow"
                </button>
            </ActionForm>
        }
    });
    view! {
        <li class="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5 text-sm">
            <Sign tone text=host.label />
            <span class="mono min-w-0 break-all">{place}</span>
            <span class="text-ink-3 tabular-nums">{format!("× {}", format::grouped(asked.count))}</span>
            <span class="ml-auto">{action}</span>
            {(!notes.is_empty()).then(|| view! { <p class="basis-full text-xs text-ink-3">{notes.join(" · ")}</p> })}
        </li>
    }
}
