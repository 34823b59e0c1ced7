//! The source text of a statement, as written.

use super::lexer::Lexer;

/// The line that the statement reported at `line` begins on: bash reports the last line of a command that goes on over
/// several by backslashes. Lines count from 1.
pub fn first_line(script: &str, line: u32) -> u32 {
    let lines: Vec<&str> = script.lines().take(line as usize).collect();
    let mut first = lines.len();
    while first > 1 && continues(lines[first - 2]) {
        first -= 1;
    }
    u32::try_from(first).unwrap_or(line)
}

/// Whether a line ends in an odd number of backslashes, and so goes on.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1
}

/// The source text of the statement that begins on `line` (from 1): with the lines that a backslash, an open quote, an
/// open parenthesis, an operator at the end of a line or a heredoc make part of it, without the indentation before it and
/// the newline after it. Of a loop, a function or a condition that is its first line. Empty where there is no such line.
pub fn statement_at(script: &str, line: u32) -> &str {
    let mut start = 0;
    for _ in 1..line {
        match script[start..].find('\n') {
            Some(newline) => start += newline + 1,
            None => return "",
        }
    }
    let rest = &script[start..];
    let rest = rest.trim_start_matches([' ', '\t']);
    rest[..Lexer::statement_end(rest)].trim_end()
}
