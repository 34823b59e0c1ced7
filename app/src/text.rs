//! Texts of members and of sandboxes as they are shown: characters that show nothing but change what others look like are
//! made visible, so that no name or log line can pass for another.

use std::borrow::Cow;

/// Whether a character has no shape of its own but changes or hides text around it: bidirectional controls, zero-width
/// characters, and controls other than tab and line end.
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
            | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    )
}

/// The text with each hidden character as its code point, such as `⟨U+202E⟩`. A zero-width joiner between two visible
/// characters beyond ASCII stays: scripts and pictures need it.
pub fn visible(text: &str) -> Cow<'_, str> {
    use std::fmt::Write as _;
    if text.is_ascii() && !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let joins = matches!(c, '\u{200c}' | '\u{200d}')
            && !before.is_ascii()
            && !is_hidden(before)
            && chars
                .peek()
                .is_some_and(|next| !next.is_ascii() && !is_hidden(*next));
        if is_hidden(c) && !joins {
            // Writing to a String cannot fail.
            let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            out.push(c);
        }
        before = c;
    }
    Cow::Owned(out)
}

/// [`visible`] as an owned text, for views.
pub fn shown(text: &str) -> String {
    visible(text).into_owned()
}

/// A text for the few places that the server's rendering writes as they are: what stands inside `<textarea>` and
/// `<title>`. Without it a text could end the element, and what follows would be markup.
pub fn raw(text: &str) -> String {
    #[cfg(feature = "ssr")]
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    #[cfg(not(feature = "ssr"))]
    let text = text.to_owned();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        for (text, seen) in [
            ("plain", "plain"),
            ("zażółć 漢字 😀", "zażółć 漢字 😀"),
            ("a\u{202e}gnp.exe", "a⟨U+202E⟩gnp.exe"),
            ("git\u{200b}hub", "git⟨U+200B⟩hub"),
            ("\u{feff}x\u{2066}y\u{2069}", "⟨U+FEFF⟩x⟨U+2066⟩y⟨U+2069⟩"),
            ("esc\u{1b}[31m", "esc⟨U+001B⟩[31m"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            // A family of three, and a join that joins nothing.
            ("👨\u{200d}👩\u{200d}👧", "👨\u{200d}👩\u{200d}👧"),
            ("a\u{200d}b", "a⟨U+200D⟩b"),
            ("نامه\u{200c}ای", "نامه\u{200c}ای"),
        ] {
            assert_eq!(visible(text), seen, "{text:?}");
        }
    }
}
