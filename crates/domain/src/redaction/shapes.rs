//! The shapes of well-known tokens, authorization headers, and user information in URLs.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use super::MASK;

/// Bytes at the end of an open line that are looked at for a shape that goes on: longer tokens do not occur.
const OPEN_MAX: usize = 4_096;

/// Bytes of the longest prefix by which a shape is known, such as `authorization: `.
const PREFIX_MAX: usize = 64;

/// What is masked. Groups that are named `keep…` stay; everything else of a match is replaced.
/// Without the tables of Unicode, to keep the binary small: classes are spelled out, and case is that of ASCII.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compile(&[
        // GitHub
        r"gh[pousr]_[A-Za-z0-9]{36,}",
        r"github_pat_[A-Za-z0-9_]{22,}",
        // GitLab
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[A-Za-z0-9_.\-]{20,}",
        // Slack
        r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9\-]{10,}",
        r"xapp-[0-9]-[A-Za-z0-9\-]{10,}",
        r"(?P<keep_slack>hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_+\-]{20,}",
        // AWS
        r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)",
        r#"(?P<keep_aws>(?i-u:aws[a-z_]{0,24}key|aws[a-z_]{0,24}token|secretaccesskey|sessiontoken)["']?[ \t]*[:=][ \t]*["']?)[A-Za-z0-9/+=]{40,}"#,
        // npm
        r"npm_[A-Za-z0-9]{36,}",
        r#"(?P<keep_npm>_(?:authToken|auth|password)[ \t]*=[ \t]*["']?)[A-Za-z0-9+/=_.\-]{8,}"#,
        // PyPI: what they are made of begins so.
        r"pypi-AgE[A-Za-z0-9_\-]{20,}",
        // JSON web tokens
        r"(?-u:\b)eyJ[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]{5,}\.[A-Za-z0-9_\-]*(?:\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+)?",
        // Our own keys
        r"rma_[A-Za-z0-9_\-]{43}",
        // Headers
        r#"(?P<keep_header>(?i-u:authorization|private-token|x-api-key|x-auth-token|job-token)["']?[ \t]*[:=][ \t]*["']?(?i-u:(?:bearer|basic|token|digest)[ \t]+)?)[A-Za-z0-9._~+/=:\-]{8,}"#,
        r"(?P<keep_bearer>(?i-u:\bbearer)[ \t]+)[A-Za-z0-9._~+/=\-]{16,}",
        // User information
        r#"(?P<keep_scheme>(?-u:\b)[A-Za-z][A-Za-z0-9+.\-]{0,30}://)[^/?# \t"'<>@\\]+(?:@[^/?# \t"'<>@\\]+)*(?P<keep_at>@)"#,
    ])
});

/// What may be the beginning of one of them at the end of a text that goes on.
static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let tails = [
        r"(?:gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox[abeoprs]|xapp-|npm_|pypi-|rma_)[A-Za-z0-9_.\-]*",
        r"(?:github_pa|github_p|github_|ghp|gho|ghu|ghs|ghr|glpat|glpa|glp|xox|xapp|xap|npm|pypi|pyp|rma)",
        r"(?:AKI|ASI|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]*",
        r"eyJ[A-Za-z0-9_.\-]*",
        r#"(?i-u:aws[a-z_]{0,24}key|aws[a-z_]{0,24}token|secretaccesskey|sessiontoken)["']?[ \t]*[:=][ \t]*["']?[A-Za-z0-9/+=]*"#,
        r#"_(?:authToken|auth|password)[ \t]*=[ \t]*["']?[A-Za-z0-9+/=_.\-]*"#,
        r#"(?i-u:authorization|private-token|x-api-key|x-auth-token|job-token)["']?[ \t]*[:=][ \t]*["']?(?i-u:[a-z]*[ \t]*)[A-Za-z0-9._~+/=:\-]*"#,
        r"(?i-u:\bbearer)[ \t]+[A-Za-z0-9._~+/=\-]*",
        r#"(?-u:\b)[A-Za-z][A-Za-z0-9+.\-]{0,30}:/(?:/[^/?# \t"'<>\\]*)?"#,
        r"hooks\.slack\.com[A-Za-z0-9/_+\-]*",
        // The BEGIN and END lines of keys.
        r"-----(?:B|BE|BEG|BEGI|BEGIN[A-Z0-9 \-]*|E|EN|END[A-Z0-9 \-]*)",
    ];
    let tails: Vec<String> = tails.iter().map(|tail| format!("(?:{tail})$")).collect();
    compile(&tails.iter().map(String::as_str).collect::<Vec<_>>())
});

/// A test makes sure that the patterns compile.
fn compile(patterns: &[&str]) -> Option<Regex> {
    let all: Vec<String> = patterns
        .iter()
        .map(|pattern| format!("(?:{pattern})"))
        .collect();
    Regex::new(&all.join("|")).ok()
}

/// The line with every shape masked.
pub(super) fn mask(line: Cow<'_, str>) -> Cow<'_, str> {
    let Some(shapes) = &*SHAPES else {
        return line;
    };
    if !shapes.is_match(&line) {
        return line;
    }
    let masked = shapes.replace_all(&line, |found: &regex::Captures<'_>| {
        let mut kept = String::new();
        let mut at_end = "";
        for name in shapes.capture_names().flatten() {
            if let Some(group) = found.name(name) {
                if name == "keep_at" {
                    at_end = group.as_str();
                } else {
                    kept.push_str(group.as_str());
                }
            }
        }
        format!("{kept}{MASK}{at_end}")
    });
    Cow::Owned(masked.into_owned())
}

/// Where the text's end may be the beginning of something masked.
pub(super) fn open_at(text: &str) -> Option<usize> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(OPEN_MAX));
    OPEN.as_ref()?
        .find(&text[from..])
        .map(|found| from + found.start())
}

/// As [`open_at`], and also where the text's end may be the beginning of a prefix of a token or of a header's name.
pub(super) fn open_strictly_at(text: &str) -> Option<usize> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(OPEN_MAX));
    let word = text.rfind(|c: char| !(c.is_ascii_alphanumeric() || ":/_-.".contains(c)));
    let word = word.map_or(0, |at| {
        at + text[at..].chars().next().map_or(1, char::len_utf8)
    });
    // A word that is still short can become anything; of a long one its end can.
    let tail = text.ceil_char_boundary(word.max(text.len().saturating_sub(PREFIX_MAX)).max(from));
    let short = (tail < text.len()).then_some(tail);
    [open_at(text), short].into_iter().flatten().min()
}

/// Where the masked text begins that `place` lies inside of.
pub(super) fn start_of_match_across(text: &str, place: usize) -> Option<usize> {
    SHAPES
        .as_ref()?
        .find_iter(text)
        .find(|found| found.start() < place && place < found.end())
        .map(|found| found.start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_compile() {
        assert!(SHAPES.is_some() && OPEN.is_some());
    }
}
