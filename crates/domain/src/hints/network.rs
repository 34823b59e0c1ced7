//! Hosts that the network policy kept the failing command from.

use super::{BlockedHost, Evidence, Hint, output};
use crate::{network_policy::normalise_host, setup_run::HintCode};

/// The gateway refused a host while the failing command ran, or the output shows a resolve or connect failure under a
/// restricted policy.
pub(super) fn egress_blocked(evidence: &Evidence<'_>) -> Option<Hint> {
    if evidence.policy.is_unrestricted() {
        return None;
    }
    // A command that had succeeded before our timer ended it would not have failed of its network.
    if let Some(blocked) = pick(evidence) {
        return Some(named(evidence, blocked));
    }
    if evidence.timed_out {
        return None;
    }
    let line = output::line_with(evidence.output_tail, FAILURES)?;
    match host_of(line) {
        // A host that the policy allows failed for another reason.
        Some(host) if evidence.policy.verdict(host).allowed => None,
        Some(host) => Some(named(
            evidence,
            &BlockedHost {
                host: host.to_owned(),
                redirected_by: None,
            },
        )),
        None if evidence.policy.is_closed() => Some(Hint::new(
            HintCode::EgressBlocked,
            format!(
                "{} needs the internet, and this environment has No access. Allow the hosts that it needs under Internet access, then test again.",
                evidence.place()
            ),
        )),
        None => None,
    }
}

/// What programs say when a name is not answered or a connection is refused. Lower case.
const FAILURES: &[&str] = &[
    "could not resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "nodename nor servname provided",
    "failed to lookup address",
    "no address associated with hostname",
    "getaddrinfo enotfound",
    "getaddrinfo eai_again",
    "dns error",
    "unable to resolve host address",
    "network is unreachable",
    "failed to establish a new connection",
    "failed to connect to",
    "could not connect to",
    "connection reset by peer",
];

/// The refused host that the command failed of: one that its output names, else the last.
fn pick<'a>(evidence: &Evidence<'a>) -> Option<&'a BlockedHost> {
    evidence
        .blocked
        .iter()
        .rev()
        .find(|blocked| evidence.output_tail.contains(&blocked.host))
        .or(evidence.blocked.last())
}

fn named(evidence: &Evidence<'_>, blocked: &BlockedHost) -> Hint {
    let host = &blocked.host;
    let by = blocked
        .redirected_by
        .as_ref()
        .map_or_else(String::new, |by| format!(", where {by} redirected it"));
    let mut others: Vec<&str> = evidence
        .blocked
        .iter()
        .map(|blocked| blocked.host.as_str())
        .filter(|other| other != host)
        .collect();
    others.sort_unstable();
    others.dedup();
    let also = match others.as_slice() {
        [] => String::new(),
        [one] => format!(" ({one} was blocked too.)"),
        [first, rest @ ..] => format!(" ({first} and {} more were blocked too.)", rest.len()),
    };
    Hint {
        code: HintCode::EgressBlocked,
        text: format!(
            "{} tried to reach {host}{by}, and the network policy blocks it. Allow {host} under Internet access, then test again.{also}",
            evidence.place()
        ),
        host: Some(host.clone()),
    }
}

/// The host that a message names: in quotes, in a URL, or as a word with a dot.
fn host_of(line: &str) -> Option<&str> {
    let from_url = line.split("://").nth(1).and_then(|rest| {
        let authority = rest.split(['/', ' ', '"', '\'', '?', ')', '>']).next()?;
        let host = authority.rsplit('@').next()?;
        Some(host.split(':').next().unwrap_or(host))
    });
    let words = || {
        line.split([
            ' ', '\'', '"', '(', ')', ',', '=', '<', '>', '\u{2018}', '\u{2019}', '`',
        ])
        .map(|word| word.trim_matches(|c: char| matches!(c, ':' | '.' | ';')))
        .map(|word| {
            word.rsplit_once(':').map_or(word, |(host, port)| {
                if port.bytes().all(|b| b.is_ascii_digit()) {
                    host
                } else {
                    word
                }
            })
        })
    };
    from_url
        .filter(|host| is_host(host))
        .or_else(|| words().find(|word| is_host(word)))
}

/// A name with a dot whose last part is no file's ending and no number.
fn is_host(word: &str) -> bool {
    const FILES: [&str; 14] = [
        "py", "js", "rs", "sh", "so", "txt", "json", "toml", "yaml", "yml", "whl", "gz", "deb", "c",
    ];
    let Some((_, last)) = word.rsplit_once('.') else {
        return false;
    };
    last.len() >= 2
        && last.bytes().all(|b| b.is_ascii_alphabetic())
        && !FILES.contains(&last)
        && !word.contains('/')
        && word.bytes().filter(|&b| b == b'.').count() < 10
        && normalise_host(word).is_some()
        && !is_qualified_name(word)
}

/// `urllib3.exceptions.NewConnectionError`: a class, not a host.
fn is_qualified_name(word: &str) -> bool {
    word.rsplit('.')
        .next()
        .is_some_and(|last| last.starts_with(|c: char| c.is_ascii_uppercase()))
}
