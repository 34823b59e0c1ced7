use domain::{
    ids::{EnvironmentId, SetupRunId},
    setup_run::{Kind, Phase, Status, Stream},
    timestamp::Timestamp,
};
use wire::console::LogView;

use super::*;

fn run(version: i64, status: Status, lines: u64) -> RunView {
    let id = "019a0000-0000-7000-8000-000000000001";
    let environment: Result<EnvironmentId, _> = id.parse();
    let run: Result<SetupRunId, _> = id.parse();
    RunView {
        environment_id: environment.unwrap_or_else(|_| unreachable!()),
        setup_run_id: run.unwrap_or_else(|_| unreachable!()),
        short_id: String::new(),
        kind: Kind::Manual,
        status,
        status_label: String::new(),
        finished: status.is_terminal(),
        version,
        attempt: 1,
        cancelling: false,
        phase: Phase::Setup,
        phases: Vec::new(),
        message: String::new(),
        outcome: None,
        by: String::new(),
        created_at: Timestamp::default(),
        started_at: None,
        finished_at: None,
        now: Timestamp::default(),
        elapsed_ms: 0,
        script_elapsed_ms: None,
        timeout_seconds: 600,
        running_line: None,
        script_lines: 1,
        last_output_at: None,
        exit_code: None,
        failed_line: None,
        failed_command: None,
        hint_code: None,
        hint: None,
        hint_host: None,
        hint_group: None,
        raise: None,
        stderr_tail: None,
        failure_code: None,
        log: LogView {
            lines,
            ..LogView::default()
        },
        image: None,
        image_capture_message: None,
        disk: None,
        may_cancel: false,
        may_change: false,
    }
}

fn line(seq: u64, text: &str) -> LogLine {
    LogLine {
        seq,
        stream: Stream::Stdout,
        line: None,
        text: text.to_owned(),
        at: Timestamp::default(),
    }
}

fn texts(follower: &Follower) -> Vec<&str> {
    let lines = follower.lines();
    (1..=lines.last())
        .filter_map(|seq| lines.get(seq))
        .map(|line| line.text.as_str())
        .collect()
}

#[test]
fn lines_are_appended_once_and_an_open_one_grows() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    assert!(
        follower
            .take(Frame::Lines(vec![line(1, "a"), line(2, "work")]))
            .lines
    );
    assert_eq!(follower.link(), &Link::Live);
    assert!(follower.take(Frame::Lines(vec![line(2, "working")])).lines);
    assert!(
        !follower
            .take(Frame::Lines(vec![line(1, "a"), line(2, "working")]))
            .lines
    );
    assert_eq!(texts(&follower), ["a", "working"]);
}

#[test]
fn a_lost_connection_resumes_at_the_last_line_that_may_have_been_open() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    assert_eq!(follower.cursor(), 0);
    follower.take(Frame::Lines(vec![line(1, "a"), line(2, "b")]));
    assert_eq!(follower.closed(None), Next::Again(250));
    assert_eq!(follower.link(), &Link::Reconnecting);
    assert_eq!(follower.cursor(), 1);
    follower.take(Frame::Lines(vec![line(2, "b, longer"), line(3, "c")]));
    assert_eq!(texts(&follower), ["a", "b, longer", "c"]);
}

#[test]
fn a_gap_drops_the_connection_instead_of_showing_a_hole() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    follower.take(Frame::Lines(vec![line(1, "a")]));
    assert!(follower.take(Frame::Lines(vec![line(3, "c")])).hang_up);
    assert_eq!(texts(&follower), ["a"]);
    assert!(matches!(follower.closed(None), Next::Again(_)));
}

#[test]
fn pauses_grow_to_ten_seconds_and_start_over_once_something_came() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    let pauses: Vec<Next> = (0..8)
        .map(|_| {
            // Connections that are made, and say no more than how the run stands.
            follower.take(Frame::State(Box::new(run(1, Status::Running, 0))));
            follower.closed(None)
        })
        .collect();
    assert_eq!(
        pauses,
        [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map(Next::Again)
    );
    follower.take(Frame::Beat);
    assert_eq!(follower.closed(None), Next::Again(250));
}

#[test]
fn it_is_over_at_the_end_frame_or_when_everything_is_here() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    assert!(follower.take(Frame::End).hang_up);
    assert_eq!(
        (follower.closed(None), follower.link()),
        (Next::Done, &Link::Complete)
    );

    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    follower.take(Frame::Lines(vec![line(1, "a")]));
    follower.take(Frame::State(Box::new(run(2, Status::Succeeded, 2))));
    assert_eq!(follower.closed(None), Next::Again(250), "a line is missing");
    follower.take(Frame::State(Box::new(run(2, Status::Succeeded, 1))));
    assert_eq!(
        follower.closed(None),
        Next::Again(500),
        "the last line may have grown"
    );
    assert_eq!(follower.cursor(), 0);
    follower.take(Frame::Lines(vec![line(1, "a"), line(2, "b")]));
    assert_eq!(
        (follower.closed(None), follower.link()),
        (Next::Done, &Link::Complete)
    );
}

