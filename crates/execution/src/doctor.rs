//! Checks of the machine: whether sandboxes can be made on it, and made safely. What can be tried is tried.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use domain::network_policy::NetworkPolicy;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{statvfs::statvfs, utsname::uname},
    time::{ClockId, clock_gettime},
};

use crate::{
    egress::{EgressConfig, Network},
    oci::{OciConfig, RuntimeKind, Volume},
    runtime::{Check, CheckState, RuntimeError},
    shim::{
        self,
        cgroup::Kind,
        disk,
        idmap::{Mapping, Slot},
        mounts::{self, Mounted},
        overlay::Root,
    },
};

/// Least kernel: id-mapped mounts below an overlay.
const KERNEL: (u32, u32) = (5, 19);
/// Free disk under which a warning is given, in bytes: one default sandbox.
const ROOM: u64 = 10 << 30;
/// Size of the disk that is tried, in bytes.
const TRIAL_DISK: u64 = 16 << 20;
/// Start of 2025: a clock before that was never set.
const CLOCK_LEAST: i64 = 1_735_689_600;
/// What the runtime needs, by the kernel's number.
const CAPABILITIES: [(&str, u8); 11] = [
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_FOWNER", 3),
    ("CAP_FSETID", 4),
    ("CAP_KILL", 5),
    ("CAP_SETGID", 6),
    ("CAP_SETUID", 7),
    ("CAP_NET_ADMIN", 12),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_MKNOD", 27),
    ("CAP_SETFCAP", 31),
];

fn check(name: &str, found: impl Into<String>, state: CheckState, mend: &str) -> Check {
    let mend = if state == CheckState::Ok {
        String::new()
    } else {
        mend.to_owned()
    };
    Check {
        name: name.to_owned(),
        found: found.into(),
        state,
        mend,
    }
}

/// A check that isolation or function rests upon.
fn vital(name: &str, result: Result<String, String>, mend: &str) -> Check {
    match result {
        Ok(found) => check(name, found, CheckState::Ok, mend),
        Err(found) => check(name, found, CheckState::Failed, mend),
    }
}

/// A check whose failure is a drawback only.
fn minor(name: &str, result: Result<String, String>, mend: &str) -> Check {
    match result {
        Ok(found) => check(name, found, CheckState::Ok, mend),
        Err(found) => check(name, found, CheckState::Warning, mend),
    }
}

/// Tries everything. Takes about a second and blocks.
pub fn checks(config: &OciConfig) -> Vec<Check> {
    let mut checks = vec![
        vital(
            "root",
            capabilities(),
            "Run the worker as root, or give its unit the capabilities that are missing.",
        ),
        vital(
            "kernel",
            kernel(),
            "Use Linux 5.19 or later (Debian 12 has 6.1).",
        ),
    ];
    checks.extend(trials(config));
    checks.push(vital(
        "nftables",
        Network::create(network(config)).map(|_| "rules and address translation load".to_owned()).map_err(|error| error.to_string()),
        "Install nftables (Debian: `apt-get install nftables`) and use a kernel with nf_tables, nft_nat and nft_reject.",
    ));
    checks.extend(cgroups());
    checks.extend(runtime(config));
    checks.extend(
        config
            .volumes
            .iter()
            .map(|volume| volume_check(config, volume)),
    );
    checks.push(room(config));
    checks.push(minor("name resolution", resolver(), "Name a DNS server in /etc/resolv.conf: sandboxes reach allowed hosts by this machine's resolver."));
    checks.push(minor(
        "clock",
        clock(),
        "Set the clock, for example with systemd-timesyncd: certificates are judged by it.",
    ));
    checks
}

/// Whether sandboxes can be given a volume.
fn volume_check(config: &OciConfig, volume: &Volume) -> Check {
    let tried = volume.usable().and_then(|()| {
        let mounted = Mounted {
            source: volume.directory.clone(),
            target: String::new(),
            file: false,
            writable: volume.writable,
            shown: String::new(),
        };
        Mapping::new(config.base_uid)
            .and_then(|plain| mounts::clone_of(&mounted, &plain, config.base_uid))
            .map(|_| format!("{} can be mounted", volume.directory.display()))
            .map_err(|error| format!("{} cannot be mounted ({error})", volume.directory.display()))
    });
    vital(
        &format!("volume {}", volume.name),
        tried,
        "Put it on a file system that supports id-mapped mounts (ext4, xfs, btrfs; not NFS, and no overlay), or take it out of the configuration.",
    )
}

fn network(config: &OciConfig) -> EgressConfig {
    let mut network = EgressConfig::new(NetworkPolicy::no_access());
    network.nft.clone_from(&config.nft);
    network
}

fn capabilities() -> Result<String, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err(format!("user {}", nix::unistd::geteuid()));
    }
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(_, bit)| effective & (1 << bit) == 0)
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        Ok("root".into())
    } else {
        Err(format!("root without {}", missing.join(", ")))
    }
}

