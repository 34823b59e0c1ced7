//! What a client says inside a connection: the TLS server name, and the Host of HTTP. Needs root and nftables.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lab;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use domain::network_policy::NetworkPolicy;
use execution::egress::EgressOutcome;
use lab::{Ending, Lab, Plan, allow, connect, fate, hello, record, rules, said};

/// Far sides on 443 and 80 that keep what they hear.
struct Heard {
    lab: Lab,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Connections to 443 that have ended.
    ended: Arc<AtomicUsize>,
}

impl Heard {
    fn new(policy: NetworkPolicy) -> Self {
        let lab = Plan::new(policy)
            .name("good.example", &["203.0.113.1"])
            .name("other.example", &["203.0.113.1"])
            .name("cdn.example", &["203.0.113.1"])
            .build();
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let ended: Arc<AtomicUsize> = Arc::default();
        let (kept, over) = (bytes.clone(), ended.clone());
        lab.server("203.0.113.1:443", move |mut stream| {
            let mut buffer = [0; 64 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                kept.lock().unwrap().extend(&buffer[..read]);
            }
            let _ = stream.write_all(b"done");
            over.fetch_add(1, Ordering::SeqCst);
        });
        Self { lab, bytes, ended }
    }

    /// The same once the far side has seen its first connection end: a client that was reset knows of it earlier.
    fn take_after_the_end(&self) -> Vec<u8> {
        let deadline = Instant::now() + lab::PATIENCE;
        while self.ended.load(Ordering::SeqCst) == 0 {
            assert!(
                Instant::now() < deadline,
                "the far side's connection stays open"
            );
            std::thread::yield_now();
        }
        self.take()
    }

    /// What the far side heard up to the end of a connection to it.
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock().unwrap())
    }
}

#[test]
fn tls_passes_only_with_an_allowed_server_name() {
    let heard = Heard::new(rules(&[
        ("bad.cdn.example", false),
        ("*.cdn.example", true),
        ("good.example", true),
    ]));
    let good = hello(
        Some("good.example"),
        &[(43, &[2, 3, 4]), (16, b"\0\x03\x02h2")],
    );
    let through = Ending::Closed(b"done".to_vec());
    // A hello split over records, as a client may.
    let split = {
        let (a, b) = good[5..].split_at(30);
        [record(22, a), record(22, b)].concat()
    };
    let followed = [good.clone(), record(20, &[1]), record(23, &[9; 3000])].concat();
    for bytes in [
        good.clone(),
        hello(Some("GOOD.example."), &[]),
        hello(Some("x.cdn.example"), &[]),
        split,
        followed,
    ] {
        let sent = bytes.clone();
        assert_eq!(
            heard.lab.inside(move || said("good.example.:443", &sent)),
            through
        );
        assert_eq!(
            heard.take(),
            bytes,
            "the far side hears the client's bytes unchanged"
        );
    }

    let mut damaged = good.clone();
    let length = damaged.len();
    damaged[length - 6] = 200;
    let twice = hello(
        Some("good.example"),
        &[(0, &[0, 6, 0, 0, 3, b'b', b'a', b'd'])],
    );
    let mut two_names = vec![0, 30, 0, 0, 12];
    two_names.extend(b"good.example");
    two_names.extend([0, 0, 12]);
    two_names.extend(b"evil.example");
    for (what, bytes) in [
        ("another name", hello(Some("evil.example"), &[])),
        ("a denied name", hello(Some("bad.cdn.example"), &[])),
        ("no name", hello(None, &[(43, &[2, 3, 4])])),
        ("an empty name", hello(Some(""), &[])),
        (
            "a name with a NUL",
            hello(Some("good.example\0.evil.example"), &[]),
        ),
        ("two extensions", twice),
        ("two names", hello(None, &[(0, &two_names)])),
        (
            "an encrypted hello",
            hello(Some("good.example"), &[(0xfe0d, &[0; 40])]),
        ),
        ("a damaged hello", damaged),
        (
            "no TLS",
            b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n".to_vec(),
        ),
        ("SSH", b"SSH-2.0-client\r\n".to_vec()),
        (
            "an old hello",
            vec![0x80, 0x2e, 1, 3, 1, 0, 3, 0, 0, 0, 0x20],
        ),
        ("an alert first", record(21, &[2, 40])),
        (
            "endless records",
            record(22, &[&[1, 0, 0x7f, 0xff][..], &[0; 16_000]].concat()),
        ),
    ] {
        let ended = heard.lab.inside(move || said("good.example.:443", &bytes));
        assert_eq!(ended, Ending::Reset, "{what}");
        assert_eq!(heard.take(), b"", "{what}: the far side heard something");
    }
    let evil = heard.lab.record("evil.example", 443);
    assert_eq!((evil.outcome, evil.rule), (EgressOutcome::Denied, None));
    assert_eq!(
        evil.sentence(),
        "egress: blocked evil.example:443, no rule allows it (asked for over a connection to good.example)"
    );
    assert_eq!(heard.lab.record("bad.cdn.example", 443).rule, Some(0));
}

