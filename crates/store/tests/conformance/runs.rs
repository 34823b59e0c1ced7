//! Setup runs and workers.

use control::ports::{Admission, Doorbell, RunChange, Store, StoreError, Topic, Written, rows::*};
use domain::{
    ids::SetupRunId,
    setup_run::{Command, End, Kind, Phase, Status},
};

use super::fixture::{
    add_environment, admit, at_once, bootstrapped, driven, step, with_environment,
};
use crate::common::{Bed, rows};

async fn current(bed: &Bed, environment: u64) -> EnvironmentRow {
    bed.db
        .environment(rows::id(1), rows::id(environment))
        .await
        .unwrap()
        .unwrap()
}

async fn end(bed: &Bed, id: SetupRunId) {
    step(bed, id, &Command::RequestCancel, |run| {
        run.finished_at = Some(rows::at(70));
    })
    .await;
}

pub async fn a_run_comes_back_as_it_was(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(bed.db.run(rows::id(200)).await.unwrap(), None);
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let mut expected = rows::run(&environment, 200, rows::id(1));
    expected.log.lines = 1;
    expected.log.bytes = 8;
    assert_eq!(
        bed.db.run(rows::id(200)).await.unwrap(),
        Some(expected.clone())
    );
    let saved = current(bed, 100).await;
    assert_eq!(saved.version, 2);
    assert_eq!(saved.verification.active_setup_run_id, Some(rows::id(200)));
    let log = bed.db.log_lines(rows::id(200), 0, 10).await.unwrap();
    assert_eq!(log.lines.len(), 1);
    assert_eq!(
        (log.lines[0].seq, log.lines[0].text.as_str()),
        (1, "admitted")
    );

    let worker = bed.db.register_worker(&rows::worker(7, "w")).await.unwrap();
    expected.version = 2;
    expected.state = expected.state.decide(&Command::Claim).unwrap();
    expected.worker_id = Some(worker);
    expected.session_id = Some(rows::id(5));
    expected.started_at = Some(rows::at(60));
    expected.record.stderr_tail = Some("tail\n".to_owned());
    let line = rows::system("claimed");
    let change = RunChange {
        expected: 1,
        row: &expected,
        system_line: Some(&line),
    };
    let done = bed.db.update_run(change, None, rows::audited(1, 3)).await;
    assert_eq!(done.unwrap(), Written::Done);
    let again = bed.db.update_run(change, None, rows::audited(1, 4)).await;
    assert_eq!(again.unwrap(), Written::Stale);
    expected.log.lines = 2;
    expected.log.bytes = 15;
    assert_eq!(bed.db.run(rows::id(200)).await.unwrap(), Some(expected));
    assert_eq!(bed.db.audit(rows::id(1), None, 9).await.unwrap().len(), 1);
}

pub async fn one_run_is_in_flight_per_environment(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let row = current(bed, 100).await;
    let refused = admit(bed, &row, 201).await;
    assert_eq!(refused, Admission::InProgress(rows::id(200)));
    assert_eq!(current(bed, 100).await, row, "nothing was written");
    end(bed, rows::id(200)).await;
    assert_eq!(admit(bed, &row, 201).await, Admission::Admitted);
}

pub async fn racing_admissions_have_one_winner(bed: &Bed) {
    let environment = with_environment(bed).await;
    let results = at_once(bed, 20, |db, number| {
        let mut next = environment.clone();
        async move {
            let expected = next.version;
            next.version += 1;
            let run = rows::run(&next, 200 + number, rows::id(1));
            db.admit_run(&run, &rows::system("x"), expected, &next, 4, rows::none())
                .await
                .unwrap()
        }
    })
    .await;
    let won = results
        .iter()
        .filter(|r| **r == Admission::Admitted)
        .count();
    assert_eq!(won, 1, "{results:?}");
    let winner = bed.db.runs(rows::id(100), 50).await.unwrap()[0].setup_run_id;
    for result in &results {
        assert!(
            matches!(result, Admission::Admitted) || *result == Admission::InProgress(winner),
            "{result:?}"
        );
    }
}

