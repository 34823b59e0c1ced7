//! What `apply` would do: the differences between a file and what is saved, by the server's own rules.

use domain::{
    compute::Machine,
    diff::{FieldChange, changed_fields},
    environment::{Catalog, Definition, parse_create},
    limits,
};
use serde_json::{Map, Value, json};

use super::failure::{Failure, Result};

/// The fields of an environment that a file may hold.
const FIELDS: [&str; 17] = [
    "name",
    "description",
    "metadata",
    "provider",
    "config",
    "setup",
    "resources",
    "network_policy",
    "privileged",
    "pvc_size_gi",
    "env_vars",
    "mounts",
    "computer_use",
    "http_port",
    "idle_stop_after_seconds",
    "stopped_delete_after_seconds",
    "template",
];

/// The part of a saved environment that a file may hold; what stands at its default is left out.
pub fn definition(environment: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    for field in FIELDS {
        let Some(value) = environment.get(field) else {
            continue;
        };
        let default = match field {
            "name" | "provider" | "network_policy" => false,
            _ => {
                value.is_null()
                    || *value == json!(false)
                    || *value == json!(0)
                    || *value == json!({})
                    || *value == json!([])
            }
        };
        if !default {
            found.insert(field.to_owned(), value.clone());
        }
    }
    found
}

/// Differences, and the update that removes them.
pub struct Plan {
    /// Each field that differs.
    pub changes: Vec<FieldChange>,
    /// The body of the update.
    pub update: Map<String, Value>,
}

/// Compares a file with what is saved. What the file leaves out stays as it is.
pub fn compare(file: &Map<String, Value>, saved: &Value) -> Result<Plan> {
    let base = definition(saved);
    let mut wanted = base.clone();
    for (field, value) in file {
        wanted.insert(field.clone(), value.clone());
    }
    // Where it was made from never changes.
    if let (Some(given), Some(known)) = (file.get("template"), saved.get("template"))
        && given != known
    {
        return Err(Failure::new(
            "template: the template that an environment was made from never changes. Leave it out of the file.",
        ));
    }
    match base.get("template") {
        Some(template) => wanted.insert("template".to_owned(), template.clone()),
        None => wanted.remove("template"),
    };
    let before = read(&base, file)?;
    let after = read(&wanted, file)?;
    let mut changes = changed_fields(&before, &after);
    // The image is the server's to set.
    changes.retain(|change| change.path != "image");
    let mut update = Map::new();
    for change in &changes {
        let field = change.path.split('.').next().unwrap_or(&change.path);
        if let Some(value) = file.get(field) {
            update.insert(field.to_owned(), value.clone());
        }
    }
    if update.contains_key("network_policy") || update.contains_key("privileged") {
        update.insert(
            "expected_access".to_owned(),
            json!({"network_policy": saved["network_policy"], "privileged": saved["privileged"]}),
        );
    }
    Ok(Plan { changes, update })
}

/// Checks a file that a new environment is made from, and what it would set.
pub fn fresh(file: &Map<String, Value>) -> Result<Vec<FieldChange>> {
    let name = file.get("name").cloned().unwrap_or_default();
    let blank = read(&Map::from_iter([("name".to_owned(), name)]), file)?;
    Ok(changed_fields(&blank, &read(file, file)?))
}

/// A body as the rules read it. What the deployment offers is for the server to say, so everything that the bodies name is
/// taken as offered here.
fn read(body: &Map<String, Value>, file: &Map<String, Value>) -> Result<Definition> {
    let mut body = body.clone();
    // A saved environment may have both of what no new one may: compared apart, judged by the server.
    let privileged = body.remove("privileged");
    let catalog = offering(&[&body, file]);
    let issues = match parse_create(&Value::Object(body), &catalog) {
        Ok(mut definition) => match privileged {
            None | Some(Value::Null) => return Ok(definition),
            Some(Value::Bool(on)) => {
                definition.privileged = on;
                return Ok(definition);
            }
            Some(_) => vec!["privileged: Must be true or false.".to_owned()],
        },
        Err(issues) => issues.lines(),
    };
    Err(Failure::new(format!(
        "The definition is wrong:\n  {}",
        issues.join("\n  ")
    )))
}

fn offering(bodies: &[&Map<String, Value>]) -> Catalog {
    let texts = |pick: &dyn Fn(&Map<String, Value>) -> Vec<String>| -> Vec<String> {
        bodies.iter().flat_map(|body| pick(body)).collect()
    };
    let owned = |value: &Value| value.as_str().map(str::to_owned);
    let mut catalog = Catalog::default_runs(
        "",
        Machine {
            cpu_milli: limits::CPU_MILLI_MAX,
            memory_mib: limits::MEMORY_MIB_MAX,
        },
    )
    .with_egress()
    .with_privileged()
    .with_computer_use()
    .with_mounts(texts(&|body| {
        let mounts = body.get("mounts").and_then(Value::as_array);
        mounts
            .into_iter()
            .flatten()
            .filter_map(|mount| mount["source"].as_str()?.strip_prefix("volume:"))
            .map(str::to_owned)
            .collect()
    }))
    .with_accelerators(texts(&|body| {
        let named = body
            .get("resources")
            .map(|resources| &resources["accelerator"]["name"]);
        named.and_then(owned).into_iter().collect()
    }))
    .with_placements(texts(&|body| {
        let places = body
            .get("resources")
            .map(|resources| &resources["placement"]["providers"]);
        let places = places.and_then(Value::as_array);
        places.into_iter().flatten().filter_map(owned).collect()
    }))
    .with_config_keys(texts(&|body| {
        let config = body.get("config").and_then(Value::as_object);
        config
            .into_iter()
            .flat_map(|config| config.keys().cloned())
            .collect()
    }));
    for provider in texts(&|body| body.get("provider").and_then(owned).into_iter().collect()) {
        if !catalog
            .providers
            .iter()
            .any(|known| known.provider == provider)
        {
            let mut other = domain::environment::Provider::runs();
            other.provider = provider;
            catalog.providers.push(other);
        }
    }
    catalog
}

