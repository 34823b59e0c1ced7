//! What was read from SQLite, kept for as long as nobody has changed the database.
//!
//! In WAL mode the log's index, the file `DATABASE-shm`, begins with a header that every commit of every process replaces
//! before the commit returns and before any reader sees what it changed (`walIndexWriteHdr` in SQLite's `wal.c`). So one
//! read of its 96 bytes, without SQLite and without another thread, tells whether what is kept is still what a query
//! would answer. The header is read before the query whose answer is kept under it: a commit in between makes the answer
//! newer than its label, which costs a query and is never wrong.
//!
//! A header does not come back while the database is open here. It holds a count of transactions and the log's length,
//! which grow; where the log begins anew (a checkpoint let it), two salts differ from before, one counted up and one
//! random. Only the index of a log that was never written is always the same, and it is made when a first connection
//! opens the database: [`Cache`] keeps one open until the end. A transaction that is rolled back, and a checkpoint by
//! itself, leave the header alone, as they leave what readers see.
//!
//! If the file is replaced under a program that runs, SQLite goes on with the old one, and so does this.

use std::{
    collections::HashMap,
    fs::File,
    hash::Hash,
    io,
    mem::ManuallyDrop,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use control::ports::rows::{EnvironmentRow, OwnedApiKey};
use domain::ids::{EnvironmentId, OrganizationId};
use sqlx::{Connection, SqliteConnection};

/// Bytes of one copy of the index's header; two stand one behind the other.
const HEADER: usize = 48;
/// SQLite's number of the header's format, in the machine's byte order; the only one there is.
const FORMAT: u32 = 3_007_000;
/// Where the header says that it was written at all.
const IS_INIT: usize = 12;
/// Bytes of column text that are kept at most; the rows made of them take about twice that.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of an entry's text at most.
const ENTRY_MAX: usize = BYTES_MAX / 16;
/// What an entry counts beside its text.
const ENTRY_OVERHEAD: usize = 1_024;

/// A state of the database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Header([u8; HEADER]);

impl Header {
    /// The state now; nothing where it cannot be told, such as in the middle of a commit.
    fn read(index: &File) -> Option<Self> {
        let mut copies = [0; 2 * HEADER];
        index.read_exact_at(&mut copies, 0).ok()?;
        let (first, second) = copies.split_first_chunk::<HEADER>()?;
        let known = first.first_chunk() == Some(&FORMAT.to_ne_bytes()) && first[IS_INIT] != 0;
        (known && first == second).then_some(Self(*first))
    }
}

/// The rows of the state that was seen last.
#[derive(Default)]
pub(crate) struct Kept {
    of: Option<Header>,
    bytes: usize,
    api_keys: HashMap<String, Arc<OwnedApiKey>>,
    environments: HashMap<(OrganizationId, EnvironmentId), Arc<EnvironmentRow>>,
}

impl Kept {
    fn clear(&mut self, of: Header) {
        *self = Self {
            of: Some(of),
            ..Self::default()
        };
    }
}

/// What can be kept.
pub(crate) trait Keep: Sized {
    /// What it is asked for with.
    type Key: Eq + Hash;
    /// Where it lies.
    fn shelf(kept: &mut Kept) -> &mut HashMap<Self::Key, Arc<Self>>;
}

impl Keep for OwnedApiKey {
    /// The keyed hash of the secret.
    type Key = String;
    fn shelf(kept: &mut Kept) -> &mut HashMap<String, Arc<Self>> {
        &mut kept.api_keys
    }
}

impl Keep for EnvironmentRow {
    type Key = (OrganizationId, EnvironmentId);
    fn shelf(kept: &mut Kept) -> &mut HashMap<Self::Key, Arc<Self>> {
        &mut kept.environments
    }
}

/// The cache of a SQLite file.
pub(crate) struct Cache {
    /// Never closed: SQLite's locks are the process's, and closing any descriptor of a file gives all of them up, also
    /// those of connections that another [`crate::Database`] of this process has open. One descriptor for each time that
    /// a database is opened is the price.
    index: ManuallyDrop<File>,
    /// Does nothing but stay: without any connection SQLite would remove the index, and another program would make one
    /// that we do not see.
    anchor: Mutex<Option<SqliteConnection>>,
    /// Nothing once the database is closed.
    kept: Mutex<Option<Kept>>,
}

impl Cache {
    /// For the database at `path`, which `anchor` has open.
    pub(crate) fn new(path: &Path, anchor: SqliteConnection) -> io::Result<Self> {
        // SQLite names its companion files after the file itself, not after a link to it.
        let mut index = path.canonicalize()?.into_os_string();
        index.push("-shm");
        Ok(Self {
            index: ManuallyDrop::new(File::open(index)?),
            anchor: Mutex::new(Some(anchor)),
            kept: Mutex::new(Some(Kept::default())),
        })
    }

    /// The state now.
    pub(crate) fn state(&self) -> Option<Header> {
        Header::read(&self.index)
    }

    /// What is kept of this state, which was read during the call that asks.
    pub(crate) fn find<T: Keep>(&self, state: Header, key: &T::Key) -> Option<Arc<T>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_mut()?;
        if kept.of != Some(state) {
            kept.clear(state);
            return None;
        }
        T::shelf(kept).get(key).cloned()
    }

    /// Keeps what a query answered that began after `before` was the state.
    pub(crate) fn keep<T: Keep>(&self, before: Header, key: T::Key, value: &Arc<T>, bytes: usize) {
        if bytes > ENTRY_MAX {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = kept.as_mut() else {
            return;
        };
        // Somebody saw a later state meanwhile.
        if kept.of != Some(before) {
            return;
        }
        let bytes = bytes + ENTRY_OVERHEAD;
        if kept.bytes + bytes > BYTES_MAX {
            kept.clear(before);
        }
        if T::shelf(kept).insert(key, Arc::clone(value)).is_none() {
            kept.bytes += bytes;
        }
    }

    /// Answers nothing any more; before the database's connections are closed.
    pub(crate) fn empty(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Lets go of the database; after its other connections.
    pub(crate) async fn close(&self) {
        let anchor = self
            .anchor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(anchor) = anchor
            && let Err(error) = anchor.close().await
        {
            tracing::debug!(error = %error, "a connection to the database was not closed in order");
        }
    }
}

#[cfg(test)]
mod tests;
