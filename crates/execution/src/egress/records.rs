//! What was asked for: counted by host, port and outcome, told once each, kept for the run.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::Limits;
use crate::runtime::{EgressEvent, EgressOutcome};

/// Everything that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressReport {
    /// In order of first attempt.
    pub records: Vec<EgressEvent>,
    /// Attempts beyond the limits on what is kept.
    pub beyond_limit: u64,
}

#[derive(Default)]
struct Books {
    records: Vec<EgressEvent>,
    /// When each was told last.
    told: Vec<Instant>,
    /// How often something was told again.
    told_again: u32,
    index: HashMap<(String, u16, EgressOutcome), usize>,
    /// Of the records' texts.
    bytes: usize,
    beyond_limit: u64,
    /// Host that was redirected to, and the host that did.
    redirects: HashMap<String, String>,
    news: Option<mpsc::Sender<EgressEvent>>,
}

/// Told once more are at most so many attempts: a script that asks for ever fills no log.
const TOLD_AGAIN_MAX: u32 = 10_000;

/// Nobody may be listening (in a session nobody is), so what waits to be told is bounded: what finds no room is not told,
/// but it is in the report like everything else.
fn tell(news: &Option<mpsc::Sender<EgressEvent>>, event: &EgressEvent) {
    if let Some(news) = news {
        let _ = news.try_send(event.clone());
    }
}

/// The books of one sandbox.
pub(super) struct Ledger {
    books: Mutex<Books>,
    limit: usize,
    bytes_limit: usize,
    tell_again: Duration,
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
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            books: Mutex::new(Books::default()),
            limit: limits.records,
            bytes_limit: limits.record_bytes,
            tell_again: limits.tell_again,
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Nothing in here panics half-way through a change.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts go to `news` from now on: each first one, and a denied one again after a while.
    pub(super) fn announce_to(&self, news: mpsc::Sender<EgressEvent>) {
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
        let books = &mut *books;
        let key = (host.to_owned(), port, outcome);
        if let Some(at) = books.index.get(&key).copied() {
            let (record, told) = (&mut books.records[at], &mut books.told[at]);
            record.count = match count {
                Count::One => record.count + 1,
                Count::Same => record.count,
                Count::AtLeast(packets) => record.count.max(packets),
            };
            // Another statement may have failed of the same host.
            let again = outcome == EgressOutcome::Denied && books.told_again < TOLD_AGAIN_MAX;
            if again && count == Count::One && told.elapsed() >= self.tell_again {
                *told = Instant::now();
                books.told_again += 1;
                tell(&books.news, record);
            }
            return;
        }
        let redirected_from = books.redirects.get(host).filter(|_| outcome.blocked());
        let bytes =
            books.bytes + host.len() + detail.len() + redirected_from.map_or(0, String::len);
        if books.records.len() >= self.limit || bytes > self.bytes_limit {
            books.beyond_limit += 1;
            return;
        }
        books.bytes = bytes;
        let mut event = EgressEvent {
            rule,
            redirected_from: redirected_from.cloned(),
            detail: detail.to_owned(),
            ..EgressEvent::new(host, port, outcome)
        };
        tell(&books.news, &event);
        if let Count::AtLeast(packets) = count {
            event.count = packets;
        }
        let at = books.records.len();
        books.records.push(event);
        books.told.push(Instant::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(limits: Limits) -> Ledger {
        Ledger::new(&limits)
    }

    fn deny(ledger: &Ledger, host: &str) {
        ledger.record(host, 0, EgressOutcome::Denied, None, "", Count::One);
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_the_rest_only_counted() {
        let ledger = ledger(Limits {
            record_bytes: 1_000,
            ..Limits::default()
        });
        for n in 0..100 {
            deny(&ledger, &format!("{n:0100}"));
        }
        deny(&ledger, &format!("{:0100}", 0));
        let report = ledger.report();
        assert_eq!((report.records.len(), report.beyond_limit), (10, 90));
        assert_eq!(report.records[0].count, 2, "what is kept is counted on");
    }

    #[test]
    fn what_nobody_listens_to_does_not_pile_up_and_is_reported() {
        let ledger = ledger(Limits::default());
        let (news, mut told) = mpsc::channel(3);
        ledger.announce_to(news);
        for n in 0..10 {
            deny(&ledger, &format!("n{n}.example"));
        }
        let waiting = std::iter::from_fn(|| told.try_recv().ok()).count();
        assert_eq!((waiting, ledger.report().records.len()), (3, 10));
        deny(&ledger, "later.example");
        assert_eq!(
            told.try_recv().map(|event| event.host),
            Ok("later.example".into())
        );
    }
}
