//! A run's log on a terminal or in a file.

use std::io::{self, IsTerminal, Write};

use domain::setup_run::{LogLine, Stream};

use super::{
    args::Color,
    failure::{Failure, Result},
};

/// Prints lines as they come. A line that grew, or was drawn anew, is sent again under its number: so the line break is
/// written when the next line comes, and what was printed is extended or replaced until then.
pub struct Printer<W: Write> {
    to: W,
    colored: bool,
    /// The last line printed.
    last: Option<Printed>,
}

struct Printed {
    seq: u64,
    text: String,
    /// Its break was written.
    ended: bool,
}

impl Printer<io::Stdout> {
    /// On standard output.
    pub fn stdout(color: Color) -> Self {
        let colored = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stdout().is_terminal() && !crate::config::client::no_color(),
        };
        Self::new(io::stdout(), colored)
    }
}

impl<W: Write> Printer<W> {
    fn new(to: W, colored: bool) -> Self {
        Self {
            to,
            colored,
            last: None,
        }
    }

    /// From which number on to ask: a line that was still open may have grown meanwhile.
    pub fn after(&self) -> u64 {
        self.last
            .as_ref()
            .map_or(0, |last| last.seq.saturating_sub(1))
    }

    /// Prints a line.
    pub fn line(&mut self, line: &LogLine) -> Result<()> {
        let text = self.shown(line);
        let printed = match &self.last {
            // Asked for again, and printed already.
            Some(last) if line.seq < last.seq => return Ok(()),
            Some(last) if line.seq == last.seq && text == last.text => return Ok(()),
            Some(last) if line.seq == last.seq && !last.ended => {
                match text.strip_prefix(last.text.as_str()) {
                    Some(more) => more.to_owned(),
                    None if self.colored => format!("\r\u{1b}[2K{text}"),
                    None => format!("\n{text}"),
                }
            }
            Some(last) if !last.ended => format!("\n{text}"),
            _ => text.clone(),
        };
        self.last = Some(Printed {
            seq: line.seq,
            text,
            ended: false,
        });
        self.write(&printed)
    }

    /// Ends the last line.
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.last {
            Some(last) if !last.ended => {
                last.ended = true;
                self.write("\n")
            }
            _ => Ok(()),
        }
    }

    fn shown(&self, line: &LogLine) -> String {
        let text = if self.colored {
            line.text.clone()
        } else {
            without_color(&line.text)
        };
        let (before, sign, after) = match (line.stream, self.colored) {
            (Stream::Stdout, _) => return text,
            (Stream::Stderr, false) => return text,
            // Colours of its own come after ours and win.
            (Stream::Stderr, true) => ("\u{1b}[31m", "", "\u{1b}[0m"),
            (Stream::Marker, true) => ("\u{1b}[1;36m", "$ ", "\u{1b}[0m"),
            (Stream::System, true) => ("\u{1b}[2m", "# ", "\u{1b}[0m"),
            (Stream::Marker, false) => ("", "$ ", ""),
            (Stream::System, false) => ("", "# ", ""),
        };
        format!("{before}{sign}{text}{after}")
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush())
            .map_err(|error| {
                Failure::new(format!(
                    "The log cannot be written to standard output ({error})."
                ))
            })
    }
}

/// Text without SGR sequences, the only ones that the log keeps.
fn without_color(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..start]);
        let sequence = &rest[start + 2..];
        match sequence.find(|c: char| c.is_ascii_alphabetic()) {
            Some(end) => rest = &sequence[end + 1..],
            None => rest = "",
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use domain::timestamp::Timestamp;

    use super::*;

    fn line(seq: u64, stream: Stream, text: &str) -> LogLine {
        LogLine {
            seq,
            stream,
            line: None,
            text: text.to_owned(),
            at: Timestamp::default(),
        }
    }

    fn printed(colored: bool, lines: &[LogLine]) -> String {
        let mut printer = Printer::new(Vec::new(), colored);
        for line in lines {
            printer.line(line).unwrap();
        }
        printer.finish().unwrap();
        String::from_utf8(printer.to).unwrap()
    }

    #[test]
    fn a_line_that_grew_is_extended_and_one_that_came_before_is_not_doubled() {
        let lines = [
            line(1, Stream::Stdout, "a"),
            line(2, Stream::Stdout, "Contin"),
            line(1, Stream::Stdout, "a"),
            line(2, Stream::Stdout, "Continue? "),
            line(2, Stream::Stdout, "Continue? "),
            line(3, Stream::Stdout, "b"),
        ];
        assert_eq!(printed(false, &lines), "a\nContinue? \nb\n");
    }

    #[test]
    fn colours_are_kept_or_taken_out() {
        let lines = [
            line(1, Stream::Marker, "make"),
            line(2, Stream::Stdout, "\u{1b}[32mok\u{1b}[0m done"),
        ];
        assert_eq!(printed(false, &lines), "$ make\nok done\n");
        assert_eq!(
            printed(true, &lines),
            "\u{1b}[1;36m$ make\u{1b}[0m\n\u{1b}[32mok\u{1b}[0m done\n"
        );
    }

    #[test]
    fn the_last_line_is_asked_for_again_also_after_something_else_was_said() {
        let mut printer = Printer::new(Vec::new(), false);
        assert_eq!(printer.after(), 0);
        printer.line(&line(7, Stream::Stdout, "x")).unwrap();
        printer.finish().unwrap();
        assert_eq!(printer.after(), 6);
        printer.line(&line(7, Stream::Stdout, "x")).unwrap();
        printer.line(&line(8, Stream::Stdout, "y")).unwrap();
        printer.finish().unwrap();
        assert_eq!(printer.to, b"x\ny\n");
    }
}
