//! The setup guide's cURL examples, run one after another as they are printed (`guide.sh`), with real `bash` and `curl`
//! against the server: each answers what the guide says that it does.

use std::{collections::BTreeMap, process::Stdio};

use domain::setup_run::Phase;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    drive::target,
    live::{Kind, Live},
    support::Setting,
};

const EXAMPLES: &str = include_str!("guide.sh");

/// A reader of the guide: what is exported in their shell.
struct Reader {
    variables: BTreeMap<&'static str, String>,
    home: tempfile::TempDir,
    /// Examples that were run, in order.
    done: Vec<String>,
}

impl Reader {
    fn of(live: &Live) -> Self {
        let home = tempfile::tempdir().unwrap();
        // The status apart from the body, without a change of the commands.
        let settings = "silent\nshow-error\nwrite-out = \"%{stderr}%{http_code}\\n\"\n";
        std::fs::write(home.path().join(".curlrc"), settings).unwrap();
        let variables = BTreeMap::from([
            ("GROUNDWORK_URL", live.wire.url()),
            ("GROUNDWORK_API_KEY", live.doors.developer.clone()),
        ]);
        Self {
            variables,
            home,
            done: Vec::new(),
        }
    }

    /// Runs an example; the answer of the last request of it whose body it shows.
    async fn run(&mut self, name: &str, statuses: &[u16]) -> Value {
        let answers = self.run_all(name, statuses).await;
        answers.into_iter().next_back().unwrap()
    }

    async fn run_all(&mut self, name: &str, statuses: &[u16]) -> Vec<Value> {
        let (_, script) = examples()
            .find(|(title, _)| *title == name)
            .unwrap_or_else(|| panic!("there is no example {name:?}"));
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("CURL_HOME", self.home.path())
            .envs(&self.variables)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let (text, errors) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(output.status.success(), "{name}: {errors}\n{text}");
        let answered: Vec<u16> = errors.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(answered, statuses, "{name}: {text}");
        self.done.push(name.to_owned());
        serde_json::Deserializer::from_str(&text)
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|error| panic!("{name}: {error}: {text}")))
            .collect()
    }
}

/// Each with its name.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXAMPLES
        .split("\n#: ")
        .skip(1)
        .map(|example| example.split_once('\n').unwrap())
}

/// Whether an answer has what the guide prints, which leaves some fields out.
#[track_caller]
fn shows(answer: &Value, printed: &Value) {
    match (answer, printed) {
        (Value::Object(_), Value::Object(fields)) => {
            for (name, field) in fields {
                let Some(found) = answer.get(name) else {
                    panic!("{name} is missing: {answer:#}");
                };
                shows(found, field);
            }
        }
        (Value::Array(items), Value::Array(expected)) => {
            assert_eq!(items.len(), expected.len(), "{answer:#}");
            for (item, expected) in items.iter().zip(expected) {
                shows(item, expected);
            }
        }
        _ => assert_eq!(answer, printed),
    }
}

