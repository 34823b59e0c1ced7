//! API keys: made, shown once, listed, revoked, checked.

use domain::{
    ids::ApiKeyId,
    issues::Issues,
    roles::{Action, Role, permits},
};
use serde_json::json;
use wire::console::ApiKeyItem;

use crate::{
    Control, Error, Member, OpCtx, Result, Secret, Via,
    accounts::{parse_email, parse_name},
    ports::{
        Effects, Written,
        rows::{ApiKeyRow, UserRow},
    },
};

/// What every secret begins with, for secret scanners.
const PREFIX: &str = "rma_";
/// Characters after the prefix.
const SECRET_CHARS: usize = 43;
/// Longest life of a key that ends by itself, in days.
const DAYS_MAX: u32 = 3_650;
/// A use is noted at most this often, in microseconds.
const TOUCH_AFTER_MICROS: i64 = 60_000_000;

/// What a new key is asked for with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRequest {
    /// 1 to 100 characters.
    pub name: String,
    /// At most the maker's.
    pub role: Role,
    /// Days until it ends, 1 to 3,650; `None`: it does not end by itself.
    pub expires_in_days: Option<u32>,
}

/// A fresh key. Its secret is shown once.
pub struct NewApiKey {
    /// The key.
    pub item: ApiKeyItem,
    /// `rma_` and 43 base64url characters.
    pub secret: Secret,
}

/// Whose keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The caller's.
    Mine,
    /// Everyone's in the organization; admins only.
    Everyones,
}

