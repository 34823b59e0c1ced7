//! Puts the document together.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wire::error::Code;

use super::{
    describe::{Answer, Describe, Group, Kind, Parameter},
    examples,
    schemas::Schemas,
};

/// What a code means, for its description.
pub(super) const fn meaning(code: Code) -> &'static str {
    match code {
        Code::InvalidRequest => {
            "a parameter, a header or a field is wrong; `details.field` and `details.issues` name them"
        }
        Code::InvalidJson => "the body is not JSON",
        Code::Unauthorized => "the key is missing, unknown, revoked or past its end",
        Code::Forbidden => {
            "the role may not do this, or `x-organization-id` names another organization"
        }
        Code::NotFound => "nothing with this id that you may know of",
        Code::MethodNotAllowed => "the path exists, the method does not; `Allow` lists what does",
        Code::IdempotencyConflict => "the key was used for another request",
        Code::IdempotencyInProgress => {
            "the first request with this key is still under way; see `Retry-After`"
        }
        Code::RevisionConflict => {
            "somebody else's edit landed first: read again, repeat the change"
        }
        Code::SetupRunInProgress => {
            "a run is in flight for this environment: `details.setup_run_id`"
        }
        Code::SetupRunFinished => "the run has ended already",
        Code::PreconditionFailed => {
            "`expected_access` differs from what is saved: read again, decide again"
        }
        Code::PayloadTooLarge => "the body is over 1 MiB",
        Code::UnsupportedMediaType => "send `Content-Type: application/json`",
        Code::EnvironmentNotVerified => {
            "no session can start: `details.next_action` names the call that mends it"
        }
        Code::SandboxProviderDisabled => {
            "the environment's provider is switched off in this deployment"
        }
        Code::PreconditionRequired => "the change of access needs `expected_access`",
        Code::RateLimitExceeded => "too many requests of this key or address; see `Retry-After`",
        Code::SetupRunLimit => {
            "four manual runs are in flight (`details.in_flight`); see `Retry-After`"
        }
        Code::InternalError => "our fault; give the request id to the operator",
        Code::ServiceUnavailable => "something that we need is not there; see `Retry-After`",
        Code::SetupRunNotStarted => "the run could not be queued; see `Retry-After`",
        Code::GatewayTimeout => "it took too long; try again",
        #[allow(
            unreachable_patterns,
            reason = "codes that other parts of the API add are described by their own calls"
        )]
        _ => "see the message",
    }
}

/// The document of these calls.
pub(super) fn document(calls: &[Describe]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for call in calls {
        let entry = paths.entry(call.path).or_default();
        entry.insert(
            call.method.to_ascii_lowercase(),
            operation(call, calls, &mut schemas),
        );
    }
    let tags: Vec<Value> = Group::ALL
        .iter()
        .filter(|group| calls.iter().any(|call| call.group == **group))
        .map(|group| json!({"name": group.name(), "description": group.text()}))
        .collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Groundwork",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Environments in which software agents work: defined, tested, started.",
            "description": examples::INTRODUCTION,
        },
        "servers": [{"url": "/", "description": "The server that this document comes from."}],
        "tags": tags,
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"apiKey": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "rma_ and 43 base64url characters",
                "description": "An API key: made under *Account* in the console, by `POST /groundwork/v1/api-keys`, \
                                or by `groundwork admin create-api-key`. Its role is at most its owner's; a revoked or \
                                expired key is refused at once.",
            }},
            "schemas": schemas.finish(),
        },
    })
}

fn operation(call: &Describe, calls: &[Describe], schemas: &mut Schemas) -> Value {
    let mut object = Map::new();
    object.insert("operationId".to_owned(), json!(call.id));
    object.insert("tags".to_owned(), json!([call.group.name()]));
    object.insert("summary".to_owned(), json!(call.summary));
    object.insert("description".to_owned(), json!(description(call)));
    if call.role.is_none() {
        object.insert("security".to_owned(), json!([]));
    }
    let parameters: Vec<Value> = parameters(call).iter().map(parameter).collect();
    if !parameters.is_empty() {
        object.insert("parameters".to_owned(), json!(parameters));
    }
    if let Some((shape, required, example)) = &call.body {
        object.insert(
            "requestBody".to_owned(),
            json!({
                "required": required,
                "content": {"application/json": {"schema": schemas.of_body(*shape), "example": example}},
            }),
        );
    }
    let mut responses = Map::new();
    for found in &call.answers {
        responses.insert(
            found.status.to_string(),
            answer(call, found, calls, schemas),
        );
    }
    for (status, codes) in by_status(&call.codes()) {
        let refusal = refusal(status, &codes, schemas);
        match responses.get_mut(&status.to_string()) {
            // A probe answers `503` in its own shape.
            Some(_) => {}
            None => {
                responses.insert(status.to_string(), refusal);
            }
        }
    }
    object.insert("responses".to_owned(), Value::Object(responses));
    Value::Object(object)
}

fn description(call: &Describe) -> String {
    let role = match call.role {
        None => "No key is needed.".to_owned(),
        Some(role) => format!("Takes the role `{role}` or a higher one."),
    };
    if call.text.is_empty() {
        role
    } else {
        format!("{}\n\n{role}", call.text)
    }
}

