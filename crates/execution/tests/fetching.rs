//! Files to mount, fetched over real TLS in a small internet of network namespaces.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(unused_imports, reason = "this test needs no client inside")]
mod lab;

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use domain::network_policy::NetworkPolicy;
use execution::{
    fetch::{FetchLimits, FetchedFile, Fetcher},
    runtime::RuntimeError,
};
use lab::{Lab, Plan};
use rcgen::CertifiedKey;
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use sha2::{Digest, Sha256};

/// Times that a test never comes to, on whatever machine, but where it is the one that is waited for.
const LIMITS: FetchLimits = FetchLimits {
    size: 1 << 20,
    whole: Duration::from_secs(120),
    quiet: Duration::from_secs(60),
};

/// How long a server says nothing more.
const SILENCE: Duration = Duration::from_secs(60);

/// A machine that believes one certificate, and servers that have it.
struct World {
    lab: Lab,
    dir: tempfile::TempDir,
    tls: Arc<ServerConfig>,
    roots: RootCertStore,
    /// Heads of the requests that any server heard.
    heard: Arc<Mutex<Vec<String>>>,
    limits: FetchLimits,
}

type Answer = fn(&str, &mut dyn Write);

impl World {
    fn new(names: &[(&str, &[&str])]) -> Self {
        let mut plan = Plan::new(NetworkPolicy::no_access());
        for (name, addresses) in names {
            plan = plan.name(name, addresses);
        }
        let subjects = ["files.example", "other.example", "xn--bcher-kva.example"];
        let subjects: Vec<String> = subjects.map(str::to_owned).to_vec();
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(subjects).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        Self {
            lab: plan.build(),
            dir: tempfile::tempdir().unwrap(),
            tls: Arc::new(tls),
            roots,
            heard: Arc::default(),
            limits: LIMITS,
        }
    }

    /// A server on the far side.
    fn server(&self, address: &str, answer: Answer) {
        let (tls, heard) = (self.tls.clone(), self.heard.clone());
        self.lab.server(address, move |mut tcp| {
            let mut session = ServerConnection::new(tls.clone()).unwrap();
            let mut stream = rustls::Stream::new(&mut session, &mut tcp);
            let (mut head, mut byte) = (String::new(), [0]);
            while !head.ends_with("\r\n\r\n") {
                match stream.read(&mut byte) {
                    Ok(1) => head.push(char::from(byte[0])),
                    _ => return,
                }
            }
            heard.lock().unwrap().push(head.clone());
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            answer(&path, &mut stream);
            session.send_close_notify();
            let _ = session.complete_io(&mut tcp);
        });
    }

    fn fetched(&self) -> PathBuf {
        let fetched = self.dir.path().join("fetched");
        fs::create_dir_all(&fetched).unwrap();
        fetched
    }

    fn fetcher(&self, reserve: u64) -> Fetcher {
        let (dir, table) = (self.fetched(), self.lab.table.clone());
        let roots = self.roots.clone();
        Fetcher::new(dir, reserve, Vec::new(), table, roots, self.limits).unwrap()
    }

    /// Fetches in the host's network.
    fn fetch_with(&self, fetcher: Fetcher, source: &str) -> Result<FetchedFile, RuntimeError> {
        let (source, runtime) = (source.to_owned(), self.lab.runtime.as_ref().unwrap());
        let fetching = runtime.spawn(async move { fetcher.fetch(&source).await });
        futures::executor::block_on(fetching).unwrap()
    }

    fn fetch(&self, source: &str) -> Result<FetchedFile, RuntimeError> {
        self.fetch_with(self.fetcher(0), source)
    }

