//! Making what lies in the state directory.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// The sandbox's PID 1, compiled by the build script.
static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/groundwork-init"));

/// Makes a directory of exactly this mode.
pub(super) fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)?;
    // Whatever the umask says, and also for a directory that an older version made.
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

/// Writes the init under its digest, complete or not at all.
pub(super) fn write_init(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(format!("init-{}", &hex::encode(Sha256::digest(INIT))[..16]));
    if !path.exists() {
        let partial = dir.join(format!("init.{}.partial", std::process::id()));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o755)
            .open(&partial)?;
        file.write_all(INIT)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
    }
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(path)
}
