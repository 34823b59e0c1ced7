//! tower-sessions' store over the application layer's storage port. Session ids are stored as hashes: who reads the
//! database cannot sign in with what is there.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use control::ports::{Clock, Store, StoreError, Written, rows::WebSessionRow};
use sha2::{Digest, Sha256};
use tower_sessions::{
    SessionStore,
    cookie::time::OffsetDateTime,
    session::{Id, Record},
    session_store::{Error, Result},
};

/// The console's sign-ins in the database.
#[derive(Clone)]
pub struct StoredSessions {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    idle: Duration,
}

impl StoredSessions {
    /// Over this storage; a session that is not saved again for `idle` ends.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, idle: Duration) -> Self {
        Self { store, clock, idle }
    }

    /// The row of a session that is saved now. Its end goes by our clock: the record's own by the machine's.
    fn to_row(&self, record: &Record) -> Result<WebSessionRow> {
        let idle = i64::try_from(self.idle.as_secs()).unwrap_or(i64::MAX);
        Ok(WebSessionRow {
            id_hash: hash(&record.id),
            data: serde_json::to_string(&record.data).map_err(|e| Error::Encode(e.to_string()))?,
            expires_at: self.clock.now().plus_seconds(idle),
        })
    }
}

impl fmt::Debug for StoredSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredSessions")
    }
}

#[async_trait]
impl SessionStore for StoredSessions {
    async fn create(&self, record: &mut Record) -> Result<()> {
        loop {
            match self
                .store
                .create_web_session(&self.to_row(record)?)
                .await
                .map_err(backend)?
            {
                Written::Done => return Ok(()),
                Written::Stale => record.id = Id::default(),
            }
        }
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let row = self.to_row(record)?;
        // A sign-in that was ended while this request ran must not come back.
        let there = self
            .store
            .web_session(&row.id_hash, self.clock.now())
            .await
            .map_err(backend)?
            .is_some();
        if there {
            self.store.save_web_session(&row).await.map_err(backend)?;
        }
        Ok(())
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let row = self
            .store
            .web_session(&hash(id), self.clock.now())
            .await
            .map_err(backend)?;
        row.map(|row| {
            Ok(Record {
                id: *id,
                data: serde_json::from_str(&row.data).map_err(|e| Error::Decode(e.to_string()))?,
                expiry_date: OffsetDateTime::from_unix_timestamp_nanos(
                    i128::from(row.expires_at.micros()) * 1_000,
                )
                .map_err(|e| Error::Decode(e.to_string()))?,
            })
        })
        .transpose()
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        self.store
            .delete_web_session(&hash(id))
            .await
            .map_err(backend)
    }
}

fn hash(id: &Id) -> String {
    hex::encode(digest(id))
}

/// What a session id is known by outside of the browser's cookie.
pub fn digest(id: &Id) -> [u8; 32] {
    Sha256::digest(id.to_string()).into()
}

fn backend(error: StoreError) -> Error {
    Error::Backend(error.to_string())
}
