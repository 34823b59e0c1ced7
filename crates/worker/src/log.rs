//! One run's log on its way to the control plane.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use domain::{
    hints::BlockedHost,
    limits::RUN_HOSTS_MAX,
    redaction::MASK,
    run_records::{AskedHost, LineTime, RunRecords, kept_host},
};
use execution::{
    logs::{Batch, Limits, Pipeline},
    runtime::{EgressEvent, EgressOutcome, Event, ScriptEnd},
};
use tokio::sync::mpsc;
use wire::worker::{Assignment, Fault, Gateway, GatewayError, Held, LogBatch, RunOutcome};

use crate::{
    calls::{Caller, Gone},
    redaction,
    time::Time,
};

/// Events taken in before a batch is sent: what came meanwhile goes together.
const EVENTS_AT_ONCE: usize = 32;
/// Bytes of the script's recent output that are kept for finding the cause of a failure.
const RECENT_BYTES: usize = 16 * 1024;

/// The log: events go in, batches go out. While the control plane does not answer, nothing more is taken in, so that the
/// script waits and memory is bounded.
pub(crate) struct RunLog {
    gateway: Arc<dyn Gateway>,
    held: Held,
    caller: Caller,
    pipeline: Pipeline,
    batches: u64,
    recent: Recent,
    /// The last hosts that were refused, each with the script line in which it was last.
    refused: Refused,
    /// Hosts that the control plane has not heard of yet.
    news: Vec<AskedHost>,
    /// How many first and how many further attempts went to `news`.
    told: (usize, usize),
    line: u32,
    /// The lease is lost: what comes is thrown away.
    gone: bool,
}

/// Refused hosts that are remembered, to find the cause of a failure.
const REFUSED_MAX: usize = 1_000;
/// First attempts that are told while the script runs: as many hosts as a run can have.
const FIRST_TOLD_MAX: usize = RUN_HOSTS_MAX;
/// Further attempts at known hosts that are told while the script runs; the end tells the whole count.
const AGAIN_TOLD_MAX: usize = 1_000;

/// Refused hosts, the latest last.
#[derive(Debug, Default)]
struct Refused(VecDeque<(u32, EgressEvent)>);

impl Refused {
    fn push(&mut self, line: u32, event: &EgressEvent) {
        // Once for each line: a client that tries one host for ever must not push out the others.
        let known = self.0.iter().position(|(at, known)| {
            *at == line
                && known.host == event.host
                && known.redirected_from == event.redirected_from
        });
        if let Some(known) = known {
            self.0.remove(known);
        } else if self.0.len() >= REFUSED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((line, event.clone()));
    }
}

/// The end of what the script wrote, both streams together, since the running statement began.
#[derive(Debug, Default)]
struct Recent {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(RECENT_BYTES)..];
        self.bytes += bytes.len();
        self.chunks.push_back(bytes.to_vec());
        while self.bytes > RECENT_BYTES && self.chunks.len() > 1 {
            if let Some(chunk) = self.chunks.pop_front() {
                self.bytes -= chunk.len();
            }
        }
    }
    fn text(&self) -> String {
        let chunks: Vec<&[u8]> = self.chunks.iter().map(Vec::as_slice).collect();
        String::from_utf8_lossy(&chunks.concat()).into_owned()
    }
}

impl RunLog {
    pub(crate) fn new(
        gateway: Arc<dyn Gateway>,
        caller: Caller,
        assignment: &Assignment,
        limits: Limits,
    ) -> Self {
        let clock = Arc::clone(&caller.time);
        Self {
            gateway,
            held: assignment.held,
            pipeline: Pipeline::new(
                redaction::for_plan(&assignment.plan),
                assignment.next_seq,
                assignment.log_bytes,
                limits,
                move || clock.now(),
            ),
            caller,
            batches: 0,
            recent: Recent::default(),
            refused: Refused::default(),
            news: Vec::new(),
            told: (0, 0),
            line: 0,
            gone: false,
        }
    }

    fn time(&self) -> Arc<dyn Time> {
        Arc::clone(&self.caller.time)
    }

    /// Writes a note and sends it.
    pub(crate) async fn note(&mut self, text: &str) -> Result<(), Gone> {
        self.pipeline.system(text, self.caller.time.monotonic());
        self.flush().await
    }

    /// Takes in events until their sender is gone, sending batches as they are due.
    pub(crate) async fn pump(&mut self, events: &mut mpsc::Receiver<Event>) {
        let time = self.time();
        loop {
            let wait = self
                .pipeline
                .due()
                .map(|due| due.saturating_sub(time.monotonic()));
            tokio::select! {
                biased;
                event = events.recv() => {
                    let Some(event) = event else { return };
                    self.take(&event);
                    for _ in 1..EVENTS_AT_ONCE {
                        let Ok(event) = events.try_recv() else { break };
                        self.take(&event);
                    }
                }
                () = time.sleep(wait.unwrap_or(Duration::MAX / 4)), if wait.is_some() => {}
            }
            let now = time.monotonic();
            self.pipeline.tick(now);
            if let Some(batch) = self.pipeline.take_batch(now)
                && self.send(batch).await.is_err()
            {
                self.gone = true;
            }
            if self.tell_hosts().await.is_err() {
                self.gone = true;
            }
        }
    }

