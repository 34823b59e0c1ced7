//! Holds every answer of these tests against our own description of the API: its status, its media type, its body.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use http::Method;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::Answer;

/// The description's path for a path, and what it says of the method.
pub fn operation(method: &Method, path: &str) -> Option<(&'static str, &'static Value)> {
    let paths = server::openapi::document().value["paths"]
        .as_object()
        .unwrap();
    let wanted: Vec<&str> = path.split('/').collect();
    paths
        .iter()
        .filter(|(template, _)| {
            let parts: Vec<&str> = template.split('/').collect();
            parts.len() == wanted.len()
                && parts
                    .iter()
                    .zip(&wanted)
                    .all(|(part, given)| part.starts_with('{') || part == given)
        })
        // A path without parameters is the better match.
        .min_by_key(|(template, _)| template.matches('{').count())
        .and_then(|(template, item)| {
            let found = item.get(method.as_str().to_ascii_lowercase())?;
            Some((template.as_str(), found))
        })
}

/// A schema with everything that it may refer to.
pub fn whole(schema: &Value) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema],
        "components": server::openapi::document().value["components"],
    })
}

/// The validator of a schema of the document, made once.
pub fn validator(schema: &Value) -> Arc<Validator> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    MADE.lock()
        .unwrap()
        .entry(schema.to_string())
        .or_insert_with(|| {
            let built = jsonschema::options()
                .should_validate_formats(true)
                .build(&whole(schema));
            Arc::new(built.unwrap_or_else(|error| panic!("{error}: {schema}")))
        })
        .clone()
}

/// Fails when an answer is none of those that the description lists for the call. Other paths and methods are not ours to
/// judge.
#[track_caller]
pub fn check(method: &Method, target: &str, answer: &Answer) {
    let path = target.split('?').next().unwrap_or_default();
    let Some((template, operation)) = operation(method, path) else {
        return;
    };
    let status = answer.status.as_u16();
    if status == 405 {
        return;
    }
    let place = format!("{method} {template} {status}");
    let Some(response) = operation["responses"].get(status.to_string()) else {
        panic!("{place} is not described: {answer:#?}");
    };
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        assert!(answer.text.is_empty(), "{place} has a body: {answer:#?}");
        return;
    };
    let kind = answer
        .header("content-type")
        .and_then(|kind| kind.split(';').next())
        .unwrap_or_default();
    let Some(described) = content.get(kind) else {
        panic!("{place} is {kind:?}, which is not described: {answer:#?}");
    };
    if kind != "application/json" {
        return;
    }
    let body = answer.json();
    let wrong: Vec<String> = validator(&described["schema"])
        .iter_errors(&body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{place}: {wrong:#?}\n{answer:#?}");
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let always = matches!(name.as_str(), "x-request-id" | "ETag" | "WWW-Authenticate");
        assert!(
            !always || answer.header(name).is_some(),
            "{place} lacks {name} ({header})"
        );
    }
}
