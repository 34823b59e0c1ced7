//! API keys.

use domain::{ids::ApiKeyId, roles::Role};
use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::console::ApiKeyItem;

use super::AppError;

/// Keys, and one that was just made without scripting: it is shown once.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct KeysPage {
    /// Newest first.
    pub keys: Vec<ApiKeyItem>,
    /// The viewer's role: a key's is at most that.
    pub role: Role,
    /// The secret of a key made by a plain form post.
    pub made: Option<String>,
    /// The server's time, microseconds since the epoch.
    pub now_micros: i64,
}

/// Keys: one's own, or everyone's.
#[server(prefix = "/fn", endpoint = "keys")]
pub async fn load_keys(everyones: bool) -> Result<KeysPage, AppError> {
    use super::door;
    use control::api_keys::Whose;
    let app = door::member()?;
    let whose = if everyones {
        Whose::Everyones
    } else {
        Whose::Mine
    };
    let keys = door::answer(&app.ctx, app.control.api_keys(&app.ctx, whose).await)?;
    let role = match &app.ctx.caller {
        control::Caller::Member(member) => member.role,
        _ => Role::User,
    };
    let made = app.session.take_note("key").await?;
    Ok(KeysPage {
        keys,
        role,
        made,
        now_micros: app.control.clock().now().micros(),
    })
}

/// Makes a key; the answer holds its secret, which is shown once.
#[server(name = CreateKey, prefix = "/fn", endpoint = "create-key")]
pub async fn create_key(
    name: String,
    role: Role,
    #[server(default)] expires_in_days: String,
) -> Result<String, AppError> {
    use super::door;
    let app = door::member()?;
    let request = control::api_keys::ApiKeyRequest {
        name,
        role,
        expires_in_days: crate::draft::optional_number(&expires_in_days, "expires_in_days")?,
    };
    let made = door::answer(
        &app.ctx,
        app.control.create_api_key(&app.ctx, request).await,
    )?;
    let secret = made.secret.expose().to_owned();
    if door::is_plain_form_post() {
        app.session.put_note("key", secret.clone()).await?;
    }
    Ok(secret)
}

/// Ends a key at once.
#[server(name = RevokeKey, prefix = "/fn", endpoint = "revoke-key")]
pub async fn revoke_key(api_key_id: ApiKeyId) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(
        &app.ctx,
        app.control.revoke_api_key(&app.ctx, api_key_id).await,
    )
}
