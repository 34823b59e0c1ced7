//! The state machine of sessions: every state with every command, and what no sequence of commands can do
//! (spec 4-execution, *Sessions*); and from which environments one starts (spec 1-domain, *Usable*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use domain::{
    fingerprint,
    ids::SetupRunId,
    session::{Barred, Command, Refusal, SessionState, Status, Wish, startable},
    setup_run::Kind,
    verification::{RunEnd, RunSummary, SetupImage, Usability, Verification},
};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

const COMMANDS: [Command; 10] = [
    Command::Started,
    Command::NotStarted { kept: false },
    Command::NotStarted { kept: true },
    Command::RequestStop,
    Command::Suspended,
    Command::Lost { kept: false },
    Command::Lost { kept: true },
    Command::Resume,
    Command::RequestDelete,
    Command::Destroyed,
];

fn state(status: Status, wish: Option<Wish>) -> SessionState {
    SessionState { status, wish }
}

fn show(result: Result<SessionState, Refusal>) -> String {
    match result {
        Ok(SessionState { status, wish: None }) => status.to_string(),
        Ok(SessionState {
            status,
            wish: Some(wish),
        }) => format!("{status}+{wish}"),
        Err(Refusal::Illegal(_)) => "-".to_owned(),
        Err(Refusal::Pending(wish)) => format!("pending {wish}"),
    }
}

#[test]
fn every_state_with_every_command() {
    use Status::{Deleted, Failed, Provisioning, Running, Stopped};
    use Wish::{Delete, Stop};
    // Started, not started (no disk, disk), stop, suspended, lost (no disk, disk), resume, delete, destroyed.
    let table: &[(Status, Option<Wish>, [&str; 10])] = &[
        (
            Provisioning,
            None,
            [
                "running",
                "failed",
                "stopped",
                "provisioning+stop",
                "stopped",
                "failed",
                "stopped",
                "provisioning",
                "provisioning+delete",
                "-",
            ],
        ),
        (
            Provisioning,
            Some(Stop),
            [
                "running+stop",
                "failed",
                "stopped",
                "provisioning+stop",
                "stopped",
                "failed",
                "stopped",
                "pending stop",
                "provisioning+delete",
                "-",
            ],
        ),
        (
            Provisioning,
            Some(Delete),
            [
                "running+delete",
                "failed+delete",
                "stopped+delete",
                "provisioning+delete",
                "stopped+delete",
                "failed+delete",
                "stopped+delete",
                "pending delete",
                "provisioning+delete",
                "deleted",
            ],
        ),
        (
            Running,
            None,
            [
                "-",
                "-",
                "-",
                "running+stop",
                "stopped",
                "failed",
                "stopped",
                "running",
                "running+delete",
                "-",
            ],
        ),
        (
            Running,
            Some(Stop),
            [
                "-",
                "-",
                "-",
                "running+stop",
                "stopped",
                "failed",
                "stopped",
                "pending stop",
                "running+delete",
                "-",
            ],
        ),
        (
            Running,
            Some(Delete),
            [
                "-",
                "-",
                "-",
                "running+delete",
                "stopped+delete",
                "failed+delete",
                "stopped+delete",
                "pending delete",
                "running+delete",
                "deleted",
            ],
        ),
        (
            Stopped,
            None,
            [
                "-",
                "-",
                "-",
                "stopped",
                "-",
                "failed",
                "-",
                "provisioning",
                "stopped+delete",
                "-",
            ],
        ),
        (
            Stopped,
            Some(Delete),
            [
                "-",
                "-",
                "-",
                "stopped+delete",
                "-",
                "failed+delete",
                "-",
                "pending delete",
                "stopped+delete",
                "deleted",
            ],
        ),
        (
            Failed,
            None,
            ["-", "-", "-", "-", "-", "-", "-", "-", "failed+delete", "-"],
        ),
        (
            Failed,
            Some(Delete),
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "failed+delete",
                "deleted",
            ],
        ),
        (
            Deleted,
            None,
            ["-", "-", "-", "-", "-", "-", "-", "-", "deleted", "deleted"],
        ),
    ];
    for (status, wish, expected) in table {
        for (command, expected) in COMMANDS.into_iter().zip(expected) {
            assert_eq!(
                show(state(*status, *wish).decide(command)),
                *expected,
                "{status} {wish:?} {command:?}"
            );
        }
    }
}

