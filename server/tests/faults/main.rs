//! `kill -9` of the server at any moment of a run (spec 4-execution, *Faults*): the built program, real sandboxes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../startup/place.rs"]
#[allow(dead_code, reason = "shared with the tests of starting")]
mod place;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use place::Place;
use serde_json::{Value, json};

/// Moments of the kill after the run was admitted, in milliseconds: before it is claimed, while its sandbox is made, in
/// the script, while it is saved, about its end.
const MOMENTS: [u64; 6] = [0, 90, 350, 900, 1_700, 2_600];
/// A restarted worker gives up what it held at once; what a lease allows is 20 s, and 30 s more (the fault table).
const ENDS_WITHIN: Duration = Duration::from_secs(50);

const SCRIPT: &str = "echo begin\nhead -c 30M /dev/urandom >/workspace/file\nfor i in $(seq 8); do echo $i; sleep 0.1; done\n(setsid sleep 1000 &)\necho end\n";

/// Numbers of idempotency keys.
static KEYS: AtomicU64 = AtomicU64::new(0);

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(place: &Place) -> Self {
        let mut child = place
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .env("GROUNDWORK_RUNNER_IMAGE", "groundwork/runner:small")
            .stdout(Stdio::piped())
            .stderr(fs::File::create(place.dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        let address = first.trim().strip_prefix("Groundwork is at http://");
        let address = address
            .unwrap_or_else(|| {
                let log = fs::read_to_string(place.dir.path().join("log"));
                panic!("{first:?}: {}", log.unwrap_or_default())
            })
            .to_owned();
        Self { child, address }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        write!(
            stream,
            "{method} /managed-agents/v1{path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\nidempotency-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            format_args!("kill-{}", KEYS.fetch_add(1, Ordering::Relaxed)),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_with(program: &str, args: &[&str], part: &str) -> Vec<String> {
    let output = Command::new(program).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains(part))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_server_killed_at_any_moment_of_a_run_retries_or_ends_it_and_leaves_nothing() {
    let place = Place::new();
    let images = std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .unwrap_or_else(|| "/var/lib/groundwork-test/images".into());
    fs::create_dir_all(place.data().join("images")).unwrap();
    std::os::unix::fs::symlink(
        std::path::Path::new(&images).join("runner"),
        place.data().join("images/runner"),
    )
    .unwrap();
    let made = place.run(&[
        "admin",
        "create-member",
        "--email",
        "a@example.com",
        "--role",
        "admin",
    ]);
    assert!(made.status.success(), "{made:?}");
    let key = place.run(&[
        "admin",
        "create-api-key",
        "--email",
        "a@example.com",
        "--role",
        "admin",
    ]);
    let key = String::from_utf8(key.stdout).unwrap().trim().to_owned();

    let mut server = Server::start(&place);
    let body = json!({
        "name": "killed", "setup": {"script": SCRIPT}, "pvc_size_gi": 1,
        "network_policy": {"version": "v1", "rules": []},
    });
    let environment = server.ask("POST", "/environments", &key, &body)["environment_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let runs = format!("/environments/{environment}/setup-runs");
    let mut ends = Vec::new();
    for moment in MOMENTS {
        let run = server.ask("POST", &runs, &key, &json!({}))["setup_run_id"]
            .as_str()
            .unwrap()
            .to_owned();
        // The moment is what is tried here: there is no condition to wait for.
        std::thread::sleep(Duration::from_millis(moment));
        server.kill();
        server = Server::start(&place);
        let begun = Instant::now();
        let ended = loop {
            let answer = server.ask("GET", &format!("{runs}/{run}"), &key, &Value::Null);
            let status = answer["status"].as_str().unwrap().to_owned();
            if ["succeeded", "failed", "cancelled"].contains(&status.as_str()) {
                break answer;
            }
            assert!(
                begun.elapsed() < ENDS_WITHIN,
                "killed after {moment} ms, still: {answer}"
            );
            std::thread::sleep(Duration::from_millis(100));
        };
        let good = ended["status"] == "succeeded"
            || (ended["status"] == "failed" && ended["failure_code"].is_string());
        assert!(good, "killed after {moment} ms: {ended}");
        ends.push((moment, ended["status"].clone(), begun.elapsed()));
    }
    // The last run's end is reported when its sandbox is gone; the layer it made is the only one that is needed.
    server.kill();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = place.run(&["doctor", "--leftovers"]);
        if found.status.success() {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{}",
            String::from_utf8_lossy(&found.stdout)
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let data = place.data().display().to_string();
    assert_eq!(lines_with("cat", &["/proc/mounts"], &data), [""; 0]);
    assert_eq!(lines_with("losetup", &["-a"], &data), [""; 0]);
    assert_eq!(
        lines_with("ps", &["-eo", "args"], "groundwork-shim:")
            .iter()
            .filter(|line| line.contains(&data))
            .count(),
        0
    );
    let fragments: Vec<String> = fs::read_dir(place.data().join("images/layers"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains('.'))
        .collect();
    assert_eq!(fragments, [""; 0]);
    assert!(
        ends.iter().any(|(_, status, _)| status == "succeeded"),
        "{ends:?}"
    );
}
