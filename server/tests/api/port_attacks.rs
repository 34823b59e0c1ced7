//! A server inside a session that means ill, and people who have no business at its port. The runtime is a fake: what is
//! tried here is what stands between a sandbox's HTTP and the console's host.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use testkit::TestApp;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpStream,
};

use crate::{
    coverage::sign_in,
    sessions::{listen, running},
    support::{DEVELOPER, Doors},
};

/// What the server inside heard, one text a connection.
pub(crate) type Heard = Arc<Mutex<Vec<String>>>;

async fn head(stream: &mut DuplexStream) -> Option<String> {
    let mut got = Vec::new();
    while !got.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4_096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => got.extend_from_slice(&piece[..n]),
        }
    }
    Some(String::from_utf8_lossy(&got).into_owned())
}

/// Serves port 8080: gives each request this answer, says no more, and listens on.
pub(crate) fn answering(
    app: &TestApp,
    answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) -> Heard {
    let (heard, answer) = (Heard::default(), Arc::new(answer));
    let told = heard.clone();
    app.host.serve(8080, move |mut stream| {
        let (told, answer) = (told.clone(), answer.clone());
        tokio::spawn(async move {
            let Some(head) = head(&mut stream).await else {
                return;
            };
            let answer = answer(&head);
            let place = {
                let mut told = told.lock().unwrap();
                told.push(head);
                told.len() - 1
            };
            let _ = stream.write_all(&answer).await;
            let mut more = [0; 4_096];
            while let Ok(n @ 1..) = stream.read(&mut more).await {
                let text = String::from_utf8_lossy(&more[..n]);
                told.lock().unwrap()[place].push_str(&text);
            }
        });
    });
    heard
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The address below which a session's port is open to a developer who signed in.
pub(crate) async fn place(doors: &Doors, session: &str, cookie: &str) -> String {
    let opened = doors
        .get(&format!("/sessions/{session}/http/"))
        .header("cookie", cookie)
        .send()
        .await;
    opened.header("location").unwrap().to_owned()
}

pub(crate) async fn opened() -> (Doors, String) {
    let doors = Doors::open().await;
    let session = running(&doors).await;
    let cookie = sign_in(&doors, DEVELOPER).await;
    let place = place(&doors, &session, &cookie).await;
    (doors, place)
}

/// What a server inside may not say to browsers about the console's host, nor to proxies before it.
const THEIRS: [(&str, &str); 40] = [
    ("set-cookie", "groundwork_session=stolen; Path=/"),
    ("set-cookie2", "groundwork_session=stolen"),
    ("clear-site-data", "\"*\""),
    ("service-worker-allowed", "/"),
    ("strict-transport-security", "max-age=0"),
    ("alt-svc", "h3=\"evil.example:443\""),
    ("public-key-pins", "max-age=9"),
    ("expect-ct", "enforce"),
    ("report-to", "{}"),
    ("reporting-endpoints", "x=\"https://evil.example\""),
    ("nel", "{}"),
    ("set-login", "logged-in"),
    ("sec-session-registration", "(ES256);path=\"/s\""),
    ("sec-session-challenge", "\"x\""),
    ("secure-session-registration", "(ES256);path=\"/s\""),
    ("secure-session-challenge", "\"x\""),
    ("proxy-authentication-info", "x=y"),
    ("shared-storage-write", "set;key=\"a\";value=\"b\""),
    ("observe-browsing-topics", "?1"),
    ("attribution-reporting-register-source", "{}"),
    ("attribution-reporting-register-trigger", "{}"),
    ("ad-auction-signals", "[]"),
    ("accept-ch-lifetime", "86400"),
    ("public-key-pins-report-only", "max-age=9"),
    ("accept-ch", "sec-ch-ua-model"),
    ("critical-ch", "sec-ch-ua-model"),
    ("use-as-dictionary", "match=\"/*\""),
    ("origin-agent-cluster", "?1"),
    ("access-control-allow-credentials", "true"),
    ("www-authenticate", "Basic realm=\"Groundwork\""),
    ("proxy-authenticate", "Basic realm=\"Groundwork\""),
    ("authentication-info", "x=y"),
    ("x-accel-redirect", "/etc/passwd"),
    ("x-accel-expires", "86400"),
    ("x-sendfile", "/etc/passwd"),
    ("x-lighttpd-send-file", "/etc/passwd"),
    ("x-litespeed-location", "/etc/passwd"),
    ("keep-alive", "timeout=9"),
    ("upgrade", "h2c"),
    ("trailer", "set-cookie"),
];

#[tokio::test]
async fn what_a_server_inside_says_of_the_consoles_host_is_taken_off() {
    let (doors, place) = opened().await;
    answering(&doors.app, |_| {
        let lines: String = THEIRS
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "HTTP/1.1 200 OK\r\n{lines}x-request-id: theirs\r\nx-accel-buffering: no\r\nx-own: kept\r\n\
             content-length: 0\r\n\r\n"
        )
        .into_bytes()
    });
    let answer = doors.get(&place).send().await;
    assert_eq!(answer.status, 200, "{answer:#?}");
    for (name, _) in THEIRS {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("x-own"), Some("kept"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_ne!(answer.header("x-request-id"), Some("theirs"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("sandbox allow-scripts"), "{policy}");
}

#[tokio::test]
async fn who_the_member_is_never_goes_in() {
    let (doors, place) = opened().await;
    let heard = answering(&doors.app, |_| ok(""));
    let mut call = doors.get(&place).header("x-mine", "kept");
    let private = [
        "cookie",
        "authorization",
        "proxy-authorization",
        "referer",
        "origin",
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-email",
        "x-forwarded-access-token",
        "x-real-ip",
        "x-remote-user",
        "x-auth-request-access-token",
        "x-amzn-oidc-data",
        "x-goog-iap-jwt-assertion",
        "cf-access-jwt-assertion",
        "sec-fetch-site",
    ];
    for name in private {
        call = call.header(name, "of-the-member");
    }
    assert_eq!(call.send().await.status, 200);
    let heard = heard.lock().unwrap().remove(0);
    assert!(heard.contains("x-mine: kept"), "{heard}");
    assert!(!heard.contains("of-the-member"), "{heard}");
}

#[tokio::test]
async fn an_answer_that_two_readers_could_take_in_two_ways_is_refused_or_made_one() {
    let (doors, place) = opened().await;
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(10_000));
    for (what, answer, expected) in [
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", None),
        (
            "a switch that nobody asked for",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            None,
        ),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            None,
        ),
        (
            "a length below zero",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            None,
        ),
        (
            "a NUL in a header",
            "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
            None,
        ),
        ("ten thousand headers", &many, None),
        (
            "a length and chunks",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            Some("abc"),
        ),
        (
            "more than the length",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            Some("abc"),
        ),
    ] {
        let bytes = answer.as_bytes().to_vec();
        answering(&doors.app, move |_| bytes.clone());
        let answer = doors.get(&place).send().await;
        match expected {
            None => {
                assert_eq!(answer.status, 503, "{what}: {answer:#?}");
                assert!(!answer.headers.contains_key("upgrade"), "{what}");
            }
            Some(body) => {
                assert_eq!(
                    (answer.status.as_u16(), &*answer.text),
                    (200, body),
                    "{what}"
                );
                let length = answer.header("content-length");
                assert!(
                    length.is_none_or(|length| length == "3"),
                    "{what}: {length:?}"
                );
            }
        }
    }
    answering(&doors.app, |_| ok("fine"));
    assert_eq!(doors.get(&place).send().await.text, "fine");
}

/// Serves port 8080 with something that never ends; how many bytes of it were taken.
fn endless(app: &TestApp, begin: &'static str, piece: Vec<u8>) -> Arc<AtomicU64> {
    let taken = Arc::<AtomicU64>::default();
    let told = taken.clone();
    app.host.serve(8080, move |mut stream| {
        let (told, piece) = (told.clone(), piece.clone());
        tokio::spawn(async move {
            if head(&mut stream).await.is_none()
                || stream.write_all(begin.as_bytes()).await.is_err()
            {
                return;
            }
            while stream.write_all(&piece).await.is_ok() {
                told.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        });
    });
    taken
}

#[tokio::test]
async fn a_head_without_end_is_cut_off_and_a_body_without_a_reader_waits() {
    let (doors, place) = opened().await;
    let line = format!("x: {}\r\n", "y".repeat(4_000));
    let taken = endless(&doors.app, "HTTP/1.1 200 OK\r\n", line.into_bytes());
    assert_eq!(doors.get(&place).send().await.status, 503);
    assert!(taken.load(Ordering::SeqCst) < 4 << 20, "{taken:?}");

    let begin = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let taken = endless(&doors.app, begin, vec![b'x'; 16 * 1024]);
    let unread = doors.get(&place).open().await;
    let (last, same) = (AtomicU64::new(0), AtomicU64::new(0));
    doors
        .app
        .eventually("the server inside waits", || async {
            let now = taken.load(Ordering::SeqCst);
            if last.swap(now, Ordering::SeqCst) == now && now > 0 {
                same.fetch_add(1, Ordering::SeqCst);
            } else {
                same.store(0, Ordering::SeqCst);
            }
            (same.load(Ordering::SeqCst) > 50).then_some(())
        })
        .await;
    assert!(taken.load(Ordering::SeqCst) < 4 << 20, "{taken:?}");
    drop(unread);
}

#[tokio::test]
async fn a_server_inside_that_hangs_is_given_up() {
    let (doors, place) = opened().await;
    let heard = answering(&doors.app, |_| b"HTTP/1.1 200 OK\r\nx: never".to_vec());
    let asking = doors.get(&place).send();
    let mut asking = std::pin::pin!(asking);
    let passing = doors.app.eventually("it was asked", || async {
        (!heard.lock().unwrap().is_empty()).then_some(())
    });
    tokio::select! {
        answer = &mut asking => panic!("{answer:#?}"),
        () = passing => {}
    }
    doors.app.clock.advance(Duration::from_secs(119));
    assert!(futures::poll!(&mut asking).is_pending());
    doors.app.clock.advance(Duration::from_secs(1));
    asking.await.refused(504, "gateway_timeout");
}

#[tokio::test]
async fn paths_hosts_and_whole_addresses_lead_to_the_port_and_nowhere_else() {
    let (doors, place) = opened().await;
    let heard = answering(&doors.app, |_| ok("inside"));
    let address = listen(doors.router()).await;
    let host = address.to_string();
    let base = place.trim_end_matches('/').to_owned();
    let ask = async |target: &str, host: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    for (rest, expected) in [
        ("/../../fn/sign-out", "/../../fn/sign-out"),
        ("/%2e%2e/%2f%00", "/%2e%2e/%2f%00"),
        ("//evil.example/", "//evil.example/"),
        ("/http://169.254.169.254/", "/http://169.254.169.254/"),
        ("/?next=http://10.0.0.1/", "/?next=http://10.0.0.1/"),
    ] {
        for (target, host) in [
            (format!("{base}{rest}"), host.as_str()),
            (format!("{base}{rest}"), "169.254.169.254"),
            (
                format!("http://169.254.169.254{base}{rest}"),
                "evil.example",
            ),
        ] {
            let answer = ask(&target, host).await;
            assert!(answer.ends_with("\r\n\r\ninside"), "{target}: {answer}");
            let heard = heard.lock().unwrap().pop().unwrap();
            assert!(
                heard.starts_with(&format!("GET {expected} HTTP/1.1\r\n")),
                "{target}: {heard}"
            );
            assert!(heard.contains("\r\nhost: localhost:8080\r\n"), "{heard}");
        }
    }
    // The token is one segment and nothing else.
    for target in [
        format!("{base}%2f"),
        format!("/s/..{base}/"),
        format!("//s{}/", &base[2..]),
        format!("{}/", base.to_uppercase()),
        format!("{}/", &base[..base.len() - 1]),
    ] {
        let answer = ask(&target, &host).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{target}: {answer}");
    }
    assert!(heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_request_hidden_in_anothers_body_comes_in_a_connection_of_its_own_or_not_at_all() {
    let (doors, place) = opened().await;
    let heard = answering(&doors.app, |_| ok("inside"));
    let address = listen(doors.router()).await;
    let hidden = format!("GET {place}hidden HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    for lengths in [
        format!(
            "content-length: {}\r\ntransfer-encoding: chunked",
            hidden.len() + 5
        ),
        format!(
            "transfer-encoding: chunked\r\ncontent-length: {}",
            hidden.len() + 5
        ),
        "content-length: 0\r\ncontent-length: 5".to_owned(),
        "transfer-encoding: chunked, identity".to_owned(),
        "transfer-encoding: identity\r\ncontent-length: 0".to_owned(),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("POST {place}a HTTP/1.1\r\nhost: x\r\n{lengths}\r\n\r\n0\r\n\r\n{hidden}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A refused request's connection may be reset.
        let _ = stream.read_to_end(&mut answer).await;
        for one in heard.lock().unwrap().drain(..) {
            assert_eq!(one.matches(" HTTP/1.1\r\n").count(), 1, "{lengths}: {one}");
        }
    }
}
