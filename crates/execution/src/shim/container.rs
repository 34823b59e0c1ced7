//! The running container: the OCI runtime in the foreground, our init as PID 1, and the pipes between them and us.

use std::{
    ffi::CString,
    fs::{self, OpenOptions},
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::Mode,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    sync::watch,
};

use super::{
    cgroup::{Cgroup, Kind},
    frames::Plan,
    sys,
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

/// What the init reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The child ended with this wait status.
    Ended(i32),
    /// The child could not be started: errno.
    NotStarted(i32),
}

/// The FIFOs that children of the init write to. Our own writing ends keep the reading ends from seeing an end before the
/// first child has opened them.
struct Output {
    read: [OwnedFd; 2],
    hold: [OwnedFd; 2],
}

/// A started container.
pub struct Container {
    control: tokio::sync::Mutex<Option<pipe::Sender>>,
    status: tokio::sync::Mutex<pipe::Receiver>,
    output: Mutex<Option<Output>>,
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

        let (control_read, control_write) = os_pipe().map_err(other("pipe"))?;
        let (status_read, status_write) = os_pipe().map_err(other("pipe"))?;
        let (messages_read, messages_write) = os_pipe().map_err(other("pipe"))?;
        let output = Output::make(&control_dir).map_err(other("making the output pipes"))?;

        let mut command = runtime_command(plan);
        command.arg("run").arg("--bundle").arg(&bundle);
        command
            .args(["--preserve-fds", "1"])
            .arg(plan.sandbox.to_string());
        command.stdin(Stdio::from(control_read));
        command.stdout(Stdio::from(
            messages_write.try_clone().map_err(other("pipe"))?,
        ));
        command.stderr(Stdio::from(messages_write));
        let passed = sys::lift(status_write.as_fd()).map_err(other("pipe"))?;
        sys::pass_descriptors(&mut command, vec![passed]);
        drop(status_write);

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

        let mut status = receiver(status_read).map_err(other("pipe"))?;
        let ready = tokio::time::timeout(START_LIMIT, next_report(&mut status)).await;
        if !matches!(ready, Ok(Ok((1, _)))) {
            // The control pipe's end makes a late init leave.
            drop(control_write);
            let _ =
                tokio::time::timeout(Duration::from_secs(2), gone.clone().wait_for(|gone| *gone))
                    .await;
            let said = messages.lock().unwrap_or_else(PoisonError::into_inner);
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            return Err(RuntimeError::Other(format!(
                "the OCI runtime could not start the container: {said}"
            )));
        }
        // Not from `--pid-file`: crun writes that after the init has run already.
        let init_pid = Cgroup::new(Kind::detect(), &plan.cgroup)
            .processes()
            .into_iter()
            .find(|pid| is_first_in_namespace(*pid))
            .ok_or_else(|| {
                RuntimeError::Other("the container's first process is not in its cgroup".into())
            })?;
        Ok(Self {
            control: Some(sender(control_write).map_err(other("pipe"))?).into(),
            status: status.into(),
            output: Some(output).into(),
            init: sys::pidfd_open(init_pid).map_err(other("the container's init"))?,
            init_pid,
            gone,
        })
    }

    /// Number of the init on the host.
    pub fn init_pid(&self) -> i32 {
        self.init_pid
    }

    /// Starts the one child that the init has over its life, as the sandbox's user, and returns the reading ends of its
    /// standard output and error. They end when the last process that holds them has ended.
    ///
    /// # Errors
    /// The init is gone, could not start the child, or has started one before.
    pub async fn spawn(
        &self,
        argv: &[String],
        env: &[(String, String)],
    ) -> io::Result<[OwnedFd; 2]> {
        let output = self
            .output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Output { read, hold } =
            output.ok_or_else(|| io::Error::other("a script has run in this sandbox already"))?;
        let mut strings = Vec::new();
        let mut push = |text: &[u8]| -> io::Result<()> {
            strings.extend_from_slice(
                CString::new(text)
                    .map_err(io::Error::other)?
                    .as_bytes_with_nul(),
            );
            Ok(())
        };
        push(argv.len().to_string().as_bytes())?;
        for arg in argv {
            push(arg.as_bytes())?;
        }
        for (name, value) in env {
            push(format!("{name}={value}").as_bytes())?;
        }
        let mut message = u32::try_from(strings.len())
            .map_err(io::Error::other)?
            .to_ne_bytes()
            .to_vec();
        message.extend_from_slice(&strings);
        let mut control = self.control.lock().await;
        control
            .as_mut()
            .ok_or(io::ErrorKind::BrokenPipe)?
            .write_all(&message)
            .await?;
        match next_report(&mut *self.status.lock().await).await? {
            (4, _) => {}
            (_, errno) => return Err(io::Error::from_raw_os_error(errno)),
        }
        drop(hold);
        Ok(read)
    }

    /// Waits for the init's next report on its child.
    ///
    /// # Errors
    /// The init is gone.
    pub async fn report(&self) -> io::Result<Report> {
        match next_report(&mut *self.status.lock().await).await? {
            (2, status) => Ok(Report::Ended(status)),
            (_, errno) => Ok(Report::NotStarted(errno)),
        }
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

impl Output {
    fn make(dir: &Path) -> io::Result<Self> {
        let open = |name: &str| -> io::Result<(OwnedFd, OwnedFd)> {
            let path = dir.join(name);
            nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o666))?;
            // Whatever the umask says: every user inside may reopen its own output.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
            let read = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)?;
            let hold = OpenOptions::new().write(true).open(&path)?;
            // Fewer wake-ups for a script that writes much; the default is fine where it is refused.
            let _ = fcntl(&read, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
            Ok((read.into(), hold.into()))
        };
        let (out, hold_out) = open("out")?;
        let (err, hold_err) = open("err")?;
        Ok(Self {
            read: [out, err],
            hold: [hold_out, hold_err],
        })
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

fn receiver(fd: OwnedFd) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(fd)
}

fn sender(fd: OwnedFd) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(fd)
}

async fn next_report(status: &mut pipe::Receiver) -> io::Result<(i32, i32)> {
    let kind = status.read_i32_le().await?;
    Ok((kind, status.read_i32_le().await?))
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
