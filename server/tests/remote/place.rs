//! A server on a port of its own, and the program run against it.

use std::{
    io::Write,
    net::SocketAddr,
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};

use control::{OpCtx, api_keys::ApiKeyRequest};
use domain::roles::Role;
use leptos::config::LeptosOptions;
use server::http::{
    AppParts, AppState,
    limits::{Rate, RateLimiter},
    origin::Origins,
    router,
};
use testkit::{TestApp, TestIds};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

/// A server, a key to it, and a home directory.
pub struct Place {
    pub app: TestApp,
    pub url: String,
    pub key: String,
    pub home: tempfile::TempDir,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Place {
    pub async fn open() -> Self {
        let app = TestApp::start().await;
        app.member(Role::Developer, "dev@example.com").await;
        let key = app
            .control
            .create_api_key_for(
                &OpCtx::system("test"),
                "dev@example.com",
                ApiKeyRequest {
                    name: "cli".to_owned(),
                    role: Role::Developer,
                    expires_in_days: None,
                },
            )
            .await
            .unwrap()
            .secret
            .expose()
            .to_owned();
        let stop = CancellationToken::new();
        let home = tempfile::tempdir().unwrap();
        let router = router(AppState::from(AppParts {
            control: app.control.clone(),
            ids: Arc::new(TestIds::after_restart()),
            metrics: Arc::default(),
            limiter: Arc::new(RateLimiter::new(
                app.clock.clone(),
                Rate::new(1_000, 100_000),
                Rate::new(1_000, 100_000),
            )),
            origins: Origins::default(),
            sign_in_idle: Duration::from_secs(86_400),
            stop: stop.clone(),
            leptos: LeptosOptions::builder()
                .output_name("groundwork")
                .site_root(home.path().to_string_lossy().into_owned())
                .build(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = stop.clone();
        tokio::spawn(async move {
            axum::serve(
                listener,
                router.into_make_service_with_connect_info::<SocketAddr>(),
            )
            .with_graceful_shutdown(end.cancelled_owned())
            .await
            .unwrap();
        });
        Self {
            app,
            url: format!("http://{address}"),
            key,
            home,
            address,
            stop,
        }
    }

    /// The program with these arguments, signed in by variables.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(args);
        command
            .env("GROUNDWORK_URL", &self.url)
            .env("GROUNDWORK_API_KEY", &self.key);
        command
    }

    /// The program with these arguments and nothing else but a home.
    pub fn bare(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_groundwork"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().await.unwrap())
    }

    /// Writes a file into the home and gives its path.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::File::create(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A way to the server that can be cut: its URL, and what cuts it when something is sent.
    pub async fn fragile(&self) -> (String, watch::Sender<u32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (cut, watched) = watch::channel(0);
        let to = self.address;
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut watched = watched.clone();
                watched.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = watched.changed() => {}
                    }
                });
            }
        });
        (url, cut)
    }
}

/// What the program did.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.out
    }

    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[track_caller]
    pub fn failed(self, said: &str) {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert!(self.err.contains(said), "{said}: {self:#?}");
        assert!(!self.err.contains("rma_"), "a key was shown: {self:#?}");
    }
}

/// A program that goes on.
pub struct Running {
    child: Child,
    lines: BufReader<tokio::process::ChildStdout>,
    pub seen: String,
    /// The beginning of a character whose rest has not been read yet.
    half: Vec<u8>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            lines,
            seen: String::new(),
            half: Vec::new(),
        }
    }

    /// What it reads from, where that is a pipe.
    pub fn input(&mut self) -> tokio::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Reads standard output up to a text.
    pub async fn until(&mut self, text: &str) {
        let reading = async {
            while !self.seen.contains(text) {
                // What stands without a line break is wanted too.
                let bytes = self.lines.fill_buf().await.unwrap();
                assert!(!bytes.is_empty(), "ended without {text:?}: {:?}", self.seen);
                let length = bytes.len();
                self.half.extend(bytes);
                self.lines.consume(length);
                let whole = match std::str::from_utf8(&self.half) {
                    Ok(text) => text.len(),
                    Err(error) => {
                        assert_eq!(error.error_len(), None, "{:?}", self.half);
                        error.valid_up_to()
                    }
                };
                let rest = self.half.split_off(whole);
                let text = std::mem::replace(&mut self.half, rest);
                self.seen.push_str(&String::from_utf8(text).unwrap());
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reading)
            .await
            .unwrap_or_else(|_| panic!("never said {text:?}"));
    }

    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub async fn end(mut self) -> Ran {
        let reading = async {
            let mut out = std::mem::take(&mut self.half);
            self.lines.read_to_end(&mut out).await.unwrap();
            let out = String::from_utf8(out).unwrap();
            let mut err = String::new();
            let mut stderr = self.child.stderr.take().unwrap();
            stderr.read_to_string(&mut err).await.unwrap();
            (out, err, self.child.wait().await.unwrap())
        };
        let (out, err, status) = tokio::time::timeout(Duration::from_secs(60), reading)
            .await
            .unwrap();
        Ran {
            code: status.code(),
            out: self.seen + &out,
            err,
        }
    }
}
