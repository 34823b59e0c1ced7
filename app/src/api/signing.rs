//! First start, signing in and out, invitations, one's own account.

use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use wire::console::{InvitationPage, Viewer};

use super::AppError;

/// What the console's frame needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Who looks.
    pub viewer: Viewer,
    /// The server's time, microseconds since the epoch: pages count on from it, not from the reader's clock.
    pub now_micros: i64,
}

/// Who looks, for the console's frame.
#[server(prefix = "/fn", endpoint = "frame")]
pub async fn load_frame() -> Result<Frame, AppError> {
    use super::door;
    let app = door::member()?;
    let viewer = door::answer(&app.ctx, app.control.viewer(&app.ctx).await)?;
    Ok(Frame {
        viewer,
        now_micros: app.control.clock().now().micros(),
    })
}

/// Whether the first organization is still to be made; the sign-in page then leads to `/setup`, and the other way round.
#[server(prefix = "/fn", endpoint = "needs-setup")]
pub async fn needs_setup() -> Result<bool, AppError> {
    use super::door;
    let app = door::app_context()?;
    door::answer(&app.ctx, app.control.needs_setup().await)
}

/// Makes the organization and its first admin, and signs in.
#[server(name = SetUp, prefix = "/fn", endpoint = "set-up")]
pub async fn set_up(
    token: String,
    organization: String,
    display_name: String,
    email: String,
    password: String,
) -> Result<(), AppError> {
    use super::door;
    let app = door::app_context()?;
    let first = control::accounts::Bootstrap {
        organization_name: organization,
        email,
        display_name,
        password: password.into(),
    };
    let signed = door::answer(
        &app.ctx,
        app.control.bootstrap(&app.ctx, &token.into(), first).await,
    )?;
    app.session
        .sign_in(signed.member.user_id, signed.session_epoch)
        .await?;
    door::redirect(crate::links::ENVIRONMENTS);
    Ok(())
}

/// Signs in and goes where the reader wanted to go.
#[server(name = SignIn, prefix = "/fn", endpoint = "sign-in")]
pub async fn sign_in(
    email: String,
    password: String,
    #[server(default)] next: String,
) -> Result<(), AppError> {
    use super::door;
    let app = door::app_context()?;
    let signed = door::answer(
        &app.ctx,
        app.control
            .sign_in(&app.ctx, &email, &password.into())
            .await,
    )?;
    app.session
        .sign_in(signed.member.user_id, signed.session_epoch)
        .await?;
    door::redirect(crate::links::local(&next).unwrap_or(crate::links::ENVIRONMENTS));
    Ok(())
}

/// Ends this browser's sign-in.
#[server(name = SignOut, prefix = "/fn", endpoint = "sign-out")]
pub async fn sign_out() -> Result<(), AppError> {
    let app = super::door::app_context()?;
    app.session.sign_out().await?;
    super::door::redirect(crate::links::SIGN_IN);
    Ok(())
}

/// What an invitation offers; anyone with the link may ask.
#[server(prefix = "/fn", endpoint = "invitation")]
pub async fn load_invitation(token: String) -> Result<InvitationPage, AppError> {
    use super::door;
    let app = door::app_context()?;
    door::answer(&app.ctx, app.control.invitation_page(&token.into()).await)
}

/// Accepts an invitation and signs in.
#[server(name = AcceptInvitation, prefix = "/fn", endpoint = "accept-invitation")]
pub async fn accept_invitation(
    token: String,
    display_name: String,
    password: String,
) -> Result<(), AppError> {
    use super::door;
    let app = door::app_context()?;
    let accepted = app
        .control
        .accept_invitation(&app.ctx, &token.into(), &display_name, &password.into())
        .await;
    let signed = door::answer(&app.ctx, accepted)?;
    app.session
        .sign_in(signed.member.user_id, signed.session_epoch)
        .await?;
    door::redirect(crate::links::ENVIRONMENTS);
    Ok(())
}

/// Changes the password; every other sign-in ends, this one stays.
#[server(name = ChangePassword, prefix = "/fn", endpoint = "change-password")]
pub async fn change_password(current: String, new: String) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let changed = app
        .control
        .change_password(&app.ctx, &current.into(), &new.into())
        .await;
    let epoch = door::answer(&app.ctx, changed)?;
    keep_signed_in(&app, epoch).await
}

/// Ends all of one's other sign-ins; this one stays.
#[server(name = SignOutEverywhere, prefix = "/fn", endpoint = "sign-out-everywhere")]
pub async fn sign_out_everywhere() -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    let epoch = door::answer(&app.ctx, app.control.sign_out_everywhere(&app.ctx).await)?;
    keep_signed_in(&app, epoch).await
}

/// Changes one's display name.
#[server(name = ChangeDisplayName, prefix = "/fn", endpoint = "change-display-name")]
pub async fn change_display_name(name: String) -> Result<(), AppError> {
    use super::door;
    let app = door::member()?;
    door::answer(
        &app.ctx,
        app.control.change_display_name(&app.ctx, &name).await,
    )
}

/// Chooses the colour scheme: `light`, `dark`, or `system`.
#[server(name = ChooseTheme, prefix = "/fn", endpoint = "theme")]
pub async fn choose_theme(theme: String) -> Result<(), AppError> {
    use http::header::SET_COOKIE;
    super::door::append_header(SET_COOKIE, &crate::theme::Theme::parse(&theme).cookie());
    Ok(())
}

#[cfg(feature = "ssr")]
async fn keep_signed_in(app: &super::door::AppContext, epoch: i64) -> Result<(), AppError> {
    if let control::Caller::Member(member) = &app.ctx.caller {
        app.session.sign_in(member.user_id, epoch).await?;
    }
    Ok(())
}
