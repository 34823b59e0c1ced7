//! A disk that outlives its sandbox: a session's. Beside the image lies a note that says what the disk was made over; it
//! is written once the disk is complete, so that a disk without it is a fragment.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Name of the disk's image in a sandbox's directory.
pub const DISK: &str = "disk.img";
/// Name of the note.
const NOTE: &str = "kept.json";

/// What a kept disk was made over. What is written on it makes sense over exactly that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Layers below, highest first, without the machine's own.
    pub lowers: Vec<PathBuf>,
    /// Digest of the runner image.
    pub base_digest: String,
    /// Its size in bytes.
    pub disk_bytes: u64,
}

impl Kept {
    /// The complete disk in a sandbox's directory, if there is one.
    pub fn read(dir: &Path) -> Option<Self> {
        let note = serde_json::from_slice(&fs::read(dir.join(NOTE)).ok()?).ok()?;
        dir.join(DISK).is_file().then_some(note)
    }

    /// Notes that the disk is complete, in such a way that the note is there or not, also after a power cut.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let partial = dir.join("kept.partial");
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        fs::write(&partial, text)?;
        File::open(&partial)?.sync_all()?;
        fs::rename(&partial, dir.join(NOTE))?;
        File::open(dir)?.sync_all()
    }

    /// Removes everything else from the directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn strip(dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name() != NOTE && entry.file_name() != DISK {
                if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }
}
