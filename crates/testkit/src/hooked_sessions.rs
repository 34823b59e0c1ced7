//! The part of [`HookedStore`] that is about sessions.

use async_trait::async_trait;
use control::ports::{Effects, SessionAdmission, SessionRow, SessionStore, StoreError, Written};
use domain::ids::{EnvironmentId, OrganizationId, SessionId};

use crate::{HookedStore, Moment};

#[async_trait]
impl SessionStore for HookedStore {
    async fn admit_session(
        &self,
        row: &SessionRow,
        environment: i64,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError> {
        self.hook(Moment::Before("admit_session")).await?;
        let answer = self
            .inner()
            .admit_session(row, environment, limit, fx)
            .await;
        self.hook(Moment::After("admit_session")).await?;
        answer
    }
    async fn resume_session(
        &self,
        expected: i64,
        row: &SessionRow,
        limit: usize,
        fx: Effects,
    ) -> Result<SessionAdmission, StoreError> {
        self.hook(Moment::Before("resume_session")).await?;
        let answer = self.inner().resume_session(expected, row, limit, fx).await;
        self.hook(Moment::After("resume_session")).await?;
        answer
    }
    async fn update_session(
        &self,
        expected: i64,
        row: &SessionRow,
        fx: Effects,
    ) -> Result<Written, StoreError> {
        self.hook(Moment::Before("update_session")).await?;
        let answer = self.inner().update_session(expected, row, fx).await;
        self.hook(Moment::After("update_session")).await?;
        answer
    }
    async fn note_kept(&self, id: SessionId, seconds: i64) -> Result<(), StoreError> {
        self.inner().note_kept(id, seconds).await
    }
    async fn session(
        &self,
        org: OrganizationId,
        id: SessionId,
    ) -> Result<Option<SessionRow>, StoreError> {
        self.inner().session(org, id).await
    }
    async fn sessions(
        &self,
        org: OrganizationId,
        environment: Option<EnvironmentId>,
    ) -> Result<Vec<SessionRow>, StoreError> {
        self.inner().sessions(org, environment).await
    }
    async fn sessions_on(&self, host: &str) -> Result<Vec<SessionRow>, StoreError> {
        self.inner().sessions_on(host).await
    }
}