#[test]
fn a_second_tls_hello_cannot_name_another_server() {
    let heard = Heard::new(allow(&["good.example"]));
    let first = hello(Some("good.example"), &[]);
    let early = record(23, &[7; 5_000]);
    let same = [
        &first[..],
        &record(20, &[1]),
        &early,
        &hello(Some("good.example"), &[(44, b"cookie")]),
    ]
    .concat();
    let sent = same.clone();
    let ended = heard.lab.inside(move || said("good.example.:443", &sent));
    assert_eq!(ended, Ending::Closed(b"done".to_vec()));
    assert_eq!(heard.take(), same);

    let cancelled = record(21, &[1, 90]);
    for between in [
        Vec::new(),
        record(20, &[1]),
        early,
        cancelled.repeat(20),
        cancelled,
        record(22, &[]),
    ] {
        let heard = Heard::new(allow(&["good.example"]));
        let before = [&first[..], &between].concat();
        let sent = [&before[..], &hello(Some("evil.example"), &[])].concat();
        assert_eq!(
            heard.lab.inside(move || said("good.example.:443", &sent)),
            Ending::Reset
        );
        assert!(
            before.starts_with(&heard.take_after_the_end()),
            "the second hello went through"
        );
    }
}

#[test]
fn an_unrestricted_policy_asks_nothing_of_what_is_inside() {
    let heard = Heard::new(NetworkPolicy::Unrestricted);
    for bytes in [
        b"SSH-2.0-client\r\n".to_vec(),
        hello(None, &[]),
        hello(Some("any.test"), &[]),
    ] {
        let sent = bytes.clone();
        let ended = heard.lab.inside(move || said("good.example.:443", &sent));
        assert_eq!(ended, Ending::Closed(b"done".to_vec()));
        assert_eq!(heard.take(), bytes);
    }
}

#[test]
fn a_dialled_address_needs_no_server_name_but_may_not_have_a_denied_one() {
    let heard = Heard::new(rules(&[("203.0.113.1", true), ("good.example", true)]));
    let through = Ending::Closed(b"done".to_vec());
    for (server, expected) in [
        (None, &through),
        (Some("good.example"), &through),
        (Some("evil.example"), &Ending::Reset),
    ] {
        let bytes = hello(server, &[]);
        let ended = heard.lab.inside(move || said("203.0.113.1:443", &bytes));
        assert_eq!(&ended, expected, "{server:?}");
    }
}

/// Answers each request with its own first line, keeping connections open.
fn http_server(mut stream: TcpStream) {
    let mut heard = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        while let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&heard[..end]).into_owned();
            heard.drain(..end + 4);
            let length = |name: &str| {
                head.lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(|value| value.trim().parse::<usize>().unwrap())
            };
            if let Some(length) = length("Content-Length:") {
                while heard.len() < length {
                    match stream.read(&mut buffer) {
                        Ok(read @ 1..) => heard.extend(&buffer[..read]),
                        _ => return,
                    }
                }
                heard.drain(..length);
            }
            let line = head.lines().next().unwrap_or_default().to_owned();
            let answer = match line.split(' ').nth(1).unwrap_or_default() {
                "/redirect" => "HTTP/1.1 302 Found\r\nLocation: https://files.evil.example/x\r\nContent-Length: 0\r\n\r\n".into(),
                "/switch" => "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_owned(),
                "/stay" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno".to_owned(),
                _ if line.starts_with("HEAD") => "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n".to_owned(),
                "/chunked" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_owned(),
                _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len()),
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            if answer.contains(" 101 ") {
                return lab::echo(stream);
            }
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => heard.extend(&buffer[..read]),
            _ => return,
        }
    }
}

