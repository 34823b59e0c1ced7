//! What every operation refuses alike, and a request of each that succeeds.

use http::Method;
use serde_json::{Value, json};
use testkit::Moment;

use crate::{
    document::{Contract, OPERATIONS},
    live::{Live, Sent, Wire},
    report::Report,
};

/// An id that nothing has.
pub const UNKNOWN: &str = "019a0000-0000-7000-8000-00000000ffff";
/// The tree.
pub const TREE: &str = "/managed-agents/v1";

/// A method and a path.
pub type Target = (Method, String);

/// Where an operation is, for this environment and run.
pub fn target(name: &str, environment: &str, run: &str) -> Target {
    let environment = format!("/environments/{environment}");
    let run = format!("{environment}/setup-runs/{run}");
    let (method, path) = match name {
        "ListSandboxProviders" => (Method::GET, "/sandbox-providers".to_owned()),
        "ListEnvironmentTemplates" => (Method::GET, "/environment-templates".to_owned()),
        "CreateEnvironment" => (Method::POST, "/environments".to_owned()),
        "ListEnvironments" => (Method::GET, "/environments".to_owned()),
        "GetEnvironment" => (Method::GET, environment),
        "UpdateEnvironment" => (Method::PATCH, environment),
        "DeleteEnvironment" => (Method::DELETE, environment),
        "CreateEnvironmentSetupRun" => (Method::POST, format!("{environment}/setup-runs")),
        "ListEnvironmentSetupRuns" => (Method::GET, format!("{environment}/setup-runs")),
        "GetEnvironmentSetupRun" => (Method::GET, run),
        "GetEnvironmentSetupRunLog" => (Method::GET, format!("{run}/log")),
        "CancelEnvironmentSetupRun" => (Method::POST, format!("{run}/cancel")),
        other => panic!("there is no operation {other}"),
    };
    (method, format!("{TREE}{path}"))
}

/// A valid create body with a script.
pub fn body(name: &str) -> Value {
    json!({"name": name, "provider": "runs", "setup": {"script": "echo hi\n"}})
}

/// A request that is whole but for who asks: what is required is there.
fn whole(wire: &Wire, name: &str, target: Target) -> Sent {
    let call = wire.call(target.0, &target.1);
    match name {
        "CreateEnvironment" => call.json(&body("whole")),
        "UpdateEnvironment" => call.json(&json!({"description": "changed"})),
        "CreateEnvironmentSetupRun" => call.keyed("whole"),
        _ => call,
    }
}

/// Refusals that do not depend on what an operation does.
pub async fn common_refusals(
    live: &Live,
    contract: &Contract,
    report: &mut Report,
    (environment, run): (&str, &str),
) {
    let doors = &live.doors;
    for name in OPERATIONS {
        let at = || target(name, environment, run);
        let call = |at: (Method, String)| whole(&live.wire, name, at);
        let mut expect = |due, answer: &_| report.expect(contract, name, due, answer);

        expect((401, "unauthorized"), &call(at()).send().await);
        let stranger = format!("rma_{}", "A".repeat(43));
        expect(
            (401, "unauthorized"),
            &call(at()).bearer(&stranger).send().await,
        );
        let (method, path) = at();
        let misspelt = call((method, format!("{path}?colour=red")));
        expect(
            (400, "invalid_request"),
            &misspelt.bearer(&doors.developer).send().await,
        );
        let elsewhere = call(at())
            .bearer(&doors.developer)
            .header("x-organization-id", "org_019a00000000700080000000000000ff");
        expect((403, "forbidden"), &elsewhere.send().await);
        let (method, path) = at();
        let large = live
            .wire
            .call(method, &path)
            .bearer(&doors.developer)
            .keyed("large")
            .raw("application/json", vec![b' '; (1 << 20) + 1]);
        expect((413, "payload_too_large"), &large.send().await);

        let store = &doors.app.store;
        store.fail_once(Moment::Before("api_key_by_hash"));
        expect(
            (503, "service_unavailable"),
            &call(at()).bearer(&doors.developer).send().await,
        );
        store.once(Moment::Before("api_key_by_hash"), || async {
            Err(control::ports::StoreError::Other("broken".into()))
        });
        expect(
            (500, "internal_error"),
            &call(at()).bearer(&doors.developer).send().await,
        );
        store.die_once(Moment::Before("api_key_by_hash"));
        expect(
            (500, "internal_error"),
            &call(at()).bearer(&doors.developer).send().await,
        );

        for (environment, run) in [(UNKNOWN, run), (environment, UNKNOWN)] {
            let wanted = target(name, environment, run);
            if wanted != at() {
                let missing = call(wanted).bearer(&doors.developer);
                expect((404, "not_found"), &missing.send().await);
            }
        }
        let malformed = target(name, "not-an-id", "not-an-id");
        if malformed != at() {
            let malformed = call(malformed).bearer(&doors.developer);
            expect((400, "invalid_request"), &malformed.send().await);
        }
    }
}

/// A server on which the caller's requests are used up.
pub async fn too_many(live: &Live, contract: &Contract, report: &mut Report) {
    let key = &live.doors.developer;
    whole(
        &live.wire,
        "GetEnvironment",
        target("GetEnvironment", UNKNOWN, UNKNOWN),
    )
    .bearer(key)
    .send()
    .await;
    for name in OPERATIONS {
        let call = whole(&live.wire, name, target(name, UNKNOWN, UNKNOWN)).bearer(key);
        report.expect(
            contract,
            name,
            (429, "rate_limit_exceeded"),
            &call.send().await,
        );
    }
}
