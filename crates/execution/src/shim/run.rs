//! A setup script in the sandbox, from its first byte to the last process it left behind.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    sync::{PoisonError, atomic::Ordering},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    VIEW, children, disk,
    sandbox::{End, Sandbox},
};
use crate::{
    driver::{self, Stop, Stops},
    egress::EgressReport,
    runtime::{EgressEvent, EgressOutcome, Event, RuntimeError, ScriptEnd, ScriptSpec},
};

/// Names of left-behind processes that are told at most.
const LEFT_BEHIND_MAX: usize = 20;
/// Events that one attempt to reach a host is told with, at most.
const TOLD_MAX: usize = 2;

/// What the cgroup knows; read before the kill, because the OCI runtime removes the cgroup after it.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    oom_kills: u64,
    memory_peak: u64,
    cpu_millis: u64,
}

impl Sandbox {
    fn usage(&self) -> Usage {
        Usage {
            oom_kills: self.cgroup.oom_kills(),
            memory_peak: self.cgroup.memory_peak(),
            cpu_millis: self.cgroup.cpu_millis(),
        }
    }

    /// Runs the script, then ends everything inside.
    ///
    /// # Errors
    /// [`RuntimeError::Lost`] when the sandbox's init died without our doing.
    pub async fn run(
        &self,
        spec: &ScriptSpec,
        cancel: CancellationToken,
        sink: mpsc::Sender<Event>,
    ) -> Result<ScriptEnd, RuntimeError> {
        let other =
            |what: &str, error: std::io::Error| RuntimeError::Other(format!("{what}: {error}"));
        let control = driver::prepare(&Path::new(VIEW).join("ctl"), spec)
            .map_err(|error| other("writing the script", error))?;
        let (mut child, [stdout, stderr]) = match self
            .container
            .spawn(&control.command(), &self.plan.env)
            .await
        {
            Ok(started) => started,
            Err(_) if self.end.load(Ordering::SeqCst) == End::Stopped as u8 => {
                return Ok(ScriptEnd {
                    exit_code: 128 + libc::SIGKILL,
                    cancelled: true,
                    ..ScriptEnd::default()
                });
            }
            // The init is gone, and the OCI runtime will say so in a moment.
            Err(error) if children::is_end(&error) => {
                self.container.kill().await?;
                return Err(self.lost());
            }
            Err(error) => return Err(other("starting the script", error)),
        };
        let mut lost = false;
        // Before the statement that runs: a kill that an earlier one came through has not made this one fail.
        let mut kills_before = 0;
        let mut early = Usage::default();
        let exit = async {
            match child.ended().await {
                Ok((status, failure)) => {
                    if let Some(failure) = failure {
                        tracing::error!(?failure, "the sandbox's shell could not be started");
                    }
                    status
                }
                Err(_) => {
                    lost = true;
                    self.container.gone().await;
                    libc::SIGKILL
                }
            }
        };
        let stops = Stops {
            timeout: spec.timeout,
            cancel,
            kill: Box::new(|| {
                early = self.usage();
                self.container.signal_kill();
            }),
        };
        let beside = Box::new(|| {
            kills_before = self.cgroup.oom_kills();
            self.told_now()
        });
        let end = tokio::select! {
            biased;
            end = driver::serve(control, stdout, stderr, exit, stops, beside, sink.clone()) => end,
            // Beside it and never in its way: with a full sink, and with a sandbox that never stops trying hosts, the
            // script's timeout still counts.
            never = self.announce_egress(&sink) => match never {},
        };
        let end = end.map_err(|error| other("reading the script's output", error))?;
        if lost && end.stopped.is_none() {
            return Err(self.lost());
        }
        let late = self.usage();
        let usage = if late.cpu_millis >= early.cpu_millis && late.memory_peak > 0 {
            late
        } else {
            early
        };
        let left_behind = if end.stopped.is_none() {
            self.left_behind()
        } else {
            Vec::new()
        };
        self.container.kill().await?;
        let EgressReport {
            records: egress,
            beyond_limit,
        } = self.egress_report().await;
        // What the kernel refused last may be known only now.
        for event in self.told_now() {
            let _ = sink.send(event).await;
        }
        if beyond_limit > 0 {
            let text =
                format!("egress: {beyond_limit} more attempts at other hosts are not listed");
            let _ = sink.send(Event::System { text }).await;
        }
        let (disk_used, disk_size) = disk::usage(&self.disk());
        Ok(ScriptEnd {
            exit_code: end.exit_code,
            timed_out: end.stopped == Some(Stop::Timeout),
            cancelled: end.stopped == Some(Stop::Cancelled),
            failed_line: end.failed_line,
            failed_command: end.failed_command,
            failed_in: end.failed_in,
            last_line: end.last_line,
            last_line_for: end.last_line_for,
            out_of_memory: usage.oom_kills > kills_before,
            disk_used,
            disk_size,
            memory_peak: usage.memory_peak,
            cpu_millis: usage.cpu_millis,
            left_behind,
            timings: end.timings,
            egress,
        })
    }

