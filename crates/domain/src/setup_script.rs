//! The setup script: normalising, warnings, statements (spec 1-domain, *Script*).

use crate::limits;

/// The saved form: CRLF is LF, no white space at the end of a line or of the whole, one LF at the end. A script of white
/// space only is none (`""`). Line numbers never move, and normalising again changes nothing.
pub fn normalise(script: &str) -> String {
    let mut normal = String::with_capacity(script.len() + 1);
    for line in script.split('\n') {
        normal.push_str(line.trim_end());
        normal.push('\n');
    }
    let kept = normal.trim_end().len();
    normal.truncate(kept);
    if !normal.is_empty() {
        normal.push('\n');
    }
    normal
}

/// What is wrong with a script as it was sent; `None`: it can be saved.
pub fn problem(script: &str) -> Option<String> {
    if script.contains('\0') {
        return Some("The script holds a NUL character: bash cannot read it.".to_owned());
    }
    // The LF that the saved form ends in does not count, so that whatever was saved can be sent again.
    let bytes = script.strip_suffix('\n').unwrap_or(script).len();
    (bytes > limits::SCRIPT_MAX_BYTES).then(|| {
        format!(
            "The script has {bytes} bytes; at most {} are allowed. Put parts of it into files of your repository.",
            limits::SCRIPT_MAX_BYTES
        )
    })
}

mod exports;
mod lexer;
mod lint;
mod statements;

pub use exports::{MovableExport, movable_exports, without_line};
pub use lint::{ScriptWarning, WarningCode, lint};
pub use statements::{first_line, statement_at};
