//! Passwords: rules, hashing (argon2id) off the async threads, checking without telling whether an account exists.

use std::sync::Arc;

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use tokio::sync::Semaphore;

use crate::{
    Secret,
    error::{Error, Result},
};

/// Least characters of a password.
pub const PASSWORD_MIN_CHARS: usize = 10;
/// Most characters of a password.
pub const PASSWORD_MAX_CHARS: usize = 256;

/// Hashes and checks passwords, a few at a time.
pub(crate) struct Passwords {
    /// Each hash takes memory: more at once wait for their turn.
    turns: Arc<Semaphore>,
    params: Params,
}

/// What is wrong with a new password, as a sentence; the same rules for everybody, at the first start too.
pub(crate) fn problem(password: &Secret, email: &str) -> Option<String> {
    let text = password.expose();
    let count = text.chars().count();
    if count < PASSWORD_MIN_CHARS {
        return Some(format!("Use at least {PASSWORD_MIN_CHARS} characters."));
    }
    if count > PASSWORD_MAX_CHARS {
        return Some(format!("Use at most {PASSWORD_MAX_CHARS} characters."));
    }
    if text.trim().is_empty() {
        return Some("Use more than spaces.".to_owned());
    }
    if text.to_lowercase() == email {
        return Some("Use something else than the e-mail address.".to_owned());
    }
    let first = text.chars().next();
    if text.chars().all(|c| Some(c) == first) {
        return Some("Use more than one repeated character.".to_owned());
    }
    None
}

impl Passwords {
    /// `cost`: memory in KiB and passes.
    pub(crate) fn new(at_once: usize, cost: (u32, u32)) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once.max(1))),
            // Settings that argon2 refuses fall back to its own defaults, which are the product's.
            params: Params::new(cost.0, cost.1, 1, None).unwrap_or_default(),
        }
    }

    fn argon2(&self) -> Argon2<'static> {
        Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone())
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(Error::internal)?;
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        })
        .await
        .map_err(Error::internal)
    }

    /// The PHC string of a password.
    pub(crate) async fn hash(&self, password: &Secret) -> Result<String> {
        let (argon2, password) = (self.argon2(), password.clone());
        self.off_thread(move || {
            argon2
                .hash_password(password.expose().as_bytes())
                .map(|hash| hash.to_string())
        })
        .await?
        .map_err(|error| Error::internal(error.to_string()))
    }

    /// Whether a password is the hash's. Without a hash the same work is done for nothing, so that the answer takes as
    /// long for an unknown account.
    pub(crate) async fn verify(&self, password: &Secret, hash: Option<String>) -> Result<bool> {
        let (argon2, password) = (self.argon2(), password.clone());
        self.off_thread(move || {
            let Some(hash) = hash else {
                let _ = argon2.hash_password(password.expose().as_bytes());
                return Ok(false);
            };
            let hash = PasswordHash::new(&hash)
                .map_err(|error| Error::internal(format!("a stored password hash: {error}")))?;
            Ok(argon2
                .verify_password(password.expose().as_bytes(), &hash)
                .is_ok())
        })
        .await?
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn rules_for_new_passwords() {
        for (password, fine) in [
            ("correct horse", true),
            ("0123456789", true),
            ("пароль-пароль", true),
            ("short", false),
            ("          ", false),
            ("aaaaaaaaaaaa", false),
            ("A@Example.com", false),
            (&"x1".repeat(128), true),
            (&"x1".repeat(129), false),
        ] {
            assert_eq!(
                problem(&Secret::new(password), "a@example.com").is_none(),
                fine,
                "{password}"
            );
        }
    }

    #[tokio::test]
    async fn a_password_verifies_against_its_own_hash_only() {
        let passwords = Passwords::new(2, (64, 1));
        let hash = passwords.hash(&Secret::new("correct horse")).await.unwrap();
        assert!(hash.starts_with("$argon2id$"));
        let check = async |text: &str, hash: Option<String>| {
            passwords.verify(&Secret::new(text), hash).await.unwrap()
        };
        assert!(check("correct horse", Some(hash.clone())).await);
        assert!(!check("wrong horse", Some(hash)).await);
        assert!(!check("correct horse", None).await);
    }
}
