//! The life of setup images: kept while something needs them, then deleted after a grace period; evicted past the limit;
//! marked when they are gone.

use std::time::Duration;

use domain::ids::EnvironmentId;
use testkit::{Moment, TestApp, TestOptions, TestWorker};
use wire::worker::{CapturedImage, Gateway, Held, RunOutcome};

const GRACE: Duration = Duration::from_secs(300);

fn layer(name: &str) -> String {
    format!("sha256:{name}")
}

fn passed(digest: &str, size_bytes: u64) -> RunOutcome {
    RunOutcome {
        image: Some(CapturedImage {
            digest: layer(digest),
            size_bytes,
            base_image_digest: "sha256:runner".to_owned(),
        }),
        ..TestWorker::passed()
    }
}

/// Runs the environment's script to the end; its layer has this name.
async fn verify(app: &TestApp, worker: &TestWorker, id: EnvironmentId, digest: &str, bytes: u64) {
    app.run(id).await;
    finish(worker, worker.claim().await.held, passed(digest, bytes)).await;
}

async fn finish(worker: &TestWorker, held: Held, outcome: RunOutcome) {
    use domain::setup_run::Phase;
    for phase in [Phase::Setup, Phase::Profile, Phase::Commit, Phase::Cleanup] {
        worker.reach(held, phase).await.unwrap();
    }
    worker.gateway.finish(held, outcome).await.unwrap();
}

async fn report(worker: &TestWorker, layers: &[&str]) -> Vec<String> {
    let layers: Vec<String> = layers.iter().map(|name| layer(name)).collect();
    worker
        .gateway
        .report_images(
            worker.id,
            &layers,
            Some(&TestWorker::runner_image("runner")),
        )
        .await
        .unwrap()
}

/// Status, whether sessions can start from the image, and what is said about it.
async fn image(app: &TestApp, id: EnvironmentId) -> (String, bool, String) {
    let verdict = app
        .control
        .get_environment(&app.admin, id)
        .await
        .unwrap()
        .setup_verification;
    let image = verdict.image.unwrap();
    (
        verdict.status,
        image.usable,
        image.warmup_message.unwrap_or_default(),
    )
}

#[tokio::test]
async fn a_layer_that_nothing_needs_is_deleted_after_the_grace_period_and_not_before() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    // Saved, and its run not reported yet.
    assert!(report(&worker, &["a"]).await.is_empty());
    app.clock.advance(GRACE - Duration::from_secs(1));
    assert!(report(&worker, &["a"]).await.is_empty());
    verify(&app, &worker, id, "a", 10).await;
    app.clock.advance(GRACE * 3);
    assert!(report(&worker, &["a"]).await.is_empty(), "it is needed now");
    // Another image takes its place.
    verify(&app, &worker, id, "b", 10).await;
    assert!(report(&worker, &["a", "b"]).await.is_empty());
    app.clock.advance(GRACE);
    assert_eq!(report(&worker, &["a", "b"]).await, [layer("a")]);
    assert_eq!(app.control.image_figures().layers_deleted, 1);
}

#[tokio::test]
async fn a_replaced_runner_image_stays_as_long_as_a_setup_image_stands_on_it() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    verify(&app, &worker, id, "a", 10).await;
    let both = ["a", "runner"];
    assert!(report(&worker, &both).await.is_empty());
    app.clock.advance(GRACE * 3);
    assert!(report(&worker, &both).await.is_empty(), "it is needed");
    app.control
        .delete_environment(&app.admin, id)
        .await
        .unwrap();
    assert!(report(&worker, &both).await.is_empty(), "not at once");
    app.clock.advance(GRACE);
    assert_eq!(report(&worker, &both).await, both.map(layer));
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_deletes_nothing() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    assert!(report(&worker, &["a"]).await.is_empty());
    app.clock.jump_wall(864_000);
    assert!(report(&worker, &["a"]).await.is_empty());
}

#[tokio::test]
async fn a_layer_is_shared_until_the_last_environment_goes() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let (one, two) = (
        app.environment("one", "true").await,
        app.environment("two", "true").await,
    );
    for id in [one, two] {
        verify(&app, &worker, id, "same", 10).await;
    }
    report(&worker, &["same"]).await;
    let figures = app.control.image_figures();
    assert_eq!((figures.images, figures.bytes), (1, 10), "counted once");
    app.control
        .delete_environment(&app.admin, one)
        .await
        .unwrap();
    app.clock.advance(GRACE * 2);
    assert!(report(&worker, &["same"]).await.is_empty());
    app.control
        .delete_environment(&app.admin, two)
        .await
        .unwrap();
    assert!(report(&worker, &["same"]).await.is_empty());
    app.clock.advance(GRACE);
    assert_eq!(report(&worker, &["same"]).await, [layer("same")]);
}

