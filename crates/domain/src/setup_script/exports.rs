//! Exports that had better be variables of the environment: those are there in sessions too.

use super::lexer::Lexer;
use crate::env_vars::name_problem;

/// A line that does nothing but export fixed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovableExport {
    /// Its number, from 1.
    pub line: u32,
    /// Names and values.
    pub variables: Vec<(String, String)>,
}

/// What could make a value depend on the place where it stands, or share its line with something else.
const DEPENDS: [char; 14] = [
    '$', '`', '\\', '~', ';', '&', '|', '<', '>', '(', ')', '{', '}', '\r',
];

/// The lines of a script that could be variables of the environment instead. Left out where moving could change what the
/// script does: inside of conditions, loops and functions, with values that are computed, and for names that cannot be set
/// for an environment.
pub fn movable_exports(script: &str) -> Vec<MovableExport> {
    let lines: Vec<&str> = script.split('\n').collect();
    Lexer::read(script)
        .commands
        .iter()
        .filter(|command| !command.nested && !command.background && command.piped_from.is_none())
        .filter_map(|command| {
            let [export, values @ ..] = command.words.as_slice() else {
                return None;
            };
            let at = usize::try_from(command.line).ok()?.checked_sub(1)?;
            let line = lines.get(at)?.trim();
            if export.text != "export" || !line.starts_with("export") || line.contains(DEPENDS) {
                return None;
            }
            // Alone it must say the same: nothing of it goes on in the next line, nothing else stands in it.
            let alone = Lexer::read(line).commands;
            let same = matches!(alone.as_slice(), [one]
                if one.words.iter().map(|w| &w.text).eq(command.words.iter().map(|w| &w.text)));
            if !same || depends_on_the_line_before(&lines[..at]) {
                return None;
            }
            let variables: Option<Vec<(String, String)>> = values
                .iter()
                .map(|word| {
                    let (name, value) = word.text.split_once('=')?;
                    name_problem(name)
                        .is_none()
                        .then(|| (name.to_owned(), value.to_owned()))
                })
                .collect();
            Some(MovableExport {
                line: command.line,
                variables: variables.filter(|variables| !variables.is_empty())?,
            })
        })
        .collect()
}

/// Whether the last command before ends in an operator, which makes what follows a part of it.
fn depends_on_the_line_before(before: &[&str]) -> bool {
    before
        .iter()
        .rev()
        .map(|line| line.trim())
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|line| {
            let bare = line.split(" #").next().unwrap_or_default().trim_end();
            [line, bare]
                .iter()
                .any(|line| line.ends_with(['&', '|', '\\']))
        })
}

/// The script without a line.
pub fn without_line(script: &str, line: u32) -> String {
    script
        .split_inclusive('\n')
        .zip(1..)
        .filter(|(_, number)| *number != line)
        .map(|(text, _)| text)
        .collect()
}
