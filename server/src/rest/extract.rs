//! What handlers read requests with. Each says in the API's own words what is wrong.

use std::{fmt::Display, str::FromStr};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Request},
};
use control::{Keyed, OpCtx};
use domain::{
    ids::{ApiKeyId, EnvironmentId, InvitationId, SessionId, SetupRunId, UserId},
    limits::SAFE_INTEGER_MAX,
    timestamp::Timestamp,
};
use http::{HeaderMap, header, request::Parts};
use serde::Deserialize;
use serde_json::Value;
use wire::error::Code;

use crate::http::{AppState, limits::too_large, problem::Problem};

/// Who asks.
pub struct Ctx(pub OpCtx);

impl FromRequestParts<AppState> for Ctx {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        // Taken, not copied: a handler asks once, and nothing behind it does.
        parts
            .extensions
            .remove::<OpCtx>()
            .map(Self)
            .ok_or_else(|| crate::http::problem::internal("no caller was authenticated"))
    }
}

/// The path's parameters, each as text.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Segments {
    environment_id: String,
    setup_run_id: String,
    api_key_id: String,
    session_id: String,
    user_id: String,
    invitation_id: String,
    revision: String,
    name: String,
}

async fn segments(parts: &mut Parts, state: &AppState) -> Result<Segments, Problem> {
    Path::<Segments>::from_request_parts(parts, state)
        .await
        .map(|Path(segments)| segments)
        // Only bytes that are no UTF-8 end here.
        .map_err(|_| Problem::new(Code::NotFound, "There is no such path. Check it."))
}

fn parse<T: FromStr>(field: &str, text: &str) -> Result<T, Problem>
where
    T::Err: Display,
{
    text.parse::<T>()
        .map_err(|error| Problem::invalid(field, format!("{field}: this is {error}. Check it.")))
}

/// `…/{environment_id}/…`
pub struct OfEnvironment(pub EnvironmentId);

impl FromRequestParts<AppState> for OfEnvironment {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        parse("environment_id", &segments.environment_id).map(Self)
    }
}

/// `…/{environment_id}/…/{setup_run_id}/…`
pub struct OfRun(pub EnvironmentId, pub SetupRunId);

impl FromRequestParts<AppState> for OfRun {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        Ok(Self(
            parse("environment_id", &segments.environment_id)?,
            parse("setup_run_id", &segments.setup_run_id)?,
        ))
    }
}

/// `…/{environment_id}/history/{revision}/…`
pub struct OfRevision(pub EnvironmentId, pub i64);

impl FromRequestParts<AppState> for OfRevision {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        let revision = segments
            .revision
            .parse::<i64>()
            .ok()
            .filter(|n| (1..=SAFE_INTEGER_MAX).contains(n))
            .ok_or_else(|| Problem::invalid("revision", "revision: use a number from 1."))?;
        Ok(Self(
            parse("environment_id", &segments.environment_id)?,
            revision,
        ))
    }
}

/// `…/{environment_id}/secrets/{name}`
pub struct OfSecret(pub EnvironmentId, pub String);

impl FromRequestParts<AppState> for OfSecret {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        Ok(Self(
            parse("environment_id", &segments.environment_id)?,
            segments.name,
        ))
    }
}

/// `…/{session_id}/…`
pub struct OfSession(pub SessionId);

impl FromRequestParts<AppState> for OfSession {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        parse("session_id", &segments.session_id).map(Self)
    }
}

/// `…/{api_key_id}`
pub struct OfApiKey(pub ApiKeyId);

impl FromRequestParts<AppState> for OfApiKey {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        parse("api_key_id", &segments.api_key_id).map(Self)
    }
}

/// `…/{user_id}`
pub struct OfMember(pub UserId);

impl FromRequestParts<AppState> for OfMember {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        parse("user_id", &segments.user_id).map(Self)
    }
}

/// `…/{invitation_id}`
pub struct OfInvitation(pub InvitationId);

impl FromRequestParts<AppState> for OfInvitation {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        parse("invitation_id", &segments.invitation_id).map(Self)
    }
}

/// The query's parameters. A call takes exactly those that it names: a misspelt one would otherwise be ignored without a
/// word.
pub struct Query(Vec<(String, String)>);

impl FromRequestParts<AppState> for Query {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        Ok(Self(
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect(),
        ))
    }
}

