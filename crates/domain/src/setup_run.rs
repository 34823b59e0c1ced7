//! Setup runs: states, phases and the moves between them (spec 1-domain, *Setup runs*).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The wire word.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),* } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or(UnknownWord)
            }
        }
    };
}

/// The text is none of the known words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

words! {
    /// What a run was started for.
    Kind {
        /// A member asked for it.
        Manual = "manual",
        /// The runner image changed; shared by the sessions that wait.
        RunnerRefresh = "runner_refresh",
        /// A session ran setup on its own compute.
        Session = "session",
    }
}
words! {
    /// Where a run is.
    Status {
        /// Waits for a worker.
        Queued = "queued",
        /// Compute is being made.
        Provisioning = "provisioning",
        /// The script and what follows it.
        Running = "running",
        /// Passed.
        Succeeded = "succeeded",
        /// Did not pass.
        Failed = "failed",
        /// Stopped by a member.
        Cancelled = "cancelled",
    }
}
impl Status {
    /// Whether no further move exists.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}
words! {
    /// The step a run is in, or ended in.
    Phase {
        /// Compute.
        Provision = "provision",
        /// Only with an accelerator.
        GpuCheck = "gpu_check",
        /// The script.
        Setup = "setup",
        /// Checks of the prepared sandbox.
        Profile = "profile",
        /// Saving the image.
        Commit = "commit",
        /// Releasing compute.
        Cleanup = "cleanup",
    }
}
words! {
    /// Why a run failed (spec 1-domain, `failure_code`).
    FailureCode {
        /// The script; in the phase `provision`, something else about the environment that its members have to mend.
        EnvironmentSetupFailed = "environment_setup_failed",
        /// No machine can run it now: no room, no worker, or no runner image.
        SandboxCapacityUnavailable = "sandbox_capacity_unavailable",
        /// The GPU is not there.
        SandboxGpuNotReady = "sandbox_gpu_not_ready",
        /// Compute was not ready in time.
        SandboxProvisionTimeout = "sandbox_provision_timeout",
        /// The sandbox or its worker went away.
        SandboxLost = "sandbox_lost",
    }
}
words! {
    /// A log line's source.
    Stream {
        /// The script's standard output.
        Stdout = "stdout",
        /// The script's standard error.
        Stderr = "stderr",
        /// The script line about to run.
        Marker = "marker",
        /// Notes on phases.
        System = "system",
    }
}
words! {
    /// The likely cause of a failure (spec 1-domain, *Hints*).
    HintCode {
        /// The gateway refused a host.
        EgressBlocked = "egress_blocked",
        /// Ended by our timer.
        Timeout = "timeout",
        /// The disk is full.
        NoSpace = "no_space",
        /// The memory limit killed a process.
        OutOfMemory = "out_of_memory",
        /// apt's lock is held.
        AptLock = "apt_lock",
        /// apt without root.
        AptPermission = "apt_permission",
        /// pip is missing.
        PipNotInstalled = "pip_not_installed",
        /// `bash -lc` broke the quoting.
        BashLcWrapper = "bash_lc_wrapper",
        /// A GPU was expected.
        CudaUnavailable = "cuda_unavailable",
        /// Exit 127.
        CommandNotFound = "command_not_found",
        /// It asked, and nobody can answer.
        InputNeeded = "input_needed",
    }
}

/// One line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct LogLine {
    /// From 1, without gaps over all streams.
    pub seq: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The script line it belongs to, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Redacted text without its newline; SGR colour kept.
    pub text: String,
    /// When it was written.
    pub at: Timestamp,
}

/// The moving part of a run. Everything else about it is recorded beside, and does not decide moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Where it is.
    pub status: Status,
    /// The step it is in or ended in.
    pub phase: Phase,
    /// Counts claims, from 1; 0 before the first. Reports carry it, and another attempt's change nothing.
    pub attempt: u32,
    /// Whether a worker holds it. False in `queued`, and in `provisioning` while it waits to be tried again.
    pub driven: bool,
    /// A member asked to stop it: an intent beside the state, since the worker may be gone.
    pub cancel_requested: bool,
}

