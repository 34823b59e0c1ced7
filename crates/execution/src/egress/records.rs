//! What was asked for: counted by host, port and outcome, told once each, kept for the run.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// One of [`super::Limits`] was reached.
    Limit,
}

impl EgressOutcome {
    /// Whether it was we who refused.
    pub const fn blocked(self) -> bool {
        !matches!(self, Self::Allowed | Self::UpstreamFailed)
    }
}

/// A host and port that was met for the first time with this outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressEvent {
    /// Host name, or address when dialled by address.
    pub host: String,
    /// Port; 0 = a name lookup.
    pub port: u16,
    /// How it ended.
    pub outcome: EgressOutcome,
    /// Index of the deciding rule; `None`: no rule matched (or the policy is unrestricted).
    pub rule: Option<usize>,
    /// The host whose HTTP redirect led here.
    pub redirected_from: Option<String>,
    /// More on why, for the log; may be empty.
    pub detail: String,
}

impl EgressEvent {
    /// Whether it was let through.
    pub const fn allowed(&self) -> bool {
        !self.outcome.blocked()
    }

    /// What the log shows, such as `egress: blocked example.org, no rule allows it`.
    pub fn sentence(&self) -> String {
        let mut sentence = format!("egress: {}", self.verb());
        sentence.push(' ');
        if self.port == 0 {
            sentence.push_str(&self.host);
        } else if self.host.contains(':') {
            sentence.push_str(&format!("[{}]:{}", self.host, self.port));
        } else {
            sentence.push_str(&format!("{}:{}", self.host, self.port));
        }
        match (self.outcome, self.rule) {
            (EgressOutcome::Allowed, _) => {}
            (EgressOutcome::Denied, Some(rule)) => {
                sentence.push_str(&format!(", rule {rule} denies it"))
            }
            (EgressOutcome::Denied, None) => sentence.push_str(", no rule allows it"),
            (EgressOutcome::Protocol, _) => {
                sentence.push_str(", only TCP and our DNS leave a sandbox")
            }
            _ => {
                sentence.push_str(", ");
                sentence.push_str(&self.detail);
            }
        }
        if self.outcome == EgressOutcome::Denied && !self.detail.is_empty() {
            sentence.push_str(&format!(" ({})", self.detail));
        }
        if let Some(from) = &self.redirected_from {
            sentence.push_str(&format!(" ({from} redirected to it)"));
        }
        sentence
    }

    const fn verb(&self) -> &'static str {
        match self.outcome {
            EgressOutcome::Allowed => "allowed",
            EgressOutcome::UpstreamFailed => "could not reach",
            _ => "blocked",
        }
    }
}

impl From<EgressEvent> for crate::runtime::EgressEvent {
    fn from(event: EgressEvent) -> Self {
        Self {
            allowed: event.allowed(),
            host: event.host,
            port: event.port,
            rule: event.rule,
            redirected_from: event.redirected_from,
        }
    }
}

/// A counted attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRecord {
    /// The first of its kind.
    pub event: EgressEvent,
    /// How many there were (packets, for what the kernel refused).
    pub count: u64,
}

impl EgressRecord {
    /// The policy let it through, but the far side could not be reached.
    pub const fn upstream_failed(&self) -> bool {
        matches!(self.event.outcome, EgressOutcome::UpstreamFailed)
    }
}

/// Everything that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressReport {
    /// In order of first attempt.
    pub records: Vec<EgressRecord>,
    /// Attempts beyond the limit on distinct records.
    pub beyond_limit: u64,
}

#[derive(Default)]
struct Books {
    records: Vec<EgressRecord>,
    index: HashMap<(String, u16, EgressOutcome), usize>,
    beyond_limit: u64,
    /// Host that was redirected to, and the host that did.
    redirects: HashMap<String, String>,
    news: Option<mpsc::UnboundedSender<EgressEvent>>,
}

/// The books of one sandbox.
pub(super) struct Ledger {
    books: Mutex<Books>,
    limit: usize,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

/// How an attempt counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// One more.
    One,
    /// A companion of another attempt (the AAAA lookup beside the A lookup): kept, but not counted twice.
    Same,
    /// So many so far, as the kernel counts.
    AtLeast(u64),
}

impl Ledger {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            books: Mutex::new(Books::default()),
            limit,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Nothing in here panics half-way through a change.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// First attempts go to `news` from now on. Bounded by the limit on records, as each is told once.
    pub(super) fn announce_to(&self, news: mpsc::UnboundedSender<EgressEvent>) {
        self.books().news = Some(news);
    }

    /// Writes an attempt down.
    pub(super) fn record(
        &self,
        host: &str,
        port: u16,
        outcome: EgressOutcome,
        rule: Option<usize>,
        detail: &str,
        count: Count,
    ) {
        let mut books = self.books();
        let key = (host.to_owned(), port, outcome);
        if let Some(record) = books
            .index
            .get(&key)
            .copied()
            .and_then(|at| books.records.get_mut(at))
        {
            record.count = match count {
                Count::One => record.count + 1,
                Count::Same => record.count,
                Count::AtLeast(packets) => record.count.max(packets),
            };
            return;
        }
        if books.records.len() >= self.limit {
            books.beyond_limit += 1;
            return;
        }
        let event = EgressEvent {
            host: host.to_owned(),
            port,
            outcome,
            rule,
            redirected_from: books
                .redirects
                .get(host)
                .filter(|_| outcome.blocked())
                .cloned(),
            detail: detail.to_owned(),
        };
        if let Some(news) = &books.news {
            let _ = news.send(event.clone());
        }
        let at = books.records.len();
        let count = match count {
            Count::One | Count::Same => 1,
            Count::AtLeast(packets) => packets,
        };
        books.records.push(EgressRecord { event, count });
        books.index.insert(key, at);
    }

    /// An HTTP answer of `from` sent its client to `to`.
    pub(super) fn redirected(&self, from: &str, to: &str) {
        const MOST: usize = 4_096;
        let mut books = self.books();
        if from != to && books.redirects.len() < MOST {
            books.redirects.insert(to.to_owned(), from.to_owned());
        }
    }

    pub(super) fn report(&self) -> EgressReport {
        let books = self.books();
        EgressReport {
            records: books.records.clone(),
            beyond_limit: books.beyond_limit,
        }
    }
}
