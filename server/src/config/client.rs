//! What `groundwork login` stores: the server's address and an API key, readable by their owner alone.

use std::{
    env, fs,
    io::{ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

/// A stored sign-in.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The server's address.
    pub url: String,
    /// The key to it.
    pub api_key: String,
}

impl Stored {
    /// `$XDG_CONFIG_HOME/groundwork/credentials.toml`, or below `~/.config`.
    pub fn path() -> Option<PathBuf> {
        let base = match env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => {
                PathBuf::from(env::var_os("HOME").filter(|dir| !dir.is_empty())?).join(".config")
            }
        };
        Some(base.join("groundwork/credentials.toml"))
    }

    /// What is stored, if anything.
    ///
    /// # Errors
    /// A sentence, when it cannot be read or others can read it.
    pub fn read() -> Result<Option<Self>, String> {
        let Some(path) = Self::path() else {
            return Ok(None);
        };
        let shown = path.display();
        let mode = match fs::metadata(&path) {
            Ok(found) => found.permissions().mode(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{shown} cannot be read: {error}.")),
        };
        if mode & 0o077 != 0 {
            return Err(format!(
                "{shown} can be read by other users of this machine. Run: chmod 600 {shown}"
            ));
        }
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{shown} cannot be read: {error}."))?;
        // The parser's own message would repeat the line, and with it the key.
        toml::from_str(&text).map(Some).map_err(|_| {
            format!("{shown} is not what `groundwork login` writes. Run `groundwork login` again.")
        })
    }

    /// Stores it, for the owner alone.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn write(&self) -> Result<PathBuf, String> {
        let path = Self::path().ok_or(
            "There is no home directory to store the key in: set HOME or XDG_CONFIG_HOME.",
        )?;
        let failed =
            |error: std::io::Error| format!("{} cannot be written: {error}.", path.display());
        let dir = path.parent().map(PathBuf::from).unwrap_or_default();
        fs::create_dir_all(&dir).map_err(failed)?;
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        // Whole or not at all, and never readable by others, not even for a moment.
        let draft = dir.join(format!(".credentials.{}", std::process::id()));
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                fs::rename(&draft, &path)
            });
        written.map_err(failed)?;
        Ok(path)
    }
}

/// Whether the reader wants no colours (`NO_COLOR`, any value but none).
pub fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
