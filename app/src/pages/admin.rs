//! Workers and the audit log; for admins.

use leptos::prelude::*;
use leptos_router::hooks::use_query_map;
use wire::console::{AuditItem, WorkerItem};

use crate::{
    api::{
        admin::{load_audit, load_workers},
        page_data,
    },
    components::{CopyId, Draw, Failure, Icon, Loading, PageHead, Sign, Tone},
    live::now::{Ago, Now, local_text},
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
                <span class="font-medium">{worker.name}</span>
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

/// The audit log.
#[component]
pub fn AuditPage() -> impl IntoView {
    let query = use_query_map();
    let before = Memo::new(move |_| query.read().get("before").and_then(|id| id.parse().ok()));
    let page = page_data(move || before.get(), load_audit);
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match page.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(page) => {
                        let older = page.next_before.map(|id| format!("/audit?before={id}"));
                        view! {
                            <div class="page">
                                <PageHead title="Audit log" sub="Who changed what, newest first." />
                                {if page.items.is_empty() {
                                    view! {
                                        <div class="card empty">
                                            <Draw icon=Icon::ScrollText />
                                            <p class="empty-title">"Nothing more"</p>
                                        </div>
                                    }
                                        .into_any()
                                } else {
                                    view! {
                                        <div class="table-wrap">
                                            <table class="table table-stack">
                                                <thead>
                                                    <tr>
                                                        <th scope="col">"When"</th>
                                                        <th scope="col">"Who"</th>
                                                        <th scope="col">"What"</th>
                                                        <th scope="col">"About"</th>
                                                        <th scope="col">"Detail"</th>
                                                    </tr>
                                                </thead>
                                                <tbody>{page.items.into_iter().map(audit_row).collect_view()}</tbody>
                                            </table>
                                        </div>
                                    }
                                        .into_any()
                                }}
                                <nav class="flex gap-2 justify-end" aria-label="Pages">
                                    {move || {
                                        before
                                            .get()
                                            .map(|_| view! { <a class="button" href="/audit">"Newest"</a> })
                                    }}
                                    {older.map(|path| view! { <a class="button" href=path>"Older"</a> })}
                                </nav>
                            </div>
                        }
                            .into_any()
                    }
                }
            })}
        </Transition>
    }
}

fn audit_row(item: AuditItem) -> impl IntoView {
    let when = local_text(item.at);
    let short: String = item
        .subject
        .chars()
        .rev()
        .take(8)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let has_detail = !item.detail.is_null() && item.detail != serde_json::json!({});
    let detail = serde_json::to_string_pretty(&item.detail).unwrap_or_default();
    view! {
        <tr>
            <td class="cell-title whitespace-nowrap">
                <time datetime=item.at.to_string()>{move || when.get()}</time>
            </td>
            <td data-label="Who" class="break-all">
                {item.actor}
                {item.source.map(|source| view! { <span class="block text-xs text-ink-3">{source}</span> })}
            </td>
            <td data-label="What" class="mono">
                {item.action}
            </td>
            <td data-label="About">
                {(!item.subject.is_empty()).then(|| view! { <CopyId short whole=item.subject /> })}
            </td>
            <td data-label="Detail">
                {has_detail
                    .then(|| {
                        view! {
                            <details>
                                <summary class="link text-xs cursor-pointer">"Show"</summary>
                                <pre class="code-block mt-1 max-w-md" tabindex="0" aria-label="Detail">
                                    {detail}
                                </pre>
                            </details>
                        }
                    })}
            </td>
        </tr>
    }
}