/// Something that happens to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A worker takes it.
    Claim,
    /// The worker of this attempt says that it reached a phase.
    Reach {
        /// The reporter's attempt.
        attempt: u32,
        /// The phase it entered.
        phase: Phase,
    },
    /// A member (or a deletion) wants it stopped.
    RequestCancel,
    /// The worker of this attempt says how it ended.
    Finish {
        /// The reporter's attempt.
        attempt: u32,
        /// How.
        end: End,
    },
    /// The lease ran out, or the worker reports a fault of ours: nobody drives it any more.
    Lose {
        /// The attempt that was lost.
        attempt: u32,
    },
    /// It waited too long for a worker to take it, or no worker can: it fails in `provision`.
    GiveUp,
}

/// How a run ended, as its worker reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The script passed.
    Succeeded,
    /// It did not, or compute failed, in this phase.
    Failed(Phase),
    /// It was stopped because somebody asked.
    Cancelled,
}

/// A move that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run has ended; nothing changes it.
    #[error("the run has already ended as {0}")]
    Finished(Status),
    /// The reporter lost its lease: another attempt drives the run.
    #[error("attempt {reported} reports, but attempt {current} drives the run")]
    Fenced {
        /// The reporter's.
        reported: u32,
        /// The run's.
        current: u32,
    },
    /// The move does not exist from here.
    #[error("a {from} run cannot do that")]
    Illegal {
        /// The state it was tried from.
        from: Status,
    },
}

impl RunState {
    /// A run just admitted.
    pub const fn queued() -> Self {
        Self {
            status: Status::Queued,
            phase: Phase::Provision,
            attempt: 0,
            driven: false,
            cancel_requested: false,
        }
    }

    /// The state after `command`, or why there is none. A cancelled run that no worker drives ends at once; one that a
    /// worker drives keeps the intent until its worker (or the loss of it) ends it. A lost run is tried again at most
    /// [`crate::limits::RUN_RETRIES_MAX`] times: it goes back to `provisioning`, undriven, and can be claimed.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn decide(&self, command: &Command) -> Result<Self, Refusal> {
        if self.status.is_terminal() {
            return Err(Refusal::Finished(self.status));
        }
        let fence = |reported: u32| {
            if self.driven && reported == self.attempt {
                Ok(())
            } else {
                Err(Refusal::Fenced {
                    reported,
                    current: self.attempt,
                })
            }
        };
        let mut next = self.clone();
        match *command {
            Command::Claim => {
                if self.driven || !matches!(self.status, Status::Queued | Status::Provisioning) {
                    return Err(Refusal::Illegal { from: self.status });
                }
                next.driven = true;
                next.status = Status::Provisioning;
                next.phase = Phase::Provision;
                next.attempt += 1;
            }
            Command::Reach { attempt, phase } => {
                fence(attempt)?;
                if phase < self.phase {
                    return Err(Refusal::Illegal { from: self.status });
                }
                next.phase = phase;
                // The GPU check still belongs to making compute; the script is what a run runs.
                if phase >= Phase::Setup {
                    next.status = Status::Running;
                }
            }
            Command::RequestCancel => {
                next.cancel_requested = true;
                // Nobody drives it: nobody has to let go of compute first.
                if !self.driven {
                    next.status = Status::Cancelled;
                }
            }
            Command::Finish { attempt, end } => {
                fence(attempt)?;
                match (self.status, end) {
                    (Status::Running, End::Succeeded) => next.status = Status::Succeeded,
                    (Status::Provisioning | Status::Running, End::Failed(phase)) => {
                        next.status = Status::Failed;
                        next.phase = phase;
                    }
                    // Only an intent on record makes a cancellation: a worker cannot cancel by itself.
                    (Status::Provisioning | Status::Running, End::Cancelled)
                        if self.cancel_requested =>
                    {
                        next.status = Status::Cancelled;
                    }
                    (from, _) => return Err(Refusal::Illegal { from }),
                }
            }
            Command::Lose { attempt } => {
                fence(attempt)?;
                next.driven = false;
                if self.cancel_requested {
                    // Whoever asked wanted it to end, and it has: neither a retry nor a failure.
                    next.status = Status::Cancelled;
                } else if self.attempt > crate::limits::RUN_RETRIES_MAX {
                    next.status = Status::Failed;
                } else {
                    // The same run is claimable again: provisioning without a lease.
                    next.status = Status::Provisioning;
                    next.phase = Phase::Provision;
                }
            }
            Command::GiveUp => {
                if self.driven {
                    return Err(Refusal::Illegal { from: self.status });
                }
                next.status = Status::Failed;
                next.phase = Phase::Provision;
            }
        }
        if next.status.is_terminal() {
            next.driven = false;
        }
        Ok(next)
    }
}
