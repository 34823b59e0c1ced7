//! Bounds on what a registry and an image make us read: neither is trusted to be as large as it says, or to end at all.

use std::{
    cell::Cell,
    io::{self, Read},
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use nix::sys::statvfs::statvfs;
use oci_client::manifest::OciDescriptor;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWrite;

/// Bytes that images leave free on the disk.
const RESERVE: u64 = 1 << 30;
/// Files that others on the disk can still make. Some file systems have no such limit and say 0 of 0.
const FILES_RESERVE: u64 = 10_000;
/// How often the free space is looked at, in bytes written.
pub(super) const LOOK_EVERY: u64 = 64 << 20;
/// Most bytes of all layers together, as they are sent.
pub(super) const PACKED_MAX: u64 = 64 << 30;
/// Most bytes of all layers together, unpacked.
pub(super) const UNPACKED_MAX: u64 = 256 << 30;
/// Most bytes that a single file appears to have.
pub(super) const FILE_MAX: u64 = 64 << 30;
/// Most bytes of an entry's headers, with long names and attributes: they are read into memory.
pub(super) const HEADERS_MAX: u64 = 1 << 20;

/// Whether the disk takes so much and keeps its reserve.
///
/// # Errors
/// `ENOSPC` when not.
pub(super) fn room(dir: &Path, bytes: u64) -> io::Result<()> {
    let stat = statvfs(dir)?;
    let few_files = stat.files() > 0 && stat.files_available() < FILES_RESERVE;
    if few_files || stat.blocks_available() * stat.fragment_size() < RESERVE.saturating_add(bytes) {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

/// The announced size of a part of an image.
///
/// # Errors
/// What is wrong with it.
pub(super) fn announced(part: &OciDescriptor, most: u64) -> Result<u64, String> {
    match u64::try_from(part.size) {
        Ok(size) if size <= most => Ok(size),
        _ => Err(format!(
            "a part of it has {} bytes, and at most {most} are taken",
            part.size
        )),
    }
}

/// Why writing ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// More came than was announced.
    More,
    /// The disk has no room.
    Full,
}

/// Takes as much as was announced, and looks after the disk on the way.
pub(super) struct Bounded<W> {
    /// What was written.
    pub(super) out: W,
    /// Bytes that have yet to come.
    pub(super) left: u64,
    /// Why it takes no more.
    pub(super) cut: Option<Cut>,
    disk: Option<PathBuf>,
    unlooked: u64,
}

impl<W> Bounded<W> {
    /// `disk`: a directory of the file system that `out` lies on.
    pub(super) fn new(out: W, announced: u64, disk: Option<&Path>) -> Self {
        Self {
            out,
            left: announced,
            cut: None,
            disk: disk.map(Path::to_owned),
            unlooked: 0,
        }
    }

    fn refuse(&mut self, cut: Cut) -> Poll<io::Result<usize>> {
        self.cut = Some(cut);
        let why = match cut {
            Cut::More => "it sends more than its manifest announces",
            Cut::Full => "the machine's disk has no room for it",
        };
        Poll::Ready(Err(io::Error::other(why)))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Bounded<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.len() as u64 > self.left {
            return self.refuse(Cut::More);
        }
        let look = self.unlooked >= LOOK_EVERY;
        if look && self.disk.as_ref().is_some_and(|dir| room(dir, 0).is_err()) {
            return self.refuse(Cut::Full);
        }
        let count = ready!(Pin::new(&mut self.out).poll_write(cx, buffer))?;
        self.left -= count as u64;
        self.unlooked = if look { 0 } else { self.unlooked } + count as u64;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.out).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.out).poll_shutdown(cx)
    }
}

/// Hashes and counts what is read, up to a limit.
pub(super) struct Hashed<R> {
    from: R,
    hash: Sha256,
    left: u64,
}

impl<R: Read> Hashed<R> {
    /// At most `most` bytes of `from`.
    pub(super) fn new(from: R, most: u64) -> Self {
        Self {
            from,
            hash: Sha256::new(),
            left: most,
        }
    }

    /// `sha256:…` of what was read, and how much more might have been.
    pub(super) fn end(self) -> (String, u64) {
        let digest = format!("sha256:{}", hex::encode(self.hash.finalize()));
        (digest, self.left)
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(too_large)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// The image is larger than any that is taken.
pub(super) fn too_large() -> io::Error {
    let text = format!("it has more than {} GiB unpacked", UNPACKED_MAX >> 30);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// An archive's bytes, metered: what is read while an entry's headers are looked for may not be much.
pub(super) struct Metered<R> {
    from: R,
    /// Bytes that may be read; `None`: any number.
    left: Meter,
}

/// The meter, to be set from outside of the archive's reader.
pub(super) type Meter = Rc<Cell<Option<u64>>>;

impl<R> Metered<R> {
    /// With its meter, which is off.
    pub(super) fn new(from: R) -> (Self, Meter) {
        let left = Meter::default();
        let metered = Self {
            from,
            left: Rc::clone(&left),
        };
        (metered, left)
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        if let Some(left) = self.left.get() {
            let Some(left) = left.checked_sub(count as u64) else {
                let text = format!(
                    "an entry's headers have more than {} KiB",
                    HEADERS_MAX >> 10
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            self.left.set(Some(left));
        }
        Ok(count)
    }
}
