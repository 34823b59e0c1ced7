//! Sessions.

use control::ports::{
    Doorbell, ImageOrigin, ImageStore, SessionAdmission, SessionRecord, SessionRow, SessionStore,
    Store, StoreError, Topic, Written, rows::EnvironmentRow,
};
use domain::session::{Command, SessionState, Status, Wish};

use super::fixture::{add_environment, at_once, with_environment};
use crate::common::{Bed, rows};

fn session(environment: &EnvironmentRow, number: u64) -> SessionRow {
    SessionRow {
        organization_id: environment.organization_id,
        environment_id: environment.environment_id,
        session_id: rows::id(number),
        definition: environment.definition.clone(),
        state: SessionState::admitted(),
        version: 1,
        sandbox_id: rows::id(number + 5_000),
        host: "wörker one".to_owned(),
        record: SessionRecord {
            refresh: None,
            message: "Preparing a sandbox.".to_owned(),
            runner_image: "groundwork/runner:full".to_owned(),
            layers: vec!["sha256:1".to_owned(), "sha256:2".to_owned()],
            image: Some(ImageOrigin {
                base_digest: Some("sha256:base".to_owned()),
                image_id: "img_1".to_owned(),
                generation: 3,
                setup_run_id: rows::id(200),
            }),
            revision: 7,
        },
        requested_by: rows::id(1),
        kept_seconds: 0,
        created_at: rows::at(i64::try_from(number).unwrap()),
        started_at: None,
        stopped_at: None,
        deleted_at: None,
        environment_deleted_at: None,
    }
}

async fn admit(bed: &Bed, environment: &EnvironmentRow, number: u64) -> SessionAdmission {
    let row = session(environment, number);
    bed.db
        .admit_session(&row, environment.version, 3, rows::none())
        .await
        .unwrap()
}

async fn read(bed: &Bed, number: u64) -> SessionRow {
    let found = bed.db.session(rows::id(1), rows::id(number)).await.unwrap();
    found.expect("the session is there")
}

async fn step(bed: &Bed, number: u64, command: Command) -> Written {
    let mut row = read(bed, number).await;
    let expected = row.version;
    row.version += 1;
    row.state = row.state.decide(command).unwrap();
    bed.db
        .update_session(expected, &row, rows::none())
        .await
        .unwrap()
}

pub async fn a_session_comes_back_as_it_was(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(
        admit(bed, &environment, 300).await,
        SessionAdmission::Admitted
    );
    let mut expected = session(&environment, 300);
    assert_eq!(read(bed, 300).await, expected);
    expected.version = 2;
    expected.state = SessionState {
        status: Status::Running,
        wish: Some(Wish::Stop),
    };
    expected.record.message = "Runs.".to_owned();
    expected.kept_seconds = 9;
    expected.started_at = Some(rows::at(60));
    expected.stopped_at = Some(rows::at(61));
    let first = bed
        .db
        .update_session(1, &expected, rows::audited(1, 3))
        .await;
    assert_eq!(first.unwrap(), Written::Done);
    let again = bed
        .db
        .update_session(1, &expected, rows::audited(1, 4))
        .await;
    assert_eq!(again.unwrap(), Written::Stale);
    bed.db.note_kept(rows::id(300), 77).await.unwrap();
    expected.kept_seconds = 77;
    assert_eq!(read(bed, 300).await, expected, "noting is no change");
    assert_eq!(bed.db.audit(rows::id(1), None, 9).await.unwrap().len(), 1);
}

