//! Finding and removing what sandboxes leave on the machine when their processes were killed. Everything has the sandbox's
//! name or lies in its directory, so nothing has to be remembered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use domain::ids::SandboxId;
use nix::{
    fcntl::{Flock, FlockArg},
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{CGROUP_PARENT, OciConfig, RuntimeKind, connection::process_name};
use crate::{
    fetch,
    runtime::{Leftover, RuntimeError},
    shim::{
        self, LOCK,
        cgroup::{Cgroup, Kind},
        kept::Kept,
        sys,
    },
};

/// How long something may take to go by itself: the sandbox's init leaves with its shim, and the OCI runtime cleans up
/// after it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long something may take to go once it was killed.
const AFTER_KILL: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(10);

/// What was found, by sandbox.
type Found = BTreeMap<SandboxId, Vec<Leftover>>;

fn leftover(kind: &str, what: impl Into<String>) -> Leftover {
    Leftover {
        kind: kind.to_owned(),
        what: what.into(),
    }
}

/// Removes everything of one sandbox whose shim this process has ended, or that has none. `keep`: but for its disk, if
/// that is one that outlives its sandbox.
pub(super) fn sandbox(config: &OciConfig, id: SandboxId, keep: bool) -> Result<(), RuntimeError> {
    let dir = config.sandboxes().join(id.to_string());
    let is_there = dir.exists()
        || config.runtime_root().join(id.to_string()).exists()
        || !cgroup(config, id).present().is_empty();
    let failed = |what: &str, error: io::Error| {
        RuntimeError::Other(format!("removing sandbox {id}: {what}: {error}"))
    };
    if is_there {
        end_shim(config, id, &dir);
    }
    // Of a save that a kill broke off. With the shim gone nobody writes to it any more.
    let partial = config.images.layers_dir().join(format!("{id}.partial"));
    if let Err(error) = fs::remove_dir_all(partial)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed("its unfinished layer", error));
    }
    if !is_there {
        return Ok(());
    }
    end_container(config, id);
    cgroup(config, id)
        .destroy()
        .map_err(|error| failed("its cgroup", error))?;
    for mounted in mounts_under(&dir).into_iter().rev() {
        let _ = umount2(&mounted, MntFlags::MNT_DETACH);
    }
    if !wait(PATIENCE, || loops_under(&dir).is_empty()) {
        for device in loops_under(&dir) {
            if let Ok(file) = OpenOptions::new().read(true).open(&device)
                && let Err(error) = sys::loop_clear(file.as_fd())
            {
                tracing::warn!(%error, device = %device.display(), "a loop device stays");
            }
        }
    }
    let removed = if keep && Kept::read(&dir).is_some() {
        Kept::strip(&dir)
    } else {
        fs::remove_dir_all(&dir)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("its directory", error))
        }
        _ => Ok(()),
    }
}

/// Whether a loop device has the sandbox's disk.
pub(super) fn is_attached(dir: &Path) -> bool {
    !loops_under(dir).is_empty()
}

/// Sandboxes with a kept disk. A shim may hold it still: of ours, or of an earlier worker and about to end.
pub(super) fn kept(config: &OciConfig) -> Vec<SandboxId> {
    named(&config.sandboxes())
        .into_iter()
        .filter(|(_, dir)| Kept::read(dir).is_some())
        .map(|(id, _)| id)
        .collect()
}

/// Whether a kept disk was made over this layer or runner image.
pub(super) fn is_below_kept(config: &OciConfig, digest: &str) -> bool {
    let layer = config.images.layer_dir(digest);
    named(&config.sandboxes())
        .into_iter()
        .filter_map(|(_, dir)| Kept::read(&dir))
        .any(|kept| {
            kept.base_digest == digest
                || kept
                    .lowers
                    .iter()
                    .any(|lower| Some(lower) == layer.as_ref())
        })
}

/// What is named after a sandbox in a directory.
fn named(dir: &Path) -> Vec<(SandboxId, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect()
}

fn cgroup(config: &OciConfig, id: SandboxId) -> Cgroup {
    Cgroup::new(Kind::detect(), &config.cgroup(id))
}

/// Polls until it is so; false when time is up.
fn wait(limit: Duration, so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(TICK);
    }
}

/// Whether a shim holds the sandbox's directory.
fn is_held(dir: &Path) -> bool {
    match OpenOptions::new().write(true).open(dir.join(LOCK)) {
        Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err(),
        Err(_) => false,
    }
}

/// A shim whose worker is gone ends by itself; one that does not is killed.
fn end_shim(config: &OciConfig, id: SandboxId, dir: &Path) {
    let name = process_name(&config.state_dir, id);
    let running = || -> Vec<i32> {
        shims()
            .into_iter()
            .filter(|(_, found)| *found == name)
            .map(|(pid, _)| pid)
            .collect()
    };
    if !is_held(dir) && running().is_empty() {
        return;
    }
    if wait(PATIENCE, || !is_held(dir) && running().is_empty()) {
        return;
    }
    for pid in running() {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    if !wait(AFTER_KILL, || !is_held(dir)) {
        tracing::error!(sandbox = %id, "a shim does not die");
    }
}

/// The container of a killed shim: its init has left, and the OCI runtime in the foreground cleans up. If that was killed
/// too, we do it.
fn end_container(config: &OciConfig, id: SandboxId) {
    let state = config.runtime_root().join(id.to_string());
    if wait(PATIENCE, || {
        !state.exists() && cgroup(config, id).processes().is_empty()
    }) || !state.exists()
    {
        return;
    }
    let call = |args: &[&str]| {
        let mut command = Command::new(&config.runtime);
        command
            .env_clear()
            .env("PATH", shim::HOST_PATH)
            .arg("--root")
            .arg(config.runtime_root());
        if config.runtime_kind == RuntimeKind::Crun {
            command.arg("--cgroup-manager=cgroupfs");
        }
        // Both fail when there is nothing left to do; what stays is removed below. Pipes and not /dev/null: crun hands
        // its standard streams to the container's user.
        let _ = command.args(args).output();
    };
    let id = id.to_string();
    call(&["kill", "--all", &id, "KILL"]);
    call(&["delete", "--force", &id]);
    if let Err(error) = fs::remove_dir_all(&state)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "state of the OCI runtime stays");
    }
}