    /// Tells attempts at once, for as long as it is polled. None is taken before there is room for it, so that none is
    /// lost when it is not polled any more.
    async fn announce_egress(&self, sink: &mpsc::Sender<Event>) -> Infallible {
        loop {
            let places = sink.reserve_many(TOLD_MAX).await;
            let Some(event) = next_egress(self).await else {
                return std::future::pending().await;
            };
            // A reader that went away is fine.
            for (place, event) in places.into_iter().flatten().zip(told(event)) {
                place.send(event);
            }
        }
    }

    /// What is to be told of the attempts that are known by now: an attempt is, before its client has the answer.
    fn told_now(&self) -> Vec<Event> {
        let mut egress = self.egress.lock().unwrap_or_else(PoisonError::into_inner);
        let known = egress.len();
        let events = std::iter::from_fn(|| egress.try_recv().ok());
        events.take(known).flat_map(told).collect()
    }

    /// Hosts that were asked for.
    async fn egress_report(&self) -> EgressReport {
        let network = self.network.clone();
        match tokio::task::spawn_blocking(move || network.report()).await {
            Ok(report) => report,
            Err(error) => {
                tracing::warn!(%error, "the egress report is missing");
                EgressReport::default()
            }
        }
    }

    /// Why nothing runs inside any more.
    pub fn lost(&self) -> RuntimeError {
        RuntimeError::Lost(match self.end.load(Ordering::SeqCst) {
            end if end == End::LifeOver as u8 => "its time to live is over".into(),
            end if end == End::Stopped as u8 => "it has been stopped".into(),
            _ => "its first process was killed".into(),
        })
    }

    /// Names of the processes inside besides the init, each once.
    fn left_behind(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for pid in self.cgroup.processes() {
            if pid == self.container.init_pid() || names.len() >= LEFT_BEHIND_MAX {
                continue;
            }
            if let Some(name) = process_name(pid).filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
        names
    }
}

async fn next_egress(sandbox: &Sandbox) -> Option<EgressEvent> {
    std::future::poll_fn(|cx| {
        let egress = sandbox.egress.lock();
        egress.unwrap_or_else(PoisonError::into_inner).poll_recv(cx)
    })
    .await
}

/// What the log and the worker are told of an attempt, of a first one that came to nothing also as a line of the log: at
/// most [`TOLD_MAX`] events.
fn told(event: EgressEvent) -> impl Iterator<Item = Event> {
    let line =
        (event.outcome != EgressOutcome::Allowed && event.count == 1).then(|| Event::System {
            text: event.sentence(),
        });
    line.into_iter().chain([Event::Egress(event)])
}

/// The process's name; `None` when it is gone or only waits to be reaped.
fn process_name(pid: i32) -> Option<String> {
    let dir = Path::new("/proc").join(pid.to_string());
    let stat = fs::read(dir.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let (head, tail) = stat.rsplit_once(')')?;
    if tail.trim_start().starts_with(['Z', 'X']) {
        return None;
    }
    Some(head.split_once('(')?.1.to_owned())
}
