//! The data directory: closed to others, used by one instance at a time, and home of the deployment's key.
//!
//! Others may pass through it (mode 711) but not list it: a sandbox's root is another user of the machine, and its disk
//! lies below. Every file directly in it is for its owner alone.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rand::TryRngCore;

use crate::fatal::Fatal;

/// Bytes of the deployment's key.
const KEY_BYTES: usize = 32;
/// The directory's permissions.
const MODE: u32 = 0o711;

/// The data directory, held by this process until it is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Holds the lock; the system releases it when the process ends, however it ends.
    _lock: Option<File>,
}

impl DataDir {
    /// Makes the directory if it is not there, checks that it can be written, and takes it for this process.
    pub fn take(path: &Path) -> Result<Self, Fatal> {
        let mut dir = Self::open(path)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|e| Fatal::io("write", &lock_path, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Fatal::new(format!(
                    "Another Groundwork server uses the data directory {}; stop it, or give this one another directory with --data.",
                    path.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(Fatal::io("lock", &lock_path, &e)),
        }
        dir._lock = Some(lock);
        Ok(dir)
    }

    /// Makes the directory if it is not there, without taking it: for commands that may run beside the server.
    pub fn open(path: &Path) -> Result<Self, Fatal> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(path)
            .map_err(|e| Fatal::io("make the data directory", path, &e))?;
        // A directory that was there already may be more open or more closed than that.
        let mode = fs::metadata(path)
            .map_err(|e| Fatal::io("read", path, &e))?
            .permissions()
            .mode();
        if mode & 0o777 != MODE {
            fs::set_permissions(path, fs::Permissions::from_mode(MODE))
                .map_err(|e| Fatal::io("restrict the data directory", path, &e))?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The deployment's key, made at the first start. API keys and other tokens are stored as hashes keyed by it, so that
    /// the database alone is of no use to a thief.
    pub fn key(&self) -> Result<Key, Fatal> {
        let path = self.path.join("key");
        match read_key(&path, "no API key is valid")? {
            Some(key) => Ok(key),
            None => self.make_key(&path),
        }
    }

    /// The key that secret variables are sealed with: of the file `configured`, which must be there, or of a file in the
    /// data directory, made unless something was sealed already.
    pub fn secrets_key(
        &self,
        configured: Option<&Path>,
        anything_sealed: bool,
    ) -> Result<Key, Fatal> {
        let own = self.path.join("secrets.key");
        let path = configured.unwrap_or(&own);
        match read_key(path, "no secret variable can be opened")? {
            Some(key) => Ok(key),
            None if configured.is_some() => Err(Fatal::new(format!(
                "The key file {} (secrets.key_file) is not there; put it back, or make it with: head -c {KEY_BYTES} /dev/urandom.",
                path.display()
            ))),
            None if anything_sealed => Err(Fatal::new(format!(
                "The key file {} is missing, and secret variables are sealed with it; put it back from a backup.",
                path.display()
            ))),
            None => self.make_key(path),
        }
    }

    /// Writes a new key beside its place and links it there, so that a crash leaves no half key and of two commands that
    /// start at once only one makes it.
    fn make_key(&self, path: &Path) -> Result<Key, Fatal> {
        let mut bytes = [0_u8; KEY_BYTES];
        rand::rngs::OsRng
            .try_fill_bytes(&mut bytes)
            .map_err(|_| Fatal::new("The system gives no random bytes; check /dev/urandom."))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let draft = self.path.join(format!("{name}.{}", std::process::id()));
        let written = (|| {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&draft)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::hard_link(&draft, path)?;
            File::open(&self.path)?.sync_all()
        })();
        // The draft is a second name of the key or rubbish; an error here changes nothing.
        let _ = fs::remove_file(&draft);
        match written {
            Ok(()) => Ok(Key(bytes)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                read_key(path, "nothing opens")?.ok_or_else(|| Fatal::io("read", path, &e))
            }
            Err(e) => Err(Fatal::io("write the key file", path, &e)),
        }
    }
}

/// The key in a file, if there is one. `without` says what is lost without it.
fn read_key(path: &Path, without: &str) -> Result<Option<Key>, Fatal> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Fatal::io("read", path, &e)),
    };
    let mut bytes = Vec::with_capacity(KEY_BYTES);
    (&mut file)
        .take(KEY_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Fatal::io("read", path, &e))?;
    let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|_| {
        Fatal::new(format!(
            "The key file {} is damaged (it must hold {KEY_BYTES} bytes); put it back from a backup, because without it {without}.",
            path.display()
        ))
    })?;
    Ok(Some(Key(bytes)))
}

/// The deployment's key. Has no text form.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The raw bytes, for hashing.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_directory_cannot_be_listed_and_the_key_is_for_its_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let dir = DataDir::take(&path).unwrap();
        let first = dir.key().unwrap();
        assert_eq!(mode(&path), 0o711);
        assert_eq!(mode(&path.join("key")), 0o600);
        assert_eq!(first.bytes(), dir.key().unwrap().bytes());
        assert_eq!(
            fs::read_dir(&path).unwrap().count(),
            2,
            "key and lock, no draft"
        );
    }

    #[test]
    fn a_directory_open_to_others_is_restricted() {
        let parent = tempfile::tempdir().unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
        DataDir::open(parent.path()).unwrap();
        assert_eq!(mode(parent.path()), 0o711);
    }

    #[test]
    fn a_second_instance_is_refused_while_the_first_lives() {
        let parent = tempfile::tempdir().unwrap();
        let first = DataDir::take(parent.path()).unwrap();
        let refusal = DataDir::take(parent.path()).unwrap_err();
        assert!(refusal.sentence().contains("--data"), "{refusal}");
        drop(first);
        assert!(DataDir::take(parent.path()).is_ok());
    }

    #[test]
    fn the_key_of_secrets_is_made_once_and_missed_when_it_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = DataDir::open(parent.path()).unwrap();
        let path = parent.path().join("secrets.key");
        let first = dir.secrets_key(None, false).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_ne!(first.bytes(), dir.key().unwrap().bytes());
        assert_eq!(first.bytes(), dir.secrets_key(None, true).unwrap().bytes());
        let elsewhere = parent.path().join("given");
        let refusal = dir.secrets_key(Some(&elsewhere), false).err().unwrap();
        assert!(refusal.sentence().contains("secrets.key_file"), "{refusal}");
        fs::rename(&path, &elsewhere).unwrap();
        assert_eq!(
            first.bytes(),
            dir.secrets_key(Some(&elsewhere), true).unwrap().bytes()
        );
        let refusal = dir.secrets_key(None, true).err().unwrap();
        assert!(refusal.sentence().contains("is missing"), "{refusal}");
        fs::write(&path, b"short").unwrap();
        let refusal = dir.secrets_key(None, true).err().unwrap();
        assert!(refusal.sentence().contains("damaged"), "{refusal}");
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("key"), b"short").unwrap();
        let refusal = DataDir::open(parent.path()).unwrap().key().err().unwrap();
        assert!(refusal.sentence().contains("damaged"), "{refusal}");
        assert_eq!(fs::read(parent.path().join("key")).unwrap(), b"short");
    }
}
