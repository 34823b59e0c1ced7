//! Lines that the address names: `#L42`, or `#L42-L60`.

/// A line, or the lines between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picked {
    /// Where it was begun.
    pub anchor: u64,
    /// Where it ends, before or after that.
    pub head: u64,
}

impl Picked {
    /// One line.
    pub const fn line(line: u64) -> Self {
        Self {
            anchor: line,
            head: line,
        }
    }

    /// The first and the last line.
    pub fn bounds(self) -> (u64, u64) {
        (self.anchor.min(self.head), self.anchor.max(self.head))
    }

    /// Whether a line is among them.
    pub fn holds(self, line: u64) -> bool {
        let (first, last) = self.bounds();
        (first..=last).contains(&line)
    }

    /// As the address names them.
    pub fn fragment(self) -> String {
        match self.bounds() {
            (first, last) if first == last => format!("#L{first}"),
            (first, last) => format!("#L{first}-L{last}"),
        }
    }

    /// From an address.
    pub fn read(fragment: &str) -> Option<Self> {
        let lines = fragment.strip_prefix("#L")?;
        let (first, last) = match lines.split_once('-') {
            Some((first, last)) => (first, last.strip_prefix('L').unwrap_or(last)),
            None => (lines, lines),
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|line| *line > 0);
        Some(Self {
            anchor: number(first)?,
            head: number(last)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_lines() {
        for (fragment, picked) in [
            ("#L42", Some((42, 42))),
            ("#L42-L60", Some((42, 60))),
            ("#L60-L42", Some((42, 60))),
            ("#L42-60", Some((42, 60))),
            ("#L0", None),
            ("#L", None),
            ("#Lx", None),
            ("#L1-", None),
            ("#setup", None),
            ("", None),
        ] {
            assert_eq!(
                Picked::read(fragment).map(Picked::bounds),
                picked,
                "{fragment}"
            );
        }
        assert_eq!(Picked::line(7).fragment(), "#L7");
        assert_eq!(Picked { anchor: 9, head: 7 }.fragment(), "#L7-L9");
        assert!(Picked { anchor: 9, head: 7 }.holds(8));
    }
}
