//! What is stored of secret variables: sealed values, never in clear.

use async_trait::async_trait;
use domain::ids::EnvironmentId;

use super::{
    Effects, StoreError, Written,
    rows::{EnvironmentRow, SecretRow},
};

/// The part of the storage port that is about secret variables. An environment's row repeats their keyed hashes, so that
/// both change together.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// An environment's secrets by name.
    async fn secrets(&self, environment: EnvironmentId) -> Result<Vec<SecretRow>, StoreError>;
    /// Adds or replaces one, with its environment's row at version `expected`.
    async fn put_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        secret: &SecretRow,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Removes one, with its environment's row at version `expected`.
    async fn delete_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        name: &str,
        fx: Effects,
    ) -> Result<Written, StoreError>;
    /// Whether there is any secret at all.
    async fn any_secret(&self) -> Result<bool, StoreError>;
}
