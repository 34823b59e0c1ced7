//! Logs.

use control::ports::{
    Admission, Appended, Doorbell, LogAppend, RunChange, Store, StoreError, Topic, Written,
};
use domain::{
    ids::SetupRunId,
    setup_run::{Command, LogLine},
};

use super::fixture::{admit, at_once, driven, step, with_environment};
use crate::common::{Bed, rows};

fn run() -> SetupRunId {
    rows::id(200)
}

fn batch(attempt: Option<u32>, lines: Vec<LogLine>) -> LogAppend {
    LogAppend {
        setup_run_id: run(),
        attempt,
        lines,
        truncated: false,
        open: false,
    }
}

async fn append(bed: &Bed, lines: &[(u64, &str)]) {
    let lines = lines.iter().map(|(seq, text)| rows::line(*seq, text));
    let done = bed.db.append_log(&batch(Some(1), lines.collect())).await;
    assert_eq!(done.unwrap(), Appended::Done);
}

async fn ours(bed: &Bed, text: &str) {
    let done = bed
        .db
        .append_log(&batch(None, vec![rows::system(text)]))
        .await;
    assert_eq!(done.unwrap(), Appended::Done);
}

/// The whole log as texts; the numbers are checked to have no gap.
async fn texts(bed: &Bed) -> Vec<String> {
    let log = bed.db.log_lines(run(), 0, 1_000_000).await.unwrap();
    for (seq, line) in (1..).zip(&log.lines) {
        assert_eq!(line.seq, seq);
    }
    let row = bed.db.run(run()).await.unwrap().unwrap();
    let bytes: usize = log.lines.iter().map(|line| line.text.len()).sum();
    assert_eq!(row.log.lines, log.lines.len() as u64);
    assert_eq!(row.log.bytes, bytes as u64);
    log.lines.into_iter().map(|line| line.text).collect()
}

pub async fn lines_are_counted_and_paged(bed: &Bed) {
    driven(bed).await;
    let bell = bed.db.listen(Topic::Run(run()));
    append(bed, &[(2, "two ü"), (3, "three \u{0} \u{1b}[31m")]).await;
    assert!(bell.has_changed().unwrap());
    append(bed, &[(4, "")]).await;
    assert_eq!(
        texts(bed).await,
        ["admitted", "two ü", "three \u{0} \u{1b}[31m", ""]
    );
    let page = bed.db.log_lines(run(), 1, 2).await.unwrap();
    assert_eq!(
        page.lines,
        [
            rows::line(2, "two ü"),
            rows::line(3, "three \u{0} \u{1b}[31m")
        ]
    );
    assert!(
        bed.db
            .log_lines(run(), 4, 9)
            .await
            .unwrap()
            .lines
            .is_empty()
    );
    assert!(
        bed.db
            .log_lines(run(), u64::MAX, 9)
            .await
            .unwrap()
            .lines
            .is_empty()
    );
    assert!(
        bed.db
            .log_lines(run(), 0, 0)
            .await
            .unwrap()
            .lines
            .is_empty()
    );
    assert!(
        bed.db
            .log_lines(rows::id(9), 0, 9)
            .await
            .unwrap()
            .lines
            .is_empty()
    );
}

pub async fn a_repeated_batch_changes_nothing(bed: &Bed) {
    driven(bed).await;
    let lines = [(2, "a"), (3, "b"), (4, "c")];
    append(bed, &lines).await;
    let bell = bed.db.listen(Topic::Run(run()));
    append(bed, &lines).await;
    append(bed, &lines[..2]).await;
    append(bed, &[]).await;
    assert!(!bell.has_changed().unwrap());
    assert_eq!(texts(bed).await, ["admitted", "a", "b", "c"]);
    append(bed, &[(3, "b"), (4, "c"), (5, "d")]).await;
    assert_eq!(texts(bed).await, ["admitted", "a", "b", "c", "d"]);
}

pub async fn an_open_line_grows_in_place(bed: &Bed) {
    driven(bed).await;
    append(bed, &[(2, "a"), (3, "Progr")]).await;
    append(bed, &[(3, "Progress: 1")]).await;
    append(
        bed,
        &[(3, "Progress: 100"), (4, "next"), (4, "next, longer")],
    )
    .await;
    append(bed, &[(4, "next, longer still"), (5, "last")]).await;
    assert_eq!(
        texts(bed).await,
        [
            "admitted",
            "a",
            "Progress: 100",
            "next, longer still",
            "last"
        ]
    );
}

pub async fn a_late_repeat_does_not_shorten_a_line(bed: &Bed) {
    driven(bed).await;
    append(bed, &[(2, "a"), (3, "Progr")]).await;
    append(bed, &[(3, "Progress")]).await;
    append(bed, &[(2, "a"), (3, "Progr")]).await;
    assert_eq!(texts(bed).await, ["admitted", "a", "Progress"]);
}

