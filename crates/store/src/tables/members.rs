//! Organizations, members, invitations and API keys.

use std::sync::Arc;

use control::ports::{
    Effects, StoreError, Written,
    rows::{ApiKeyRow, InvitationRow, OrganizationRow, OwnedApiKey, UserRow},
};
use domain::{
    ids::{ApiKeyId, InvitationId, OrganizationId, UserId},
    roles::Role,
    timestamp::Timestamp,
};

use super::effects;
use crate::{
    Database,
    columns::Columns,
    db::{Row, Tx, values},
    dialect::{self, locking},
};

macro_rules! user_columns {
    () => {
        "user_id, organization_id, email, display_name, role, password_hash, session_epoch, created_at, removed_at"
    };
}
macro_rules! invitation_columns {
    () => {
        "invitation_id, organization_id, email, role, token_hash, invited_by, created_at, expires_at, closed_at"
    };
}
macro_rules! key_columns {
    () => {
        "api_key_id, organization_id, user_id, name, role, secret_hash, last_four, \
         created_at, expires_at, last_used_at, revoked_at"
    };
}

pub(super) async fn bootstrap(
    db: &Database,
    org: &OrganizationRow,
    admin: &UserRow,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    tx.execute(dialect::LOCK_ORGANIZATIONS, values![]).await?;
    let taken = tx
        .row(
            "SELECT organization_id FROM organizations LIMIT 1",
            values![],
        )
        .await?;
    if taken.is_some() {
        return Ok(Written::Stale);
    }
    tx.execute(
        "INSERT INTO organizations (organization_id, name, created_at) VALUES ($1, $2, $3)",
        values![org.organization_id, &org.name, org.created_at],
    )
    .await?;
    insert(&mut tx, admin).await?;
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

pub(super) async fn organizations(db: &Database) -> Result<Vec<OrganizationRow>, StoreError> {
    db.rows(
        "SELECT organization_id, name, created_at FROM organizations ORDER BY created_at, organization_id",
        values![],
    )
    .await?
    .iter()
    .map(|row| {
        let columns = Columns::new(row, "organizations", "organization_id");
        Ok(OrganizationRow {
            organization_id: columns.id("organization_id")?,
            name: columns.text("name")?,
            created_at: columns.time("created_at")?,
        })
    })
    .collect()
}

pub(super) async fn by_email(db: &Database, email: &str) -> Result<Option<UserRow>, StoreError> {
    db.row(
        concat!(
            "SELECT ",
            user_columns!(),
            " FROM users WHERE email = $1 AND removed_at IS NULL"
        ),
        values![email],
    )
    .await?
    .as_ref()
    .map(read_user)
    .transpose()
}

pub(super) async fn user(db: &Database, id: UserId) -> Result<Option<UserRow>, StoreError> {
    db.row(
        concat!("SELECT ", user_columns!(), " FROM users WHERE user_id = $1"),
        values![id],
    )
    .await?
    .as_ref()
    .map(read_user)
    .transpose()
}

pub(super) async fn users(db: &Database, org: OrganizationId) -> Result<Vec<UserRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            user_columns!(),
            " FROM users WHERE organization_id = $1 AND removed_at IS NULL ORDER BY created_at, user_id"
        ),
        values![org],
    )
    .await?
    .iter()
    .map(read_user)
    .collect()
}

