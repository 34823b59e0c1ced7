//! Printing: tables, pairs, JSON, and questions.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};

use serde_json::Value;

use super::failure::{Failure, Result};

/// Writes text to standard output. A reader that has gone (`| head`) is no failure.
pub fn out(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(format!(
            "Standard output cannot be written ({error}); check where it is directed."
        ))),
        _ => Ok(()),
    }
}

/// Writes a line to standard error.
pub fn note(text: &str) {
    // Standard error may be closed; there is nobody left to tell then.
    let _ = writeln!(io::stderr(), "{text}");
}

/// JSON for programs, readable by people.
pub fn json(value: &Value) -> Result<()> {
    out(&format!("{value:#}\n"))
}

/// Lines of cells under headings, each column as wide as its widest cell.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .chain([heading.chars().count()])
                .max()
                .unwrap_or_default()
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(headings.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// Asks for a yes on a terminal; without one, refuses and names the option that answers.
pub fn confirm(question: &str, option: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(format!(
            "There is no terminal to ask \"{question}\" on. Say yes with {option}."
        )));
    }
    let answer = ask(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a line.
pub fn ask(question: &str) -> Result<String> {
    let _ = write!(io::stderr(), "{question}");
    let _ = io::stderr().flush();
    read_line()
}

/// The next line of standard input.
pub fn read_line() -> Result<String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::new(format!("Standard input cannot be read ({error}).")))?;
    Ok(line.trim().to_owned())
}

/// Text without control characters, so that a name from a server cannot move the cursor.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            vec!["ä".to_owned(), "1".to_owned()],
            vec!["longer".to_owned(), String::new()],
        ];
        assert_eq!(
            table(&["NAME", "N"], &rows),
            "NAME    N\nä       1\nlonger\n"
        );
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
    }
}
