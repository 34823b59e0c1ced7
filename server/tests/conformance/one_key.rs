//! Many requests with one key at once have one effect.

use futures::future::join_all;
use http::Method;

use crate::{
    drive::{TREE, body, target},
    live::{Kind, Live, Sent},
    support::{Answer, Setting},
};

const AT_ONCE: usize = 32;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_with_one_key_at_once_have_one_effect_on_sqlite() {
    at_once(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_with_one_key_at_once_have_one_effect_on_postgresql() {
    at_once(Kind::Postgres).await;
}

async fn at_once(kind: Kind) {
    let live = Live::start(Setting {
        options: kind.options(),
        ..Setting::default()
    })
    .await;
    let call = |name: &str, id: &str| {
        let (method, path) = target(name, id, "");
        live.wire.call(method, &path).bearer(&live.doors.developer)
    };
    let made = one_of(|| {
        call("CreateEnvironment", "")
            .keyed("create")
            .json(&body("one"))
    })
    .await;
    let id = made.json()["environment_id"].as_str().unwrap().to_owned();
    let listed = call("ListEnvironments", "").send().await.ok();
    assert_eq!(listed["environments"].as_array().unwrap().len(), 1);

    one_of(|| call("CreateEnvironmentSetupRun", &id).keyed("start")).await;
    let runs = live
        .wire
        .call(Method::GET, &format!("{TREE}/environments/{id}/setup-runs"))
        .bearer(&live.doors.developer);
    assert_eq!(
        runs.send().await.ok()["setup_runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// Sends the same many times at once: one has its effect, the others replay its answer or are told to wait.
async fn one_of(call: impl Fn() -> Sent) -> Answer {
    let answers = join_all((0..AT_ONCE).map(|_| tokio::spawn(call().send()))).await;
    let mut first = None;
    let mut replays = Vec::new();
    for answer in answers.into_iter().flatten() {
        if answer.status == 409 {
            answer.refused(409, "idempotency_in_progress");
            assert!(answer.header("retry-after").is_some());
        } else if answer.header("idempotency-replayed").is_some() {
            replays.push(answer.text);
        } else {
            assert!(answer.status.is_success(), "{answer:#?}");
            assert!(first.replace(answer).is_none(), "a second effect");
        }
    }
    let first = first.expect("one has its effect");
    assert!(replays.iter().all(|text| *text == first.text));
    let later = call().send().await;
    assert_eq!(later.header("idempotency-replayed"), Some("true"));
    assert_eq!(later.text, first.text);
    first
}
