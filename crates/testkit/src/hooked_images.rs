//! The hooks of calls about setup images.

use async_trait::async_trait;
use control::ports::{ImageStore, StoreError, rows::EnvironmentRow};
use domain::{ids::EnvironmentId, timestamp::Timestamp};

use crate::{HookedStore, Moment};

#[async_trait]
impl ImageStore for HookedStore {
    async fn environments_with_image(&self) -> Result<Vec<EnvironmentRow>, StoreError> {
        self.hook(Moment::Before("environments_with_image")).await?;
        let answer = self.inner().environments_with_image().await;
        self.hook(Moment::After("environments_with_image")).await?;
        answer
    }
    async fn session_layers(&self) -> Result<Vec<String>, StoreError> {
        self.inner().session_layers().await
    }
    async fn last_session_starts(&self) -> Result<Vec<(EnvironmentId, Timestamp)>, StoreError> {
        self.inner().last_session_starts().await
    }
}
