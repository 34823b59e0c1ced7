//! First start, sign-in, one's own account.

use domain::{
    ids::{OrganizationId, UserId},
    issues::Issues,
    roles::{Action, Role},
};
use serde_json::json;
use wire::console::Viewer;

use crate::{
    Control, Error, Member, OpCtx, Result, Secret, SignIn, Via, passwords,
    ports::{
        Effects, StoreError, Written,
        rows::{AuditRow, OrganizationRow, UserRow},
    },
    secret::same,
};

/// The setting that holds the hash of the one-time setup token.
const SETUP_TOKEN: &str = "setup_token_hash";
/// Most bytes of an e-mail address.
const EMAIL_MAX_BYTES: usize = 254;
/// Most characters of a name of a person, an organization or a key.
pub(crate) const NAME_MAX_CHARS: usize = 100;

/// The first organization and its first admin.
pub struct Bootstrap {
    /// 1 to 100 characters.
    pub organization_name: String,
    /// The admin's address.
    pub email: String,
    /// May be empty.
    pub display_name: String,
    /// The admin's password.
    pub password: Secret,
}

/// Somebody who signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Who.
    pub member: Member,
    /// Keep it in the sign-in and hand it to [`Control::authenticate_web`].
    pub session_epoch: i64,
}

/// An e-mail address in the form it is stored in (trimmed, lower case).
pub(crate) fn parse_email(text: &str, issues: &mut Issues) -> String {
    let email = text.trim().to_lowercase();
    let plausible = email.len() <= EMAIL_MAX_BYTES
        && !email.chars().any(|c| c.is_whitespace() || c.is_control())
        && email.split_once('@').is_some_and(|(local, host)| {
            !local.is_empty()
                && !host.contains('@')
                && host.split('.').all(|label| !label.is_empty())
        });
    if !plausible {
        issues.add("email", "Enter an e-mail address, such as ada@example.com.");
    }
    email
}

/// A name of a person, an organization or a key: trimmed; `required` refuses an empty one.
pub(crate) fn parse_name(path: &str, text: &str, required: bool, issues: &mut Issues) -> String {
    let name = text.trim();
    if required && name.is_empty() {
        issues.add(path, "Enter a name.");
    }
    if name.chars().count() > NAME_MAX_CHARS {
        issues.add(path, format!("Use at most {NAME_MAX_CHARS} characters."));
    }
    if name.chars().any(char::is_control) {
        issues.add(path, "Use printable characters only.");
    }
    name.to_owned()
}

pub(crate) fn check_password(path: &str, password: &Secret, email: &str, issues: &mut Issues) {
    if let Some(problem) = passwords::problem(password, email) {
        issues.add(path, problem);
    }
}

pub(crate) fn member_of(user: &UserRow) -> Member {
    Member {
        organization_id: user.organization_id,
        user_id: user.user_id,
        email: user.email.clone(),
        role: user.role,
        via: Via::Console(SignIn {
            epoch: user.session_epoch,
            browser: None,
        }),
    }
}

impl Control {
    /// Whether the first organization is still to be made.
    pub async fn needs_setup(&self) -> Result<bool> {
        Ok(self.0.store.organizations().await?.is_empty())
    }

    /// Makes a fresh one-time setup token for the link that the server prints; `None` once set up. Earlier ones end.
    pub async fn issue_setup_token(&self) -> Result<Option<Secret>> {
        if !self.needs_setup().await? {
            return Ok(None);
        }
        let token = Secret::random("")?;
        self.0
            .store
            .set_setting(SETUP_TOKEN, Some(&token.sha256_hex()))
            .await?;
        Ok(Some(token))
    }

    /// Whether this is the setup token; for the page, before anything is typed. Wrong tries are slowed down.
    ///
    /// # Errors
    /// `403 forbidden` for a wrong token, `429` for too many tries.
    pub async fn check_setup_token(&self, ctx: &OpCtx, token: &Secret) -> Result<()> {
        let address = ctx.source.as_deref().unwrap_or_default();
        self.begin_try("setup", address)?;
        let saved = self.0.store.setting(SETUP_TOKEN).await?;
        let right = saved.is_some_and(|saved| same(&saved, &token.sha256_hex()));
        if !right || !self.needs_setup().await? {
            return Err(Error::wrong_setup_token());
        }
        self.try_succeeded("setup", address);
        Ok(())
    }

    /// Makes the first organization and its admin, with the one-time token.
    pub async fn bootstrap(
        &self,
        ctx: &OpCtx,
        token: &Secret,
        first: Bootstrap,
    ) -> Result<SignedIn> {
        self.check_setup_token(ctx, token).await?;
        match self.make_first(ctx, first).await? {
            Some(user) => Ok(signed_in(&user)),
            None => Err(Error::wrong_setup_token()),
        }
    }

