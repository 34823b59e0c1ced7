//! Secret variables: name and value, never readable again (spec 1-domain, *Secret variables*). The rules, and the type in
//! which values travel to a sandbox.

use std::{collections::BTreeMap, fmt};

use crate::{env_vars::name_problem, limits};

/// Values of secret variables by name, on their way into a sandbox. Has no text form: `Debug` shows names alone, and nothing
/// serialises it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretVars(BTreeMap<String, String>);

impl SecretVars {
    /// Takes values in.
    pub const fn new(values: BTreeMap<String, String>) -> Self {
        Self(values)
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Names and values, for the sandbox's processes and for masking, and for nothing else.
    pub fn expose(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl fmt::Debug for SecretVars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What is wrong with a secret's name; `None`: it may be set.
pub fn bad_name(name: &str) -> Option<String> {
    if name.len() > limits::SECRET_NAME_MAX_BYTES {
        return Some(format!(
            "A name has at most {} characters.",
            limits::SECRET_NAME_MAX_BYTES
        ));
    }
    name_problem(name)
}

/// What is wrong with a secret's value; `None`: it may be set. Never repeats any of it.
pub fn bad_value(value: &str) -> Option<String> {
    if value.contains('\0') {
        return Some("The value holds a NUL character: no program can receive it.".to_owned());
    }
    if value.len() > limits::ENV_VAR_VALUE_MAX_BYTES {
        return Some(format!(
            "The value has {} bytes; at most {} are allowed.",
            value.len(),
            limits::ENV_VAR_VALUE_MAX_BYTES
        ));
    }
    if value.trim().chars().count() < limits::SECRET_MIN_CHARS {
        return Some(format!(
            "A secret has at least {} characters, since a shorter one cannot be masked in logs. If it need not be masked, make it an environment variable.",
            limits::SECRET_MIN_CHARS
        ));
    }
    None
}

/// Words of a name that speak of something to be kept secret.
const SECRET_WORDS: [&str; 15] = [
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "DSN",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PRIVATE",
    "PWD",
    "SECRET",
    "TOKEN",
];
/// Last words of a name that speak of something about a secret, and not of the secret: `AWS_ACCESS_KEY_ID`, `TOKEN_TTL`.
const ABOUT_WORDS: [&str; 16] = [
    "ALGORITHM",
    "COUNT",
    "DIR",
    "ENABLED",
    "FILE",
    "HOST",
    "ID",
    "LENGTH",
    "LIMIT",
    "NAME",
    "PATH",
    "PORT",
    "SIZE",
    "TIMEOUT",
    "TTL",
    "TYPE",
];

/// A guess, from name and value, whether a variable is meant to be secret: what a pasted `.env` file starts with, before
/// somebody says so line by line. What could not be set as a secret (see [`bad_value`]) is none.
pub fn looks_secret(name: &str, value: &str) -> bool {
    if bad_value(value).is_some() {
        return false;
    }
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let is_secret_word = |word: &&str| {
        SECRET_WORDS.contains(word)
            // Written in one: GITHUBTOKEN, DBPASSWORD, APIKEY.
            || ["TOKEN", "PASSWORD", "SECRET", "APIKEY"].iter().any(|end| word.ends_with(end))
    };
    let last = words.last().copied().unwrap_or_default();
    let named = words.iter().any(is_secret_word)
        && !words.contains(&"PUBLIC")
        && !ABOUT_WORDS.contains(&last);
    named || has_credentials(value) || value.trim_start().starts_with("-----BEGIN ")
}

/// Whether an address names a user with a password: `postgres://app:hush@db/app`.
fn has_credentials(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty())
}

/// The refusal of a name that is taken by a variable of the other kind.
pub fn clash(name: &str) -> String {
    format!(
        "{name} is both an environment variable and a secret variable, and only one of them could count: remove one, or choose another name."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_variables() {
        for (name, ok) in [
            ("TOKEN", true),
            ("_x9", true),
            ("PATH", false),
            ("LD_PRELOAD", false),
            ("GROUNDWORK_X", false),
            ("9X", false),
            ("A-B", false),
            ("", false),
        ] {
            assert_eq!(bad_name(name).is_none(), ok, "{name}");
        }
        assert!(bad_name(&"A".repeat(limits::SECRET_NAME_MAX_BYTES + 1)).is_some());
    }

    #[test]
    fn values_can_be_masked_and_passed_to_programs() {
        let long = "x".repeat(limits::ENV_VAR_VALUE_MAX_BYTES);
        for (value, ok) in [
            ("12345678", true),
            ("1234567", false),
            ("  1234567  ", false),
            ("        ", false),
            ("ünïcödé!", true),
            ("a\0bcdefgh", false),
            (long.as_str(), true),
            (&format!("{long}x"), false),
        ] {
            let problem = bad_value(value);
            assert_eq!(problem.is_none(), ok, "{value:.20}");
            assert!(!problem.unwrap_or_default().contains("1234567"));
        }
    }

    #[test]
    fn names_and_values_tell_what_is_probably_secret() {
        let long = "a-long-enough-value";
        for (name, value, secret) in [
            ("API_TOKEN", long, true),
            ("api_token", long, true),
            ("GITHUBTOKEN", long, true),
            ("AWS_SECRET_ACCESS_KEY", long, true),
            ("DB_PASSWORD", long, true),
            ("OPENAI_APIKEY", long, true),
            ("NPM_AUTH", long, true),
            ("CLIENT_SECRET", long, true),
            ("SENTRY_DSN", long, true),
            ("TLS", "-----BEGIN PRIVATE KEY-----\nx", true),
            (
                "DATABASE_URL",
                "postgres://app:hush-hush@db.example/app",
                true,
            ),
            // About one, or public, or a word that only holds one.
            ("AWS_ACCESS_KEY_ID", long, false),
            ("TOKEN_TTL", "3600000000", false),
            ("SECRET_FILE", "/run/secrets/x", false),
            ("STRIPE_PUBLIC_KEY", long, false),
            ("KEYBOARD_LAYOUT", "us-international", false),
            ("PASSENGER_COUNT", "1200000000", false),
            ("DATABASE_URL", "postgres://db.example/app", false),
            ("DATABASE_URL", "postgres://app@db.example/app", false),
            ("HOMEPAGE", "https://example.com/a:b@c", false),
            ("LOG_LEVEL", "debugging", false),
            // Too short to be masked: it cannot be one.
            ("PASSWORD", "dev", false),
        ] {
            assert_eq!(looks_secret(name, value), secret, "{name}={value}");
        }
    }

    #[test]
    fn values_are_not_in_the_debug_text() {
        let secrets = SecretVars::new(BTreeMap::from([("A".to_owned(), "hush-hush".to_owned())]));
        assert_eq!(format!("{secrets:?}"), "{\"A\"}");
    }
}
