//! The reference's contract: fetched from the public package that holds it, and what it says of an answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::{Value, json};

use crate::support::Answer;

/// Where the contract comes from, and which version of it this product answers to.
const PACKAGE: &str = "labelbox-recursion-sdk==0.1.0";
const MEMBER: &str = "recursion_sdk/_generated/openapi.json";
const VERSION: &str = "0.14.0";

/// The operations of this product, by the contract's ids without their common beginning.
pub const OPERATIONS: [&str; 12] = [
    "ListSandboxProviders",
    "ListEnvironmentTemplates",
    "CreateEnvironment",
    "ListEnvironments",
    "GetEnvironment",
    "UpdateEnvironment",
    "DeleteEnvironment",
    "CreateEnvironmentSetupRun",
    "ListEnvironmentSetupRuns",
    "GetEnvironmentSetupRun",
    "GetEnvironmentSetupRunLog",
    "CancelEnvironmentSetupRun",
];

/// The file, from the target directory if an earlier run left it there.
fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(fetch)
}

fn fetch() -> PathBuf {
    if let Some(given) = std::env::var_os("GROUNDWORK_TEST_CONTRACT") {
        return given.into();
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reference-contract-0.1.0");
    let file = directory.join(MEMBER);
    if file.is_file() {
        return file;
    }
    // Beside the final place, so that a run that breaks off leaves nothing that looks whole.
    let fresh = directory.with_file_name(format!("reference-contract-{}", std::process::id()));
    fs::create_dir_all(&fresh).unwrap();
    let python = |args: &[&str]| {
        let output = Command::new("python3")
            .args(args)
            .current_dir(&fresh)
            .output()
            .unwrap_or_else(|error| {
                panic!("python3 is needed to fetch the reference's contract: {error}")
            });
        assert!(
            output.status.success(),
            "The reference's contract could not be fetched (python3 {}): {}\nWithout a package index, name the file in \
             GROUNDWORK_TEST_CONTRACT: {MEMBER} of the package {PACKAGE}.",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    };
    python(&[
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        "3.13",
        PACKAGE,
    ]);
    let wheel = fs::read_dir(&fresh)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|kind| kind == "whl"))
        .unwrap_or_else(|| panic!("{PACKAGE} came without a wheel"));
    python(&["-m", "zipfile", "--extract", wheel.to_str().unwrap(), "."]);
    if fs::rename(&fresh, &directory).is_err() {
        // Another test process was quicker.
        fs::remove_dir_all(&fresh).unwrap();
    }
    assert!(file.is_file(), "{PACKAGE} has no {MEMBER}");
    file
}

/// A documented answer.
struct Documented {
    /// The body's shape; none for an answer without a body.
    shape: Option<jsonschema::Validator>,
    /// Error codes; empty for a success.
    codes: Vec<String>,
    /// Header names, in small letters, with their shapes.
    headers: BTreeMap<String, Value>,
}

/// One of the twelve operations.
struct Operation {
    answers: BTreeMap<u16, Documented>,
}

/// The contract of the twelve operations.
pub struct Contract {
    operations: BTreeMap<&'static str, Operation>,
}

