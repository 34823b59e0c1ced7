//! What ends the program: one sentence that says what is wrong and how to mend it.

use std::{fmt, io, path::Path};

/// The reason why the program ends with exit code 1. Shown as one sentence on standard error.
pub struct Fatal {
    sentence: String,
}

impl Fatal {
    /// A sentence that says what is wrong and what to do.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
        }
    }

    /// A failed file operation: names the path, the cause in plain words, and what to do.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self::new(match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("Cannot {doing} {path}: the disk is full; free some space and start again.")
            }
            io::ErrorKind::PermissionDenied => format!(
                "Cannot {doing} {path}: permission denied; make it writable for this user or choose another directory with --data."
            ),
            io::ErrorKind::ReadOnlyFilesystem => format!(
                "Cannot {doing} {path}: the file system is read-only; choose another directory with --data."
            ),
            _ => format!(
                "Cannot {doing} {path}: {}; mend that or choose another directory with --data.",
                cause(error)
            ),
        })
    }

    /// The sentence.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl fmt::Debug for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Fatal {}

/// The system's words for an error, on one line and without its number.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => "unknown error".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_file_operation_names_path_cause_and_remedy() {
        let check = |kind, expected: &str| {
            let fatal = Fatal::io("write", Path::new("/d/key"), &io::Error::from(kind));
            assert_eq!(fatal.sentence(), expected);
        };
        check(
            io::ErrorKind::StorageFull,
            "Cannot write /d/key: the disk is full; free some space and start again.",
        );
        check(
            io::ErrorKind::PermissionDenied,
            "Cannot write /d/key: permission denied; make it writable for this user or choose another directory with --data.",
        );
        check(
            io::ErrorKind::NotADirectory,
            "Cannot write /d/key: not a directory; mend that or choose another directory with --data.",
        );
    }
}
