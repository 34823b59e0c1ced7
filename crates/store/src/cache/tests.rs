#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::{
    io::Write,
    sync::atomic::{AtomicU32, Ordering},
};

use control::ports::{Store, StoreError, rows::ApiKeyRow};
use domain::{ids::Id, roles::Role, timestamp::Timestamp};
use sqlx::SqliteConnection;
use uuid::Uuid;

use super::*;
use crate::{Database, OpenOptions, open};

fn owned(hash: &str) -> OwnedApiKey {
    fn id<K>() -> Id<K> {
        Id::from_uuid(Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0001))
    }
    OwnedApiKey {
        key: ApiKeyRow {
            api_key_id: id(),
            organization_id: id(),
            user_id: id(),
            name: String::new(),
            role: Role::User,
            secret_hash: hash.to_owned(),
            last_four: String::new(),
            created_at: Timestamp::from_micros(1),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        },
        email: "member@example.com".to_owned(),
        owner_role: Role::User,
        owner_removed_at: None,
    }
}

/// A database, and how often it was asked.
struct Asked {
    db: Arc<Database>,
    url: String,
    times: AtomicU32,
    _directory: tempfile::TempDir,
}

impl Asked {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        Self {
            db: open(&url, OpenOptions { migrate: true }).await.unwrap(),
            url,
            times: AtomicU32::new(0),
            _directory: directory,
        }
    }

    async fn read(&self, key: &str, bytes: usize) {
        let ask = async {
            self.times.fetch_add(1, Ordering::Relaxed);
            Ok::<_, StoreError>(Some((owned(key), bytes)))
        };
        let found = self.db.kept::<OwnedApiKey>(key.to_owned(), ask).await;
        assert_eq!(*found.unwrap().unwrap(), owned(key));
    }

    /// Whether reading asks the database.
    async fn asks(&self) -> bool {
        let before = self.times.load(Ordering::Relaxed);
        self.read("k", 1).await;
        self.times.load(Ordering::Relaxed) > before
    }

    async fn connection(&self) -> SqliteConnection {
        SqliteConnection::connect(&self.url).await.unwrap()
    }
}

async fn say(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.unwrap();
}

const CHANGE: &str = "INSERT INTO settings (name, value) VALUES ('a', 'b') \
                      ON CONFLICT (name) DO UPDATE SET value = value || 'b'";

#[tokio::test]
async fn what_was_read_is_kept_until_anybody_commits() {
    let bed = Asked::new().await;
    assert!(bed.asks().await, "nothing was kept yet");
    for _ in 0..3 {
        assert!(!bed.asks().await);
    }
    bed.db.set_setting("x", Some("y")).await.unwrap();
    assert!(bed.asks().await, "we committed");
    assert!(!bed.asks().await);

    let other = open(&bed.url, OpenOptions { migrate: false })
        .await
        .unwrap();
    assert!(!bed.asks().await, "opening changes nothing");
    other.set_setting("x", Some("z")).await.unwrap();
    assert!(bed.asks().await, "another pool committed");

    let mut raw = bed.connection().await;
    for end in ["ROLLBACK", "COMMIT"] {
        say(&mut raw, "BEGIN IMMEDIATE").await;
        say(&mut raw, CHANGE).await;
        assert!(!bed.asks().await, "not committed");
        say(&mut raw, end).await;
        assert_eq!(bed.asks().await, end == "COMMIT");
    }
}

#[tokio::test]
async fn a_log_that_begins_anew_is_another_state() {
    let bed = Asked::new().await;
    let mut raw = bed.connection().await;
    let mut states = std::collections::HashSet::new();
    for _ in 0..5 {
        say(&mut raw, CHANGE).await;
        assert!(bed.asks().await);
        assert!(states.insert(bed.db.state().unwrap()));
        say(&mut raw, "PRAGMA wal_checkpoint(TRUNCATE)").await;
        bed.asks().await;
        assert!(!bed.asks().await);
        states.insert(bed.db.state().unwrap());
    }
}

#[tokio::test]
async fn a_closed_database_answers_nothing_from_memory() {
    let bed = Asked::new().await;
    bed.read("k", 1).await;
    assert!(!bed.asks().await);
    bed.db.close().await;
    for _ in 0..2 {
        assert!(bed.asks().await);
    }
}

#[tokio::test]
async fn the_index_stays_while_the_database_is_open_and_goes_with_it() {
    let bed = Asked::new().await;
    let index = format!("{}-shm", bed.url.strip_prefix("sqlite://").unwrap());
    let number = || {
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&index).expect("the log's index"))
    };
    let before = number();
    // Every connection of the pools is gone; another program is the last to close, as it believes.
    bed.db.close_pools().await;
    let mut raw = bed.connection().await;
    say(&mut raw, CHANGE).await;
    raw.close().await.unwrap();
    assert_eq!(number(), before);
    assert!(bed.asks().await);
    bed.db.close().await;
    assert!(!std::fs::exists(&index).unwrap());
}

#[tokio::test]
async fn what_is_kept_has_a_bound() {
    let bed = Asked::new().await;
    let asked = || bed.times.load(Ordering::Relaxed);
    bed.read("large", ENTRY_MAX + 1).await;
    bed.read("large", ENTRY_MAX + 1).await;
    assert_eq!(asked(), 2, "too large to be kept");
    for number in 0..40 {
        bed.read(&number.to_string(), ENTRY_MAX).await;
    }
    assert_eq!(asked(), 42);
    bed.read("39", ENTRY_MAX).await;
    assert_eq!(asked(), 42, "the last ones are kept");
    bed.read("0", ENTRY_MAX).await;
    assert_eq!(asked(), 43, "the first ones had to go");
}

#[test]
fn a_header_counts_only_if_it_is_whole() {
    let whole = {
        let mut header = [7u8; HEADER];
        header[..4].copy_from_slice(&FORMAT.to_ne_bytes());
        [header, header].concat()
    };
    let read = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Header::read(&file)
    };
    assert!(read(&whole).is_some_and(|header| header.0[..] == whole[..HEADER]));
    assert!(read(&whole[..2 * HEADER - 1]).is_none(), "cut off");
    for at in 0..2 * HEADER {
        let mut torn = whole.clone();
        torn[at] ^= 1;
        assert!(read(&torn).is_none(), "the copies differ in byte {at}");
    }
    for (at, what) in [(0, "another format"), (IS_INIT, "not written yet")] {
        let mut other = whole.clone();
        for copy in [0, HEADER] {
            other[copy + at] = 0;
        }
        assert!(read(&other).is_none(), "{what}");
    }
}
