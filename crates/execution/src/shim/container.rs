//! The running container: the OCI runtime in the foreground, and our init as PID 1.

use std::{
    fs,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::DirBuilderExt, net::UnixStream},
    },
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::sync::watch;

use super::{
    cgroup::{Cgroup, Kind},
    children::{Child, Children, Start, Streams},
    frames::Plan,
    passing, sys,
};
use crate::{
    egress::Network,
    oci::{
        RuntimeKind,
        config_json::{self, Paths},
    },
    runtime::RuntimeError,
};

/// Most that is kept of what the OCI runtime itself says, in bytes.
const MESSAGES_MAX: usize = 8 * 1024;
/// Capacity of the children's output pipes, in bytes.
const PIPE_BYTES: i32 = 256 * 1024;
/// How long a container may take to start. Starts take a tenth of a second; a machine under a fork bomb takes longer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A started container.
pub struct Container {
    children: Children,
    base: u32,
    init: OwnedFd,
    init_pid: i32,
    /// True once the OCI runtime has ended, and with it every process inside.
    gone: watch::Receiver<bool>,
}

fn other(what: &str) -> impl FnOnce(io::Error) -> RuntimeError + '_ {
    move |error| RuntimeError::Other(format!("{what}: {error}"))
}

impl Container {
    /// Writes `config.json`, starts the runtime on the network's thread, and waits until the init reports.
    ///
    /// # Errors
    /// What the runtime said when it could not start the container.
    pub async fn start(
        plan: &Plan,
        root: &Path,
        base: u32,
        network: &Arc<Network>,
    ) -> Result<Self, RuntimeError> {
        let bundle = Path::new(super::VIEW).join("bundle");
        let control_dir = Path::new(super::VIEW).join("ctl");
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&bundle)
            .map_err(other("making the bundle"))?;
        fs::DirBuilder::new()
            .mode(0o755)
            .create(&control_dir)
            .map_err(other("making the control directory"))?;
        let init = Path::new(super::VIEW).join("init");
        fs::copy(&plan.init, &init).map_err(other("providing the init"))?;
        let config = config_json::build(
            plan,
            &Paths {
                root: &root.to_string_lossy(),
                control: &control_dir.to_string_lossy(),
                init: &init.to_string_lossy(),
                base,
                cgroups: Kind::detect(),
            },
        );
        fs::write(bundle.join("config.json"), config.to_string())
            .map_err(other("writing the bundle"))?;

        let (ours, inits) = UnixStream::pair().map_err(other("socket pair"))?;
        // Not /dev/null: crun hands its standard streams to the container's user.
        let (nothing, _) = os_pipe().map_err(other("pipe"))?;
        let (messages_read, messages_write) = os_pipe().map_err(other("pipe"))?;

        let mut command = runtime_command(plan);
        command.arg("run").arg("--bundle").arg(&bundle);
        command
            .args(["--preserve-fds", "1"])
            .arg(plan.sandbox.to_string());
        command.stdin(Stdio::from(nothing));
        command.stdout(Stdio::from(
            messages_write.try_clone().map_err(other("pipe"))?,
        ));
        command.stderr(Stdio::from(messages_write));
        let passed = sys::lift(inits.as_fd()).map_err(other("socket pair"))?;
        sys::pass_descriptors(&mut command, vec![passed]);
        drop(inits);

        let network = network.clone();
        let started = tokio::task::spawn_blocking(move || network.run_in(move || command.spawn()))
            .await
            .map_err(|error| RuntimeError::Other(error.to_string()))?;
        let mut child = started.and_then(|spawned| spawned).map_err(|error| {
            RuntimeError::Other(format!("starting {}: {error}", plan.runtime.display()))
        })?;

        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = messages.clone();
        let (ended, gone) = watch::channel(false);
        std::thread::spawn(move || {
            keep_messages(messages_read.into(), &kept);
            let status = child.wait();
            tracing::debug!(?status, "the OCI runtime ended");
            ended.send_replace(true);
        });

