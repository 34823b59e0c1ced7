//! What is said of one call, in words that [`super::assemble`] turns into OpenAPI.

use domain::roles::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use wire::error::Code;

/// The group that a call is shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What a deployment offers.
    Catalog,
    /// Definitions.
    Environments,
    /// Runs and their logs.
    SetupRuns,
    /// Sandboxes that commands run in.
    Sessions,
    /// Members, keys, workers, audit.
    Administration,
    /// Probes and this document.
    Service,
}

impl Group {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::Environments,
        Self::SetupRuns,
        Self::Sessions,
        Self::Catalog,
        Self::Administration,
        Self::Service,
    ];

    /// The group's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Catalog => "Catalog",
            Self::Environments => "Environments",
            Self::SetupRuns => "Setup runs",
            Self::Sessions => "Sessions",
            Self::Administration => "Administration",
            Self::Service => "Service",
        }
    }

    /// What is in it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Catalog => "What this deployment offers: kinds of sandboxes and starting points.",
            Self::Environments => {
                "The saved definitions of sandboxes: create, read, change, delete, search, go back."
            }
            Self::SetupRuns => {
                "Start a setup run, follow its log, cancel it, and read what it did and how long it took."
            }
            Self::Sessions => {
                "Sandboxes started from a usable environment, and the commands in them."
            }
            Self::Administration => "Members, invitations, API keys, workers and the audit log.",
            Self::Service => "Liveness, readiness, metrics and this document; no key is needed.",
        }
    }
}

/// Makes a type's schema.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a type.
pub fn of<T: JsonSchema>() -> SchemaOf {
    |generator| generator.subschema_for::<T>()
}

/// A parameter of the path, the query or a header.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// `path`, `query` or `header`.
    pub place: &'static str,
    /// Whether the call is refused without it.
    pub required: bool,
    /// What it means, with unit and default.
    pub text: &'static str,
    /// What it may be.
    pub schema: Value,
}

/// An optional parameter of the query.
pub fn query(name: &'static str, schema: Value, text: &'static str) -> Parameter {
    Parameter {
        name,
        place: "query",
        required: false,
        text,
        schema,
    }
}

/// What an answer's body is.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Nothing.
    Empty,
    /// JSON of this shape.
    Json(SchemaOf),
    /// JSON of this shape, or text of one of these media types, as the caller asks.
    JsonOr(SchemaOf, &'static [&'static str]),
    /// Text of one of these media types.
    Text(&'static [&'static str]),
}

/// An answer that is no error.
#[derive(Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// What it says.
    pub text: &'static str,
    /// Its body.
    pub kind: Kind,
    /// Its own headers: name and meaning.
    pub headers: Vec<(&'static str, &'static str)>,
    /// An example body.
    pub example: Option<Value>,
}

/// One call.
#[derive(Clone)]
pub struct Describe {
    /// HTTP method.
    pub method: &'static str,
    /// Path from the root, with `{…}` for parameters.
    pub path: &'static str,
    /// For programs; unique.
    pub id: &'static str,
    /// Where it is shown.
    pub group: Group,
    /// A few words.
    pub summary: &'static str,
    /// What to know before calling it: effects, limits, units.
    pub text: &'static str,
    /// The weakest role that may call it; `None`: anyone, without a key.
    pub role: Option<Role>,
    /// Parameters beyond those of the path and the headers that every call takes.
    pub parameters: Vec<Parameter>,
    /// The body's shape, whether it is required, and an example.
    pub body: Option<(SchemaOf, bool, Value)>,
    /// Answers that are no errors.
    pub answers: Vec<Answer>,
    /// Error codes beyond those that every call of its kind can answer with.
    pub errors: Vec<Code>,
}

/// Begins a description.
pub fn call(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    group: Group,
    role: Role,
    summary: &'static str,
) -> Describe {
    Describe {
        method,
        path,
        id,
        group,
        summary,
        text: "",
        role: Some(role),
        parameters: Vec::new(),
        body: None,
        answers: Vec::new(),
        errors: Vec::new(),
    }
}

