//! Environments and revisions.

use std::time::Duration;

use control::ports::{
    Admission, Doorbell, Effects, ImageStore as _, RunChange, SecretStore as _, Store, StoreError,
    Topic, Written,
    rows::{EnvironmentRow, RevisionRow, SecretRow},
};
use domain::{
    setup_run::{Command, Status},
    verification::VerificationStatus,
};

use super::fixture::{add_environment, admit, at_once, bootstrapped, with_environment};
use crate::common::{Bed, MIGRATE, rows};

pub async fn an_environment_comes_back_as_it_was(bed: &Bed) {
    let admin = bootstrapped(bed).await;
    let mut environment = rows::environment(1, 100);
    environment.setup_updated_by = Some(admin.user_id);
    let revision = |number| RevisionRow {
        environment_id: environment.environment_id,
        revision: number,
        definition: rows::definition(u64::try_from(number).unwrap()),
        by: admin.user_id,
        at: rows::at(number),
    };
    let with = |number| Effects {
        revision: Some(revision(number)),
        ..rows::none()
    };
    bed.db
        .insert_environment(&environment, with(1))
        .await
        .unwrap();
    let read = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap();
    assert_eq!(read, Some(environment.clone()));
    let mut next = environment.clone();
    next.version = 2;
    next.revision = 2;
    next.definition = rows::definition(2);
    next.setup_updated_by = None;
    next.updated_at = rows::at(70);
    let done = bed.db.update_environment(1, &next, with(2)).await;
    assert_eq!(done.unwrap(), Written::Done);
    let read = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap();
    assert_eq!(read, Some(next));
    assert_eq!(
        bed.db.revisions(rows::id(100)).await.unwrap(),
        [revision(2), revision(1)]
    );
}

pub async fn environments_are_listed_newest_first(bed: &Bed) {
    bootstrapped(bed).await;
    for number in [101, 103, 102] {
        add_environment(bed, number).await;
    }
    let listed = bed.db.environments(rows::id(1)).await.unwrap();
    let expected = [103, 102, 101].map(|number| rows::environment(1, number));
    assert_eq!(listed, expected);
    assert!(bed.db.environments(rows::id(2)).await.unwrap().is_empty());
}

pub async fn a_lost_race_changes_nothing(bed: &Bed) {
    let environment = with_environment(bed).await;
    let mut next = environment.clone();
    next.version = 2;
    for expected in [0, 2] {
        let stale = bed
            .db
            .update_environment(expected, &next, rows::audited(1, 5))
            .await;
        assert_eq!(stale.unwrap(), Written::Stale);
    }
    let read = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap();
    assert_eq!(read, Some(environment));
    assert!(bed.db.audit(rows::id(1), None, 9).await.unwrap().is_empty());
}

pub async fn forty_writers_lose_no_update(bed: &Bed) {
    with_environment(bed).await;
    at_once(bed, 40, |db, _| async move {
        loop {
            let mut row = db
                .environment(rows::id(1), rows::id(100))
                .await
                .unwrap()
                .unwrap();
            let expected = row.version;
            row.version += 1;
            row.revision += 1;
            let written = db.update_environment(expected, &row, rows::none()).await;
            if written.unwrap() == Written::Done {
                break;
            }
        }
    })
    .await;
    let row = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.version, row.revision), (41, 41));
}

pub async fn a_deleted_environment_is_gone_but_its_runs_are_not(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let mut row = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap()
        .unwrap();
    let mut run = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    run.version = 2;
    run.state = run.state.decide(&Command::RequestCancel).unwrap();
    run.finished_at = Some(rows::at(60));
    row.version = 3;
    let line = rows::system("cancelled");
    let change = RunChange {
        expected: 1,
        row: &run,
        system_line: Some(&line),
    };
    let delete = || {
        bed.db
            .delete_environment(2, &row, rows::at(60), Some(change), rows::audited(1, 6))
    };
    assert_eq!(delete().await.unwrap(), Written::Done);
    assert_eq!(delete().await.unwrap(), Written::Stale);
    assert_eq!(
        bed.db
            .environment(rows::id(1), rows::id(100))
            .await
            .unwrap(),
        None
    );
    assert!(bed.db.environments(rows::id(1)).await.unwrap().is_empty());
    let kept = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    assert_eq!(kept.state.status, Status::Cancelled);
    assert_eq!(kept.log.lines, 2);
    row.version = 4;
    let gone = bed.db.update_environment(3, &row, rows::none()).await;
    assert_eq!(gone.unwrap(), Written::Stale);
    assert_eq!(admit(bed, &row, 201).await, Admission::Stale);
}

