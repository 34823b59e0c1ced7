//! A running server with real sandboxes, asked over its REST API and its console's door.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::place::Place;

/// Numbers of idempotency keys.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// Runner images that were built for tests.
pub fn images_dir() -> PathBuf {
    std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from)
}

impl Place {
    /// Gives the data directory the small runner image.
    pub fn with_images(self) -> Self {
        let images = self.data().join("images");
        fs::create_dir_all(&images).unwrap();
        std::os::unix::fs::symlink(images_dir().join("runner"), images.join("runner")).unwrap();
        self
    }

    /// Adds to the settings file.
    pub fn configure(&self, more: &str) {
        let path = self.dir.path().join("groundwork.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text + more).unwrap();
    }

    /// Makes an admin; its API key.
    pub fn admin_key(&self) -> String {
        let email = ["--email", "a@example.com", "--role", "admin"];
        let made = self.run(&[&["admin", "create-member"], &email[..]].concat());
        assert!(made.status.success(), "{made:?}");
        let key = self.run(&[&["admin", "create-api-key"], &email[..]].concat());
        String::from_utf8(key.stdout).unwrap().trim().to_owned()
    }
}

pub struct Running {
    child: Child,
    pub address: String,
}

/// An answer of the console's door.
#[derive(Debug)]
pub struct Answer {
    pub head: String,
    pub body: String,
}

impl Running {
    pub fn start(place: &Place, env: &[(&str, &str)]) -> Self {
        let log = place.dir.path().join("log");
        let mut child = place
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .env("GROUNDWORK_RUNNER_IMAGE", "groundwork/runner:small")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        let address = first
            .trim()
            .strip_prefix("Groundwork is at http://")
            .unwrap_or_else(|| panic!("{first:?}: {}", read(&log)))
            .to_owned();
        Self { child, address }
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn send(&self, method: &str, path: &str, heads: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{heads}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer {
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// A call of the API that succeeds.
    pub fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> Value {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let number = KEYS.fetch_add(1, Ordering::Relaxed);
        let heads = format!(
            "authorization: Bearer {key}\r\nidempotency-key: test-{number}\r\ncontent-type: application/json\r\n"
        );
        let path = match path.strip_prefix("/groundwork/") {
            Some(_) => path.to_owned(),
            None => format!("/managed-agents/v1{path}"),
        };
        let answer = self.send(method, &path, &heads, &text);
        assert!(
            answer.head.starts_with("HTTP/1.1 20"),
            "{method} {path}: {answer:?}"
        );
        serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
    }

    /// A form of the console, as its script posts it.
    pub fn post(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let heads = format!(
            "accept: application/json\r\nsec-fetch-site: same-origin\r\ncookie: {cookie}\r\n\
             content-type: application/x-www-form-urlencoded\r\n"
        );
        let answer = self.send("POST", path, &heads, &body);
        assert!(answer.head.starts_with("HTTP/1.1 20"), "{path}: {answer:?}");
        answer
    }

    /// Signs in to the console; the cookie.
    pub fn sign_in(&self, email: &str, password: &str) -> String {
        let answer = self.post(
            "/fn/sign-in",
            "",
            &[("email", email), ("password", password)],
        );
        let set = answer
            .head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: groundwork_session="));
        let value = set.and_then(|set| set.split(';').next());
        format!(
            "groundwork_session={}",
            value.unwrap_or_else(|| panic!("{answer:?}"))
        )
    }

    /// Waits for a run's end.
    pub fn ended(&self, key: &str, environment: &str, run: &str, within: Duration) -> Value {
        let path = format!("/environments/{environment}/setup-runs/{run}");
        let begun = Instant::now();
        loop {
            let answer = self.ask("GET", &path, key, &Value::Null);
            let status = answer["status"].as_str().unwrap();
            if ["succeeded", "failed", "cancelled"].contains(&status) {
                return answer;
            }
            assert!(begun.elapsed() < within, "not within {within:?}: {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Text of an id in an answer.
pub fn text(answer: &Value, name: &str) -> String {
    answer[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name}: {answer}"))
        .to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