    /// The same by the operator (`GROUNDWORK_ADMIN_EMAIL`), without a token; `None` if it is set up already. Needs a
    /// system context.
    pub async fn bootstrap_by_operator(
        &self,
        ctx: &OpCtx,
        first: Bootstrap,
    ) -> Result<Option<OrganizationId>> {
        ctx.require_system()?;
        if !self.needs_setup().await? {
            return Ok(None);
        }
        let user = self.make_first(ctx, first).await?;
        Ok(user.map(|user| user.organization_id))
    }

    async fn make_first(&self, ctx: &OpCtx, first: Bootstrap) -> Result<Option<UserRow>> {
        let mut issues = Issues::new();
        let name = parse_name(
            "organization_name",
            &first.organization_name,
            true,
            &mut issues,
        );
        let email = parse_email(&first.email, &mut issues);
        let display_name = parse_name("display_name", &first.display_name, false, &mut issues);
        check_password("password", &first.password, &email, &mut issues);
        issues.into_result(())?;
        let hash = self.0.passwords.hash(&first.password).await?;
        self.insert_first(ctx, name, email, display_name, Some(hash))
            .await
    }

    /// The first organization with its admin, who has no password when the command line made them.
    pub(crate) async fn insert_first(
        &self,
        ctx: &OpCtx,
        name: String,
        email: String,
        display_name: String,
        password_hash: Option<String>,
    ) -> Result<Option<UserRow>> {
        let now = self.0.clock.now();
        let organization = OrganizationRow {
            organization_id: self.0.ids.next(),
            name,
            created_at: now,
        };
        let user = UserRow {
            user_id: self.0.ids.next(),
            organization_id: organization.organization_id,
            email,
            display_name,
            role: Role::Admin,
            password_hash,
            session_epoch: 1,
            created_at: now,
            removed_at: None,
        };
        let mut entry = self.audit(
            ctx,
            organization.organization_id,
            "organization.create",
            organization.organization_id,
            json!({"name": organization.name, "admin": user.email}),
        );
        if ctx.require_system().is_err() {
            by_user(&mut entry, &user);
        }
        let fx = Effects {
            audit: vec![entry],
            ..Effects::default()
        };
        match self.0.store.bootstrap(&organization, &user, fx).await? {
            Written::Stale => Ok(None),
            Written::Done => {
                self.0.store.set_setting(SETUP_TOKEN, None).await?;
                Ok(Some(user))
            }
        }
    }

    /// Counts a try that has not succeeded yet, or refuses it for now.
    pub(crate) fn begin_try(&self, account: &str, address: &str) -> Result<()> {
        let now = self.0.clock.monotonic();
        let mut throttle = lock(&self.0.throttle);
        throttle
            .begin(account, address, now)
            .map_err(|wait| Error::rate_limited(seconds_up(wait)))
    }

    pub(crate) fn try_succeeded(&self, account: &str, address: &str) {
        lock(&self.0.throttle).succeeded(account, address);
    }

    /// Signs in. Unknown address and wrong password answer alike, in the same time; repeated failures are slowed down
    /// (`429` with `Retry-After`) for each account and address (`ctx.source`).
    pub async fn sign_in(&self, ctx: &OpCtx, email: &str, password: &Secret) -> Result<SignedIn> {
        let email = email.trim().to_lowercase();
        let address = ctx.source.as_deref().unwrap_or_default();
        // Longer texts cannot be an account's and must not fill the counters.
        if email.len() > EMAIL_MAX_BYTES
            || password.expose().chars().count() > passwords::PASSWORD_MAX_CHARS
        {
            return Err(Error::wrong_credentials());
        }
        self.begin_try(&email, address)?;
        let user = self.0.store.user_by_email(&email).await?;
        let hash = user.as_ref().and_then(|user| user.password_hash.clone());
        let right = self.0.passwords.verify(password, hash).await?;
        match user {
            Some(user) if right => {
                self.try_succeeded(&email, address);
                Ok(signed_in(&user))
            }
            _ => Err(Error::wrong_credentials()),
        }
    }

    /// Who a console sign-in is; `401` if the member was removed or the epoch is over.
    pub async fn authenticate_web(&self, user: UserId, session_epoch: i64) -> Result<Member> {
        match self.0.store.user(user).await? {
            Some(row) if row.removed_at.is_none() && row.session_epoch == session_epoch => {
                Ok(member_of(&row))
            }
            _ => Err(Error::unauthorized()),
        }
    }

    /// The caller's own row.
    pub(crate) async fn own_row(&self, ctx: &OpCtx) -> Result<UserRow> {
        let member = ctx.member()?;
        match self.0.store.user(member.user_id).await? {
            Some(row) if row.removed_at.is_none() => Ok(row),
            _ => Err(Error::unauthorized()),
        }
    }

