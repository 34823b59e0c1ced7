//! How secret variables lie in the database: sealed with XChaCha20-Poly1305 under a key that is not in it.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use domain::ids::{EnvironmentId, OrganizationId};
use hmac::{Hmac, Mac as _};
use rand::TryRngCore as _;
use sha2::Sha256;

use crate::{
    error::{Error, Result},
    secret::{Secret, ServerKey},
};

/// Bytes of a nonce: long enough to be random.
const NONCE_BYTES: usize = 24;

/// The key that secret variables are sealed with. Has no text form.
#[derive(Clone)]
pub struct SecretsKey([u8; 32]);

/// Which secret: sealed text that is moved to another place does not open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) organization: OrganizationId,
    pub(crate) environment: EnvironmentId,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    fn bytes(&self) -> Vec<u8> {
        format!("{}/{}/{}", self.organization, self.environment, self.name).into_bytes()
    }
}

impl SecretsKey {
    /// From 32 random bytes that the server keeps.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Of a deployment that has no key of its own for secrets, such as a test's.
    pub(crate) fn derived(key: &ServerKey) -> Self {
        Self(key.derive(b"secret variables"))
    }

    /// Names the key without telling anything of it: kept in the database, so that another key is noticed at start.
    pub(crate) fn id(&self) -> Result<String> {
        self.mac(&[b"key id"])
    }

    /// What stands for the value in the fingerprint: whoever has the database alone can't check guesses with it.
    pub(crate) fn hash(&self, place: Place<'_>, value: &Secret) -> Result<String> {
        self.mac(&[b"value", &place.bytes(), value.expose().as_bytes()])
    }

    fn mac(&self, parts: &[&[u8]]) -> Result<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(Error::internal)?;
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        Ok(hex::encode(mac.finalize().into_bytes()))
    }

    /// Nonce and ciphertext, base64.
    pub(crate) fn seal(&self, place: Place<'_>, value: &Secret) -> Result<String> {
        let mut nonce = [0_u8; NONCE_BYTES];
        rand::rngs::OsRng
            .try_fill_bytes(&mut nonce)
            .map_err(Error::internal)?;
        let payload = Payload {
            msg: value.expose().as_bytes(),
            aad: &place.bytes(),
        };
        let sealed = XChaCha20Poly1305::new(&self.0.into())
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| Error::internal("a secret could not be sealed"))?;
        Ok(STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// The value that was sealed for this very place under this very key.
    pub(crate) fn open(&self, place: Place<'_>, sealed: &str) -> Result<Secret> {
        let broken = || {
            Error::internal(format!(
                "the secret {} of {} does not open with this key",
                place.name, place.environment
            ))
        };
        let bytes = STANDARD_NO_PAD.decode(sealed).map_err(|_| broken())?;
        let (nonce, sealed) = bytes
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(broken)?;
        let payload = Payload {
            msg: sealed,
            aad: &place.bytes(),
        };
        let value = XChaCha20Poly1305::new(&self.0.into())
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| broken())?;
        String::from_utf8(value)
            .map(Secret::new)
            .map_err(|_| broken())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uuid::Uuid;

    use super::*;

    fn place(environment: u128, name: &str) -> Place<'_> {
        Place {
            organization: OrganizationId::from_uuid(Uuid::from_u128(1)),
            environment: EnvironmentId::from_uuid(Uuid::from_u128(environment)),
            name,
        }
    }

    #[test]
    fn a_sealed_value_opens_in_its_place_alone() {
        let key = SecretsKey::new([1; 32]);
        let value = Secret::new("hush-hush");
        let sealed = key.seal(place(1, "A"), &value).unwrap();
        assert_eq!(
            key.open(place(1, "A"), &sealed).unwrap().expose(),
            "hush-hush"
        );
        assert_ne!(
            sealed,
            key.seal(place(1, "A"), &value).unwrap(),
            "a nonce each"
        );
        let other_first = if sealed.starts_with('x') { "y" } else { "x" };
        for (key, place, text) in [
            (SecretsKey::new([2; 32]), place(1, "A"), sealed.clone()),
            (key.clone(), place(2, "A"), sealed.clone()),
            (key.clone(), place(1, "B"), sealed.clone()),
            (
                key.clone(),
                place(1, "A"),
                sealed.replacen(|_| true, other_first, 1),
            ),
            (key.clone(), place(1, "A"), sealed[..20].to_owned()),
            (key.clone(), place(1, "A"), "?".to_owned()),
        ] {
            let error = key.open(place, &text).err().unwrap();
            assert!(!format!("{error:?}").contains("hush"));
        }
    }

    #[test]
    fn the_same_value_hashes_alike_in_its_place_alone() {
        let key = SecretsKey::new([1; 32]);
        let value = Secret::new("hush-hush");
        let hash = key.hash(place(1, "A"), &value).unwrap();
        assert_eq!(hash, key.hash(place(1, "A"), &value).unwrap());
        for other in [
            key.hash(place(1, "B"), &value),
            key.hash(place(2, "A"), &value),
            key.hash(place(1, "A"), &Secret::new("other-one")),
            SecretsKey::new([2; 32]).hash(place(1, "A"), &value),
            key.id(),
        ] {
            assert_ne!(hash, other.unwrap());
        }
    }
}
