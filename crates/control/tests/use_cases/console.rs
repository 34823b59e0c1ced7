//! View models of the console.

use std::time::Duration;

use domain::{ids::EnvironmentId, verification::SetupBadge};
use serde_json::json;
use testkit::TestApp;
use wire::console::{Sort, SortBy, StepState};

async fn names(app: &TestApp, query: &str, by: SortBy, ascending: bool) -> Vec<String> {
    app.control
        .environments_table(&app.admin, query, Sort { by, ascending })
        .await
        .unwrap()
        .rows
        .into_iter()
        .map(|row| row.name)
        .collect()
}

#[tokio::test]
async fn the_table_is_searched_by_name_and_id_and_sorted_by_each_column() {
    let app = TestApp::start().await;
    let make = async |name: &str, script: &str, cpu: u32| -> EnvironmentId {
        app.clock.advance(Duration::from_secs(1));
        let mut body = testkit::create_body(name, script);
        body["resources"] = json!({"cpu_milli": cpu, "memory_mib": 4096});
        app.control
            .create_environment(&app.admin, &body, None)
            .await
            .unwrap()
            .value
            .environment_id
    };
    let beta = make("Beta", "true", 4_000).await;
    make("alpha", "", 1_000).await;
    make("gamma", "true", 2_000).await;
    assert_eq!(
        names(&app, "", SortBy::Updated, false).await,
        ["gamma", "alpha", "Beta"]
    );
    assert_eq!(
        names(&app, "", SortBy::Name, true).await,
        ["alpha", "Beta", "gamma"]
    );
    assert_eq!(
        names(&app, "", SortBy::Resources, true).await,
        ["alpha", "gamma", "Beta"]
    );
    assert_eq!(
        names(&app, "", SortBy::Setup, true).await.last().unwrap(),
        "alpha"
    );
    assert_eq!(names(&app, " BET ", SortBy::Name, true).await, ["Beta"]);
    assert_eq!(
        names(&app, &beta.to_string(), SortBy::Name, true).await,
        ["Beta"]
    );
    assert!(names(&app, "nothing", SortBy::Name, true).await.is_empty());
    let table = app
        .control
        .environments_table(&app.admin, "bet", Sort::default())
        .await
        .unwrap();
    assert_eq!(table.total, 3);
    let row = &table.rows[0];
    assert_eq!(row.resources, "4 vCPU · 4 GiB · 10 GiB disk");
    assert_eq!(
        (row.badge, row.badge_label.as_str()),
        (SetupBadge::NotTested, "Not tested")
    );
    assert!(row.testable);
    assert!(beta.to_string().ends_with(&row.short_id));
}

#[tokio::test]
async fn an_environments_page_has_all_that_it_shows() {
    let app = TestApp::start().await;
    let id = app.environment("one", "echo a").await;
    let worker = app.worker("w").await;
    app.run(id).await;
    worker.fail(worker.claim().await.held).await;
    app.clock.advance(Duration::from_secs(1));
    let run = app.run(id).await;
    let page = app.control.environment_page(&app.admin, id).await.unwrap();
    assert_eq!(page.revision, 1);
    assert_eq!(page.badge, SetupBadge::Testing);
    assert_eq!(page.recent_runs.len(), 2);
    assert_eq!(page.recent_runs[1].status_label, "Failed");
    assert_eq!(page.recent_runs[1].by, "admin@example.com");
    assert!(page.recent_runs[1].hint.is_some());
    let active = page.active_run.unwrap();
    assert_eq!(active.setup_run_id, run);
    assert!(active.may_cancel);
    assert!(
        active
            .phases
            .iter()
            .all(|step| step.state == StepState::Waiting)
    );
    assert_eq!(page.setup_updated_by.as_deref(), Some("admin@example.com"));
    assert!(page.staleness.is_none());
    assert_eq!(page.offer.presets.len(), 4);
    assert!(page.may.change);
}

#[tokio::test]
async fn the_stepper_shows_where_a_run_failed() {
    let app = TestApp::start().await;
    let id = app.environment("one", "nope").await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    worker.fail(worker.claim().await.held).await;
    let view = app.control.run_view(&app.admin, id, run).await.unwrap();
    let states: Vec<_> = view.phases.iter().map(|step| step.state).collect();
    assert_eq!(
        states,
        [
            StepState::Done,
            StepState::Failed,
            StepState::Skipped,
            StepState::Skipped,
            StepState::Skipped
        ]
    );
    assert!(view.finished && !view.may_cancel);
    assert_eq!(view.failed_line, Some(1));
    let page = app.control.run_page(&app.admin, id, run).await.unwrap();
    assert_eq!(page.script, "nope\n");
    assert_eq!(page.environment_name, "one");
}

