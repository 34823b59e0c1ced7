//! Which lines of a script belong to one statement. Bash reports a line somewhere inside a statement (of a command that
//! is continued by backslashes its second, of a command substitution its last); people are told its first.

use super::scan::{Subshell, scan};

/// A script's lines, and the statement that each belongs to. A statement here is a whole list (`a | b && c`), but not a
/// compound command: the statements inside loops, functions, groups and subshells are their own.
#[derive(Debug, Clone)]
pub struct Statements {
    lines: Vec<String>,
    /// Byte offset of each line, from index 0.
    offsets: Vec<usize>,
    /// First line of the statement that a line belongs to; from 1, index 0 unused.
    first: Vec<u32>,
    /// Lines within subshells that the script's own shell waits for.
    plain: Vec<bool>,
    /// Subshells that end on a line of their own: (line of `)`, line of `(`).
    groups: Vec<(u32, u32)>,
}

impl Statements {
    /// Reads a script that bash accepts. One that it does not accept gives something, too, only less useful.
    pub fn parse(script: &str) -> Self {
        let lines: Vec<String> = script.split('\n').map(str::to_owned).collect();
        let scanned = scan(script, lines.len());
        let mut first: Vec<u32> = (0..=lines.len() as u32).collect();
        for line in 2..=lines.len() {
            if scanned.joined[line] {
                first[line] = first[line - 1];
            }
        }
        let offsets = lines
            .iter()
            .scan(0, |at, line| {
                let offset = *at;
                *at += line.len() + 1;
                Some(offset)
            })
            .collect();
        let mut me = Self {
            offsets,
            plain: vec![false; lines.len() + 1],
            groups: Vec::new(),
            lines,
            first,
        };
        for subshell in scanned.subshells {
            let (start, end) = (subshell.open.0, subshell.close.0);
            if start != end {
                me.groups.push((end, start));
            }
            if me.waited_for(script, subshell) {
                for line in start..=end {
                    if let Some(plain) = me.plain.get_mut(line as usize) {
                        *plain = true;
                    }
                }
            }
        }
        me
    }

    /// Whether a subshell runs in the foreground and outside of any pipeline. When in doubt, no.
    fn waited_for(&self, script: &str, subshell: Subshell) -> bool {
        let (start, start_at) = subshell.open;
        let (end, end_at) = subshell.close;
        let statement_at = self.offset(self.first_line(start));
        let statement_end = self.offset(self.last_line(end) + 1).min(script.len());
        let (Some(before), Some(after)) = (
            script.get(statement_at..start_at),
            script.get(end_at + 1..statement_end.max(end_at + 1)),
        ) else {
            return false;
        };
        [before, after].iter().all(|text| {
            let text = text
                .replace("&&", "")
                .replace("||", "")
                .replace(">&", "")
                .replace("&>", "");
            !text.contains(['|', '&', '(', '`'])
        })
    }

    /// Byte offset at which a line begins.
    fn offset(&self, line: u32) -> usize {
        self.offsets
            .get((line as usize).saturating_sub(1))
            .copied()
            .unwrap_or(usize::MAX)
    }

    /// Number of lines.
    pub fn line_count(&self) -> u32 {
        self.lines.len() as u32
    }

    /// First line of the statement at `line`; a line outside of the script comes back as it is.
    pub fn first_line(&self, line: u32) -> u32 {
        self.first.get(line as usize).copied().unwrap_or(line)
    }

    /// Last line of the statement at `line`.
    fn last_line(&self, line: u32) -> u32 {
        let first = self.first_line(line);
        let mut last = line.max(first);
        while self.first.get(last as usize + 1) == Some(&first) {
            last += 1;
        }
        last
    }

    /// Source text of the statement at `line`, as written, without the white space around it. Of the last line of a
    /// subshell it is the whole subshell.
    pub fn text(&self, line: u32) -> String {
        let mut first = self.first_line(line);
        let last = self.last_line(line);
        if let Some((_, start)) = self.groups.iter().find(|(end, _)| *end == first)
            && self.line(first).trim_start().starts_with(')')
        {
            first = *start;
        }
        let lines: Vec<&str> = (first..=last).map(|l| self.line(l)).collect();
        lines.join("\n").trim().to_owned()
    }

    fn line(&self, line: u32) -> &str {
        (line as usize)
            .checked_sub(1)
            .and_then(|i| self.lines.get(i))
            .map_or("", String::as_str)
    }

    /// Whether the line begins with the end of a compound command (`done | sort`).
    pub fn closes_compound(&self, line: u32) -> bool {
        let text = self.line(line).trim_start();
        ["done", "}", ")", "fi", "esac"]
            .iter()
            .any(|end| text.starts_with(end))
    }

    /// Whether the line only opens a function (`f() {`), so that its body is on later lines.
    pub fn opens_function(&self, line: u32) -> bool {
        let text = self.line(line).trim();
        let text = text.split(" #").next().unwrap_or_default().trim_end();
        let head = text.strip_suffix(['{', '(']).unwrap_or(text).trim_end();
        let is_name = |name: &str| {
            !name.is_empty() && !name.contains([' ', '\t', ';', '(', ')', '|', '&', '"', '\'', '$'])
        };
        if let Some(name) = head.strip_prefix("function ") {
            return is_name(name.trim().trim_end_matches("()").trim_end());
        }
        head.strip_suffix(')')
            .and_then(|h| h.trim_end().strip_suffix('('))
            .is_some_and(|name| is_name(name.trim_end()))
    }

    /// Whether a command's name may be none of the words that are written.
    pub fn uses_aliases(&self) -> bool {
        self.lines.iter().any(|l| l.contains("expand_aliases"))
    }

    /// Lines inside subshells whose statements can be marked like the script's own.
    pub fn plain_lines(&self) -> impl Iterator<Item = u32> + '_ {
        (1..=self.line_count()).filter(|l| self.plain[*l as usize])
    }
}

#[cfg(test)]
#[path = "statements_tests.rs"]
mod tests;
