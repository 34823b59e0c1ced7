//! SGR colours of a log line as spans with classes. Everything else of a terminal's language was dropped before the line
//! was stored; what is left over of it is dropped here too.

/// A run of text that looks the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Classes of the style sheet, blank between them; empty: plain.
    pub class: String,
    /// The text.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Style {
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    strike: bool,
    inverse: bool,
}

impl Style {
    fn class(self) -> String {
        let (foreground, background) = if self.inverse {
            (self.background.or(Some(15)), self.foreground.or(Some(7)))
        } else {
            (self.foreground, self.background)
        };
        let mut names: Vec<String> = Vec::new();
        for (on, name) in [
            (self.bold, "sgr-b"),
            (self.dim, "sgr-d"),
            (self.italic, "sgr-i"),
            (self.underline, "sgr-u"),
            (self.strike, "sgr-s"),
        ] {
            if on {
                names.push(name.to_owned());
            }
        }
        if let Some(colour) = foreground {
            names.push(format!("sgr-{colour}"));
        }
        if let Some(colour) = background {
            // Backgrounds are soft, so the bright ones look like the others.
            names.push(format!("sgr-bg-{}", colour % 8));
        }
        names.join(" ")
    }

    fn apply(&mut self, parameters: &str) {
        let mut codes = parameters.split([';', ':']).map(|code| {
            if code.is_empty() {
                Some(0)
            } else {
                code.parse::<u16>().ok()
            }
        });
        while let Some(code) = codes.next() {
            let Some(code) = code else { continue };
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 | 21 => self.underline = true,
                7 => self.inverse = true,
                9 => self.strike = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.inverse = false,
                29 => self.strike = false,
                30..=37 => self.foreground = u8::try_from(code - 30).ok(),
                39 => self.foreground = None,
                40..=47 => self.background = u8::try_from(code - 40).ok(),
                49 => self.background = None,
                90..=97 => self.foreground = u8::try_from(code - 82).ok(),
                100..=107 => self.background = u8::try_from(code - 92).ok(),
                38 | 48 => {
                    let colour = match codes.next().flatten() {
                        Some(5) => codes.next().flatten().map(from_256),
                        Some(2) => {
                            let mut part = || codes.next().flatten().unwrap_or(0).min(255);
                            let (red, green, blue) = (part(), part(), part());
                            Some(from_rgb(red, green, blue))
                        }
                        _ => None,
                    };
                    if code == 38 {
                        self.foreground = colour;
                    } else {
                        self.background = colour;
                    }
                }
                _ => {}
            }
        }
    }
}

/// The nearest of the sixteen colours: the page has a light and a dark ground, and only these are readable on both.
fn from_256(index: u16) -> u8 {
    match index {
        0..=15 => u8::try_from(index).unwrap_or(7),
        16..=231 => {
            let level = |n: u16| if n == 0 { 0 } else { 55 + n * 40 };
            let cube = index - 16;
            from_rgb(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        _ => {
            let grey = 8 + (index.min(255) - 232) * 10;
            from_rgb(grey, grey, grey)
        }
    }
}

fn from_rgb(red: u16, green: u16, blue: u16) -> u8 {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most - least < 40 {
        return match most {
            0..=60 => 0,
            61..=140 => 8,
            141..=215 => 7,
            _ => 15,
        };
    }
    let half = u16::midpoint(most, least);
    let bits = u8::from(red > half) | (u8::from(green > half) << 1) | (u8::from(blue > half) << 2);
    if most > 200 { bits + 8 } else { bits }
}

/// Splits a line into spans.
pub fn spans(text: &str) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    let mut style = Style::default();
    let mut push = |style: Style, text: &str| {
        if text.is_empty() {
            return;
        }
        // What a reader cannot see must not change what they see.
        let text = &*crate::text::visible(text);
        let class = style.class();
        match out.last_mut() {
            Some(last) if last.class == class => last.text.push_str(text),
            _ => out.push(Span {
                class,
                text: text.to_owned(),
            }),
        }
    };
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        push(style, &rest[..at]);
        rest = &rest[at + 1..];
        let Some(parameters) = rest.strip_prefix('[') else {
            continue;
        };
        let Some(end) = parameters.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c)) else {
            return out;
        };
        if parameters.as_bytes()[end] == b'm' {
            style.apply(&parameters[..end]);
        }
        rest = &parameters[end + 1..];
    }
    push(style, rest);
    out
}

/// The text without any colour: for copying and searching.
pub fn plain(text: &str) -> String {
    spans(text).into_iter().map(|span| span.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, String)> {
        spans(text)
            .into_iter()
            .map(|span| (span.class, span.text))
            .collect()
    }

    #[test]
    fn colours_become_classes() {
        for (text, want) in [
            ("plain", vec![("", "plain")]),
            (
                "\u{1b}[31mred\u{1b}[0m x",
                vec![("sgr-1", "red"), ("", " x")],
            ),
            (
                "\u{1b}[1;92mok\u{1b}[m.",
                vec![("sgr-b sgr-10", "ok"), ("", ".")],
            ),
            ("\u{1b}[38;5;196mx", vec![("sgr-9", "x")]),
            ("\u{1b}[38;2;0;100;0mx", vec![("sgr-2", "x")]),
            (
                "\u{1b}[48;5;21mx\u{1b}[49my",
                vec![("sgr-bg-4", "x"), ("", "y")],
            ),
            ("\u{1b}[7mx", vec![("sgr-15 sgr-bg-7", "x")]),
            ("a\u{1b}[2Kb", vec![("", "ab")]),
            ("a\u{1b}[31", vec![("", "a")]),
            ("\u{1b}[31m\u{1b}[39mx", vec![("", "x")]),
            ("", vec![]),
        ] {
            let want: Vec<(String, String)> = want
                .iter()
                .map(|(c, t)| ((*c).to_owned(), (*t).to_owned()))
                .collect();
            assert_eq!(shown(text), want, "{text:?}");
        }
    }

    #[test]
    fn greys_and_nonsense_are_harmless() {
        for text in [
            "\u{1b}[38;5mx",
            "\u{1b}[38;2;1mx",
            "\u{1b}[999;;mx",
            "\u{1b}]0;titlex",
            "\u{1b}[38;5;999mx",
        ] {
            assert!(plain(text).ends_with('x'), "{text:?}");
        }
        assert_eq!(plain("\u{1b}[31ma\u{1b}[0mb"), "ab");
    }
}
