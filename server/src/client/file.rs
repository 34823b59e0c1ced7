//! Definitions in files: YAML or JSON.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde_json::{Map, Value};

use super::{
    args::Format,
    failure::{Failure, Result},
};

/// Most bytes of a file, as of a request's body.
const MAX_BYTES: u64 = domain::limits::BODY_MAX_BYTES as u64;

/// The definition in a file; `-` is standard input. JSON is YAML too, but says better what is wrong with JSON.
pub fn read(path: &Path) -> Result<Map<String, Value>> {
    let from_stdin = path == Path::new("-");
    let shown = if from_stdin {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let mut text = String::new();
    let read = if from_stdin {
        io::stdin()
            .lock()
            .take(MAX_BYTES + 1)
            .read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::new(format!("{shown} cannot be read: {error}.")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::new(format!(
            "{shown} is over 1 MiB, which is the most that the server takes."
        )));
    }
    parse(&text).map_err(|error| Failure::new(format!("{shown}: {error}")))
}

fn parse(text: &str) -> std::result::Result<Map<String, Value>, String> {
    let value: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}."))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| format!("this is not YAML: {error}"))?
    };
    match value {
        Value::Object(map) if !map.is_empty() => Ok(map),
        _ => Err(
            "one environment's definition is wanted, with fields such as name and setup."
                .to_owned(),
        ),
    }
}

/// A definition as text. Scripts stand as blocks, one line each.
pub fn write(definition: &Map<String, Value>, format: Format) -> Result<String> {
    match format {
        Format::Json => Ok(format!("{:#}\n", Value::Object(definition.clone()))),
        Format::Yaml => serde_saphyr::to_string(definition)
            .map_err(|error| Failure::new(format!("The definition cannot be written: {error}."))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let scripts = [
            "echo hi\n",
            "set -e\n\n  indented: yes\n# note\necho \"a: b\" 'c'\n",
            "printf '%s\\n' {a,b}\ncat <<'E'\n---\n...\nE\n",
            "\techo tab\n",
            "echo ü ☃\n",
        ];
        for script in scripts {
            let definition = json!({
                "name": "yes", "description": "1.0: #not a comment", "pvc_size_gi": 20, "privileged": false,
                "metadata": {"n": null, "list": [1, "2", true], "": "", "date": "2026-01-01", "octal": "010"},
                "setup": {"script": script, "timeout_seconds": 900},
                "network_policy": {}, "env_vars": {"A": "~", "B": "null", "C": " x ", "D": "a\nb", "E": "on"},
                "mounts": [],
            });
            let map = definition.as_object().unwrap();
            for format in [Format::Yaml, Format::Json] {
                let text = write(map, format).unwrap();
                assert_eq!(&parse(&text).unwrap(), map, "{text}");
            }
        }
        let text = write(
            json!({"setup": {"script": "echo one\necho two\n"}})
                .as_object()
                .unwrap(),
            Format::Yaml,
        )
        .unwrap();
        assert!(text.contains("script: |\n"), "{text}");
    }

    #[test]
    fn what_is_no_definition_is_named() {
        for (text, said) in [
            ("{\"name\": }", "not JSON"),
            ("name: [", "not YAML"),
            ("", "definition is wanted"),
            ("- a\n- b\n", "definition is wanted"),
            ("just words", "definition is wanted"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(parse("a: 1\na: 2\n").is_err(), "a field that comes twice");
    }
}
