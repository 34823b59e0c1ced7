//! API keys: made, shown once, listed, revoked, checked.

use domain::{ids::ApiKeyId, roles::Role};
use wire::console::ApiKeyItem;

use crate::{Control, Error, Member, OpCtx, Result, Secret};

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

impl Control {
    /// Makes a key for the caller.
    pub async fn create_api_key(&self, ctx: &OpCtx, request: ApiKeyRequest) -> Result<NewApiKey> {
        let _ = (ctx, request);
        Err(Error::unavailable("not written yet"))
    }
    /// Makes a key for the member with this address (`groundwork admin create-api-key`); needs a system context.
    pub async fn create_api_key_for(
        &self,
        ctx: &OpCtx,
        email: &str,
        request: ApiKeyRequest,
    ) -> Result<NewApiKey> {
        let _ = (ctx, email, request);
        Err(Error::unavailable("not written yet"))
    }
    /// Keys, newest first, revoked ones left out.
    pub async fn api_keys(&self, ctx: &OpCtx, whose: Whose) -> Result<Vec<ApiKeyItem>> {
        let _ = (ctx, whose);
        Err(Error::unavailable("not written yet"))
    }
    /// Ends a key at once: one's own, or anyone's for an admin.
    pub async fn revoke_api_key(&self, ctx: &OpCtx, id: ApiKeyId) -> Result<()> {
        let _ = (ctx, id);
        Err(Error::unavailable("not written yet"))
    }
    /// Who an API key is: `401` unless it is known, unrevoked, unexpired, and its member is still there.
    pub async fn authenticate_api_key(&self, token: &Secret) -> Result<Member> {
        let _ = token;
        Err(Error::unavailable("not written yet"))
    }
}