#[tokio::test]
async fn past_the_limit_the_image_used_longest_ago_gives_way_and_its_environment_says_so() {
    let app = TestApp::with(TestOptions {
        configure: |config| config.images_max_bytes = Some(250),
        ..TestOptions::default()
    })
    .await;
    let worker = app.worker("w").await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let id = app.environment(name, "true").await;
        verify(&app, &worker, id, name, 100).await;
        app.clock.advance(Duration::from_secs(60));
        ids.push(id);
    }
    assert!(report(&worker, &["a", "b", "c"]).await.is_empty());
    let (status, usable, message) = image(&app, ids[0]).await;
    assert_eq!((status.as_str(), usable), ("verified", false));
    assert!(message.contains("Test the environment again"), "{message}");
    for id in &ids[1..] {
        assert!(image(&app, *id).await.1);
    }
    let figures = app.control.image_figures();
    assert_eq!(
        (figures.images, figures.bytes, figures.evicted),
        (2, 200, 1)
    );
    let page = app
        .control
        .environment_page(&app.admin, ids[0])
        .await
        .unwrap();
    assert_eq!(page.badge_label, "No image");
    assert!(!page.usable);
    app.clock.advance(GRACE);
    assert_eq!(report(&worker, &["a", "b", "c"]).await, [layer("a")]);
    // A test makes it anew.
    verify(&app, &worker, ids[0], "a", 50).await;
    assert!(image(&app, ids[0]).await.1);
    assert!(report(&worker, &["a", "b", "c"]).await.is_empty());
}

#[tokio::test]
async fn an_eviction_that_meets_a_new_image_leaves_it_alone() {
    let app = TestApp::with(TestOptions {
        configure: |config| config.images_max_bytes = Some(50),
        ..TestOptions::default()
    })
    .await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    verify(&app, &worker, id, "old", 100).await;
    app.run(id).await;
    let held = worker.claim().await.held;
    let gateway = worker.gateway.clone();
    app.store
        .once(Moment::Before("update_environment"), move || async move {
            for phase in [
                domain::setup_run::Phase::Setup,
                domain::setup_run::Phase::Profile,
                domain::setup_run::Phase::Commit,
                domain::setup_run::Phase::Cleanup,
            ] {
                gateway
                    .reach(held, phase, wire::worker::Reached::default())
                    .await
                    .unwrap();
            }
            gateway.finish(held, passed("new", 20)).await.unwrap();
            Ok(())
        });
    report(&worker, &["old", "new"]).await;
    assert!(app.store.all_used());
    assert!(image(&app, id).await.1, "the new image is not the old one");
}

#[tokio::test]
async fn an_image_whose_layer_no_worker_has_is_marked_but_not_at_the_first_look() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    verify(&app, &worker, id, "a", 10).await;
    report(&worker, &[]).await;
    assert!(
        image(&app, id).await.1,
        "the list may be older than the image"
    );
    app.clock.advance(Duration::from_secs(90));
    report(&worker, &[]).await;
    let (status, usable, message) = image(&app, id).await;
    assert_eq!((status.as_str(), usable), ("verified", false));
    assert!(message.contains("no longer on any machine"), "{message}");
}

#[tokio::test]
async fn a_layer_on_another_worker_is_not_missing_and_silence_says_nothing() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let id = app.environment("one", "true").await;
    verify(&app, &worker, id, "a", 10).await;
    let other = app.worker("other").await;
    for _ in 0..5 {
        // The first worker is there and has not reported since this process began.
        worker.try_claim().await;
        report(&other, &[]).await;
        app.clock.advance(Duration::from_secs(60));
    }
    assert!(image(&app, id).await.1);
    for _ in 0..5 {
        report(&worker, &["a"]).await;
        report(&other, &[]).await;
        app.clock.advance(Duration::from_secs(60));
    }
    assert!(image(&app, id).await.1);
}

#[tokio::test]
async fn an_operators_list_names_size_holders_and_last_use() {
    let app = TestApp::start().await;
    let worker = app.worker("w").await;
    let (one, two) = (
        app.environment("one", "true").await,
        app.environment("two", "true").await,
    );
    verify(&app, &worker, one, "a", 10).await;
    app.clock.advance(Duration::from_secs(60));
    verify(&app, &worker, two, "b", 20).await;
    let items = app.control.setup_images().await.unwrap();
    let seen: Vec<_> = items
        .iter()
        .map(|item| {
            (
                item.digest.as_str(),
                item.size_bytes,
                item.environments[0].name.as_str(),
                item.in_session,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("sha256:a", 10, "one", false),
            ("sha256:b", 20, "two", false)
        ]
    );
    assert!(items[0].used_at < items[1].used_at);
}