fn kernel() -> Result<String, String> {
    let release = uname()
        .map_err(|error| error.to_string())?
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0_u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= KERNEL {
        Ok(release)
    } else {
        Err(release)
    }
}

/// What is tried in a mount namespace of its own.
fn trials(config: &OciConfig) -> Vec<Check> {
    const IDMAP: (&str, &str) = (
        "id-mapped mounts",
        "Put the data directory on a file system that supports id-mapped mounts (ext4, xfs, btrfs), under Linux 5.19 or later.",
    );
    const OVERLAY: (&str, &str) = (
        "writable overlay",
        "Use a kernel with overlayfs, and a data directory that is not itself on an overlay.",
    );
    const LOOP: (&str, &str) = (
        "loop disk",
        "Load the loop module (`modprobe loop`) and install e2fsprogs; in a container, pass /dev/loop-control and the loop devices.",
    );
    let config = config.clone();
    let tried = thread::spawn(move || -> io::Result<_> {
        unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from)?;
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_SLAVE,
            None::<&str>,
        )?;
        let dir = Scratch::new(&config.state_dir)?;
        Ok((try_root(&config, &dir.0), try_disk(&dir.0)))
    });
    let (root, disk) = match tried.join() {
        Ok(Ok(results)) => results,
        Ok(Err(error)) => {
            return vec![vital(
                "mount namespace",
                Err(error.to_string()),
                "Run the worker as root, with CAP_SYS_ADMIN.",
            )];
        }
        Err(_) => {
            return vec![vital(
                "mount namespace",
                Err("the trial broke off".into()),
                "See the log.",
            )];
        }
    };
    let disk = disk
        .map(|()| "an ext4 image mounts".to_owned())
        .map_err(|error: RuntimeError| error.to_string());
    let (idmap, overlay) = match root {
        Ok(()) => (Ok("work".to_owned()), Ok("works".to_owned())),
        Err((true, error)) => (
            Err(error),
            Err("not tried: id-mapped mounts do not work".to_owned()),
        ),
        Err((false, error)) => (Ok("work".to_owned()), Err(error)),
    };
    vec![
        vital(IDMAP.0, idmap, IDMAP.1),
        vital(OVERLAY.0, overlay, OVERLAY.1),
        vital(LOOP.0, disk, LOOP.1),
    ]
}

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(state: &Path) -> io::Result<Self> {
        let dir = state.join(format!("doctor.{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Mounts in it end with the namespace of the thread that made them.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a root as a sandbox's is made, and a file in it as its user; the flag says whether the id-mapping failed.
fn try_root(config: &OciConfig, dir: &Path) -> Result<(), (bool, String)> {
    let mapping = |error: io::Error| (true, error.to_string());
    let overlay = |error: io::Error| (false, error.to_string());
    let slot = Slot::take(
        &config.state_dir.join("slots"),
        config.base_uid,
        config.slots,
    )
    .map_err(mapping)?;
    let base = slot.as_ref().map_or(config.base_uid, Slot::base);
    let map = Mapping::new(base).map_err(mapping)?;
    let (lower, upper) = (dir.join("lower"), dir.join("upper-disk"));
    fs::create_dir_all(&lower).map_err(overlay)?;
    fs::create_dir_all(&upper).map_err(overlay)?;
    let root =
        Root::assemble(&dir.join("m"), &[lower], &upper, &map, base, false).map_err(|error| {
            (
                error.to_string().starts_with("id-mapped"),
                error.to_string(),
            )
        })?;
    let made = root.path().join("made");
    // As the sandbox's root: the host's has no name inside.
    let writing =
        thread::spawn(move || shim::sys::act_as(base).and_then(|()| fs::create_dir(made)));
    let written = writing
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the trial broke off")))
        .map_err(overlay);
    root.disassemble();
    written
}

fn try_disk(dir: &Path) -> Result<(), RuntimeError> {
    let (image, target) = (dir.join("disk.img"), dir.join("disk"));
    let new = disk::New {
        image: &image,
        bytes: TRIAL_DISK,
        reserve: 0,
        sandboxes: dir,
        templates: dir,
        keep: false,
    };
    let reservation = disk::create(&new, &target)?;
    let _ = nix::mount::umount(&target);
    reservation.complete()
}

fn cgroups() -> Vec<Check> {
    const MEND: &str = "Mount the cgroup controllers memory, cpu, cpuacct, pids and devices (systemd does), and let the worker write them.";
    let kind = Kind::detect();
    let mut checks = Vec::new();
    let found = match kind {
        Kind::None => Err("no cgroups at /sys/fs/cgroup".to_owned()),
        Kind::V2 => {
            let there = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
            missing(
                "cgroup v2",
                ["memory", "cpu", "pids"]
                    .iter()
                    .filter(|name| !there.split_whitespace().any(|w| w == **name)),
            )
        }
        Kind::V1 { hybrid } => {
            let kind = if hybrid {
                "cgroup v1, hybrid"
            } else {
                "cgroup v1"
            };
            let wanted = ["memory", "cpu", "cpuacct", "pids", "devices"];
            missing(
                kind,
                wanted
                    .iter()
                    .filter(|name| !Path::new("/sys/fs/cgroup").join(name).is_dir()),
            )
        }
    };
    checks.push(vital("cgroups", found, MEND));
    if kind != Kind::None && !kind.limits_swap() && has_swap() {
        checks.push(minor("swap", Err("swap is on and cannot be limited".into()), "Boot with swapaccount=1, or turn swap off: a sandbox could use swap beyond its memory."));
    }
    checks
}

fn missing<'a>(kind: &str, names: impl Iterator<Item = &'a &'a str>) -> Result<String, String> {
    let names: Vec<&str> = names.copied().collect();
    if names.is_empty() {
        Ok(kind.to_owned())
    } else {
        Err(format!("{kind} without {}", names.join(", ")))
    }
}

fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|table| table.lines().count() > 1)
}

