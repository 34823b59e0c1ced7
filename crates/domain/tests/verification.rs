//! The verdict: every event of the table, staleness, usability and the *Setup* column (spec 1-domain, *Verification*).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{definition, edit, with_script};
use domain::{
    environment::Definition,
    fingerprint::{self, Fingerprint},
    ids::{SetupRunId, UserId},
    setup_run::{Kind, Phase, Status},
    timestamp::Timestamp,
    verification::{
        ImageLoss, RunEnd, RunSummary, SetupBadge, SetupImage, Usability, Verification,
        VerificationStatus, Warmup,
    },
};
use serde_json::json;
use uuid::Uuid;

fn run(n: u128) -> SetupRunId {
    SetupRunId::from_uuid(Uuid::from_u128(n))
}

fn image(usable: bool, fingerprint: &Fingerprint) -> SetupImage {
    SetupImage {
        image_id: "img".to_owned(),
        compute_id: "c".to_owned(),
        setup_run_id: run(1),
        image: "setup@sha256:0".to_owned(),
        base_image_digest: "sha256:1".to_owned(),
        fingerprint: fingerprint.clone(),
        runner_image: "runner:1".to_owned(),
        generation: 1,
        size_bytes: 1,
        captured_at: Timestamp::from_micros(1),
        usable,
        warmup: None,
        warmup_message: None,
    }
}

fn end(n: u128, status: Status, tested: &Definition) -> RunEnd {
    let fingerprint = fingerprint::of(tested);
    RunEnd {
        kind: Kind::Manual,
        summary: RunSummary {
            setup_run_id: run(n),
            status,
            phase: Phase::Setup,
            message: None,
            exit_code: None,
            failed_line: None,
            failed_command: None,
            hint_code: None,
            hint: None,
            stderr_tail: None,
            duration_ms: None,
        },
        image: Some(image(true, &fingerprint)),
        fingerprint,
        at: Timestamp::from_micros(5),
        requested_by: UserId::from_uuid(Uuid::from_u128(9)),
        image_capture: None,
    }
}

fn verified(tested: &Definition) -> Verification {
    Verification::created(tested)
        .run_started(run(1), &fingerprint::of(tested))
        .run_finished(&end(1, Status::Succeeded, tested), true)
}

fn failed(tested: &Definition) -> Verification {
    Verification::created(tested)
        .run_started(run(1), &fingerprint::of(tested))
        .run_finished(&end(1, Status::Failed, tested), true)
}

#[test]
fn created_and_gaining_or_losing_the_script() {
    let without = definition(json!({}));
    let with = with_script();
    assert_eq!(
        Verification::created(&without).status,
        VerificationStatus::NotApplicable
    );
    assert_eq!(
        Verification::created(&with).status,
        VerificationStatus::Never
    );
    assert_eq!(
        verified(&with).edited(&with, &without).status,
        VerificationStatus::NotApplicable
    );
    assert_eq!(
        Verification::created(&without)
            .edited(&without, &with)
            .status,
        VerificationStatus::Never
    );
    // A script that comes back is not verified by what was verified before it went.
    let back = verified(&with)
        .edited(&with, &without)
        .edited(&without, &with);
    assert_eq!(
        (back.status, back.image.is_some()),
        (VerificationStatus::Never, false)
    );
}

#[test]
fn an_edit_makes_the_verdict_stale_and_undoing_it_makes_it_current() {
    let before = with_script();
    for verdict in [verified(&before), failed(&before)] {
        let after = edit(&before, json!({"pvc_size_gi": 20}));
        let stale = verdict.edited(&before, &after);
        assert_eq!(stale.status, verdict.status);
        assert!(stale.is_stale(&fingerprint::of(&after)));
        let undone = edit(&after, json!({"pvc_size_gi": 0}));
        assert!(
            !stale
                .edited(&after, &undone)
                .is_stale(&fingerprint::of(&undone))
        );
    }
}

#[test]
fn a_run_starts() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let again = verified(&d).run_started(run(2), &current);
    assert_eq!(again.status, VerificationStatus::Verified);
    assert_eq!(again.badge(&current), SetupBadge::Retesting);
    assert_eq!(again.usability(&current), Usability::Usable);
    let other = edit(&d, json!({"pvc_size_gi": 20}));
    for verdict in [Verification::created(&d), failed(&d), verified(&other)] {
        let running = verdict.run_started(run(2), &current);
        assert_eq!(running.status, VerificationStatus::Running);
        assert!(!running.is_stale(&current));
        assert_eq!(running.active_setup_run_id, Some(run(2)));
        assert_eq!(running.usability(&current), Usability::WaitFor(run(2)));
        assert_eq!(running.badge(&current), SetupBadge::Testing);
    }
}

