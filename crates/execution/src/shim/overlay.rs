//! The sandbox's root: id-mapped clones of every layer and of the disk, joined by an overlay.
//!
//! Everything on the disk keeps plain ids 0 to 65,535, so that an upper directory is a portable layer at once.

use std::{
    fs, io,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::statvfs::{FsFlags, statvfs},
};

use super::{idmap::Mapping, sys, trees};

/// Where the parts are mounted, under one directory.
pub struct Root {
    points: PathBuf,
    layers: usize,
}

impl Root {
    /// Mounts the overlay. `disk` is the mounted disk; its `upper` and `work` directories are made here unless it was kept.
    /// The layers come highest first. `keep`: what programs sync must be on the disk, and the upper is used again.
    ///
    /// # Errors
    /// Id-mapped mounts do not work here, or the overlay came up read-only.
    pub fn assemble(
        points: &Path,
        layers: &[PathBuf],
        disk: &Path,
        mapping: &Mapping,
        base: u32,
        keep: bool,
    ) -> io::Result<Self> {
        for name in ["upper", "work"] {
            let dir = disk.join(name);
            if dir.is_dir() {
                // The root's mode is the sandbox's own affair by now.
                continue;
            }
            fs::create_dir(&dir)?;
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        }
        let clone = |from: &Path, name: &str, read_only: bool| -> io::Result<()> {
            let target = points.join(name);
            fs::create_dir_all(&target)?;
            let tree = trees::id_mapped_clone(from, mapping.fd(), read_only).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("id-mapped mount of {}: {error}", from.display()),
                )
            })?;
            trees::attach(tree.as_fd(), &target)
        };
        for (number, layer) in layers.iter().enumerate() {
            clone(layer, &number.to_string(), true)?;
        }
        clone(disk, "disk", false)?;
        let root = Self {
            points: points.to_owned(),
            layers: layers.len(),
        };
        fs::create_dir_all(root.path())?;
        let lower: Vec<String> = (0..layers.len()).map(|number| number.to_string()).collect();
        let options = format!(
            "lowerdir={},upperdir=disk/upper,workdir=disk/work,index=off,metacopy=off,redirect_dir=off{}",
            lower.join(":"),
            if keep { "" } else { ",volatile" }
        );
        let inside = points.to_owned();
        // Overlayfs works in upper and work with the mounter's credentials, which must be ids that the id-mapped mount
        // knows; else it comes up read-only without an error. A thread of its own, because this cannot be undone.
        thread::spawn(move || -> io::Result<()> {
            unshare(CloneFlags::CLONE_FS)?;
            // Short relative names keep 4 KiB of options enough for many layers.
            std::env::set_current_dir(&inside)?;
            sys::act_as(base)?;
            mount(
                Some("overlay"),
                "root",
                Some("overlay"),
                MsFlags::MS_NODEV | MsFlags::MS_NOATIME,
                Some(options.as_str()),
            )?;
            Ok(())
        })
        .join()
        .map_err(|_| io::Error::other("the mounting thread broke"))??;
        if statvfs(&root.path())?.flags().contains(FsFlags::ST_RDONLY) {
            return Err(io::Error::other("the overlay came up read-only"));
        }
        Ok(root)
    }

    /// The joined tree.
    pub fn path(&self) -> PathBuf {
        self.points.join("root")
    }

    /// Unmounts everything that [`Root::assemble`] mounted, and what was mounted below it since; what is not mounted is fine.
    pub fn disassemble(&self) {
        let clones = (0..self.layers).map(|number| number.to_string());
        for name in ["root".to_owned(), "disk".to_owned()]
            .into_iter()
            .chain(clones)
        {
            let path = self.points.join(name);
            if umount2(&path, MntFlags::empty()).is_err() {
                // Busy: it leaves with its last user, and takes along what is mounted below it, wherever the sandbox has
                // moved that. Not mounted: nothing to do.
                let _ = umount2(&path, MntFlags::MNT_DETACH);
            }
        }
    }
}
