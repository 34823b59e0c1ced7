//! Drives a setup script statement by statement in one bash, so that `cd`, variables and functions persist, and knows
//! which statement failed (spec 4-execution, *Script driver*).
//!
//! `driver.sh` runs inside the sandbox and sends records through the FIFO `mark`. Before it lets the shell go on
//! (`ack`), the reader takes everything that is in the pipes of stdout and stderr: so output is ordered exactly between
//! markers. The exit code comes from `wait`, never from a record: a process in the sandbox can write false records, and
//! by that mislead about its own lines only.

mod place;
mod records;
mod scan;
mod serve;
mod statements;

use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{sys::stat::Mode, unistd::mkfifo};

pub use serve::{Stop, Stops, serve};
pub use statements::Statements;

use crate::runtime::ScriptSpec;

/// Where the control directory is bound inside a sandbox, read-only (its FIFOs can be written all the same).
pub const INSIDE_DIR: &str = "/run/ctl";

/// The driver, before the list of lines in plain subshells is filled in.
const DRIVER: &str = include_str!("driver.sh");

/// A control directory, ready for its script to be started.
#[derive(Debug)]
pub struct ControlDir {
    dir: PathBuf,
    statements: Statements,
    /// Both ends open, so that neither side ever waits for the other to open it or sees an end of file.
    mark: fs::File,
    ack: fs::File,
}

impl ControlDir {
    /// What to start inside a sandbox where the directory is bound at [`INSIDE_DIR`].
    pub fn command(&self) -> Vec<String> {
        command_in(Path::new(INSIDE_DIR))
    }

    /// What to start where the directory is seen under its own path.
    pub fn command_here(&self) -> Vec<String> {
        command_in(&self.dir)
    }
}

fn command_in(dir: &Path) -> Vec<String> {
    let driver = dir.join("driver.sh");
    [
        "/bin/bash",
        "--noprofile",
        "--norc",
        &driver.to_string_lossy(),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Writes `script`, `driver.sh` and the two FIFOs into `ctl_dir`, an existing directory of ours. Whatever user the
/// script runs as can read and use them.
///
/// # Errors
/// Those of the file system.
pub fn prepare(ctl_dir: &Path, spec: &ScriptSpec) -> io::Result<ControlDir> {
    let statements = Statements::parse(&spec.script);
    let plain: Vec<String> = statements
        .plain_lines()
        .map(|line| format!("[{line}]=1"))
        .collect();
    write(&ctl_dir.join("script"), &spec.script)?;
    write(
        &ctl_dir.join("driver.sh"),
        &DRIVER.replace("@PLAIN@", &plain.join(" ")),
    )?;
    Ok(ControlDir {
        dir: ctl_dir.to_owned(),
        statements,
        mark: fifo(&ctl_dir.join("mark"))?,
        ack: fifo(&ctl_dir.join("ack"))?,
    })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

fn fifo(path: &Path) -> io::Result<fs::File> {
    // One of an earlier script may be there.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    mkfifo(path, Mode::from_bits_truncate(0o666))?;
    // Whatever the umask says: the script's user must be able to open it.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
}

/// How a script ended, as far as the driver sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverEnd {
    /// From `wait`: the shell's exit code, 128 + signal for a signal; 124 when the timeout passed.
    pub exit_code: i32,
    /// Why it was stopped, if it was.
    pub stopped: Option<Stop>,
    /// First line of the failing statement; 0 = unknown or nothing failed.
    pub failed_line: u32,
    /// The failing statement as written.
    pub failed_command: String,
    /// `FILE:LINE` where the failure lies in a file that the script sourced.
    pub failed_in: Option<String>,
    /// Line of the statement that ran last; 0 = none did.
    pub last_line: u32,
    /// How long it had been running when the script ended or was stopped.
    pub last_line_for: Duration,
    /// Time spent in each line, in the order in which they ran first.
    pub timings: Vec<(u32, Duration)>,
}
