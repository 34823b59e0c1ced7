//! The verdict on an environment's script, and whether sessions may start (spec 1-domain, *Verification*).

use serde::{Deserialize, Serialize};

use crate::{
    environment::Definition,
    fingerprint::Fingerprint,
    ids::{SetupRunId, UserId},
    setup_run::{Kind, Phase, Status},
    timestamp::Timestamp,
};

/// The stored verdict's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerificationStatus {
    /// No script.
    NotApplicable,
    /// A script that no run has judged.
    Never,
    /// A run is in flight, and no current verdict exists.
    Running,
    /// A run passed.
    Verified,
    /// The last run failed.
    Failed,
}

impl VerificationStatus {
    /// The wire word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotApplicable => "not_applicable",
            Self::Never => "never",
            Self::Running => "running",
            Self::Verified => "verified",
            Self::Failed => "failed",
        }
    }
}

/// What is recorded of an environment's verification. `stale` is never stored: [`Verification::is_stale`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The status.
    pub status: VerificationStatus,
    /// The run in flight.
    #[serde(default)]
    pub active_setup_run_id: Option<SetupRunId>,
    /// The run of the verdict.
    #[serde(default)]
    pub setup_run_id: Option<SetupRunId>,
    /// When the verdict fell.
    #[serde(default)]
    pub at: Option<Timestamp>,
    /// What the verdict's run tested.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// Who asked for the run of the verdict.
    #[serde(default)]
    pub verified_by_user_id: Option<UserId>,
    /// Summary of the verdict's run.
    #[serde(default)]
    pub last_run: Option<RunSummary>,
    /// The captured image.
    #[serde(default)]
    pub image: Option<SetupImage>,
    /// The script passed, the capture did not.
    #[serde(default)]
    pub image_capture: Option<ImageCaptureFailure>,
}

/// The part of a run that its environment repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RunSummary {
    /// The run.
    pub setup_run_id: SetupRunId,
    /// How it ended.
    pub status: Status,
    /// Where it ended.
    pub phase: Phase,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The script's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The failing statement's first line; 0 = unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_line: Option<u32>,
    /// The failing statement as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_command: Option<String>,
    /// The likely cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint_code: Option<crate::setup_run::HintCode>,
    /// The likely cause and its fix, as sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The last of stderr, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// What can be had of a captured image at the moment, in the contract's words. The contract knows more of them, for clouds
/// that pull images ahead of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// Sandboxes start from it at once.
    Ready,
    /// No sandbox starts from it.
    Unavailable,
}

/// A captured image, as the wire has it (camelCase there).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SetupImage {
    /// Its id.
    pub image_id: String,
    /// The compute it was captured on.
    pub compute_id: String,
    /// The run that made it.
    pub setup_run_id: SetupRunId,
    /// Reference with digest.
    pub image: String,
    /// Digest of the runner image below it.
    pub base_image_digest: String,
    /// What it was prepared from.
    pub fingerprint: Fingerprint,
    /// The runner image reference below it.
    pub runner_image: String,
    /// 1 for the environment's first image, and one more each time.
    pub generation: i64,
    /// Bytes of the prepared layer.
    pub size_bytes: i64,
    /// When.
    pub captured_at: Timestamp,
    /// Whether sessions can start from it.
    pub usable: bool,
    /// The same as a word of the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Warmup>,
    /// Why not, as a sentence that says what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_message: Option<String>,
}

impl SetupImage {
    /// Digest of the prepared layer, such as `sha256:…`; the reference's part after the `@`.
    pub fn digest(&self) -> Option<&str> {
        self.image.split_once('@').map(|(_, digest)| digest)
    }
}

/// Why a captured image is no longer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageLoss {
    /// Others were used more lately, and the disk that images may take is limited.
    Evicted,
    /// Its layer is on no machine any more.
    Missing,
}