pub async fn a_stale_run_undoes_the_deletion(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let mut row = bed
        .db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap()
        .unwrap();
    let run = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    row.version = 3;
    let change = RunChange {
        expected: 9,
        row: &run,
        system_line: None,
    };
    let stale = bed
        .db
        .delete_environment(2, &row, rows::at(60), Some(change), rows::none())
        .await;
    assert_eq!(stale.unwrap(), Written::Stale);
    assert!(
        bed.db
            .environment(rows::id(1), rows::id(100))
            .await
            .unwrap()
            .is_some()
    );
}

pub async fn removing_rows_removes_what_hangs_on_them(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    bed.raw("DELETE FROM environments").await;
    assert_eq!(bed.db.run(rows::id(200)).await.unwrap(), None);
    let log = bed.db.log_lines(rows::id(200), 0, 10).await.unwrap();
    assert!(log.lines.is_empty());
}

pub async fn an_unreadable_definition_is_named_without_its_text(bed: &Bed) {
    with_environment(bed).await;
    bed.raw("UPDATE environments SET definition = '{\"name\": 1, \"secret\": \"hunter2\"}'")
        .await;
    let Err(error) = bed.db.environments(rows::id(1)).await else {
        panic!("it was read");
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with(
            "environments.definition of 019a0000-0000-7000-8000-000000000064 cannot be read: Data at line 1"
        ),
        "{text}"
    );
    assert!(!format!("{error:?}").contains("hunter2"));
}

pub async fn another_organizations_environment_is_not_there(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(
        bed.db
            .environment(rows::id(2), rows::id(100))
            .await
            .unwrap(),
        None
    );
    let mut foreign = environment;
    foreign.organization_id = rows::id(2);
    foreign.version = 2;
    let stale = bed.db.update_environment(1, &foreign, rows::none()).await;
    assert_eq!(stale.unwrap(), Written::Stale);
}

pub async fn environments_ring(bed: &Bed) {
    bootstrapped(bed).await;
    let mut bell = bed.db.listen(Topic::Environments);
    let mut environment = add_environment(bed, 100).await;
    assert!(bell.has_changed().unwrap());
    bell.mark_unchanged();
    environment.version = 2;
    let stale = bed
        .db
        .update_environment(5, &environment, rows::none())
        .await;
    assert_eq!(stale.unwrap(), Written::Stale);
    assert!(!bell.has_changed().unwrap());
    let done = bed
        .db
        .update_environment(1, &environment, rows::none())
        .await;
    assert_eq!(done.unwrap(), Written::Done);
    assert!(bell.has_changed().unwrap());
}

/// A door drops its call when the caller goes away, at whatever point that is.
pub async fn abandoned_calls_hold_no_lock_and_lose_no_connection(bed: &Bed) {
    with_environment(bed).await;
    for turns in 0..120 {
        let mut row = current(bed).await;
        let expected = row.version;
        row.version += 1;
        let patience = async {
            // Longer and longer, so that every point of the call is met.
            for _ in 0..turns {
                tokio::time::sleep(Duration::from_micros(30)).await;
            }
        };
        tokio::select! {
            biased;
            () = patience => {}
            // Stale, where an abandoned commit still arrived after the row was read.
            written = bed.db.update_environment(expected, &row, rows::none()) => {
                let _ = written.unwrap();
            }
        }
    }
    let write = || async {
        let mut row = current(bed).await;
        row.version += 1;
        let written = bed
            .db
            .update_environment(row.version - 1, &row, rows::none());
        written.await.unwrap()
    };
    if write().await == Written::Stale {
        assert_eq!(write().await, Written::Done);
    }
    at_once(bed, 30, |db, _| async move { db.ping().await.unwrap() }).await;
}