/// An operation's answer as documented: operation, status, and error code (empty for a success).
pub type Pair = (&'static str, u16, String);

impl Contract {
    pub fn load() -> Self {
        let file = file();
        let text = fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["info"]["version"], VERSION, "{}", file.display());
        let by_id: BTreeMap<&str, &Value> = document["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| path.as_object().unwrap().values())
            .filter_map(|operation| Some((operation.get("operationId")?.as_str()?, operation)))
            .collect();
        let operations = OPERATIONS
            .into_iter()
            .map(|name| {
                let id = format!("managedAgents{name}");
                let found = by_id
                    .get(id.as_str())
                    .unwrap_or_else(|| panic!("the contract has no {id}"));
                let answers = found["responses"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(status, answer)| {
                        (status.parse().unwrap(), documented(answer, &document))
                    })
                    .collect();
                (name, Operation { answers })
            })
            .collect();
        Self { operations }
    }

    /// Every documented answer.
    pub fn pairs(&self) -> BTreeSet<Pair> {
        let mut pairs = BTreeSet::new();
        for (name, operation) in &self.operations {
            for (status, documented) in &operation.answers {
                if documented.codes.is_empty() {
                    pairs.insert((*name, *status, String::new()));
                }
                for code in &documented.codes {
                    pairs.insert((*name, *status, code.clone()));
                }
            }
        }
        pairs
    }

    /// Which documented answer this is.
    ///
    /// # Errors
    /// What in it the contract does not know.
    pub fn check(&self, name: &'static str, answer: &Answer) -> Result<Pair, Vec<String>> {
        let status = answer.status.as_u16();
        let operation = &self.operations[name];
        let Some(documented) = operation.answers.get(&status) else {
            return Err(vec![format!("the status {status} is not documented")]);
        };
        let mut wrong = Vec::new();
        let mut code = String::new();
        match &documented.shape {
            None if !answer.text.is_empty() => wrong.push("a body where there is none".to_owned()),
            None => {}
            Some(shape) => {
                let kind = answer.header("content-type");
                if kind != Some("application/json") {
                    wrong.push(format!("the content type {kind:?}"));
                }
                match serde_json::from_str::<Value>(&answer.text) {
                    Err(error) => wrong.push(format!("no JSON: {error}")),
                    Ok(body) => {
                        wrong.extend(
                            shape
                                .iter_errors(&body)
                                .map(|error| format!("{} at {}", error, error.instance_path())),
                        );
                        if !documented.codes.is_empty() {
                            body["code"]
                                .as_str()
                                .unwrap_or_default()
                                .clone_into(&mut code);
                        }
                    }
                }
            }
        }
        for (name, shape) in &documented.headers {
            for value in answer.headers.get_all(name) {
                let text = value.to_str().unwrap_or_default();
                if !fits_header(shape, text) {
                    wrong.push(format!("the header {name}: {text:?}"));
                }
            }
        }
        // What the contract leaves open and clients rest upon.
        let needs = |name: &str, wrong: &mut Vec<String>| {
            if answer.header(name).is_none() {
                wrong.push(format!("the header {name} is missing"));
            }
        };
        needs("x-request-id", &mut wrong);
        if status < 400 {
            needs("recursion-organization-id", &mut wrong);
            for name in documented.headers.keys().filter(|name| *name == "etag") {
                needs(name, &mut wrong);
            }
        }
        if matches!(status, 429 | 503) || code == "idempotency_in_progress" {
            needs("retry-after", &mut wrong);
        }
        if wrong.is_empty() {
            Ok((name, status, code))
        } else {
            Err(wrong)
        }
    }
}

fn documented(answer: &Value, document: &Value) -> Documented {
    let shape = answer.pointer("/content/application~1json/schema");
    let codes = shape
        .and_then(|shape| shape.get("x-recursion-error-codes"))
        .and_then(Value::as_array)
        .map(|codes| {
            codes
                .iter()
                .map(|code| code.as_str().unwrap().to_owned())
                .collect()
        })
        .unwrap_or_default();
    let headers = answer
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, header)| {
            let header = header
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|at| document.pointer(at.trim_start_matches('#')))
                .unwrap_or(header);
            (name.to_ascii_lowercase(), header["schema"].clone())
        })
        .collect();
    Documented {
        shape: shape.map(|shape| validator(shape, document)),
        codes,
        headers,
    }
}

fn validator(shape: &Value, document: &Value) -> jsonschema::Validator {
    // Only what the shape reaches: compiling all of the contract for each answer would take minutes.
    let mut reached = BTreeMap::new();
    reach(shape, document, &mut reached);
    let whole = json!({"allOf": [shape], "components": {"schemas": reached}});
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(&whole)
        .unwrap()
}

fn reach(value: &Value, document: &Value, reached: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            if let Some(name) = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|at| at.strip_prefix("#/components/schemas/"))
                && !reached.contains_key(name)
            {
                let found = &document["components"]["schemas"][name];
                reached.insert(name.to_owned(), found.clone());
                reach(found, document, reached);
            }
            for inner in map.values() {
                reach(inner, document, reached);
            }
        }
        Value::Array(items) => {
            for inner in items {
                reach(inner, document, reached);
            }
        }
        _ => {}
    }
}

fn fits_header(shape: &Value, text: &str) -> bool {
    let value = match shape["type"].as_str() {
        Some("boolean" | "integer" | "number") => serde_json::from_str(text).unwrap_or(Value::Null),
        _ => Value::from(text),
    };
    jsonschema::is_valid(shape, &value)
}
