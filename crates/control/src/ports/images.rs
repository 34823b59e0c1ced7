//! What is stored of setup images: they have no table of their own, environments and sessions say which are needed.

use async_trait::async_trait;
use domain::{ids::EnvironmentId, timestamp::Timestamp};

use super::{StoreError, rows::EnvironmentRow};

/// The part of the storage port that is about setup images.
#[async_trait]
pub trait ImageStore: Send + Sync {
    /// Environments of all organizations whose verdict has a captured image, deleted ones left out, oldest first.
    async fn environments_with_image(&self) -> Result<Vec<EnvironmentRow>, StoreError>;
    /// Digests of the saved layers that sessions rest upon, deleted sessions left out.
    async fn session_layers(&self) -> Result<Vec<String>, StoreError>;
    /// When a session of each environment last came up, deleted sessions included.
    async fn last_session_starts(&self) -> Result<Vec<(EnvironmentId, Timestamp)>, StoreError>;
}
