//! What is kept of a run beside its log: the hosts that it asked for, and how long each script line took
//! (spec 2-api, *egress* and *timings*).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{limits, setup_run::UnknownWord};

/// How an attempt to reach a host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EgressOutcome {
    /// The policy let it through, and the far side answered.
    Allowed,
    /// No rule allows the host, or a rule denies it.
    Denied,
    /// The policy allows the host, but its address is one that no sandbox may reach.
    RefusedAddress,
    /// What the client said does not match what it dialled: another TLS server name or `Host`, or neither to be read.
    Mismatch,
    /// Traffic that no policy lets through: UDP.
    Protocol,
    /// The policy let it through, but the name does not resolve or the far side does not answer.
    UpstreamFailed,
    /// A limit on what one sandbox can make the gateway hold was reached.
    Limit,
}

impl EgressOutcome {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Allowed,
        Self::Denied,
        Self::RefusedAddress,
        Self::Mismatch,
        Self::Protocol,
        Self::UpstreamFailed,
        Self::Limit,
    ];

    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::RefusedAddress => "refused_address",
            Self::Mismatch => "mismatch",
            Self::Protocol => "protocol",
            Self::UpstreamFailed => "upstream_failed",
            Self::Limit => "limit",
        }
    }

    /// Whether it was we who refused.
    pub const fn blocked(self) -> bool {
        !matches!(self, Self::Allowed | Self::UpstreamFailed)
    }
}

impl fmt::Display for EgressOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EgressOutcome {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .iter()
            .copied()
            .find(|outcome| outcome.as_str() == text)
            .ok_or(UnknownWord)
    }
}

/// A host that a run asked for. Host, port and outcome name the record: another report of the same three is about the
/// same record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedHost {
    /// Host name, or address when dialled by address; redacted.
    pub host: String,
    /// Port; 0 = a name lookup.
    pub port: u16,
    /// How it ended.
    pub outcome: EgressOutcome,
    /// Index of the deciding rule; `None`: no rule matched (or the policy is unrestricted).
    pub rule: Option<u32>,
    /// The host whose HTTP redirect led here; redacted.
    pub redirected_from: Option<String>,
    /// Script line that was running when it was asked for first; `None`: unknown.
    pub line: Option<u32>,
    /// How often. The larger of two reports counts.
    pub count: u64,
}

/// A host as it is kept: without control characters, and no longer than a host's name can be
/// ([`limits::HOST_MAX_BYTES`]). What is longer is no host; its beginning is kept, with an ellipsis.
pub fn kept_host(host: &str) -> String {
    const ELLIPSIS: char = '…';
    let mut kept: String = host.chars().filter(|c| !c.is_control()).collect();
    if kept.len() > limits::HOST_MAX_BYTES {
        kept.truncate(kept.floor_char_boundary(limits::HOST_MAX_BYTES - ELLIPSIS.len_utf8()));
        kept.push(ELLIPSIS);
    }
    kept
}

/// How long a script line took, all its turns together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineTime {
    /// Script line, from 1.
    pub line: u32,
    /// Microseconds.
    pub micros: u64,
}

/// What was learnt of a run beside its log. Reports add up: a host that was reported before takes the larger count, and
/// times replace those reported before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunRecords {
    /// Hosts asked for, in order of first attempt.
    pub hosts: Vec<AskedHost>,
    /// Seconds per script line, in order of first run; empty: nothing new.
    pub timings: Vec<LineTime>,
}

impl RunRecords {
    /// The same within its bounds, whoever reported it: no more hosts than are kept of a run, no longer names than a host
    /// can have, no more times than a script has lines.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.hosts.truncate(limits::RUN_HOSTS_MAX);
        for asked in &mut self.hosts {
            asked.host = kept_host(&asked.host);
            asked.redirected_from = asked.redirected_from.as_deref().map(kept_host);
        }
        self.timings.truncate(limits::SCRIPT_MAX_BYTES);
        self
    }
}

