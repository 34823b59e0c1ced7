//! Text that must not be shown: without `Debug`, `Display` or `Serialize` (architecture, invariant 7).

use sha2::{Digest, Sha256};

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
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
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
