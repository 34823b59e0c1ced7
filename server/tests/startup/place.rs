//! A built program on a data directory of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A data directory of its own, and a settings file that names console files.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("site/pkg")).unwrap();
        fs::write(
            dir.path().join("groundwork.toml"),
            format!("site = {:?}\n", dir.path().join("site")),
        )
        .unwrap();
        Self { dir }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groundwork"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("GROUNDWORK_CONFIG", self.dir.path().join("groundwork.toml"))
            .env("GROUNDWORK_DATA", self.data())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Starts a server on a free port and waits until it says where it is.
    pub fn serve(&self, env: &[(&str, &str)]) -> Server {
        self.serve_as(&["serve", "--no-worker", "--listen", "127.0.0.1:0"], env)
    }

    /// The same with a worker that makes sandboxes.
    pub fn serve_with_worker(&self, env: &[(&str, &str)]) -> Server {
        self.serve_as(&["serve", "--listen", "127.0.0.1:0"], env)
    }

    fn serve_as(&self, args: &[&str], env: &[(&str, &str)]) -> Server {
        let mut child = self
            .command(args)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let address = first
            .trim()
            .strip_prefix("Groundwork is at http://")
            .unwrap_or_else(|| {
                let mut errors = String::new();
                child
                    .stderr
                    .take()
                    .unwrap()
                    .read_to_string(&mut errors)
                    .unwrap();
                panic!("{first:?}: {errors}")
            })
            .to_owned();
        Server {
            child,
            address,
            lines,
        }
    }
}

pub struct Server {
    pub child: Child,
    pub address: String,
    pub lines: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> (Option<i32>, String, Duration) {
        let start = Instant::now();
        let told = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(told.success());
        let code = self.child.wait().unwrap().code();
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (code, log, start.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one sentence on standard error of a program that ended with code 1.
#[track_caller]
pub fn fatal(output: &Output) -> String {
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 1, "{errors}");
    let sentence = lines[0].strip_prefix("groundwork: ").unwrap().to_owned();
    assert!(sentence.ends_with('.'), "{sentence}");
    sentence
}

/// A request without a client library.
pub fn get(address: &str, path: &str) -> String {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
