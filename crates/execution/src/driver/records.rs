//! What the driver inside says, as records of the `mark` FIFO.

/// Longest record that is believed; the driver's own are under 8 KiB.
const RECORD_MAX: usize = 16 * 1024;

/// Cuts the bytes of the FIFO into records.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    partial: Vec<u8>,
    /// Inside of a record that is too long to be ours.
    skipping: bool,
}

impl Cutter {
    /// The records that `bytes` completes. What is no record of ours is left out.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == 0) {
            if piece == [0] && self.partial.is_empty() && !self.skipping {
                // Zeros in a row are the cheapest rubbish to write.
                continue;
            }
            let (body, complete) = match piece.split_last() {
                Some((0, body)) => (body, true),
                _ => (piece, false),
            };
            if self.partial.len() + body.len() > RECORD_MAX {
                self.skipping = true;
                self.partial.clear();
            }
            if !self.skipping {
                self.partial.extend_from_slice(body);
            }
            if complete {
                if !self.skipping {
                    records.extend(Record::parse(&String::from_utf8_lossy(&self.partial)));
                }
                self.partial.clear();
                self.skipping = false;
            }
        }
        records
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Where in the process tree it comes from.
    pub(super) from: From,
    /// Line in `file` that bash reports.
    pub(super) line: u32,
    pub(super) file: String,
    /// As bash prints it, cut.
    pub(super) command: String,
}

/// The sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct From {
    pub(super) pid: u32,
    /// The last background process that it started.
    pub(super) background: Option<u32>,
    /// Subshells it is in.
    pub(super) depth: u32,
    /// `set -e` was on.
    pub(super) errexit: bool,
    /// `set -x` was on.
    pub(super) xtrace: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// The script starts. Waits for the token.
    Started { token: String },
    /// It does not parse. Waits for the token.
    NotParsed { token: String },
    /// A statement is about to run. Waits for the token.
    Mark { token: String },
    /// The same, for a line that was marked often. Does not wait.
    QuietMark,
    /// A command failed with this status.
    Failed { status: i32 },
}

impl Record {
    /// The line at the top of the log: where and as whom the script runs, as the record of its start has it.
    pub(super) fn shell_note(&self) -> String {
        let mut fields = self.command.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (version, user, home, options) = (next(), next(), next(), next());
        let usual = ["braceexpand", "hashall", "interactive-comments"];
        let options: Vec<&str> = options.split(':').filter(|o| !usual.contains(o)).collect();
        format!(
            "The script runs as {user} in {}, HOME={home}, in a bash {version} login shell with {}.",
            self.file,
            options.join(", ")
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(9, '\t');
        let mut next = || fields.next();
        let (kind, argument) = (next()?, next()?);
        let (pid, background) = (next()?.parse().ok()?, next()?.parse().ok());
        let (depth, flags) = (next()?.parse().ok()?, next()?);
        let from = From {
            pid,
            background,
            depth,
            errexit: flags.contains('e'),
            xtrace: flags.contains('x'),
        };
        let (line, file, command) = (next()?.parse().ok()?, next()?, next()?);
        let token = || {
            let plain = argument.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            (plain && argument.len() <= 40).then(|| argument.to_owned())
        };
        let kind = match kind {
            "S" => Kind::Started { token: token()? },
            "N" => Kind::NotParsed { token: token()? },
            "M" => Kind::Mark { token: token()? },
            "m" => Kind::QuietMark,
            "E" => Kind::Failed {
                status: argument.parse().ok()?,
            },
            _ => return None,
        };
        Some(Self {
            kind,
            from,
            line,
            file: file.to_owned(),
            command: command.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_wherever_reads_end_and_rubbish_is_left_out() {
        let bytes = b"M\t12.3\t12\t\t0\tehB\t4\t/run/ctl/script\techo \ta\0rubbish\0M\tx\ty\0E\t7\t13\t9\t1\thB\t5\tf\tfalse\0m\t0\t";
        let mut whole = Cutter::default();
        let expected = whole.push(bytes);
        assert_eq!(expected.len(), 2);
        assert_eq!(
            expected[0].kind,
            Kind::Mark {
                token: "12.3".to_owned()
            }
        );
        assert_eq!(
            (expected[0].line, expected[0].command.as_str()),
            (4, "echo \ta")
        );
        assert_eq!(expected[1].from.background, Some(9));
        assert!(!expected[1].from.errexit);
        let mut single = Cutter::default();
        let one_by_one: Vec<Record> = bytes.iter().flat_map(|b| single.push(&[*b])).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn a_record_without_end_is_dropped_and_the_next_one_read() {
        let mut cutter = Cutter::default();
        for _ in 0..100 {
            assert_eq!(cutter.push(&[b'x'; 4096]), []);
        }
        assert_eq!(cutter.push(b"\0E\t1\t2\t\t0\te\t3\tf\tfalse\0").len(), 1);
        assert!(cutter.partial.capacity() < 64 * 1024);
    }
}