#[test]
fn commands_run_only_while_it_runs_and_nobody_wants_it_to_end() {
    for status in Status::ALL {
        for wish in [None, Some(Wish::Stop), Some(Wish::Delete)] {
            let usable = state(*status, wish).usable().is_ok();
            assert_eq!(usable, *status == Status::Running && wish.is_none());
        }
    }
}

proptest! {
    #[test]
    fn no_sequence_brings_a_deleted_one_back_loses_a_deletion_or_resumes_a_failed_one(
        picks in prop::collection::vec(0..COMMANDS.len(), 0..40)
    ) {
        let mut now = SessionState::admitted();
        for pick in picks {
            let command = COMMANDS[pick];
            let Ok(next) = now.decide(command) else { continue };
            if now.status == Status::Deleted {
                prop_assert_eq!(next, now);
            }
            if now.wish == Some(Wish::Delete) {
                prop_assert!(next.wish == Some(Wish::Delete) || next.status == Status::Deleted);
            }
            if now.status == Status::Failed {
                prop_assert!(!next.status.is_live());
            }
            // Whatever is not live has nothing to stop.
            if !next.status.is_live() {
                prop_assert!(next.wish != Some(Wish::Stop));
            }
            // A deletion is done only when somebody wanted it.
            if next.status == Status::Deleted && now.status != Status::Deleted {
                prop_assert_eq!(now.wish, Some(Wish::Delete));
            }
            now = next;
        }
    }
}

fn run(number: u128) -> SetupRunId {
    SetupRunId::from_uuid(Uuid::from_u128(number))
}

fn verified(definition: &domain::environment::Definition, usable: bool) -> Verification {
    let image: SetupImage = serde_json::from_value(json!({
        "imageId": "img", "computeId": "c", "setupRunId": run(1).to_string(), "image": "x@sha256:1",
        "baseImageDigest": "sha256:0", "fingerprint": fingerprint::of(definition), "runnerImage": "runner:1",
        "generation": 1, "sizeBytes": 1, "capturedAt": "2026-01-01T00:00:00Z", "usable": usable,
    }))
    .unwrap();
    let summary: RunSummary = serde_json::from_value(json!({
        "setup_run_id": run(1).to_string(), "status": "succeeded", "phase": "cleanup",
    }))
    .unwrap();
    Verification::created(definition).run_finished(
        &RunEnd {
            kind: Kind::Manual,
            summary,
            fingerprint: fingerprint::of(definition),
            at: image.captured_at,
            requested_by: domain::ids::UserId::from_uuid(Uuid::from_u128(1)),
            image: Some(image),
            image_capture: None,
        },
        true,
    )
}

#[test]
fn a_session_starts_from_a_usable_environment_alone() {
    let plain = common::definition(json!({}));
    let scripted = common::with_script();
    let current = fingerprint::of(&scripted);
    let never = Verification::created(&scripted);
    let fine = verified(&scripted, true);
    let edited = common::edit(&scripted, json!({"env_vars": {"A": "1"}}));
    let needs_run = Err(Barred::Verdict(Usability::NeedsRun));
    for (name, definition, verdict, expected) in [
        ("no script", &plain, Verification::created(&plain), Ok(())),
        ("never tested", &scripted, never.clone(), needs_run),
        (
            "testing",
            &scripted,
            never.run_started(run(2), &current),
            Err(Barred::Verdict(Usability::WaitFor(run(2)))),
        ),
        ("verified", &scripted, fine.clone(), Ok(())),
        (
            "re-testing",
            &scripted,
            fine.run_started(run(2), &current),
            Ok(()),
        ),
        ("stale", &edited, fine.clone(), needs_run),
        ("no image", &scripted, verified(&scripted, false), needs_run),
    ] {
        let current = fingerprint::of(definition);
        assert_eq!(
            startable(definition, &verdict, &current),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_privileged_environment_with_a_policy_starts_none() {
    let mut definition = common::definition(json!({}));
    definition.privileged = true;
    definition.network_policy = domain::network_policy::NetworkPolicy::no_access();
    let verdict = Verification::created(&definition);
    assert_eq!(
        startable(&definition, &verdict, &fingerprint::of(&definition)),
        Err(Barred::PrivilegedWithPolicy)
    );
    definition.network_policy = domain::network_policy::NetworkPolicy::Unrestricted;
    let current = fingerprint::of(&definition);
    assert_eq!(startable(&definition, &verdict, &current), Ok(()));
}
