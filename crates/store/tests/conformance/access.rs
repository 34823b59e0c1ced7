//! Sign-ins, settings, receipts, audit.

use control::ports::{
    Effects, Receipt, ReceiptClaim, RequestKey, Store, StoreError, Written,
    rows::{AuditFilter, WebSessionRow},
};
use domain::timestamp::Timestamp;

use super::fixture::{add_environment, at_once, bootstrapped};
use crate::common::{Bed, rows};

const LONG_AGO: Timestamp = Timestamp::from_micros(0);

fn key(name: &str) -> RequestKey {
    RequestKey {
        organization_id: rows::id(1),
        key: name.to_owned(),
        request_hash: "hash".to_owned(),
    }
}

fn receipt(name: &str, seconds: i64) -> Receipt {
    Receipt {
        key: key(name),
        status: 201,
        body: "{\"a\":\"ü\"}".to_owned(),
        at: rows::at(seconds),
    }
}

fn with_receipt(receipt: Receipt) -> Effects {
    Effects {
        receipt: Some(receipt),
        ..rows::audited(1, 900)
    }
}

async fn claim(bed: &Bed, key: &RequestKey) -> ReceiptClaim {
    bed.db
        .claim_receipt(key, rows::at(0), LONG_AGO, LONG_AGO)
        .await
        .unwrap()
}

fn replay() -> ReceiptClaim {
    ReceiptClaim::Replay {
        status: 201,
        body: "{\"a\":\"ü\"}".to_owned(),
    }
}

pub async fn the_database_answers(bed: &Bed) {
    bed.db.ping().await.unwrap();
    bed.db.close().await;
    let closed = bed.db.ping().await;
    assert!(
        matches!(closed, Err(StoreError::Unavailable(_))),
        "{closed:?}"
    );
}

pub async fn web_sessions_expire(bed: &Bed) {
    let mut session = WebSessionRow {
        id_hash: "aa".to_owned(),
        data: "{}".to_owned(),
        expires_at: rows::at(10),
    };
    assert_eq!(
        bed.db.create_web_session(&session).await.unwrap(),
        Written::Done
    );
    assert_eq!(
        bed.db.create_web_session(&session).await.unwrap(),
        Written::Stale
    );
    session.data = "{\"user\":1}".to_owned();
    bed.db.save_web_session(&session).await.unwrap();
    let other = WebSessionRow {
        id_hash: "bb".to_owned(),
        expires_at: rows::at(20),
        ..session.clone()
    };
    bed.db.save_web_session(&other).await.unwrap();
    assert_eq!(
        bed.db.web_session("aa", rows::at(9)).await.unwrap(),
        Some(session)
    );
    assert_eq!(bed.db.web_session("aa", rows::at(10)).await.unwrap(), None);
    assert_eq!(
        bed.db
            .delete_expired_web_sessions(rows::at(10))
            .await
            .unwrap(),
        1
    );
    assert_eq!(bed.db.web_session("aa", rows::at(0)).await.unwrap(), None);
    bed.db.delete_web_session("bb").await.unwrap();
    bed.db.delete_web_session("bb").await.unwrap();
    assert_eq!(bed.db.web_session("bb", rows::at(0)).await.unwrap(), None);
}

pub async fn settings_are_set_and_removed(bed: &Bed) {
    assert_eq!(bed.db.setting("token").await.unwrap(), None);
    for value in ["one", "two"] {
        bed.db.set_setting("token", Some(value)).await.unwrap();
        assert_eq!(
            bed.db.setting("token").await.unwrap().as_deref(),
            Some(value)
        );
    }
    bed.db.set_setting("token", None).await.unwrap();
    bed.db.set_setting("token", None).await.unwrap();
    assert_eq!(bed.db.setting("token").await.unwrap(), None);
}

