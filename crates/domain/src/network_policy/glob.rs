//! Host globs: exact unless they hold a `*` (spec 1-domain, *Network policy*).

use std::{borrow::Cow, net::IpAddr, net::Ipv6Addr};

use crate::limits::HOST_MAX_BYTES as HOST_MAX;

/// Longest label, characters.
const LABEL_MAX: usize = 63;

/// A checked, normalised glob: lower case, IDNA in ASCII, no trailing dot; addresses in their canonical text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostGlob(String);

/// Why a text is no host glob, as a sentence that says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadGlob(pub String);

fn bad<T>(message: impl Into<String>) -> Result<T, BadGlob> {
    Err(BadGlob(message.into()))
}

impl HostGlob {
    /// Reads a glob as a member wrote it.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, BadGlob> {
        if text.is_empty() {
            return bad("Give a host, such as github.com or *.example.com.");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return bad("Give the host alone, without white space.");
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
            return bad(format!(
                "Give the host alone, without {scheme}://{}",
                if host.is_empty() {
                    ".".to_owned()
                } else {
                    format!(": {host}.")
                }
            ));
        }
        if text.contains('@') {
            return bad("Give the host alone, without user information (@).");
        }
        if text.contains(['/', '?', '#', '\\']) {
            return bad("Give the host alone, without a path: a policy cannot tell paths apart.");
        }
        if let Some(address) = address(text) {
            return Ok(Self(address.to_string()));
        }
        if text.contains([':', '[', ']']) {
            return bad(
                "Give the host alone, without a port: a rule covers every port of its host.",
            );
        }
        let name = if text.contains('*') {
            let bare = text.strip_suffix('.').unwrap_or(text);
            let labels: Result<Vec<_>, _> = bare.split('.').map(glob_label).collect();
            labels?.join(".")
        } else {
            normalise_name(text)
                .ok_or_else(|| BadGlob(format!("{text} is not a host name.")))?
                .into_owned()
        };
        check_shape(&name)?;
        Ok(Self(name))
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Whether it names one host.
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }
    /// Whether it matches `host`, which must be normalised ([`normalise_host`]).
    pub fn matches(&self, host: &str) -> bool {
        if self.is_exact() {
            self.0 == host
        } else {
            glob_matches(self.0.as_bytes(), host.as_bytes())
        }
    }
}

/// One label of a glob that holds a `*` somewhere.
fn glob_label(label: &str) -> Result<String, BadGlob> {
    if label.is_ascii() {
        return Ok(label.to_ascii_lowercase());
    }
    if label.contains('*') {
        return bad(format!(
            "{label} mixes * with letters beyond ASCII: write that part in its xn-- form."
        ));
    }
    normalise_name(label)
        .map(Cow::into_owned)
        .ok_or_else(|| BadGlob(format!("{label} is not part of a host name.")))
}

fn check_shape(name: &str) -> Result<(), BadGlob> {
    if name.len() > HOST_MAX {
        return bad(format!("A host has at most {HOST_MAX} characters."));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return bad("A host has no empty part between dots.");
        }
        if label.len() > LABEL_MAX {
            return bad(format!(
                "Each part of a host between dots has at most {LABEL_MAX} characters."
            ));
        }
        if let Some(c) = label
            .chars()
            .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*')))
        {
            return bad(format!(
                "{c:?} cannot be in a host: give the host alone, such as github.com."
            ));
        }
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return bad(
            "Neither a host name nor a whole address: write an IPv4 address as four numbers.",
        );
    }
    Ok(())
}

/// An address literal in canonical form (an IPv4 address mapped into IPv6 is that IPv4 address).
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let parsed = match bare {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    };
    parsed.map(|address: IpAddr| address.to_canonical())
}

/// Case, IDNA and the trailing dot; `None`: not a name.
fn normalise_name(text: &str) -> Option<Cow<'_, str>> {
    if text.is_ascii() {
        let bare = text.strip_suffix('.').unwrap_or(text);
        return Some(if bare.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Owned(bare.to_ascii_lowercase())
        } else {
            Cow::Borrowed(bare)
        });
    }
    let ascii = in_ascii(text)?;
    let bare = ascii.strip_suffix('.').unwrap_or(&ascii);
    Some(Cow::Owned(bare.to_owned()))
}

#[cfg(feature = "idna")]
fn in_ascii(text: &str) -> Option<Cow<'_, str>> {
    idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL).ok()
}

/// Without the tables no such name is known; the browser translates names before it asks.
#[cfg(not(feature = "idna"))]
const fn in_ascii(_text: &str) -> Option<Cow<'_, str>> {
    None
}

/// The form in which hosts are compared: lower case, IDNA in ASCII, no trailing dot, addresses canonical. `None` when the
/// text cannot be a host; no rule matches it then.
pub fn normalise_host(text: &str) -> Option<Cow<'_, str>> {
    if let Some(address) = address(text) {
        return Some(Cow::Owned(address.to_string()));
    }
    let name = normalise_name(text)?;
    let valid = !name.is_empty()
        && name.len() <= HOST_MAX
        && name.split('.').all(|label| {
            (1..=LABEL_MAX).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        });
    valid.then_some(name)
}

/// Whether `pattern` matches the whole of `text`; `*` stands for one or more bytes. Never recurses.
fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the last star has to take one more byte.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(b'*'), Some(_)) => {
                p += 1;
                t += 1;
                retry = Some((p, t));
            }
            (Some(a), Some(b)) if a == b => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, taken)) if taken < text.len() => {
                    p = after_star;
                    t = taken + 1;
                    retry = Some((after_star, t));
                }
                _ => return false,
            },
        }
    }
}
