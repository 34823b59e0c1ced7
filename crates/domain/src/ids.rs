//! Identifiers, each its own type (spec 1-domain, *Words*).
//!
//! Environments, setup runs and sessions read as UUIDs; organizations, users and the rest carry a prefix
//! followed by the 32 hex digits of a UUIDv7.

use std::{fmt, hash::Hash, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// What an [`Id`] identifies; decides its text form.
pub trait Kind: 'static {
    /// Text put before the hex digits; empty for ids that read as plain UUIDs.
    const PREFIX: &'static str;
    /// The word for the thing in messages.
    const NAME: &'static str;
}

/// An identifier of a `K`.
pub struct Id<K>(Uuid, PhantomData<fn() -> K>);

impl<K> Id<K> {
    /// Wraps a raw UUID; the source of ids is the `Ids` port of the application layer.
    pub const fn from_uuid(value: Uuid) -> Self {
        Self(value, PhantomData)
    }
    /// The raw UUID.
    pub const fn uuid(&self) -> Uuid {
        self.0
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if K::PREFIX.is_empty() {
            write!(f, "{}", self.0.hyphenated())
        } else {
            write!(f, "{}{}", K::PREFIX, self.0.simple())
        }
    }
}
impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", K::NAME)
    }
}

/// The text is not an id of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the id of {0}")]
pub struct BadId(pub &'static str);

impl<K: Kind> FromStr for Id<K> {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let rest = text.strip_prefix(K::PREFIX).ok_or(BadId(K::NAME))?;
        let expected_len = if K::PREFIX.is_empty() { 36 } else { 32 };
        if rest.len() != expected_len {
            return Err(BadId(K::NAME));
        }
        Uuid::try_parse(rest)
            .map(Self::from_uuid)
            .map_err(|_| BadId(K::NAME))
    }
}
impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<K: Kind> schemars::JsonSchema for Id<K> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        K::NAME.into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        if K::PREFIX.is_empty() {
            schemars::json_schema!({"type": "string", "format": "uuid"})
        } else {
            let pattern = format!("^{}[0-9a-f]{{32}}$", K::PREFIX);
            schemars::json_schema!({"type": "string", "pattern": pattern})
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $alias:ident, $prefix:literal, $name:literal;)*) => {$(
        $(#[$doc])*
        pub enum $kind {}
        impl Kind for $kind {
            const PREFIX: &'static str = $prefix;
            const NAME: &'static str = $name;
        }
        $(#[$doc])*
        pub type $alias = Id<$kind>;
    )*};
}

kinds! {
    /// An environment.
    EnvironmentKind, EnvironmentId, "", "an environment";
    /// A setup run.
    SetupRunKind, SetupRunId, "", "a setup run";
    /// A session (sandbox started from an environment).
    SessionKind, SessionId, "", "a session";
    /// An organization.
    OrganizationKind, OrganizationId, "org_", "an organization";
    /// A member of an organization.
    UserKind, UserId, "usr_", "a user";
    /// An API key (not its secret).
    ApiKeyKind, ApiKeyId, "key_", "an API key";
    /// An invitation (not its token).
    InvitationKind, InvitationId, "inv_", "an invitation";
    /// A worker process.
    WorkerKind, WorkerId, "wrk_", "a worker";
    /// An audit event.
    AuditKind, AuditId, "aud_", "an audit event";
    /// A captured setup image.
    ImageKind, ImageId, "img_", "an image";
    /// One sandbox.
    SandboxKind, SandboxId, "", "a sandbox";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_are_those_of_the_spec() {
        let raw = Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0001);
        assert_eq!(
            EnvironmentId::from_uuid(raw).to_string(),
            "019a0000-0000-7000-8000-000000000001"
        );
        assert_eq!(
            OrganizationId::from_uuid(raw).to_string(),
            "org_019a0000000070008000000000000001"
        );
        assert_eq!(
            UserId::from_uuid(raw).to_string(),
            "usr_019a0000000070008000000000000001"
        );
        assert_eq!(
            "usr_019a0000000070008000000000000001".parse::<UserId>(),
            Ok(UserId::from_uuid(raw))
        );
    }

    #[test]
    fn an_id_of_another_kind_or_form_is_refused() {
        assert!(
            "org_019a0000000070008000000000000001"
                .parse::<UserId>()
                .is_err()
        );
        assert!(
            "019a0000000070008000000000000001"
                .parse::<EnvironmentId>()
                .is_err()
        );
        assert!(
            "usr_019a0000-0000-7000-8000-000000000001"
                .parse::<UserId>()
                .is_err()
        );
        assert!("".parse::<EnvironmentId>().is_err());
    }
}