impl ImageLoss {
    /// What members are told.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Evicted => {
                "The prepared image was removed to keep images within the disk they may take: it had not been used for the longest time. Test the environment again to make it anew."
            }
            Self::Missing => {
                "The prepared image is no longer on any machine. Test the environment again to make it anew."
            }
        }
    }
}

/// The script passed and the capture did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageCaptureFailure {
    /// The run.
    pub setup_run_id: SetupRunId,
    /// When.
    pub at: Timestamp,
    /// A word for the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a run ended, for the verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// What the run was started for: a runner refresh that fails leaves the verdict alone.
    pub kind: Kind,
    /// The summary to repeat.
    pub summary: RunSummary,
    /// What the run tested.
    pub fingerprint: Fingerprint,
    /// When it ended.
    pub at: Timestamp,
    /// Who asked for it.
    pub requested_by: UserId,
    /// The image, where it was captured.
    pub image: Option<SetupImage>,
    /// Why not, where it was not.
    pub image_capture: Option<ImageCaptureFailure>,
}

/// Whether a session can start, and if not, what would mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usability {
    /// It can.
    Usable,
    /// Start a setup run.
    NeedsRun,
    /// Wait for the run in flight.
    WaitFor(SetupRunId),
}

/// The *Setup* column's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupBadge {
    /// *Ready*
    Ready,
    /// *Verified*
    Verified,
    /// *Re-testing*
    Retesting,
    /// *Not tested*
    NotTested,
    /// *Testing*
    Testing,
    /// *Failed*
    Failed,
    /// *Stale*
    Stale,
    /// *No image*
    NoImage,
}

impl SetupBadge {
    /// The label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Verified => "Verified",
            Self::Retesting => "Re-testing",
            Self::NotTested => "Not tested",
            Self::Testing => "Testing",
            Self::Failed => "Failed",
            Self::Stale => "Stale",
            Self::NoImage => "No image",
        }
    }
}

impl Verification {
    /// Of an environment just created.
    pub fn created(definition: &Definition) -> Self {
        Self::blank(if definition.has_script() {
            VerificationStatus::Never
        } else {
            VerificationStatus::NotApplicable
        })
    }

    const fn blank(status: VerificationStatus) -> Self {
        Self {
            status,
            active_setup_run_id: None,
            setup_run_id: None,
            at: None,
            fingerprint: None,
            verified_by_user_id: None,
            last_run: None,
            image: None,
            image_capture: None,
        }
    }

    /// After an edit from `before` to `after`. Only gaining or losing the script changes the status; everything else
    /// shows as [`Self::is_stale`].
    #[must_use]
    pub fn edited(&self, before: &Definition, after: &Definition) -> Self {
        match (before.has_script(), after.has_script()) {
            (true, false) => {
                let mut next = Self::blank(VerificationStatus::NotApplicable);
                next.active_setup_run_id = self.active_setup_run_id;
                next
            }
            (false, true) => {
                let mut next = Self::blank(VerificationStatus::Never);
                next.active_setup_run_id = self.active_setup_run_id;
                next
            }
            _ => self.clone(),
        }
    }

    /// Whether the verdict is not about `current`, today's fingerprint. False without a verdict.
    pub fn is_stale(&self, current: &Fingerprint) -> bool {
        match self.status {
            VerificationStatus::NotApplicable | VerificationStatus::Never => false,
            _ => self
                .fingerprint
                .as_ref()
                .is_some_and(|tested| tested != current),
        }
    }

    /// After a run of `current` was admitted.
    #[must_use]
    pub fn run_started(&self, run: SetupRunId, current: &Fingerprint) -> Self {
        let mut next = self.clone();
        next.active_setup_run_id = Some(run);
        if !(self.status == VerificationStatus::Verified && !self.is_stale(current)) {
            next = Self {
                active_setup_run_id: Some(run),
                ..Self::blank(VerificationStatus::Running)
            };
        }
        next
    }