pub async fn a_batch_with_news_may_shorten_the_open_line(bed: &Bed) {
    driven(bed).await;
    append(bed, &[(2, "downloading 99%")]).await;
    append(bed, &[(2, "done"), (3, "next")]).await;
    append(bed, &[(2, "downloading 99%")]).await;
    assert_eq!(texts(bed).await, ["admitted", "done", "next"]);
}

pub async fn lines_of_ours_between_a_workers_lose_nothing(bed: &Bed) {
    driven(bed).await;
    append(bed, &[(2, "a"), (3, "op")]).await;
    ours(bed, "cancellation asked for").await;
    append(bed, &[(3, "open")]).await;
    append(bed, &[(3, "open, done"), (4, "b")]).await;
    ours(bed, "once more").await;
    append(bed, &[(3, "open, done"), (4, "b")]).await;
    append(bed, &[(5, "c")]).await;
    assert_eq!(
        texts(bed).await,
        [
            "admitted",
            "a",
            "open, done",
            "cancellation asked for",
            "b",
            "once more",
            "c"
        ]
    );
}

pub async fn the_attempt_that_lost_the_run_is_fenced(bed: &Bed) {
    let held = driven(bed).await;
    append(bed, &[(2, "a")]).await;
    let fenced = |attempt: u32| async move {
        let line = rows::line(3, "b");
        bed.db
            .append_log(&batch(Some(attempt), vec![line]))
            .await
            .unwrap()
    };
    assert_eq!(
        fenced(2).await,
        Appended::Fenced,
        "an attempt that is not there yet"
    );
    step(
        bed,
        held.setup_run_id,
        &Command::Lose { attempt: 1 },
        |_| (),
    )
    .await;
    assert_eq!(fenced(1).await, Appended::Fenced, "nobody drives it");
    step(bed, held.setup_run_id, &Command::Claim, |_| ()).await;
    assert_eq!(
        fenced(1).await,
        Appended::Fenced,
        "another attempt drives it"
    );
    assert_eq!(texts(bed).await, ["admitted", "a"]);
    let unknown = LogAppend {
        setup_run_id: rows::id(999),
        ..batch(Some(1), vec![rows::line(1, "x")])
    };
    assert_eq!(bed.db.append_log(&unknown).await.unwrap(), Appended::Fenced);
}

pub async fn a_new_attempt_goes_on_after_the_old_lines(bed: &Bed) {
    let held = driven(bed).await;
    append(bed, &[(2, "a"), (3, "b"), (4, "half a li")]).await;
    step(
        bed,
        held.setup_run_id,
        &Command::Lose { attempt: 1 },
        |_| (),
    )
    .await;
    ours(bed, "tried again").await;
    step(bed, held.setup_run_id, &Command::Claim, |_| ()).await;
    // It was told 6 at its claim; a line of ours came before its first batch.
    ours(bed, "claimed").await;
    let second = |lines| batch(Some(2), lines);
    for _ in 0..2 {
        let lines = vec![rows::line(6, "c"), rows::line(7, "d")];
        let done = bed.db.append_log(&second(lines)).await;
        assert_eq!(done.unwrap(), Appended::Done);
    }
    assert_eq!(
        texts(bed).await,
        [
            "admitted",
            "a",
            "b",
            "half a li",
            "tried again",
            "claimed",
            "c",
            "d"
        ]
    );
}

pub async fn nothing_is_appended_after_the_end_but_our_own_lines(bed: &Bed) {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    step(bed, run(), &Command::RequestCancel, |_| ()).await;
    let late = bed
        .db
        .append_log(&batch(Some(0), vec![rows::line(2, "x")]))
        .await;
    assert_eq!(late.unwrap(), Appended::Fenced);
    ours(bed, "cleaned up").await;
    assert_eq!(texts(bed).await, ["admitted", "cleaned up"]);
}

pub async fn truncation_is_remembered(bed: &Bed) {
    driven(bed).await;
    let truncated = LogAppend {
        truncated: true,
        ..batch(Some(1), Vec::new())
    };
    for _ in 0..2 {
        assert_eq!(bed.db.append_log(&truncated).await.unwrap(), Appended::Done);
    }
    append(bed, &[(2, "a")]).await;
    assert!(bed.db.run(run()).await.unwrap().unwrap().log.truncated);
}

pub async fn a_page_may_cut_through_batches(bed: &Bed) {
    driven(bed).await;
    let mut seq = 2;
    for size in [1_u64, 7, 700, 3, 1_200, 2] {
        let lines = (seq..seq + size).map(|seq| rows::line(seq, &format!("line {seq}")));
        seq += size;
        let done = bed.db.append_log(&batch(Some(1), lines.collect())).await;
        assert_eq!(done.unwrap(), Appended::Done);
    }
    let total = seq - 1;
    for (after, limit) in [
        (0, 1),
        (0, 5),
        (7, 3),
        (8, 700),
        (500, 500),
        (1_000, 2_000),
        (1_912, 9),
    ] {
        let page = bed.db.log_lines(run(), after, limit).await.unwrap();
        let seqs: Vec<u64> = page.lines.iter().map(|line| line.seq).collect();
        let expected: Vec<u64> = (after + 1..=total.min(after + u64::from(limit))).collect();
        assert_eq!(seqs, expected, "after {after}, at most {limit}");
    }
    let mut after = 0;
    while after < total {
        let page = bed.db.log_lines(run(), after, 97).await.unwrap();
        assert_eq!(page.lines.first().map(|line| line.seq), Some(after + 1));
        after = page.lines.last().unwrap().seq;
    }
}

