//! The OCI runtime's `config.json` of a sandbox.

use serde_json::{Value, json};

use crate::shim::{cgroup::Kind, frames::Plan, idmap::RANGE};

/// The host name inside; fixed, because the generated `/etc/hosts` names it.
pub const HOSTNAME: &str = "sandbox";
/// Where the control directory appears inside.
pub const CONTROL_DIR: &str = "/run/ctl";
/// Where our init appears inside.
pub const INIT: &str = "/run/init";
/// User and group of everything that a member starts.
pub const USER: u32 = 1000;

/// Everything a capability-bounded root inside needs for `sudo apt-get install`. `NET_RAW` only lets `ping` be executed:
/// the network namespace is not the sandbox's.
const BOUNDING: [&str; 13] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_KILL",
    "CAP_SYS_CHROOT",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_AUDIT_WRITE",
    "CAP_MKNOD",
];

/// The seccomp list: Docker's allow-list, tightened (no new namespaces, no mounts, four socket families, no BPF, keys,
/// performance events, `io_uring` or `userfaultfd`).
pub fn seccomp() -> Value {
    serde_json::from_str(include_str!("seccomp.json")).unwrap_or_default()
}

/// What differs from sandbox to sandbox besides the plan.
pub struct Paths<'a> {
    /// The assembled root.
    pub root: &'a str,
    /// The control directory on the host.
    pub control: &'a str,
    /// Our init on the host.
    pub init: &'a str,
    /// First id of the sandbox's range.
    pub base: u32,
    /// How the machine has its cgroups.
    pub cgroups: Kind,
}

/// The whole file.
pub fn build(plan: &Plan, paths: &Paths<'_>) -> Value {
    let memory = u64::from(plan.memory_mib) * 1024 * 1024;
    let mapping = json!([{"containerID": 0, "hostID": paths.base, "size": RANGE}]);
    let mut limits = json!({"limit": memory});
    if paths.cgroups.limits_swap() {
        limits["swap"] = json!(memory);
    }
    let mut bounding: Vec<&str> = BOUNDING.to_vec();
    bounding.push("CAP_NET_RAW");
    let namespaces: Vec<Value> = ["pid", "ipc", "uts", "mount", "user", "cgroup"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "root": {"path": paths.root, "readonly": false},
        "hostname": HOSTNAME,
        "process": {
            "terminal": false,
            "user": {"uid": USER, "gid": USER, "umask": 0o022},
            "args": [INIT],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/workspace",
            "noNewPrivileges": false,
            "capabilities": {
                "bounding": bounding,
                "effective": [], "permitted": [], "inheritable": [], "ambient": [],
            },
        },
        "mounts": mounts(plan, paths),
        "linux": {
            "namespaces": namespaces,
            "uidMappings": mapping,
            "gidMappings": mapping,
            "cgroupsPath": plan.cgroup,
            "resources": {
                "devices": [{"allow": false, "access": "rwm"}],
                "memory": limits,
                "cpu": {"quota": i64::from(plan.cpu_milli) * 100, "period": 100_000},
                "pids": {"limit": plan.pids_max},
            },
            "seccomp": seccomp(),
            "maskedPaths": [
                "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
                "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/proc/kallsyms",
                "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmallocinfo",
            ],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

/// Most pseudo-terminals in one sandbox: those of all sandboxes and of the machine are limited together, to 4,096 mostly.
const TERMINALS_MAX: u32 = 256;

/// No sysfs: a fresh one needs a network namespace of the sandbox's own user namespace, and the runtime would bind the
/// host's instead.
fn mounts(plan: &Plan, paths: &Paths<'_>) -> Value {
    let half = u64::from(plan.memory_mib) / 2;
    let terminals = format!("max={TERMINALS_MAX}");
    json!([
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", terminals]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "nodev", "mode=1777", format!("size={half}m")]},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "nodev", "mode=755", "size=256m"]},
        {"destination": CONTROL_DIR, "type": "bind", "source": paths.control,
         "options": ["bind", "ro", "nosuid", "nodev"]},
        {"destination": INIT, "type": "bind", "source": paths.init,
         "options": ["bind", "ro", "nosuid", "nodev"]},
    ])
}
