//! Many sandboxes at once: eight on a machine of two cores.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Barrier, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use execution::images::{ImageStore, RunnerImage, Variant};
use serde_json::{Value, json};

use crate::{
    place::Place,
    running::{Running, images_dir, text},
    street::{SETTINGS, Street, on_a_street, run},
};

/// Runs of one organization that may be in flight.
const RUNS: usize = 4;
const SESSIONS: usize = 4;
const ALL: usize = RUNS + SESSIONS;
/// These tests go one after the other: each keeps eight disks of 1 GiB.
static DISKS: Mutex<()> = Mutex::new(());

/// In each sandbox: waits there until the others have come to the same place.
const MEET: &str = "test \"$(curl -fsS --max-time 90 http://meeting.example/word)\" = met";

/// Where they meet.
const MEETS: &str = "meeting.example";

/// Opens when all have come; after a while it lets through whoever waits, so that a failure is seen as one.
#[derive(Default)]
struct Meeting {
    /// Who has come; nothing while nobody is awaited and all go through.
    come: Mutex<Option<usize>>,
    all: Condvar,
}

impl Meeting {
    /// At `meeting.example`, where a word is to be had by those who have met.
    fn at(street: &Street) -> Arc<Self> {
        let meeting = Arc::new(Self::default());
        let gate = meeting.clone();
        street.gate(MEETS, move || gate.come());
        street.put(MEETS, "word", "met\n");
        meeting
    }

    /// From now on all are waited for.
    fn call(&self) {
        *self.come.lock().unwrap() = Some(0);
    }

    fn come(&self) {
        let mut come = self.come.lock().unwrap();
        let Some(before) = *come else { return };
        *come = Some(before + 1);
        self.all.notify_all();
        let patience = Duration::from_secs(60);
        let missing = |come: &mut Option<usize>| come.is_some_and(|come| come < ALL);
        let waiting = self.all.wait_timeout_while(come, patience, missing);
        let (come, waited) = waiting.unwrap();
        drop(come);
        assert!(!waited.timed_out(), "the others do not come");
    }

    /// How many have come since they were called.
    fn met(&self) -> usize {
        self.come.lock().unwrap().unwrap_or_default()
    }
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

/// Starts a session and waits until it has left `provisioning`; its path and how it is then.
fn session(server: &Running, key: &str, environment: &str) -> (String, Value) {
    let body = json!({"environment_id": environment});
    let made = server.ask("POST", "/groundwork/v1/sessions", key, &body);
    let path = format!("/groundwork/v1/sessions/{}", text(&made, "session_id"));
    let begun = Instant::now();
    loop {
        let answer = server.ask("GET", &path, key, &Value::Null);
        if answer["status"] != "provisioning" {
            return (path, answer);
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Gives a data directory a runner image with this text in a file of it, in the place of the one before. Its other
/// files are the tests' runner image's own.
fn runner_image(images: &Path, text: &str) {
    let from = images.join("runner/small.partial");
    fs::create_dir_all(&from).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-al")
        .arg(images_dir().join("runner/small/rootfs"));
    run(copy.arg(from.join("rootfs")));
    fs::write(from.join("rootfs/etc/which"), text).unwrap();
    let image = RunnerImage {
        reference: "groundwork/runner:small".to_owned(),
        digest: format!("sha256:{}", text.repeat(64)),
        size_bytes: 1,
        key: text.to_owned(),
    };
    let store = ImageStore::new(images);
    store.adopt_runner(Variant::Small, &from, &image).unwrap();
}

#[test]
fn four_runs_and_four_sessions_are_under_way_at_the_same_time_and_all_pass() {
    let _disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    on_a_street(&[MEETS], |street| {
        let meeting = Meeting::at(street);
        meeting.call();
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
                    let (path, _) = session(server, key, ready);
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
        assert_eq!(meeting.met(), ALL);
    });
}

#[test]
fn eight_setup_runs_are_under_way_at_the_same_time_and_all_pass() {
    let _disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    on_a_street(&[MEETS], |street| {
        let meeting = Meeting::at(street);
        // Beside the tests' images, whose files are linked and not copied.
        let images = tempfile::Builder::new()
            .prefix("eight-")
            .tempdir_in(images_dir().parent().unwrap())
            .unwrap();
        runner_image(images.path(), "1");
        let place = Place::new();
        fs::create_dir_all(place.data()).unwrap();
        std::os::unix::fs::symlink(images.path(), place.data().join("images")).unwrap();
        place.configure(SETTINGS);
        place.configure("\n[worker]\ncapacity = 8\n");
        let key = place.admin_key();
        let server = Running::start(&place, &[]);
        let make = |name: &str| -> Vec<String> {
            (0..RUNS)
                .map(|number| environment(&server, &key, &format!("{name} {number}"), MEET))
                .collect()
        };
        let (verified, untested) = (make("verified"), make("untested"));
        for environment in &verified {
            passes(&server, &key, environment);
        }
        server.kill();

        // Four sessions want their environments on the new runner image, and four people test theirs.
        runner_image(images.path(), "2");
        meeting.call();
        let server = Running::start(&place, &[]);
        let begun = Instant::now();
        while !server
            .ask("GET", "/groundwork/v1/workers", &key, &Value::Null)
            .to_string()
            .contains(&"2".repeat(64))
        {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(50));
        }
        let start = Barrier::new(ALL);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let (server, key, start) = (&server, &key, &start);
            for environment in &untested {
                scope.spawn(move || {
                    start.wait();
                    passes(server, key, environment);
                });
            }
            for environment in &verified {
                scope.spawn(move || {
                    start.wait();
                    let (_, session) = session(server, key, environment);
                    assert_eq!(session["status"], "running", "{session}");
                });
            }
        });
        eprintln!(
            "{ALL} setup runs at once, from the first call to the last one's verdict, image and session: {:?}",
            begun.elapsed()
        );
        assert_eq!(meeting.met(), ALL);
        for environment in &verified {
            let path = format!("/environments/{environment}/setup-runs");
            let runs = server.ask("GET", &path, &key, &Value::Null);
            let kinds: Vec<_> = runs["setup_runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| {
                    (
                        run["kind"].as_str().unwrap(),
                        run["status"].as_str().unwrap(),
                    )
                })
                .collect();
            assert_eq!(
                kinds,
                [("runner_refresh", "succeeded"), ("manual", "succeeded")]
            );
        }
    });
}
