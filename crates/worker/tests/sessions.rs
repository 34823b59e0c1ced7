//! What a worker does for sessions.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use domain::{
    ids::{Id, SandboxId},
    network_policy::NetworkPolicy,
    process::{Command, Input},
};
use execution::runtime::RuntimeError;
use testkit::{ECHO_PORT, Scenario, ScriptedRuntime};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};
use wire::session_host::{HostError, Presence, SessionHost, SessionPlan};
use worker::{Sessions, SessionsConfig};

fn plan(number: u128) -> SessionPlan {
    SessionPlan {
        sandbox_id: id(number),
        runner_image: "runner".into(),
        layers: vec!["sha256:layer".into()],
        base_digest: Some("sha256:base".into()),
        cpu_milli: 1_000,
        memory_mib: 512,
        disk_gi: 2,
        sandbox_timeout_seconds: 0,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
    }
}

fn id(number: u128) -> SandboxId {
    Id::from_uuid(uuid::Uuid::from_u128(number))
}

fn sessions(runtime: &Arc<ScriptedRuntime>, capacity: usize) -> Sessions {
    let config = SessionsConfig {
        capacity,
        ..SessionsConfig::new("w1")
    };
    Sessions::new(
        Arc::clone(runtime) as _,
        Arc::new(common::TokioTime::default()),
        config,
    )
}

fn command(words: &[&str]) -> Command {
    Command {
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
        cwd: None,
        env: BTreeMap::new(),
        timeout: None,
        pty: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_started_suspended_resumed_and_destroyed() {
    let runtime = common::scripted([Scenario::passing()]);
    let host = sessions(&runtime, 4);
    assert_eq!(host.name(), "w1");
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Absent);
    let mut wanted = plan(1);
    wanted.sandbox_timeout_seconds = 90;
    host.start(wanted).await.unwrap();
    let spec = runtime.specs().remove(0);
    assert!(spec.keep_disk);
    assert_eq!(spec.life, Some(Duration::from_secs(90)));
    assert_eq!(spec.layers, ["sha256:layer"]);
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Running);
    host.start(plan(1)).await.unwrap();
    assert_eq!(runtime.specs().len(), 1, "it runs already");
    for _ in 0..2 {
        host.suspend(id(1)).await.unwrap();
        assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Kept);
    }
    host.start(plan(1)).await.unwrap();
    assert_eq!(runtime.specs()[1].life, None, "0 is unbounded");
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Running);
    for _ in 0..2 {
        host.destroy(id(1)).await.unwrap();
        assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Absent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_died_is_kept_and_never_running() {
    let runtime = common::scripted([Scenario::passing()]);
    let host = sessions(&runtime, 4);
    host.start(plan(1)).await.unwrap();
    let (_input, given) = mpsc::channel(1);
    let (output, _said) = mpsc::channel(1);
    let (other, mut both) = (host.clone(), tokio::task::JoinSet::new());
    both.spawn(async move {
        other
            .exec(id(1), command(&["sleep", "1000"]), given, output)
            .await
    });
    tokio::task::yield_now().await;
    while !runtime.calls().contains(&"exec".to_owned()) {
        tokio::task::yield_now().await;
    }
    runtime.kill(id(1));
    let ended = both.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(HostError::Gone(_))), "{ended:?}");
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Kept);
    assert!(matches!(host.sample(id(1)).await, Err(HostError::Gone(_))));
    host.start(plan(1)).await.unwrap();
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Running);
}

#[tokio::test(start_paused = true)]
async fn running_sessions_take_places_and_give_them_back() {
    let runtime = common::scripted([Scenario::passing()]);
    let host = sessions(&runtime, 2);
    host.start(plan(1)).await.unwrap();
    host.start(plan(2)).await.unwrap();
    host.start(plan(2)).await.unwrap();
    let refused = host.start(plan(3)).await.unwrap_err();
    assert!(
        matches!(&refused, HostError::Capacity(text) if text.contains("2 of 2 taken")),
        "{refused:?}"
    );
    assert_eq!(host.presence(id(3)).await.unwrap(), Presence::Absent);
    host.suspend(id(1)).await.unwrap();
    host.start(plan(3)).await.unwrap();
    assert!(
        host.start(plan(1)).await.is_err(),
        "a resumed one needs a place too"
    );
    // One that died does not keep its place.
    runtime.kill(id(2));
    host.start(plan(1)).await.unwrap();
    host.destroy(id(3)).await.unwrap();
    host.start(plan(4)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_runtime_refuses_is_told_in_words_for_people() {
    type Expected = fn(&HostError) -> bool;
    let cases: [(RuntimeError, Expected); 7] = [
        (
            RuntimeError::Capacity("full".into()),
            |e| matches!(e, HostError::Capacity(t) if t == "full"),
        ),
        (
            RuntimeError::NoImage("sha256:x".into()),
            |e| matches!(e, HostError::NoImage(t) if t.contains("sha256:x") && t.contains("test the environment again")),
        ),
        (
            RuntimeError::Unsupported("No.".into()),
            |e| matches!(e, HostError::Unsupported(t) if t == "No."),
        ),
        (
            RuntimeError::Mount("/mnt/a is a link.".into()),
            |e| matches!(e, HostError::Unsupported(t) if t == "/mnt/a is a link."),
        ),
        (
            RuntimeError::Lost("gone".into()),
            |e| matches!(e, HostError::Gone(t) if t == "gone"),
        ),
        (RuntimeError::Refused(1), |e| {
            matches!(e, HostError::Refused(1))
        }),
        (RuntimeError::Other("x".into()), |e| {
            matches!(e, HostError::Other(_))
        }),
    ];
    for (error, expected) in cases {
        let runtime = common::scripted([Scenario::unprepared(error)]);
        let host = sessions(&runtime, 1);
        for _ in 0..2 {
            // Also the second time: a failed start gives its place back.
            let refused = host.start(plan(1)).await.unwrap_err();
            assert!(expected(&refused), "{refused:?}");
        }
        assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Absent);
    }
}

#[tokio::test(start_paused = true)]
async fn commands_and_connections_reach_the_sandbox() {
    let runtime = common::scripted([Scenario::passing()]);
    let host = sessions(&runtime, 1);
    host.start(plan(1)).await.unwrap();
    let (input, given) = mpsc::channel(4);
    let (output, mut said) = mpsc::channel(4);
    input.send(Input::Bytes(b"hello".to_vec())).await.unwrap();
    drop(input);
    let end = host
        .exec(id(1), command(&["cat"]), given, output)
        .await
        .unwrap();
    assert_eq!(end.exit_code, 0);
    assert_eq!(said.recv().await.unwrap().bytes, b"hello");
    assert!(host.sample(id(1)).await.unwrap().memory_limit > 0);
    let mut tunnel = host.connect(id(1), ECHO_PORT).await.unwrap();
    tunnel.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    tunnel.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
    assert_eq!(
        host.connect(id(1), 8).await.err(),
        Some(HostError::Refused(8))
    );
    let elsewhere = host.connect(id(2), ECHO_PORT).await.err();
    assert!(
        matches!(elsewhere, Some(HostError::Gone(_))),
        "{elsewhere:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_no_half_sandbox() {
    let runtime = common::scripted([Scenario::passing()]);
    let host = sessions(&runtime, 1);
    let other = host.clone();
    let starting = tokio::spawn(async move { other.start(plan(1)).await });
    starting.abort();
    let _ = starting.await;
    host.destroy(id(1)).await.unwrap();
    assert_eq!(host.presence(id(1)).await.unwrap(), Presence::Absent);
    assert_eq!(runtime.living(), 0);
}
