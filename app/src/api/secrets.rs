//! Secret variables: their names are shown, values only taken.

use domain::ids::EnvironmentId;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::secrets::SecretItem;

use super::AppError;

/// An environment's secrets, as its page shows them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecretsView {
    /// By name.
    pub secrets: Vec<SecretItem>,
    /// Whether the viewer may set and remove them.
    pub may_change: bool,
}

/// Names of an environment's secrets.
#[server(prefix = "/fn", endpoint = "secrets")]
pub async fn load_secrets(environment_id: EnvironmentId) -> Result<SecretsView, AppError> {
    use super::door;
    let app = door::member()?;
    let list = door::answer(
        &app.ctx,
        app.control.list_secrets(&app.ctx, environment_id).await,
    )?;
    Ok(SecretsView {
        secrets: list.secrets,
        may_change: app.ctx.may().change,
    })
}

/// Sets a secret or replaces its value; answers its name.
#[server(name = SetSecret, prefix = "/fn", endpoint = "set-secret")]
pub async fn set_secret(
    environment_id: EnvironmentId,
    name: String,
    value: String,
) -> Result<String, AppError> {
    use super::door;
    let app = door::member()?;
    // What a form's text area sends.
    let value = control::Secret::new(value.replace("\r\n", "\n"));
    let set = app
        .control
        .set_secret(&app.ctx, environment_id, name.trim(), &value)
        .await;
    door::answer(&app.ctx, set).map(|item| item.name)
}

/// What a pasted `.env` text set, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariablesSet {
    /// Secret variables.
    pub secret: Vec<String>,
    /// Environment variables.
    pub plain: Vec<String>,
}

/// Sets the variables of a `.env` text: those named in `secret` as secrets, the others as environment variables. Unless
/// somebody has chosen, names and values tell which is which.
#[server(name = SetVariables, prefix = "/fn", endpoint = "set-variables")]
pub async fn set_variables(
    environment_id: EnvironmentId,
    dotenv: String,
    #[server(default)] secret: Vec<String>,
    #[server(default)] chosen: bool,
) -> Result<VariablesSet, AppError> {
    use super::door;
    let app = door::member()?;
    let lines = match crate::draft::parse_dotenv(&dotenv) {
        Ok(lines) if lines.is_empty() => Err("There is no NAME=value line.".to_owned()),
        read => read,
    };
    let lines = lines.map_err(|message| control::Error::invalid_field("dotenv", message));
    let lines = door::answer(&app.ctx, lines)?;
    let (secret, plain): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(name, value)| {
        if chosen {
            secret.contains(name)
        } else {
            domain::secrets::looks_secret(name, value)
        }
    });
    let names = |lines: &[(String, String)]| lines.iter().map(|(name, _)| name.clone()).collect();
    let answer = VariablesSet {
        secret: names(&secret),
        plain: names(&plain),
    };
    let variables = control::variables::Variables {
        plain: plain.into_iter().collect(),
        secret: secret
            .into_iter()
            .map(|(name, value)| (name, control::Secret::new(value)))
            .collect(),
    };
    let set = app
        .control
        .set_variables(&app.ctx, environment_id, &variables)
        .await;
    door::answer(&app.ctx, set).map(|()| answer)
}

/// Removes a secret; answers its name.
#[server(name = DeleteSecret, prefix = "/fn", endpoint = "delete-secret")]
pub async fn delete_secret(
    environment_id: EnvironmentId,
    name: String,
) -> Result<String, AppError> {
    use super::door;
    let app = door::member()?;
    let gone = app
        .control
        .delete_secret(&app.ctx, environment_id, &name)
        .await;
    door::answer(&app.ctx, gone).map(|_| name)
}
