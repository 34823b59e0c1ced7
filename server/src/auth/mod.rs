//! Who asks. API trees accept a bearer key and nothing else; the console and its server functions accept the browser's
//! sign-in and nothing else (spec 2-api, *Conventions*).

pub mod bearer;
pub mod console;
mod session_store;

use axum::extract::Request;
use control::{Caller, OpCtx};
pub use session_store::{StoredSessions, digest};

use crate::http::{door::RequestId, origin::Source};

/// The context of a request's operation.
fn op_ctx(request: &Request, caller: Caller) -> OpCtx {
    let extensions = request.extensions();
    OpCtx {
        caller,
        request_id: extensions
            .get::<RequestId>()
            .map(|id| id.0.to_string())
            .unwrap_or_default(),
        source: extensions.get::<Source>().and_then(Source::text),
    }
}