pub async fn a_session_of_a_changed_or_deleted_environment_is_not_admitted(bed: &Bed) {
    let environment = with_environment(bed).await;
    let mut edited = environment.clone();
    edited.version += 1;
    let done = bed.db.update_environment(1, &edited, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(admit(bed, &environment, 300).await, SessionAdmission::Stale);
    assert_eq!(admit(bed, &edited, 300).await, SessionAdmission::Admitted);
    let mut gone = edited.clone();
    gone.version += 1;
    let done = bed
        .db
        .delete_environment(edited.version, &gone, rows::at(90), None, rows::none())
        .await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(admit(bed, &gone, 301).await, SessionAdmission::Stale);
    let left = read(bed, 300).await;
    assert_eq!(left.environment_deleted_at, Some(rows::at(90)));
}

pub async fn live_sessions_have_a_limit(bed: &Bed) {
    let environment = with_environment(bed).await;
    for number in 300..303 {
        assert_eq!(
            admit(bed, &environment, number).await,
            SessionAdmission::Admitted
        );
    }
    let full = SessionAdmission::LimitReached(3);
    assert_eq!(admit(bed, &environment, 303).await, full);
    let stopped = Command::NotStarted { kept: true };
    assert_eq!(step(bed, 300, stopped).await, Written::Done);
    assert_eq!(
        admit(bed, &environment, 303).await,
        SessionAdmission::Admitted
    );
    let mut back = read(bed, 300).await;
    back.version += 1;
    back.state = back.state.decide(Command::Resume).unwrap();
    let resumed = bed.db.resume_session(2, &back, 3, rows::none()).await;
    assert_eq!(resumed.unwrap(), full);
    let resumed = bed.db.resume_session(2, &back, 4, rows::none()).await;
    assert_eq!(resumed.unwrap(), SessionAdmission::Admitted);
    let again = bed.db.resume_session(2, &back, 9, rows::none()).await;
    assert_eq!(again.unwrap(), SessionAdmission::Stale);
}

pub async fn racing_admissions_of_sessions_keep_the_limit(bed: &Bed) {
    let environment = with_environment(bed).await;
    let admitted = at_once(bed, 8, |db, number| {
        let row = session(&environment, 300 + number);
        let version = environment.version;
        async move {
            db.admit_session(&row, version, 3, rows::none())
                .await
                .unwrap()
        }
    })
    .await
    .into_iter()
    .filter(|answer| *answer == SessionAdmission::Admitted)
    .count();
    assert_eq!(admitted, 3);
}

pub async fn sessions_are_listed_newest_first_without_deleted_ones(bed: &Bed) {
    let environment = with_environment(bed).await;
    let other = add_environment(bed, 101).await;
    admit(bed, &environment, 300).await;
    admit(bed, &other, 301).await;
    admit(bed, &environment, 302).await;
    let ids =
        |rows: Vec<SessionRow>| -> Vec<_> { rows.into_iter().map(|s| s.session_id).collect() };
    let all = bed.db.sessions(rows::id(1), None).await.unwrap();
    assert_eq!(ids(all), [rows::id(302), rows::id(301), rows::id(300)]);
    let of_one = bed
        .db
        .sessions(rows::id(1), Some(environment.environment_id))
        .await
        .unwrap();
    assert_eq!(ids(of_one), [rows::id(302), rows::id(300)]);
    let on = bed.db.sessions_on("wörker one").await.unwrap();
    assert_eq!(ids(on), [rows::id(300), rows::id(301), rows::id(302)]);
    assert!(bed.db.sessions_on("other").await.unwrap().is_empty());

    assert_eq!(step(bed, 302, Command::RequestDelete).await, Written::Done);
    let mut gone = read(bed, 302).await;
    gone.version += 1;
    gone.state = gone.state.decide(Command::Destroyed).unwrap();
    gone.deleted_at = Some(rows::at(99));
    let done = bed.db.update_session(2, &gone, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(
        bed.db.session(rows::id(1), rows::id(302)).await.unwrap(),
        None
    );
    assert_eq!(bed.db.sessions_on("wörker one").await.unwrap().len(), 2);
    let left = bed.db.sessions(rows::id(1), None).await.unwrap();
    assert_eq!(ids(left), [rows::id(301), rows::id(300)]);
}

pub async fn layers_are_needed_until_a_session_is_deleted(bed: &Bed) {
    let environment = with_environment(bed).await;
    admit(bed, &environment, 300).await;
    admit(bed, &environment, 301).await;
    let mut layers = bed.db.session_layers().await.unwrap();
    layers.dedup();
    assert_eq!(layers, ["sha256:1", "sha256:2", "sha256:1", "sha256:2"]);
    assert!(bed.db.last_session_starts().await.unwrap().is_empty());
    for (number, started) in [(300, 70), (301, 60)] {
        let mut row = read(bed, number).await;
        row.version += 1;
        row.state = SessionState {
            status: Status::Deleted,
            wish: None,
        };
        row.started_at = Some(rows::at(started));
        row.deleted_at = Some(rows::at(99));
        let done = bed.db.update_session(1, &row, rows::none()).await;
        assert_eq!(done.unwrap(), Written::Done);
    }
    assert!(bed.db.session_layers().await.unwrap().is_empty());
    assert_eq!(
        bed.db.last_session_starts().await.unwrap(),
        [(environment.environment_id, rows::at(70))]
    );
}

pub async fn another_organizations_session_is_not_there(bed: &Bed) {
    let environment = with_environment(bed).await;
    admit(bed, &environment, 300).await;
    let found = bed.db.session(rows::id(2), rows::id(300)).await.unwrap();
    assert_eq!(found, None);
    assert!(bed.db.sessions(rows::id(2), None).await.unwrap().is_empty());
}

pub async fn sessions_ring(bed: &Bed) {
    let environment = with_environment(bed).await;
    let mut bell = bed.db.listen(Topic::Sessions);
    admit(bed, &environment, 300).await;
    assert!(bell.has_changed().unwrap());
    bell.mark_unchanged();
    assert_eq!(step(bed, 300, Command::Started).await, Written::Done);
    assert!(bell.has_changed().unwrap());
}

pub async fn a_session_with_an_unknown_wish_is_named(bed: &Bed) {
    let environment = with_environment(bed).await;
    admit(bed, &environment, 300).await;
    bed.raw("UPDATE sessions SET wish = 'sleep'").await;
    let error = bed.db.session(rows::id(1), rows::id(300)).await;
    assert!(matches!(
        error,
        Err(StoreError::Corrupt {
            table: "sessions",
            column: "wish",
            ..
        })
    ));
}
