//! The row of the guide's table about sessions: in every state of its verdict, an environment that cannot be used refuses
//! a session with the call that leads on, and that call, made as it is named, leads to a session.

use http::Method;
use serde_json::{Value, json};
use testkit::TestWorker;
use wire::worker::Gateway;

use crate::{
    drive::TREE,
    error_table::{Row, call, create, demand, start},
    support::{Answer, Doors},
};

/// How an environment with a script came to be unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    NeverTested,
    Cancelled,
    Failed,
    Stale,
    NoImage,
    /// Last: its run waits for a worker.
    InFlight,
}

/// Brings it about; answers the newest run.
async fn bring_about(doors: &Doors, worker: &TestWorker, id: &str, reason: Reason) -> String {
    if reason == Reason::NeverTested {
        return String::new();
    }
    let run = start(doors, id, &format!("{reason:?}")).await.ok()["setup_run_id"].clone();
    let run = run.as_str().unwrap().to_owned();
    match reason {
        Reason::NeverTested | Reason::InFlight => {}
        Reason::Cancelled => {
            let cancel = call(doors, "CancelEnvironmentSetupRun", id, &run);
            cancel.send().await.ok();
        }
        Reason::Failed => worker.fail(worker.claim().await.held).await,
        Reason::Stale => {
            worker.pass(worker.claim().await.held).await;
            session(doors, id).await.ok();
            let edit = call(doors, "UpdateEnvironment", id, "");
            let edit = edit.json(&json!({"setup": {"script": "echo other\n"}}));
            let edited = edit.send().await.ok();
            assert_eq!(edited["setup_verification"]["stale"], true);
        }
        Reason::NoImage => {
            let held = worker.claim().await.held;
            worker
                .reach(held, domain::setup_run::Phase::Setup)
                .await
                .unwrap();
            let outcome = TestWorker::passed_without_image();
            worker.gateway.finish(held, outcome).await.unwrap();
        }
    }
    run
}

async fn session(doors: &Doors, environment: &str) -> Answer {
    doors
        .post("/groundwork/v1/sessions")
        .bearer(&doors.developer)
        .json(&json!({"environment_id": environment}))
        .send()
        .await
}

#[tokio::test]
async fn a_session_that_cannot_start_names_the_call_that_leads_to_one() {
    let doors = Doors::open().await;
    let worker = doors.app.worker("played").await;
    for reason in [
        Reason::NeverTested,
        Reason::Cancelled,
        Reason::Failed,
        Reason::Stale,
        Reason::NoImage,
        Reason::InFlight,
    ] {
        let id = create(&doors, &format!("{reason:?}")).await;
        let run = bring_about(&doors, &worker, &id, reason).await;
        let tells: &[&str] = match reason {
            Reason::InFlight => &["in flight", "Wait"],
            _ => &["not verified", "Test setup"],
        };
        let row = Row {
            status: 422,
            code: "environment_not_verified",
            field: "",
            tells,
        };
        let next = demand(&session(&doors, &id).await, &row)["next_action"].clone();
        let runs = format!("{TREE}/environments/{id}/setup-runs");
        let due = match reason {
            Reason::InFlight => {
                json!({"operation_id": "managedAgentsGetEnvironmentSetupRun", "method": "GET", "path": format!("{runs}/{run}")})
            }
            _ => {
                json!({"operation_id": "managedAgentsCreateEnvironmentSetupRun", "method": "POST", "path": runs})
            }
        };
        assert_eq!(next, due, "{reason:?}");
        follow(&doors, &next).await.ok();
        worker.pass(worker.claim().await.held).await;
        let started = session(&doors, &id).await;
        assert_eq!(started.status, 202, "{reason:?}: {started:#?}");
    }
}

/// Makes the call that an answer names.
async fn follow(doors: &Doors, action: &Value) -> Answer {
    let method: Method = action["method"].as_str().unwrap().parse().unwrap();
    let path = action["path"].as_str().unwrap();
    doors
        .call(method, path)
        .bearer(&doors.developer)
        .header("idempotency-key", path)
        .send()
        .await
}
