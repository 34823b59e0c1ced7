//! Points in time. The wire form is RFC 3339 in UTC ending in `Z` (spec 1-domain, *Words*).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }
    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }
    /// This moment plus a number of seconds (negative: before), saturating.
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }
    /// Milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    pub fn millis_since(self, earlier: Self) -> i64 {
        (self.0.saturating_sub(earlier.0) / 1_000).max(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .ok()
            .and_then(|t| t.format(&Rfc3339).ok());
        // Outside the years 0 to 9999 nothing meaningful can be shown; the clamp keeps the form valid.
        f.write_str(text.as_deref().unwrap_or("9999-12-31T23:59:59Z"))
    }
}
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl schemars::JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}

/// The text is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time")]
pub struct BadTimestamp;

impl FromStr for Timestamp {
    type Err = BadTimestamp;
    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| BadTimestamp)?;
        i64::try_from(parsed.unix_timestamp_nanos() / 1_000)
            .map(Self)
            .map_err(|_| BadTimestamp)
    }
}
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_rfc_3339_in_utc() {
        let t = Timestamp::from_micros(1_789_646_651_000_000);
        assert_eq!(t.to_string(), "2026-09-17T12:04:11Z");
        assert_eq!("2026-09-17T14:04:11+02:00".parse::<Timestamp>(), Ok(t));
        assert_eq!(
            Timestamp::from_micros(1_789_646_651_250_000).to_string(),
            "2026-09-17T12:04:11.25Z"
        );
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
