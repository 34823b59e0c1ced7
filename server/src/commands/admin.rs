//! Administration without a browser.

use std::process::ExitCode;

use control::{OpCtx, api_keys::ApiKeyRequest};

use super::{image::refused, open::Opened, say};
use crate::{
    cli::{AdminCommand, MemberArgs},
    config::Settings,
    datadir::DataDir,
    fatal::Fatal,
};

/// Runs one; may run beside the server.
pub async fn run(command: AdminCommand) -> Result<ExitCode, Fatal> {
    let args = match &command {
        AdminCommand::CreateMember(args) | AdminCommand::CreateApiKey(args) => args,
    };
    let settings = Settings::for_places(&args.places)?;
    let dir = DataDir::open(&settings.data)?;
    let opened = Opened::new(&settings, &dir, None).await?;
    let done = match &command {
        AdminCommand::CreateMember(args) => create_member(&opened, args).await,
        AdminCommand::CreateApiKey(args) => create_api_key(&opened, args).await,
    };
    opened.database.close().await;
    say(&done?)?;
    Ok(ExitCode::SUCCESS)
}

async fn create_member(opened: &Opened, args: &MemberArgs) -> Result<String, Fatal> {
    let member = opened
        .control
        .create_member(&OpCtx::system("admin-cli"), &args.email, args.role)
        .await
        .map_err(|e| refused(&e))?;
    Ok(format!(
        "{} ({}, {})",
        member.email, member.role, member.user_id
    ))
}

async fn create_api_key(opened: &Opened, args: &MemberArgs) -> Result<String, Fatal> {
    let made = opened
        .control
        .create_api_key_for(
            &OpCtx::system("admin-cli"),
            &args.email,
            ApiKeyRequest {
                name: "command line".to_owned(),
                role: args.role,
                expires_in_days: None,
            },
        )
        .await
        .map_err(|e| refused(&e))?;
    Ok(made.secret.expose().to_owned())
}
