//! One command's processes: a cgroup of its own under the sandbox's, so that a kill ends everything that the command
//! started, whatever sessions and parents it gave itself, and nothing else.
//!
//! The directory has no limits and no accounting of its own. On version 1 it lies in one hierarchy only, the freezer's
//! where there is one.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::cgroup::{Cgroup, Kind};

/// How long killed processes may take to go.
const KILL_TRIES: u32 = 1_000;
const TICK: Duration = Duration::from_millis(5);

/// A command's cgroup.
#[derive(Debug, Clone)]
pub struct Group {
    dir: PathBuf,
    kind: Kind,
}

impl Group {
    /// Makes the cgroup of this number under a sandbox's.
    ///
    /// # Errors
    /// The sandbox is gone.
    pub fn make(sandbox: &Cgroup, number: u64) -> io::Result<Self> {
        let parent = sandbox.present().into_iter().min_by_key(|dir| {
            let of = |controller: &str| {
                dir.starts_with(Path::new(super::cgroup::MOUNT).join(controller))
            };
            (!of("freezer"), !of("pids"), !of("memory"))
        });
        let parent = parent.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let dir = parent.join(format!("command.{number}"));
        fs::create_dir(&dir)?;
        Ok(Self {
            dir,
            kind: Kind::detect(),
        })
    }

    /// Where a process enters by writing 0.
    ///
    /// # Errors
    /// The sandbox is gone.
    pub fn entry(&self) -> io::Result<OwnedFd> {
        let file = OpenOptions::new()
            .write(true)
            .open(self.dir.join("cgroup.procs"))?;
        Ok(file.into())
    }

    fn processes(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.parse().ok())
            .map(Pid::from_raw)
            .collect()
    }

    /// Kills everything in it and waits until it is gone. Blocks.
    ///
    /// # Errors
    /// A process does not die (it hangs in the kernel).
    pub fn kill(&self) -> io::Result<()> {
        let set = |file: &str, value: &str| {
            // Where it does not exist, the loop does the same, only slower.
            if let Ok(mut file) = File::options().write(true).open(self.dir.join(file)) {
                let _ = io::Write::write_all(&mut file, value.as_bytes());
            }
        };
        for _ in 0..KILL_TRIES {
            match self.kind {
                Kind::V2 => set("cgroup.kill", "1"),
                // What is frozen does not make more of itself.
                _ => set("freezer.state", "FROZEN"),
            }
            let left = self.processes();
            for pid in &left {
                // Gone in between is fine.
                let _ = kill(*pid, Signal::SIGKILL);
            }
            if self.kind != Kind::V2 {
                set("freezer.state", "THAWED");
            }
            if left.is_empty() {
                return Ok(());
            }
            thread::sleep(TICK);
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "a command's processes do not die",
        ))
    }

    /// Removes it if nothing is left in it.
    pub fn remove(&self) -> bool {
        match fs::remove_dir(&self.dir) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        }
    }
}