pub async fn a_key_is_claimed_replayed_and_refused(bed: &Bed) {
    bootstrapped(bed).await;
    let other = RequestKey {
        request_hash: "other".to_owned(),
        ..key("a")
    };
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::Claimed);
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::InProgress);
    assert_eq!(claim(bed, &other).await, ReceiptClaim::Conflict);
    assert_eq!(claim(bed, &key("b")).await, ReceiptClaim::Claimed);
    bed.db.release_receipt(&key("a")).await.unwrap();
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::Claimed);
    bed.db
        .insert_environment(&rows::environment(1, 100), with_receipt(receipt("a", 1)))
        .await
        .unwrap();
    assert_eq!(claim(bed, &key("a")).await, replay());
    assert_eq!(claim(bed, &other).await, ReceiptClaim::Conflict);
    bed.db.release_receipt(&key("a")).await.unwrap();
    assert_eq!(
        claim(bed, &key("a")).await,
        replay(),
        "an answer is never let go of"
    );
}

pub async fn racing_claims_of_a_key_have_one_winner(bed: &Bed) {
    bootstrapped(bed).await;
    let claims = at_once(bed, 40, |db, _| async move {
        db.claim_receipt(&key("a"), rows::at(0), LONG_AGO, LONG_AGO)
            .await
            .unwrap()
    })
    .await;
    let won = claims
        .iter()
        .filter(|c| **c == ReceiptClaim::Claimed)
        .count();
    let waiting = claims
        .iter()
        .filter(|c| **c == ReceiptClaim::InProgress)
        .count();
    assert_eq!((won, waiting), (1, 39));
}

pub async fn receipts_and_claims_age(bed: &Bed) {
    bootstrapped(bed).await;
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::Claimed);
    let again = |name: &'static str, receipts: i64, claims: i64| async move {
        bed.db
            .claim_receipt(
                &key(name),
                rows::at(0),
                rows::at(receipts),
                rows::at(claims),
            )
            .await
            .unwrap()
    };
    assert_eq!(again("a", 100, 0).await, ReceiptClaim::InProgress);
    assert_eq!(
        again("a", 0, 1).await,
        ReceiptClaim::Claimed,
        "an old claim is taken over"
    );
    bed.db
        .insert_environment(&rows::environment(1, 100), with_receipt(receipt("a", 5)))
        .await
        .unwrap();
    assert_eq!(again("a", 5, 100).await, replay());
    assert_eq!(
        again("a", 6, 0).await,
        ReceiptClaim::Claimed,
        "an old receipt is forgotten"
    );
    assert_eq!(claim(bed, &key("b")).await, ReceiptClaim::Claimed);
    assert_eq!(bed.db.delete_receipts(rows::at(0)).await.unwrap(), 0);
    assert_eq!(bed.db.delete_receipts(rows::at(1)).await.unwrap(), 2);
    assert_eq!(claim(bed, &key("b")).await, ReceiptClaim::Claimed);
}

pub async fn a_receipt_is_written_with_its_effect_or_not_at_all(bed: &Bed) {
    bootstrapped(bed).await;
    let environment = add_environment(bed, 100).await;
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::Claimed);
    let mut next = environment.clone();
    next.version = 2;
    let stale = bed
        .db
        .update_environment(7, &next, with_receipt(receipt("a", 1)))
        .await;
    assert_eq!(stale.unwrap(), Written::Stale);
    assert_eq!(claim(bed, &key("a")).await, ReceiptClaim::InProgress);
    assert!(bed.db.audit(rows::id(1), None, 9).await.unwrap().is_empty());
    let done = bed
        .db
        .update_environment(1, &next, with_receipt(receipt("a", 1)))
        .await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(claim(bed, &key("a")).await, replay());
    assert_eq!(
        bed.db.audit(rows::id(1), None, 9).await.unwrap(),
        [rows::audit(1, 900)]
    );
}

pub async fn an_effect_without_its_claim_is_undone(bed: &Bed) {
    bootstrapped(bed).await;
    let undone = bed
        .db
        .insert_environment(&rows::environment(1, 100), with_receipt(receipt("a", 1)))
        .await;
    assert!(
        matches!(&undone, Err(StoreError::Constraint(name)) if name == "receipts_claim"),
        "{undone:?}"
    );
    let found = bed.db.environment(rows::id(1), rows::id(100)).await;
    assert_eq!(found.unwrap(), None);
}

