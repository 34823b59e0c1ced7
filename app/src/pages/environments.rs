//! The table of environments.

use std::collections::HashMap;

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::{
    NavigateOptions,
    hooks::{use_navigate, use_query_map},
};
use server_fn::ServerFn as _;
use wire::console::{EnvironmentItem, Sort, SortBy, TableNews};

use crate::{
    api::{
        environments::{TablePage, load_environments},
        page_data,
        sessions::StartSession,
        setup_runs::TestSetup,
    },
    components::{Behind, BehindNote, CopyId, Draw, Failure, Icon, Loading, Menu, SetupBadgeView},
    links,
    live::now::{Ago, Now},
    pages::sessions::NotStarted,
    pages::table_parts::{DeleteDialog, Heading, Nothing, Search},
    text::shown,
};

/// Rows that are shown before one asks for more.
const FIRST_ROWS: usize = 100;

/// The page.
#[component]
pub fn EnvironmentsPage() -> impl IntoView {
    let query = use_query_map();
    let sort = Memo::new(move |_| {
        let query = query.read();
        read_sort(query.get_str("sort"), query.get_str("order"))
    });
    let table = page_data(
        move || sort.get(),
        |sort| load_environments(String::new(), sort),
    );
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match table.await {
                    Ok(page) => view! { <Table page sort=sort.get_untracked() /> }.into_any(),
                    Err(error) => view! { <Failure error /> }.into_any(),
                }
            })}
        </Transition>
    }
}

fn read_sort(by: Option<&str>, order: Option<&str>) -> Sort {
    let by = match by {
        Some("name") => SortBy::Name,
        Some("resources") => SortBy::Resources,
        Some("setup") => SortBy::Setup,
        Some("created") => SortBy::Created,
        _ => SortBy::Updated,
    };
    Sort {
        by,
        ascending: order == Some("up"),
    }
}

/// Whether a row's name or id holds the text, without case.
fn matches(item: &EnvironmentItem, text: &str) -> bool {
    let text = text.trim().to_lowercase();
    text.is_empty()
        || item.name.to_lowercase().contains(&text)
        || item.environment_id.to_string().contains(&text)
}

/// Applies news: changed rows in their place, new ones first, deleted ones out.
fn apply(rows: &mut Vec<EnvironmentItem>, news: TableNews) {
    let mut changed: HashMap<EnvironmentId, EnvironmentItem> = news
        .changed
        .into_iter()
        .map(|item| (item.environment_id, item))
        .collect();
    rows.retain(|row| !news.gone.contains(&row.environment_id));
    for row in rows.iter_mut() {
        if let Some(item) = changed.remove(&row.environment_id) {
            *row = item;
        }
    }
    let mut fresh: Vec<EnvironmentItem> = changed.into_values().collect();
    fresh.sort_by_key(|item| std::cmp::Reverse(item.created_at));
    fresh.append(rows);
    *rows = fresh;
}

