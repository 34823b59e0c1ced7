//! Workers; for admins.

use leptos::prelude::*;
use wire::console::WorkerItem;

use crate::{
    api::{admin::load_workers, page_data},
    components::{Draw, Failure, Icon, Loading, PageHead, Sign, Tone},
    live::now::{Ago, Now},
    text::shown,
};

/// Workers.
#[component]
pub fn WorkersPage() -> impl IntoView {
    let workers = page_data(|| (), |()| load_workers());
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match workers.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(page) => {
                        provide_context(Now::start(page.now_micros));
                        let workers = page.workers;
                        view! {
                            <div class="page">
                                <PageHead title="Workers" sub="The processes that run sandboxes." />
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
                                                        <th scope="col">"Runner image"</th>
                                                        <th scope="col">"Last heard of"</th>
                                                    </tr>
                                                </thead>
                                                <tbody>{workers.into_iter().map(worker_row).collect_view()}</tbody>
                                            </table>
                                        </div>
                                    }
                                        .into_any()
                                }}
                            </div>
                        }
                            .into_any()
                    }
                }
            })}
        </Suspense>
    }
}

fn worker_row(worker: WorkerItem) -> impl IntoView {
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
                {worker.running}
                " of "
                {worker.capacity}
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