pub async fn manual_runs_have_a_limit(bed: &Bed) {
    bootstrapped(bed).await;
    for number in 0..4 {
        let environment = add_environment(bed, 100 + number).await;
        let admitted = admit(bed, &environment, 200 + number).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    let fifth = add_environment(bed, 104).await;
    let in_flight: Vec<_> = (200..204).map(rows::id).collect();
    assert_eq!(
        admit(bed, &fifth, 204).await,
        Admission::LimitReached(in_flight)
    );
    let mut next = fifth.clone();
    next.version = 2;
    let mut refresh = rows::run(&next, 205, rows::id(1));
    refresh.kind = Kind::RunnerRefresh;
    let line = rows::system("x");
    let admitted = bed.db.admit_run(&refresh, &line, 1, &next, 4, rows::none());
    assert_eq!(
        admitted.await.unwrap(),
        Admission::Admitted,
        "only manual runs count"
    );
    end(bed, rows::id(205)).await;
    end(bed, rows::id(202)).await;
    assert_eq!(admit(bed, &next, 206).await, Admission::Admitted);
}

pub async fn racing_admissions_keep_the_limit(bed: &Bed) {
    bootstrapped(bed).await;
    for number in 0..12 {
        add_environment(bed, 100 + number).await;
    }
    let results = at_once(bed, 12, |db, number| async move {
        let mut next = rows::environment(1, 100 + number);
        next.version = 2;
        let run = rows::run(&next, 200 + number, rows::id(1));
        db.admit_run(&run, &rows::system("x"), 1, &next, 4, rows::none())
            .await
            .unwrap()
    })
    .await;
    let won = results
        .iter()
        .filter(|r| **r == Admission::Admitted)
        .count();
    assert_eq!(won, 4, "{results:?}");
}

pub async fn an_admission_on_an_older_version_is_stale(bed: &Bed) {
    let environment = with_environment(bed).await;
    let mut next = environment.clone();
    next.version = 2;
    let done = bed.db.update_environment(1, &next, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(admit(bed, &environment, 200).await, Admission::Stale);
    assert_eq!(bed.db.run(rows::id(200)).await.unwrap(), None);
}

pub async fn runs_are_listed_newest_first(bed: &Bed) {
    let mut environment = with_environment(bed).await;
    for number in [200, 202, 201] {
        assert_eq!(admit(bed, &environment, number).await, Admission::Admitted);
        end(bed, rows::id(number)).await;
        environment.version += 1;
    }
    let ids = |limit| async move {
        let runs = bed.db.runs(rows::id(100), limit).await.unwrap();
        runs.iter().map(|run| run.setup_run_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(50).await, [202, 201, 200].map(rows::id));
    assert_eq!(ids(2).await, [202, 201].map(rows::id));
    assert!(bed.db.runs(rows::id(101), 50).await.unwrap().is_empty());
}

pub async fn the_oldest_waiting_run_is_offered(bed: &Bed) {
    bootstrapped(bed).await;
    assert_eq!(bed.db.waiting_run().await.unwrap(), None);
    for number in [2, 1, 3] {
        let environment = add_environment(bed, 100 + number).await;
        let admitted = admit(bed, &environment, 200 + number).await;
        assert_eq!(admitted, Admission::Admitted);
    }
    let waiting = || async {
        bed.db
            .waiting_run()
            .await
            .unwrap()
            .map(|run| run.setup_run_id)
    };
    let all = || async {
        let runs = bed.db.waiting_runs().await.unwrap();
        runs.iter().map(|run| run.setup_run_id).collect::<Vec<_>>()
    };
    let driven = || async {
        let runs = bed.db.driven_runs().await.unwrap();
        runs.iter().map(|run| run.setup_run_id).collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, Some(rows::id(201)));
    assert_eq!(
        waiting().await,
        Some(rows::id(201)),
        "looking does not take"
    );
    assert_eq!(all().await, [201, 202, 203].map(rows::id));
    step(bed, rows::id(201), &Command::Claim, |_| ()).await;
    assert_eq!(waiting().await, Some(rows::id(202)));
    assert_eq!(driven().await, [rows::id(201)]);
    assert_eq!(all().await, [202, 203].map(rows::id));
    step(bed, rows::id(201), &Command::Lose { attempt: 1 }, |_| ()).await;
    assert_eq!(
        waiting().await,
        Some(rows::id(201)),
        "a lost run waits again, in its old place"
    );
    assert_eq!(all().await, [201, 202, 203].map(rows::id));
    assert!(driven().await.is_empty());
}

pub async fn racing_claims_have_one_winner(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let claims = at_once(bed, 20, |db, _| async move {
        let Some(mut run) = db.waiting_run().await.unwrap() else {
            return Written::Stale;
        };
        let expected = run.version;
        run.version += 1;
        run.state = run.state.decide(&Command::Claim).unwrap();
        let change = RunChange {
            expected,
            row: &run,
            system_line: None,
        };
        db.update_run(change, None, rows::none()).await.unwrap()
    })
    .await;
    let won = claims.iter().filter(|r| **r == Written::Done).count();
    assert_eq!(won, 1);
    let run = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    assert_eq!(run.state.attempt, 1);
}

pub async fn a_run_and_its_environment_change_together(bed: &Bed) {
    let run = driven(bed).await;
    let mut environment = current(bed, 100).await;
    environment.version = 3;
    environment.verification.active_setup_run_id = None;
    let mut next = run.clone();
    next.version += 1;
    next.state = next
        .state
        .decide(&Command::Finish {
            attempt: 1,
            end: End::Failed(Phase::Setup),
        })
        .unwrap();
    next.finished_at = Some(rows::at(90));
    let write = |expected_run: i64, expected_environment: i64| {
        let change = RunChange {
            expected: expected_run,
            row: &next,
            system_line: None,
        };
        bed.db.update_run(
            change,
            Some((expected_environment, &environment)),
            rows::none(),
        )
    };
    assert_eq!(write(run.version, 1).await.unwrap(), Written::Stale);
    assert_eq!(write(run.version + 5, 2).await.unwrap(), Written::Stale);
    let unchanged = bed.db.run(run.setup_run_id).await.unwrap().unwrap();
    assert_eq!(unchanged.state, run.state);
    assert_eq!(current(bed, 100).await.version, 2);
    assert_eq!(write(run.version, 2).await.unwrap(), Written::Done);
    let ended = bed.db.run(run.setup_run_id).await.unwrap().unwrap();
    assert_eq!(ended.state.status, Status::Failed);
    assert_eq!(current(bed, 100).await, environment);
}

pub async fn a_worker_keeps_its_id_by_name(bed: &Bed) {
    let first = rows::worker(7, "host-a");
    assert_eq!(bed.db.register_worker(&first).await.unwrap(), rows::id(7));
    let mut second = rows::worker(8, "host-b");
    second.registered_at = rows::at(5);
    second.runner_image = None;
    assert_eq!(bed.db.register_worker(&second).await.unwrap(), rows::id(8));
    let mut again = rows::worker(9, "host-a");
    again.capacity = 2;
    again.session_slots = 3;
    again.version = "0.2.0".to_owned();
    again.registered_at = rows::at(50);
    again.seen_at = rows::at(50);
    assert_eq!(bed.db.register_worker(&again).await.unwrap(), rows::id(7));
    bed.db
        .touch_worker(rows::id(7), rows::at(60))
        .await
        .unwrap();
    // A clock that was put back: the worker is there all the same.
    bed.db
        .touch_worker(rows::id(7), rows::at(55))
        .await
        .unwrap();
    let expected = WorkerRow {
        worker_id: rows::id(7),
        registered_at: rows::at(0),
        seen_at: rows::at(55),
        ..again
    };
    assert_eq!(bed.db.workers().await.unwrap(), [second, expected]);
}

pub async fn a_run_with_an_unknown_word_is_named(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    bed.raw("UPDATE setup_runs SET status = 'dancing'").await;
    let error = bed.db.run(rows::id(200)).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Corrupt { table: "setup_runs", column: "status", id, .. }
            if *id == rows::id::<domain::ids::SetupRunKind>(200).to_string()),
        "{error:?}"
    );
    bed.raw("UPDATE setup_runs SET status = 'queued', attempt = -1")
        .await;
    let error = bed.db.run(rows::id(200)).await.unwrap_err();
    assert!(
        matches!(
            &error,
            StoreError::Corrupt {
                column: "attempt",
                ..
            }
        ),
        "{error:?}"
    );
}

pub async fn runs_ring(bed: &Bed) {
    let environment = with_environment(bed).await;
    let mut run = bed.db.listen(Topic::Run(rows::id(200)));
    let mut queue = bed.db.listen(Topic::Queue);
    let mut orders = bed.db.listen(Topic::Orders);
    let mut rung = || {
        [&mut run, &mut queue, &mut orders].map(|bell| {
            let rung = bell.has_changed().unwrap();
            bell.mark_unchanged();
            rung
        })
    };
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    assert_eq!(rung(), [true, true, false]);
    step(bed, rows::id(200), &Command::Claim, |_| ()).await;
    assert_eq!(rung(), [true, false, false]);
    step(bed, rows::id(200), &Command::RequestCancel, |_| ()).await;
    assert_eq!(rung(), [true, false, true]);
    let environment = add_environment(bed, 101).await;
    assert_eq!(admit(bed, &environment, 201).await, Admission::Admitted);
    assert_eq!(
        rung(),
        [false, true, false],
        "another run's bell is another bell"
    );
}

pub async fn bells_ring_after_the_commit_only(bed: &Bed) {
    let environment = with_environment(bed).await;
    let bell = bed.db.listen(Topic::Environments);
    assert_eq!(
        admit(bed, &rows::environment(1, 100), 200).await,
        Admission::Admitted
    );
    assert!(bell.has_changed().unwrap());
    let bell = bed.db.listen(Topic::Run(rows::id(200)));
    let mut run = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    run.version = 2;
    let change = RunChange {
        expected: 1,
        row: &run,
        system_line: None,
    };
    // The run's part succeeds, and is undone with the audit row that cannot be written.
    let fails = bed.db.update_run(change, None, rows::audited(99, 1)).await;
    assert!(matches!(fails, Err(StoreError::Constraint(_))), "{fails:?}");
    assert!(!bell.has_changed().unwrap());
    let read = bed.db.run(rows::id(200)).await.unwrap().unwrap();
    assert_eq!(read.version, 1);
    assert_eq!(environment.version, 1);
}
