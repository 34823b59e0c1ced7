//! `groundwork env`: environments of a server.

use std::{fs, path::Path};

use control::ports::Ids;
use http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    args::{EnvCommand, Format, Output, Remote},
    failure::{DIFFERS, Failure, Result},
    file,
    http::Client,
    plan,
    print::{confirm, json as print_json, note, out, plain, table},
};
use crate::clock::SystemIds;

/// A key that makes sending a request twice safe.
pub fn fresh_key() -> String {
    SystemIds.next_uuid().to_string()
}

const TREE: &str = "/managed-agents/v1/environments";

/// How a command wants its answer.
pub fn output(command: &EnvCommand) -> Output {
    match command {
        EnvCommand::List { remote, .. }
        | EnvCommand::Get { remote, .. }
        | EnvCommand::Create { remote, .. }
        | EnvCommand::Apply { remote, .. }
        | EnvCommand::Export { remote, .. }
        | EnvCommand::Delete { remote, .. } => remote.output,
    }
}

/// Runs one.
pub async fn run(command: EnvCommand) -> Result<u8> {
    match command {
        EnvCommand::List {
            remote,
            query,
            status,
        } => list(&remote, query, status).await,
        EnvCommand::Get {
            remote,
            environment,
        } => {
            let found = find(&Client::new(&remote)?, &environment).await?;
            show(remote.output, &found)?;
            Ok(0)
        }
        EnvCommand::Create { remote, file, name } => create(&remote, file.as_deref(), name).await,
        EnvCommand::Apply {
            remote,
            file,
            yes,
            dry_run,
        } => apply(&remote, &file, yes, dry_run).await,
        EnvCommand::Export {
            remote,
            environment,
            file,
            portable,
            format,
        } => export(&remote, &environment, file.as_deref(), portable, format).await,
        EnvCommand::Delete {
            remote,
            environment,
            yes,
        } => delete(&remote, &environment, yes).await,
    }
}

async fn list(remote: &Remote, query: Option<String>, status: Option<String>) -> Result<u8> {
    let client = Client::new(remote)?;
    let found = search(&client, query.as_deref(), status.as_deref()).await?;
    if remote.output == Output::Json {
        print_json(&json!({ "environments": found }))?;
        return Ok(0);
    }
    if found.is_empty() {
        note("No environments. Make one with `groundwork env create` or `groundwork env apply`.");
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|environment| {
            vec![
                plain(text(environment, "name")),
                text(environment, "environment_id").to_owned(),
                setup_word(environment),
                size(environment),
                text(environment, "updated_at").to_owned(),
            ]
        })
        .collect();
    out(&table(&["NAME", "ID", "SETUP", "SIZE", "UPDATED"], &rows))?;
    Ok(0)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// `verified`, `verified, stale`, …
fn setup_word(environment: &Value) -> String {
    let verdict = &environment["setup_verification"];
    let word = text(verdict, "status");
    if verdict["stale"] == json!(true) {
        format!("{word}, stale")
    } else {
        word.to_owned()
    }
}

fn size(environment: &Value) -> String {
    use domain::{
        compute::{show_cpu, show_memory},
        limits,
    };
    let resources = &environment["resources"];
    if let Some(name) = resources["accelerator"]["name"].as_str() {
        return plain(name);
    }
    let or = |value: &Value, default: u32| match value.as_u64().map(u32::try_from) {
        Some(Ok(number)) if number != 0 => number,
        _ => default,
    };
    format!(
        "{} · {} · {} GiB disk",
        show_cpu(or(&resources["cpu_milli"], limits::CPU_MILLI_DEFAULT)),
        show_memory(or(&resources["memory_mib"], limits::MEMORY_MIB_DEFAULT)),
        or(&environment["pvc_size_gi"], limits::DISK_GI_DEFAULT)
    )
}

/// Everything that matches, over all pages.
async fn search(client: &Client, query: Option<&str>, status: Option<&str>) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        parameters.append_pair("limit", "200");
        for (name, value) in [
            ("query", query),
            ("status", status),
            ("cursor", cursor.as_deref()),
        ] {
            if let Some(value) = value {
                parameters.append_pair(name, value);
            }
        }
        let page = client
            .get(&format!(
                "/groundwork/v1/environments?{}",
                parameters.finish()
            ))
            .await?;
        if let Value::Array(items) = &page["environments"] {
            found.extend(items.iter().cloned());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(found),
        }
    }
}