    /// Who looks, for the console's frame.
    pub async fn viewer(&self, ctx: &OpCtx) -> Result<Viewer> {
        let member = ctx.member()?;
        let row = self.own_row(ctx).await?;
        let organization = self
            .0
            .store
            .organizations()
            .await?
            .into_iter()
            .find(|organization| organization.organization_id == member.organization_id)
            .ok_or_else(Error::unauthorized)?;
        Ok(Viewer {
            user_id: row.user_id,
            email: row.email,
            display_name: row.display_name,
            organization_id: organization.organization_id,
            organization_name: organization.name,
            role: member.role,
            may: ctx.may(),
        })
    }

    /// Changes the caller's password and ends all other sign-ins: keep the answer's epoch in this one.
    pub async fn change_password(
        &self,
        ctx: &OpCtx,
        current: &Secret,
        new: &Secret,
    ) -> Result<i64> {
        ctx.require(Action::OwnAccount)?;
        let row = self.own_row(ctx).await?;
        let mut issues = Issues::new();
        check_password("new_password", new, &row.email, &mut issues);
        issues.into_result(())?;
        // Guessing the present password here is slowed down like guessing it at the door.
        let address = ctx.source.as_deref().unwrap_or_default();
        self.begin_try(&row.email, address)?;
        if !self
            .0
            .passwords
            .verify(current, row.password_hash.clone())
            .await?
        {
            return Err(not_the_present_password());
        }
        self.try_succeeded(&row.email, address);
        let hash = self.0.passwords.hash(new).await?;
        self.change_own(ctx, "account.password", |user| {
            // Changed since it was compared: whoever did that knows the new one, and this caller may not.
            if user.password_hash != row.password_hash {
                return Err(not_the_present_password());
            }
            user.password_hash = Some(hash.clone());
            user.session_epoch += 1;
            Ok(())
        })
        .await
    }

    /// Ends all of the caller's sign-ins; the answer's epoch would keep this one.
    pub async fn sign_out_everywhere(&self, ctx: &OpCtx) -> Result<i64> {
        ctx.require(Action::OwnAccount)?;
        self.change_own(ctx, "account.sign_out_everywhere", |user| {
            user.session_epoch += 1;
            Ok(())
        })
        .await
    }

    /// Changes the caller's display name.
    pub async fn change_display_name(&self, ctx: &OpCtx, name: &str) -> Result<()> {
        ctx.require(Action::OwnAccount)?;
        let mut issues = Issues::new();
        let name = parse_name("display_name", name, false, &mut issues);
        issues.into_result(())?;
        self.change_own(ctx, "account.display_name", |user| {
            user.display_name.clone_from(&name);
            Ok(())
        })
        .await
        .map(|_| ())
    }

    async fn change_own(
        &self,
        ctx: &OpCtx,
        action: &str,
        change: impl Fn(&mut UserRow) -> Result<()>,
    ) -> Result<i64> {
        for _ in 0..crate::RACES_MAX {
            let before = self.own_row(ctx).await?;
            let mut row = before.clone();
            change(&mut row)?;
            let fx = Effects {
                audit: vec![self.audit(ctx, row.organization_id, action, row.user_id, json!({}))],
                ..Effects::default()
            };
            match self.0.store.update_user(&before, &row, fx).await? {
                Written::Done => return Ok(row.session_epoch),
                Written::Stale => {}
            }
        }
        Err(Error::unavailable("the member's row kept changing"))
    }
}

fn not_the_present_password() -> Error {
    Error::invalid_field("current_password", "This is not your present password.")
}

pub(crate) fn signed_in(user: &UserRow) -> SignedIn {
    SignedIn {
        member: member_of(user),
        session_epoch: user.session_epoch,
    }
}

/// Makes an audit entry the user's own, for changes by which somebody becomes a member.
pub(crate) fn by_user(entry: &mut AuditRow, user: &UserRow) {
    entry.user_id = Some(user.user_id);
    entry.actor.clone_from(&user.email);
}

/// A taken address as a field error; anything else as it is.
pub(crate) fn taken_or(error: StoreError) -> Error {
    match error {
        StoreError::Constraint(_) => Error::invalid_field(
            "email",
            "A member with this address exists already. Use another address.",
        ),
        other => other.into(),
    }
}

/// Whole seconds, rounded up, at least one.
pub(crate) fn seconds_up(duration: std::time::Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole.max(1)).unwrap_or(u32::MAX)
}

/// A poisoned lock guards plain data that is still whole: go on with it.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_mail_addresses() {
        for (text, stored) in [
            (" Ada@Example.COM ", Some("ada@example.com")),
            ("root@localhost", Some("root@localhost")),
            ("ada", None),
            ("@example.com", None),
            ("ada@", None),
            ("ada@example..com", None),
            ("a b@example.com", None),
            ("a@b@c", None),
            ("", None),
        ] {
            let mut issues = Issues::new();
            let email = parse_email(text, &mut issues);
            assert_eq!(
                issues.is_empty().then_some(email.as_str()),
                stored,
                "{text}"
            );
        }
    }
}