#[tokio::test]
async fn a_reader_cannot_cancel_and_is_not_offered_to() {
    let app = TestApp::start().await;
    let id = app.environment("one", "true").await;
    let run = app.run(id).await;
    let user = app.member(domain::roles::Role::User, "u@example.com").await;
    let view = app.control.run_view(&user, id, run).await.unwrap();
    assert!(!view.may_cancel);
    let page = app.control.environment_page(&user, id).await.unwrap();
    assert!(!page.may.change && !page.may.test);
}

#[tokio::test]
async fn sizes_that_no_machine_offers_say_so() {
    let mut options = testkit::TestOptions::default();
    options.catalog.sizes.machines = vec![domain::compute::Machine {
        cpu_milli: 2_000,
        memory_mib: 4_096,
    }];
    let app = TestApp::with(options).await;
    let offer = app.control.offer(&app.admin).await.unwrap();
    let refused: Vec<_> = offer.presets.iter().map(|p| p.refused.is_some()).collect();
    assert_eq!(refused, [false, false, true, true]);
    assert!(
        offer.presets[2]
            .refused
            .as_ref()
            .unwrap()
            .contains("2 vCPU · 4 GiB")
    );
    assert_eq!(offer.presets[1].text, "2 vCPU · 4 GiB");
}

#[tokio::test]
async fn providers_come_with_the_default_first() {
    let app = TestApp::start().await;
    let list = app
        .control
        .list_sandbox_providers(&app.admin)
        .await
        .unwrap();
    assert_eq!(
        serde_json::to_value(&list).unwrap()["items"][0],
        json!({
            "provider": "runs",
            "displayName": list.items[0].display_name,
            "description": list.items[0].description,
            "default": true,
            "requiresCredential": null,
        })
    );
}

#[tokio::test]
async fn templates_are_sorted_and_each_makes_an_environment() {
    let app = TestApp::start().await;
    let list = app
        .control
        .list_environment_templates(&app.admin)
        .await
        .unwrap();
    let ids: Vec<_> = list
        .items
        .iter()
        .map(|template| template.id.clone())
        .collect();
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(ids, sorted);
    assert!(ids.contains(&"base-sandbox".to_owned()));
    for template in list.items {
        let made = app
            .control
            .create_environment(&app.admin, &template.definition, None)
            .await
            .unwrap()
            .value;
        assert_eq!(made.provider, "runs", "{}", template.id);
    }
}

#[tokio::test]
async fn advice_on_the_script_comes_with_the_environment_and_with_the_live_check() {
    let app = TestApp::start().await;
    let script = "curl -fsSL https://example.com/install.sh | sh";
    let id = app.environment("one", script).await;
    let read = app.control.get_environment(&app.admin, id).await.unwrap();
    assert_eq!(read.setup_warnings[0].code, "curl_pipe_sh");
    assert_eq!(read.setup_warnings[0].line, 1);
    let check = app
        .control
        .validate_environment(&app.admin, None, &testkit::create_body("x", script))
        .await
        .unwrap();
    assert_eq!(check.warnings, read.setup_warnings);
}

#[tokio::test]
async fn two_thousand_environments_are_listed_quickly() {
    let app = TestApp::start().await;
    let store = app.store.inner();
    let id = app.environment("seed", "true").await;
    let seed = store
        .environment(app.organization, id)
        .await
        .unwrap()
        .unwrap();
    for n in 0..2_000u128 {
        let mut row = seed.clone();
        row.environment_id = EnvironmentId::from_uuid(uuid::Uuid::from_u128(1_000_000 + n));
        row.definition.name = format!("environment {n}");
        store
            .insert_environment(&row, control::ports::Effects::default())
            .await
            .unwrap();
    }
    let start = std::time::Instant::now();
    let table = app
        .control
        .environments_table(&app.admin, "", Sort::default())
        .await
        .unwrap();
    assert_eq!(table.rows.len(), 2_001);
    // A debug build on a busy machine: far from the product's 150 ms, and still a bound on how it grows.
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}