/// The times of an earlier run for the lines of a script that may have been edited since: of the line with the same number
/// and text, else of the only line with that text.
pub fn previous_times(script: &str, earlier: &str, times: &[LineTime]) -> Vec<LineTime> {
    let (now, then): (Vec<&str>, Vec<&str>) = (
        script.lines().map(str::trim).collect(),
        earlier.lines().map(str::trim).collect(),
    );
    let only = |lines: &[&str], text: &str| -> Option<usize> {
        let mut found = lines.iter().enumerate().filter(|(_, line)| **line == text);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Some(index),
            _ => None,
        }
    };
    let mut matched = Vec::new();
    for (index, text) in now.iter().enumerate() {
        let index_then = if then.get(index) == Some(text) {
            Some(index)
        } else {
            only(&now, text).and_then(|_| only(&then, text))
        };
        let time = index_then
            .and_then(|index| u32::try_from(index + 1).ok())
            .and_then(|line| times.iter().find(|time| time.line == line));
        if let (Some(time), Ok(line)) = (time, u32::try_from(index + 1)) {
            matched.push(LineTime {
                line,
                micros: time.micros,
            });
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_an_earlier_run_follow_their_lines() {
        let times: Vec<LineTime> = (1..=4)
            .map(|line| LineTime {
                line,
                micros: u64::from(line) * 10,
            })
            .collect();
        let earlier = "a\nb\nc\nc\n";
        for (script, expected) in [
            (earlier, vec![(1, 10), (2, 20), (3, 30), (4, 40)]),
            // A line in front.
            ("new\na\nb\n", vec![(2, 10), (3, 20)]),
            // Indented, as in a loop.
            ("  a\n", vec![(1, 10)]),
            // Which of the two it was cannot be told; the third is in its place.
            ("c\n", vec![]),
            ("a\nx\nc\n", vec![(1, 10), (3, 30)]),
            ("", vec![]),
        ] {
            let found: Vec<(u32, u64)> = previous_times(script, earlier, &times)
                .iter()
                .map(|time| (time.line, time.micros))
                .collect();
            assert_eq!(found, expected, "{script:?}");
        }
    }

    #[test]
    fn a_host_is_kept_within_bounds_and_between_characters() {
        let longest = format!("{}.example", "a".repeat(245));
        assert_eq!(kept_host(&longest), longest);
        for (host, bytes) in [
            ("a".repeat(254), 253),
            ("a".repeat(100_000), 253),
            // Characters of two and of four bytes, which the cut would go through.
            ("ä".repeat(4_000), 253),
            ("😀".repeat(4_000), 251),
        ] {
            let kept = kept_host(&host);
            assert_eq!(kept.len(), bytes, "{kept}");
            assert!(kept.ends_with('…') && host.starts_with(kept.trim_end_matches('…')));
        }
        assert_eq!(kept_host("a\0b\n.example"), "ab.example");
    }

    #[test]
    fn records_are_bounded_whoever_reports_them() {
        let asked = AskedHost {
            host: "a".repeat(8_192),
            port: 80,
            outcome: EgressOutcome::Denied,
            rule: None,
            redirected_from: Some("b".repeat(16_384)),
            line: None,
            count: 1,
        };
        let bounded = RunRecords {
            hosts: vec![asked; limits::RUN_HOSTS_MAX + 1],
            timings: vec![LineTime { line: 1, micros: 1 }; limits::SCRIPT_MAX_BYTES + 1],
        }
        .bounded();
        assert_eq!(bounded.hosts.len(), limits::RUN_HOSTS_MAX);
        assert_eq!(bounded.timings.len(), limits::SCRIPT_MAX_BYTES);
        let longest = |host: &str| host.len() == limits::HOST_MAX_BYTES;
        assert!(bounded.hosts.iter().all(|asked| {
            longest(&asked.host) && asked.redirected_from.as_deref().is_some_and(longest)
        }));
    }

    #[test]
    fn outcomes_are_read_back_from_their_word() {
        for outcome in EgressOutcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(*outcome));
            assert_eq!(
                serde_json::to_value(outcome).ok(),
                Some(outcome.as_str().into())
            );
        }
        assert_eq!("maybe".parse::<EgressOutcome>(), Err(UnknownWord));
    }
}