async fn current(bed: &Bed) -> EnvironmentRow {
    bed.db
        .environment(rows::id(1), rows::id(100))
        .await
        .unwrap()
        .unwrap()
}

pub async fn environments_with_an_image_are_found_in_every_organization(bed: &Bed) {
    bootstrapped(bed).await;
    let mut with = rows::environment(1, 100);
    with.verification.status = VerificationStatus::Verified;
    with.verification.image = Some(rows::image(100));
    let mut deleted = with.clone();
    deleted.environment_id = rows::id(101);
    let mut without = rows::environment(1, 102);
    without.verification.status = VerificationStatus::Verified;
    // The word alone, in a field of the member's, is no verdict.
    let mut never = rows::environment(1, 103);
    never.definition.description = "\"verified\"".to_owned();
    for row in [&with, &deleted, &without, &never] {
        bed.db.insert_environment(row, rows::none()).await.unwrap();
    }
    let mut gone = deleted.clone();
    gone.version = 2;
    let written = bed
        .db
        .delete_environment(1, &gone, rows::at(9), None, rows::none())
        .await;
    assert_eq!(written.unwrap(), Written::Done);
    assert_eq!(bed.db.environments_with_image().await.unwrap(), [with]);
}

pub async fn secrets_change_together_with_their_environment(bed: &Bed) {
    let before = with_environment(bed).await;
    let secret = |name: &str, sealed: &str| SecretRow {
        environment_id: before.environment_id,
        name: name.to_owned(),
        sealed: sealed.to_owned(),
        bytes: 8,
        set_by: rows::id(1),
        set_at: rows::at(70),
    };
    assert!(!bed.db.any_secret().await.unwrap());
    let mut next = before.clone();
    next.version += 1;
    next.secret_hashes
        .insert("A".to_owned(), "hash-a".to_owned());
    let put = bed
        .db
        .put_secret(before.version, &next, &secret("A", "one"), rows::none())
        .await;
    assert_eq!(put.unwrap(), Written::Done);
    let stale = bed
        .db
        .put_secret(before.version, &next, &secret("A", "lost"), rows::none())
        .await;
    assert_eq!(stale.unwrap(), Written::Stale);
    assert_eq!(
        bed.db.secrets(before.environment_id).await.unwrap(),
        [secret("A", "one")]
    );
    assert_eq!(current(bed).await.secret_hashes, next.secret_hashes);

    let mut later = next.clone();
    later.version += 1;
    let put = bed
        .db
        .put_secret(next.version, &later, &secret("A", "two"), rows::none())
        .await;
    assert_eq!(put.unwrap(), Written::Done);
    assert_eq!(
        bed.db.secrets(before.environment_id).await.unwrap(),
        [secret("A", "two")]
    );
    let stale = bed
        .db
        .delete_secret(next.version, &later, "A", rows::none());
    assert_eq!(stale.await.unwrap(), Written::Stale);
    assert!(bed.db.any_secret().await.unwrap());

    let mut last = later.clone();
    last.version += 1;
    last.secret_hashes.clear();
    let gone = bed
        .db
        .delete_secret(later.version, &last, "A", rows::none());
    assert_eq!(gone.await.unwrap(), Written::Done);
    assert!(
        bed.db
            .secrets(before.environment_id)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(current(bed).await.secret_hashes.is_empty());
}

pub async fn what_another_pool_changes_of_an_environment_is_read_next(bed: &Bed) {
    let mut row = with_environment(bed).await;
    let other = store::open(&bed.url, MIGRATE).await.unwrap();
    let read = || async {
        bed.db
            .environment(rows::id(1), rows::id(100))
            .await
            .unwrap()
    };
    for version in 1..=5 {
        for _ in 0..3 {
            assert_eq!(read().await.as_ref(), Some(&row));
        }
        row.version += 1;
        row.definition.name = format!("at {version}");
        let done = other.update_environment(version, &row, rows::none()).await;
        assert_eq!(done.unwrap(), Written::Done);
    }
    assert_eq!(read().await.as_ref(), Some(&row));
    let mut gone = row.clone();
    gone.version += 1;
    let done = other
        .delete_environment(row.version, &gone, rows::at(9), None, rows::none())
        .await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(read().await, None);
    other.close().await;
}