/// The environment with this id, or with this name where only one has it.
pub async fn find(client: &Client, wanted: &str) -> Result<Value> {
    if Uuid::try_parse(wanted).is_ok() {
        return client
            .get(&format!("{TREE}/{}", wanted.to_lowercase()))
            .await
            .map_err(|failure| match failure.status {
                Some(404) => Failure::new(format!(
                    "There is no environment {wanted}. List what there is with `groundwork env list`."
                )),
                _ => failure,
            });
    }
    match by_name(client, wanted).await? {
        Some(found) => Ok(found),
        None => Err(Failure::new(format!(
            "There is no environment named {wanted:?}. List what there is with `groundwork env list`."
        ))),
    }
}

async fn by_name(client: &Client, name: &str) -> Result<Option<Value>> {
    let name = name.trim();
    let mut same: Vec<Value> = search(client, Some(name), None)
        .await?
        .into_iter()
        .filter(|environment| text(environment, "name") == name)
        .collect();
    if same.len() > 1 {
        let ids: Vec<String> = same
            .iter()
            .map(|environment| {
                format!(
                    "  {}  made {}",
                    text(environment, "environment_id"),
                    text(environment, "created_at")
                )
            })
            .collect();
        return Err(Failure::new(format!(
            "{} environments are named {name:?}. Say which by its id (in a file: environment_id):\n{}",
            same.len(),
            ids.join("\n")
        )));
    }
    Ok(same.pop())
}

