//! Environment variables as the text of a `.env` file.

use std::collections::BTreeMap;

/// Reads a `.env` text: `NAME=value` lines, an optional `export`, comments, and quoted values that may hold line ends.
/// Nothing is expanded.
///
/// # Errors
/// A sentence that names the first line that cannot be read.
pub fn parse_dotenv(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = text.replace("\r\n", "\n");
    let mut vars = BTreeMap::new();
    let mut rest = text.as_str();
    let mut number = 0_usize;
    while !rest.is_empty() {
        number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            rest = after;
            continue;
        }
        let Some((name, _)) = line.split_once('=') else {
            return Err(format!("Line {number} has no \"=\": write NAME=value."));
        };
        // From the byte behind the first "=" of the text that is left.
        let value_at = &rest[name.len() + 1..];
        let name = name.trim();
        let name = name.strip_prefix("export ").map_or(name, str::trim);
        let (value, left) = match value_at.trim_start_matches([' ', '\t']).chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let body = &value_at.trim_start_matches([' ', '\t'])[1..];
                let (value, left) = quoted(body, quote)
                    .ok_or_else(|| format!("Line {number}: the quote of {name} is not closed."))?;
                number += value_at[..value_at.len() - left.len()]
                    .matches('\n')
                    .count();
                let (same_line, left) = left.split_once('\n').unwrap_or((left, ""));
                let behind = same_line.trim();
                if !behind.is_empty() && !behind.starts_with('#') {
                    return Err(format!(
                        "Line {number}: there is text behind the closing quote of {name}."
                    ));
                }
                (value, left)
            }
            _ => {
                let (value, left) = value_at.split_once('\n').unwrap_or((value_at, ""));
                let value = value.find(" #").map_or(value, |at| &value[..at]);
                (value.trim().to_owned(), left)
            }
        };
        if vars.insert(name.to_owned(), value).is_some() {
            return Err(format!("Line {number}: {name} is there twice. Keep one."));
        }
        rest = left;
    }
    Ok(vars)
}

/// The value up to the closing quote, and what follows it. Double quotes know `\n`, `\"`, `\\`; single quotes nothing.
fn quoted(body: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((value, &body[at + c.len_utf8()..])),
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                other @ ('"' | '\\' | '$') => value.push(other),
                other => {
                    value.push('\\');
                    value.push(other);
                }
            },
            c => value.push(c),
        }
    }
    None
}

/// The text with more variables; those that it has already get their new values.
///
/// # Errors
/// Those of [`parse_dotenv`].
pub fn with_variables(text: &str, more: &[(String, String)]) -> Result<String, String> {
    let mut vars = parse_dotenv(text)?;
    if more.iter().any(|(name, _)| vars.contains_key(name)) {
        vars.extend(more.iter().cloned());
        return Ok(show_dotenv(&vars));
    }
    // Comments and order stay as they were written.
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&show_dotenv(&more.iter().cloned().collect()));
    Ok(text)
}

/// Writes variables as [`parse_dotenv`] reads them.
pub fn show_dotenv(vars: &BTreeMap<String, String>) -> String {
    vars.iter()
        .map(|(name, value)| {
            let plain = !value.is_empty()
                && value.trim() == value
                && !value.starts_with(['"', '\''])
                && !value.contains(['\n', '\r'])
                && !value.contains(" #");
            if plain || value.is_empty() {
                format!("{name}={value}\n")
            } else {
                let escaped = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n")
                    .replace('\r', "\\r")
                    .replace('\t', "\\t");
                format!("{name}=\"{escaped}\"\n")
            }
        })
        .collect()
}
