//! Making sandboxes in tests.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command as HostCommand,
    sync::Arc,
    time::Duration,
};

use domain::{
    ids::{Id, SandboxId},
    network_policy::NetworkPolicy,
    process::{Command, CommandEnd, Input, Output},
    setup_run::Stream,
};
use execution::{
    images::ImageStore,
    oci::{OciConfig, OciRuntime},
    runtime::{Event, Runtime, RuntimeError, SandboxSpec, ScriptEnd, ScriptSpec},
};
use tokio::{sync::mpsc, task::JoinHandle};

/// How long a condition may take to come true on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds after which a script hangs that a test lets end by itself.
pub const HANGS: u64 = 300;

/// Reference of the image that the tests use.
pub const IMAGE: &str = "groundwork/runner:small";

pub fn images_dir() -> PathBuf {
    std::env::var_os("GROUNDWORK_TEST_IMAGES")
        .map_or_else(|| "/var/lib/groundwork-test/images".into(), PathBuf::from)
}

/// A runtime with a state directory of its own.
pub struct Bench {
    pub runtime: Arc<OciRuntime>,
    dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut OciConfig)) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "these tests make sandboxes and must run as root"
        );
        assert!(
            HostCommand::new("crun")
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success()),
            "these tests need crun (Debian: apt-get install crun)"
        );
        let images = ImageStore::new(images_dir());
        assert!(
            images.rootfs(IMAGE).ok().flatten().is_some(),
            "these tests need the small runner image in {}: cargo run -p execution --example build_runner -- small {0}",
            images_dir().display()
        );
        let dir = tempfile::Builder::new()
            .prefix("oci-")
            .tempdir_in("/var/lib/groundwork-test")
            .unwrap();
        // Layers that tests save go with the test: the store is a directory of links to the real one.
        std::os::unix::fs::symlink(images_dir().join("runner"), dir.path().join("runner")).unwrap();
        let shim = (
            PathBuf::from(env!("CARGO_BIN_EXE_groundwork-shim")),
            Vec::new(),
        );
        let mut config =
            OciConfig::new(dir.path().join("state"), ImageStore::new(dir.path()), shim);
        config.base_uid = 1_000_000_000;
        change(&mut config);
        close(dir.path());
        Self {
            runtime: Arc::new(OciRuntime::new(config).unwrap()),
            dir,
        }
    }

    pub fn state(&self) -> PathBuf {
        self.runtime.state_dir()
    }

    pub fn layers(&self) -> PathBuf {
        self.dir.path().join("layers")
    }

    /// Starts a sandbox.
    pub async fn start(&self, spec: &SandboxSpec) -> SandboxId {
        self.runtime.prepare(spec).await.unwrap_or_else(|error| {
            let log = self
                .state()
                .join("sandboxes")
                .join(spec.id.to_string())
                .join("shim.log");
            panic!(
                "{error}; {}",
                std::fs::read_to_string(log).unwrap_or_default()
            )
        });
        spec.id
    }

    /// Runs a script in a new default sandbox and removes it.
    pub async fn run(&self, script: &str) -> Ran {
        let spec = spec();
        let id = self.start(&spec).await;
        let ran = self.script(id, script, HANGS).await.unwrap();
        self.runtime.destroy(id).await.unwrap();
        ran
    }

    /// Runs a script in this sandbox.
    pub async fn script(
        &self,
        id: SandboxId,
        script: &str,
        timeout: u64,
    ) -> Result<Ran, RuntimeError> {
        self.run_case(id, script, Duration::from_secs(timeout))
            .await
    }

    /// As [`Self::script`], with a timeout in any unit.
    pub async fn run_case(
        &self,
        id: SandboxId,
        script: &str,
        timeout: Duration,
    ) -> Result<Ran, RuntimeError> {
        let (sender, mut receiver) = mpsc::channel(64);
        let spec = ScriptSpec {
            script: script.to_owned(),
            timeout,
        };
        let collecting = tokio::spawn(async move {
            let mut events = Vec::new();
            while let Some(event) = receiver.recv().await {
                events.push(event);
            }
            events
        });
        let end = self.runtime.run_script(id, &spec, sender).await;
        let events = collecting.await.unwrap();
        end.map(|end| Ran { end, events })
    }

    /// Standard output of a shell command in a new default sandbox.
    pub async fn sh_in_new(&self, text: &str) -> String {
        let id = self.start(&spec()).await;
        let out = self.sh(id, text).await.passed();
        self.runtime.destroy(id).await.unwrap();
        out
    }

    /// Runs a shell command to its end, without input.
    pub async fn sh(&self, id: SandboxId, text: &str) -> Done {
        self.exec(id, sh(text)).await.unwrap()
    }

    /// Runs a command to its end, without input.
    pub async fn exec(&self, id: SandboxId, command: Command) -> Result<Done, RuntimeError> {
        let mut talk = self.talk(id, command);
        talk.close();
        talk.done().await
    }

    /// Starts a command to talk with.
    pub fn talk(&self, id: SandboxId, command: Command) -> Talk {
        let (input, given) = mpsc::channel(16);
        let (said, output) = mpsc::channel(16);
        let runtime = self.runtime.clone();
        let end = tokio::spawn(async move { runtime.exec(id, &command, given, said).await });
        Talk {
            input: Some(input),
            output,
            end,
            heard: Done::default(),
        }
    }

    /// Nothing is left on the machine.
    pub async fn assert_clean(&self) {
        let leftovers = self.runtime.leftovers().await.unwrap();
        assert!(leftovers.is_empty(), "left behind: {leftovers:?}");
        assert_eq!(
            std::fs::read_dir(self.state().join("sandboxes"))
                .unwrap()
                .count(),
            0,
            "sandbox directories stay"
        );
    }
}

