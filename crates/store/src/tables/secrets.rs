//! Secret variables, sealed.

use async_trait::async_trait;
use control::ports::{
    Effects, SecretStore, StoreError, Written,
    rows::{EnvironmentRow, SecretRow},
};
use domain::ids::EnvironmentId;

use super::{effects, environments};
use crate::{Database, columns::Columns, db::values};

#[async_trait]
impl SecretStore for Database {
    async fn secrets(&self, environment: EnvironmentId) -> Result<Vec<SecretRow>, StoreError> {
        self.rows(
            "SELECT environment_id, name, sealed, bytes, set_by, set_at FROM environment_secrets \
             WHERE environment_id = $1 ORDER BY name",
            values![environment],
        )
        .await?
        .iter()
        .map(|row| {
            let columns = Columns::new(row, "environment_secrets", "environment_id");
            Ok(SecretRow {
                environment_id: columns.id("environment_id")?,
                name: columns.text("name")?,
                sealed: columns.text("sealed")?,
                bytes: columns.count("bytes")?,
                set_by: columns.id("set_by")?,
                set_at: columns.time("set_at")?,
            })
        })
        .collect()
    }

    async fn put_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        secret: &SecretRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        let mut tx = self.begin().await?;
        if environments::set(&mut tx, expected, environment, None).await? == Written::Stale {
            return Ok(Written::Stale);
        }
        tx.execute(
            "INSERT INTO environment_secrets (environment_id, name, sealed, bytes, set_by, set_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (environment_id, name) DO UPDATE SET \
             sealed = excluded.sealed, bytes = excluded.bytes, set_by = excluded.set_by, set_at = excluded.set_at",
            values![
                secret.environment_id,
                &secret.name,
                &secret.sealed,
                secret.bytes as u64,
                secret.set_by,
                secret.set_at,
            ],
        )
        .await?;
        effects::apply(&mut tx, fx).await?;
        tx.commit().await?;
        Ok(Written::Done)
    }

    async fn delete_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        name: &str,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        let mut tx = self.begin().await?;
        if environments::set(&mut tx, expected, environment, None).await? == Written::Stale {
            return Ok(Written::Stale);
        }
        tx.execute(
            "DELETE FROM environment_secrets WHERE environment_id = $1 AND name = $2",
            values![environment.environment_id, name],
        )
        .await?;
        effects::apply(&mut tx, fx).await?;
        tx.commit().await?;
        Ok(Written::Done)
    }

    async fn any_secret(&self) -> Result<bool, StoreError> {
        let row = self
            .row(
                "SELECT environment_id FROM environment_secrets LIMIT 1",
                values![],
            )
            .await?;
        Ok(row.is_some())
    }
}