    /// After the run in flight succeeded or failed. `has_script`: of today's definition; without one nothing is recorded.
    /// A runner refresh that failed says nothing about the script on the runner that it was verified on: the verdict stays.
    #[must_use]
    pub fn run_finished(&self, end: &RunEnd, has_script: bool) -> Self {
        if !has_script {
            return Self::blank(VerificationStatus::NotApplicable);
        }
        let passed = end.summary.status == Status::Succeeded;
        if !passed && end.kind == Kind::RunnerRefresh {
            return self.run_cancelled();
        }
        Self {
            status: if passed {
                VerificationStatus::Verified
            } else {
                VerificationStatus::Failed
            },
            active_setup_run_id: None,
            setup_run_id: Some(end.summary.setup_run_id),
            at: Some(end.at),
            fingerprint: Some(end.fingerprint.clone()),
            verified_by_user_id: passed.then_some(end.requested_by),
            last_run: Some(end.summary.clone()),
            image: if passed { end.image.clone() } else { None },
            image_capture: if passed {
                end.image_capture.clone()
            } else {
                None
            },
        }
    }

    /// After the run in flight was cancelled: nothing is recorded, and `running` goes back to `never`.
    #[must_use]
    pub fn run_cancelled(&self) -> Self {
        match self.status {
            VerificationStatus::Running => Self::blank(VerificationStatus::Never),
            _ => Self {
                active_setup_run_id: None,
                ..self.clone()
            },
        }
    }

    /// After the captured image with this layer went; `None`: the verdict has no such image, or knows already. The script
    /// stays verified: what is lost is only what it had prepared.
    #[must_use]
    pub fn image_lost(&self, digest: &str, loss: ImageLoss) -> Option<Self> {
        let image = self.image.as_ref()?;
        if !image.usable || image.digest() != Some(digest) {
            return None;
        }
        let mut next = self.clone();
        next.image = Some(SetupImage {
            usable: false,
            warmup: Some(Warmup::Unavailable),
            warmup_message: Some(loss.sentence().to_owned()),
            ..image.clone()
        });
        Some(next)
    }

    /// Whether the captured image was prepared on another runner image than `runner_digest`, the one that is there now: a
    /// session then waits for a run that prepares it anew (*Verification*, runner refresh).
    pub fn needs_refresh(&self, runner_digest: &str) -> bool {
        self.status == VerificationStatus::Verified
            && self
                .image
                .as_ref()
                .is_some_and(|image| image.usable && image.base_image_digest != runner_digest)
    }

    /// Whether a session can start on `current`.
    pub fn usability(&self, current: &Fingerprint) -> Usability {
        let usable = match self.status {
            VerificationStatus::NotApplicable => true,
            VerificationStatus::Verified => {
                !self.is_stale(current) && self.image.as_ref().is_some_and(|image| image.usable)
            }
            _ => false,
        };
        match (usable, self.active_setup_run_id) {
            (true, _) => Usability::Usable,
            (false, Some(run)) => Usability::WaitFor(run),
            (false, None) => Usability::NeedsRun,
        }
    }

    /// The *Setup* column.
    pub fn badge(&self, current: &Fingerprint) -> SetupBadge {
        let stale = self.is_stale(current);
        match self.status {
            VerificationStatus::NotApplicable => SetupBadge::Ready,
            VerificationStatus::Never => SetupBadge::NotTested,
            VerificationStatus::Running => SetupBadge::Testing,
            VerificationStatus::Verified if self.active_setup_run_id.is_some() && !stale => {
                SetupBadge::Retesting
            }
            VerificationStatus::Verified | VerificationStatus::Failed if stale => SetupBadge::Stale,
            VerificationStatus::Verified
                if !self.image.as_ref().is_some_and(|image| image.usable) =>
            {
                SetupBadge::NoImage
            }
            VerificationStatus::Verified => SetupBadge::Verified,
            VerificationStatus::Failed => SetupBadge::Failed,
        }
    }
}