/// As a data directory in root's home is: nobody else can pass.
fn close(dir: &Path) {
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

/// A small file system in the place of a directory, for as long as this lives.
pub struct Small(PathBuf);

impl Small {
    pub fn mount(at: &Path, size: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=700");
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(
            Some("none"),
            at,
            Some("tmpfs"),
            flags,
            Some(options.as_str()),
        )
        .unwrap();
        Self(at.to_owned())
    }

    pub fn used(&self) -> u64 {
        let stat = nix::sys::statvfs::statvfs(&self.0).unwrap();
        (stat.blocks() - stat.blocks_free()) * stat.fragment_size()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

pub fn new_id() -> SandboxId {
    Id::from_uuid(uuid::Uuid::new_v4())
}

pub fn spec() -> SandboxSpec {
    SandboxSpec {
        id: new_id(),
        runner_image: IMAGE.into(),
        layers: Vec::new(),
        base_digest: None,
        cpu_milli: 2_000,
        memory_mib: 1_024,
        // The least whose file system is laid out as that of larger ones.
        disk_mib: 512,
        env_vars: BTreeMap::new(),
        secrets: Default::default(),
        network_policy: NetworkPolicy::no_access(),
        privileged: false,
        mounts: Vec::new(),
        life: None,
        keep_disk: false,
    }
}

/// What a script did.
#[derive(Debug)]
pub struct Ran {
    pub end: ScriptEnd,
    pub events: Vec<Event>,
}

impl Ran {
    fn text(&self, wanted: Stream) -> String {
        let mut bytes = Vec::new();
        for event in &self.events {
            if let Event::Output {
                stream,
                bytes: more,
            } = event
                && *stream == wanted
            {
                bytes.extend_from_slice(more);
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn stdout(&self) -> String {
        self.text(Stream::Stdout)
    }

    pub fn stderr(&self) -> String {
        self.text(Stream::Stderr)
    }

    /// The script passed; its standard output.
    pub fn passed(&self) -> String {
        assert_eq!(
            self.end.exit_code,
            0,
            "line {}: {}\n{}",
            self.end.failed_line,
            self.stdout(),
            self.stderr()
        );
        self.stdout()
    }
}

/// Waits until it is so.
pub async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !so().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A shell command.
pub fn sh(text: &str) -> Command {
    argv(&["bash", "-c", text])
}

pub fn argv(words: &[&str]) -> Command {
    Command {
        argv: words.iter().map(|word| (*word).to_owned()).collect(),
        cwd: None,
        env: BTreeMap::new(),
        timeout: None,
        pty: None,
    }
}

/// What a command did.
#[derive(Debug, Default)]
pub struct Done {
    pub end: Option<CommandEnd>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Done {
    pub fn code(&self) -> i32 {
        self.end.unwrap().exit_code
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// It passed; its standard output.
    pub fn passed(&self) -> String {
        assert_eq!(self.code(), 0, "{}\n{}", self.stdout(), self.stderr());
        self.stdout()
    }
}

/// A command being talked with.
pub struct Talk {
    pub input: Option<mpsc::Sender<Input>>,
    pub output: mpsc::Receiver<Output>,
    pub end: JoinHandle<Result<CommandEnd, RuntimeError>>,
    pub heard: Done,
}

impl Talk {
    pub async fn send(&self, input: Input) {
        self.input.as_ref().unwrap().send(input).await.unwrap();
    }

    pub async fn write(&self, text: &str) {
        self.send(Input::Bytes(text.as_bytes().to_vec())).await;
    }

    /// No more input.
    pub fn close(&mut self) {
        self.input = None;
    }

    fn note(&mut self, output: Output) {
        match output.stream {
            Stream::Stdout => self.heard.stdout.extend(output.bytes),
            _ => self.heard.stderr.extend(output.bytes),
        }
    }

    /// Reads until this was said on standard output.
    pub async fn until(&mut self, text: &str) {
        let reading = async {
            while !self.heard.stdout().contains(text) {
                match self.output.recv().await {
                    Some(output) => self.note(output),
                    None => panic!("ended before {text:?}: {:?}", self.heard.stdout()),
                }
            }
        };
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            panic!(
                "not within {PATIENCE:?}: {text:?} in {:?}",
                self.heard.stdout()
            );
        }
    }

    /// Ends its input and waits for its end; the code.
    pub async fn done_after_close(mut self) -> i32 {
        self.close();
        self.done().await.unwrap().code()
    }

    /// Waits for the end.
    pub async fn done(mut self) -> Result<Done, RuntimeError> {
        while let Some(output) = self.output.recv().await {
            self.note(output);
        }
        self.heard.end = Some(self.end.await.unwrap()?);
        Ok(self.heard)
    }
}
