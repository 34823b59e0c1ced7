//! Copies a directory tree with everything that makes a layer (ids, modes, times, extended attributes, hard links, holes,
//! device nodes, FIFOs) and hashes what it copies: the same content gives the same digest, wherever it lay.
#![allow(unsafe_code)]

use std::{
    collections::HashMap,
    ffi::{CString, OsStr, OsString},
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, MetadataExt, OpenOptionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::stat::{Mode, SFlag, mknod},
    unistd::{Whence, lseek64},
};
use sha2::{Digest, Sha256};

use super::sys::{c_path, set_attribute};

/// Bytes moved at once.
const CHUNK: usize = 256 * 1024;
/// Granularity of holes in the copy.
const PAGE: usize = 4096;

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// SHA-256 of the canonical listing and contents, in hex.
    pub digest: String,
    /// Bytes of file contents, holes left out.
    pub bytes: u64,
}

/// Copies `from` to `to`, which must not exist. Sockets are left out, and so are the overlay's notes to itself that mean
/// nothing elsewhere (`trusted.overlay.origin` and others but `opaque`). `room` is told of the bytes that the copy takes,
/// before many more are written, and asked again and again while none are; its error ends the copying.
///
/// # Errors
/// Those of the file systems, and of `room`.
pub fn tree(
    from: &Path,
    to: &Path,
    room: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<Copied> {
    let mut work = Work {
        from: from.to_owned(),
        to: to.to_owned(),
        hash: Sha256::new(),
        bytes: 0,
        links: HashMap::new(),
        buffer: vec![0; CHUNK],
        room,
    };
    let meta = fs::symlink_metadata(from)?;
    work.directory(Path::new(""), &meta)?;
    Ok(Copied {
        digest: hex::encode(work.hash.finalize()),
        bytes: work.bytes,
    })
}

struct Work<'a> {
    from: PathBuf,
    to: PathBuf,
    hash: Sha256,
    bytes: u64,
    /// First path of each inode that has several.
    links: HashMap<u64, PathBuf>,
    buffer: Vec<u8>,
    room: &'a mut dyn FnMut(u64) -> io::Result<()>,
}

