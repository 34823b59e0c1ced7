//! What is kept of a run beside its log.

use control::ports::{Appended, Doorbell, Store, StoreError, Topic};
use std::time::{Duration, Instant};

use domain::{
    ids::SetupRunId,
    limits::{HOST_MAX_BYTES, RUN_HOSTS_MAX},
    run_records::{AskedHost, EgressOutcome, LineTime, RunRecords},
    setup_run::{Command, End, Phase},
};

use super::fixture::{at_once, driven, step};
use crate::common::{Bed, rows};

fn run() -> SetupRunId {
    rows::id(200)
}

fn asked(host: &str, outcome: EgressOutcome, count: u64) -> AskedHost {
    AskedHost {
        host: host.to_owned(),
        port: 443,
        outcome,
        rule: None,
        redirected_from: None,
        line: None,
        count,
    }
}

fn hosts(hosts: &[AskedHost]) -> RunRecords {
    RunRecords {
        hosts: hosts.to_vec(),
        timings: Vec::new(),
    }
}

async fn record(bed: &Bed, attempt: u32, records: &RunRecords) -> Appended {
    bed.db.record_run(run(), attempt, records).await.unwrap()
}

pub async fn hosts_come_back_in_order_of_first_attempt(bed: &Bed) {
    driven(bed).await;
    let first = AskedHost {
        rule: Some(3),
        redirected_from: Some("a.example".to_owned()),
        line: Some(7),
        ..asked("z.example", EgressOutcome::Denied, 1)
    };
    let second = asked("b.example", EgressOutcome::Allowed, 2);
    let bell = bed.db.listen(Topic::Run(run()));
    assert_eq!(
        record(bed, 1, &hosts(std::slice::from_ref(&first))).await,
        Appended::Done
    );
    assert!(bell.has_changed().unwrap());
    let timings = vec![
        LineTime { line: 2, micros: 5 },
        LineTime { line: 1, micros: 9 },
    ];
    let rest = RunRecords {
        hosts: vec![second.clone()],
        timings: timings.clone(),
    };
    assert_eq!(record(bed, 1, &rest).await, Appended::Done);
    let kept = bed.db.run_records(run()).await.unwrap();
    assert_eq!(
        kept,
        RunRecords {
            hosts: vec![first, second],
            timings
        }
    );
    assert_eq!(
        bed.db.run_records(rows::id(9)).await.unwrap(),
        RunRecords::default()
    );
}

pub async fn a_repeated_report_changes_nothing_and_the_larger_count_counts(bed: &Bed) {
    driven(bed).await;
    let first = AskedHost {
        line: Some(7),
        ..asked("a.example", EgressOutcome::Denied, 1)
    };
    let end = asked("a.example", EgressOutcome::Denied, 5);
    let other = asked("a.example", EgressOutcome::Allowed, 1);
    for report in [&first, &end, &other, &first, &end] {
        record(bed, 1, &hosts(std::slice::from_ref(report))).await;
    }
    let times = RunRecords {
        hosts: Vec::new(),
        timings: vec![LineTime { line: 1, micros: 9 }],
    };
    for _ in 0..2 {
        record(bed, 1, &times).await;
    }
    record(bed, 1, &RunRecords::default()).await;
    let kept = bed.db.run_records(run()).await.unwrap();
    assert_eq!(kept.hosts, [AskedHost { count: 5, ..first }, other]);
    assert_eq!(kept.timings, times.timings);
}

pub async fn records_of_an_attempt_that_lost_the_run_are_fenced(bed: &Bed) {
    driven(bed).await;
    let old = RunRecords {
        hosts: vec![asked("old.example", EgressOutcome::Allowed, 1)],
        timings: vec![LineTime { line: 1, micros: 1 }],
    };
    assert_eq!(record(bed, 1, &old).await, Appended::Done);
    assert_eq!(record(bed, 2, &old).await, Appended::Fenced);
    step(bed, run(), &Command::Lose { attempt: 1 }, |_| {}).await;
    assert_eq!(record(bed, 1, &old).await, Appended::Fenced, "undriven");
    step(bed, run(), &Command::Claim, |_| {}).await;
    assert_eq!(
        record(bed, 1, &old).await,
        Appended::Fenced,
        "the next try's"
    );
    assert_eq!(
        bed.db.run_records(run()).await.unwrap(),
        old,
        "until there is news"
    );
    let new = hosts(&[asked("new.example", EgressOutcome::Allowed, 1)]);
    assert_eq!(record(bed, 2, &new).await, Appended::Done);
    assert_eq!(bed.db.run_records(run()).await.unwrap(), new);
    let end = Command::Finish {
        attempt: 2,
        end: End::Failed(Phase::Provision),
    };
    step(bed, run(), &end, |_| {}).await;
    assert_eq!(record(bed, 2, &old).await, Appended::Fenced, "over");
    let unknown = bed.db.record_run(rows::id(9), 1, &old).await.unwrap();
    assert_eq!(unknown, Appended::Fenced);
}