pub async fn text_with_a_null_character_is_no_failure(bed: &Bed) {
    bootstrapped(bed).await;
    assert!(bed.db.user_by_email("a\0b").await.unwrap().is_none());
    bed.db.set_setting("a\0", Some("b\0")).await.unwrap();
    let value = bed.db.setting("a\0").await.unwrap();
    assert_eq!(value.as_deref(), Some("b\u{fffd}"));
}

pub async fn audit_entries_are_paged_newest_first(bed: &Bed) {
    bootstrapped(bed).await;
    for number in 1..=7 {
        let mut row = rows::audit(1, number);
        // Two entries of one moment: the id decides.
        row.at = rows::at(i64::try_from(number / 2).unwrap());
        let effects = Effects {
            audit: vec![row],
            ..rows::none()
        };
        bed.db
            .insert_environment(&rows::environment(1, 100 + number), effects)
            .await
            .unwrap();
    }
    let mut before = None;
    let mut seen = Vec::new();
    loop {
        let page = bed.db.audit(rows::id(1), before, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        before = Some(last.audit_id);
        seen.extend(page.iter().map(|row| row.audit_id));
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1].map(rows::id));
    assert!(bed.db.audit(rows::id(2), None, 9).await.unwrap().is_empty());
}

pub async fn audit_entries_are_chosen_by_what_is_asked(bed: &Bed) {
    bootstrapped(bed).await;
    let entries = [
        (1, "ada", "environment.create", "one"),
        (2, "ada", "environment.update", "one"),
        (3, "bob", "environment.update", "two"),
        (4, "bob", "environmental", "two"),
    ];
    for (number, actor, action, subject) in entries {
        let mut row = rows::audit(1, number);
        row.at = rows::at(i64::try_from(number).unwrap());
        row.actor = actor.to_owned();
        row.action = action.to_owned();
        row.subject = subject.to_owned();
        let effects = Effects {
            audit: vec![row],
            ..rows::none()
        };
        bed.db
            .insert_environment(&rows::environment(1, 100 + number), effects)
            .await
            .unwrap();
    }
    let text = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default;
    let cases: [(AuditFilter, &[u64]); 8] = [
        (none(), &[4, 3, 2, 1]),
        (
            AuditFilter {
                actor: text("ada"),
                ..none()
            },
            &[2, 1],
        ),
        (
            AuditFilter {
                action: text("environment.update"),
                ..none()
            },
            &[3, 2],
        ),
        (
            AuditFilter {
                action: text("environment."),
                ..none()
            },
            &[3, 2, 1],
        ),
        (
            AuditFilter {
                subject: text("two"),
                ..none()
            },
            &[4, 3],
        ),
        (
            AuditFilter {
                since: Some(rows::at(2)),
                until: Some(rows::at(4)),
                ..none()
            },
            &[3, 2],
        ),
        (
            AuditFilter {
                actor: text("ada"),
                action: text("environment."),
                since: Some(rows::at(2)),
                ..none()
            },
            &[2],
        ),
        (
            AuditFilter {
                actor: text("a%"),
                ..none()
            },
            &[],
        ),
    ];
    for (filter, expected) in cases {
        let found = bed.db.audit_matching(rows::id(1), &filter, None, 9).await;
        let found: Vec<_> = found.unwrap().iter().map(|row| row.audit_id).collect();
        let expected: Vec<_> = expected.iter().map(|number| rows::id(*number)).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    let filter = AuditFilter {
        action: text("environment."),
        ..none()
    };
    let page = bed
        .db
        .audit_matching(rows::id(1), &filter, Some(rows::id(3)), 1)
        .await
        .unwrap();
    assert_eq!(page.first().map(|row| row.audit_id), Some(rows::id(2)));
}