fn well_formed(token: &str) -> bool {
    token.strip_prefix(PREFIX).is_some_and(|rest| {
        rest.len() == SECRET_CHARS
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

impl Control {
    fn key_item(&self, row: &ApiKeyRow, owner: String) -> ApiKeyItem {
        ApiKeyItem {
            api_key_id: row.api_key_id,
            name: row.name.clone(),
            shown: format!("{PREFIX}…{}", row.last_four),
            role: row.role,
            owner,
            user_id: row.user_id,
            created_at: row.created_at,
            expires_at: row.expires_at,
            expired: row.expires_at.is_some_and(|end| end <= self.0.clock.now()),
            last_used_at: row.last_used_at,
        }
    }

    async fn make_key(
        &self,
        ctx: &OpCtx,
        owner: &UserRow,
        most: Role,
        request: ApiKeyRequest,
    ) -> Result<NewApiKey> {
        let mut issues = Issues::new();
        let name = parse_name("name", &request.name, true, &mut issues);
        if request.role > most {
            issues.add(
                "role",
                format!(
                    "A key may have the role {most} or a lower one, not {}.",
                    request.role
                ),
            );
        }
        if let Some(days) = request.expires_in_days
            && !(1..=DAYS_MAX).contains(&days)
        {
            issues.add("expires_in_days", format!("Must be 1 to {DAYS_MAX}."));
        }
        issues.into_result(())?;
        let secret = Secret::random(PREFIX)?;
        let text = secret.expose();
        let now = self.0.clock.now();
        let row = ApiKeyRow {
            api_key_id: self.0.ids.next(),
            organization_id: owner.organization_id,
            user_id: owner.user_id,
            name,
            role: request.role,
            secret_hash: self.0.config.server_key.keyed_hash(&secret)?,
            last_four: text.get(text.len() - 4..).unwrap_or_default().to_owned(),
            created_at: now,
            expires_at: request
                .expires_in_days
                .map(|days| now.plus_seconds(i64::from(days) * 86_400)),
            last_used_at: None,
            revoked_at: None,
        };
        let detail = json!({
            "name": row.name, "role": row.role, "owner": owner.email, "expires_at": row.expires_at,
        });
        let fx = Effects {
            audit: vec![self.audit(
                ctx,
                owner.organization_id,
                "api_key.create",
                row.api_key_id,
                detail,
            )],
            ..Effects::default()
        };
        self.0.store.insert_api_key(&row, fx).await?;
        Ok(NewApiKey {
            item: self.key_item(&row, owner.email.clone()),
            secret,
        })
    }

    /// Makes a key for the caller.
    pub async fn create_api_key(&self, ctx: &OpCtx, request: ApiKeyRequest) -> Result<NewApiKey> {
        let member = ctx.require(Action::OwnApiKeys)?;
        let owner = self.own_row(ctx).await?;
        // The role that counts: a key of a lower role cannot make one of the member's own.
        self.make_key(ctx, &owner, member.role, request).await
    }

    /// Makes a key for the member with this address (`groundwork admin create-api-key`); needs a system context.
    pub async fn create_api_key_for(
        &self,
        ctx: &OpCtx,
        email: &str,
        request: ApiKeyRequest,
    ) -> Result<NewApiKey> {
        ctx.require_system()?;
        let mut issues = Issues::new();
        let email = parse_email(email, &mut issues);
        issues.into_result(())?;
        let owner = self.0.store.user_by_email(&email).await?.ok_or_else(|| {
            Error::invalid_field(
                "email",
                "No member has this address. Create the member first.",
            )
        })?;
        let most = owner.role;
        self.make_key(ctx, &owner, most, request).await
    }

    /// Keys, newest first, revoked ones left out.
    pub async fn api_keys(&self, ctx: &OpCtx, whose: Whose) -> Result<Vec<ApiKeyItem>> {
        let (member, user) = match whose {
            Whose::Mine => {
                let member = ctx.require(Action::OwnApiKeys)?;
                (member, Some(member.user_id))
            }
            Whose::Everyones => (ctx.require(Action::ManageApiKeys)?, None),
        };
        let users = self.0.store.users(member.organization_id).await?;
        let owner = |row: &ApiKeyRow| users.iter().find(|user| user.user_id == row.user_id);
        let rows = self.0.store.api_keys(member.organization_id, user).await?;
        // Keys of removed members are over with their member.
        Ok(rows
            .iter()
            .filter_map(|row| owner(row).map(|user| self.key_item(row, user.email.clone())))
            .collect())
    }

    /// Ends a key at once: one's own, or anyone's for an admin.
    pub async fn revoke_api_key(&self, ctx: &OpCtx, id: ApiKeyId) -> Result<()> {
        let member = ctx.require(Action::OwnApiKeys)?;
        let everyones = permits(member.role, Action::ManageApiKeys);
        let user = (!everyones).then_some(member.user_id);
        // Another member's key answers a member who may not manage keys like one that never existed.
        let keys = self.0.store.api_keys(member.organization_id, user).await?;
        let key = keys
            .iter()
            .find(|key| key.api_key_id == id)
            .ok_or_else(Error::not_found)?;
        let fx = Effects {
            audit: vec![self.audit(
                ctx,
                member.organization_id,
                "api_key.revoke",
                id,
                json!({"name": key.name, "role": key.role, "user_id": key.user_id}),
            )],
            ..Effects::default()
        };
        let now = self.0.clock.now();
        match self
            .0
            .store
            .revoke_api_key(member.organization_id, id, now, fx)
            .await?
        {
            Written::Done => Ok(()),
            Written::Stale => Err(Error::not_found()),
        }
    }

    /// Who an API key is: `401` unless it is known, unrevoked, unexpired, and its member is still there.
    pub async fn authenticate_api_key(&self, token: &Secret) -> Result<Member> {
        if !well_formed(token.expose()) {
            return Err(Error::unauthorized());
        }
        let hash = self.0.config.server_key.keyed_hash(token)?;
        let owned = self
            .0
            .store
            .api_key_by_hash(&hash)
            .await?
            .filter(|owned| owned.owner_removed_at.is_none())
            .ok_or_else(Error::unauthorized)?;
        let key = owned.key;
        let now = self.0.clock.now();
        if key.revoked_at.is_some() || key.expires_at.is_some_and(|end| end <= now) {
            return Err(Error::unauthorized());
        }
        let stale = key
            .last_used_at
            .is_none_or(|last| now.micros().saturating_sub(last.micros()) >= TOUCH_AFTER_MICROS);
        if stale && let Err(error) = self.0.store.touch_api_key(key.api_key_id, now).await {
            // Only a note: the call itself must not fail for it.
            tracing::warn!(error = %error, "the use of an API key could not be noted");
        }
        Ok(Member {
            organization_id: key.organization_id,
            user_id: key.user_id,
            email: owned.email,
            role: owned.owner_role.min(key.role),
            via: Via::ApiKey(key.api_key_id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fixed_shape_is_looked_up() {
        let good = format!("rma_{}", "aZ0-_".repeat(8) + "abc");
        assert!(well_formed(&good));
        for bad in [
            String::new(),
            "rma_".to_owned(),
            good.replace("rma_", "rmb_"),
            format!("{good}a"),
            good.replace('-', "+"),
            good[..46].to_owned(),
        ] {
            assert!(!well_formed(&bad), "{bad}");
        }
    }
}
