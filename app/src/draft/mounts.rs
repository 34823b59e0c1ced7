//! Mounts as text: one a line, source, blank, path.

/// One mount as it was typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountLine {
    /// `volume:NAME` or an `https://` address; may be empty.
    pub source: String,
    /// Where it appears in the sandbox; may be empty.
    pub path: String,
}

/// Reads the text. What is missing on a line is empty: whoever checks the mounts says so at its place.
pub fn parse_mounts(text: &str) -> Vec<MountLine> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            // No source begins like a path.
            let (source, path) = if line.starts_with('/') {
                ("", line)
            } else {
                line.split_once(char::is_whitespace).unwrap_or((line, ""))
            };
            MountLine {
                source: source.to_owned(),
                path: path.trim().to_owned(),
            }
        })
        .collect()
}

/// Writes the text; lines without anything are left out.
pub fn show_mounts(mounts: &[MountLine]) -> String {
    mounts
        .iter()
        .map(|mount| {
            // A blank within a source would end it.
            let source = mount.source.trim().replace(char::is_whitespace, "%20");
            (source, mount.path.trim())
        })
        .filter(|(source, path)| !source.is_empty() || !path.is_empty())
        .map(|(source, path)| format!("{source} {path}").trim().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: &str, path: &str) -> MountLine {
        MountLine {
            source: source.to_owned(),
            path: path.to_owned(),
        }
    }

    #[test]
    fn what_was_typed_is_read_with_its_gaps_and_written_again() {
        for (text, lines) in [
            ("", vec![]),
            (" \n\n", vec![]),
            (
                "volume:data  /mnt/my data \r\n\nhttps://example.com/a /mnt/b",
                vec![
                    line("volume:data", "/mnt/my data"),
                    line("https://example.com/a", "/mnt/b"),
                ],
            ),
            ("volume:data", vec![line("volume:data", "")]),
            ("/mnt/a", vec![line("", "/mnt/a")]),
        ] {
            assert_eq!(parse_mounts(text), lines, "{text:?}");
            assert_eq!(parse_mounts(&show_mounts(&lines)), lines, "{text:?}");
        }
        let typed = [line("", ""), line(" https://example.com/a b ", " /mnt/c ")];
        assert_eq!(show_mounts(&typed), "https://example.com/a%20b /mnt/c\n");
    }
}
