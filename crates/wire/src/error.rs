//! The flat error of both API trees and of server functions (spec 2-api, *Conventions*).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:literal;)*) => {
        /// Every error code, with its HTTP status (spec 2-api).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
        pub enum Code { $($(#[$doc])* #[serde(rename = $word)] $variant,)* }
        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The wire word.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),* } }
            /// The HTTP status.
            pub const fn status(self) -> u16 { match self { $(Self::$variant => $status),* } }
        }
    };
}

codes! {
    /// A field or parameter is wrong.
    InvalidRequest = "invalid_request", 400;
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400;
    /// No or unknown credentials.
    Unauthorized = "unauthorized", 401;
    /// The role does not allow it.
    Forbidden = "forbidden", 403;
    /// No such thing, or not yours to know of.
    NotFound = "not_found", 404;
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The key was used for another request.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// The first request with this key is still under way.
    IdempotencyInProgress = "idempotency_in_progress", 409;
    /// Somebody else's edit landed first.
    RevisionConflict = "revision_conflict", 409;
    /// A run is in flight for this environment.
    SetupRunInProgress = "setup_run_in_progress", 409;
    /// The run has ended.
    SetupRunFinished = "setup_run_finished", 409;
    /// The session does not run, or is about to end.
    SessionNotRunning = "session_not_running", 409;
    /// `expected_access` differs from what is saved.
    PreconditionFailed = "precondition_failed", 412;
    /// The body is too large.
    PayloadTooLarge = "payload_too_large", 413;
    /// Not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// No session can start.
    EnvironmentNotVerified = "environment_not_verified", 422;
    /// The provider is switched off.
    SandboxProviderDisabled = "sandbox_provider_disabled", 422;
    /// `expected_access` is missing.
    PreconditionRequired = "precondition_required", 428;
    /// Too many requests.
    RateLimitExceeded = "rate_limit_exceeded", 429;
    /// Too many runs in flight.
    SetupRunLimit = "setup_run_limit", 429;
    /// Too many sessions are live, or too many commands or terminals run in one.
    SessionLimit = "session_limit", 429;
    /// Our fault.
    InternalError = "internal_error", 500;
    /// Something we need is not there.
    ServiceUnavailable = "service_unavailable", 503;
    /// The run could not be queued.
    SetupRunNotStarted = "setup_run_not_started", 503;
    /// It took too long.
    GatewayTimeout = "gateway_timeout", 504;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `{code, message, details?}`. Safe to show: no stack, SQL, server path, secret or submitted value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[error("{code}: {message}")]
pub struct ApiError {
    /// For programs.
    pub code: Code,
    /// One or two plain sentences that say what to do.
    pub message: String,
    /// `field`, `issues`, `requestId`, `retryable`, and what a code adds.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// Seconds for `Retry-After`; not part of the body.
    #[serde(skip)]
    pub retry_after: Option<u32>,
}