impl Work<'_> {
    /// Adds length-delimited bytes to the digest, so that no two listings look alike.
    fn note(&mut self, bytes: &[u8]) {
        self.hash.update((bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }

    fn note_number(&mut self, number: u64) {
        self.hash.update(number.to_le_bytes());
    }

    fn directory(&mut self, path: &Path, meta: &Metadata) -> io::Result<()> {
        let (source, target) = (self.from.join(path), self.to.join(path));
        fs::create_dir(&target)?;
        self.header(path, meta, &source, b'd')?;
        let mut names: Vec<OsString> = fs::read_dir(&source)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        names.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        for name in names {
            self.entry(&path.join(name))?;
        }
        attributes(&source, &target, meta)
    }

    fn entry(&mut self, path: &Path) -> io::Result<()> {
        let (source, target) = (self.from.join(path), self.to.join(path));
        // Names and attributes take room, too.
        (self.room)(PAGE as u64)?;
        let meta = fs::symlink_metadata(&source)?;
        let kind = SFlag::from_bits_truncate(meta.mode() & SFlag::S_IFMT.bits());
        if kind == SFlag::S_IFDIR {
            return self.directory(path, &meta);
        }
        if kind == SFlag::S_IFSOCK {
            return Ok(());
        }
        if meta.nlink() > 1 {
            if let Some(first) = self.links.get(&meta.ino()).cloned() {
                fs::hard_link(self.to.join(&first), &target)?;
                self.note(path.as_os_str().as_bytes());
                self.hash.update(b"h");
                self.note(first.as_os_str().as_bytes());
                return Ok(());
            }
            self.links.insert(meta.ino(), path.to_owned());
        }
        match kind {
            SFlag::S_IFREG => {
                self.header(path, &meta, &source, b'f')?;
                self.contents(&source, &target, &meta)?;
            }
            SFlag::S_IFLNK => {
                self.header(path, &meta, &source, b'l')?;
                let link = fs::read_link(&source)?;
                self.note(link.as_os_str().as_bytes());
                symlink(link, &target)?;
            }
            _ => {
                self.header(path, &meta, &source, b'n')?;
                self.note_number(u64::from(kind.bits()));
                self.note_number(meta.rdev());
                mknod(&target, kind, Mode::from_bits_truncate(0o600), meta.rdev())?;
            }
        }
        attributes(&source, &target, &meta)
    }

    fn header(&mut self, path: &Path, meta: &Metadata, source: &Path, kind: u8) -> io::Result<()> {
        self.note(path.as_os_str().as_bytes());
        self.hash.update([kind]);
        for number in [
            u64::from(meta.mode()),
            u64::from(meta.uid()),
            u64::from(meta.gid()),
        ] {
            self.note_number(number);
        }
        self.hash.update(meta.mtime().to_le_bytes());
        self.hash.update(meta.mtime_nsec().to_le_bytes());
        for (name, value) in kept_attributes(source)? {
            self.note(name.as_bytes());
            self.note(&value);
        }
        self.hash.update([0xff]);
        Ok(())
    }

    /// Copies what is not zero. Data is hashed in chunks at multiples of the chunk's size, so that the digest does not
    /// depend on how a file system laid the file out.
    fn contents(&mut self, source: &Path, target: &Path, meta: &Metadata) -> io::Result<()> {
        let from = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(source)?;
        let to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(target)?;
        let size = meta.size();
        self.note_number(size);
        let mut at = 0_u64;
        while let Some(data_at) = next_data(&from, at, size)? {
            at = data_at - data_at % CHUNK as u64;
            let want = usize::try_from(size - at).unwrap_or(CHUNK).min(CHUNK);
            from.read_exact_at(&mut self.buffer[..want], at)?;
            let chunk = &self.buffer[..want];
            let mut written = 0;
            if chunk.iter().any(|byte| *byte != 0) {
                self.hash.update(at.to_le_bytes());
                self.hash.update(chunk);
                written = write_sparse(&to, chunk, at)?;
                self.bytes += written;
            }
            (self.room)(written)?;
            at += want as u64;
        }
        to.set_len(size)
    }
}

/// Where the file holds data next, from `at` on; `None` when only a hole or nothing is left.
fn next_data(file: &File, at: u64, size: u64) -> io::Result<Option<u64>> {
    if at >= size {
        return Ok(None);
    }
    match lseek64(
        file,
        i64::try_from(at).map_err(io::Error::other)?,
        Whence::SeekData,
    ) {
        Ok(start) => {
            Ok(Some(u64::try_from(start).map_err(io::Error::other)?).filter(|start| *start < size))
        }
        Err(Errno::ENXIO) => Ok(None),
        // A file system that knows no holes.
        Err(Errno::EINVAL) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// Writes the pages that are not zero, in runs, and returns how many bytes that were.
fn write_sparse(to: &File, chunk: &[u8], at: u64) -> io::Result<u64> {
    let mut written = 0;
    let mut start = 0;
    while start < chunk.len() {
        let run: usize = chunk[start..]
            .chunks(PAGE)
            .take_while(|page| page.iter().any(|byte| *byte != 0))
            .map(<[u8]>::len)
            .sum();
        if run == 0 {
            start += PAGE;
        } else {
            to.write_all_at(&chunk[start..start + run], at + start as u64)?;
            written += run as u64;
            start += run;
        }
    }
    Ok(written)
}

/// Extended attributes that belong to the layer, in order of their names.
pub(crate) fn kept_attributes(path: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
    let path = c_path(path)?;
    let mut names = Vec::new();
    // SAFETY: with a size of 0 nothing is written.
    let size = unsafe { libc::llistxattr(path.as_ptr(), std::ptr::null_mut(), 0) };
    if size <= 0 {
        return no_attributes(size).map(|()| Vec::new());
    }
    names.resize(usize::try_from(size).unwrap_or(0), 0_u8);
    // SAFETY: at most `names.len()` bytes are written to `names`.
    let size = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    no_attributes(size)?;
    names.truncate(usize::try_from(size).unwrap_or(0));
    let mut found = Vec::new();
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        if name.starts_with(b"trusted.overlay.") && name != b"trusted.overlay.opaque" {
            continue;
        }
        let c_name = CString::new(name).map_err(io::Error::other)?;
        let mut value = vec![0_u8; 64 * 1024];
        // SAFETY: at most `value.len()` bytes, the most an attribute can have, are written to `value`.
        let size = unsafe {
            libc::lgetxattr(
                path.as_ptr(),
                c_name.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        };
        value.truncate(usize::try_from(size).map_err(|_| io::Error::last_os_error())?);
        found.push((OsString::from_vec(name.to_vec()), value));
    }
    found.sort();
    Ok(found)
}

fn no_attributes(size: isize) -> io::Result<()> {
    if size >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOTSUP) => Ok(()),
        error => Err(error),
    }
}

/// Owner first (changing it drops capabilities and setuid), then mode, attributes, times.
fn attributes(source: &Path, target: &Path, meta: &Metadata) -> io::Result<()> {
    std::os::unix::fs::lchown(target, Some(meta.uid()), Some(meta.gid()))?;
    let is_link = meta.file_type().is_symlink();
    if !is_link {
        fs::set_permissions(
            target,
            std::os::unix::fs::PermissionsExt::from_mode(meta.mode() & 0o7777),
        )?;
    }
    let c_target = c_path(target)?;
    for (name, value) in kept_attributes(source)? {
        let c_name = CString::new(OsStr::as_bytes(&name)).map_err(io::Error::other)?;
        set_attribute(target, &c_name, &value)?;
    }
    let time = |seconds, nanoseconds| libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = [
        time(meta.atime(), meta.atime_nsec()),
        time(meta.mtime(), meta.mtime_nsec()),
    ];
    // SAFETY: the path is NUL-terminated and the array has the two elements that are read.
    let result = unsafe {
        libc::utimensat(
            libc::AT_FDCWD,
            c_target.as_ptr(),
            times.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
