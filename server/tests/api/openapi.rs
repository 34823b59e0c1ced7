//! The description of the API itself: complete, valid, and true.

use std::collections::BTreeSet;

use domain::environment::{parse_create, parse_patch};
use http::Method;
use serde_json::{Map, Value, json};
use server::{http::open_paths, openapi, rest};

use crate::{
    described::{validator, whole},
    support::Doors,
};

fn document() -> &'static Value {
    &openapi::document().value
}

/// Every operation: method, path, and what is said.
fn operations() -> Vec<(String, String, &'static Value)> {
    document()["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, said)| (method.to_ascii_uppercase(), path.clone(), said))
        })
        .collect()
}

#[test]
fn every_call_is_described_and_every_description_is_of_a_call() {
    let said: BTreeSet<String> = operations()
        .iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    let there: BTreeSet<String> = rest::operations()
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .chain(open_paths().into_iter().map(|path| format!("GET {path}")))
        .collect();
    let undescribed: Vec<_> = there.difference(&said).collect();
    let gone: Vec<_> = said.difference(&there).collect();
    assert!(
        undescribed.is_empty() && gone.is_empty(),
        "describe in server/src/openapi/calls: {undescribed:?}; described but not there: {gone:?}"
    );
}

#[test]
fn operation_ids_are_unique_and_everything_has_words() {
    let mut ids = BTreeSet::new();
    for (method, path, said) in operations() {
        let id = said["operationId"].as_str().unwrap().to_owned();
        assert!(ids.insert(id.clone()), "{id} twice");
        for field in ["summary", "description"] {
            let text = said[field].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{method} {path} has no {field}");
        }
        for parameter in said["parameters"].as_array().into_iter().flatten() {
            assert!(
                parameter["description"]
                    .as_str()
                    .is_some_and(|text| text.len() > 5),
                "{method} {path}: {parameter}"
            );
        }
    }
}

#[test]
fn the_document_is_openapi_3_1() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    for (method, path, said) in operations() {
        let place = format!("{method} {path}");
        let in_path: BTreeSet<&str> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let parameters: Vec<&Value> = said["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let named: BTreeSet<&str> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| {
                assert_eq!(parameter["required"], true, "{place}");
                parameter["name"].as_str().unwrap()
            })
            .collect();
        assert_eq!(in_path, named, "{place}");
        let unique: BTreeSet<String> = parameters
            .iter()
            .map(|parameter| format!("{}{}", parameter["in"], parameter["name"]))
            .collect();
        assert_eq!(
            unique.len(),
            parameters.len(),
            "{place}: a parameter comes twice"
        );
        for parameter in parameters {
            validator(&parameter["schema"]);
        }
        let responses = said["responses"].as_object().unwrap();
        assert!(!responses.is_empty(), "{place}");
        for (status, response) in responses {
            assert!(
                status.parse::<u16>().is_ok_and(|s| (100..600).contains(&s)),
                "{place}"
            );
            assert!(response["description"].is_string(), "{place} {status}");
            for link in response["links"].as_object().into_iter().flatten() {
                let target = link.1["operationId"].as_str().unwrap();
                assert!(
                    operations()
                        .iter()
                        .any(|(_, _, said)| said["operationId"] == target),
                    "{place}: {target}"
                );
            }
        }
    }
    // Every schema compiles, so every reference in it leads somewhere.
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(
            jsonschema::meta::is_valid(&whole(schema)),
            "{name} is no JSON Schema"
        );
        validator(&json!({"$ref": format!("#/components/schemas/{name}")}));
    }
    // The reference's own description of OpenAPI 3.1 documents is not at hand offline; what it demands of references:
    let text = document.to_string();
    for part in text.split("\"$ref\":\"").skip(1) {
        let target = part.split('"').next().unwrap();
        let pointer = target.strip_prefix('#').unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{target} leads nowhere"
        );
    }
}

