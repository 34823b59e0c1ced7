//! Workers; for admins.

use leptos::prelude::*;
use wire::console::{HeldRun, WorkerItem};

use crate::{
    api::{
        admin::{ReleaseRun, load_workers},
        page_data,
    },
    components::{Draw, Failure, Icon, Loading, PageHead, Sign, Submit, Tone},
    format, links,
    live::now::{Ago, Now},
    pages::account::Told,
    text::shown,
};

/// Workers.
#[component]
pub fn WorkersPage() -> impl IntoView {
    let release = ServerAction::<ReleaseRun>::new();
    let workers = page_data(move || release.version().get(), |_| load_workers());
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match workers.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(page) => {
                        provide_context(Now::start(page.now_micros));
                        let workers = page.workers;
                        let holds = workers.iter().any(|worker| !worker.held.is_empty());
                        view! {
                            <div class="page">
                                <PageHead title="Workers" sub="The processes that run sandboxes." />
                                <Told
                                    value=Signal::derive(move || release.value().get())
                                    done="The run was released: it is tried again, or has ended."
                                />
                                {if workers.is_empty() {
                                    view! {
                                        <div class="card empty">
                                            <Draw icon=Icon::Server />
                                            <p class="empty-title">"No worker was ever seen"</p>
                                            <p class="empty-text">"Setup runs wait until one connects. Start the server with its own worker, or a worker beside it."</p>
                                        </div>
                                    }
                                        .into_any()
                                } else {
                                    view! {
                                        <div class="table-wrap">
                                            <table class="table table-stack">
                                                <thead>
                                                    <tr>
                                                        <th scope="col">"Name"</th>
                                                        <th scope="col">"State"</th>
                                                        <th scope="col">"Runtime"</th>
                                                        <th scope="col">"Runs"</th>
                                                        <th scope="col">"Sessions"</th>
                                                        <th scope="col">"Runner image"</th>
                                                        <th scope="col">"Last heard of"</th>
                                                    </tr>
                                                </thead>
                                                <tbody>
                                                    {workers.into_iter().map(|worker| worker_row(worker, release)).collect_view()}
                                                </tbody>
                                            </table>
                                        </div>
                                        {holds
                                            .then(|| {
                                                view! {
                                                    <p class="text-xs text-ink-2">
                                                        "A worker that falls silent loses its runs by itself. Release takes a run from one that hangs and still says that it lives: the run is tried again, at most twice, or ends."
                                                    </p>
                                                }
                                            })}
                                    }
                                        .into_any()
                                }}
                            </div>
                        }
                            .into_any()
                    }
                }
            })}
        </Transition>
    }
}

/// A run that a worker holds, and the way to take it away.
fn held_run(run: HeldRun, release: ServerAction<ReleaseRun>) -> impl IntoView {
    let (environment, id) = (run.environment_id, run.setup_run_id);
    let deleted = run.environment_name.is_empty();
    let mut facts = vec![run.phase.as_str().to_owned()];
    if run.cancelling {
        facts.push("cancelling".to_owned());
    }
    if run.attempt > 1 {
        facts.push(format!("try {}", run.attempt));
    }
    facts.push(match i64::try_from(run.silent_seconds) {
        Ok(0) => "last word just now".to_owned(),
        seconds => format!(
            "last word {} ago",
            format::duration(seconds.unwrap_or(i64::MAX / 1_000) * 1_000)
        ),
    });
    let facts = facts.join(" · ");
    view! {
        <div class="mt-1 flex flex-wrap items-center gap-x-2 gap-y-1">
            {if deleted {
                view! { <span class="muted">"(deleted environment)"</span> }.into_any()
            } else {
                view! {
                    <a class="link break-words" href=links::run(environment, id)>
                        {shown(&run.environment_name)}
                    </a>
                }
                    .into_any()
            }} <span class="text-xs text-ink-2">{facts}</span>
            <ActionForm action=release>
                <input type="hidden" name="environment_id" value=environment.to_string() />
                <input type="hidden" name="setup_run_id" value=id.to_string() />
                <Submit label="Release" class="button-small" busy=release.pending() />
            </ActionForm>
        </div>
    }
}

fn worker_row(worker: WorkerItem, release: ServerAction<ReleaseRun>) -> impl IntoView {
    let digest = worker.runner_image_digest.unwrap_or_default();
    view! {
        <tr>
            <td class="cell-title">
                <span class="font-medium">{shown(&worker.name)}</span>
                <span class="block text-xs text-ink-3">"version " {worker.version}</span>
            </td>
            <td data-label="State">
                {if worker.alive {
                    view! { <Sign tone=Tone::Good text="Alive" /> }
                } else {
                    view! { <Sign tone=Tone::Plain text="Gone" /> }
                }}
            </td>
            <td data-label="Runtime">{worker.runtime}</td>
            <td data-label="Runs" class="tabular-nums">
                <div>
                    <span class="whitespace-nowrap">{worker.running} " of " {worker.capacity}</span>
                    {worker.held.into_iter().map(|run| held_run(run, release)).collect_view()}
                </div>
            </td>
            <td data-label="Sessions" class="tabular-nums">
                {worker.sessions}
                " of "
                {worker.session_slots}
            </td>
            <td data-label="Runner image">
                {match worker.runner_image {
                    Some(image) => {
                        view! {
                            <span class="mono break-all" title=digest>
                                {image}
                            </span>
                        }
                            .into_any()
                    }
                    None => view! { <span class="muted">"none yet"</span> }.into_any(),
                }}
            </td>
            <td data-label="Last heard of" class="text-ink-2">
                <Ago at=worker.seen_at />
            </td>
        </tr>
    }
}
