//! A secret variable in the built program with a real sandbox: it gets in, and comes out in no form.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::place::Place;

const VALUE: &str = "Zq7/hush hush+42Xy9";
/// What the value may look like.
const FORMS: [&str; 6] = [
    VALUE,
    // As a part of a URL.
    "Zq7%2Fhush%20hush%2B42Xy9",
    "Zq7%2Fhush+hush%2B42Xy9",
    // Base64 of it alone, and of it behind one letter.
    "WnE3L2h1c2ggaHVzaCs0Mlh5O",
    "pxNy9odXNoIGh1c2grNDJYeT",
    // In lower case.
    "zq7/hush hush+42xy9",
];
const SCRIPT: &str = r#"printf %s "$TOKEN" | sha256sum
echo "plain $TOKEN"
echo "$TOKEN" >&2
printf %s "$TOKEN" | base64
printf 'x%s' "$TOKEN" | base64
python3 -c 'import os, urllib.parse as u; t = os.environ["TOKEN"]; print(u.quote(t, safe="")); print(u.quote_plus(t))'
python3 -c 'import os, sys, time; t = os.environ["TOKEN"]; sys.stdout.write(t[:9]); sys.stdout.flush(); time.sleep(0.6); print(t[9:])'
sh -c 'echo "${TOKEN}" | tr A-Z a-z'
sudo -E sh -c 'echo "root $TOKEN"'
false "$TOKEN"
"#;

/// A request without a client library; answers status and body.
fn call(address: &str, key: &str, call: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    write!(
        stream,
        "{call} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\nidempotency-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
        call.replace(' ', ":"),
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn images() -> PathBuf {
    std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from)
}

/// Every file below a directory; runner images and the empty disks that sandboxes' own are copied from are left out.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            if entry.file_name() != "runner" && entry.file_name() != "disks" {
                files(&entry.path(), found);
            }
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

#[track_caller]
fn holds_none(what: &str, text: &[u8]) {
    for form in FORMS {
        let found = text
            .windows(form.len())
            .any(|window| window == form.as_bytes());
        assert!(
            !found,
            "{form} in {what}: {}",
            String::from_utf8_lossy(text)
        );
    }
}

#[test]
fn a_secret_gets_into_the_sandbox_and_comes_out_in_no_form() {
    let place = Place::new();
    let images_here = place.data().join("images");
    fs::create_dir_all(place.data()).unwrap();
    let copied = Command::new("cp")
        .arg("-al")
        .arg(images())
        .arg(&images_here)
        .status()
        .unwrap();
    assert!(
        copied.success(),
        "the small runner image is in {}",
        images().display()
    );
    let member = [
        "admin",
        "create-member",
        "--email",
        "a@example.com",
        "--role",
        "admin",
    ];
    assert!(place.run(&member).status.success());
    let made = place.run(&[
        "admin",
        "create-api-key",
        "--email",
        "a@example.com",
        "--role",
        "admin",
    ]);
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let server = place.serve_with_worker(&[("GROUNDWORK_RUNNER_IMAGE", "groundwork/runner:small")]);
    let ask = |line: &str, body: Value| call(&server.address, &key, line, &body);
    let json_of = |answer: (u16, String)| -> Value {
        assert!(answer.0 < 300, "{answer:?}");
        serde_json::from_str(&answer.1).unwrap()
    };

    let body = json!({"name": "E", "setup": {"script": SCRIPT}, "pvc_size_gi": 1,
        "network_policy": {"version": "v1", "rules": []}});
    let environment = json_of(ask("POST /managed-agents/v1/environments", body));
    let id = environment["environment_id"].as_str().unwrap();
    let secret = format!("/groundwork/v1/environments/{id}/secrets/TOKEN");
    let set = ask(&format!("PUT {secret}"), json!({"value": VALUE}));
    holds_none("the answer", set.1.as_bytes());
    json_of(set);
    let run = json_of(ask(
        &format!("POST /managed-agents/v1/environments/{id}/setup-runs"),
        Value::Null,
    ));
    let run = format!(
        "/managed-agents/v1/environments/{id}/setup-runs/{}",
        run["setup_run_id"].as_str().unwrap()
    );
    let deadline = Instant::now() + Duration::from_secs(120);
    let ended = loop {
        let answer = ask(&format!("GET {run}?wait_seconds=5"), Value::Null);
        let found = json_of(answer.clone());
        if found["finished_at"].is_string() {
            break answer.1;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
    };
    let ours = run.replace("/managed-agents/", "/groundwork/");
    let log = ask(&format!("GET {ours}/log.txt"), Value::Null).1;
    let egress = ask(&format!("GET {ours}/egress"), Value::Null).1;
    let timings = ask(&format!("GET {ours}/timings"), Value::Null).1;

    // It got in: this is its SHA-256.
    let digest = sha256(VALUE);
    assert!(log.contains(&digest), "{log}");
    assert!(
        log.contains("plain ***") && log.contains("root ***"),
        "{log}"
    );
    let ended_as: Value = serde_json::from_str(&ended).unwrap();
    assert_eq!(ended_as["exit_code"], 1, "{ended}");
    assert_eq!(ended_as["failed_command"], "false \"$TOKEN\"");
    for (what, text) in [
        ("the log", &log),
        ("the run", &ended),
        ("egress", &egress),
        ("timings", &timings),
    ] {
        holds_none(what, text.as_bytes());
    }
    let (code, server_log, _) = server.stop();
    assert_eq!(code, Some(0), "{server_log}");
    holds_none("the server's log", server_log.as_bytes());
    let mut all = Vec::new();
    files(&place.data(), &mut all);
    assert!(
        all.iter().any(|path| path.ends_with("groundwork.sqlite3")),
        "{all:?}"
    );
    for path in all {
        holds_none(&path.display().to_string(), &fs::read(&path).unwrap());
    }

    // Without its key the next start says what to do.
    fs::remove_file(place.data().join("secrets.key")).unwrap();
    let sentence =
        crate::place::fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
    assert!(sentence.contains("secrets.key is missing"), "{sentence}");
    fs::write(place.data().join("secrets.key"), [9; 32]).unwrap();
    let sentence =
        crate::place::fatal(&place.run(&["serve", "--no-worker", "--listen", "127.0.0.1:0"]));
    assert!(sentence.contains("not the one"), "{sentence}");
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(text.as_bytes()))
}