/// The differences for people: a line each, and scripts as lines taken out and put in.
pub fn show(changes: &[FieldChange]) -> String {
    let mut text = String::new();
    for change in changes {
        let mark = if change.affects_verdict { " *" } else { "" };
        if change.before.contains('\n') || change.after.contains('\n') {
            text.push_str(&format!("  ~ {}{mark}\n", change.path));
            for line in lines_that_differ(&change.before, &change.after) {
                text.push_str(&format!("      {}\n", super::print::plain(&line)));
            }
        } else {
            text.push_str(&format!(
                "  ~ {}: {} → {}{mark}\n",
                change.path,
                super::print::plain(&change.before),
                super::print::plain(&change.after)
            ));
        }
    }
    if changes.iter().any(|change| change.affects_verdict) {
        text.push_str("  * setup has to be tested again after this change\n");
    }
    text
}

/// Lines of two texts by longest common subsequence: `- ` taken out, `+ ` put in; what stays the same is left out but for
/// one line around.
fn lines_that_differ(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // Too long to compare line by line: said as a whole.
    if old.len().saturating_mul(new.len()) > 4_000_000 {
        return vec![
            format!("- {} lines", old.len()),
            format!("+ {} lines", new.len()),
        ];
    }
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut all: Vec<(char, &str)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            all.push((' ', old[i]));
            i += 1;
            j += 1;
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            all.push(('-', old[i]));
            i += 1;
        } else {
            all.push(('+', new[j]));
            j += 1;
        }
    }
    let near = |at: usize| {
        let from = at.saturating_sub(1);
        all[from..(at + 2).min(all.len())]
            .iter()
            .any(|(mark, _)| *mark != ' ')
    };
    let mut shown = Vec::new();
    let mut left_out = false;
    for (at, (mark, line)) in all.iter().enumerate() {
        if near(at) {
            shown.push(format!("{mark} {line}").trim_end().to_owned());
            left_out = false;
        } else if !left_out {
            shown.push("…".to_owned());
            left_out = true;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Value {
        json!({
            "environment_id": "x", "organization_id": "y", "name": "a", "provider": "runs", "image": "i",
            "setup": {"script": "echo one\necho two\n"}, "resources": {"cpu_milli": 2000},
            "network_policy": {"version": "v1", "rules": []}, "privileged": false, "pvc_size_gi": 0,
            "computer_use": false, "http_port": 0, "idle_stop_after_seconds": 0, "stopped_delete_after_seconds": 0,
            "setup_verification": {"status": "never", "stale": false},
        })
    }

    fn plan(file: Value) -> Plan {
        compare(file.as_object().unwrap(), &saved()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_is_written_otherwise_but_means_the_same_is_no_difference() {
        for file in [
            json!({"name": " a "}),
            json!({"setup": {"script": "echo one  \r\necho two"}}),
            json!({"setup": {"script": "echo one\necho two\n", "timeout_seconds": 0}}),
            json!({"env_vars": {}, "mounts": [], "description": ""}),
            json!({"resources": {"cpu_milli": 2000, "memory_mib": 0}}),
            json!(definition(&saved())),
        ] {
            let plan = plan(file.clone());
            assert!(
                plan.changes.is_empty() && plan.update.is_empty(),
                "{file}: {:?}",
                plan.changes
            );
        }
    }

    #[test]
    fn an_update_holds_the_fields_that_differ_and_what_access_was_read() {
        let plan = plan(json!({
            "name": "a", "pvc_size_gi": 20, "env_vars": {"A": "1"},
            "network_policy": {"version": "v1", "rules": [{"match": {"host_glob": "b.c"}, "action": {"type": "allow"}}]},
        }));
        let fields: Vec<&str> = plan.update.keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "env_vars",
                "expected_access",
                "network_policy",
                "pvc_size_gi"
            ]
        );
        assert_eq!(
            plan.update["expected_access"],
            json!({"network_policy": {"version": "v1", "rules": []}, "privileged": false})
        );
        let shown = show(&plan.changes);
        assert!(shown.contains("env_vars.A"), "{shown}");
        assert!(shown.contains("pvc_size_gi: 10 GiB"), "{shown}");
    }

    #[test]
    fn a_changed_script_shows_the_lines_that_differ() {
        let shown = show(&plan(json!({"setup": {"script": "echo one\necho three\n"}})).changes);
        assert!(
            shown.contains("- echo two\n") && shown.contains("+ echo three\n"),
            "{shown}"
        );
    }

    #[test]
    fn wrong_fields_are_all_named_before_anything_is_sent() {
        let file = json!({"nmae": "x", "pvc_size_gi": 500, "privileged": "yes"});
        let error = compare(file.as_object().unwrap(), &saved())
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("nmae") && error.contains("pvc_size_gi"),
            "{error}"
        );
    }
}
