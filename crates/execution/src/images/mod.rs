//! Images on this machine (spec 4-execution, *Images*): runner images, built from Debian packages, and where saved
//! layers lie.
//!
//! ```text
//! <root>/runner/<variant>                link to the image that was built last
//! <root>/runner/<variant>-<hex>/rootfs/  the unpacked file system, plain ids 0 to 65535
//! <root>/runner/<variant>-<hex>/image.json  reference, digest, size and the key of what it was built from
//! <root>/runner/oci-<hex>/rootfs/        a runner image from a registry, by digest
//! <root>/runner/references/             which digest each reference of a registry meant last
//! <root>/layers/<hex>/                  saved layers by digest
//! ```

mod bounded;
mod layers;
mod layout;
mod needs;
mod pack;
mod registry;
mod replaced;
mod runner;
mod unpack;

use std::path::{Path, PathBuf};

pub use layers::{bytes_on_disk, hex_of};
pub use layout::{ImageContents, Layout};
pub use registry::{Login, RegistryError, is_remote, push};
pub use runner::{BuildError, Variant};
use serde::{Deserialize, Serialize};

/// A runner image on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerImage {
    /// Such as `groundwork/runner:full`.
    pub reference: String,
    /// `sha256:…` of the image as a tar stream.
    pub digest: String,
    /// Bytes of the unpacked files.
    pub size_bytes: u64,
    /// Hash of the definition it was built from; another definition is built again.
    pub key: String,
}

/// The images under one directory.
#[derive(Debug, Clone)]
pub struct ImageStore {
    root: PathBuf,
}

impl ImageStore {
    /// Images under `root`; nothing is read or made yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where saved layers lie.
    pub fn layers_dir(&self) -> PathBuf {
        self.root.join("layers")
    }

    /// Where runner images lie.
    pub(crate) fn runners(&self) -> PathBuf {
        self.root.join("runner")
    }

    /// The runner images that are complete, by reference; replaced ones left out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn runner_images(&self) -> std::io::Result<Vec<RunnerImage>> {
        let mut found = Vec::new();
        // A directory without a readable image.json is an unfinished build, not an image.
        for variant in Variant::ALL {
            found.extend(read_image(&self.variant_dir(variant))?);
        }
        for digest in self.named_digests()? {
            if let Some(dir) = self.pulled_dir(&digest) {
                found.extend(read_image(&dir)?);
            }
        }
        found.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(found)
    }

    /// A runner image by reference: of a registry's, the one that the reference meant last.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn runner_image(&self, reference: &str) -> std::io::Result<Option<RunnerImage>> {
        Ok(self.runner(reference)?.map(|(image, _)| image))
    }

    /// The root file system of a runner image that is on this machine, by the path that stays its own when another image
    /// takes its place.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn rootfs(&self, reference: &str) -> std::io::Result<Option<PathBuf>> {
        Ok(self.runner(reference)?.map(|(_, rootfs)| rootfs))
    }

    /// Both, of the same image also while another takes its place.
    pub(crate) fn runner(
        &self,
        reference: &str,
    ) -> std::io::Result<Option<(RunnerImage, PathBuf)>> {
        let Some(dir) = self.runner_dir(reference)? else {
            return Ok(None);
        };
        let dir = match dir.canonicalize() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        Ok(read_image(&dir)?.map(|image| {
            let reference = reference.to_owned();
            (RunnerImage { reference, ..image }, dir.join("rootfs"))
        }))
    }

    fn runner_dir(&self, reference: &str) -> std::io::Result<Option<PathBuf>> {
        if let Some(variant) = Variant::of_reference(reference) {
            return Ok(Some(self.variant_dir(variant)));
        }
        let digest = self.pulled_digest(reference)?;
        Ok(digest.and_then(|digest| self.pulled_dir(&digest)))
    }

    fn variant_dir(&self, variant: Variant) -> PathBuf {
        self.runners().join(variant.as_str())
    }
}

/// What an image's directory says of it; `None`: it is no complete image.
fn read_image(dir: &Path) -> std::io::Result<Option<RunnerImage>> {
    match std::fs::read_to_string(dir.join("image.json")) {
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Makes a directory complete: with this it is an image.
fn write_image(dir: &Path, image: &RunnerImage) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(image).map_err(std::io::Error::other)?;
    let partial = dir.join("image.json.partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(partial, dir.join("image.json"))
}

/// Makes a directory that only we can pass. Images hold programs that sandboxes made set-user-ID root: for a user of this
/// machine they would be that.
pub(crate) fn make_private(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}
