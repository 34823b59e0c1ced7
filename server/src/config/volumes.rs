//! Volumes: directories of this machine that environments can mount (`[volumes.NAME]`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use domain::mounts::volume_name_problem;
use execution::oci::Volume;

use super::{Database, Settings, file};
use crate::fatal::Fatal;

/// The volumes of the file, by name. What the machine says about their directories is asked by [`check`].
pub(super) fn read(declared: &BTreeMap<String, file::Volume>) -> Result<Vec<Volume>, Fatal> {
    declared
        .iter()
        .map(|(name, volume)| {
            if let Some(problem) = volume_name_problem(name) {
                return Err(Fatal::new(format!(
                    "The setting volumes names {name:?}, which is no name for a volume; {problem}."
                )));
            }
            if !volume.directory.is_absolute() {
                return Err(Fatal::new(format!(
                    "The setting volumes.{name}.directory is {}; write an absolute path.",
                    volume.directory.display()
                )));
            }
            Ok(Volume {
                name: name.clone(),
                directory: volume.directory.clone(),
                writable: volume.writable,
            })
        })
        .collect()
}

/// Finds the directories of the volumes, with every link on the way resolved, and refuses those that no sandbox may see:
/// whatever holds the deployment's own data.
///
/// # Errors
/// A directory is not there, is none, or overlaps the data directory, the database or the key file; or one that is writable
/// belongs to root.
pub fn check(settings: &mut Settings) -> Result<(), Fatal> {
    let mut own = vec![(settings.data.clone(), "the data directory")];
    if let Database::Sqlite(path) = &settings.database {
        own.push((path.clone(), "the database"));
    }
    if let Some(path) = &settings.secrets_key_file {
        own.push((path.clone(), "the key file of secret variables"));
    }
    let own: Vec<(PathBuf, &str)> = own
        .into_iter()
        .map(|(path, what)| (real(&path), what))
        .collect();
    for volume in &mut settings.volumes {
        let refuse = |why: String| {
            Fatal::new(format!(
                "The volume {} cannot be offered: {why}; correct volumes.{}.directory in the configuration file.",
                volume.name, volume.name
            ))
        };
        let shown = volume.directory.display();
        let directory = fs::canonicalize(&volume.directory)
            .map_err(|error| refuse(format!("its directory {shown} cannot be found ({error})")))?;
        if !directory.is_dir() {
            return Err(refuse(format!("{shown} is not a directory")));
        }
        let overlapping = own
            .iter()
            .find(|(path, _)| path.starts_with(&directory) || directory.starts_with(path));
        if let Some((path, what)) = overlapping {
            return Err(refuse(format!(
                "its directory {shown} and {what} ({}) lie within each other, and sandboxes would see it",
                path.display()
            )));
        }
        volume.directory = directory;
        volume.usable().map_err(refuse)?;
    }
    Ok(())
}

/// The path with links resolved as far as it is there.
fn real(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use crate::config::tests::settings;

    /// Settings with these volumes beside a data directory that is there.
    fn checked(dir: &Path, volumes: &str) -> Result<Settings, Fatal> {
        let data = dir.join("data");
        fs::create_dir_all(data.join("images")).unwrap();
        let mut settings = settings(&format!("data = {data:?}\n{volumes}"))?;
        check(&mut settings)?;
        Ok(settings)
    }

    #[test]
    fn volumes_are_found_and_read_only_unless_declared_writable() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        for name in ["sets", "out"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        chown(place.join("out"), Some(1234), Some(1234)).unwrap();
        symlink(place.join("sets"), place.join("link")).unwrap();
        let text = format!(
            "[volumes.sets]\ndirectory = \"{0}/link\"\n[volumes.out]\ndirectory = \"{0}/out\"\nwritable = true\n",
            place.display()
        );
        let found = checked(&place, &text).unwrap().volumes;
        let volume = |name: &str, writable| Volume {
            name: name.to_owned(),
            directory: place.join(name),
            writable,
        };
        assert_eq!(found, [volume("out", true), volume("sets", false)]);
    }

    #[test]
    fn what_cannot_be_a_volume_refuses_the_start_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        fs::write(place.join("file"), "x").unwrap();
        fs::create_dir(place.join("of-root")).unwrap();
        fs::create_dir(place.join("keys")).unwrap();
        symlink(place.join("data"), place.join("link")).unwrap();
        let at = |path: &str| {
            format!(
                "[volumes.sets]\ndirectory = \"{}/{path}\"\n",
                place.display()
            )
        };
        for (text, words) in [
            (at("absent"), "absent cannot be found"),
            (at("file"), "file is not a directory"),
            (at("data"), "the data directory"),
            (at("data/images"), "the data directory"),
            (at("link"), "the data directory"),
            (at(""), "the data directory"),
            (at("of-root") + "writable = true\n", "belongs to root"),
            (
                format!("secrets.key_file = \"{0}/keys/key\"\n", place.display()) + &at("keys"),
                "the key file",
            ),
            (
                "[volumes.sets]\ndirectory = \"sets\"\n".to_owned(),
                "absolute path",
            ),
            (
                "[volumes.\"a/b\"]\ndirectory = \"/srv\"\n".to_owned(),
                "63 letters",
            ),
            ("[volumes.sets]\n".to_owned(), "directory"),
            (at("sets") + "write = true\n", "write"),
        ] {
            let sentence = checked(&place, &text).unwrap_err().sentence().to_owned();
            assert!(sentence.contains(words), "{text}: {sentence}");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }

    #[test]
    fn a_place_that_is_not_there_yet_is_resolved_as_far_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        fs::create_dir(place.join("real")).unwrap();
        symlink(place.join("real"), place.join("link")).unwrap();
        assert_eq!(real(&place.join("link/a/b")), place.join("real/a/b"));
    }
}
