//! What a use case answers when it does not do what was asked: a safe sentence for the world, and the chain of causes
//! for the log. Made by named functions only, so that the codes and their words stay in one place (spec 2-api).

use std::fmt;

use domain::{environment::PatchRefusal, ids::SetupRunId, issues::Issues, roles::Action};
use serde_json::{Map, Value, json};
use wire::{
    error::{ApiError, Code},
    managed_agents::NextAction,
};

use crate::ports::StoreError;

/// The result of a use case.
pub type Result<T> = std::result::Result<T, Error>;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A refusal or a failure. [`Error::api`] may be shown to anyone; [`Error::source`] belongs in the log.
pub struct Error {
    api: Box<ApiError>,
    source: Option<Cause>,
}

impl Error {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            api: Box::new(ApiError {
                code,
                message: message.into(),
                details: Map::new(),
                retry_after: None,
            }),
            source: None,
        }
    }
    fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.api.details.insert(name.to_owned(), value.into());
        self
    }
    fn retry_after(mut self, seconds: u32) -> Self {
        self.api.retry_after = Some(seconds);
        self.detail("retryable", true)
    }

    /// The answer for the world.
    pub fn api(&self) -> &ApiError {
        &self.api
    }
    /// The answer for the world, owned.
    pub fn into_api(self) -> ApiError {
        *self.api
    }
    /// The code.
    pub fn code(&self) -> Code {
        self.api.code
    }
    /// Whether the same call may succeed later without the caller changing anything.
    pub fn retryable(&self) -> bool {
        self.api.retry_after.is_some()
            || matches!(
                self.api.code,
                Code::ServiceUnavailable | Code::GatewayTimeout | Code::SetupRunNotStarted
            )
    }
    /// The causes, outermost first, for the log; empty for a plain refusal.
    pub fn chain(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut next: Option<&dyn std::error::Error> =
            self.source.as_deref().map(|cause| cause as _);
        while let Some(cause) = next {
            texts.push(cause.to_string());
            next = cause.source();
        }
        texts
    }

    /// No such thing, or not the caller's to know of: the two answer alike.
    pub fn not_found() -> Self {
        Self::new(
            Code::NotFound,
            "There is nothing with this id. Check the id, or list what there is.",
        )
    }
    /// The same, where more can be said because the caller knew a secret address.
    pub fn not_found_because(message: &str) -> Self {
        Self::new(Code::NotFound, message)
    }
    /// Nobody we know.
    pub fn unauthorized() -> Self {
        Self::new(
            Code::Unauthorized,
            "Sign in, or send a valid API key as a bearer token.",
        )
    }
    /// The address or the password is wrong; says the same for both.
    pub fn wrong_credentials() -> Self {
        Self::new(
            Code::Unauthorized,
            "The e-mail address or the password is wrong. Check both and try again.",
        )
    }
    /// The role does not allow it.
    pub fn forbidden(action: Action) -> Self {
        let what = match action {
            Action::ReadEnvironments => "see environments",
            Action::ChangeEnvironments => "change environments",
            Action::TestEnvironments => "test environments",
            Action::UseSessions => "use sessions",
            Action::OwnApiKeys => "have API keys",
            Action::OwnAccount => "change an account",
            Action::ManageMembers => "manage members",
            Action::ManageApiKeys => "manage other members' API keys",
            Action::ManageWorkers => "see workers",
            Action::ReadAudit => "read the audit log",
        };
        Self::new(
            Code::Forbidden,
            format!(
                "Your role may not {what}: that takes the role {}. Ask an admin of your organization.",
                action.least_role()
            ),
        )
    }
    /// A key names another organization than its own.
    pub fn other_organization() -> Self {
        Self::new(
            Code::Forbidden,
            "The API key belongs to another organization. Leave x-organization-id out, or send the key's own.",
        )
    }
    /// Refused for a reason that is not the role's alone.
    pub fn forbidden_because(message: &str) -> Self {
        Self::new(Code::Forbidden, message)
    }
    /// Fields that are wrong.
    pub fn invalid(issues: Issues) -> Self {
        let mut error = Self::new(Code::InvalidRequest, issues.summary());
        if let Some(path) = issues.first_path() {
            error = error.detail("field", path);
        }
        error.detail("issues", issues.lines())
    }
    /// One field that is wrong.
    pub fn invalid_field(path: &str, message: impl Into<String>) -> Self {
        Self::invalid(Issues::one(path, message))
    }
    /// A parameter or the request as a whole is wrong; no field to name.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }
    /// The `Idempotency-Key` header is missing where it is required.
    pub fn idempotency_key_required() -> Self {
        Self::invalid_field(
            "Idempotency-Key",
            "This call needs exactly one Idempotency-Key header of 1 to 256 visible ASCII characters.",
        )
    }
    /// The key was used for another request.
    pub fn idempotency_conflict() -> Self {
        Self::new(
            Code::IdempotencyConflict,
            "This Idempotency-Key was used for another request. Use a new key for a new request.",
        )
    }
    /// The first request with this key is still under way.
    pub fn idempotency_in_progress() -> Self {
        Self::new(
            Code::IdempotencyInProgress,
            "The first request with this Idempotency-Key is still under way. Send it again shortly.",
        )
        .retry_after(1)
    }
    /// Somebody else's edit landed first. `fields`: those both changed, where known.
    pub fn revision_conflict(fields: Vec<String>) -> Self {
        let error = Self::new(
            Code::RevisionConflict,
            "The environment was changed by somebody else meanwhile. Read it again, then repeat your change.",
        );
        if fields.is_empty() {
            error
        } else {
            error.detail("fields", fields)
        }
    }
    /// A run is in flight for this environment.
    pub fn setup_run_in_progress(run: SetupRunId) -> Self {
        Self::new(
            Code::SetupRunInProgress,
            "A setup run of this environment is in flight. Wait for it or cancel it.",
        )
        .detail("setup_run_id", run.to_string())
    }
    /// Too many manual runs of the organization are in flight.
    pub fn setup_run_limit(in_flight: &[SetupRunId]) -> Self {
        let ids: Vec<String> = in_flight.iter().map(ToString::to_string).collect();
        Self::new(
            Code::SetupRunLimit,
            format!(
                "Your organization has {} manual setup runs in flight, which is the most. Wait for one to end or cancel one.",
                ids.len()
            ),
        )
        .detail("in_flight", ids)
        .retry_after(5)
    }
    /// The run has ended.
    pub fn setup_run_finished(status: domain::setup_run::Status) -> Self {
        Self::new(
            Code::SetupRunFinished,
            format!("The setup run has already ended as {status}; there is nothing to cancel."),
        )
    }
    /// The run has ended, and no worker holds it any more.
    pub fn setup_run_over(status: domain::setup_run::Status) -> Self {
        Self::new(
            Code::SetupRunFinished,
            format!("The setup run has already ended as {status}; no worker holds it any more."),
        )
    }
    /// No session can start.
    pub fn environment_not_verified(next: Option<NextAction>) -> Self {
        let error = Self::new(
            Code::EnvironmentNotVerified,
            "The environment's setup is not verified as it is saved now. Test setup, then try again.",
        );
        match next {
            Some(next) => error.detail("next_action", json!(next)),
            None => error,
        }
    }
    /// No session can start, for a reason that a run does not mend.
    pub fn environment_not_startable(message: &str, next: &NextAction) -> Self {
        Self::new(Code::EnvironmentNotVerified, message).detail("next_action", json!(next))
    }
    /// Commands cannot run in the session, or it cannot do what was asked; a sentence that says what can be done.
    pub fn session_not_running(message: impl Into<String>) -> Self {
        Self::new(Code::SessionNotRunning, message)
    }
    /// Too many sessions of the organization are live.
    pub fn session_limit(live: usize) -> Self {
        Self::new(
            Code::SessionLimit,
            format!(
                "Your organization has {live} live sessions, which is the most. Stop or delete one, then try again."
            ),
        )
        .detail("live", live)
        .retry_after(30)
    }
    /// Too many commands or terminals run in one session.
    pub fn session_busy(what: &str, most: usize) -> Self {
        Self::new(
            Code::SessionLimit,
            format!("The session has {most} {what}, which is the most. Wait for one to end, then try again."),
        )
        .detail("limit", most)
        .retry_after(5)
    }
    /// Something that the deployment does not have at the moment; a sentence that says what to do.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message).retry_after(30)
    }
    /// `expected_access` is missing.
    pub fn precondition_required() -> Self {
        Self::new(
            Code::PreconditionRequired,
            "Changing a saved network policy or turning privileged on needs expected_access: send the network_policy and privileged that you read.",
        )
        .detail("field", "expected_access")
    }
    /// `expected_access` differs from what is saved.
    pub fn precondition_failed() -> Self {
        Self::new(
            Code::PreconditionFailed,
            "The saved network_policy or privileged is not what expected_access says. Read the environment again, then repeat your change.",
        )
        .detail("field", "expected_access")
    }
    /// Too many requests.
    pub fn rate_limited(retry_after_seconds: u32) -> Self {
        Self::new(
            Code::RateLimitExceeded,
            format!("Too many tries. Wait {retry_after_seconds} seconds, then try again."),
        )
        .retry_after(retry_after_seconds.max(1))
    }
    /// The setup token is wrong, used, or not wanted any more.
    pub fn wrong_setup_token() -> Self {
        Self::new(
            Code::Forbidden,
            "This setup link is not valid. Use the newest one that the server printed when it started.",
        )
    }
    /// An invitation that was accepted, withdrawn, or is past its end, or never was.
    pub fn invitation_over() -> Self {
        Self::new(
            Code::NotFound,
            "This invitation is not valid any more. Ask an admin of the organization for a new link.",
        )
    }
    /// The run could not be queued; the cause goes to the log.
    pub fn setup_run_not_started(cause: impl Into<Cause>) -> Self {
        let mut error = Self::new(
            Code::SetupRunNotStarted,
            "The setup run could not be queued. Try again shortly.",
        )
        .retry_after(2);
        error.source = Some(cause.into());
        error
    }
    /// The environment's provider is not offered any more.
    pub fn sandbox_provider_disabled(provider: &str) -> Self {
        Self::new(
            Code::SandboxProviderDisabled,
            format!("The runtime {provider:?} is switched off in this deployment. Use an environment of another runtime."),
        )
        .detail("field", "provider")
    }
    /// Our fault; the cause goes to the log.
    pub fn internal(cause: impl Into<Cause>) -> Self {
        let mut error = Self::new(
            Code::InternalError,
            "Something went wrong on our side. Try again; if it stays, give your operator the request id.",
        );
        error.source = Some(cause.into());
        error
    }
    /// Something we need is not there; the cause goes to the log.
    pub fn unavailable(cause: impl Into<Cause>) -> Self {
        let mut error = Self::new(
            Code::ServiceUnavailable,
            "The service is not ready for this right now. Try again shortly.",
        )
        .retry_after(2);
        error.source = Some(cause.into());
        error
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::unavailable(error),
            StoreError::Constraint(_) | StoreError::Corrupt { .. } | StoreError::Other(_) => {
                Self::internal(error)
            }
        }
    }
}

impl From<Issues> for Error {
    fn from(issues: Issues) -> Self {
        Self::invalid(issues)
    }
}

impl From<PatchRefusal> for Error {
    fn from(refusal: PatchRefusal) -> Self {
        match refusal {
            PatchRefusal::Invalid(issues) => Self::invalid(issues),
            PatchRefusal::PreconditionRequired => Self::precondition_required(),
            PatchRefusal::PreconditionFailed => Self::precondition_failed(),
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        error.into_api()
    }
}

// The public answer only: whoever wants the causes asks for the chain on purpose.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("api", &self.api)
            .field("chain", &self.chain())
            .finish()
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.api, f)
    }
}
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}