pub async fn ten_thousand_hosts_of_the_longest_name_are_kept_quickly_and_no_more(bed: &Bed) {
    driven(bed).await;
    // Nothing that an index could make shorter.
    let name = |n: usize| {
        let mut state = n as u64 + 1;
        let noise = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            char::from(b'a' + (state >> 59) as u8 % 26)
        });
        let name: String = noise.take(HOST_MAX_BYTES - 6).collect();
        format!("{name}{n:06}")
    };
    let all: Vec<AskedHost> = (0..RUN_HOSTS_MAX)
        .map(|n| AskedHost {
            redirected_from: Some(name(n)),
            ..asked(&name(n), EgressOutcome::Denied, 1)
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(record(bed, 1, &hosts(&all[..5_000])).await, Appended::Done);
    assert_eq!(record(bed, 1, &hosts(&all)).await, Appended::Done);
    let took = begun.elapsed();
    // In a release build well under a second; position by position it was minutes.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(bed.db.run_records(run()).await.unwrap().hosts, all);

    let counted = AskedHost {
        count: 9,
        ..all[7].clone()
    };
    let beyond = asked("one-more.example", EgressOutcome::Denied, 1);
    let more = [beyond.clone(), counted.clone(), beyond];
    assert_eq!(record(bed, 1, &hosts(&more)).await, Appended::Done);
    let kept = bed.db.run_records(run()).await.unwrap().hosts;
    assert_eq!(kept.len(), RUN_HOSTS_MAX);
    assert_eq!(kept[7], counted);
}

pub async fn a_host_that_comes_twice_in_a_report_is_one_record(bed: &Bed) {
    driven(bed).await;
    let first = asked("a.example", EgressOutcome::Denied, 1);
    let again = AskedHost {
        rule: Some(2),
        count: 4,
        ..first.clone()
    };
    let other = asked("b.example", EgressOutcome::Denied, u64::MAX);
    record(bed, 1, &hosts(&[first, again.clone(), other])).await;
    let kept = bed.db.run_records(run()).await.unwrap().hosts;
    assert_eq!(kept[0], again);
    assert_eq!((kept.len(), kept[1].count), (2, i64::MAX as u64));
}

pub async fn racing_reports_keep_every_host(bed: &Bed) {
    driven(bed).await;
    let done = at_once(bed, 20, |db, number| async move {
        let one = asked(&format!("h{number}.example"), EgressOutcome::Allowed, 1);
        db.record_run(run(), 1, &hosts(&[one])).await.unwrap()
    })
    .await;
    assert!(done.iter().all(|done| *done == Appended::Done));
    assert_eq!(bed.db.run_records(run()).await.unwrap().hosts.len(), 20);
}

pub async fn records_go_with_the_log(bed: &Bed) {
    driven(bed).await;
    let all = RunRecords {
        hosts: vec![asked("a.example", EgressOutcome::Allowed, 1)],
        timings: vec![LineTime { line: 1, micros: 1 }],
    };
    record(bed, 1, &all).await;
    let end = Command::Finish {
        attempt: 1,
        end: End::Failed(Phase::Provision),
    };
    step(bed, run(), &end, |run| {
        run.finished_at = Some(rows::at(100))
    })
    .await;
    assert_eq!(
        bed.db
            .delete_logs(rows::at(100), rows::at(500))
            .await
            .unwrap(),
        0
    );
    assert_eq!(bed.db.run_records(run()).await.unwrap(), all);
    assert_eq!(
        bed.db
            .delete_logs(rows::at(101), rows::at(500))
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        bed.db.run_records(run()).await.unwrap(),
        RunRecords::default()
    );
}

pub async fn an_unreadable_record_is_named(bed: &Bed) {
    driven(bed).await;
    record(
        bed,
        1,
        &hosts(&[asked("a.example", EgressOutcome::Allowed, 1)]),
    )
    .await;
    bed.raw("UPDATE setup_run_hosts SET outcome = 'perhaps'")
        .await;
    let error = bed.db.run_records(run()).await.unwrap_err();
    assert!(
        matches!(
            &error,
            StoreError::Corrupt {
                table: "setup_run_hosts",
                column: "outcome",
                ..
            }
        ),
        "{error:?}"
    );
}