#[test]
fn a_refusal_stops_it_and_a_failure_does_not() {
    for (code, stops) in [
        (Code::Unauthorized, true),
        (Code::Forbidden, true),
        (Code::NotFound, true),
        (Code::ServiceUnavailable, false),
        (Code::InternalError, false),
        (Code::RateLimitExceeded, false),
    ] {
        let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
        assert_eq!(
            follower.closed(Some((code, "why"))) == Next::Done,
            stops,
            "{code}"
        );
    }
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    follower.take(Frame::Stopped("You were removed.".to_owned()));
    assert_eq!(
        follower.link(),
        &Link::Stopped("You were removed.".to_owned())
    );
    assert_eq!(follower.closed(None), Next::Done);
}

#[test]
fn the_end_of_a_log_is_enough_to_follow_from() {
    let tail = vec![line(99, "y"), line(100, "z")];
    let mut follower = Follower::new(run(1, Status::Running, 100), tail);
    assert_eq!(
        (follower.link(), follower.cursor()),
        (&Link::Connecting, 99)
    );
    follower.take(Frame::Lines(vec![line(100, "z"), line(101, "new")]));
    assert_eq!(texts(&follower), ["y", "z", "new"]);
    follower.fill(vec![line(98, "x"), line(99, "older news")]);
    assert_eq!(texts(&follower), ["x", "y", "z", "new"]);
}

#[test]
fn the_log_of_a_run_that_has_ended_needs_no_connection() {
    let follower = Follower::new(run(1, Status::Failed, 2), vec![line(2, "b")]);
    assert!(follower.is_over());
    assert_eq!(follower.link(), &Link::Complete);
}

#[test]
fn older_news_of_the_run_is_ignored() {
    let mut follower = Follower::new(run(5, Status::Running, 0), Vec::new());
    assert!(
        !follower
            .take(Frame::State(Box::new(run(4, Status::Queued, 0))))
            .run
    );
    assert!(
        follower
            .take(Frame::State(Box::new(run(6, Status::Succeeded, 0))))
            .run
    );
    assert_eq!(follower.run().status, Status::Succeeded);
}

#[test]
fn bytes_are_cut_into_lines_wherever_their_pieces_end() {
    let text = "{\"é\":1}\n{}\nrest".as_bytes();
    for size in 1..text.len() {
        let mut splitter = Splitter::default();
        let lines: Vec<Vec<u8>> = text
            .chunks(size)
            .flat_map(|piece| splitter.push(piece))
            .collect();
        assert_eq!(lines, ["{\"é\":1}".as_bytes(), b"{}"], "pieces of {size}");
        assert_eq!(splitter.rest, b"rest");
    }
}

#[test]
fn where_no_stream_comes_through_the_log_is_asked_for() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    assert_eq!(follower.closed(None), Next::Again(250));
    assert_eq!(follower.closed(None), Next::Ask(0));
    // More lines than one answer holds: the next question comes at once.
    let (change, next) = follower.asked(Some((run(2, Status::Running, 3), vec![line(1, "a")])));
    assert!(change.lines && change.run);
    assert_eq!((next, follower.link()), (Next::Ask(0), &Link::Asking));
    assert_eq!(follower.cursor(), 0);
    let rest = vec![line(1, "a"), line(2, "b"), line(3, "work")];
    let (_, next) = follower.asked(Some((run(2, Status::Running, 3), rest)));
    assert_eq!(next, Next::Ask(ASK_EVERY));
    // An open line grows, and nothing is doubled.
    let grown = vec![line(3, "working")];
    let (change, _) = follower.asked(Some((run(2, Status::Running, 3), grown)));
    assert!(change.lines);
    assert_eq!(texts(&follower), ["a", "b", "working"]);
    // Its end is the run's end with every line here.
    let (_, next) = follower.asked(Some((run(3, Status::Succeeded, 4), Vec::new())));
    assert!(matches!(next, Next::Ask(_)));
    let last = vec![line(3, "working"), line(4, "done")];
    let (_, next) = follower.asked(Some((run(3, Status::Succeeded, 4), last)));
    assert_eq!((next, follower.link()), (Next::Done, &Link::Complete));
}

#[test]
fn asking_gives_way_to_a_stream_that_comes_through() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    follower.closed(None);
    follower.closed(None);
    let quiet = |follower: &mut Follower| {
        let answer = (run(1, Status::Running, 0), Vec::new());
        follower.asked(Some(answer)).1
    };
    let asked: Vec<Next> = (0..60).map(|_| quiet(&mut follower)).collect();
    assert!(asked[..59].iter().all(|next| *next == Next::Ask(ASK_EVERY)));
    assert_eq!(asked[59], Next::Again(0));
    // Still nothing: back to asking at once. Something: as ever.
    assert_eq!(follower.closed(None), Next::Ask(0));
    follower.take(Frame::Beat);
    assert_eq!(follower.link(), &Link::Live);
    assert_eq!(follower.closed(None), Next::Again(250));
    // One that speaks and then falls silent is of no use either.
    follower.take(Frame::Beat);
    follower.fell_silent();
    assert!(matches!(follower.closed(None), Next::Again(_)));
    follower.take(Frame::Beat);
    follower.fell_silent();
    assert_eq!(follower.closed(None), Next::Ask(0));
}

#[test]
fn where_nothing_answers_at_all_it_is_tried_again_with_pauses() {
    let mut follower = Follower::new(run(1, Status::Running, 0), Vec::new());
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let mut next = follower.closed(None);
        if next == Next::Ask(0) {
            next = follower.asked(None).1;
        }
        assert_eq!(follower.link(), &Link::Reconnecting);
        pauses.push(next);
    }
    assert_eq!(
        pauses,
        [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map(Next::Again)
    );
}