        let ready = tokio::time::timeout(START_LIMIT, Children::meet(ours)).await;
        let Ok(Ok(children)) = ready else {
            // The socket is closed by now, which makes a late init leave.
            let _ =
                tokio::time::timeout(Duration::from_secs(2), gone.clone().wait_for(|gone| *gone))
                    .await;
            let said = messages.lock().unwrap_or_else(PoisonError::into_inner);
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            return Err(RuntimeError::Other(format!(
                "the OCI runtime could not start the container: {said}"
            )));
        };
        // Not from `--pid-file`: crun writes that after the init has run already.
        let init_pid = Cgroup::new(Kind::detect(), &plan.cgroup)
            .processes()
            .into_iter()
            .find(|pid| is_first_in_namespace(*pid))
            .ok_or_else(|| {
                RuntimeError::Other("the container's first process is not in its cgroup".into())
            })?;
        Ok(Self {
            children,
            base,
            init: sys::pidfd_open(init_pid).map_err(other("the container's init"))?,
            init_pid,
            gone,
        })
    }

    /// Number of the init on the host.
    pub fn init_pid(&self) -> i32 {
        self.init_pid
    }

    /// What its init starts.
    pub fn children(&self) -> &Children {
        &self.children
    }

    /// Starts a script as the sandbox's user, and returns it with the reading ends of its standard output and error. They
    /// end when the last process that holds them has ended.
    ///
    /// # Errors
    /// See [`Children::start`].
    pub async fn spawn(
        &self,
        argv: &[String],
        env: &[(String, String)],
    ) -> io::Result<(Child, [OwnedFd; 2])> {
        let (out, out_inside) = passing::pipe(self.base)?;
        let (err, err_inside) = passing::pipe(self.base)?;
        for pipe in [&out, &err] {
            // Fewer wake-ups for a script that writes much; the default is fine where it is refused.
            let _ = fcntl(pipe, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        }
        let start = Start {
            argv,
            env,
            directory: "/workspace",
            streams: Streams::Output([out_inside.as_fd(), err_inside.as_fd()]),
            cgroup: None,
        };
        Ok((self.children.start(&start).await?, [out, err]))
    }

    /// Kills everything inside without waiting: the kernel ends a PID namespace with its first process.
    pub fn signal_kill(&self) {
        if let Err(error) = sys::pidfd_signal(self.init.as_fd(), libc::SIGKILL) {
            tracing::warn!(%error, "killing the sandbox's init");
        }
    }

    /// Kills everything inside, at once and whatever it does, and waits until it is gone.
    ///
    /// # Errors
    /// Something inside does not die (it hangs in the kernel).
    pub async fn kill(&self) -> Result<(), RuntimeError> {
        self.signal_kill();
        tokio::time::timeout(Duration::from_secs(10), self.gone())
            .await
            .map_err(|_| {
                RuntimeError::Other("the sandbox's processes did not end in ten seconds".into())
            })
    }

    /// Waits until every process inside is gone.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An error means that the sender is gone, and it leaves only with the runtime.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Whether every process inside is gone.
    pub fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }
}

/// The OCI runtime with the options that every call of ours has.
pub fn runtime_command(plan: &Plan) -> Command {
    let mut command = Command::new(&plan.runtime);
    command
        .env_clear()
        .env("PATH", super::HOST_PATH)
        .arg("--root")
        .arg(&plan.runtime_root);
    if plan.runtime_kind == RuntimeKind::Crun {
        command.arg("--cgroup-manager=cgroupfs");
    }
    command
}

fn os_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(OFlag::O_CLOEXEC)?)
}

/// Whether the process is number 1 in its own PID namespace.
fn is_first_in_namespace(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().last() == Some("1"))
}

/// Keeps the end of what the runtime says until it closes its side.
fn keep_messages(mut from: fs::File, kept: &Mutex<Vec<u8>>) {
    let mut chunk = [0_u8; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(MESSAGES_MAX);
        kept.drain(..excess);
    }
}
