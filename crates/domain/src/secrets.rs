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
    fn values_are_not_in_the_debug_text() {
        let secrets = SecretVars::new(BTreeMap::from([("A".to_owned(), "hush-hush".to_owned())]));
        assert_eq!(format!("{secrets:?}"), "{\"A\"}");
    }
}
