//! Unpacking the layers of a foreign image into one directory. The image is hostile: whatever its entries say, nothing
//! outside the directory is touched. Parents are resolved by the kernel as if the directory were `/`; last components are
//! never followed; ids are in the range that sandboxes have; device nodes and attributes that mean something to the host
//! are left out.

use std::{
    collections::HashSet,
    ffi::{CString, OsStr},
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{OpenOptionsExt, PermissionsExt, lchown, symlink},
        },
    },
    path::{Component, Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::{
        stat::{Mode, UtimensatFlags, mkdirat, utimensat},
        time::TimeSpec,
    },
    unistd::mkfifo,
};
use tar::{Archive, Entry, EntryType};

use super::{
    bounded::{self, FILE_MAX, HEADERS_MAX, LOOK_EVERY, Metered, UNPACKED_MAX},
    pack::{OPAQUE, WHITEOUT},
};
use crate::shim::sys::set_attribute;

/// Ids inside a sandbox are below this.
const IDS: u64 = 65_536;
/// Most entries of all layers together.
const ENTRIES_MAX: u64 = 5_000_000;
/// Bytes that an entry takes besides its contents, and to which these are rounded up.
const ENTRY: u64 = 4096;
const CHUNK: usize = 64 * 1024;

/// A directory that layers are unpacked into, lowest first.
pub(super) struct Unpacker {
    dir: PathBuf,
    root: OwnedFd,
    /// Paths that the present layer made: its whiteouts do not mean these.
    made: HashSet<PathBuf>,
    entries: u64,
    /// Bytes that files may still appear to have. Zeros take no room, but time.
    left: u64,
    /// Bytes of archives that may still be read.
    pub(super) stream: u64,
    unlooked: u64,
    /// Device nodes that were left out.
    pub(super) devices: u64,
}

fn refused(path: &Path, why: &str) -> io::Error {
    let text = format!("the image's entry {} {why}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The path below the root; the root itself is empty.
fn clean(path: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(refused(path, "leads out of the image"));
            }
        }
    }
    if clean.as_os_str().as_bytes().contains(&0) {
        return Err(refused(path, "has a name that no file can have"));
    }
    Ok(clean)
}

/// A name in an open directory, for calls that take a path and follow no last component.
fn at(parent: &OwnedFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(parent.as_raw_fd().to_string())
        .join(name)
}

