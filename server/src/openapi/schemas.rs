//! Schemas of types, collected under `components`.

use schemars::{
    SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};

use super::describe::SchemaOf;

/// Names that say too little outside the file they come from.
const RENAMED: [(&str, &str); 8] = [
    ("Kind", "SetupRunKind"),
    ("Status", "SetupRunStatus"),
    ("Phase", "SetupRunPhase"),
    ("Stream", "LogStream"),
    ("Code", "ErrorCode"),
    ("ApiError", "Error"),
    ("Revision", "SavedDefinition"),
    ("Setup", "SetupScript"),
];

/// Collects schemas: what is answered and what is sent have generators of their own, since they differ in what is required.
pub(super) struct Schemas {
    answers: SchemaGenerator,
    bodies: SchemaGenerator,
}

fn generator(contract: Contract) -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.contract = contract;
        })
        .into_generator()
}

impl Schemas {
    pub(super) fn new() -> Self {
        Self {
            answers: generator(Contract::Serialize),
            bodies: generator(Contract::Deserialize),
        }
    }

    /// Of something that is answered.
    pub(super) fn of_answer(&mut self, shape: SchemaOf) -> Value {
        let schema = shape(&mut self.answers);
        tidy(schema.to_value(), true)
    }

    /// Of something that is sent.
    pub(super) fn of_body(&mut self, shape: SchemaOf) -> Value {
        let schema = shape(&mut self.bodies);
        tidy(schema.to_value(), false)
    }

    /// Everything that was named.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut all = Map::new();
        for (definitions, answered) in [
            (self.bodies.take_definitions(true), false),
            (self.answers.take_definitions(true), true),
        ] {
            for (name, schema) in definitions {
                all.insert(renamed(&name).to_owned(), tidy(schema, answered));
            }
        }
        all.insert("NetworkPolicy".to_owned(), super::bodies::policy());
        all
    }
}

fn renamed(name: &str) -> &str {
    RENAMED
        .iter()
        .find_map(|(from, to)| (*from == name).then_some(*to))
        .unwrap_or(name)
}

/// Closes objects that hold nothing else, writes words as one list, and renames.
fn tidy(mut schema: Value, closed: bool) -> Value {
    walk(&mut schema, closed);
    schema
}

fn walk(value: &mut Value, closed: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, closed)),
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some((base, name)) = target.rsplit_once('/')
            {
                *target = format!("{base}/{}", renamed(name));
            }
            as_words(map);
            let plain = map.contains_key("properties")
                && map.get("type").is_some_and(|kind| kind == "object")
                && !map.contains_key("additionalProperties");
            if closed && plain {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
            for (key, inner) in map.iter_mut() {
                if !matches!(
                    key.as_str(),
                    "example" | "examples" | "enum" | "const" | "default"
                ) {
                    walk(inner, closed);
                }
            }
        }
        _ => {}
    }
}

/// `oneOf` constants with a text each becomes a list of words whose meanings stand in the description.
fn as_words(map: &mut Map<String, Value>) {
    let Some(Value::Array(options)) = map.get("oneOf") else {
        return;
    };
    let mut words = Vec::new();
    let mut meanings = Vec::new();
    for option in options {
        let Some(found) = option.as_object() else {
            return;
        };
        let text = found.get("description").and_then(Value::as_str);
        let listed = match (found.get("const"), found.get("enum")) {
            (Some(Value::String(word)), _) => vec![word.clone()],
            (None, Some(Value::Array(several))) => several
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect(),
            _ => return,
        };
        for word in listed {
            if let Some(text) = text {
                meanings.push(format!("- `{word}`: {text}"));
            }
            words.push(Value::String(word));
        }
    }
    let text = map
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    map.remove("oneOf");
    map.insert("type".to_owned(), json!("string"));
    map.insert("enum".to_owned(), Value::Array(words));
    let text = [vec![text, String::new()], meanings].concat().join("\n");
    map.insert("description".to_owned(), json!(text.trim()));
}

/// A parameter of the path by its name: what it may be, and what it is.
pub(super) fn path_parameter(name: &str) -> (Value, &'static str) {
    let uuid = || json!({"type": "string", "format": "uuid"});
    let prefixed =
        |prefix: &str| json!({"type": "string", "pattern": format!("^{prefix}[0-9a-f]{{32}}$")});
    match name {
        "environment_id" => (uuid(), "The environment's id."),
        "setup_run_id" => (uuid(), "The run's id."),
        "session_id" => (uuid(), "The session's id."),
        "user_id" => (prefixed("usr_"), "The member's id."),
        "api_key_id" => (prefixed("key_"), "The key's id (not its secret)."),
        "invitation_id" => (prefixed("inv_"), "The invitation's id."),
        "revision" => (
            json!({"type": "integer", "minimum": 1, "maximum": domain::limits::SAFE_INTEGER_MAX}),
            "The saved definition's number, from 1.",
        ),
        "name" => (
            json!({"type": "string", "minLength": 1}),
            "The variable's name.",
        ),
        _ => (json!({"type": "string"}), "Part of the path."),
    }
}
