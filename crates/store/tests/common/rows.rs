//! Rows to store, numbered so that every one is different and the same number is always the same row.

use control::ports::{Effects, rows::*};
use domain::{
    environment::Definition,
    fingerprint::Fingerprint,
    ids::*,
    roles::Role,
    setup_run::{HintCode, Kind, LogLine, Phase, RunState, Stream},
    timestamp::Timestamp,
    verification::{SetupImage, Verification},
};
use serde_json::json;
use uuid::Uuid;

pub fn id<K>(number: u64) -> Id<K> {
    Id::from_uuid(Uuid::from_u128(
        0x019a_0000_0000_7000_8000_0000_0000_0000 | u128::from(number),
    ))
}

/// Seconds after some moment.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(1_789_646_651_123_456).plus_seconds(seconds)
}

pub fn organization(number: u64) -> OrganizationRow {
    OrganizationRow {
        organization_id: id(number),
        name: format!("Organization {number} — Ünïcode 🧱"),
        created_at: at(0),
    }
}

pub fn user(org: u64, number: u64, role: Role) -> UserRow {
    UserRow {
        user_id: id(number),
        organization_id: id(org),
        email: format!("member{number}@example.com"),
        display_name: format!("Member {number}"),
        role,
        password_hash: Some("$argon2id$…".to_owned()),
        session_epoch: 1,
        created_at: at(i64::try_from(number).unwrap()),
        removed_at: None,
    }
}

pub fn definition(number: u64) -> Definition {
    let value = json!({
        "name": format!("Environment {number}"),
        "description": "two\nlines, a tab\t and U+0000: \u{0}",
        "metadata": {"nested": {"list": [1, 2.5, null, "x"]}, "big": 9_007_199_254_740_993_i64},
        "provider": "runs",
        "image": "groundwork/runner:full",
        "setup": {"script": "echo hi\n", "timeout_seconds": 60},
        "network_policy": serde_json::to_value(domain::network_policy::NetworkPolicy::no_access()).unwrap(),
        "env_vars": {"TOKEN": "väl=ue", "A": ""},
    });
    serde_json::from_value(value).unwrap()
}

pub fn environment(org: u64, number: u64) -> EnvironmentRow {
    let definition = definition(number);
    EnvironmentRow {
        organization_id: id(org),
        environment_id: id(number),
        version: 1,
        revision: 1,
        secret_hashes: std::collections::BTreeMap::from([("TOKEN".to_owned(), "hash".to_owned())]),
        verification: Verification::created(&definition),
        definition,
        setup_updated_by: None,
        setup_updated_at: Some(at(1)),
        created_at: at(i64::try_from(number).unwrap()),
        updated_at: at(2),
    }
}

pub fn image(number: u64) -> SetupImage {
    SetupImage {
        image_id: format!("image-{number}"),
        compute_id: "compute".to_owned(),
        setup_run_id: id(number),
        image: format!("groundwork/setup-{number}@sha256:{number:064}"),
        base_image_digest: "sha256:runner".to_owned(),
        fingerprint: Fingerprint("sha256:00".to_owned()),
        runner_image: "groundwork/runner:full".to_owned(),
        generation: 1,
        size_bytes: 7,
        captured_at: at(5),
        usable: true,
        warmup: None,
        warmup_message: None,
    }
}

pub fn run(environment: &EnvironmentRow, number: u64, by: UserId) -> SetupRunRow {
    SetupRunRow {
        organization_id: environment.organization_id,
        environment_id: environment.environment_id,
        setup_run_id: id(number),
        kind: Kind::Manual,
        state: RunState::queued(),
        version: 1,
        requested_by: by,
        session_id: None,
        definition: environment.definition.clone(),
        fingerprint: Fingerprint("sha256:00".to_owned()),
        record: RunRecord {
            message: "Waiting for a worker.".to_owned(),
            hint_code: Some(HintCode::EgressBlocked),
            exit_code: Some(-1),
            phases: vec![(Phase::Provision, at(3))],
            ..RunRecord::default()
        },
        worker_id: None,
        log: LogCounters::default(),
        created_at: at(i64::try_from(number).unwrap()),
        started_at: None,
        finished_at: None,
    }
}

pub fn line(seq: u64, text: &str) -> LogLine {
    LogLine {
        seq,
        stream: Stream::ALL[usize::try_from(seq).unwrap() % 4],
        line: seq.is_multiple_of(3).then_some(u32::try_from(seq).unwrap()),
        text: text.to_owned(),
        at: at(i64::try_from(seq).unwrap()),
    }
}

pub fn system(text: &str) -> LogLine {
    LogLine {
        stream: Stream::System,
        ..line(0, text)
    }
}

pub fn worker(number: u64, name: &str) -> WorkerRow {
    WorkerRow {
        worker_id: id(number),
        name: name.to_owned(),
        runtime: "oci".to_owned(),
        version: "0.1.0".to_owned(),
        capacity: 4,
        session_slots: 32,
        runner_image: Some(("groundwork/runner:full".to_owned(), "sha256:11".to_owned())),
        registered_at: at(0),
        seen_at: at(0),
    }
}

pub fn audit(org: u64, number: u64) -> AuditRow {
    AuditRow {
        audit_id: id(number),
        organization_id: id(org),
        at: at(i64::try_from(number).unwrap()),
        user_id: None,
        actor: "cli".to_owned(),
        source: Some("192.0.2.1".to_owned()),
        action: "environment.update".to_owned(),
        subject: format!("subject {number}"),
        detail: json!({"before": null, "after": ["x"]}),
    }
}

pub fn invitation(org: u64, number: u64, by: UserId) -> InvitationRow {
    InvitationRow {
        invitation_id: id(number),
        organization_id: id(org),
        email: format!("invited{number}@example.com"),
        role: Role::Developer,
        token_hash: format!("hash{number}"),
        invited_by: by,
        created_at: at(i64::try_from(number).unwrap()),
        expires_at: at(10_000),
        closed_at: None,
    }
}

pub fn api_key(org: u64, number: u64, owner: UserId) -> ApiKeyRow {
    ApiKeyRow {
        api_key_id: id(number),
        organization_id: id(org),
        user_id: owner,
        name: format!("key {number}"),
        role: Role::User,
        secret_hash: format!("secret{number}"),
        last_four: "abcd".to_owned(),
        created_at: at(i64::try_from(number).unwrap()),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    }
}

pub fn none() -> Effects {
    Effects::default()
}

pub fn audited(org: u64, number: u64) -> Effects {
    Effects {
        audit: vec![audit(org, number)],
        ..Effects::default()
    }
}
