//! Reading untrusted JSON objects field by field: every wrong type and unknown field becomes an issue with its exact
//! path, and reading goes on, so that a caller learns of everything at once.

use serde_json::{Map, Number, Value};

use crate::{issues::Issues, limits};

/// The path of a member of `parent` (empty: the top of the body).
pub(crate) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

/// What a JSON value is, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn wrong_type(path: &str, wanted: &str, value: &Value, issues: &mut Issues) {
    issues.add(path, format!("Must be {wanted}, not {}.", kind(value)));
}

/// An object being read.
pub(crate) struct Object<'a> {
    /// Its members.
    pub(crate) map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// `value` as an object whose members are exactly some of `known`; other members become issues.
    pub(crate) fn open(
        value: &'a Value,
        path: &str,
        known: &[&str],
        issues: &mut Issues,
    ) -> Option<Self> {
        let object = Self::open_any(value, path, issues)?;
        for key in object.map.keys() {
            if !known.contains(&key.as_str()) {
                issues.add(
                    join(path, key),
                    format!(
                        "Unknown field: leave it out. Known here: {}.",
                        known.join(", ")
                    ),
                );
            }
        }
        Some(object)
    }

    /// `value` as an object with any members.
    pub(crate) fn open_any(value: &'a Value, path: &str, issues: &mut Issues) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self {
                map,
                path: path.to_owned(),
            }),
            other => {
                let shown = if path.is_empty() { "body" } else { path };
                wrong_type(shown, "an object", other, issues);
                None
            }
        }
    }

    /// The full path of a member.
    pub(crate) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// A member, whatever it is.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    /// A string member; `None` where absent or wrong.
    pub(crate) fn string(&self, key: &str, issues: &mut Issues) -> Option<&'a str> {
        match self.get(key)? {
            Value::String(text) => Some(text),
            other => {
                wrong_type(&self.path_of(key), "a string", other, issues);
                None
            }
        }
    }

    /// A boolean member; `None` where absent or wrong.
    pub(crate) fn boolean(&self, key: &str, issues: &mut Issues) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(value) => Some(*value),
            other => {
                wrong_type(&self.path_of(key), "true or false", other, issues);
                None
            }
        }
    }

    /// An integer member; `None` where absent or wrong.
    pub(crate) fn integer(&self, key: &str, issues: &mut Issues) -> Option<i64> {
        let value = self.get(key)?;
        match value {
            Value::Number(number) => match safe_integer(number) {
                Some(integer) => Some(integer),
                None => {
                    issues.add(
                        self.path_of(key),
                        format!("Must be a whole number, not {number}."),
                    );
                    None
                }
            },
            other => {
                wrong_type(&self.path_of(key), "a whole number", other, issues);
                None
            }
        }
    }

    /// An integer member that is 0 (the default) or within `least..=most`; `unit` follows the numbers in the message.
    pub(crate) fn zero_or_range(
        &self,
        key: &str,
        (least, most): (u32, u32),
        unit: &str,
        issues: &mut Issues,
    ) -> Option<u32> {
        let value = self.integer(key, issues)?;
        match u32::try_from(value) {
            Ok(value) if value == 0 || (least..=most).contains(&value) => Some(value),
            _ => {
                issues.add(
                    self.path_of(key),
                    format!("Must be 0 (the default) or {least} to {most}{unit}, not {value}."),
                );
                None
            }
        }
    }

    /// A list member; `None` where absent or wrong.
    pub(crate) fn list(&self, key: &str, issues: &mut Issues) -> Option<&'a Vec<Value>> {
        match self.get(key)? {
            Value::Array(items) => Some(items),
            other => {
                wrong_type(&self.path_of(key), "a list", other, issues);
                None
            }
        }
    }

    /// Adds an issue for a required member that is absent.
    pub(crate) fn require(&self, key: &str, issues: &mut Issues) {
        if self.get(key).is_none() {
            issues.add(self.path_of(key), "Required.");
        }
    }
}

/// The number as an integer that every JSON reader keeps exactly; `1.0` is one, as in JSON Schema.
fn safe_integer(number: &Number) -> Option<i64> {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "whole and within 2^53, so the cast is exact"
    )]
    let integer = number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })?;
    (-limits::SAFE_INTEGER_MAX..=limits::SAFE_INTEGER_MAX)
        .contains(&integer)
        .then_some(integer)
}

/// Adds an issue for every integer below `value` that a JSON reader would not keep exactly.
pub(crate) fn check_safe_integers(value: &Value, path: &str, issues: &mut Issues) {
    match value {
        Value::Number(number) => {
            let whole = number.is_i64()
                || number.is_u64()
                || number.as_f64().is_some_and(|float| float.fract() == 0.0);
            if whole && safe_integer(number).is_none() {
                issues.add(
                    path,
                    format!(
                        "Whole numbers must lie within \u{b1}{}: send larger ones as strings.",
                        limits::SAFE_INTEGER_MAX
                    ),
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_safe_integers(item, &format!("{path}[{index}]"), issues);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                check_safe_integers(item, &join(path, key), issues);
            }
        }
        _ => {}
    }
}
