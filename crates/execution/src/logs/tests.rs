#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use domain::{
    redaction::Redactor,
    setup_run::{LogLine, Stream},
    timestamp::Timestamp,
};
use proptest::prelude::*;

use super::{Limits, Masking, NoRedaction, Pipeline, Redact};
use crate::runtime::Event;

mod open;

/// Masks one word.
struct Word(&'static str);

impl Redact for Word {
    fn line(&mut self, stream: Stream, text: &str) -> String {
        self.peek(stream, text)
    }
    fn peek(&self, _: Stream, text: &str) -> String {
        text.replace(self.0, "***")
    }
    fn safe_len(&self, text: &str) -> usize {
        (1..self.0.len())
            .rev()
            .find(|n| text.ends_with(&self.0[..*n]))
            .map_or(text.len(), |n| text.len() - n)
    }
    fn cut_len(&self, text: &str) -> usize {
        self.safe_len(text)
    }
    fn longest(&self) -> usize {
        self.0.len()
    }
    fn fresh(&self) -> Box<dyn Redact> {
        Box::new(Self(self.0))
    }
}

fn pipeline_with(redact: impl Redact + 'static, limits: Limits) -> Pipeline {
    let clock = AtomicI64::new(0);
    Pipeline::new(Box::new(redact), 1, 0, limits, move || {
        Timestamp::from_micros(clock.fetch_add(1, Ordering::Relaxed))
    })
}

fn pipeline() -> Pipeline {
    pipeline_with(NoRedaction, Limits::default())
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn output(stream: Stream, bytes: impl AsRef<[u8]>) -> Event {
    Event::Output {
        stream,
        bytes: Bytes::copy_from_slice(bytes.as_ref()),
    }
}

fn out(bytes: impl AsRef<[u8]>) -> Event {
    output(Stream::Stdout, bytes)
}

fn err(bytes: impl AsRef<[u8]>) -> Event {
    output(Stream::Stderr, bytes)
}

fn marker(line: u32, text: &str) -> Event {
    Event::Marker {
        line,
        text: text.to_owned(),
    }
}

/// What readers see: of each number its newest text.
fn settled(lines: Vec<LogLine>) -> Vec<LogLine> {
    let mut seen: Vec<LogLine> = Vec::new();
    for line in lines {
        match seen.last_mut() {
            Some(last) if last.seq == line.seq => *last = line,
            _ => seen.push(line),
        }
    }
    seen
}

fn lines(pipeline: &mut Pipeline) -> Vec<LogLine> {
    settled(pipeline.take_rest().map_or_else(Vec::new, |b| b.lines))
}

fn run(events: &[Event]) -> Vec<LogLine> {
    let mut pipeline = pipeline();
    for event in events {
        pipeline.event(event, ms(0));
    }
    pipeline.end_of_output(ms(0));
    lines(&mut pipeline)
}

fn texts(events: &[Event]) -> Vec<String> {
    run(events).into_iter().map(|l| l.text).collect()
}

#[test]
fn output_becomes_lines_of_plain_text() {
    let cases: &[(&str, &[&str])] = &[
        ("a\nb\n", &["a", "b"]),
        ("a\n\nb", &["a", "", "b"]),
        ("a\r\nb\r\n", &["a", "b"]),
        ("10%\r20%\r100%\n", &["100%"]),
        ("10%\r20%\rdone\nnext\n", &["done", "next"]),
        ("\r10%\r20%", &["20%"]),
        ("20%\r\u{1b}[K\n", &["20%"]),
        ("a\u{1b}[2K\u{1b}[1Gb\n", &["b"]),
        ("ab\u{8}\u{8}cd\n", &["cd"]),
        ("\u{1b}[31mred\u{1b}[0m\n", &["\u{1b}[31mred\u{1b}[0m"]),
        (
            "\u{1b}[38;2;1;2;3mx\u{1b}[m\n",
            &["\u{1b}[38;2;1;2;3mx\u{1b}[m"],
        ),
        ("a\u{1b}[2J\u{1b}[H\u{1b}[?25lb\n", &["ab"]),
        ("a\u{1b}]0;title\u{7}b\u{1b}]8;;x\u{1b}\\c\n", &["abc"]),
        ("a\u{1b}(Bb\u{1b}=c\u{1b}Pq\u{1b}\\d\n", &["abcd"]),
        ("a\u{7}\u{0}\u{7f}\u{85}\tb\n", &["a\tb"]),
        ("a\u{1b}[31\nb\n", &["a", "b"]),
        ("\u{1b}[>4;2mx\n", &["x"]),
    ];
    for (input, expected) in cases {
        assert_eq!(texts(&[out(input)]), *expected, "{input:?}");
    }
}

#[test]
fn invalid_bytes_are_marked_once_each_and_split_characters_are_whole() {
    assert_eq!(texts(&[out(b"a\xff\xfeb\n")]), ["a\u{fffd}\u{fffd}b"]);
    assert_eq!(texts(&[out(b"\xc3"), out(b"\xa9\n")]), ["é"]);
    assert_eq!(texts(&[out(b"\xe2"), out(b"\x9c"), out(b"\x93\n")]), ["✓"]);
    assert_eq!(texts(&[out(b"\xe2\x9c")]), ["\u{fffd}"]);
    assert_eq!(
        texts(&[out(b"\xc3"), marker(2, "b"), out(b"\xa9\n")]),
        ["b", "é"]
    );
    assert_eq!(
        texts(&[out(b"\xc3"), err(b"x\n"), out(b"\xa9\n")]),
        ["x", "é"]
    );
}

#[test]
fn lines_are_numbered_without_gaps_over_all_streams_and_know_their_script_line() {
    let mut pipeline = pipeline();
    pipeline.system("Starting.", ms(0));
    for event in [
        marker(1, "echo a"),
        out("a\n"),
        err("b\n"),
        marker(3, "cat <<E\nx\nE"),
        out("c"),
        marker(5, ""),
        out("c\nd\n"),
    ] {
        pipeline.event(&event, ms(0));
    }
    pipeline.end_of_output(ms(0));
    pipeline.system("Done.", ms(0));
    let got: Vec<(u64, Stream, Option<u32>, String)> = lines(&mut pipeline)
        .into_iter()
        .map(|l| (l.seq, l.stream, l.line, l.text))
        .collect();
    let expected = [
        (1, Stream::System, None, "Starting."),
        (2, Stream::Marker, Some(1), "echo a"),
        (3, Stream::Stdout, Some(1), "a"),
        (4, Stream::Stderr, Some(1), "b"),
        (5, Stream::Marker, Some(3), "cat <<E …"),
        (6, Stream::Stdout, Some(3), "cc"),
        (7, Stream::Stdout, Some(5), "d"),
        (8, Stream::System, None, "Done."),
    ]
    .map(|(seq, stream, line, text)| (seq, stream, line, text.to_owned()));
    assert_eq!(got, expected);
}

#[test]
fn a_marker_ends_an_unfinished_line() {
    assert_eq!(
        texts(&[out("abc"), marker(2, "b"), out("def\n")]),
        ["abc", "b", "def"]
    );
}

#[test]
fn an_unfinished_line_is_shown_after_a_while_and_extended() {
    let mut pipeline = pipeline();
    pipeline.event(&out("work"), ms(0));
    assert_eq!(pipeline.due(), Some(ms(250)));
    pipeline.tick(ms(249));
    assert!(pipeline.take_rest().is_none());
    pipeline.tick(ms(250));
    let first = pipeline.take_rest().unwrap().lines;
    assert_eq!((first[0].seq, first[0].text.as_str()), (1, "work"));
    assert_eq!(pipeline.due(), None);
    pipeline.event(&out("ing"), ms(300));
    assert_eq!(pipeline.due(), Some(ms(1250)));
    pipeline.tick(ms(1250));
    let second = pipeline.take_rest().unwrap().lines;
    assert_eq!((second[0].seq, second[0].text.as_str()), (1, "working"));
    pipeline.event(&out(" done\nnext\n"), ms(1300));
    let third: Vec<(u64, String)> = lines(&mut pipeline)
        .into_iter()
        .map(|l| (l.seq, l.text))
        .collect();
    assert_eq!(
        third,
        [(1, "working done".to_owned()), (2, "next".to_owned())]
    );
}

#[test]
fn a_shown_line_is_closed_when_another_is_written() {
    let mut pipeline = pipeline_with(Word("secret"), Limits::default());
    pipeline.event(&out("a sec"), ms(0));
    pipeline.tick(ms(300));
    pipeline.event(&err("b\n"), ms(310));
    pipeline.event(&out("ret c\n"), ms(320));
    let got: Vec<(u64, String)> = lines(&mut pipeline)
        .into_iter()
        .map(|l| (l.seq, l.text))
        .collect();
    assert_eq!(
        got,
        [
            (1, "a ".to_owned()),
            (2, "b".to_owned()),
            (3, "*** c".to_owned())
        ]
    );
}

#[test]
fn a_shown_progress_bar_keeps_its_last_frame() {
    let mut pipeline = pipeline();
    pipeline.event(&out("\r10%"), ms(0));
    pipeline.tick(ms(250));
    for percent in 11..100 {
        pipeline.event(&out(format!("\r{percent}%")), ms(300));
        pipeline.tick(ms(300));
    }
    pipeline.event(&out("\r100%\n"), ms(400));
    let all = pipeline.take_rest().unwrap().lines;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(settled(all)[0].text, "100%");
}

#[test]
fn a_secret_is_masked_also_when_it_comes_in_two_halves() {
    let mut pipeline = pipeline_with(Word("secret"), Limits::default());
    pipeline.event(&out("my sec"), ms(0));
    pipeline.tick(ms(300));
    let shown = pipeline.take_rest().unwrap().lines;
    assert_eq!(shown[0].text, "my ");
    pipeline.event(&out("ret!\n"), ms(600));
    assert_eq!(lines(&mut pipeline)[0].text, "my ***!");
}

#[test]
fn a_token_is_masked_wherever_the_reads_and_the_looks_fall() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    for cut in 1..token.len() {
        let redactor = Arc::new(Redactor::new(["hunter2-hunter2"]));
        let mut pipeline = pipeline_with(Masking::new(redactor), Limits::default());
        pipeline.event(&out(format!("x {}", &token[..cut])), ms(0));
        pipeline.tick(ms(300));
        pipeline.event(&err("between\n"), ms(310));
        pipeline.event(&out(format!("{} y\n", &token[cut..])), ms(320));
        let text: Vec<String> = lines(&mut pipeline).into_iter().map(|l| l.text).collect();
        let text = text.join("|");
        for part in [&token[..8], &token[4..12], &token[30..]] {
            assert!(!text.contains(part), "{cut}: {text}");
        }
    }
}

#[test]
fn the_end_of_stderr_is_masked_afresh() {
    let redactor = Arc::new(Redactor::new([]));
    let mut pipeline = pipeline_with(Masking::new(redactor), Limits::default());
    pipeline.event(&err("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n"), ms(0));
    pipeline.end_of_output(ms(0));
    let tail = pipeline.stderr_tail();
    assert!(
        tail.starts_with("a\n") && !tail.contains("MIIEow"),
        "{tail}"
    );
}

#[test]
fn a_secret_across_the_cut_of_a_long_line_is_masked() {
    let limits = Limits::default();
    for shift in 0..12 {
        let mut pipeline = pipeline_with(Word("secret"), limits);
        let before = "x".repeat(limits.line_bytes - shift);
        pipeline.event(&out(format!("{before}secret{before}\n")), ms(0));
        let all = lines(&mut pipeline);
        let text: String = all.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(text, format!("{before}***{before}"), "{shift}");
        assert!(all.iter().all(|l| l.text.len() <= limits.line_bytes + 8));
    }
}

#[test]
fn long_lines_are_cut_into_pieces() {
    let limits = Limits::default();
    let got = texts(&[out("é".repeat(limits.line_bytes)), out("\nx\n")]);
    assert_eq!(got.len(), 3);
    assert!(got[..2].iter().all(|t| t.len() == limits.line_bytes));
    assert_eq!(got[2], "x");
}

#[test]
fn past_the_limit_the_beginning_is_kept_and_the_end_of_stderr_known() {
    let limits = Limits {
        log_bytes: 110,
        ..Limits::default()
    };
    let mut pipeline = pipeline_with(Word("secret"), limits);
    pipeline.event(&out("0123456789\n".repeat(20)), ms(0));
    pipeline.event(&marker(3, "more"), ms(0));
    pipeline.event(&err("first\n".repeat(10_000)), ms(0));
    pipeline.event(&err("the secret cause\nlast"), ms(0));
    pipeline.end_of_output(ms(0));
    pipeline.system("Failed.", ms(0));
    let batch = pipeline.take_rest().unwrap();
    assert!(batch.truncated);
    let texts: Vec<&str> = batch.lines.iter().map(|l| l.text.as_str()).collect();
    assert_eq!(texts.len(), 12);
    assert!(texts[..10].iter().all(|t| *t == "0123456789"));
    assert!(texts[10].contains("limit"));
    assert_eq!(texts[11], "Failed.");
    let seqs: Vec<u64> = batch.lines.iter().map(|l| l.seq).collect();
    assert_eq!(seqs, (1..=12).collect::<Vec<u64>>());
    let tail = pipeline.stderr_tail();
    assert!(tail.ends_with("first\nthe *** cause\nlast"), "{tail}");
    assert!(tail.len() <= limits.tail_bytes);
}

#[test]
fn empty_lines_without_end_are_a_flood_too() {
    let limits = Limits {
        log_lines: 1_000,
        ..Limits::default()
    };
    let mut pipeline = pipeline_with(NoRedaction, limits);
    pipeline.event(&out("\n".repeat(5_000)), ms(0));
    pipeline.system("Done.", ms(0));
    let batch = pipeline.take_rest().unwrap();
    assert!(batch.truncated);
    assert_eq!(batch.lines.len(), 1_002);
    assert!(batch.lines[1_000].text.contains("1000 lines"));
}

#[test]
fn a_line_without_end_costs_bounded_memory() {
    let mut pipeline = pipeline();
    let chunk = out(vec![b'x'; 64 * 1024]);
    let bad = err(vec![0xc3; 64 * 1024]);
    for _ in 0..500 {
        pipeline.event(&chunk, ms(0));
        pipeline.event(&bad, ms(0));
    }
    let batch = pipeline.take_rest().unwrap();
    let bytes: usize = batch.lines.iter().map(|l| l.text.len()).sum();
    assert!(bytes <= 4 * 1024 * 1024 + 1024, "{bytes}");
    assert!(pipeline.stderr_tail().len() <= 2 * 1024);
}

#[test]
fn batches_are_due_by_count_size_and_age() {
    let mut pipeline = pipeline();
    pipeline.event(&out("a\n"), ms(1000));
    assert_eq!(pipeline.due(), Some(ms(1000)));
    assert_eq!(pipeline.take_batch(ms(1000)).unwrap().lines.len(), 1);
    pipeline.event(&out("b\n"), ms(1010));
    assert_eq!(pipeline.due(), Some(ms(1050)));
    assert!(pipeline.take_batch(ms(1049)).is_none());
    assert_eq!(pipeline.take_batch(ms(1050)).unwrap().lines.len(), 1);
    pipeline.event(&out("a\n".repeat(200)), ms(2000));
    assert_eq!(pipeline.take_batch(ms(2000)).unwrap().lines.len(), 200);
    pipeline.event(&out(format!("{}\n", "y".repeat(70_000))), ms(3000));
    assert!(pipeline.take_batch(ms(3000)).is_some());
    assert_eq!(pipeline.due(), None);
}

#[test]
fn an_escape_sequence_without_end_does_not_swallow_the_log() {
    let got = texts(&[out(format!("\u{1b}]0;{}\nafter\n", "x".repeat(10_000)))]);
    assert_eq!(got.last().unwrap(), "after");
}

#[test]
fn a_later_attempt_goes_on_where_the_log_stood() {
    let mut pipeline = Pipeline::new(
        Box::new(NoRedaction),
        7,
        4 * 1024 * 1024,
        Limits::default(),
        || Timestamp::from_micros(0),
    );
    pipeline.system("Trying again.", ms(0));
    pipeline.event(&out("dropped\n"), ms(0));
    let got = lines(&mut pipeline);
    assert_eq!((got[0].seq, got.len()), (7, 1));
}

/// Bytes that a script may write: text, control characters, sequences, rubbish.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\x1b[31m".to_vec()),
        Just(b"\x1b[2K".to_vec()),
        Just(b"\x1b]0;t\x07".to_vec()),
        Just("é✓日".as_bytes().to_vec()),
        Just(b"secret".to_vec()),
        Just(b"\x08".to_vec()),
        "[a-z ]{0,30}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|p| p.concat())
}

