//! The audit log: who changed what, when and from where; filtered, paged, and as a file. For admins.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;
use serde_json::Value;
use wire::console::{AuditItem, AuditPage as Entries};

use crate::{
    api::{
        AppError,
        admin::{AuditWanted, load_audit},
        page_data,
    },
    components::{CopyId, Draw, Failure, Icon, Loading, PageHead},
    links,
    live::now::local_text,
    text::shown,
};

/// Where the page is.
const PATH: &str = "/audit";
/// What the filter offers: every beginning of an action.
const ACTIONS: [&str; 12] = [
    "account.",
    "api_key.",
    "environment.",
    "environment.create",
    "environment.delete",
    "environment.restore",
    "environment.update",
    "invitation.",
    "member.",
    "organization.",
    "session.",
    "setup_run.",
];

/// The audit log.
#[component]
pub fn AuditPage() -> impl IntoView {
    let query = use_query_map();
    let wanted = Memo::new(move |_| {
        let query = query.read();
        let text = |name| query.get_str(name).unwrap_or_default().trim().to_owned();
        AuditWanted {
            actor: text("actor"),
            action: text("action"),
            subject: text("subject"),
            since: text("since"),
            until: text("until"),
            before: text("before"),
        }
    });
    let page = page_data(
        move || wanted.get(),
        |wanted| async move { (load_audit(wanted.clone()).await, wanted) },
    );
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                let (answer, wanted) = page.await;
                match answer {
                    // A filter that cannot be read is mended where it is.
                    Err(error) if error.code() != wire::error::Code::InvalidRequest => {
                        view! { <Failure error /> }.into_any()
                    }
                    answer => view! { <Log answer wanted /> }.into_any(),
                }
            })}
        </Transition>
    }
}

#[component]
fn Log(answer: Result<Entries, AppError>, wanted: AuditWanted) -> impl IntoView {
    let with = |query: String| {
        if query.is_empty() {
            PATH.to_owned()
        } else {
            format!("{PATH}?{query}")
        }
    };
    let first = AuditWanted {
        before: String::new(),
        ..wanted.clone()
    };
    let (entries, error) = match answer {
        Ok(entries) => (entries, None),
        Err(error) => (
            Entries {
                items: Vec::new(),
                next_before: None,
            },
            Some(error),
        ),
    };
    let older = entries.next_before.map(|id| {
        with(
            AuditWanted {
                before: id.to_string(),
                ..wanted.clone()
            }
            .query(),
        )
    });
    let newest = (!wanted.before.is_empty()).then(|| with(first.query()));
    let is_all = wanted.is_all();
    let export = |format: &str| {
        // Days are written as times: the export is the API's, which knows times alone.
        let (since, until) = first.times().unwrap_or_default();
        let exact = AuditWanted {
            since: since.map(|at| at.to_string()).unwrap_or_default(),
            until: until.map(|at| at.to_string()).unwrap_or_default(),
            ..first.clone()
        };
        let query = exact.query();
        let join = if query.is_empty() { "" } else { "&" };
        format!("{PATH}/export?format={format}{join}{query}")
    };
    let (csv, json) = (export("csv"), export("ndjson"));
    view! {
        <div class="page">
            <PageHead title="Audit log" sub="Who changed what, newest first. Entries stay when a member leaves.">
                <a class="button" href=csv rel="external" download="audit.csv">
                    <Draw icon=Icon::Download />
                    "CSV"
                </a>
                <a class="button" href=json rel="external" download="audit.ndjson">
                    <Draw icon=Icon::Download />
                    "JSON"
                </a>
            </PageHead>
            <Filter wanted=wanted.clone() error />
            {if entries.items.is_empty() {
                view! {
                    <div class="card empty">
                        <Draw icon=Icon::ScrollText />
                        <p class="empty-title">
                            {if is_all { "Nothing more" } else { "No entry matches" }}
                        </p>
                        {(!is_all).then(|| view! { <a class="button" href=PATH>"Clear the filter"</a> })}
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
                                    <th scope="col">"Who, from where"</th>
                                    <th scope="col">"What"</th>
                                    <th scope="col">"About"</th>
                                    <th scope="col">"Before and after"</th>
                                </tr>
                            </thead>
                            <tbody>{entries.items.into_iter().map(audit_row).collect_view()}</tbody>
                        </table>
                    </div>
                }
                    .into_any()
            }}
            <nav class="flex gap-2 justify-end" aria-label="Pages">
                {newest.map(|path| view! { <a class="button" href=path>"Newest"</a> })}
                {older.map(|path| view! { <a class="button" href=path>"Older"</a> })}
            </nav>
        </div>
    }
    .into_any()
}

