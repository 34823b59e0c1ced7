//! `kill -9` of the server at any moment of a run (spec 4-execution, *Faults*): the built program, real sandboxes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../startup/place.rs"]
#[allow(dead_code, reason = "shared with the tests of starting")]
mod place;

#[path = "../startup/running.rs"]
#[allow(dead_code, reason = "shared with the tests of the whole")]
mod running;

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use place::Place;
use running::{Running, text};
use serde_json::json;

/// Moments of the kill after the run was admitted, in milliseconds: before it is claimed, while its sandbox is made, in
/// the script, while it is saved, about its end.
const MOMENTS: [u64; 6] = [0, 90, 350, 900, 1_700, 2_600];
/// A restarted worker gives up what it held at once; what a lease allows is 20 s, and 30 s more (the fault table).
const ENDS_WITHIN: Duration = Duration::from_secs(50);

const SCRIPT: &str = "echo begin\nhead -c 30M /dev/urandom >/workspace/file\nfor i in $(seq 8); do echo $i; sleep 0.1; done\n(setsid sleep 1000 &)\necho end\n";

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
    let place = Place::new().with_images();
    let key = place.admin_key();
    let mut server = Running::start(&place, &[]);
    let body = json!({
        "name": "killed", "setup": {"script": SCRIPT}, "pvc_size_gi": 1,
        "network_policy": {"version": "v1", "rules": []},
    });
    let made = server.ask("POST", "/environments", &key, &body);
    let environment = text(&made, "environment_id");
    let runs = format!("/environments/{environment}/setup-runs");
    let mut ends = Vec::new();
    for moment in MOMENTS {
        let started = server.ask("POST", &runs, &key, &json!({}));
        let run = text(&started, "setup_run_id");
        // The moment is what is tried here: there is no condition to wait for.
        std::thread::sleep(Duration::from_millis(moment));
        server.kill();
        server = Running::start(&place, &[]);
        let begun = Instant::now();
        let ended = server.ended(&key, &environment, &run, ENDS_WITHIN);
        let good = ended["status"] == "succeeded"
            || (ended["status"] == "failed" && ended["failure_code"].is_string());
        assert!(good, "killed after {moment} ms: {ended}");
        ends.push((moment, ended["status"].clone(), begun.elapsed()));
    }
    // The last run's end is reported when its sandbox is gone; the layer it made is the only one that is needed.
    server.kill();
    let deadline = Instant::now() + Duration::from_secs(60);
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
