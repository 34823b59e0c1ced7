//! Who needs which setup image.

use async_trait::async_trait;
use control::ports::{ImageStore, StoreError, rows::EnvironmentRow};
use domain::{ids::EnvironmentId, timestamp::Timestamp};

use super::{environments, sessions};
use crate::Database;

#[async_trait]
impl ImageStore for Database {
    async fn environments_with_image(&self) -> Result<Vec<EnvironmentRow>, StoreError> {
        let rows = environments::verified(self).await?;
        Ok(rows
            .into_iter()
            .filter(|row| row.verification.image.is_some())
            .collect())
    }
    async fn session_layers(&self) -> Result<Vec<String>, StoreError> {
        sessions::layers(self).await
    }
    async fn last_session_starts(&self) -> Result<Vec<(EnvironmentId, Timestamp)>, StoreError> {
        sessions::last_starts(self).await
    }
}