#[test]
fn a_run_ends() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let passed = verified(&d);
    assert_eq!(passed.status, VerificationStatus::Verified);
    assert_eq!(
        passed.verified_by_user_id,
        Some(UserId::from_uuid(Uuid::from_u128(9)))
    );
    assert_eq!(passed.active_setup_run_id, None);
    let again = passed.run_started(run(2), &current);
    let bad = again.run_finished(&end(2, Status::Failed, &d), true);
    assert_eq!(
        (bad.status, bad.setup_run_id),
        (VerificationStatus::Failed, Some(run(2)))
    );
    assert!(bad.image.is_none() && bad.verified_by_user_id.is_none());
    assert_eq!(again.run_cancelled(), passed);
    let first = Verification::created(&d).run_started(run(1), &current);
    assert_eq!(first.run_cancelled(), Verification::created(&d));
    // An edit meanwhile leaves the verdict stale at once.
    let edited = edit(&d, json!({"pvc_size_gi": 20}));
    let late = first
        .edited(&d, &edited)
        .run_finished(&end(1, Status::Succeeded, &d), true);
    assert_eq!(late.status, VerificationStatus::Verified);
    assert!(late.is_stale(&fingerprint::of(&edited)));
    // The script went meanwhile.
    let without = edit(&d, json!({"setup": {}}));
    let gone = first
        .edited(&d, &without)
        .run_finished(&end(1, Status::Failed, &d), false);
    assert_eq!(gone, Verification::created(&without));
}

#[test]
fn a_runner_refresh_that_fails_leaves_the_verdict() {
    let d = with_script();
    let before = verified(&d);
    let refreshing = before.run_started(run(2), &fingerprint::of(&d));
    let refresh = |status| RunEnd {
        kind: Kind::RunnerRefresh,
        ..end(2, status, &d)
    };
    assert_eq!(
        refreshing.run_finished(&refresh(Status::Failed), true),
        before
    );
    assert_eq!(
        refreshing
            .run_finished(&refresh(Status::Succeeded), true)
            .setup_run_id,
        Some(run(2))
    );
}

#[test]
fn usable_and_the_setup_column() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let other = fingerprint::of(&edit(&d, json!({"pvc_size_gi": 20})));
    let without_image = Verification {
        image: None,
        ..verified(&d)
    };
    let evicted = Verification {
        image: Some(image(false, &current)),
        ..verified(&d)
    };
    for (verdict, today, badge, label, usable) in [
        (
            Verification::created(&definition(json!({}))),
            &current,
            SetupBadge::Ready,
            "Ready",
            Usability::Usable,
        ),
        (
            Verification::created(&d),
            &current,
            SetupBadge::NotTested,
            "Not tested",
            Usability::NeedsRun,
        ),
        (
            verified(&d),
            &current,
            SetupBadge::Verified,
            "Verified",
            Usability::Usable,
        ),
        (
            verified(&d),
            &other,
            SetupBadge::Stale,
            "Stale",
            Usability::NeedsRun,
        ),
        (
            failed(&d),
            &current,
            SetupBadge::Failed,
            "Failed",
            Usability::NeedsRun,
        ),
        (
            failed(&d),
            &other,
            SetupBadge::Stale,
            "Stale",
            Usability::NeedsRun,
        ),
        (
            without_image,
            &current,
            SetupBadge::NoImage,
            "No image",
            Usability::NeedsRun,
        ),
        (
            evicted,
            &current,
            SetupBadge::NoImage,
            "No image",
            Usability::NeedsRun,
        ),
        (
            verified(&d).run_started(run(2), &current),
            &current,
            SetupBadge::Retesting,
            "Re-testing",
            Usability::Usable,
        ),
        (
            Verification::created(&d).run_started(run(2), &current),
            &current,
            SetupBadge::Testing,
            "Testing",
            Usability::WaitFor(run(2)),
        ),
    ] {
        assert_eq!(verdict.badge(today), badge);
        assert_eq!(badge.label(), label);
        assert_eq!(verdict.usability(today), usable, "{label}");
    }
}

#[test]
fn an_image_that_is_gone_leaves_the_verdict_and_says_what_to_do() {
    let d = with_script();
    let current = fingerprint::of(&d);
    let verdict = verified(&d);
    assert_eq!(verdict.image_lost("sha256:other", ImageLoss::Evicted), None);
    for loss in [ImageLoss::Evicted, ImageLoss::Missing] {
        let gone = verdict.image_lost("sha256:0", loss).unwrap();
        assert_eq!(gone.status, VerificationStatus::Verified);
        assert_eq!(gone.badge(&current), SetupBadge::NoImage);
        assert_eq!(gone.usability(&current), Usability::NeedsRun);
        let image = gone.image.as_ref().unwrap();
        assert_eq!(image.warmup, Some(Warmup::Unavailable));
        assert_eq!(image.warmup_message.as_deref(), Some(loss.sentence()));
        assert_eq!(gone.image_lost("sha256:0", loss), None, "told once");
    }
    assert_eq!(
        Verification::created(&d).image_lost("sha256:0", ImageLoss::Missing),
        None
    );
}

#[test]
fn a_verified_image_on_another_runner_image_needs_a_refresh_and_nothing_else_does() {
    let d = with_script();
    let verdict = verified(&d);
    assert!(!verdict.needs_refresh("sha256:1"));
    assert!(verdict.needs_refresh("sha256:2"));
    for other in [
        Verification::created(&d),
        Verification::created(&definition(json!({}))),
        failed(&d),
        verdict.image_lost("sha256:0", ImageLoss::Missing).unwrap(),
    ] {
        assert!(!other.needs_refresh("sha256:2"), "{other:?}");
    }
}