fn http_lab(policy: NetworkPolicy) -> Lab {
    let lab = Plan::new(policy)
        .name("good.example", &["203.0.113.1"])
        .name("other.example", &["203.0.113.1"])
        .build();
    lab.server("203.0.113.1:80", http_server);
    lab
}

fn text(ending: &Ending) -> String {
    match ending {
        Ending::Reset => "reset".into(),
        Ending::Closed(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

#[test]
fn http_passes_with_an_allowed_host_also_many_requests_on_one_connection() {
    let lab = http_lab(allow(&["good.example", "other.example"]));
    let requests = "GET /a HTTP/1.1\r\nHost: good.example\r\n\r\n\
        POST /b HTTP/1.1\r\nHost: GOOD.example.:80\r\nContent-Length: 5\r\n\r\nhello\
        HEAD /c HTTP/1.1\r\nHost: good.example\r\n\r\n\
        GET /chunked HTTP/1.1\r\nHost: other.example\r\n\r\n\
        GET http://good.example/d HTTP/1.1\r\nHost: good.example\r\n\r\n";
    let answers = text(&lab.inside(move || said("good.example.:80", requests.as_bytes())));
    for expected in [
        "GET /a HTTP/1.1",
        "POST /b HTTP/1.1",
        "\r\n0\r\n\r\n",
        "GET http://good.example/d HTTP/1.1",
    ] {
        assert!(answers.contains(expected), "{expected} is not in {answers}");
    }
    let upload = vec![b'x'; 3_000_000];
    let answer = lab.inside(move || {
        let head = format!(
            "POST /big HTTP/1.1\r\nHost: good.example\r\nContent-Length: {}\r\n\r\n",
            upload.len()
        );
        said("good.example.:80", &[head.as_bytes(), &upload].concat())
    });
    assert!(text(&answer).contains("POST /big"), "{answer:?}");
}

#[test]
fn another_host_in_any_request_of_a_connection_is_a_reset() {
    let lab = http_lab(allow(&["good.example"]));
    let first = "GET /a HTTP/1.1\r\nHost: good.example\r\n\r\n";
    let post = "POST /b HTTP/1.1\r\nHost: good.example\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "POST /b HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let evil = "GET /e HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    for before in ["", first, post, chunked] {
        let sent = format!("{before}{evil}");
        let ended = lab.inside(move || said("good.example.:80", sent.as_bytes()));
        assert!(!text(&ended).contains("GET /e"), "{before}");
        assert_eq!(ended, Ending::Reset, "{before}");
    }
    // One after the other, as a client with keep-alive does.
    let (answered, ended) = lab.inside(move || {
        let mut stream = connect("good.example.", 80);
        stream.write_all(first.as_bytes()).unwrap();
        let mut answer = [0; 16];
        let answered = stream.read_exact(&mut answer).is_ok();
        (answered, lab::say(&mut stream, evil.as_bytes()))
    });
    assert!(answered);
    assert_eq!(ended, Ending::Reset);
    let event = lab.record("evil.example", 80);
    assert_eq!(event.outcome, EgressOutcome::Denied);
}

#[test]
fn what_two_readers_could_take_in_two_ways_is_a_reset() {
    let lab = http_lab(allow(&["good.example"]));
    for (what, request) in [
        ("no Host", "GET / HTTP/1.1\r\n\r\n"),
        ("no Host, old", "GET / HTTP/1.0\r\n\r\n"),
        (
            "two Hosts",
            "GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n",
        ),
        (
            "a list",
            "GET / HTTP/1.1\r\nHost: good.example, evil.example\r\n\r\n",
        ),
        (
            "white space before the colon",
            "GET / HTTP/1.1\r\nHost : evil.example\r\nHost: good.example\r\n\r\n",
        ),
        (
            "a continued line",
            "GET / HTTP/1.1\r\nX: y\r\n Host: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        (
            "a bare line feed",
            "GET / HTTP/1.1\nHost: evil.example\n\r\nHost: good.example\r\n\r\n",
        ),
        (
            "a bare carriage return",
            "GET / HTTP/1.1\r\nX: y\rHost: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        (
            "two targets",
            "GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        ),
        (
            "a tunnel",
            "CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        ),
        (
            "a user",
            "GET http://good.example@evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        ),
        (
            "two lengths",
            "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ),
        (
            "length and chunks",
            "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (
            "odd chunks",
            "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: xchunked\r\n\r\n",
        ),
        (
            "chunks in a list",
            "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        ),
        (
            "a signed length",
            "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: +1\r\n\r\n",
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (
            "HTTP/2 by upgrade",
            "GET / HTTP/1.1\r\nHost: good.example\r\nUpgrade: h2c\r\n\r\n",
        ),
        ("HTTP/0.9", "GET /\r\n\r\n"),
        ("no HTTP", "\x16\x03\x01\x00\x00\r\n\r\n"),
        (
            "a leading line",
            "\r\nGET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
        ),
    ] {
        let ended = lab.inside(move || said("good.example.:80", request.as_bytes()));
        assert_eq!(ended, Ending::Reset, "{what}");
    }
    for (what, chunks) in [
        ("a chunk without an end", "3\r\nabcX\n0\r\n\r\n"),
        ("an extension", "3;x=y\r\nabc\r\n0\r\n\r\n"),
        ("a bare line feed", "3\nabc\r\n0\r\n\r\n"),
        ("no number", "g\r\n\r\n"),
        ("a huge number", "ffffffffffffffffff\r\n"),
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        let ended = lab.inside(move || said("good.example.:80", request.as_bytes()));
        assert_eq!(ended, Ending::Reset, "{what}");
    }
    let records = lab.network.report().records;
    let told = |outcome| records.iter().any(|record| record.outcome == outcome);
    assert!(told(EgressOutcome::Mismatch));
    let long = format!(
        "GET / HTTP/1.1\r\nHost: good.example\r\nX: {}",
        "y".repeat(100_000)
    );
    assert_eq!(
        lab.inside(move || said("good.example.:80", long.as_bytes())),
        Ending::Reset
    );
}

#[test]
fn a_websocket_passes_once_the_far_side_agrees_and_nothing_else_does() {
    let lab = http_lab(allow(&["good.example"]));
    let upgrade = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
    };
    let evil = "GET /e HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let sent = format!("{}\x01\x02frames", upgrade("/switch"));
    let switched = text(&lab.inside(move || said("good.example.:80", sent.as_bytes())));
    assert!(
        switched.starts_with("HTTP/1.1 101 ") && switched.ends_with("\x01\x02frames"),
        "{switched}"
    );
    let sent = format!("{}{evil}", upgrade("/stay"));
    assert_eq!(
        lab.inside(move || said("good.example.:80", sent.as_bytes())),
        Ending::Reset
    );
}

#[test]
fn a_redirect_to_a_host_that_is_refused_names_the_host_that_redirected() {
    let lab = http_lab(allow(&["good.example"]));
    lab.inside(|| {
        let request = "GET /redirect HTTP/1.1\r\nHost: good.example\r\n\r\n";
        let answer = text(&said("good.example.:80", request.as_bytes()));
        assert!(answer.contains("302"), "{answer}");
        assert_eq!(lab::lookup("files.evil.example."), None);
    });
    let event = lab.record("files.evil.example", 0);
    assert_eq!(event.redirected_from.as_deref(), Some("good.example"));
    let expected =
        "egress: blocked files.evil.example, no rule allows it (good.example redirected to it)";
    assert_eq!(event.sentence(), expected);
}

#[test]
fn a_dialled_address_may_be_its_own_host() {
    let lab = http_lab(allow(&["203.0.113.1"]));
    let ask = |host: &str| {
        let request = format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n");
        text(&lab.inside(move || said("203.0.113.1:80", request.as_bytes())))
    };
    assert!(ask("203.0.113.1").contains("GET /a"));
    assert_eq!(ask("good.example"), "reset");
    assert_eq!(lab.inside(|| fate("203.0.113.2:80")), Ending::Reset);
}