    /// What is said of a file that did not come; nothing of it stays.
    #[track_caller]
    fn refused(&self, source: &str) -> String {
        match self.fetch(source) {
            Err(RuntimeError::Mount(text)) => {
                assert_eq!(fs::read_dir(self.fetched()).unwrap().count(), 0, "{source}");
                text
            }
            other => panic!("{source}: {other:?}"),
        }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn say(to: &mut dyn Write, text: &str) {
    let _ = to.write_all(text.as_bytes());
}

/// Redirects by path, and serves `/file`.
fn files(path: &str, to: &mut dyn Write) {
    let moved = |to: &mut dyn Write, status: &str, place: &str| {
        say(
            to,
            &format!("HTTP/1.1 {status}\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"),
        );
    };
    match path {
        "/file" | "/file?sig=token" => {
            say(to, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ncontent")
        }
        "/chunked" => say(
            to,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\ncon\r\n4\r\ntent\r\n0\r\n\r\n",
        ),
        "/until-close" => say(to, "HTTP/1.1 200 OK\r\n\r\ncontent"),
        "/empty" => say(to, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        "/hop5" => moved(to, "307 Temporary Redirect", "https://other.example/file"),
        "/loop" => moved(to, "302 Found", "/loop"),
        "/plain" => moved(to, "301 Moved Permanently", "http://other.example/file"),
        "/nowhere" => say(to, "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n"),
        "/to-name" => moved(to, "302 Found", "https://inside.example/file"),
        "/to-private" => moved(to, "302 Found", "https://10.1.2.3/file"),
        "/to-metadata" => moved(to, "302 Found", "https://169.254.169.254/file"),
        "/to-loopback" => moved(to, "302 Found", "https://[::1]/file"),
        "/to-mapped" => moved(to, "302 Found", "https://[::ffff:127.0.0.1]/file"),
        "/to-host" => moved(to, "302 Found", "https://192.0.2.1/file"),
        "/missing" => say(to, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        "/large" => say(to, "HTTP/1.1 200 OK\r\ncontent-length: 1048577\r\n\r\n"),
        "/endless" => {
            say(to, "HTTP/1.1 200 OK\r\n\r\n");
            let chunk = vec![b'x'; 64 * 1024];
            while to.write_all(&chunk).is_ok() {}
        }
        "/short" => say(to, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nconte"),
        // Says no more, for longer than anybody waits who has little patience.
        "/silent" => thread::sleep(SILENCE),
        "/stalled" => {
            say(to, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ncon");
            let _ = to.flush();
            thread::sleep(SILENCE);
        }
        "/trickle" => {
            say(to, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
            while to.write_all(b"x").is_ok() && to.flush().is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        }
        "/nonsense" => say(to, "SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        hop if hop.starts_with("/hop") => {
            let number: u32 = hop[4..].parse().unwrap();
            moved(to, "308 Permanent Redirect", &format!("hop{}", number + 1));
        }
        _ => panic!("{path}"),
    }
}

fn world() -> World {
    let world = World::new(&[
        ("files.example", &["203.0.113.1"]),
        ("xn--bcher-kva.example", &["203.0.113.1"]),
        ("other.example", &["203.0.113.2"]),
        ("stranger.example", &["203.0.113.2"]),
        ("inside.example", &["10.1.2.3"]),
        ("nothing.example", &["203.0.113.1"]),
    ]);
    for address in ["203.0.113.1", "203.0.113.2", "10.1.2.3", "169.254.169.254"] {
        world.server(&format!("{address}:443"), files);
    }
    world.server("203.0.113.1:8443", files);
    world
}

#[test]
fn a_file_is_fetched_once_and_goes_with_its_last_user() {
    let world = world();
    let source = "https://files.example/file?sig=token#part";
    let file = world.fetch(source).unwrap();
    assert_eq!(file.size, 7);
    assert_eq!(file.sha256, hex::encode(Sha256::digest(b"content")));
    assert_eq!(fs::read_to_string(&file.at).unwrap(), "content");
    let mode = fs::metadata(&file.at).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o444);
    let heard = world.heard();
    assert_eq!(heard.len(), 1);
    assert!(
        heard[0].starts_with("GET /file?sig=token HTTP/1.1\r\nhost: files.example\r\n"),
        "{}",
        heard[0]
    );
    drop(file);
    assert_eq!(fs::read_dir(world.fetched()).unwrap().count(), 0);
    for (source, size) in [
        ("https://files.example:8443/file", 7),
        ("https://FILES.example./file", 7),
        ("https://bücher.example/file", 7),
        ("https://files.example/chunked", 7),
        ("https://files.example/until-close", 7),
        ("https://files.example/empty", 0),
        // Five redirects, the last one to another host.
        ("https://files.example/hop1", 7),
    ] {
        assert_eq!(world.fetch(source).unwrap().size, size, "{source}");
    }
    assert!(
        world
            .heard()
            .iter()
            .any(|head| head.contains("host: files.example:8443"))
    );
}

#[test]
fn a_redirect_is_judged_like_the_first_address() {
    let world = world();
    for (path, words) in [
        ("hop0", "more than 5 times"),
        ("loop", "more than 5 times"),
        ("plain", "http://"),
        ("nowhere", "redirects to nowhere"),
        ("to-name", "inside.example leads to a private address"),
        ("to-private", "10.1.2.3 leads to a private address"),
        ("to-metadata", "169.254.169.254 leads to a private address"),
        ("to-loopback", "leads to a private address"),
        ("to-mapped", "leads to a private address"),
        ("to-host", "192.0.2.1 leads to a private address"),
    ] {
        let text = world.refused(&format!("https://files.example/{path}"));
        assert!(text.contains(words), "{path}: {text}");
    }
    for head in world.heard() {
        assert!(head.contains("host: files.example"), "{head}");
    }
}

#[test]
fn what_does_not_come_whole_is_refused_with_its_reason() {
    let world = world();
    for (source, words) in [
        ("https://files.example/missing", "404 Not Found"),
        (
            "https://files.example/large",
            "it has 2 MiB, and a file may have at most 1",
        ),
        ("https://files.example/endless", "more than 1 MiB"),
        ("https://files.example/short", "in the middle"),
        ("https://files.example/nonsense", "broke off"),
        ("https://absent.example/file", "does not resolve"),
        ("https://nothing.example:444/file", "cannot be reached"),
        ("https://stranger.example/file", "no secure connection"),
        ("https://inside.example/file", "private address"),
    ] {
        let text = world.refused(source);
        assert!(text.contains(words), "{source}: {text}");
        assert!(text.contains(source), "{text}");
    }
}

#[test]
fn what_comes_too_slowly_is_given_up_with_its_reason() {
    let mut world = world();
    world.limits.quiet = Duration::from_secs(2);
    for (path, words) in [
        ("silent", "did not answer in time"),
        ("stalled", "stopped in the middle"),
    ] {
        let text = world.refused(&format!("https://files.example/{path}"));
        assert!(text.contains(words), "{path}: {text}");
    }
    world.limits = FetchLimits {
        whole: Duration::from_secs(6),
        ..LIMITS
    };
    let text = world.refused("https://files.example/trickle");
    assert!(text.contains("longer than 6 seconds"), "{text}");
}

#[test]
fn a_message_shows_no_query() {
    let world = world();
    let text = world.refused("https://files.example:444/file?sig=token");
    assert!(text.contains("https://files.example:444/file?…"), "{text}");
    assert!(!text.contains("token"), "{text}");
}

#[test]
fn nobody_is_believed_whose_certificate_is_not_trusted() {
    let mut world = world();
    world.roots = RootCertStore::empty();
    let text = world.refused("https://files.example/file");
    assert!(
        text.contains("no secure connection to files.example"),
        "{text}"
    );
    assert_eq!(world.heard(), [""; 0]);
}

#[test]
fn a_disk_without_room_is_left_alone() {
    let world = world();
    let refused = world.fetch_with(world.fetcher(u64::MAX / 2), "https://files.example/file");
    assert!(
        matches!(&refused, Err(RuntimeError::Capacity(text)) if text.contains("no room")),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(world.fetched()).unwrap().count(), 0);
}