/// All parameters: those of the path, the call's own, and the headers that every authenticated call takes.
pub(super) fn parameters(call: &Describe) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = call.path_names().into_iter().map(schemas_of_path).collect();
    all.extend(call.parameters.iter().cloned());
    if call.role.is_some() {
        all.push(Parameter {
            name: "x-organization-id",
            place: "header",
            required: false,
            text: "The key's own organization, or `default`; another one is `403 forbidden`.",
            schema: json!({"type": "string", "pattern": "^(default|org_[0-9a-f]{32})$"}),
        });
    }
    all.push(Parameter {
        name: "x-request-id",
        place: "header",
        required: false,
        text: "1 to 128 letters, digits, `-`, `_`, `.` and `:` come back in the answer and stand in the server's log; \
               without them, or with anything else, the server makes an id.",
        schema: json!({"type": "string"}),
    });
    all
}

fn schemas_of_path(name: &'static str) -> Parameter {
    let (schema, text) = super::schemas::path_parameter(name);
    Parameter {
        name,
        place: "path",
        required: true,
        text,
        schema,
    }
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.text,
        "schema": parameter.schema,
    })
}

fn answer(call: &Describe, found: &Answer, calls: &[Describe], schemas: &mut Schemas) -> Value {
    let mut object = Map::new();
    object.insert("description".to_owned(), json!(found.text));
    let mut headers = common_headers(call.role.is_some());
    for (name, text) in &found.headers {
        headers.insert(
            (*name).to_owned(),
            json!({"description": text, "schema": {"type": "string"}}),
        );
    }
    object.insert("headers".to_owned(), Value::Object(headers));
    let (medias, schema): (&[&str], Value) = match found.kind {
        Kind::Empty => (&[], Value::Null),
        Kind::Json(shape) | Kind::JsonOr(shape, _) => {
            (&["application/json"], schemas.of_answer(shape))
        }
        Kind::Text(medias) => (medias, text_schema(medias.first().copied())),
    };
    let mut content = Map::new();
    for (index, media) in medias.iter().enumerate() {
        let mut body = Map::from_iter([("schema".to_owned(), schema.clone())]);
        if let Some(example) = found.example.as_ref().filter(|_| index == 0) {
            body.insert("example".to_owned(), example.clone());
        }
        content.insert((*media).to_owned(), Value::Object(body));
    }
    if let Kind::JsonOr(_, others) = found.kind {
        for media in others {
            content.insert(
                (*media).to_owned(),
                json!({"schema": text_schema(Some(*media))}),
            );
        }
    }
    if !content.is_empty() {
        object.insert("content".to_owned(), Value::Object(content));
    }
    if let Some(links) = links(call, found, calls) {
        object.insert("links".to_owned(), links);
    }
    Value::Object(object)
}

/// What is said of a body that is no JSON: a text. Of a stream a schema would describe each event (before version 3.2 of
/// the description's own standard), and they are of several kinds.
fn text_schema(media: Option<&str>) -> Value {
    if media == Some("text/event-stream") {
        json!({"description": "Server-sent events, as the example shows them."})
    } else {
        json!({"type": "string"})
    }
}

/// Where an answer's ids can be used next.
fn links(call: &Describe, found: &Answer, calls: &[Describe]) -> Option<Value> {
    let makes: &[&str] = match call.id {
        "managedAgentsCreateEnvironment" => &["environment_id"],
        "managedAgentsCreateEnvironmentSetupRun" => &["environment_id", "setup_run_id"],
        "startSession" => &["session_id"],
        "createInvitation" => &["invitation_id"],
        "createApiKey" => &["api_key_id"],
        _ => return None,
    };
    if !(200..300).contains(&found.status) {
        return None;
    }
    let mut links = Map::new();
    for next in calls {
        let names = next.path_names();
        let newest = makes.last()?;
        if names.is_empty() || !names.contains(newest) || names.iter().any(|n| !makes.contains(n)) {
            continue;
        }
        let parameters: Map<String, Value> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!(format!("$response.body#/{name}"))))
            .collect();
        links.insert(
            next.id.to_owned(),
            json!({"operationId": next.id, "parameters": parameters}),
        );
    }
    (!links.is_empty()).then_some(Value::Object(links))
}

fn common_headers(authenticated: bool) -> Map<String, Value> {
    let mut headers = Map::new();
    headers.insert(
        "x-request-id".to_owned(),
        json!({"description": "The request's id, also in the server's log.", "schema": {"type": "string"}}),
    );
    if authenticated {
        headers.insert(
            "recursion-organization-id".to_owned(),
            json!({"description": "The organization that the request acted in.", "schema": {"type": "string"}}),
        );
    }
    headers
}

fn by_status(codes: &[Code]) -> BTreeMap<u16, Vec<Code>> {
    let mut found: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        found.entry(code.status()).or_default().push(*code);
    }
    found
}

fn refusal(status: u16, codes: &[Code], schemas: &mut Schemas) -> Value {
    let text: Vec<String> = codes
        .iter()
        .map(|code| format!("`{code}`: {}.", meaning(*code)))
        .collect();
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let error = schemas.of_answer(super::describe::of::<wire::error::ApiError>());
    let mut headers = common_headers(status != 401);
    if matches!(status, 429 | 503) {
        headers.insert(
            "Retry-After".to_owned(),
            json!({"description": "Seconds after which to try again.", "schema": {"type": "integer"}}),
        );
    }
    if status == 401 {
        headers.insert(
            "WWW-Authenticate".to_owned(),
            json!({"description": "Always `Bearer`.", "schema": {"type": "string"}}),
        );
    }
    json!({
        "description": text.join("\n\n"),
        "headers": headers,
        "content": {"application/json": {
            "schema": {"allOf": [error, {"properties": {"code": {"enum": words}}}]},
            "examples": codes.iter().map(|code| (
                code.as_str().to_owned(),
                json!({"value": examples::error(*code)}),
            )).collect::<Map<String, Value>>(),
        }},
    })
}
