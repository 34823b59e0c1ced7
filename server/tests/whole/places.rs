//! Places for sessions on a worker: a setting, told and kept to.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    place::Place,
    running::{Running, text},
};

fn settled(server: &Running, key: &str, session: &str) -> Value {
    let path = format!("/groundwork/v1/sessions/{session}");
    let begun = Instant::now();
    loop {
        let answer = server.ask("GET", &path, key, &Value::Null);
        if answer["status"] != "provisioning" {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn no_more_sessions_run_at_once_than_the_settings_give_places() {
    let place = Place::new().with_images();
    place.configure("[worker]\nname = \"one\"\nsession_slots = 1\n");
    let key = place.admin_key();
    let server = Running::start(&place, &[]);
    let body = json!({"name": "small", "setup": {"script": "true\n"}, "pvc_size_gi": 1});
    let made = server.ask("POST", "/environments", &key, &body);
    let environment = text(&made, "environment_id");
    let runs = format!("/environments/{environment}/setup-runs");
    let run = text(&server.ask("POST", &runs, &key, &json!({})), "setup_run_id");
    let ended = server.ended(&key, &environment, &run, Duration::from_secs(60));
    assert_eq!(ended["status"], "succeeded", "{ended}");

    let start = || {
        let body = json!({"environment_id": environment});
        let made = server.ask("POST", "/groundwork/v1/sessions", &key, &body);
        settled(&server, &key, &text(&made, "session_id"))
    };
    let first = start();
    assert_eq!(first["status"], "running", "{first}");
    let second = start();
    assert_eq!(second["status"], "failed", "{second}");
    assert!(second.to_string().contains("1 of 1 taken"), "{second}");
    let workers = server.ask("GET", "/groundwork/v1/workers", &key, &Value::Null);
    let worker = &workers["items"][0];
    assert_eq!(
        (&worker["session_slots"], &worker["sessions"]),
        (&json!(1), &json!(1)),
        "{workers}"
    );

    let path = format!(
        "/groundwork/v1/sessions/{}/stop",
        text(&first, "session_id")
    );
    server.ask("POST", &path, &key, &json!({}));
    let begun = Instant::now();
    while settled(&server, &key, &text(&first, "session_id"))["status"] != "stopped" {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it does not stop"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let third = start();
    assert_eq!(third["status"], "running", "{third}");
}