pub async fn racing_appends_keep_every_line(bed: &Bed) {
    driven(bed).await;
    at_once(bed, 40, |db, number| async move {
        let line = rows::system(&format!("line {number}"));
        db.append_log(&batch(None, vec![line])).await.unwrap()
    })
    .await;
    let mut lines = texts(bed).await;
    assert_eq!(lines.len(), 41);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 41);
}

pub async fn old_logs_are_removed_and_say_so(bed: &Bed) {
    let mut environment = with_environment(bed).await;
    for number in 200..203 {
        assert_eq!(admit(bed, &environment, number).await, Admission::Admitted);
        environment.version += 1;
        let finished = Some(rows::at(i64::try_from(number).unwrap()));
        step(bed, rows::id(number), &Command::RequestCancel, |run| {
            run.finished_at = finished;
        })
        .await;
    }
    assert_eq!(admit(bed, &environment, 203).await, Admission::Admitted);
    let remove = |seconds| bed.db.delete_logs(rows::at(seconds), rows::at(500));
    assert_eq!(remove(200).await.unwrap(), 0);
    assert_eq!(remove(202).await.unwrap(), 2);
    assert_eq!(remove(202).await.unwrap(), 0);
    for (number, lines) in [(200, 0), (201, 0), (202, 1), (203, 1)] {
        let row = bed.db.run(rows::id(number)).await.unwrap().unwrap();
        let log = bed.db.log_lines(rows::id(number), 0, 9).await.unwrap();
        assert_eq!(log.lines.len(), lines);
        assert_eq!(row.log.lines, 1, "the summary stays");
        let removed = (lines == 0).then(|| rows::at(500));
        assert_eq!(row.log.removed_at, removed);
    }
}

pub async fn an_unreadable_batch_is_named(bed: &Bed) {
    driven(bed).await;
    append(bed, &[(2, "a")]).await;
    for text in [
        "UPDATE setup_run_logs SET lines = '[[\"o\",null,0'",
        "UPDATE setup_run_logs SET lines = '[[\"z\",null,0,\"x\"]]'",
    ] {
        bed.raw(text).await;
        let error = bed.db.log_lines(run(), 0, 9).await.unwrap_err();
        assert!(
            matches!(
                &error,
                StoreError::Corrupt {
                    table: "setup_run_logs",
                    column: "lines",
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

pub async fn appending_does_not_spoil_a_compare_and_set(bed: &Bed) {
    let mut row = driven(bed).await;
    append(bed, &[(2, "a")]).await;
    let expected = row.version;
    row.version += 1;
    row.record.message = "Running.".to_owned();
    let change = RunChange {
        expected,
        row: &row,
        system_line: None,
    };
    let done = bed.db.update_run(change, None, rows::none()).await;
    assert_eq!(done.unwrap(), Written::Done);
    assert_eq!(
        texts(bed).await,
        ["admitted", "a"],
        "the older counters were not written back"
    );
}

/// Appends one line that may still change, or not.
async fn one(bed: &Bed, seq: u64, text: &str, open: bool) -> Option<u64> {
    let append = LogAppend {
        open,
        ..batch(Some(1), vec![rows::line(seq, text)])
    };
    assert_eq!(bed.db.append_log(&append).await.unwrap(), Appended::Done);
    bed.db.run(run()).await.unwrap().unwrap().log.open
}

pub async fn an_open_line_is_known_until_it_is_whole(bed: &Bed) {
    driven(bed).await;
    assert_eq!(one(bed, 2, "whole", false).await, None);
    assert_eq!(one(bed, 3, "work", true).await, Some(3));
    assert_eq!(one(bed, 3, "working", true).await, Some(3));
    // A note of ours in between changes nothing of it.
    ours(bed, "a note").await;
    assert_eq!(one(bed, 3, "working...", true).await, Some(3));
    let bell = bed.db.listen(Topic::Run(run()));
    assert_eq!(
        one(bed, 3, "working...", false).await,
        None,
        "closed as it is"
    );
    assert!(bell.has_changed().unwrap(), "readers wait for that");
    assert_eq!(one(bed, 3, "working...", true).await, None, "a late repeat");
    assert_eq!(
        one(bed, 4, "next", true).await,
        Some(5),
        "under the store's number"
    );
    assert_eq!(one(bed, 5, "another", false).await, None);
    assert_eq!(
        texts(bed).await,
        [
            "admitted",
            "whole",
            "working...",
            "a note",
            "next",
            "another"
        ]
    );
}
