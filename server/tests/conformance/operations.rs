//! Each operation through its success and through the refusals of its own. The worker is played by the test.

use std::sync::Arc;

use control::ports::{Effects, Store as _};
use domain::setup_run::Phase;
use http::Method;
use serde_json::{Value, json};
use server::http::limits::Rate;
use testkit::Moment;
use tokio::sync::Notify;

use crate::{
    document::{Contract, OPERATIONS},
    drive::{self, TREE, body, target},
    live::{Kind, Live, Sent},
    report::Report,
    support::{Answer, Setting},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_the_contract_says_on_sqlite() {
    conform(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_the_contract_says_on_postgresql() {
    conform(Kind::Postgres).await;
}

/// A server with what checks its answers.
struct Case {
    live: Live,
    contract: Contract,
    report: Report,
}

async fn conform(kind: Kind) {
    let contract = Contract::load();
    let live = Live::start(Setting {
        options: kind.options(),
        ..Setting::default()
    })
    .await;
    let mut case = Case {
        live,
        contract,
        report: Report::default(),
    };
    case.catalogs().await;
    case.environments().await;
    case.keyed_environments().await;
    case.runs().await;
    case.keyed_runs().await;
    case.logs().await;
    let environment = case.create("common").await;
    let run = case.start(&environment, "common").await;
    drive::common_refusals(
        &case.live,
        &case.contract,
        &mut case.report,
        (&environment, &run),
    )
    .await;
    let tight = Live::start(Setting {
        options: kind.options(),
        key_rate: Rate::new(1, 1),
        ..Setting::default()
    })
    .await;
    drive::too_many(&tight, &case.contract, &mut case.report).await;
    assert!(case.live.doors.app.store.all_used());
    case.report.close(
        &case.contract,
        match kind {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
        },
    );
}

impl Case {
    fn call(&self, name: &str, environment: &str, run: &str) -> Sent {
        let (method, path) = target(name, environment, run);
        self.at(method, &path)
    }

    fn at(&self, method: Method, path: &str) -> Sent {
        self.live
            .wire
            .call(method, path)
            .bearer(&self.live.doors.developer)
    }

    fn expect(&mut self, name: &'static str, due: (u16, &str), answer: &Answer) {
        self.report.expect(&self.contract, name, due, answer);
    }

    async fn create(&mut self, name: &str) -> String {
        let made = self.call("CreateEnvironment", "", "").json(&body(name));
        let answer = made.send().await;
        self.expect("CreateEnvironment", (200, ""), &answer);
        answer.ok()["environment_id"].as_str().unwrap().to_owned()
    }

    async fn patch(&mut self, environment: &str, due: (u16, &str), change: &Value) -> Answer {
        let call = self.call("UpdateEnvironment", environment, "").json(change);
        let answer = call.send().await;
        self.expect("UpdateEnvironment", due, &answer);
        answer
    }

    async fn start(&mut self, environment: &str, key: &str) -> String {
        let call = self.call("CreateEnvironmentSetupRun", environment, "");
        let answer = call.keyed(key).send().await;
        self.expect("CreateEnvironmentSetupRun", (202, ""), &answer);
        answer.ok()["setup_run_id"].as_str().unwrap().to_owned()
    }

    async fn cancel(&mut self, environment: &str, run: &str) {
        let call = self.call("CancelEnvironmentSetupRun", environment, run);
        let answer = call.send().await;
        self.expect("CancelEnvironmentSetupRun", (200, ""), &answer);
    }

    async fn read(&mut self, name: &'static str, environment: &str, run: &str) -> Answer {
        let answer = self.call(name, environment, run).send().await;
        self.expect(name, (200, ""), &answer);
        answer
    }

    async fn catalogs(&mut self) {
        for name in ["ListSandboxProviders", "ListEnvironmentTemplates"] {
            let first = self.read(name, "", "").await;
            let tag = first.header("etag").unwrap().to_owned();
            let again = self.call(name, "", "").header("if-none-match", &tag);
            let again = again.send().await;
            self.expect(name, (304, ""), &again);
        }
        // Each template is a create body, and what comes of it an environment, except where this deployment offers no GPU.
        let templates = self.read("ListEnvironmentTemplates", "", "").await.ok();
        for template in templates["items"].as_array().unwrap() {
            let call = self.call("CreateEnvironment", "", "");
            let answer = call.json(&template["definition"]).send().await;
            let due = if template["definition"]["resources"]["accelerator"].is_null() {
                (200, "")
            } else {
                (400, "invalid_request")
            };
            self.expect("CreateEnvironment", due, &answer);
        }
    }

    async fn environments(&mut self) {
        let full = json!({
            "name": "everything", "provider": "runs", "description": "All that can be set.",
            "metadata": {"team": "a", "n": [1, 2.5, null, true]}, "scope": "organization",
            "template": {"id": "base-sandbox", "revision": 1},
            "setup": {"script": "pip install x\ncurl -fsS https://x.example | bash\n", "timeout_seconds": 120},
            "resources": {"cpu_milli": 1000, "memory_mib": 2048, "timeout_seconds": 600},
            "network_policy": {"version": "v1", "rules": [
                {"match": {"host_glob": "*.example.com"}, "action": {"type": "allow"}},
                {"match": {"host_glob": "*"}, "action": {"type": "deny"}},
            ]},
            "pvc_size_gi": 5, "env_vars": {"A": "1"}, "computer_use": true,
            "mounts": [{"source": "volume:models", "mount_path": "/mnt/models"}],
            "idle_stop_after_seconds": 600, "stopped_delete_after_seconds": 3600, "secrets": {},
        });
        let call = self.call("CreateEnvironment", "", "").json(&full);
        let answer = call.send().await;
        self.expect("CreateEnvironment", (200, ""), &answer);
        let id = answer.ok()["environment_id"].as_str().unwrap().to_owned();
        self.read("GetEnvironment", &id, "").await;
        self.read("ListEnvironments", "", "").await;
        self.patch(
            &id,
            (200, ""),
            &json!({"env_vars": {}, "mounts": [], "setup": {"script": ""}}),
        )
        .await;

        for (kind, body, due) in [
            ("application/json", "{", (400, "invalid_json")),
            ("application/json", "[]", (400, "invalid_request")),
            ("text/plain", "{}", (415, "unsupported_media_type")),
        ] {
            for name in ["CreateEnvironment", "UpdateEnvironment"] {
                let answer = self.call(name, &id, "").raw(kind, body).send().await;
                self.expect(name, due, &answer);
            }
        }
        let forbidden = json!({"name": "x", "provider": "runs", "colour": "red"});
        let answer = self.call("CreateEnvironment", "", "").json(&forbidden);
        let answer = answer.send().await;
        self.expect("CreateEnvironment", (400, "invalid_request"), &answer);
        self.patch(&id, (400, "invalid_request"), &json!({})).await;

        let open = json!({"network_policy": {}});
        self.patch(&id, (428, "precondition_required"), &open).await;
        let wrong = json!({"network_policy": {}, "expected_access": {"network_policy": {}, "privileged": false}});
        self.patch(&id, (412, "precondition_failed"), &wrong).await;
        let compute = |cpu: u32| json!({"resources": {"cpu_milli": cpu, "memory_mib": 4096}});
        let app = &self.live.doors.app;
        let (control, admin) = (app.control.clone(), app.admin.clone());
        let (other, quicker) = (id.parse().unwrap(), compute(2000));
        app.store
            .once(Moment::Before("update_environment"), move || async move {
                control
                    .update_environment(&admin, other, &quicker, None)
                    .await
                    .unwrap();
                Ok(())
            });
        self.patch(&id, (409, "revision_conflict"), &compute(4000))
            .await;

        for (name, change) in [
            ("CreateEnvironment", body("x")),
            ("UpdateEnvironment", json!({"name": "x"})),
        ] {
            let (method, path) = target(name, &id, "");
            let call = self.live.wire.call(method, &path).json(&change);
            let answer = call.bearer(&self.live.doors.user).send().await;
            self.expect(name, (403, "forbidden"), &answer);
        }
        self.read("DeleteEnvironment", &id, "").await;
        for name in ["GetEnvironment", "DeleteEnvironment"] {
            let again = self.call(name, &id, "").send().await;
            self.expect(name, (404, "not_found"), &again);
        }
        let id = self.create("deleted while tested").await;
        self.start(&id, "deleted").await;
        self.read("DeleteEnvironment", &id, "").await;
    }

    /// Replay, conflict and in-progress of a keyed call whose effect passes through the store's method `effect`.
    async fn keyed(
        &mut self,
        name: &'static str,
        (status, effect): (u16, &'static str),
        call: impl Fn(&Self, &str) -> Sent,
        other: impl Fn(&Self, &str) -> Sent,
    ) {
        let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (reached.clone(), go_on.clone());
        self.live
            .doors
            .app
            .store
            .once(Moment::Before(effect), move || async move {
                tell.notify_one();
                wait.notified().await;
                Ok(())
            });
        let key = format!("keyed-{name}");
        let first = tokio::spawn(call(self, &key).send());
        reached.notified().await;
        let meanwhile = call(self, &key).send().await;
        self.expect(name, (409, "idempotency_in_progress"), &meanwhile);
        go_on.notify_one();
        let first = first.await.unwrap();
        self.expect(name, (status, ""), &first);
        let again = call(self, &key).send().await;
        self.expect(name, (status, ""), &again);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.text, first.text);
        let conflict = other(self, &key).send().await;
        self.expect(name, (409, "idempotency_conflict"), &conflict);
        for wrong in ["", "two words", &"k".repeat(257)] {
            let refused = call(self, wrong).send().await;
            self.expect(name, (400, "invalid_request"), &refused);
        }
    }

    async fn keyed_environments(&mut self) {
        let id = self.create("keyed").await;
        let create = |text: &'static str| {
            move |case: &Self, key: &str| {
                let call = case.call("CreateEnvironment", "", "");
                call.json(&body(text)).keyed(key)
            }
        };
        self.keyed(
            "CreateEnvironment",
            (200, "insert_environment"),
            create("one"),
            create("two"),
        )
        .await;
        let update = |text: &'static str| {
            let id = id.clone();
            move |case: &Self, key: &str| {
                let call = case.call("UpdateEnvironment", &id, "");
                call.json(&json!({"name": text})).keyed(key)
            }
        };
        self.keyed(
            "UpdateEnvironment",
            (200, "update_environment"),
            update("one"),
            update("two"),
        )
        .await;
    }

    async fn runs(&mut self) {
        const START: &str = "CreateEnvironmentSetupRun";
        const CANCEL: &str = "CancelEnvironmentSetupRun";
        let worker = self.live.doors.app.worker("played").await;
        let id = self.create("tested").await;
        self.read("ListEnvironmentSetupRuns", &id, "").await;
        let run = self.start(&id, "first").await;
        let second = self.call(START, &id, "").keyed("second").send().await;
        self.expect(START, (409, "setup_run_in_progress"), &second);
        // Its verdict, in every state.
        for look in 0..2 {
            self.read("GetEnvironment", &id, "").await;
            self.read("GetEnvironmentSetupRun", &id, &run).await;
            if look == 0 {
                let work = worker.claim().await;
                worker.reach(work.held, Phase::Setup).await.unwrap();
                worker.fail(work.held).await;
            }
        }
        let late = self.call(CANCEL, &id, &run).send().await;
        self.expect(CANCEL, (409, "setup_run_finished"), &late);
        for passed in [true, false] {
            let run = self.start(&id, &format!("passed-{passed}")).await;
            let work = worker.claim().await;
            worker.reach(work.held, Phase::Setup).await.unwrap();
            self.read("GetEnvironmentSetupRun", &id, &run).await;
            if passed {
                worker.pass(work.held).await;
            } else {
                for phase in [Phase::Profile, Phase::Commit, Phase::Cleanup] {
                    worker.reach(work.held, phase).await.unwrap();
                }
                let outcome = testkit::TestWorker::passed_without_image();
                wire::worker::Gateway::finish(&worker.gateway, work.held, outcome)
                    .await
                    .unwrap();
            }
            self.read("GetEnvironmentSetupRun", &id, &run).await;
            self.read("GetEnvironment", &id, "").await;
        }
        self.read("ListEnvironmentSetupRuns", &id, "").await;
        self.read("ListEnvironments", "", "").await;
        let path = format!("{TREE}/environments/{id}/setup-runs?limit=51");
        let beyond = self.at(Method::GET, &path).send().await;
        self.expect(
            "ListEnvironmentSetupRuns",
            (400, "invalid_request"),
            &beyond,
        );

        let queued = self.create("cancelled").await;
        let run = self.start(&queued, "cancelled").await;
        let call = self.call(CANCEL, &queued, &run).raw("text/plain", "x");
        let answer = call.send().await;
        self.expect(CANCEL, (415, "unsupported_media_type"), &answer);
        let call = self.call(START, &queued, "").keyed("a-body");
        let answer = call.raw("text/plain", "x").send().await;
        self.expect(START, (415, "unsupported_media_type"), &answer);
        let bare = self.call(START, &queued, "").send().await;
        self.expect(START, (400, "invalid_request"), &bare);
        self.cancel(&queued, &run).await;
        self.read("GetEnvironmentSetupRun", &queued, &run).await;
        for name in [START, CANCEL] {
            let (method, path) = target(name, &queued, &run);
            let call = self.live.wire.call(method, &path).keyed("role");
            let answer = call.bearer(&self.live.doors.user).send().await;
            self.expect(name, (403, "forbidden"), &answer);
        }
        self.live
            .doors
            .app
            .store
            .fail_once(Moment::Before("admit_run"));
        let call = self.call(START, &queued, "").keyed("not-started");
        let answer = call.send().await;
        self.expect(START, (503, "setup_run_not_started"), &answer);
        self.too_many_runs().await;
        self.provider_gone(&id).await;
    }

    async fn too_many_runs(&mut self) {
        let mut runs = Vec::new();
        for n in 0..4 {
            let id = self.create(&format!("parallel {n}")).await;
            let run = self.start(&id, &format!("parallel-{n}")).await;
            runs.push((id, run));
        }
        let id = self.create("fifth").await;
        let call = self.call("CreateEnvironmentSetupRun", &id, "");
        let answer = call.keyed("fifth").send().await;
        self.expect(
            "CreateEnvironmentSetupRun",
            (429, "setup_run_limit"),
            &answer,
        );
        for (id, run) in runs {
            self.cancel(&id, &run).await;
        }
    }

    /// An environment of a runtime that the deployment does not offer any more.
    async fn provider_gone(&mut self, like: &str) {
        let app = &self.live.doors.app;
        let saved = app
            .store
            .environment(app.organization, like.parse().unwrap())
            .await
            .unwrap();
        let mut row = saved.unwrap();
        row.environment_id = drive::UNKNOWN.replace("ffff", "eeee").parse().unwrap();
        row.definition.provider = "docker".to_owned();
        app.store
            .insert_environment(&row, Effects::default())
            .await
            .unwrap();
        let id = row.environment_id.to_string();
        self.read("GetEnvironment", &id, "").await;
        let call = self.call("CreateEnvironmentSetupRun", &id, "");
        let answer = call.keyed("gone").send().await;
        self.expect(
            "CreateEnvironmentSetupRun",
            (422, "sandbox_provider_disabled"),
            &answer,
        );
    }

    async fn keyed_runs(&mut self) {
        let (one, two) = (self.create("run one").await, self.create("run two").await);
        let start = |id: String| {
            move |case: &Self, key: &str| {
                let call = case.call("CreateEnvironmentSetupRun", &id, "");
                call.keyed(key)
            }
        };
        self.keyed(
            "CreateEnvironmentSetupRun",
            (202, "admit_run"),
            start(one.clone()),
            start(two),
        )
        .await;
        self.read("DeleteEnvironment", &one, "").await;
    }

    async fn logs(&mut self) {
        const LOG: &str = "GetEnvironmentSetupRunLog";
        let worker = self.live.doors.app.worker("played").await;
        let id = self.create("logged").await;
        let run = self.start(&id, "logged").await;
        self.read(LOG, &id, &run).await;
        let work = worker.claim().await;
        worker.reach(work.held, Phase::Setup).await.unwrap();
        worker
            .write(
                work.held,
                work.next_seq,
                &["a", "\u{1b}[1mb\u{1b}[0m", "é\u{fffd}"],
            )
            .await
            .unwrap();
        let path = target(LOG, &id, &run).1;
        for (query, due) in [
            ("?after=2&limit=1", (200, "")),
            (
                "?after=9007199254740991&limit=2000&wait_seconds=0",
                (200, ""),
            ),
            ("?limit=2001", (400, "invalid_request")),
            ("?after=-1", (400, "invalid_request")),
            ("?wait_seconds=61", (400, "invalid_request")),
        ] {
            let answer = self.at(Method::GET, &format!("{path}{query}")).send().await;
            self.expect(LOG, due, &answer);
        }
        worker.pass(work.held).await;
        self.read(LOG, &id, &run).await;
        assert_eq!(OPERATIONS.len(), 12);
    }
}