/// Whether the OCI runtime is there and, once it is, whether it was built with what confines sandboxes.
fn runtime(config: &OciConfig) -> Vec<Check> {
    const MEND: &str =
        "Install it (Debian: `apt-get install crun`), or set another one in the configuration.";
    let (name, kind) = ("OCI runtime", config.runtime_kind);
    let said = match runtime_version(config) {
        Ok(said) => said,
        Err(found) => return vec![check(name, found, CheckState::Failed, MEND)],
    };
    let first = said.lines().next().unwrap_or_default();
    let mend = match kind {
        RuntimeKind::Crun => {
            "Use a crun that was built with libseccomp and libcap, as Debian's is (`apt-get install crun`), or set another runtime in the configuration: without them it starts sandboxes without a filter of system calls or with rights that they must not have, and does not say so."
        }
        RuntimeKind::Runc => {
            "Use a runc that was built with libseccomp, as Debian's is (`apt-get install runc`), or set another runtime in the configuration: without it no system call is filtered."
        }
    };
    vec![
        check(name, first, CheckState::Ok, MEND),
        vital("OCI runtime's confinement", confinement(kind, &said), mend),
    ]
}

/// What a runtime that was built without it leaves out, silently, of what our configuration asks for: told by its version.
fn confinement(kind: RuntimeKind, said: &str) -> Result<String, String> {
    let missing: Vec<&str> = match kind {
        RuntimeKind::Crun => {
            let lines = said.lines().filter(|line| line.starts_with(['+', '-']));
            let features: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
            let wanted = ["+SECCOMP", "+CAP"].into_iter();
            wanted.filter(|name| !features.contains(name)).collect()
        }
        RuntimeKind::Runc if said.lines().any(|line| line.starts_with("libseccomp: ")) => {
            Vec::new()
        }
        RuntimeKind::Runc => vec!["libseccomp"],
    };
    if missing.is_empty() {
        Ok("it filters system calls and limits capabilities".into())
    } else {
        let program = kind.program();
        Err(format!("{program} was built without {}", missing.join(" and ")).replace('+', ""))
    }
}

/// What the OCI runtime says of itself.
fn runtime_version(config: &OciConfig) -> Result<String, String> {
    let output = Command::new(&config.runtime)
        .arg("--version")
        .env("PATH", shim::HOST_PATH)
        .output()
        .map_err(|error| format!("{}: {error}", config.runtime.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && text.starts_with(config.runtime_kind.program()) {
        Ok(text)
    } else {
        Err(format!(
            "{} is not {}",
            config.runtime.display(),
            config.runtime_kind.program()
        ))
    }
}

fn room(config: &OciConfig) -> Check {
    const MEND: &str =
        "Free or add disk space: every sandbox reserves its whole disk when it starts.";
    let free = statvfs(&config.state_dir)
        .map(|stat| stat.blocks_available() * stat.fragment_size())
        .unwrap_or(0);
    let found = format!("{} GiB free", free >> 30);
    let state = match free.saturating_sub(config.disk_reserve) {
        rest if rest >= ROOM => CheckState::Ok,
        rest if rest >= 1 << 30 => CheckState::Warning,
        _ => CheckState::Failed,
    };
    check("disk space", found, state, MEND)
}

fn resolver() -> Result<String, String> {
    let text = fs::read_to_string("/etc/resolv.conf")
        .map_err(|error| format!("/etc/resolv.conf: {error}"))?;
    let servers: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .map(str::trim)
        .collect();
    if servers.is_empty() {
        Err("/etc/resolv.conf names no server".into())
    } else {
        Ok(servers.join(", "))
    }
}

fn clock() -> Result<String, String> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME)
        .map_err(|error| error.to_string())?
        .tv_sec();
    if now >= CLOCK_LEAST {
        Ok("set".into())
    } else {
        Err("the clock shows a time before 2025".into())
    }
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
