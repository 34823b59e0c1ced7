//! Environments: list, get, create, apply, export, delete.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::place::{Place, Ran};

const FILE: &str = "\
name: data-analysis
description: For notebooks
pvc_size_gi: 20
resources: {cpu_milli: 1000, memory_mib: 2048}
setup:
  script: |
    echo one
    echo two
  timeout_seconds: 900
env_vars:
  MODE: fast
";

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_applied_once_and_again_without_changes() {
    let place = Place::open().await;
    let path = place.file("env.yaml", FILE);
    let plan = place.run(&["env", "apply", "-f", &path, "--dry-run"]).await;
    assert_eq!(plan.code, Some(2), "{plan:#?}");
    assert!(
        plan.err.contains("+ create environment \"data-analysis\""),
        "{plan:#?}"
    );
    assert!(plan.err.contains("setup.script"), "{plan:#?}");
    let none = place.run(&["env", "list", "--output", "json"]).await.json();
    assert_eq!(none["environments"], json!([]));

    // Without a terminal there is nobody to ask.
    place
        .run(&["env", "apply", "-f", &path])
        .await
        .failed("--yes");
    let made = place
        .run(&["env", "apply", "-f", &path, "--yes", "--output", "json"])
        .await
        .json();
    assert_eq!(made["result"], "created");
    let again = place
        .run(&["env", "apply", "-f", &path, "--yes"])
        .await
        .ok();
    assert!(again.contains("no changes"), "{again}");
    let dry = place
        .run(&["env", "apply", "-f", &path, "--dry-run"])
        .await
        .ok();
    assert!(dry.contains("no changes"), "{dry}");

    let edited = FILE
        .replace("echo two", "echo three")
        .replace("MODE: fast", "MODE: slow");
    let path = place.file("env.yaml", &edited);
    let plan = place.run(&["env", "apply", "-f", &path, "--dry-run"]).await;
    assert_eq!(plan.code, Some(2), "{plan:#?}");
    for said in ["- echo two", "+ echo three", "env_vars.MODE: fast → slow"] {
        assert!(plan.err.contains(said), "{said}: {plan:#?}");
    }
    let changed = place.run(&["env", "apply", "-f", &path, "--yes"]).await;
    assert!(changed.out.contains("changed"), "{changed:#?}");
    assert!(changed.err.contains("groundwork test"), "{changed:#?}");
    let now = place
        .run(&["env", "get", "data-analysis", "--output", "json"])
        .await
        .json();
    assert_eq!(now["setup"]["script"], "echo one\necho three\n");
    assert_eq!(now["pvc_size_gi"], 20);
    // What a file leaves out stays.
    let part = place.file(
        "part.json",
        "{\"name\": \"data-analysis\", \"pvc_size_gi\": 30}",
    );
    place
        .run(&["env", "apply", "-f", &part, "--yes"])
        .await
        .ok();
    let now = place
        .run(&["env", "get", "data-analysis", "--output", "json"])
        .await
        .json();
    assert_eq!(
        (&now["pvc_size_gi"], &now["description"]),
        (&json!(30), &json!("For notebooks"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_is_applied_without_changes() {
    let place = Place::open().await;
    let path = place.file("env.yaml", FILE);
    place.run(&["env", "create", "-f", &path]).await.ok();
    for format in ["yaml", "json"] {
        let text = place
            .run(&["env", "export", "data-analysis", "--format", format])
            .await
            .ok();
        assert!(text.contains("environment_id"), "{text}");
        let exported = place.file("exported", &text);
        let again = place
            .run(&["env", "apply", "-f", &exported, "--yes"])
            .await
            .ok();
        assert!(again.contains("no changes"), "{again}");
    }
    // Matched by id: a new name is a change, not another environment.
    let text = place.run(&["env", "export", "data-analysis"]).await.ok();
    let renamed = place.file(
        "renamed",
        &text.replace("name: data-analysis", "name: renamed"),
    );
    place
        .run(&["env", "apply", "-f", &renamed, "--yes"])
        .await
        .ok();
    let all = place.run(&["env", "list", "--output", "json"]).await.json();
    assert_eq!(all["environments"].as_array().unwrap().len(), 1);
    assert_eq!(all["environments"][0]["name"], "renamed");

    // Elsewhere it is made anew, from standard input.
    let portable = place
        .run(&["env", "export", "renamed", "--portable"])
        .await
        .ok();
    assert!(!portable.contains("environment_id"), "{portable}");
    let other = Place::open().await;
    let mut child = other
        .command(&["env", "apply", "-f", "-", "--yes"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(portable.as_bytes()).await.unwrap();
    drop(stdin);
    let made = Ran::of(child.wait_with_output().await.unwrap());
    assert!(made.ok().contains("created"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_several_have_is_refused_with_their_ids() {
    let place = Place::open().await;
    let one = place.app.environment("Twin", "").await.to_string();
    let two = place.app.environment("Twin", "").await.to_string();
    place.app.environment("Twin with a longer name", "").await;
    let path = place.file("env.yaml", "name: Twin\npvc_size_gi: 20\n");
    for args in [
        vec!["env", "apply", "-f", &path, "--yes"],
        vec!["env", "get", "Twin"],
        vec!["env", "delete", "Twin", "--yes"],
        vec!["test", "Twin"],
    ] {
        let refused = place.run(&args).await;
        assert!(
            refused.err.contains(&one) && refused.err.contains(&two),
            "{refused:#?}"
        );
        refused.failed("2 environments");
    }
    let by_id = place.file(
        "env.yaml",
        &format!("environment_id: {one}\npvc_size_gi: 20\n"),
    );
    place
        .run(&["env", "apply", "-f", &by_id, "--yes"])
        .await
        .ok();
    let gone = place.run(&["env", "delete", &two, "--yes"]).await.ok();
    assert!(gone.contains("deleted"));
    place
        .run(&["env", "get", &two])
        .await
        .failed("There is no environment");
    let by_id = place.file(
        "env.yaml",
        &format!("environment_id: {two}\npvc_size_gi: 20\n"),
    );
    place
        .run(&["env", "apply", "-f", &by_id, "--yes"])
        .await
        .failed("environment_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_files_and_refusals_name_the_field() {
    let place = Place::open().await;
    for (text, said) in [
        ("name: x\nnmae: y\n", "nmae"),
        ("name: x\npvc_size_gi: 500\n", "pvc_size_gi"),
        (
            "name: x\nnetwork_policy: {version: v2, rules: []}\n",
            "network_policy.version",
        ),
        ("pvc_size_gi: 20\n", "environment_id"),
        ("name: [\n", "YAML"),
        ("{\"name\": \n", "JSON"),
        // Only the server knows what it offers.
        (
            "name: x\nresources: {accelerator: {name: no-such-gpu}}\n",
            "accelerator",
        ),
    ] {
        let path = place.file("wrong.yaml", text);
        place
            .run(&["env", "apply", "-f", &path, "--yes"])
            .await
            .failed(said);
    }
    place
        .run(&["env", "apply", "-f", "/no/such/file", "--yes"])
        .await
        .failed("/no/such/file");
    let path = place.file("wrong.json", "{\"name\": \"x\", \"pvc_size_gi\": 500}");
    let refused = place
        .run(&["env", "create", "-f", &path, "--output", "json"])
        .await;
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(
        (refused.code, &error["code"]),
        (Some(1), &json!("invalid_request"))
    );
    assert_eq!(error["details"]["field"], "pvc_size_gi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_access_is_sent_with_what_was_read() {
    let place = Place::open().await;
    place.run(&["env", "create", "--name", "Open"]).await.ok();
    let path = place.file(
        "env.yaml",
        "name: Open\nnetwork_policy:\n  version: v1\n  rules:\n  - match: {host_glob: secret.example.com}\n    action: {type: deny}\n",
    );
    let changed = place.run(&["env", "apply", "-f", &path, "--yes"]).await;
    assert!(changed.err.contains("network_policy"), "{changed:#?}");
    changed.ok();
    let again = place
        .run(&["env", "apply", "-f", &path, "--yes"])
        .await
        .ok();
    assert!(again.contains("no changes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_a_table_or_json_over_all_pages() {
    let place = Place::open().await;
    for number in 0..205 {
        place.app.environment(&format!("E{number}"), "").await;
    }
    let all = place.run(&["env", "list", "--output", "json"]).await.json();
    assert_eq!(all["environments"].as_array().unwrap().len(), 205);
    let table = place.run(&["env", "list", "--query", "e20"]).await.ok();
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(table.starts_with("NAME"), "{table}");
    place
        .run(&["env", "list", "--status", "good"])
        .await
        .failed("status");
}