fn allow(hosts: &[&str]) -> Value {
    let rules: Vec<Value> = hosts
        .iter()
        .map(|host| json!({"match": {"host_glob": host}, "action": {"type": "allow"}}))
        .collect();
    json!({"version": "v1", "rules": rules})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guides_examples_work_as_printed_on_sqlite() {
    read_through(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guides_examples_work_as_printed_on_postgresql() {
    read_through(Kind::Postgres).await;
}

async fn read_through(kind: Kind) {
    let live = Live::start(Setting {
        options: kind.options(),
        ..Setting::default()
    })
    .await;
    let mut reader = Reader::of(&live);
    let worker = live.doors.app.worker("played").await;

    let run = reader.run("create and test", &[200, 202]).await;
    shows(
        &run,
        &json!({"kind": "manual", "status": "queued", "organization_id": live.doors.app.organization.to_string()}),
    );
    assert!(run["requested_by_user_id"].is_string() && run["created_at"].is_string());
    let text = |name: &str| run[name].as_str().unwrap().to_owned();
    let (environment, tested) = (text("environment_id"), text("setup_run_id"));
    reader
        .variables
        .insert("environment_id", environment.clone());
    reader.variables.insert("setup_run_id", tested.clone());

    let runtime = json!({"provider": "runs", "displayName": "Agent runner", "default": true, "requiresCredential": null});
    shows(
        &reader.run("runtimes", &[200]).await,
        &json!({"items": [runtime]}),
    );
    let templates = reader.run("templates", &[200]).await;
    for template in templates["items"].as_array().unwrap() {
        for field in ["id", "revision", "name", "summary", "definition"] {
            assert!(template.get(field).is_some(), "{field}: {template:#}");
        }
    }
    // Of the same key as the first run: the same answer.
    assert_eq!(reader.run("start a setup run", &[202]).await, run);

    let held = worker.claim().await;
    worker.reach(held.held, Phase::Setup).await.unwrap();
    let lines = ["Resolved 7 packages in 412ms", "Installed 7 packages"];
    worker
        .write(held.held, held.next_seq, &lines)
        .await
        .unwrap();
    worker.pass(held.held).await;
    let ended = reader.run("wait for the result", &[200]).await;
    shows(
        &ended,
        &json!({"environment_id": environment, "setup_run_id": tested, "kind": "manual", "status": "succeeded", "exit_code": 0}),
    );
    for field in ["duration_ms", "log_lines", "log_bytes"] {
        assert!(ended[field].is_u64(), "{field}: {ended:#}");
    }
    assert!(ended["started_at"].is_string() && ended["finished_at"].is_string());
    let log = reader.run("read the log", &[200]).await;
    assert_eq!(log["status"], "succeeded");
    let page = log["lines"].as_array().unwrap();
    assert_eq!(
        page.last().unwrap()["seq"],
        log["next_after"],
        "where to go on"
    );
    for wanted in lines {
        assert!(
            page.iter()
                .any(|line| line["text"] == wanted && line["stream"] == "stdout"),
            "{log:#}"
        );
    }
    shows(
        &reader.run("list setup runs", &[200]).await,
        &json!({"setup_runs": [{"setup_run_id": tested, "kind": "manual", "status": "succeeded"}]}),
    );
    // It has finished; another one has not.
    let late = reader.run("cancel a setup run", &[409]).await;
    assert_eq!(late["code"], "setup_run_finished");
    let (method, path) = target("CreateEnvironmentSetupRun", &environment, "");
    let again = live.wire.call(method, &path).bearer(&live.doors.developer);
    let again = again.keyed("again").send().await.ok();
    let waiting = again["setup_run_id"].as_str().unwrap().to_owned();
    reader.variables.insert("setup_run_id", waiting.clone());
    shows(
        &reader.run("cancel a setup run", &[200]).await,
        &json!({"environment_id": environment, "setup_run_id": waiting, "kind": "manual", "status": "cancelled"}),
    );

    let stale = json!({"status": "verified", "stale": true, "setup_run_id": tested});
    let hosts = [
        "index.python.example",
        "files.python.example",
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "objects.githubusercontent.com",
        "github-cloud.s3.amazonaws.com",
    ];
    shows(
        &reader.run("allow specific hosts", &[200]).await,
        &json!({
            "environment_id": environment, "network_policy": allow(&hosts), "privileged": false,
            "setup_verification": stale,
        }),
    );
    // The access that it was written for is not there any more.
    let again = reader.run("allow specific hosts", &[412]).await;
    assert_eq!(again["code"], "precondition_failed");
    shows(
        &reader.run("update", &[200]).await,
        &json!({
            "environment_id": environment, "resources": {"cpu_milli": 4000, "memory_mib": 8192},
            "idle_stop_after_seconds": 3600, "setup_verification": stale,
        }),
    );
    let saved = json!({
        "environment_id": environment, "name": "data-analysis", "scope": "organization", "provider": "runs",
        "resources": {"cpu_milli": 4000, "memory_mib": 8192}, "pvc_size_gi": 20, "computer_use": false,
        "setup": {"timeout_seconds": 900},
    });
    let found = reader.run_all("list and get", &[200, 200]).await;
    shows(&found[0], &json!({"environments": [saved]}));
    shows(&found[1], &saved);
    assert_eq!(reader.run("delete", &[200]).await, json!({"deleted": true}));
    let gone = reader.run_all("list and get", &[200, 404]).await;
    assert_eq!(gone[0], json!({"environments": null}));
    assert_eq!(gone[1]["code"], "not_found");

    for (name, _) in examples() {
        assert!(
            reader.done.iter().any(|done| done == name),
            "{name} was not run"
        );
    }
}