/// A plain form that asks by its address: it works without scripting, and what it finds can be linked to.
#[component]
fn Filter(wanted: AuditWanted, error: Option<AppError>) -> impl IntoView {
    let field = |id: &'static str,
                 label: &'static str,
                 kind: &'static str,
                 value: String,
                 list: Option<&'static str>| {
        view! {
            <div class="field">
                <label class="field-label" for=format!("audit-{id}")>
                    {label}
                </label>
                <input
                    class="input"
                    id=format!("audit-{id}")
                    name=id
                    type=kind
                    value=value
                    list=list
                    autocomplete="off"
                />
            </div>
        }
    };
    view! {
        <form method="get" action=PATH role="search" aria-label="Filter the audit log" class="audit-filter">
            {field("actor", "Who", "text", wanted.actor, None)}
            {field("action", "What", "text", wanted.action, Some("audit-actions"))}
            {field("subject", "About (id)", "text", wanted.subject, None)}
            {field("since", "From (UTC)", "date", wanted.since, None)}
            {field("until", "To (UTC)", "date", wanted.until, None)}
            <datalist id="audit-actions">
                {ACTIONS.map(|action| view! { <option value=action></option> }).into_iter().collect_view()}
            </datalist>
            <div class="flex gap-2">
                <button type="submit" class="button">
                    <Draw icon=Icon::Search />
                    "Filter"
                </button>
            </div>
            {error.map(|error| view! { <p class="field-error" role="alert">{error.to_string()}</p> })}
        </form>
    }
    .into_any()
}

fn audit_row(item: AuditItem) -> impl IntoView {
    let when = local_text(item.at);
    let short: String = {
        let from = item
            .subject
            .char_indices()
            .rev()
            .nth(7)
            .map_or(0, |(at, _)| at);
        item.subject[from..].to_owned()
    };
    let environment = item
        .action
        .starts_with("environment.")
        .then(|| item.subject.parse::<EnvironmentId>().ok())
        .flatten()
        .map(links::environment);
    let by = |name: &str, value: &str| format!("{PATH}?{name}={}", links::encode(value));
    let about = (!item.subject.is_empty()).then(|| {
        view! {
            <span class="inline-flex flex-wrap items-center gap-x-3">
            <CopyId short=shown(&short) whole=item.subject.clone() />
            <span class="flex gap-2 text-xs whitespace-nowrap">
                {environment.map(|path| view! { <a class="link inline-flex items-center min-h-6" href=path>"Open"</a> })}
                <a class="link inline-flex items-center min-h-6" href=by("subject", &item.subject)>
                    "All about it"
                </a>
            </span>
            </span>
        }
    });
    view! {
        <tr>
            <td class="cell-title whitespace-nowrap">
                <time class="inline-block min-w-44" datetime=item.at.to_string()>{move || when.get()}</time>
            </td>
            <td data-label="Who, from where" class="wrap-anywhere">
                <span class="inline-flex flex-wrap items-baseline gap-x-2 min-w-0">
                    <a class="hover:underline" href=by("actor", &item.actor)>{shown(&item.actor)}</a>
                    {item.source.map(|source| view! { <span class="text-xs text-ink-3">{shown(&source)}</span> })}
                </span>
            </td>
            <td data-label="What" class="mono">
                <a class="hover:underline" href=by("action", &item.action)>{item.action.clone()}</a>
            </td>
            <td data-label="About">{about}</td>
            <td data-label="Before and after">{details(&item.detail)}</td>
        </tr>
    }
}

/// An entry's detail as people read it: `changes` field by field, the rest as names and values.
fn details(detail: &Value) -> AnyView {
    let Some(object) = detail.as_object().filter(|object| !object.is_empty()) else {
        return ().into_any();
    };
    let changes = object.get("changes").and_then(Value::as_array);
    let count = changes.map_or(0, Vec::len);
    let summary = match count {
        0 => "Show".to_owned(),
        _ => crate::format::count(count as u64, "field", "fields"),
    };
    let changed = changes.into_iter().flatten().map(|change| {
        let text = |name: &str| change.get(name).map(plain_text);
        let field = text("field").unwrap_or_default();
        let values = match (text("before"), text("after")) {
            (None, None) => "changed".to_owned(),
            (before, after) => format!(
                "{} → {}",
                before.unwrap_or_default(),
                after.unwrap_or_default()
            ),
        };
        view! {
            <dt class="mono">{shown(&field)}</dt>
            <dd class="break-words whitespace-pre-wrap">{shown(&values)}</dd>
        }
    });
    let rest = object
        .iter()
        .filter(|(name, _)| *name != "changes")
        .map(|(name, value)| {
            view! {
                <dt class="mono">{shown(name)}</dt>
                <dd class="break-words whitespace-pre-wrap">{shown(&plain_text(value))}</dd>
            }
        });
    view! {
        <details>
            <summary class="link text-xs cursor-pointer">{summary}</summary>
            <dl class="pairs mt-1 max-w-md text-xs">{changed.collect_view()} {rest.collect_view()}</dl>
        </details>
    }
    .into_any()
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