fn show(output: Output, environment: &Value) -> Result<()> {
    if output == Output::Json {
        return print_json(environment);
    }
    let mut rows = vec![
        ("Name", plain(text(environment, "name"))),
        ("Id", text(environment, "environment_id").to_owned()),
        ("Description", plain(text(environment, "description"))),
        ("Setup", setup_word(environment)),
        ("Size", size(environment)),
        (
            "Internet access",
            match environment["network_policy"]["rules"].as_array() {
                None => "every host".to_owned(),
                Some(rules) if rules.is_empty() => "none".to_owned(),
                Some(rules) => format!("{} rules", rules.len()),
            },
        ),
        ("Created", text(environment, "created_at").to_owned()),
        ("Updated", text(environment, "updated_at").to_owned()),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    let width = rows
        .iter()
        .map(|(label, _)| label.len())
        .max()
        .unwrap_or_default();
    let mut shown = String::new();
    for (label, value) in rows {
        shown.push_str(&format!("{label:<width$}  {value}\n"));
    }
    for warning in environment["setup_warnings"]
        .as_array()
        .into_iter()
        .flatten()
    {
        shown.push_str(&format!(
            "Warning, line {}: {}\n",
            warning["line"],
            plain(text(warning, "message"))
        ));
    }
    out(&shown)
}

async fn create(remote: &Remote, path: Option<&Path>, name: Option<String>) -> Result<u8> {
    let mut body = match path {
        Some(path) => file::read(path)?,
        None => Map::new(),
    };
    // A file that was exported names what it came from.
    body.remove("environment_id");
    if let Some(name) = name {
        body.insert("name".to_owned(), Value::String(name));
    }
    let made = make(&Client::new(remote)?, &body).await?;
    show(remote.output, &made)?;
    Ok(0)
}

async fn make(client: &Client, body: &Map<String, Value>) -> Result<Value> {
    let key = fresh_key();
    client
        .send(
            Method::POST,
            TREE,
            Some(&Value::Object(body.clone())),
            Some(&key),
        )
        .await
}

async fn apply(remote: &Remote, path: &Path, yes: bool, dry_run: bool) -> Result<u8> {
    let mut wanted = file::read(path)?;
    let id = match wanted.remove("environment_id") {
        None => None,
        Some(Value::String(id)) if Uuid::try_parse(&id).is_ok() => Some(id),
        Some(_) => {
            return Err(Failure::new(
                "environment_id: this is not the id of an environment. Leave it out to match by name.",
            ));
        }
    };
    let name = wanted
        .get("name")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let client = Client::new(remote)?;
    let saved = match (&id, &name) {
        (Some(id), _) => Some(find(&client, id).await.map_err(|failure| {
            if failure.status.is_none() && failure.message.starts_with("There is no environment") {
                Failure::new(format!(
                    "environment_id: there is no environment {id} on this server. Leave it out to match by name, or to make one."
                ))
            } else {
                failure
            }
        })?),
        (None, Some(name)) => by_name(&client, name).await?,
        (None, None) => {
            return Err(Failure::new(
                "name: the file says neither name nor environment_id, so it is of no environment.",
            ));
        }
    };
    match saved {
        None => apply_new(remote, &client, &wanted, yes, dry_run).await,
        Some(saved) => apply_changes(remote, &client, &wanted, &saved, yes, dry_run).await,
    }
}

async fn apply_new(
    remote: &Remote,
    client: &Client,
    wanted: &Map<String, Value>,
    yes: bool,
    dry_run: bool,
) -> Result<u8> {
    let changes = plan::fresh(wanted)?;
    let name = plain(wanted["name"].as_str().unwrap_or_default());
    note(&format!("+ create environment {name:?}"));
    note(plan::show(&changes).trim_end());
    if dry_run {
        return report(remote, "create", None, &changes, DIFFERS);
    }
    if !yes && !confirm("Create it?", "--yes")? {
        return Err(Failure::new("Nothing was changed."));
    }
    let made = make(client, wanted).await?;
    report(remote, "created", Some(&made), &changes, 0)
}

async fn apply_changes(
    remote: &Remote,
    client: &Client,
    wanted: &Map<String, Value>,
    saved: &Value,
    yes: bool,
    dry_run: bool,
) -> Result<u8> {
    let plan = plan::compare(wanted, saved)?;
    let id = text(saved, "environment_id");
    if plan.changes.is_empty() {
        return report(remote, "unchanged", Some(saved), &[], 0);
    }
    note(&format!(
        "~ change environment {:?} ({id})",
        plain(text(saved, "name"))
    ));
    note(plan::show(&plan.changes).trim_end());
    if dry_run {
        return report(remote, "change", Some(saved), &plan.changes, DIFFERS);
    }
    if !yes {
        if !confirm("Apply these changes?", "--yes")? {
            return Err(Failure::new("Nothing was changed."));
        }
        // Reading the plan may have taken a while, and it says what would change in what was read.
        if plan::definition(&find(client, id).await?) != plan::definition(saved) {
            return Err(Failure::new(
                "Somebody changed the environment while you read the plan. Nothing was changed: run it again to see the new differences.",
            ));
        }
    }
    let key = fresh_key();
    let now = client
        .send(
            Method::PATCH,
            &format!("{TREE}/{id}"),
            Some(&Value::Object(plan.update)),
            Some(&key),
        )
        .await?;
    report(remote, "changed", Some(&now), &plan.changes, 0)
}

/// What was done, or would be.
fn report(
    remote: &Remote,
    done: &str,
    environment: Option<&Value>,
    changes: &[domain::diff::FieldChange],
    code: u8,
) -> Result<u8> {
    if remote.output == Output::Json {
        print_json(&json!({
            "result": done, "changes": changes, "environment": environment,
        }))?;
        return Ok(code);
    }
    let id = environment.map_or("", |environment| text(environment, "environment_id"));
    match done {
        "unchanged" => out(&format!("{id}: no changes\n"))?,
        "created" | "changed" => out(&format!("{id}: {done}\n"))?,
        _ => {}
    }
    let verdict = environment.map(|environment| &environment["setup_verification"]);
    let to_test = verdict.is_some_and(|verdict| {
        verdict["stale"] == json!(true) || matches!(text(verdict, "status"), "never" | "failed")
    });
    if code == 0 && to_test && done != "unchanged" {
        note(&format!(
            "Setup has to be tested: groundwork test {id} --follow"
        ));
    }
    Ok(code)
}

async fn export(
    remote: &Remote,
    wanted: &str,
    path: Option<&Path>,
    portable: bool,
    format: Format,
) -> Result<u8> {
    let environment = find(&Client::new(remote)?, wanted).await?;
    let mut definition = plan::definition(&environment);
    if !portable {
        definition.insert(
            "environment_id".to_owned(),
            environment["environment_id"].clone(),
        );
    }
    let shown = file::write(&definition, format)?;
    match path {
        None => out(&shown)?,
        Some(path) => {
            fs::write(path, shown).map_err(|error| {
                Failure::new(format!("{} cannot be written: {error}.", path.display()))
            })?;
        }
    }
    Ok(0)
}

async fn delete(remote: &Remote, wanted: &str, yes: bool) -> Result<u8> {
    let client = Client::new(remote)?;
    let environment = find(&client, wanted).await?;
    let id = text(&environment, "environment_id");
    let question = format!(
        "Delete environment {:?} ({id})? It cannot be undone.",
        plain(text(&environment, "name"))
    );
    if !yes && !confirm(&question, "--yes")? {
        return Err(Failure::new("Nothing was deleted."));
    }
    let gone = client
        .send(Method::DELETE, &format!("{TREE}/{id}"), None, None)
        .await?;
    match remote.output {
        Output::Json => print_json(&gone)?,
        Output::Table => out(&format!("{id}: deleted\n"))?,
    }
    Ok(0)
}