    /// Reports hosts that were asked for the first time.
    async fn tell_hosts(&mut self) -> Result<(), Gone> {
        if self.news.is_empty() {
            return Ok(());
        }
        let hosts = std::mem::take(&mut self.news);
        self.report(RunRecords {
            hosts,
            timings: Vec::new(),
        })
        .await
    }

    /// Reports every host with its count, and the time of every line, as the script's end has them.
    pub(crate) async fn tell_all(&mut self, end: &ScriptEnd) -> Result<(), Gone> {
        self.tell_hosts().await?;
        let timings = end.timings.iter().map(|(line, took)| LineTime {
            line: *line,
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        });
        let records = RunRecords {
            hosts: end
                .egress
                .iter()
                .map(|event| self.asked(0, event))
                .collect(),
            timings: timings.collect(),
        };
        if records == RunRecords::default() {
            return Ok(());
        }
        self.report(records).await
    }

    async fn report(&mut self, records: RunRecords) -> Result<(), Gone> {
        if self.gone {
            return Err(Gone);
        }
        self.caller
            .persist(|| async {
                match self.gateway.record(self.held, records.clone()).await {
                    // The run itself does not hang on what is told beside its log.
                    Err(GatewayError::Refused(reason)) => {
                        tracing::error!(reason, "hosts and times of a run could not be kept");
                        Ok(())
                    }
                    told => told,
                }
            })
            .await
    }

    /// A host's name as it may leave the worker: masked, because it can hold a secret, and only then cut, because a cut
    /// secret is not found.
    fn host(&self, name: &str) -> String {
        kept_host(&self.pipeline.redact(name))
    }

    fn asked(&self, line: u32, event: &EgressEvent) -> AskedHost {
        AskedHost {
            host: self.host(&event.host),
            port: event.port,
            outcome: event.outcome,
            rule: event.rule.and_then(|rule| u32::try_from(rule).ok()),
            redirected_from: event.redirected_from.as_deref().map(|from| self.host(from)),
            line: (line > 0).then_some(line),
            count: event.count,
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Marker { line, text } => {
                self.line = *line;
                if !text.is_empty() {
                    self.recent = Recent::default();
                }
            }
            Event::Output { bytes, .. } => self.recent.push(bytes),
            Event::Egress(egress) => {
                // Any other refusal is not mended by a rule.
                if egress.outcome == EgressOutcome::Denied {
                    self.refused.push(self.line, egress);
                }
                let (told, most) = if egress.count == 1 {
                    (&mut self.told.0, FIRST_TOLD_MAX)
                } else {
                    (&mut self.told.1, AGAIN_TOLD_MAX)
                };
                if *told < most {
                    *told += 1;
                    self.news.push(self.asked(self.line, egress));
                }
            }
            Event::System { .. } => {}
        }
        if !self.gone {
            self.pipeline.event(event, self.caller.time.monotonic());
        }
    }

    /// The script has ended: its unfinished lines are complete.
    pub(crate) async fn end_of_output(&mut self) -> Result<(), Gone> {
        self.pipeline.end_of_output(self.caller.time.monotonic());
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        match self.pipeline.take_rest() {
            Some(batch) => self.send(batch).await,
            None => Ok(()),
        }
    }

    async fn send(&mut self, batch: Batch) -> Result<(), Gone> {
        if self.gone {
            return Err(Gone);
        }
        self.batches += 1;
        let batch = LogBatch {
            number: self.batches,
            lines: batch.lines,
            truncated: batch.truncated,
            open: batch.open,
        };
        self.caller
            .persist(|| self.gateway.append_log(self.held, batch.clone()))
            .await
    }

    /// The last of stderr, redacted.
    pub(crate) fn stderr_tail(&self) -> String {
        self.pipeline.stderr_tail()
    }

    /// The end of what was written since the last statement began, redacted.
    pub(crate) fn recent(&self) -> String {
        self.pipeline.redact(&self.recent.text())
    }

    /// Hosts refused since the last statement began or in the script line `line`, in order.
    pub(crate) fn blocked(&self, line: u32) -> Vec<BlockedHost> {
        self.refused
            .0
            .iter()
            .filter(|(at, _)| *at == self.line || *at == line)
            .map(|(_, event)| BlockedHost {
                host: self.host(&event.host),
                redirected_by: event.redirected_from.as_deref().map(|from| self.host(from)),
            })
            .collect()
    }

    /// How the run ended, with every text of it masked, whatever it was made from.
    pub(crate) fn masked(&self, outcome: RunOutcome) -> RunOutcome {
        let mask = |text: Option<String>| text.map(|text| self.redact(&text));
        RunOutcome {
            message: self.redact(&outcome.message),
            failed_command: mask(outcome.failed_command),
            hint: mask(outcome.hint),
            // A host that was masked is none that could be allowed.
            hint_host: outcome
                .hint_host
                .filter(|host| self.redact(host) == *host && !host.contains(MASK)),
            stderr_tail: mask(outcome.stderr_tail),
            capture_failure: outcome.capture_failure.map(|fault| Fault {
                message: self.redact(&fault.message),
                ..fault
            }),
            ..outcome
        }
    }

    /// Masks a text that is not of the log.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.pipeline.redact(text)
    }
}
