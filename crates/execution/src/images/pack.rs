//! A layer as a tar stream of the OCI image format: the same layer gives the same bytes, whenever and wherever it is packed.
//!
//! Entries stand in the order of their names. Overlay's whiteouts (character devices 0:0) become `.wh.NAME`, its opaque
//! directories get `.wh..wh..opq`; extended attributes and fractions of seconds go into PAX records. Left out: sockets,
//! device nodes, the overlay's notes to itself, and files whose own name would read as a whiteout.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use tar::{Builder, EntryType, Header};

use crate::shim::copy::kept_attributes;

/// Marks what a lower layer's file is hidden by.
pub(super) const WHITEOUT: &str = ".wh.";
/// Hides everything that lower layers have in a directory.
pub(super) const OPAQUE: &str = ".wh..wh..opq";
/// Most bytes of holes in a layer: its files are packed with every byte, and a script can make one of 15 TiB that takes
/// nothing on its disk.
const HOLES_MAX: u64 = 16 << 30;
/// Where overlay notes that a directory is opaque.
const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// Writes the tree under `dir`; answers the paths that were left out because OCI has no way to say them.
///
/// # Errors
/// Those of the file system and of the writer.
pub(super) fn pack<W: Write>(dir: &Path, out: W) -> io::Result<Vec<PathBuf>> {
    let mut work = Work {
        root: dir,
        tar: Builder::new(out),
        links: HashMap::new(),
        left_out: Vec::new(),
        holes: 0,
    };
    // A tree can be deeper than a thread's stack: what is still to come stands in a list, next one last.
    let mut coming = work.children(Path::new(""))?;
    while let Some(path) = coming.pop() {
        if work.entry(&path)? {
            coming.append(&mut work.children(&path)?);
        }
    }
    work.tar.finish()?;
    Ok(work.left_out)
}

struct Work<'a, W: Write> {
    root: &'a Path,
    tar: Builder<W>,
    /// First path of each inode that has several.
    links: HashMap<u64, PathBuf>,
    left_out: Vec<PathBuf>,
    /// Bytes so far that are in no block of a file.
    holes: u64,
}

impl<W: Write> Work<'_, W> {
    /// Paths in a directory, last name first.
    fn children(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names: Vec<OsString> = fs::read_dir(self.root.join(path))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
        Ok(names.into_iter().map(|name| path.join(name)).collect())
    }

    /// Writes one; answers whether it is a directory.
    fn entry(&mut self, path: &Path) -> io::Result<bool> {
        let source = self.root.join(path);
        let meta = fs::symlink_metadata(&source)?;
        let kind = meta.file_type();
        if kind.is_char_device() && meta.rdev() == 0 {
            self.marker(&whiteout(path))?;
            return Ok(false);
        }
        let name = path.file_name().unwrap_or_default().as_bytes();
        let misleading = name.starts_with(WHITEOUT.as_bytes());
        if misleading || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
            self.left_out.push(path.to_owned());
            return Ok(false);
        }
        let mut header = header(&meta);
        if !kind.is_dir() && meta.nlink() > 1 {
            if let Some(first) = self.links.get(&meta.ino()).cloned() {
                header.set_entry_type(EntryType::Link);
                self.tar.append_link(&mut header, path, first)?;
                return Ok(false);
            }
            self.links.insert(meta.ino(), path.to_owned());
        }
        let attributes = kept_attributes(&source)?;
        self.records(&meta, &attributes)?;
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            self.tar.append_data(&mut header, path, io::empty())?;
            if attributes.iter().any(|(name, _)| name == OPAQUE_ATTRIBUTE) {
                self.marker(&path.join(OPAQUE))?;
            }
            return Ok(true);
        }
        if kind.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            let target = fs::read_link(&source)?;
            self.tar.append_link(&mut header, path, target)?;
        } else if kind.is_fifo() {
            header.set_entry_type(EntryType::Fifo);
            self.tar.append_data(&mut header, path, io::empty())?;
        } else {
            header.set_entry_type(EntryType::Regular);
            header.set_size(meta.size());
            self.holes += meta.size().saturating_sub(meta.blocks() * 512);
            if self.holes > HOLES_MAX {
                return Err(io::Error::other(format!(
                    "files with holes, such as /{}, are over {} GiB larger than what they hold, and an exported image holds every byte; remove them in the setup script",
                    path.display(),
                    HOLES_MAX >> 30
                )));
            }
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&source)?;
            self.tar.append_data(&mut header, path, file)?;
        }
        Ok(false)
    }

    fn records(&mut self, meta: &Metadata, attributes: &[(OsString, Vec<u8>)]) -> io::Result<()> {
        let fraction = (meta.mtime_nsec() != 0).then(|| {
            let time = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
            ("mtime".to_owned(), time.into_bytes())
        });
        let attributes = attributes.iter().filter_map(|(name, value)| {
            let name = name.to_str()?;
            (name != OPAQUE_ATTRIBUTE).then(|| (format!("SCHILY.xattr.{name}"), value.clone()))
        });
        let records: Vec<(String, Vec<u8>)> = fraction.into_iter().chain(attributes).collect();
        self.tar.append_pax_extensions(
            records
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_slice())),
        )
    }

    /// An empty file that only says something by its name.
    fn marker(&mut self, path: &Path) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(0);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        self.tar.append_data(&mut header, path, io::empty())
    }
}

fn whiteout(path: &Path) -> PathBuf {
    let mut name = OsString::from(WHITEOUT);
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

fn header(meta: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(meta.mode() & 0o7777);
    header.set_uid(u64::from(meta.uid()));
    header.set_gid(u64::from(meta.gid()));
    header.set_mtime(u64::try_from(meta.mtime()).unwrap_or(0));
    header.set_size(0);
    header
}
