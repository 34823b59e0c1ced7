//! An image as an OCI image layout: a directory (or a tar of one) that every OCI tool reads.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{
        self, BufWriter,
        ErrorKind::{NotFound, WouldBlock},
        Write,
    },
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::pack::pack;

/// What an image is made of.
#[derive(Debug, Clone)]
pub struct ImageContents {
    /// Directories of its layers, lowest first.
    pub layers: Vec<PathBuf>,
    /// What each layer is, for people.
    pub history: Vec<String>,
    /// RFC 3339; part of what the digest rests upon.
    pub created: String,
    /// Such as where it comes from.
    pub labels: BTreeMap<String, String>,
    /// Tag of the image in the layout's index.
    pub tag: String,
}

/// A layout that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Digest of the manifest: of the image.
    pub digest: String,
    /// The manifest as written.
    pub manifest: Vec<u8>,
    /// Digest and size of each blob: layers in order, then the configuration.
    pub blobs: Vec<(String, u64)>,
    /// Paths that OCI has no way to say, and that were left out.
    pub left_out: Vec<PathBuf>,
}

/// Counts and hashes what passes.
struct Hashing<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Hashing<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    fn digest(self) -> (String, u64, W) {
        let digest = format!("sha256:{}", hex::encode(self.hash.finalize()));
        (digest, self.bytes, self.out)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.out.write(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Path of a blob in a layout.
pub(super) fn blob_path(layout: &Path, digest: &str) -> PathBuf {
    layout
        .join("blobs/sha256")
        .join(digest.trim_start_matches("sha256:"))
}

fn to_json(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn put(layout: &Path, bytes: &[u8]) -> io::Result<(String, u64)> {
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    fs::write(blob_path(layout, &digest), bytes)?;
    Ok((digest, bytes.len() as u64))
}

impl ImageContents {
    /// Writes a layout into `dir`, which must be empty or not exist. The same contents give the same bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_layout(&self, dir: &Path, progress: &mut dyn FnMut(&str)) -> io::Result<Layout> {
        fs::create_dir_all(dir.join("blobs/sha256"))?;
        let (mut blobs, mut diff_ids, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (index, layer) in self.layers.iter().enumerate() {
            let what = self.history.get(index).map_or("a layer", String::as_str);
            progress(&format!("packing layer {} ({what})", index + 1));
            let partial = dir.join("blobs/layer.partial");
            let file = Hashing::new(BufWriter::new(File::create(&partial)?));
            // No name and no time in the header: the bytes depend on the contents alone.
            let gzip = GzBuilder::new()
                .mtime(0)
                .write(file, Compression::default());
            let mut tar = Hashing::new(BufWriter::with_capacity(1 << 20, gzip));
            left_out.append(&mut pack(layer, &mut tar)?);
            tar.flush()?;
            let (diff_id, _, gzip) = tar.digest();
            let gzip = gzip.into_inner().map_err(io::IntoInnerError::into_error)?;
            let (digest, size, file) = gzip.finish()?.digest();
            file.into_inner().map_err(io::IntoInnerError::into_error)?;
            fs::rename(&partial, blob_path(dir, &digest))?;
            diff_ids.push(diff_id);
            blobs.push((digest, size));
        }
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "created": self.created,
            "config": {
                "User": "sandbox",
                "WorkingDir": "/workspace",
                "Cmd": ["/bin/bash", "-l"],
                "Env": [
                    "HOME=/home/sandbox",
                    "LANG=C.UTF-8",
                    format!("PATH={}", crate::oci::SANDBOX_PATH),
                ],
                "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": self.history.iter()
                .map(|what| json!({"created": self.created, "created_by": what}))
                .collect::<Vec<_>>(),
        });
        let (config_digest, config_size) = put(dir, &to_json(&config))?;
        let layers: Vec<Value> = blobs
            .iter()
            .map(|(digest, size)| {
                json!({
                    "mediaType": oci_client::manifest::IMAGE_LAYER_GZIP_MEDIA_TYPE,
                    "digest": digest,
                    "size": size,
                })
            })
            .collect();
        let manifest = to_json(&json!({
            "schemaVersion": 2,
            "mediaType": oci_client::manifest::OCI_IMAGE_MEDIA_TYPE,
            "config": {
                "mediaType": oci_client::manifest::IMAGE_CONFIG_MEDIA_TYPE,
                "digest": config_digest,
                "size": config_size,
            },
            "layers": layers,
        }));
        let (digest, size) = put(dir, &manifest)?;
        let index = json!({
            "schemaVersion": 2,
            "mediaType": oci_client::manifest::OCI_IMAGE_INDEX_MEDIA_TYPE,
            "manifests": [{
                "mediaType": oci_client::manifest::OCI_IMAGE_MEDIA_TYPE,
                "digest": digest,
                "size": size,
                "platform": {"architecture": "amd64", "os": "linux"},
                "annotations": {"org.opencontainers.image.ref.name": self.tag},
            }],
        });
        fs::write(dir.join("index.json"), to_json(&index))?;
        fs::write(dir.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        blobs.push((config_digest, config_size));
        Ok(Layout {
            digest,
            manifest,
            blobs,
            left_out,
        })
    }

    /// As [`Self::write_layout`], complete under its name or not at all: `output` is a directory, or a tar of one when it
    /// ends in `.tar`. It must not exist.
    ///
    /// # Errors
    /// Those of the file system; `AlreadyExists` when the output is there.
    pub fn export(&self, output: &Path, progress: &mut dyn FnMut(&str)) -> io::Result<Layout> {
        if fs::symlink_metadata(output).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let parent = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let work = Scratch::new(parent)?;
        let layout = self.write_layout(&work.path.join("layout"), progress)?;
        if output.extension().is_some_and(|end| end == "tar") {
            progress("writing the archive");
            let archive = work.path.join("layout.tar");
            archive_of(&work.path.join("layout"), &archive)?;
            fs::rename(archive, output)?;
        } else {
            fs::rename(work.path.join("layout"), output)?;
        }
        Ok(layout)
    }
}

/// A tar of a layout whose bytes depend on the layout alone.
fn archive_of(layout: &Path, archive: &Path) -> io::Result<()> {
    let mut names = vec![PathBuf::from("index.json"), PathBuf::from("oci-layout")];
    for entry in fs::read_dir(layout.join("blobs/sha256"))? {
        names.push(Path::new("blobs/sha256").join(entry?.file_name()));
    }
    names.sort();
    let mut tar = tar::Builder::new(BufWriter::new(File::create(archive)?));
    for name in names {
        let mut file = File::open(layout.join(&name))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(0o644);
        header.set_mtime(0);
        tar.append_data(&mut header, &name, &mut file)?;
    }
    tar.into_inner()?.flush()
}

/// A directory that goes with its owner.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    /// On the directory, for as long as somebody works in it.
    _lock: Flock<File>,
}

const SCRATCH: &str = ".groundwork-image.partial.";

impl Scratch {
    /// Other users may write to the parent (`/tmp`): the name is none that they can guess, nothing that has it is taken
    /// over, and nobody else gets in.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        loop {
            // Made exclusively, with mode 0700.
            let path = nix::unistd::mkdtemp(&parent.join(format!("{SCRATCH}XXXXXX")))?;
            let lock = File::open(&path).and_then(locked);
            // Between the two steps somebody may have taken it for one that was left.
            match lock {
                Ok(lock) if path.exists() => return Ok(Self { path, _lock: lock }),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), NotFound | WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes what processes that were killed left in `parent`; answers the paths.
    pub(super) fn clear(parent: &Path) -> io::Result<Vec<PathBuf>> {
        let mut cleared = Vec::new();
        for name in super::layers::names(parent)? {
            let path = parent.join(&name);
            if name.starts_with(SCRATCH)
                && let Ok(_lock) = File::open(&path).and_then(locked)
            {
                super::layers::remove_tree(&path)?;
                cleared.push(path);
            }
        }
        Ok(cleared)
    }
}

fn locked(dir: File) -> io::Result<Flock<File>> {
    Flock::lock(dir, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