impl Unpacker {
    /// Into `dir`, which exists.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            dir: dir.to_owned(),
            root: open(dir, flags, Mode::empty())?,
            made: HashSet::new(),
            entries: 0,
            left: UNPACKED_MAX,
            // Names, owners and times come on top of what is in the files.
            stream: UNPACKED_MAX * 2,
            unlooked: LOOK_EVERY,
            devices: 0,
        })
    }

    fn directory(&self, path: &Path) -> nix::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        openat2(self.root.as_fd(), path, how)
    }

    /// A directory of the image, made with those above it where it is not there.
    pub(super) fn ensure(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.directory(path) {
            Err(Errno::ENOENT) => {}
            found => return Ok(found?),
        }
        let parent = self.ensure(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().unwrap_or_default();
        match mkdirat(&parent, name, Mode::from_bits_truncate(0o755)) {
            // A symlink that leads to nothing inside the image.
            Err(Errno::EEXIST) => Err(refused(path, "lies below something that is no directory")),
            made => {
                made?;
                Ok(self.directory(path)?)
            }
        }
    }

    /// Unpacks one layer over those before.
    pub(super) fn layer(&mut self, tar: impl Read) -> io::Result<()> {
        self.made.clear();
        let (tar, meter) = Metered::new(tar);
        let mut archive = Archive::new(tar);
        let mut times = Vec::new();
        let mut entries = archive.entries()?;
        loop {
            // Long names and attributes are read into memory when the next entry is looked for.
            meter.set(Some(HEADERS_MAX));
            let Some(entry) = entries.next() else { break };
            meter.set(None);
            let mut entry = entry?;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(io::Error::other("the image has too many files"));
            }
            // Each takes a place of its own on the disk, however little is in it.
            self.unlooked += ENTRY;
            self.look()?;
            // Also of what is no file: its contents are read past.
            let size = entry.size();
            if size > FILE_MAX {
                let path = entry.path()?.into_owned();
                let why = format!("has more than {} GiB", FILE_MAX >> 30);
                return Err(refused(&path, &why));
            }
            self.left = self.left.checked_sub(size).ok_or_else(bounded::too_large)?;
            if let Some(time) = self.entry(&mut entry)? {
                times.push(time);
            }
            io::copy(&mut entry, &mut io::sink())?;
        }
        // Last, because what is put into a directory changes its time.
        for (path, seconds) in times.into_iter().rev() {
            if let Ok(dir) = self.directory(&path) {
                set_time(&at(&dir, OsStr::new(".")), seconds)?;
            }
        }
        Ok(())
    }

    /// Answers a directory's path and time.
    fn entry(&mut self, entry: &mut Entry<'_, impl Read>) -> io::Result<Option<(PathBuf, i64)>> {
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            return Ok(None);
        }
        let path = clean(&entry.path()?)?;
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            return Ok(None);
        };
        let parent_path = path.parent().unwrap_or(Path::new("")).to_owned();
        let parent = self.ensure(&parent_path)?;
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT.as_bytes()) {
            if name == OPAQUE {
                self.empty(&parent, &parent_path)?;
            } else {
                let hidden = OsStr::from_bytes(hidden);
                if matches!(hidden.as_bytes(), b"" | b"." | b"..") {
                    return Err(refused(&path, "hides nothing that can be hidden"));
                }
                if !self.made.contains(&parent_path.join(hidden)) {
                    remove(&at(&parent, hidden))?;
                }
            }
            return Ok(None);
        }
        let (uid, gid) = (entry.header().uid()?, entry.header().gid()?);
        if uid >= IDS || gid >= IDS {
            return Err(refused(&path, "belongs to a user that no sandbox has"));
        }
        let owner = (uid as u32, gid as u32);
        let mode = entry.header().mode()? & 0o7777;
        let seconds = i64::try_from(entry.header().mtime()?).unwrap_or(0);
        let attributes = attributes(entry)?;
        let target = at(&parent, &name);
        if matches!(kind, EntryType::Char | EntryType::Block) {
            self.devices += 1;
            return Ok(None);
        }
        let is_dir = fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_dir());
        if kind == EntryType::Directory {
            if !is_dir {
                remove(&target)?;
                fs::create_dir(&target)?;
            }
        } else {
            remove(&target)?;
            match kind {
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                    self.contents(entry, &target)?;
                }
                EntryType::Symlink => {
                    let link = entry
                        .link_name()?
                        .ok_or_else(|| refused(&path, "is a link to nothing"))?;
                    symlink(link, &target)?;
                }
                EntryType::Link => {
                    let link = entry
                        .link_name()?
                        .ok_or_else(|| refused(&path, "is a link to nothing"))?;
                    self.hard_link(&path, &clean(&link)?, &target)?;
                    self.made.insert(path);
                    return Ok(None);
                }
                EntryType::Fifo => mkfifo(&target, Mode::from_bits_truncate(0o600))?,
                _ => return Err(refused(&path, "is of a kind that is not understood")),
            }
        }
        // Owner first: changing it takes setuid bits and capabilities away.
        lchown(&target, Some(owner.0), Some(owner.1))?;
        if kind != EntryType::Symlink {
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        }
        if matches!(
            kind,
            EntryType::Regular
                | EntryType::Continuous
                | EntryType::GNUSparse
                | EntryType::Directory
        ) {
            for (name, value) in &attributes {
                set_attribute(&target, name, value)?;
            }
        }
        self.made.insert(path.clone());
        if kind == EntryType::Directory {
            return Ok(Some((path, seconds)));
        }
        set_time(&target, seconds)?;
        Ok(None)
    }

    fn hard_link(&self, path: &Path, link: &Path, target: &Path) -> io::Result<()> {
        let parent = self.directory(link.parent().unwrap_or(Path::new("")));
        let name = link.file_name();
        let (Ok(parent), Some(name)) = (parent, name) else {
            return Err(refused(path, "is a link to nothing"));
        };
        let source = at(&parent, name);
        let plain = fs::symlink_metadata(&source)
            .is_ok_and(|meta| meta.is_file() || meta.file_type().is_symlink());
        if !plain {
            return Err(refused(path, "is a link to what is no file of the image"));
        }
        fs::hard_link(source, target)
    }

    /// Writes a file, zeroes left out.
    fn contents(&mut self, entry: &mut Entry<'_, impl Read>, target: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(target)?;
        let mut buffer = vec![0; CHUNK];
        let mut size = 0_u64;
        loop {
            let mut filled = 0;
            while filled < CHUNK {
                match entry.read(&mut buffer[filled..])? {
                    0 => break,
                    count => filled += count,
                }
            }
            if filled == 0 {
                break;
            }
            let chunk = &buffer[..filled];
            size += filled as u64;
            if chunk.iter().all(|byte| *byte == 0) {
                file.seek(SeekFrom::Current(filled as i64))?;
            } else {
                file.write_all(chunk)?;
                self.unlooked += (filled as u64).next_multiple_of(ENTRY);
                self.look()?;
            }
        }
        file.set_len(size)
    }

    /// An image can be far larger unpacked than it was on its way: it is not to fill the disk.
    fn look(&mut self) -> io::Result<()> {
        if self.unlooked < LOOK_EVERY {
            return Ok(());
        }
        self.unlooked = 0;
        bounded::room(&self.dir, 0)
    }

    /// Removes what lower layers have in a directory.
    fn empty(&self, parent: &OwnedFd, path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(at(parent, OsStr::new(".")))? {
            let name = entry?.file_name();
            if !self.made.contains(&path.join(&name)) {
                remove(&at(parent, &name))?;
            }
        }
        Ok(())
    }

    /// The text of a small file of the image; empty if there is none.
    pub(super) fn text(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        if let Ok(file) = self.file(path) {
            file.take(1 << 20).read_to_string(&mut text)?;
        }
        Ok(text)
    }

    /// A file of the image, also one that a link inside it leads to.
    pub(super) fn file(&self, path: &str) -> io::Result<File> {
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let file = File::from(openat2(self.root.as_fd(), path, how)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Replaces a file of the image.
    pub(super) fn put(&self, path: &str, text: &str, mode: u32) -> io::Result<()> {
        let path = Path::new(path);
        let parent = self.ensure(path.parent().unwrap_or(Path::new("")))?;
        let target = at(&parent, path.file_name().unwrap_or_default());
        remove(&target)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&target)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    }

    /// Removes a name of the image's root that is no directory: mount points are none of its choosing.
    pub(super) fn unlink(&self, name: &str) -> io::Result<()> {
        let target = at(&self.root, OsStr::new(name));
        match fs::symlink_metadata(&target) {
            Ok(meta) if !meta.is_dir() => fs::remove_file(target),
            _ => Ok(()),
        }
    }

    /// A directory of the image with this owner and mode.
    pub(super) fn put_dir(&self, path: &str, id: u32, mode: u32) -> io::Result<()> {
        let dir = self.ensure(Path::new(path))?;
        let target = at(&dir, OsStr::new("."));
        lchown(&target, Some(id), Some(id))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))
    }
}

/// Removes whatever has this name; nothing is followed.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Attributes that mean something inside and nothing to the host: capabilities of files without an id of their own, and
/// what users noted.
fn attributes(entry: &mut Entry<'_, impl Read>) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let mut found = Vec::new();
    let Some(records) = entry.pax_extensions()? else {
        return Ok(found);
    };
    for record in records {
        let record = record?;
        let Some(name) = record.key_bytes().strip_prefix(b"SCHILY.xattr.") else {
            continue;
        };
        let value = record.value_bytes();
        // Version 2, little endian: without the id of a user namespace.
        let plain_capability =
            name == b"security.capability" && value.len() == 20 && value.get(3) == Some(&0x02);
        if (plain_capability || name.starts_with(b"user."))
            && let Ok(name) = CString::new(name)
        {
            found.push((name, value.to_vec()));
        }
    }
    Ok(found)
}

fn set_time(path: &Path, seconds: i64) -> io::Result<()> {
    let time = TimeSpec::new(seconds, 0);
    Ok(utimensat(
        nix::fcntl::AT_FDCWD,
        path,
        &time,
        &time,
        UtimensatFlags::NoFollowSymlink,
    )?)
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