impl Query {
    /// Refuses parameters that are not in `names` or come twice.
    pub fn only(self, names: &[&str]) -> Result<Self, Problem> {
        for (i, (name, _)) in self.0.iter().enumerate() {
            if !names.contains(&name.as_str()) {
                return Err(Problem::invalid(
                    name,
                    match names {
                        [] => format!(
                            "The query parameter {name:?} is not known: this call takes none."
                        ),
                        _ => format!(
                            "The query parameter {name:?} is not known. This call takes {}.",
                            names.join(", ")
                        ),
                    },
                ));
            }
            if self.0[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::invalid(
                    name,
                    format!("The query parameter {name} comes twice. Send it once."),
                ));
            }
        }
        Ok(self)
    }

    /// A parameter as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// A parameter as a number in a range.
    pub fn number<T>(&self, name: &str, least: u64, most: u64) -> Result<Option<T>, Problem>
    where
        T: TryFrom<u64>,
    {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        Some(text)
            // `parse` alone would take a plus sign, which a query spells as a space anyway.
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<u64>().ok())
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| T::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| {
                Problem::invalid(
                    name,
                    format!("{name}: use a whole number from {least} to {most}."),
                )
            })
    }

    /// A parameter as a time.
    pub fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.text(name)
            .map(|text| {
                text.parse::<Timestamp>().map_err(|_| {
                    Problem::invalid(
                        name,
                        format!(
                            "{name}: use an RFC 3339 time such as 2026-01-31T12:00:00Z (a + is written %2B in a query)."
                        ),
                    )
                })
            })
            .transpose()
    }

    /// A parameter as an id.
    pub fn id<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: Display,
    {
        self.text(name).map(|text| parse(name, text)).transpose()
    }
}

/// A call's body as it came, with what identifies the request.
pub struct Body {
    headers: HeaderMap,
    method: String,
    path: String,
    query: String,
    bytes: Bytes,
}

impl FromRequest<AppState> for Body {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let method = request.method().to_string();
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let headers = request.headers().clone();
        let bytes =
            Bytes::from_request(request, state)
                .await
                .map_err(|rejection| match rejection.status().as_u16() {
                    413 => too_large(),
                    _ => Problem::new(
                        Code::InvalidRequest,
                        "The request's body broke off. Send it again.",
                    )
                    .because(rejection.body_text()),
                })?;
        Ok(Self {
            headers,
            method,
            path,
            query,
            bytes,
        })
    }
}

fn says_nothing(body: &Value) -> Result<(), Problem> {
    match body {
        Value::Object(map) if map.is_empty() => Ok(()),
        _ => Err(Problem::new(
            Code::InvalidRequest,
            "This call takes no body. Send none, or {}.",
        )),
    }
}

impl Body {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value, Problem> {
        self.require_json()?;
        serde_json::from_slice(&self.bytes).map_err(|error| {
            Problem::new(
                Code::InvalidJson,
                format!(
                    "The body is not JSON (line {}, column {}). Send one JSON object.",
                    error.line(),
                    error.column()
                ),
            )
        })
    }

    /// The body as a shape of ours.
    pub fn shape<T: serde::de::DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_path_to_error::deserialize(self.json()?).map_err(|error| {
            let field = error.path().to_string();
            match (field.as_str(), error.inner()) {
                (".", why) => {
                    Problem::new(Code::InvalidRequest, format!("The body is wrong: {why}."))
                }
                (_, why) => Problem::invalid(&field, format!("{field}: {why}.")),
            }
        })
    }

    /// Refuses a body that says something, for calls that take none.
    pub fn none(&self) -> Result<(), Problem> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        says_nothing(&self.json()?)
    }

    /// The same for `DELETE`, whatever the kind of the body: the contract knows no other refusal of one there.
    pub fn none_to_delete(&self) -> Result<(), Problem> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        says_nothing(&serde_json::from_slice(&self.bytes).unwrap_or_default())
    }

    /// The `Idempotency-Key`, if there is one; more than one is refused.
    pub fn key(&self) -> Result<Option<Keyed>, Problem> {
        let mut values = self.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(Problem::invalid(
                "Idempotency-Key",
                "Idempotency-Key: send exactly one such header.",
            ));
        }
        // Bytes outside visible ASCII become something that `Keyed` refuses.
        let key = value.to_str().unwrap_or_default();
        Ok(Some(Keyed::new(
            key,
            &self.method,
            &self.path,
            &self.query,
            &self.bytes,
        )?))
    }

    fn require_json(&self) -> Result<(), Problem> {
        let is_json = self
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.split(';').next())
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        if is_json {
            Ok(())
        } else {
            Err(Problem::new(
                Code::UnsupportedMediaType,
                "The body must be JSON: send the header Content-Type: application/json.",
            ))
        }
    }
}