pub(super) async fn insert_user(
    db: &Database,
    user: &UserRow,
    invitation: Option<(InvitationId, Timestamp)>,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    if let Some((id, at)) = invitation {
        let touched = tx
            .execute(
                "UPDATE invitations SET closed_at = $1 WHERE invitation_id = $2 \
                 AND organization_id = $3 AND closed_at IS NULL AND expires_at > $1",
                values![at, id, user.organization_id],
            )
            .await?;
        if touched == 0 {
            return Ok(Written::Stale);
        }
    }
    insert(&mut tx, user).await?;
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

async fn insert(tx: &mut Tx<'_>, user: &UserRow) -> Result<(), StoreError> {
    tx.execute(
        concat!(
            "INSERT INTO users (",
            user_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            user.user_id,
            user.organization_id,
            &user.email,
            &user.display_name,
            user.role.as_str(),
            &user.password_hash,
            user.session_epoch,
            user.created_at,
            user.removed_at,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn update_user(
    db: &Database,
    before: &UserRow,
    user: &UserRow,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    // Two admins who demote each other at once must not both see the other one still there.
    tx.row(
        locking!("SELECT organization_id FROM organizations WHERE organization_id = $1"),
        values![user.organization_id],
    )
    .await?;
    let touched = tx
        .execute(
            "UPDATE users SET email = $1, display_name = $2, role = $3, password_hash = $4, \
             session_epoch = $5, removed_at = $6 \
             WHERE user_id = $7 AND organization_id = $8 AND session_epoch = $9 AND email = $10 \
             AND display_name = $11 AND role = $12 AND password_hash IS NOT DISTINCT FROM $13 \
             AND removed_at IS NOT DISTINCT FROM $14",
            values![
                &user.email,
                &user.display_name,
                user.role.as_str(),
                &user.password_hash,
                user.session_epoch,
                user.removed_at,
                user.user_id,
                user.organization_id,
                before.session_epoch,
                &before.email,
                &before.display_name,
                before.role.as_str(),
                &before.password_hash,
                before.removed_at,
            ],
        )
        .await?;
    if touched == 0 {
        return Ok(Written::Stale);
    }
    let admin = tx
        .row(
            "SELECT user_id FROM users \
             WHERE organization_id = $1 AND role = $2 AND removed_at IS NULL LIMIT 1",
            values![user.organization_id, Role::Admin.as_str()],
        )
        .await?;
    if admin.is_none() {
        return Ok(Written::Stale);
    }
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

fn read_user(row: &Row) -> Result<UserRow, StoreError> {
    let columns = Columns::new(row, "users", "user_id");
    Ok(UserRow {
        user_id: columns.id("user_id")?,
        organization_id: columns.id("organization_id")?,
        email: columns.text("email")?,
        display_name: columns.text("display_name")?,
        role: columns.word("role")?,
        password_hash: columns.text_if("password_hash")?,
        session_epoch: columns.number("session_epoch")?,
        created_at: columns.time("created_at")?,
        removed_at: columns.time_if("removed_at")?,
    })
}

pub(super) async fn insert_invitation(
    db: &Database,
    invitation: &InvitationRow,
    fx: Effects,
) -> Result<(), StoreError> {
    let mut tx = db.begin().await?;
    tx.execute(
        concat!(
            "INSERT INTO invitations (",
            invitation_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        ),
        values![
            invitation.invitation_id,
            invitation.organization_id,
            &invitation.email,
            invitation.role.as_str(),
            &invitation.token_hash,
            invitation.invited_by,
            invitation.created_at,
            invitation.expires_at,
            invitation.closed_at,
        ],
    )
    .await?;
    effects::apply(&mut tx, fx).await?;
    tx.commit().await
}

pub(super) async fn invitation_by_token(
    db: &Database,
    token_hash: &str,
) -> Result<Option<InvitationRow>, StoreError> {
    db.row(
        concat!(
            "SELECT ",
            invitation_columns!(),
            " FROM invitations WHERE token_hash = $1"
        ),
        values![token_hash],
    )
    .await?
    .as_ref()
    .map(read_invitation)
    .transpose()
}

pub(super) async fn invitations(
    db: &Database,
    org: OrganizationId,
) -> Result<Vec<InvitationRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            invitation_columns!(),
            " FROM invitations WHERE organization_id = $1 AND closed_at IS NULL \
             ORDER BY created_at DESC, invitation_id DESC"
        ),
        values![org],
    )
    .await?
    .iter()
    .map(read_invitation)
    .collect()
}

pub(super) async fn close_invitation(
    db: &Database,
    org: OrganizationId,
    id: InvitationId,
    at: Timestamp,
    fx: Effects,
) -> Result<Written, StoreError> {
    close(
        db,
        "UPDATE invitations SET closed_at = $1 \
         WHERE invitation_id = $2 AND organization_id = $3 AND closed_at IS NULL",
        values![at, id, org],
        fx,
    )
    .await
}

/// One statement that touches a row or finds it changed already.
async fn close(
    db: &Database,
    sql: &'static str,
    values: Vec<crate::db::Value>,
    fx: Effects,
) -> Result<Written, StoreError> {
    let mut tx = db.begin().await?;
    if tx.execute(sql, values).await? == 0 {
        return Ok(Written::Stale);
    }
    effects::apply(&mut tx, fx).await?;
    tx.commit().await?;
    Ok(Written::Done)
}

fn read_invitation(row: &Row) -> Result<InvitationRow, StoreError> {
    let columns = Columns::new(row, "invitations", "invitation_id");
    Ok(InvitationRow {
        invitation_id: columns.id("invitation_id")?,
        organization_id: columns.id("organization_id")?,
        email: columns.text("email")?,
        role: columns.word("role")?,
        token_hash: columns.text("token_hash")?,
        invited_by: columns.id("invited_by")?,
        created_at: columns.time("created_at")?,
        expires_at: columns.time("expires_at")?,
        closed_at: columns.time_if("closed_at")?,
    })
}

pub(super) async fn insert_api_key(
    db: &Database,
    key: &ApiKeyRow,
    fx: Effects,
) -> Result<(), StoreError> {
    let mut tx = db.begin().await?;
    tx.execute(
        concat!(
            "INSERT INTO api_keys (",
            key_columns!(),
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
        ),
        values![
            key.api_key_id,
            key.organization_id,
            key.user_id,
            &key.name,
            key.role.as_str(),
            &key.secret_hash,
            &key.last_four,
            key.created_at,
            key.expires_at,
            key.last_used_at,
            key.revoked_at,
        ],
    )
    .await?;
    effects::apply(&mut tx, fx).await?;
    tx.commit().await
}

pub(super) async fn api_key_by_hash(
    db: &Database,
    secret_hash: &str,
) -> Result<Option<OwnedApiKey>, StoreError> {
    let ask = async {
        let row = db
            .row(
                "SELECT k.api_key_id, k.organization_id, k.user_id, k.name, k.role, k.secret_hash, k.last_four, \
                        k.created_at, k.expires_at, k.last_used_at, k.revoked_at, \
                        u.email, u.role AS owner_role, u.removed_at AS owner_removed_at \
                 FROM api_keys k JOIN users u ON u.user_id = k.user_id WHERE k.secret_hash = $1",
                values![secret_hash],
            )
            .await?;
        let Some(row) = &row else {
            return Ok(None);
        };
        let columns = Columns::new(row, "api_keys", "api_key_id");
        let owned = OwnedApiKey {
            key: read_api_key(row)?,
            email: columns.text("email")?,
            owner_role: columns.word("owner_role")?,
            owner_removed_at: columns.time_if("owner_removed_at")?,
        };
        let bytes = owned.email.len() + owned.key.name.len() + secret_hash.len();
        Ok(Some((owned, bytes)))
    };
    let kept = db.kept(secret_hash.to_owned(), ask).await?;
    Ok(kept.map(Arc::unwrap_or_clone))
}

pub(super) async fn api_keys(
    db: &Database,
    org: OrganizationId,
    user: Option<UserId>,
) -> Result<Vec<ApiKeyRow>, StoreError> {
    db.rows(
        concat!(
            "SELECT ",
            key_columns!(),
            " FROM api_keys WHERE organization_id = $1 AND revoked_at IS NULL \
             AND ($2 IS NULL OR user_id = $2) ORDER BY created_at DESC, api_key_id DESC"
        ),
        values![org, user],
    )
    .await?
    .iter()
    .map(read_api_key)
    .collect()
}

pub(super) async fn revoke_api_key(
    db: &Database,
    org: OrganizationId,
    id: ApiKeyId,
    at: Timestamp,
    fx: Effects,
) -> Result<Written, StoreError> {
    close(
        db,
        "UPDATE api_keys SET revoked_at = $1 \
         WHERE api_key_id = $2 AND organization_id = $3 AND revoked_at IS NULL",
        values![at, id, org],
        fx,
    )
    .await
}

pub(super) async fn touch_api_key(
    db: &Database,
    id: ApiKeyId,
    at: Timestamp,
) -> Result<(), StoreError> {
    db.execute(
        "UPDATE api_keys SET last_used_at = $1 \
         WHERE api_key_id = $2 AND (last_used_at IS NULL OR last_used_at < $1)",
        values![at, id],
    )
    .await?;
    Ok(())
}

fn read_api_key(row: &Row) -> Result<ApiKeyRow, StoreError> {
    let columns = Columns::new(row, "api_keys", "api_key_id");
    Ok(ApiKeyRow {
        api_key_id: columns.id("api_key_id")?,
        organization_id: columns.id("organization_id")?,
        user_id: columns.id("user_id")?,
        name: columns.text("name")?,
        role: columns.word("role")?,
        secret_hash: columns.text("secret_hash")?,
        last_four: columns.text("last_four")?,
        created_at: columns.time("created_at")?,
        expires_at: columns.time_if("expires_at")?,
        last_used_at: columns.time_if("last_used_at")?,
        revoked_at: columns.time_if("revoked_at")?,
    })
}
