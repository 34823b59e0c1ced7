//! Runner images of which a newer one has taken the place. Their files stay where they are as long as something stands on
//! them: a sandbox, a kept disk, a setup image. What is written over a layer makes sense over exactly that layer.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ImageStore, RunnerImage, Variant, layers::REMOVING, layers::hex_of, layers::remove_tree,
    layout::Scratch, read_image, write_image,
};

/// A directory whose image was completed less than this ago may be about to get its name: it is not replaced.
const YOUNG: Duration = Duration::from_secs(600);

impl ImageStore {
    /// Makes a complete directory, of the same file system, the runner image of its variant. The one before stays as a
    /// replaced image until it is deleted.
    ///
    /// # Errors
    /// Those of the file system; a digest that is none.
    pub fn adopt_runner(
        &self,
        variant: Variant,
        from: &Path,
        image: &RunnerImage,
    ) -> io::Result<()> {
        let parent = self.runners();
        let name = built_name(variant, &image.digest).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is no digest", image.digest),
            )
        })?;
        let target = parent.join(&name);
        if read_image(&target)?.is_some() {
            // The very same files, by another definition.
            write_image(&target, image)?;
            remove_tree(from)?;
        } else {
            write_image(from, image)?;
            remove_tree(&target)?;
            fs::rename(from, &target)?;
        }
        let link = self.variant_dir(variant);
        if fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_dir()) {
            // Images of earlier versions lie under the variant's own name.
            let before = read_image(&link)?.and_then(|old| built_name(variant, &old.digest));
            match before {
                Some(before) if !parent.join(&before).exists() => {
                    fs::rename(&link, parent.join(before))?;
                }
                _ => remove_tree(&link)?,
            }
        }
        let partial = parent.join(format!("{}.link", variant.as_str()));
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(name, &partial)?;
        fs::rename(partial, link)
    }

    /// The root file system of the runner image with this digest, replaced or not.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn rootfs_of(&self, digest: &str) -> io::Result<Option<PathBuf>> {
        for dir in self.runner_dirs()? {
            if read_image(&dir)?.is_some_and(|image| image.digest == digest) {
                return Ok(Some(dir.canonicalize()?.join("rootfs")));
            }
        }
        Ok(None)
    }

    /// Digests of the replaced runner images, in order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn replaced_runners(&self) -> io::Result<Vec<String>> {
        let mut digests: Vec<String> = self
            .replaced()?
            .into_iter()
            .map(|(digest, _)| digest)
            .collect();
        digests.sort();
        Ok(digests)
    }

    /// Directory of a saved layer or a replaced runner image that is here.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn deletable_dir(&self, digest: &str) -> io::Result<Option<PathBuf>> {
        if let Some(layer) = self.layer_dir(digest).filter(|dir| dir.is_dir()) {
            return Ok(Some(layer));
        }
        let mut replaced = self.replaced()?.into_iter();
        Ok(replaced
            .find(|(found, _)| found == digest)
            .map(|(_, dir)| dir))
    }

    /// Whether the runner images are this store's own. A directory that is a link belongs to another store, whose it is to
    /// delete from it.
    fn owns_runners(&self) -> bool {
        fs::symlink_metadata(self.runners()).is_ok_and(|meta| meta.is_dir())
    }

    /// Replaced images by digest, with their directories.
    fn replaced(&self) -> io::Result<Vec<(String, PathBuf)>> {
        if !self.owns_runners() {
            return Ok(Vec::new());
        }
        let mut current: HashSet<PathBuf> = HashSet::new();
        for variant in Variant::ALL {
            current.extend(self.variant_dir(variant).canonicalize());
        }
        for digest in self.named_digests()? {
            let dir = self.pulled_dir(&digest);
            current.extend(dir.and_then(|dir| dir.canonicalize().ok()));
        }
        let mut found = Vec::new();
        for dir in self.runner_dirs()? {
            let known = dir.canonicalize()?;
            if current.contains(&known) || is_young(&dir) {
                continue;
            }
            if let Some(image) = read_image(&dir)? {
                found.push((image.digest, dir));
            }
        }
        Ok(found)
    }

    /// The first half of deleting a replaced image, which takes no time.
    pub(super) fn condemn_runner(&self, digest: &str) -> io::Result<()> {
        for (found, dir) in self.replaced()? {
            if found == digest {
                let mut name = dir.clone().into_os_string();
                name.push(REMOVING);
                remove_tree(Path::new(&name))?;
                fs::rename(&dir, &name)?;
            }
        }
        Ok(())
    }

    /// The second half.
    pub(super) fn clear_runner_fragments(&self) -> io::Result<Vec<PathBuf>> {
        let mut cleared = Vec::new();
        if self.owns_runners() {
            for name in super::layers::names(&self.runners())? {
                if name.ends_with(REMOVING) {
                    let path = self.runners().join(name);
                    remove_tree(&path)?;
                    cleared.push(path);
                }
            }
            cleared.extend(Scratch::clear(&self.runners())?);
        }
        Ok(cleared)
    }

    /// Directories of complete images, each once: built ones by digest, those of earlier versions by variant, pulled ones.
    pub(super) fn runner_dirs(&self) -> io::Result<Vec<PathBuf>> {
        let mut dirs: Vec<PathBuf> = super::layers::names(&self.runners())?
            .into_iter()
            .filter(|name| is_image_name(name))
            .map(|name| self.runners().join(name))
            .filter(|dir| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()))
            .filter(|dir| dir.join("image.json").is_file())
            .collect();
        dirs.sort();
        Ok(dirs)
    }
}

