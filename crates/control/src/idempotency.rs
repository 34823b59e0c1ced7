//! Keyed requests: claim, effect and receipt in one transaction, replay (spec 2-api, *Idempotency-Key*).

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A request that carries an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    pub(crate) key: String,
    pub(crate) request_hash: String,
}

impl Keyed {
    /// From the header and what identifies the request: method, path, raw query and raw body.
    ///
    /// # Errors
    /// `400 invalid_request` for a key that is not 1 to 256 visible ASCII characters.
    pub fn new(key: &str, method: &str, path: &str, raw_query: &str, body: &[u8]) -> Result<Self> {
        if key.is_empty() || key.len() > 256 || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid_field(
                "Idempotency-Key",
                "The key must be 1 to 256 visible ASCII characters.",
            ));
        }
        let mut hash = Sha256::new();
        // Each part with its length, so that no two requests run together into the same text.
        for part in [
            method.as_bytes(),
            path.as_bytes(),
            raw_query.as_bytes(),
            body,
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Ok(Self {
            key: key.to_owned(),
            request_hash: hex::encode(hash.finalize()),
        })
    }
}

/// The answer of a use case that can be keyed.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<T> {
    /// The answer.
    pub value: T,
    /// HTTP status.
    pub status: u16,
    /// The answer's body, byte for byte as first sent.
    pub body: String,
    /// Whether it is the answer of an earlier request with the same key (`Idempotency-Replayed: true`).
    pub replayed: bool,
}
