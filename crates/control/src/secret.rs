//! Text that must not be shown: without `Debug`, `Display` or `Serialize` (architecture, invariant 7); and the chance
//! that such texts are made of.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::TryRngCore as _;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// A password, a token, an API key's secret.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
    /// SHA-256 in hex: how random tokens are stored.
    pub fn sha256_hex(&self) -> String {
        hex::encode(Sha256::digest(self.0.as_bytes()))
    }
    /// 256 random bits as 43 base64url characters after a prefix.
    pub(crate) fn random(prefix: &str) -> Result<Self> {
        let mut bytes = [0u8; 32];
        rand::rngs::OsRng
            .try_fill_bytes(&mut bytes)
            .map_err(Error::internal)?;
        Ok(Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// The key that API-key secrets are hashed with.
#[derive(Clone)]
pub struct ServerKey([u8; 32]);

impl ServerKey {
    /// From 32 random bytes that the server keeps.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
    /// Another key that follows from this one, for one purpose.
    pub(crate) fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"groundwork derived key");
        hash.update(self.0);
        hash.update(purpose);
        hash.finalize().into()
    }
    /// HMAC-SHA256 in hex: whoever reads the database alone can neither use nor check guesses of a secret.
    pub(crate) fn keyed_hash(&self, secret: &Secret) -> Result<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(Error::internal)?;
        mac.update(secret.0.as_bytes());
        Ok(hex::encode(mac.finalize().into_bytes()))
    }
}

/// Equality that takes the same time wherever two texts differ.
pub(crate) fn same(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left
            .bytes()
            .zip(right.bytes())
            .fold(0u8, |differs, (a, b)| differs | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn random_secrets_have_256_bits_and_differ() {
        let (one, two) = (
            Secret::random("rma_").unwrap(),
            Secret::random("rma_").unwrap(),
        );
        assert_eq!(one.expose().len(), "rma_".len() + 43);
        assert_ne!(one.expose(), two.expose());
    }

    #[test]
    fn keyed_hashes_depend_on_secret_and_key() {
        let (a, b) = (ServerKey::new([1; 32]), ServerKey::new([2; 32]));
        let secret = Secret::new("rma_x");
        assert_eq!(
            a.keyed_hash(&secret).unwrap(),
            a.keyed_hash(&secret).unwrap()
        );
        assert_ne!(
            a.keyed_hash(&secret).unwrap(),
            b.keyed_hash(&secret).unwrap()
        );
        assert_ne!(
            a.keyed_hash(&secret).unwrap(),
            a.keyed_hash(&Secret::new("rma_y")).unwrap()
        );
    }

    #[test]
    fn equality_of_secrets_is_equality() {
        assert!(same("abc", "abc"));
        assert!(!same("abc", "abd"));
        assert!(!same("abc", "ab"));
    }
}