fn built_name(variant: Variant, digest: &str) -> Option<String> {
    Some(format!("{}-{}", variant.as_str(), hex_of(digest)?))
}

fn is_image_name(name: &str) -> bool {
    let of = |kind: &str| {
        name.strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| hex_of(rest) == Some(rest))
    };
    of("oci")
        || Variant::ALL
            .into_iter()
            .any(|variant| name == variant.as_str() || of(variant.as_str()))
}

fn is_young(dir: &Path) -> bool {
    let completed = fs::metadata(dir.join("image.json")).and_then(|meta| meta.modified());
    // A time in the future is a clock that was set back: not young for ever.
    completed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < YOUNG))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::SystemTime};

    use super::*;

    const REFERENCE: &str = "groundwork/runner:small";

    fn image(digit: char) -> RunnerImage {
        RunnerImage {
            reference: REFERENCE.to_owned(),
            digest: format!("sha256:{}", String::from(digit).repeat(64)),
            size_bytes: 1,
            key: String::from(digit),
        }
    }

    fn adopt(store: &ImageStore, digit: char) -> io::Result<()> {
        let from = store.runners().join("small.partial");
        fs::create_dir_all(from.join("rootfs"))?;
        fs::write(from.join("rootfs/which"), String::from(digit))?;
        store.adopt_runner(Variant::Small, &from, &image(digit))
    }

    fn grow_old(store: &ImageStore) -> io::Result<()> {
        for dir in store.runner_dirs()? {
            let before = SystemTime::UNIX_EPOCH + YOUNG;
            File::options()
                .write(true)
                .open(dir.join("image.json"))?
                .set_modified(before)?;
        }
        Ok(())
    }

    fn which(rootfs: Option<PathBuf>) -> Option<String> {
        fs::read_to_string(rootfs?.join("which")).ok()
    }

    #[test]
    fn a_replaced_image_stays_under_its_digest_until_it_is_deleted() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let store = ImageStore::new(dir.path());
        // As earlier versions left it.
        let old = store.runners().join("small");
        fs::create_dir_all(old.join("rootfs"))?;
        fs::write(old.join("rootfs/which"), "a")?;
        write_image(&old, &image('a'))?;
        assert_eq!(store.runner_images()?, [image('a')]);
        for digit in ['b', 'c'] {
            adopt(&store, digit)?;
        }
        assert_eq!(store.runner_images()?, [image('c')]);
        assert_eq!(which(store.rootfs(REFERENCE)?).as_deref(), Some("c"));
        for digit in ['a', 'b', 'c'] {
            let rootfs = store.rootfs_of(&image(digit).digest)?;
            assert_eq!(which(rootfs), Some(digit.to_string()));
        }
        assert_eq!(store.replaced_runners()?, [""; 0], "they are young");
        grow_old(&store)?;
        assert_eq!(
            store.replaced_runners()?,
            [image('a').digest, image('b').digest]
        );
        store.delete_layer(&image('a').digest)?;
        store.delete_layer(&image('c').digest)?;
        assert_eq!(store.replaced_runners()?, [image('b').digest]);
        assert_eq!(store.rootfs_of(&image('a').digest)?, None);
        assert_eq!(which(store.rootfs(REFERENCE)?).as_deref(), Some("c"));
        // The same files again, by another definition.
        let again = RunnerImage {
            key: "d".to_owned(),
            ..image('b')
        };
        let from = store.runners().join("small.partial");
        fs::create_dir_all(from.join("rootfs"))?;
        store.adopt_runner(Variant::Small, &from, &again)?;
        assert_eq!(store.runner_images()?, [again]);
        assert_eq!(which(store.rootfs(REFERENCE)?).as_deref(), Some("b"));
        grow_old(&store)?;
        assert_eq!(store.replaced_runners()?, [image('c').digest]);
        Ok(())
    }

    #[test]
    fn images_of_another_store_are_not_deleted() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let theirs = ImageStore::new(dir.path().join("theirs"));
        for digit in ['a', 'b'] {
            adopt(&theirs, digit)?;
        }
        grow_old(&theirs)?;
        let ours = ImageStore::new(dir.path().join("ours"));
        fs::create_dir(ours.root())?;
        symlink(theirs.runners(), ours.runners())?;
        assert_eq!(
            which(ours.rootfs_of(&image('a').digest)?).as_deref(),
            Some("a")
        );
        assert_eq!(ours.replaced_runners()?, [""; 0]);
        ours.delete_layer(&image('a').digest)?;
        assert_eq!(theirs.replaced_runners()?, [image('a').digest]);
        Ok(())
    }
}