/// Shims on the machine: process number and name.
fn shims() -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(line) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
        if name.starts_with(b"groundwork-shim:") {
            found.push((pid, String::from_utf8_lossy(name).into_owned()));
        }
    }
    found
}

fn mounts_under(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|path| path.starts_with(dir))
        .collect()
}

/// Loop devices whose file lies under the directory, also when it has been deleted.
fn loops_under(dir: &Path) -> Vec<PathBuf> {
    let backing = |block: &Path| fs::read_to_string(block.join("loop/backing_file")).ok();
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        if backing(&entry.path()).is_some_and(|file| Path::new(file.trim()).starts_with(dir)) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found
}

/// Everything that bears a sandbox's name, by sandbox.
fn survey(config: &OciConfig) -> Found {
    let mut found = Found::new();
    let mut note = |id: SandboxId, item: Leftover| found.entry(id).or_default().push(item);
    for (id, path) in named(&config.sandboxes()) {
        if Kept::read(&path).is_none() {
            note(id, leftover("directory", path.display().to_string()));
        }
        for mounted in mounts_under(&path) {
            note(id, leftover("mount", mounted.display().to_string()));
        }
        for device in loops_under(&path) {
            note(id, leftover("loop device", device.display().to_string()));
        }
    }
    for (id, path) in named(&config.runtime_root()) {
        note(id, leftover("container", path.display().to_string()));
    }
    for hierarchy in Kind::detect().hierarchies() {
        for entry in fs::read_dir(hierarchy.join(CGROUP_PARENT))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let Some(id) = name
                .to_str()
                .and_then(|name| name.strip_prefix(&config.cgroup_prefix())?.parse().ok())
            else {
                continue;
            };
            note(id, leftover("cgroup", entry.path().display().to_string()));
            for pid in fs::read_to_string(entry.path().join("cgroup.procs"))
                .unwrap_or_default()
                .lines()
            {
                note(id, leftover("process", pid));
            }
        }
    }
    for (pid, name) in shims() {
        if let Some((id, state)) = name
            .strip_prefix("groundwork-shim:")
            .and_then(|rest| rest.split_once(':'))
            && Path::new(state) == config.state_dir
            && let Ok(id) = id.parse()
        {
            note(id, leftover("process", format!("{pid} (shim)")));
        }
    }
    for entry in fs::read_dir(config.images.layers_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        if let Some(id) = name
            .to_str()
            .and_then(|name| name.strip_suffix(".partial")?.parse().ok())
        {
            note(
                id,
                leftover("unfinished layer", entry.path().display().to_string()),
            );
        }
    }
    found
}

/// What is left of sandboxes that no shim holds.
pub(super) fn find(config: &OciConfig, ours: &[SandboxId]) -> Vec<Leftover> {
    let dead =
        |id: &SandboxId| !ours.contains(id) && !is_held(&config.sandboxes().join(id.to_string()));
    let found = survey(config).into_iter().filter(|(id, _)| dead(id));
    let files = fetch::left(&config.fetched());
    let files = files
        .into_iter()
        .map(|path| leftover("file", path.display().to_string()));
    // The same process is in the cgroup of every controller.
    let mut seen = BTreeSet::new();
    found
        .flat_map(|(_, items)| items)
        .chain(files)
        .filter(|item| seen.insert((item.kind.clone(), item.what.clone())))
        .collect()
}

/// Ends and removes every sandbox that is not ours.
pub(super) fn all(config: &OciConfig, ours: &[SandboxId]) -> Result<Vec<Leftover>, RuntimeError> {
    let mut removed = Vec::new();
    let mut first_error = None;
    for (id, items) in survey(config) {
        if ours.contains(&id) {
            continue;
        }
        match sandbox(config, id, true) {
            Ok(()) => removed.extend(items),
            Err(error) => {
                tracing::error!(%error, sandbox = %id, "reclaiming");
                first_error.get_or_insert(error);
            }
        }
    }
    for path in fetch::left(&config.fetched()) {
        match fs::remove_file(&path) {
            Ok(()) => removed.push(leftover("file", path.display().to_string())),
            Err(error) => tracing::error!(%error, "removing a fetched file"),
        }
    }
    match config.images.clear_fragments() {
        Ok(fragments) => removed.extend(
            fragments
                .into_iter()
                .map(|path| leftover("unfinished layer", path.display().to_string())),
        ),
        Err(error) => tracing::error!(%error, "removing half-deleted layers"),
    }
    for (id, dir) in named(&config.sandboxes()) {
        // Nothing of these was found but the disk; what the shim had beside it goes too.
        if !ours.contains(&id) && Kept::read(&dir).is_some() && !is_held(&dir) {
            let _ = Kept::strip(&dir);
        }
    }
    first_error.map_or(Ok(removed), Err)
}
