//! Keyed requests: claim, effect and receipt in one transaction, replay (spec 2-api, *Idempotency-Key*).

use std::future::Future;

use domain::{ids::OrganizationId, limits};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use tracing::Instrument as _;

use crate::{
    Control,
    error::{Error, Result},
    ports::{Receipt, ReceiptClaim, RequestKey},
};

/// A request that carries an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    key: String,
    request_hash: String,
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
                "Must be 1 to 256 visible ASCII characters.",
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

/// Makes the receipt that an effect is written with; none for a request without a key.
#[derive(Clone)]
pub(crate) struct ReceiptMaker {
    key: Option<RequestKey>,
    status: u16,
}

impl ReceiptMaker {
    /// For a call that is not keyed.
    pub(crate) const fn none() -> Self {
        Self {
            key: None,
            status: 200,
        }
    }
    /// The receipt of this answer.
    pub(crate) fn receipt<T: Serialize>(
        &self,
        control: &Control,
        answer: &T,
    ) -> Result<Option<Receipt>> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        Ok(Some(Receipt {
            key: key.clone(),
            status: self.status,
            body: body_of(answer)?,
            at: control.0.clock.now(),
        }))
    }
}

fn body_of<T: Serialize>(answer: &T) -> Result<String> {
    serde_json::to_string(answer).map_err(Error::internal)
}

impl Control {
    /// Runs `effect` at most once for each key. The effect writes the receipt that the maker gives it in its own
    /// transaction, so that a crash at any moment neither loses a receipt nor doubles an effect. A failed effect lets go
    /// of the key.
    ///
    /// A keyed request runs to its end even when its caller hangs up: otherwise the claim would stand in the way of the
    /// caller's next try until it can be taken over.
    pub(crate) async fn keyed<T, F, Fut>(
        &self,
        organization_id: OrganizationId,
        key: Option<Keyed>,
        status: u16,
        effect: F,
    ) -> Result<Outcome<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(ReceiptMaker) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let Some(key) = key else {
            let value = effect(ReceiptMaker::none()).await?;
            return Ok(Outcome {
                body: body_of(&value)?,
                value,
                status,
                replayed: false,
            });
        };
        let key = RequestKey {
            organization_id,
            key: key.key,
            request_hash: key.request_hash,
        };
        let control = self.clone();
        tokio::spawn(
            async move { control.claimed(key, status, effect).await }
                .instrument(tracing::Span::current()),
        )
        .await
        .map_err(Error::internal)?
    }

    async fn claimed<T, F, Fut>(
        &self,
        key: RequestKey,
        status: u16,
        effect: F,
    ) -> Result<Outcome<T>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(ReceiptMaker) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let trusted = self.trusted_now().await?;
        let claim = self
            .0
            .store
            .claim_receipt(
                &key,
                self.0.clock.now(),
                trusted.plus_seconds(-limits::RECEIPT_SECONDS),
                trusted.plus_seconds(-limits::RECEIPT_CLAIM_SECONDS),
            )
            .await?;
        match claim {
            ReceiptClaim::Claimed => {}
            ReceiptClaim::Conflict => return Err(Error::idempotency_conflict()),
            ReceiptClaim::InProgress => return Err(Error::idempotency_in_progress()),
            ReceiptClaim::Replay { status, body } => {
                return Ok(Outcome {
                    value: serde_json::from_str(&body).map_err(Error::internal)?,
                    status,
                    body,
                    replayed: true,
                });
            }
        }
        let maker = ReceiptMaker {
            key: Some(key.clone()),
            status,
        };
        match effect(maker).await {
            Ok(value) => Ok(Outcome {
                body: body_of(&value)?,
                value,
                status,
                replayed: false,
            }),
            Err(error) => {
                // Best effort: a claim that stays can be taken over after an hour.
                if let Err(cause) = self.0.store.release_receipt(&key).await {
                    tracing::warn!(error = %cause, "an idempotency claim could not be released");
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_key_is_1_to_256_visible_ascii_characters() {
        for (key, fine) in [
            ("a", true),
            ("~!", true),
            (&"k".repeat(256), true),
            ("", false),
            (&"k".repeat(257), false),
            ("with space", false),
            ("tab\t", false),
            ("é", false),
        ] {
            assert_eq!(
                Keyed::new(key, "POST", "/x", "", b"").is_ok(),
                fine,
                "{key:?}"
            );
        }
    }

    #[test]
    fn method_path_query_and_body_each_make_another_request() {
        let of = |method, path, query, body| Keyed::new("k", method, path, query, body).unwrap();
        let first = of("POST", "/a", "x=1", b"{}");
        assert_eq!(first, of("POST", "/a", "x=1", b"{}"));
        for other in [
            of("PATCH", "/a", "x=1", b"{}"),
            of("POST", "/b", "x=1", b"{}"),
            of("POST", "/a", "x=2", b"{}"),
            of("POST", "/a", "x=1", b"{ }"),
            of("POST", "/ax", "=1", b"{}"),
        ] {
            assert_ne!(first, other);
        }
    }
}
