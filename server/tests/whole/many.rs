//! Many sandboxes at once: eight on a machine of two cores.

use std::{
    sync::{Barrier, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    place::Place,
    running::{Running, text},
    street::{SETTINGS, on_a_street},
};

/// Runs of one organization that may be in flight.
const RUNS: usize = 4;
const SESSIONS: usize = 4;
const ALL: usize = RUNS + SESSIONS;

/// In each sandbox: waits there until the others have come to the same place.
const MEET: &str = "test \"$(curl -fsS --max-time 90 http://meeting.example/word)\" = met";

/// Opens when all have come; after a while it lets through whoever waits, so that a failure is seen as one.
struct Meeting {
    come: Mutex<usize>,
    all: Condvar,
}

fn environment(server: &Running, key: &str, name: &str, script: &str) -> String {
    let body = json!({
        "name": name, "setup": {"script": script}, "pvc_size_gi": 1,
        "network_policy": {"version": "v1", "rules": [
            {"match": {"host_glob": "meeting.example"}, "action": {"type": "allow"}},
        ]},
    });
    let made = server.ask("POST", "/environments", key, &body);
    text(&made, "environment_id")
}

fn passes(server: &Running, key: &str, environment: &str) {
    let path = format!("/environments/{environment}/setup-runs");
    let run = text(&server.ask("POST", &path, key, &json!({})), "setup_run_id");
    let ended = server.ended(key, environment, &run, Duration::from_secs(120));
    assert_eq!(ended["status"], "succeeded", "{ended}");
}

#[test]
fn four_runs_and_four_sessions_are_under_way_at_the_same_time_and_all_pass() {
    on_a_street(&["meeting.example"], |street| {
        let meeting = Meeting {
            come: Mutex::new(0),
            all: Condvar::new(),
        };
        street.gate("meeting.example", move || {
            let mut come = meeting.come.lock().unwrap();
            *come += 1;
            meeting.all.notify_all();
            let patience = Duration::from_secs(60);
            let waiting = meeting
                .all
                .wait_timeout_while(come, patience, |come| *come < ALL);
            let (come, waited) = waiting.unwrap();
            drop(come);
            assert!(!waited.timed_out(), "the others do not come");
        });
        street.put("meeting.example", "word", "met\n");
        let place = Place::new().with_images();
        place.configure(SETTINGS);
        let key = place.admin_key();
        let server = Running::start(&place, &[]);
        let ready = environment(&server, &key, "ready", "true\n");
        passes(&server, &key, &ready);
        let environments: Vec<String> = (0..RUNS)
            .map(|number| environment(&server, &key, &format!("one of many {number}"), MEET))
            .collect();
        let start = Barrier::new(ALL);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let (server, key, start, ready) = (&server, &key, &start, &ready);
            for environment in &environments {
                scope.spawn(move || {
                    start.wait();
                    passes(server, key, environment);
                });
            }
            for _ in 0..SESSIONS {
                scope.spawn(move || {
                    start.wait();
                    let body = json!({"environment_id": ready});
                    let made = server.ask("POST", "/groundwork/v1/sessions", key, &body);
                    let path = format!("/groundwork/v1/sessions/{}", text(&made, "session_id"));
                    while server.ask("GET", &path, key, &Value::Null)["status"] == "provisioning" {
                        assert!(begun.elapsed() < Duration::from_secs(60), "{made}");
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    let body = json!({"command": MEET});
                    let done = server.ask("POST", &format!("{path}/exec"), key, &body);
                    assert_eq!(done["exit_code"], 0, "{done}");
                });
            }
        });
        eprintln!(
            "{ALL} sandboxes at once, from the first call to the last one's end: {:?}",
            begun.elapsed()
        );
        assert_eq!(street.asked("meeting.example"), ALL);
    });
}