impl Describe {
    /// What to know before calling it.
    pub const fn text(mut self, text: &'static str) -> Self {
        self.text = text;
        self
    }

    /// No key is needed.
    pub const fn open(mut self) -> Self {
        self.role = None;
        self
    }

    /// Adds a parameter.
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Takes an `Idempotency-Key`.
    pub fn keyed(mut self, required: bool) -> Self {
        self.parameters.push(Parameter {
            name: "Idempotency-Key",
            place: "header",
            required,
            text: "1 to 256 visible ASCII characters, one header. The same key with the same request (method, path, \
                   query, body) within 24 hours is answered as the first time, with `Idempotency-Replayed: true`, \
                   and has no second effect.",
            schema: serde_json::json!({"type": "string", "pattern": "^[\\x21-\\x7e]{1,256}$"}),
        });
        self.errors
            .extend([Code::IdempotencyConflict, Code::IdempotencyInProgress]);
        self
    }

    /// Takes a JSON body of this shape.
    pub fn body<T: JsonSchema>(mut self, example: Value) -> Self {
        self.body = Some((of::<T>(), true, example));
        self
    }

    /// Takes no body, or an empty object.
    pub fn no_body(mut self) -> Self {
        self.body = Some((
            |_| schemars::json_schema!({"type": "object", "maxProperties": 0}),
            false,
            serde_json::json!({}),
        ));
        self
    }

    /// Answers JSON of this shape.
    pub fn json<T: JsonSchema>(self, status: u16, text: &'static str, example: Value) -> Self {
        self.answer(Answer {
            status,
            text,
            kind: Kind::Json(of::<T>()),
            headers: Vec::new(),
            example: Some(example),
        })
    }

    /// Answers text of a media type.
    pub fn plain(self, media: &'static [&'static str], text: &'static str, example: &str) -> Self {
        self.answer(Answer {
            status: 200,
            text,
            kind: Kind::Text(media),
            headers: Vec::new(),
            example: Some(Value::from(example)),
        })
    }

    /// Adds an answer.
    pub fn answer(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// Says that the answer can be kept: `ETag`, and `304` when it has not changed.
    pub fn cached(mut self) -> Self {
        self.parameters.push(Parameter {
            name: "If-None-Match",
            place: "header",
            required: false,
            text: "The `ETag` of an earlier answer: `304` without a body when nothing has changed.",
            schema: serde_json::json!({"type": "string"}),
        });
        const ETAG: (&str, &str) = ("ETag", "Send it as `If-None-Match` next time.");
        for answer in &mut self.answers {
            answer.headers.push(ETAG);
        }
        self.answer(Answer {
            status: 304,
            text: "What you have is current.",
            kind: Kind::Empty,
            headers: vec![ETAG],
            example: None,
        })
    }

    /// Adds a header to the answers so far.
    pub fn header(mut self, name: &'static str, text: &'static str) -> Self {
        for answer in &mut self.answers {
            answer.headers.push((name, text));
        }
        self
    }

    /// Adds error codes.
    pub fn errors(mut self, codes: &[Code]) -> Self {
        self.errors.extend_from_slice(codes);
        self
    }

    /// The names in the path.
    pub fn path_names(&self) -> Vec<&'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect()
    }

    /// Every error code it can answer with.
    pub fn codes(&self) -> Vec<Code> {
        let mut codes = self.errors.clone();
        if self.role.is_some() {
            codes.extend([
                Code::InvalidRequest,
                Code::Unauthorized,
                Code::Forbidden,
                Code::RateLimitExceeded,
                Code::InternalError,
                Code::ServiceUnavailable,
                Code::GatewayTimeout,
            ]);
        }
        if self.path.contains('{') {
            codes.push(Code::NotFound);
        }
        if self.body.is_some() {
            codes.extend([
                Code::InvalidJson,
                Code::PayloadTooLarge,
                Code::UnsupportedMediaType,
            ]);
        }
        if self.method == "DELETE" {
            // A body is read, to refuse it.
            codes.push(Code::PayloadTooLarge);
        }
        codes.sort_by_key(|code| (code.status(), code.as_str()));
        codes.dedup();
        codes
    }
}
