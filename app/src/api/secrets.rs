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

/// Sets every variable of a `.env` text as a secret, up to the first that is refused; answers their names.
#[server(name = SetSecrets, prefix = "/fn", endpoint = "set-secrets")]
pub async fn set_secrets(
    environment_id: EnvironmentId,
    dotenv: String,
) -> Result<String, AppError> {
    use super::door;
    let app = door::member()?;
    let vars = crate::draft::parse_dotenv(&dotenv).map_err(|message| {
        let error = control::Error::invalid_field("dotenv", message);
        door::answer::<()>(&app.ctx, Err(error))
            .err()
            .unwrap_or_else(|| AppError::new(wire::error::Code::InvalidRequest, ""))
    })?;
    let mut set = Vec::new();
    for (name, value) in vars {
        let value = control::Secret::new(value);
        let answer = app
            .control
            .set_secret(&app.ctx, environment_id, &name, &value)
            .await;
        if let Err(mut error) = door::answer(&app.ctx, answer) {
            error.0.message = match set.is_empty() {
                true => format!("{name}: {}", error.0.message),
                false => format!(
                    "{name}: {} Set before it: {}.",
                    error.0.message,
                    set.join(", ")
                ),
            };
            return Err(error);
        }
        set.push(name);
    }
    Ok(set.join(", "))
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
