//! Saved layers: listing them, and deleting those that nothing needs, replaced runner images with them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::ImageStore;

/// End of the name of a layer that is being deleted: no sandbox starts from it any more.
pub(super) const REMOVING: &str = ".removing";

/// The 64 hexadecimal digits of a digest such as `sha256:…`, in lower case as files are named; `None`: it is none.
pub fn hex_of(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    let fits = hex.len() == 64
        && hex
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    fits.then_some(hex)
}

impl ImageStore {
    /// Directory of a saved layer, whether it is there or not; `None`: the digest is none.
    pub fn layer_dir(&self, digest: &str) -> Option<PathBuf> {
        Some(self.layers_dir().join(hex_of(digest)?))
    }

    /// Digests of the complete layers, in order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn saved_layers(&self) -> io::Result<Vec<String>> {
        let mut found: Vec<String> = names(&self.layers_dir())?
            .into_iter()
            .filter(|name| hex_of(name).is_some())
            .map(|name| format!("sha256:{name}"))
            .collect();
        found.sort();
        Ok(found)
    }

    /// Deletes a layer or a replaced runner image: at once it is none any more, then its files go. One that is not there
    /// is no error.
    ///
    /// # Errors
    /// Those of the file system; what is left has a name that [`Self::clear_fragments`] knows.
    pub fn delete_layer(&self, digest: &str) -> io::Result<()> {
        self.condemn_layer(digest)?;
        self.clear_fragments().map(drop)
    }

    /// The first half of [`Self::delete_layer`], which takes no time: nothing can start from the layer any more.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn condemn_layer(&self, digest: &str) -> io::Result<()> {
        let Some(dir) = self.layer_dir(digest) else {
            return Ok(());
        };
        let mut name = dir.clone().into_os_string();
        name.push(REMOVING);
        let removing = PathBuf::from(name);
        // Only a deletion that was cut off leaves one of the same layer.
        remove_tree(&removing)?;
        match fs::rename(&dir, &removing) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.condemn_runner(digest),
        }
    }

    /// Removes what a deletion that was cut off left; answers the names. Half-saved layers belong to their sandboxes and
    /// go with these.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn clear_fragments(&self) -> io::Result<Vec<PathBuf>> {
        let mut cleared = Vec::new();
        for name in names(&self.layers_dir())? {
            if name.ends_with(REMOVING) {
                let path = self.layers_dir().join(name);
                remove_tree(&path)?;
                cleared.push(path);
            }
        }
        cleared.extend(self.clear_runner_fragments()?);
        Ok(cleared)
    }
}

pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => Ok(entries
            .collect::<io::Result<Vec<_>>>()?
            .into_iter()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()),
    }
}

pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bytes that files under a directory take on disk, each once however many names it has.
///
/// # Errors
/// When something under it cannot be read.
pub fn bytes_on_disk(path: &Path) -> io::Result<u64> {
    fn walk(path: &Path, seen: &mut std::collections::HashSet<u64>) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        let mut total = 0;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                total += walk(&entry.path(), seen)?;
            } else if meta.nlink() < 2 || seen.insert(meta.ino()) {
                total += meta.blocks() * 512;
            }
        }
        Ok(total)
    }
    walk(path, &mut std::collections::HashSet::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_listed_deleted_and_fragments_cleared() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let store = ImageStore::new(dir.path());
        assert!(store.saved_layers()?.is_empty());
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        for name in [
            one.as_str(),
            two.as_str(),
            &format!("{}.removing", "3".repeat(64)),
            "0.partial",
            "lost+found",
        ] {
            fs::create_dir_all(store.layers_dir().join(name).join("etc"))?;
        }
        assert_eq!(
            store.saved_layers()?,
            [format!("sha256:{one}"), format!("sha256:{two}")]
        );
        assert_eq!(store.clear_fragments()?.len(), 1);
        assert!(store.clear_fragments()?.is_empty());
        store.delete_layer(&format!("sha256:{one}"))?;
        store.delete_layer(&format!("sha256:{one}"))?;
        assert_eq!(store.saved_layers()?, [format!("sha256:{two}")]);
        assert!(store.layers_dir().join("0.partial").exists());
        Ok(())
    }

    #[test]
    fn only_digests_name_layers() {
        let store = ImageStore::new("/images");
        for odd in [
            "",
            "sha256:",
            "sha256:../../etc",
            &"A".repeat(64),
            &"a".repeat(63),
        ] {
            assert_eq!(store.layer_dir(odd), None, "{odd}");
        }
        assert!(
            store
                .layer_dir(&format!("sha256:{}", "a".repeat(64)))
                .is_some()
        );
    }
}