#[component]
fn Table(page: TablePage, sort: Sort) -> impl IntoView {
    provide_context(Now::start(page.now_micros));
    let may_change = page.table.may.change;
    let rows = RwSignal::new(page.table.rows);
    let templates = StoredValue::new(page.templates);
    let query_map = use_query_map();
    let text = RwSignal::new(query_map.read_untracked().get("query").unwrap_or_default());
    // Elsewhere within the console there are links to other searches, and the browser's way back. What was typed before the
    // page was alive is not in the address.
    Effect::new(move |before: Option<String>| {
        let query = query_map.read().get("query").unwrap_or_default();
        // What is being typed may have spaces at its ends.
        if before.is_some_and(|before| before != query)
            && text.with_untracked(|text| text.trim() != query.trim())
        {
            text.set(query.clone());
        }
        query
    });
    let all = RwSignal::new(query_map.read_untracked().get_str("rows") == Some("all"));
    let deleting: RwSignal<Option<EnvironmentItem>> = RwSignal::new(None);
    let test = ServerAction::<TestSetup>::new();
    let refused = Signal::derive(move || test.value().get().and_then(Result::err));
    let session = ServerAction::<StartSession>::new();
    let no_session = Signal::derive(move || session.value().get().and_then(Result::err));
    go_to_started_run(test);
    let behind = Behind::default();
    follow(rows, sort, behind);

    let shown = Memo::new(move |_| {
        let text = text.get();
        rows.with(|rows| {
            rows.iter()
                .filter(|row| matches(row, &text))
                .cloned()
                .collect::<Vec<_>>()
        })
    });
    let is_empty = Memo::new(move |_| rows.with(Vec::is_empty));
    let visible = move || {
        let limit = if all.get() { usize::MAX } else { FIRST_ROWS };
        shown.with(|rows| rows.iter().take(limit).cloned().collect::<Vec<_>>())
    };
    let hidden_rows = move || {
        shown
            .with(Vec::len)
            .saturating_sub(if all.get() { usize::MAX } else { FIRST_ROWS })
    };
    let key = StoredValue::new(page.key);

    view! {
        <Title text="Environments · Groundwork" />
        <div class="page">
            <header class="page-head">
                <div>
                    <h1 class="page-title">"Environments"</h1>
                    <p class="page-sub">"The saved definitions of the sandboxes that sessions run in."</p>
                </div>
                {may_change
                    .then(|| {
                        view! {
                            <a id="create" class="button button-primary" href=links::NEW_ENVIRONMENT>
                                <Draw icon=Icon::Plus />
                                "Create environment"
                            </a>
                        }
                    })}
            </header>
            <BehindNote behind />
            {move || refused.get().map(|error| view! { <NotStarted title="The setup test did not start." error /> })}
            {move || no_session.get().map(|error| view! { <NotStarted error /> })}
            <Show when=move || !is_empty.get() fallback=move || view! { <Nothing may_change templates /> }>
                <Search text sort />
                <p class="visually-hidden" role="status">
                    {move || crate::format::count(shown.with(Vec::len) as u64, "environment", "environments")}
                </p>
                <Show
                    when=move || shown.with(|rows| !rows.is_empty())
                    fallback=move || {
                        view! {
                            <div class="card empty">
                                <Draw icon=Icon::Search />
                                <p class="empty-title">"No environment matches"</p>
                                <p class="empty-text">
                                    "Nothing has “" {move || text.get()} "” in its name or id."
                                </p>
                                <a class="button" href=links::ENVIRONMENTS>
                                    "Clear the search"
                                </a>
                            </div>
                        }
                    }
                >
                    <div class="table-wrap">
                        <table class="table table-stack table-fixed table-environments">
                            <thead>
                                <tr>
                                    <Heading label="Name" by=SortBy::Name sort text />
                                    <th scope="col">"ID"</th>
                                    <Heading label="Resources" by=SortBy::Resources sort text />
                                    <Heading label="Setup" by=SortBy::Setup sort text />
                                    <Heading label="Updated" by=SortBy::Updated sort text />
                                    <th scope="col">
                                        <span class="visually-hidden">"Actions"</span>
                                    </th>
                                </tr>
                            </thead>
                            <tbody>
                                <For
                                    each=visible
                                    key=|item| {
                                        (item.environment_id, item.badge, item.updated_at, item.active_setup_run_id, item.session_refusal.clone())
                                    }
                                    let:item
                                >
                                    <Row item may_change key=key.get_value() test session deleting />
                                </For>
                            </tbody>
                        </table>
                    </div>
                    <Show when=move || { hidden_rows() > 0 }>
                        <a
                            class="button self-center"
                            href=move || format!("{}?rows=all&query={}", links::ENVIRONMENTS, links::encode(&text.get()))
                            on:click=move |event| {
                                event.prevent_default();
                                all.set(true);
                            }
                        >
                            {move || format!("Show {} more", hidden_rows())}
                        </a>
                    </Show>
                </Show>
            </Show>
            <DeleteDialog deleting rows />
        </div>
    }
    .into_any()
}