#[test]
fn every_example_fits_its_schema() {
    let mut checked = 0;
    for (method, path, said) in operations() {
        let mut check = |place: String, content: &Value| {
            let Some(content) = content.get("application/json") else {
                return;
            };
            let schema = validator(&content["schema"]);
            let several = content["examples"].as_object().into_iter().flatten();
            let all = content
                .get("example")
                .into_iter()
                .chain(several.map(|(_, example)| &example["value"]));
            for example in all {
                let wrong: Vec<String> = schema
                    .iter_errors(example)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                assert!(wrong.is_empty(), "{place}: {wrong:#?}\n{example:#}");
                checked += 1;
            }
        };
        check(
            format!("{method} {path}, the body"),
            &said["requestBody"]["content"],
        );
        for (status, response) in said["responses"].as_object().unwrap() {
            check(format!("{method} {path} {status}"), &response["content"]);
        }
    }
    assert!(checked > 200, "only {checked} examples");
}

#[tokio::test]
async fn the_described_query_parameters_are_those_that_the_call_takes() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("Asked", "echo hi\n").await;
    let run = doors.app.run(environment).await.to_string();
    for operation in rest::operations() {
        let path = crate::coverage::filled(
            operation.path,
            &environment.to_string(),
            &run,
            &environment.to_string(),
        );
        let method: Method = operation.method.parse().unwrap();
        let mut call = doors
            .call(method.clone(), &format!("{path}?no_such_parameter=1"))
            .bearer(&doors.admin);
        if path.ends_with("/setup-runs") && method == Method::POST {
            call = call.header("idempotency-key", "asked");
        }
        if method != Method::GET {
            call = call.raw("application/json", "{}");
        }
        let answer = call.send().await;
        answer.refused(400, "invalid_request");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        let taken: BTreeSet<String> = message
            .split_once("This call takes ")
            .map(|(_, names)| {
                names
                    .trim_end_matches('.')
                    .split(", ")
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default();
        let said: BTreeSet<String> = document()["paths"][operation.path]
            [operation.method.to_ascii_lowercase()]["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(taken, said, "{} {}", operation.method, operation.path);
    }
}

/// The bounds of a described number: 0 or a range, or a range.
fn bounds(schema: &Value) -> Option<(i64, i64)> {
    let range = schema["anyOf"]
        .as_array()
        .and_then(|options| {
            options
                .iter()
                .find(|option| option.get("maximum").is_some())
        })
        .unwrap_or(schema);
    Some((range["minimum"].as_i64()?, range["maximum"].as_i64()?))
}

/// The catalog of a deployment that offers everything.
fn catalog() -> domain::environment::Catalog {
    domain::environment::Catalog::default_runs(
        "runner",
        domain::compute::Machine {
            cpu_milli: 24_000,
            memory_mib: 102_400,
        },
    )
    .with_egress()
    .with_computer_use()
    .with_mounts(["data"])
    .with_accelerators(["t4"])
}

#[test]
fn the_described_bounds_of_bodies_are_those_that_are_enforced() {
    let schema = &document()["components"]["schemas"]["CreateEnvironment"];
    let whole = validator(&json!({"$ref": "#/components/schemas/CreateEnvironment"}));
    let catalog = catalog();
    let mut checked = 0;
    let mut agree = |fields: Map<String, Value>| {
        let mut body = json!({"name": "x"});
        body.as_object_mut().unwrap().extend(fields);
        let read = parse_create(&body, &catalog).map(|_| ());
        assert_eq!(read.is_ok(), whole.is_valid(&body), "{body}: {read:?}");
        checked += 1;
    };
    fn each(
        schema: &Value,
        wrap: &dyn Fn(&str, Value) -> Map<String, Value>,
        agree: &mut dyn FnMut(Map<String, Value>),
    ) {
        for (name, property) in schema["properties"].as_object().unwrap() {
            if let Some((least, most)) = bounds(property) {
                for value in [least, most, least - 1, most + 1, 0] {
                    agree(wrap(name, json!(value)));
                }
                agree(wrap(name, json!("1")));
                agree(wrap(name, json!(1.5)));
            }
            if let Some(most) = property["maxLength"].as_u64() {
                let most = usize::try_from(most).unwrap();
                agree(wrap(name, json!("a".repeat(most))));
                agree(wrap(name, json!("a".repeat(most + 1))));
                agree(wrap(name, json!(7)));
            }
            if property["type"] == "boolean" {
                agree(wrap(name, json!("yes")));
            }
        }
    }
    each(
        schema,
        &|name, value| Map::from_iter([(name.to_owned(), value)]),
        &mut agree,
    );
    for part in ["setup", "resources"] {
        each(
            &schema["properties"][part],
            &|name, value| Map::from_iter([(part.to_owned(), json!({name: value}))]),
            &mut agree,
        );
    }
    for body in [
        json!({"no_such_field": 1}),
        json!({"setup": {"no_such_field": 1}}),
        json!({"network_policy": {}}),
        json!({"network_policy": {"version": "v1"}}),
        json!({"network_policy": {"version": "v2", "rules": []}}),
        json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "a.b"}, "action": {"type": "deny"}}]}}),
        json!({"network_policy": {"version": "v1", "rules": [{"match": {"host_glob": ""}, "action": {"type": "deny"}}]}}),
        json!({"env_vars": {"A": "b"}}),
        json!({"env_vars": {"1A": "b"}}),
        json!({"env_vars": {"A": 1}}),
        json!({"secrets": {}}),
        json!({"secrets": {"A": "b"}}),
        json!({"scope": "organization"}),
        json!({"scope": "galaxy"}),
        json!({"mounts": [{"source": "volume:data", "mount_path": "/mnt/data"}]}),
        json!({"mounts": [{"source": "volume:data"}]}),
        json!({"mounts": [{"source": "ftp://x/y", "mount_path": "/mnt/data"}]}),
        json!({"template": {"id": "base-sandbox", "revision": 1}}),
        json!({"template": {"id": "base-sandbox"}}),
        json!({"resources": {"accelerator": {"name": "t4", "type": "gpu", "count": 1}}}),
        json!({"resources": {"accelerator": {"name": "t4", "count": 2}}}),
        json!({"metadata": {"a": [1, null]}}),
        json!({"metadata": []}),
    ] {
        agree(body.as_object().unwrap().clone());
    }
    assert!(checked > 80, "only {checked} bodies");

    let update = validator(&json!({"$ref": "#/components/schemas/UpdateEnvironment"}));
    for body in [
        json!({}),
        json!({"name": "y"}),
        json!({"template": {"id": "base-sandbox", "revision": 1}}),
        json!({"expected_access": {"network_policy": {}, "privileged": false}}),
        json!({"expected_access": {"network_policy": {}}}),
    ] {
        let read = parse_patch(&body, &catalog).map(|_| ());
        assert_eq!(read.is_ok(), update.is_valid(&body), "{body}: {read:?}");
    }
}

