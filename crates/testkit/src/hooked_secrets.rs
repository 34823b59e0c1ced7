//! The hooks of calls about secret variables.

use async_trait::async_trait;
use control::ports::{
    Effects, SecretStore, StoreError, Written,
    rows::{EnvironmentRow, SecretRow},
};
use domain::ids::EnvironmentId;

use crate::{HookedStore, Moment};

#[async_trait]
impl SecretStore for HookedStore {
    async fn secrets(&self, environment: EnvironmentId) -> Result<Vec<SecretRow>, StoreError> {
        self.inner().secrets(environment).await
    }
    async fn put_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        secret: &SecretRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("put_secret")).await?;
        let answer = self
            .inner()
            .put_secret(expected, environment, secret, fx)
            .await;
        self.hook(Moment::After("put_secret")).await?;
        answer
    }
    async fn delete_secret(
        &self,
        expected: i64,
        environment: &EnvironmentRow,
        name: &str,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("delete_secret")).await?;
        let answer = self
            .inner()
            .delete_secret(expected, environment, name, fx)
            .await;
        self.hook(Moment::After("delete_secret")).await?;
        answer
    }
    async fn any_secret(&self) -> Result<bool, StoreError> {
        self.inner().any_secret().await
    }
}
