//! `groundwork login`: asks for a server and a key, tries them, stores them.

use std::io::{self, IsTerminal};

use http::Method;
use serde_json::{Value, json};

use super::{
    args::{LoginArgs, Output},
    failure::{Failure, INTERRUPTED, Result},
    hidden::ask_hidden,
    http::{Client, is_in_the_clear},
    print::{ask, json as print_json, note, out, read_line},
};
use crate::config::client::Stored;

/// Runs it.
pub async fn run(args: LoginArgs) -> Result<u8> {
    let terminal = io::stdin().is_terminal();
    let url = match args.remote.url.filter(|url| !url.is_empty()) {
        Some(url) => url,
        None if terminal && !args.api_key_stdin => ask("Server URL: ")?,
        None => {
            return Err(Failure::new(
                "Which server? Give --url, or set GROUNDWORK_URL.",
            ));
        }
    };
    let key = match args.remote.api_key.filter(|key| !key.is_empty()) {
        Some(key) => key,
        None if args.api_key_stdin => read_line()?,
        None if terminal => {
            note(&format!(
                "Make a key under Account in the console ({}/account).",
                url.trim_end_matches('/')
            ));
            match ask_hidden("API key: ").await? {
                Some(key) => key,
                None => return Ok(INTERRUPTED),
            }
        }
        None => {
            return Err(Failure::new(
                "Which key? Send it on standard input with --api-key-stdin, or set GROUNDWORK_API_KEY.",
            ));
        }
    };
    let client = Client::of(&url, &key)?;
    if is_in_the_clear(client.base()) {
        note(
            "Beware: the address begins with http://, so the key and everything else can be read on the way.",
        );
    }
    let answer = client
        .answer(Method::GET, "/groundwork/v1/api-keys", None, None, &[])
        .await?;
    let organization = answer
        .headers()
        .get("recursion-organization-id")
        .and_then(|value| value.to_str().ok())
        .ok_or_else(|| {
            Failure::new(format!(
                "{} is no Groundwork server: check the URL.",
                client.base()
            ))
        })?
        .to_owned();
    let path = Stored {
        url: client.base().as_str().trim_end_matches('/').to_owned(),
        api_key: key,
    }
    .write()
    .map_err(Failure::new)?;
    match args.remote.output {
        Output::Json => print_json(&json!({
            "url": client.base().as_str(),
            "organization_id": organization,
            "stored": Value::from(path.display().to_string()),
        }))?,
        Output::Table => out(&format!(
            "Signed in to {} ({organization}). The key is stored in {}.\n",
            client.base(),
            path.display()
        ))?,
    }
    Ok(0)
}