#[tokio::test]
async fn the_document_is_served_to_anyone_with_a_validator() {
    let doors = Doors::open().await;
    let first = doors.get("/openapi.json").send().await;
    assert_eq!(first.ok(), *document());
    assert_eq!(first.header("access-control-allow-origin"), Some("*"));
    let tag = first.header("etag").unwrap().to_owned();
    let again = doors
        .get("/openapi.json")
        .header("if-none-match", &tag)
        .send()
        .await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    let other = doors.call(Method::POST, "/openapi.json").send().await;
    assert_eq!(other.status.as_u16(), 405);
    assert_eq!(other.header("allow"), Some("GET,HEAD"));
}

#[test]
#[should_panic(expected = "is not described")]
fn an_answer_that_is_not_described_is_noticed() {
    let answer = crate::support::Answer {
        status: http::StatusCode::IM_A_TEAPOT,
        headers: http::HeaderMap::new(),
        text: String::new(),
    };
    crate::described::check(&Method::GET, "/groundwork/v1/workers?x=1", &answer);
}

#[test]
#[should_panic(expected = "/items/0")]
fn an_answer_with_another_shape_is_noticed() {
    let mut headers = http::HeaderMap::new();
    headers.insert(
        "content-type",
        http::HeaderValue::from_static("application/json"),
    );
    let answer = crate::support::Answer {
        status: http::StatusCode::OK,
        headers,
        text: json!({"items": [{"email": 7, "more": true}]}).to_string(),
    };
    crate::described::check(&Method::GET, "/groundwork/v1/members", &answer);
}