#[component]
fn Row(
    item: EnvironmentItem,
    may_change: bool,
    key: String,
    test: ServerAction<TestSetup>,
    session: ServerAction<StartSession>,
    deleting: RwSignal<Option<EnvironmentItem>>,
) -> impl IntoView {
    let id = item.environment_id;
    let path = links::environment(id);
    let badge = match item.active_setup_run_id {
        Some(run) => view! {
            <a href=links::run(id, run)>
                <SetupBadgeView badge=item.badge />
            </a>
        }
        .into_any(),
        None => view! { <SetupBadgeView badge=item.badge /> }.into_any(),
    };
    let testable = item.testable && item.active_setup_run_id.is_none();
    let label = format!("Actions for {}", shown(&item.name));
    let for_dialog = item.clone();
    let key = format!("{key}-{id}");
    let answers = test.version();
    view! {
        <tr>
            <td class="cell-title max-w-96">
                <a class="font-medium hover:underline break-words" href=path.clone()>
                    {shown(&item.name)}
                </a>
                {(!item.description.is_empty())
                    .then(|| view! { <p class="truncate text-xs text-ink-3 hidden sm:block">{shown(&item.description)}</p> })}
            </td>
            <td data-label="ID">
                <CopyId short=item.short_id.clone() whole=id.to_string() />
            </td>
            <td data-label="Resources" class="text-ink-2 sm:whitespace-nowrap">
                {item.resources.clone()}
            </td>
            <td data-label="Setup">{badge}</td>
            <td data-label="Updated" class="text-ink-2 whitespace-nowrap">
                <Ago at=item.updated_at />
            </td>
            <td class="actions">
                <Menu id=format!("menu-{id}") label>
                    <a class="menu-item" href=path>
                        <Draw icon=if may_change { Icon::Pencil } else { Icon::FileTerminal } />
                        {if may_change { "Edit" } else { "Open" }}
                    </a>
                    {may_change
                        .then(|| {
                            view! {
                                <a class="menu-item" href=links::duplicate_environment(id)>
                                    <Draw icon=Icon::Copy />
                                    "Duplicate"
                                </a>
                                {testable
                                    .then(|| {
                                        let kept = key.clone();
                                        // Pressed twice it is one run; what is pressed after an answer is another one.
                                        let send = move || {
                                            test.dispatch(TestSetup {
                                                environment_id: id,
                                                key: format!("{kept}-{}", answers.get_untracked()),
                                            });
                                        };
                                        view! {
                                            <Sent action=TestSetup::url() id key=key.clone() icon=Icon::FlaskConical label="Test setup" send=Box::new(send) />
                                        }
                                    })}
                                {if item.session_refusal.is_empty() {
                                    let kept = key.clone();
                                    let send = move || {
                                        session.dispatch(StartSession {
                                            environment_id: id,
                                            key: kept.clone(),
                                        });
                                    };
                                    view! {
                                        <Sent action=StartSession::url() id key icon=Icon::Play label="Start session" send=Box::new(send) />
                                    }
                                        .into_any()
                                } else {
                                    view! {
                                        <p class="menu-note">"No session can start. " {item.session_refusal.clone()}</p>
                                    }
                                        .into_any()
                                }}
                                <hr class="menu-line" />
                                <a
                                    class="menu-item menu-item-danger"
                                    href=links::delete_environment(id)
                                    on:click=move |event| {
                                        event.prevent_default();
                                        deleting.set(Some(for_dialog.clone()));
                                    }
                                >
                                    <Draw icon=Icon::Trash2 />
                                    "Delete"
                                </a>
                            }
                        })}
                </Menu>
            </td>
        </tr>
    }
    .into_any()
}

/// An item of a row's menu that posts the row's id. Sent by hand: an `ActionForm` would bring its reader of forms into the
/// first download.
#[component]
fn Sent(
    action: &'static str,
    id: EnvironmentId,
    key: String,
    icon: Icon,
    label: &'static str,
    send: Box<dyn Fn() + Send + Sync>,
) -> impl IntoView {
    view! {
        <form
            method="post"
            action=action
            on:submit=move |event| {
                event.prevent_default();
                send();
            }
        >
            <input type="hidden" name="environment_id" value=id.to_string() />
            <input type="hidden" name="key" value=key />
            <button type="submit" class="menu-item">
                <Draw icon />
                {label}
            </button>
        </form>
    }
    .into_any()
}

/// Once a test was started from a row, one wants to see it.
fn go_to_started_run(test: ServerAction<TestSetup>) {
    let navigate = use_navigate();
    Effect::new(move |_| {
        if let Some(Ok((environment, _))) = test.value().get() {
            navigate(
                &format!("{}#setup-test", links::environment(environment)),
                NavigateOptions::default(),
            );
        }
    });
}

/// Keeps the rows as they are on the server while the page is looked at.
#[cfg(feature = "hydrate")]
fn follow(rows: RwSignal<Vec<EnvironmentItem>>, sort: Sort, behind: Behind) {
    use crate::{api::environments::follow_environments_call, live::stream};
    leptos::reactive::spawn_local_scoped_with_cancellation(async move {
        let mut first = true;
        loop {
            // A page in the background holds no connection: browsers allow few to one host.
            while document().hidden() {
                stream::pause(1_000).await;
                first = false;
            }
            // What happened while nobody followed. Asked for before following would leave a gap, so it comes second.
            let in_flight = rows
                .with_untracked(|rows| rows.iter().any(|row| row.active_setup_run_id.is_some()));
            if !first || in_flight {
                leptos::reactive::spawn_local_scoped_with_cancellation(async move {
                    stream::pause(400).await;
                    let look = load_environments(String::new(), sort).await;
                    behind.looked(&look);
                    if let Ok(page) = look {
                        rows.set(page.table.rows);
                    }
                });
            }
            first = false;
            stream::read(follow_environments_call(), |news: TableNews| {
                rows.update(|rows| apply(rows, news));
                !document().hidden()
            })
            .await;
            stream::pause(2_000).await;
        }
    });
}

#[cfg(not(feature = "hydrate"))]
fn follow(_rows: RwSignal<Vec<EnvironmentItem>>, _sort: Sort, _behind: Behind) {
    // Used by the browser alone.
    let _ = apply as fn(&mut Vec<EnvironmentItem>, TableNews);
}