proptest! {
    #[test]
    fn any_chunks_give_the_same_lines(bytes in pieces(), cuts in proptest::collection::vec(1_usize..40, 1..40)) {
        let limits = Limits { line_bytes: 24, ..Limits::default() };
        let feed = |chunks: &[&[u8]]| {
            let mut pipeline = pipeline_with(Word("secret"), limits);
            for chunk in chunks {
                pipeline.event(&out(chunk), ms(0));
            }
            pipeline.end_of_output(ms(0));
            lines(&mut pipeline).into_iter().map(|l| (l.seq, l.text)).collect::<Vec<_>>()
        };
        let whole = feed(&[&bytes]);
        let mut rest = &bytes[..];
        let mut chunks = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, more) = rest.split_at((*cut).min(rest.len()));
            chunks.push(chunk);
            rest = more;
        }
        prop_assert_eq!(&feed(&chunks), &whole);
        for (i, (seq, text)) in whole.iter().enumerate() {
            prop_assert_eq!(*seq, i as u64 + 1);
            prop_assert!(!text.contains("secret"));
        }
    }

    #[test]
    fn no_time_of_looking_shows_a_secret_or_makes_a_gap(bytes in pieces(), cut in 1_usize..20) {
        let mut pipeline = pipeline_with(Word("secret"), Limits::default());
        let mut all = Vec::new();
        for (i, chunk) in bytes.chunks(cut).enumerate() {
            let at = ms(400 * i as u64);
            pipeline.event(&if i % 3 == 0 { err(chunk) } else { out(chunk) }, at);
            pipeline.tick(at + ms(300));
            all.extend(pipeline.take_rest().into_iter().flat_map(|b| b.lines));
        }
        pipeline.end_of_output(ms(1_000_000));
        all.extend(pipeline.take_rest().into_iter().flat_map(|b| b.lines));
        let mut last = 0;
        for line in &all {
            prop_assert!(line.seq == last || line.seq == last + 1);
            prop_assert!(!line.text.contains("secret"));
            last = line.seq;
        }
    }
}
