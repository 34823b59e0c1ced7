//! `groundwork session`: sandboxes of a server, and commands in them.

use std::io::{self, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::{Value, json};

use super::{
    args::{Output, Remote, SessionCommand},
    environments::{find, fresh_key},
    events::Events,
    failure::{Failure, Result},
    http::Client,
    interrupts::Interrupts,
    print::{json as print_json, note, out, plain, table},
};

const TREE: &str = "/groundwork/v1/sessions";
/// Exit code where a command's own never came.
const NO_CODE: u8 = 125;
/// Exit code of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// How a command wants its answer.
pub fn output(command: &SessionCommand) -> Output {
    match command {
        SessionCommand::Start { remote, .. }
        | SessionCommand::List { remote, .. }
        | SessionCommand::Exec { remote, .. }
        | SessionCommand::Stop { remote, .. } => remote.output,
    }
}

/// Runs one.
pub async fn run(command: SessionCommand) -> Result<u8> {
    match command {
        SessionCommand::Start {
            remote,
            environment,
        } => start(&remote, &environment).await,
        SessionCommand::List { remote } => list(&remote).await,
        SessionCommand::Exec {
            remote,
            session,
            timeout,
            command,
        } => exec(&remote, &session, timeout, &command).await,
        SessionCommand::Stop { remote, session } => stop(&remote, &session).await,
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Starts one and waits until commands can run in it.
async fn start(remote: &Remote, wanted: &str) -> Result<u8> {
    let client = Client::new(remote)?;
    let environment = find(&client, wanted).await?;
    let body = json!({"environment_id": environment["environment_id"]});
    let mut session = client
        .send(Method::POST, TREE, Some(&body), Some(&fresh_key()))
        .await?;
    let path = format!("{TREE}/{}", text(&session, "session_id"));
    note(&format!(
        "Session {} is being prepared …",
        text(&session, "session_id")
    ));
    loop {
        match text(&session, "status") {
            "running" => break,
            "provisioning" => {}
            _ => {
                return Err(Failure::new(format!(
                    "Session {} did not start: {}",
                    text(&session, "session_id"),
                    plain(text(&session, "message"))
                )));
            }
        }
        session = client.get(&format!("{path}?wait_seconds=5")).await?;
    }
    match remote.output {
        Output::Json => print_json(&session)?,
        Output::Table => out(&format!("{}\n", text(&session, "session_id")))?,
    }
    Ok(0)
}

async fn list(remote: &Remote) -> Result<u8> {
    let found = Client::new(remote)?.get(TREE).await?;
    if remote.output == Output::Json {
        print_json(&found)?;
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = found["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|session| {
            vec![
                text(session, "session_id").to_owned(),
                plain(text(session, "environment_name")),
                text(session, "status").to_owned(),
                text(session, "created_at").to_owned(),
            ]
        })
        .collect();
    out(&table(&["ID", "ENVIRONMENT", "STATUS", "CREATED"], &rows))?;
    Ok(0)
}

async fn stop(remote: &Remote, session: &str) -> Result<u8> {
    let stopped = Client::new(remote)?
        .send(
            Method::POST,
            &format!("{TREE}/{}/stop", checked(session)?),
            None,
            None,
        )
        .await?;
    match remote.output {
        Output::Json => print_json(&stopped)?,
        Output::Table => out(&format!("{session}: stopping\n"))?,
    }
    Ok(0)
}

/// An id is put into a path: nothing else may be.
fn checked(session: &str) -> Result<String> {
    uuid::Uuid::try_parse(session)
        .map(|id| id.to_string())
        .map_err(|_| {
            Failure::new(format!(
                "{session:?} is not the id of a session. List them with `groundwork session list`."
            ))
        })
}

/// Runs a command, its output as it is written, and ends as it ends. Hanging up kills it, so Ctrl-C does.
async fn exec(
    remote: &Remote,
    session: &str,
    timeout: Option<u32>,
    command: &[String],
) -> Result<u8> {
    let client = Client::new(remote)?;
    let mut body = json!({ "argv": command });
    if let Some(seconds) = timeout {
        body["timeout_seconds"] = json!(seconds);
    }
    let mut interrupts = Interrupts::listen()?;
    let path = format!("{TREE}/{}/exec", checked(session)?);
    let stream = [("accept", "text/event-stream")];
    let mut response = tokio::select! {
        opened = client.answer(Method::POST, &path, Some(&body), None, &stream) => opened?,
        () = interrupts.next() => return Ok(INTERRUPTED),
    };
    let mut events = Events::default();
    loop {
        let chunk = tokio::select! {
            chunk = response.chunk() => chunk,
            () = interrupts.next() => return Ok(INTERRUPTED),
        };
        let Ok(Some(bytes)) = chunk else {
            return Err(Failure::new(
                "The connection was lost, and the command with it: hanging up kills it.",
            ));
        };
        for event in events.push(&bytes) {
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            match event.name.as_str() {
                "stdout" => write(&mut io::stdout(), &bytes_of(&data))?,
                "stderr" => write(&mut io::stderr(), &bytes_of(&data))?,
                "exit" => {
                    let code = data["exit_code"].as_i64().map(u8::try_from);
                    return Ok(match code {
                        Some(Ok(code)) => code,
                        _ => NO_CODE,
                    });
                }
                "error" => return Err(Failure::refused(500, data)),
                _ => {}
            }
        }
    }
}

fn bytes_of(data: &Value) -> Vec<u8> {
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> Result<()> {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .map_err(|error| Failure::new(format!("The output cannot be written ({error}).")))
}
