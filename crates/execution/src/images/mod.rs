//! Images on this machine (spec 4-execution, *Images*): runner images, built from Debian packages, and where saved
//! layers lie.
//!
//! ```text
//! <root>/runner/<variant>/rootfs/       the unpacked file system, plain ids 0 to 65535
//! <root>/runner/<variant>/image.json    reference, digest, size and the key of what it was built from
//! <root>/layers/<hex>/                  saved layers by digest
//! ```

mod layers;
mod runner;

use std::path::{Path, PathBuf};

pub use layers::{bytes_on_disk, hex_of};
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

    /// The runner images that are complete, by reference.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn runner_images(&self) -> std::io::Result<Vec<RunnerImage>> {
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(self.root.join("runner")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        for entry in entries {
            // A directory without a readable image.json is an unfinished build, not an image.
            if let Ok(text) = std::fs::read_to_string(entry?.path().join("image.json"))
                && let Ok(image) = serde_json::from_str::<RunnerImage>(&text)
            {
                found.push(image);
            }
        }
        found.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(found)
    }

    /// A runner image by reference.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn runner_image(&self, reference: &str) -> std::io::Result<Option<RunnerImage>> {
        Ok(self
            .runner_images()?
            .into_iter()
            .find(|image| image.reference == reference))
    }

    /// The root file system of a runner image that is on this machine.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn rootfs(&self, reference: &str) -> std::io::Result<Option<PathBuf>> {
        let Some(variant) = Variant::of_reference(reference) else {
            return Ok(None);
        };
        Ok(self
            .runner_image(reference)?
            .map(|_| self.variant_dir(variant).join("rootfs")))
    }

    fn variant_dir(&self, variant: Variant) -> PathBuf {
        self.root.join("runner").join(variant.as_str())
    }
}
