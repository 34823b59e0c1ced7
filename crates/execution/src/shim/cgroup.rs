//! Reading a sandbox's cgroup, on both versions; limits are set by the OCI runtime.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

/// Where the hierarchies are mounted.
pub const MOUNT: &str = "/sys/fs/cgroup";

/// How the machine has its cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One hierarchy.
    V2,
    /// A hierarchy per controller; `hybrid`: with an additional `unified` one.
    V1 {
        /// Whether `unified` exists.
        hybrid: bool,
    },
    /// Nothing is mounted there.
    None,
}

impl Kind {
    /// Looks at the machine.
    pub fn detect() -> Self {
        if statfs(MOUNT).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC) {
            return Self::V2;
        }
        if !Path::new(MOUNT).join("memory").exists() {
            return Self::None;
        }
        Self::V1 {
            hybrid: Path::new(MOUNT).join("unified/cgroup.controllers").exists(),
        }
    }

    /// Directories that hold the controllers' trees.
    pub fn hierarchies(self) -> Vec<PathBuf> {
        match self {
            Self::V2 => vec![MOUNT.into()],
            Self::V1 { .. } => {
                let mut found: Vec<PathBuf> = fs::read_dir(MOUNT)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path())
                    .collect();
                found.sort();
                found
            }
            Self::None => Vec::new(),
        }
    }

    /// Whether memory plus swap can be limited.
    pub fn limits_swap(self) -> bool {
        match self {
            Self::V2 => true,
            Self::V1 { .. } => Path::new(MOUNT)
                .join("memory/memory.memsw.limit_in_bytes")
                .exists(),
            Self::None => false,
        }
    }
}

/// One sandbox's cgroup.
#[derive(Debug, Clone)]
pub struct Cgroup {
    kind: Kind,
    path: String,
}

impl Cgroup {
    /// The cgroup of this path from the root of each hierarchy.
    pub fn new(kind: Kind, path: &str) -> Self {
        Self {
            kind,
            path: path.trim_start_matches('/').to_owned(),
        }
    }

    fn dir(&self, controller: &str) -> PathBuf {
        let mount = Path::new(MOUNT);
        match self.kind {
            Kind::V2 | Kind::None => mount.join(&self.path),
            Kind::V1 { .. } => mount.join(controller).join(&self.path),
        }
    }

    fn number(&self, controller: &str, file: &str, key: Option<&str>) -> Option<u64> {
        let text = fs::read_to_string(self.dir(controller).join(file)).ok()?;
        match key {
            None => text.trim().parse().ok(),
            Some(key) => text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim().parse().ok()),
        }
    }

    /// Processes that the memory limit killed so far.
    pub fn oom_kills(&self) -> u64 {
        match self.kind {
            Kind::V2 | Kind::None => self.number("", "memory.events", Some("oom_kill ")),
            Kind::V1 { .. } => self.number("memory", "memory.oom_control", Some("oom_kill ")),
        }
        .unwrap_or(0)
    }

    /// Most memory in use at once so far, in bytes; 0 when not known.
    pub fn memory_peak(&self) -> u64 {
        match self.kind {
            Kind::V2 | Kind::None => self.number("", "memory.peak", None),
            Kind::V1 { .. } => self.number("memory", "memory.max_usage_in_bytes", None),
        }
        .unwrap_or(0)
    }

    /// Memory in use now, in bytes, without file pages that the kernel takes back at once when somebody needs them; 0 when
    /// not known.
    pub fn memory_used(&self) -> u64 {
        let (used, idle) = match self.kind {
            Kind::V2 | Kind::None => (
                self.number("", "memory.current", None),
                self.number("", "memory.stat", Some("inactive_file ")),
            ),
            Kind::V1 { .. } => (
                self.number("memory", "memory.usage_in_bytes", None),
                self.number("memory", "memory.stat", Some("total_inactive_file ")),
            ),
        };
        used.unwrap_or(0).saturating_sub(idle.unwrap_or(0))
    }

    /// Processes and threads inside; 0 when not known.
    pub fn process_count(&self) -> u64 {
        self.number("pids", "pids.current", None).unwrap_or(0)
    }

    /// CPU time so far, in milliseconds; 0 when not known.
    pub fn cpu_millis(&self) -> u64 {
        match self.kind {
            Kind::V2 | Kind::None => self
                .number("", "cpu.stat", Some("usage_usec "))
                .map(|micros| micros / 1_000),
            Kind::V1 { .. } => self
                .number("cpuacct", "cpuacct.usage", None)
                .map(|nanos| nanos / 1_000_000),
        }
        .unwrap_or(0)
    }

    /// Processes inside, as the host numbers them.
    pub fn processes(&self) -> Vec<i32> {
        let mut found = Vec::new();
        for dir in tree(&self.dir("memory")) {
            let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        found
    }

    /// Where it exists now.
    pub fn present(&self) -> Vec<PathBuf> {
        let dirs = self
            .kind
            .hierarchies()
            .into_iter()
            .map(|hierarchy| hierarchy.join(&self.path));
        dirs.filter(|dir| dir.exists()).collect()
    }

    /// Kills everything inside and removes it from every hierarchy; what is gone already is fine.
    ///
    /// # Errors
    /// Something inside did not die in about two seconds.
    pub fn destroy(&self) -> io::Result<()> {
        let mut last = Ok(());
        for _ in 0..200 {
            let left = self.present();
            if left.is_empty() {
                return Ok(());
            }
            // Inner ones first.
            for dir in left.iter().flat_map(|dir| tree(dir).into_iter().rev()) {
                if self.kind == Kind::V2 {
                    // Older kernels have no such file; the loop below does the same more slowly.
                    let _ = fs::write(dir.join("cgroup.kill"), "1");
                } else if dir.join("freezer.state").exists() {
                    // Of a kill that was cut off; what is frozen does not die.
                    let _ = fs::write(dir.join("freezer.state"), "THAWED");
                }
                for pid in fs::read_to_string(dir.join("cgroup.procs"))
                    .unwrap_or_default()
                    .lines()
                {
                    if let Ok(pid) = pid.parse() {
                        // Gone in between is fine.
                        let _ = nix::sys::signal::kill(
                            nix::unistd::Pid::from_raw(pid),
                            nix::sys::signal::SIGKILL,
                        );
                    }
                }
                if let Err(error) = fs::remove_dir(&dir) {
                    last = Err(error);
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        last
    }
}

/// A cgroup and those under it, outer ones first.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut at = 0;
    while let Some(dir) = found.get(at).cloned() {
        let inner = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(
            inner
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
        at += 1;
    }
    found
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
pub(crate) mod tests;
