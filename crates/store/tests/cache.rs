//! What SQLite's readers are answered from memory, while pools and processes write: never older than what was committed
//! before they asked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use common::{Bed, rows};
use control::ports::{Store, StoreError, Written};
use domain::roles::Role;
use sqlx::{Connection, SqliteConnection};
use store::{Database, OpenOptions, open};

/// Names the database to the process that this test's program starts of itself.
const DATABASE: &str = "GROUNDWORK_TEST_DATABASE";
/// How long is written and read.
const WHILE: Duration = Duration::from_secs(2);
const AS_IT_IS: OpenOptions = OpenOptions { migrate: false };

async fn read(db: &Database) -> i64 {
    db.environment(rows::id(1), rows::id(100))
        .await
        .unwrap()
        .unwrap()
        .version
}

/// Counts the environment's version up and answers it once it is committed.
async fn count_up(db: &Database) -> i64 {
    loop {
        let mut row = db
            .environment(rows::id(1), rows::id(100))
            .await
            .unwrap()
            .unwrap();
        let expected = row.version;
        row.version += 1;
        match db.update_environment(expected, &row, rows::none()).await {
            Ok(Written::Done) => return row.version,
            Ok(Written::Stale) | Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn bed() -> Bed {
    let bed = Bed::sqlite().await;
    let admin = rows::user(1, 1, Role::Admin);
    let _ = bed
        .db
        .bootstrap(&rows::organization(1), &admin, rows::none())
        .await
        .unwrap();
    bed.db
        .insert_environment(&rows::environment(1, 100), rows::none())
        .await
        .unwrap();
    bed
}

/// What the other process does: counts up and says each version, and after some opens the database anew.
#[tokio::test]
async fn the_other_process() {
    let Ok(url) = std::env::var(DATABASE) else {
        return;
    };
    loop {
        let db = open(&url, AS_IT_IS).await.unwrap();
        for _ in 0..50 {
            println!("version {}", count_up(&db).await);
        }
        db.close().await;
    }
}

/// The program of this test again, as a writer; tells what it committed until it is ended.
fn other_process(url: &str, committed: &Arc<AtomicI64>) -> std::process::Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(DATABASE, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let committed = Arc::clone(committed);
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            // The harness writes beside it.
            if let Some((_, version)) = line.rsplit_once("version ") {
                committed.fetch_max(version.parse().unwrap(), Ordering::SeqCst);
            }
        }
    });
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_is_answered_less_than_what_was_committed_before_it_asked() {
    let bed = bed().await;
    let second = open(&bed.url, AS_IT_IS).await.unwrap();
    let committed = Arc::new(AtomicI64::new(1));
    let stop = Arc::new(AtomicBool::new(false));
    let (reads, from_there) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
    let mut child = other_process(&bed.url, &from_there);
    let mut tasks = Vec::new();
    for db in [&bed.db, &second] {
        let (db, committed, stop) = (db.clone(), committed.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                committed.fetch_max(count_up(&db).await, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        }));
    }
    for db in [&bed.db, &bed.db, &second, &second] {
        let (db, stop, reads) = (db.clone(), stop.clone(), reads.clone());
        let (here, there) = (committed.clone(), from_there.clone());
        tasks.push(tokio::spawn(async move {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let least = here
                    .load(Ordering::SeqCst)
                    .max(there.load(Ordering::SeqCst));
                let version = read(&db).await;
                assert!(version >= least, "{version}, but {least} was committed");
                assert!(version >= last, "{version} after {last}");
                last = version;
                reads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }));
    }
    let begun = Instant::now();
    let mut checkpoints = SqliteConnection::connect(&bed.url).await.unwrap();
    while begun.elapsed() < WHILE || from_there.load(Ordering::SeqCst) < 100 {
        assert!(
            begun.elapsed() < WHILE * 20,
            "the other process does not get on"
        );
        // So that the log begins anew again and again. It may find the database busy.
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut checkpoints)
            .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let least = committed
        .load(Ordering::SeqCst)
        .max(from_there.load(Ordering::SeqCst));
    assert!(read(&bed.db).await >= least);
    assert!(reads.load(Ordering::Relaxed) > 100);
}

#[tokio::test]
async fn a_key_that_another_connection_revoked_is_revoked_at_the_next_read() {
    let bed = bed().await;
    let key = rows::api_key(1, 20, rows::id(1));
    bed.db.insert_api_key(&key, rows::none()).await.unwrap();
    let found = || async { bed.db.api_key_by_hash("secret20").await.unwrap().unwrap() };
    assert_eq!(found().await.key.revoked_at, None);
    assert_eq!(found().await.key.revoked_at, None);
    let mut other = SqliteConnection::connect(&bed.url).await.unwrap();
    for (sql, revoked) in [
        ("BEGIN IMMEDIATE", None),
        ("UPDATE api_keys SET revoked_at = 7", None),
        ("ROLLBACK", None),
        ("BEGIN IMMEDIATE", None),
        ("UPDATE api_keys SET revoked_at = 8", None),
        ("COMMIT", Some(8)),
        ("UPDATE api_keys SET revoked_at = 9", Some(9)),
        ("PRAGMA wal_checkpoint(TRUNCATE)", Some(9)),
        ("UPDATE api_keys SET revoked_at = 10", Some(10)),
        ("VACUUM", Some(10)),
    ] {
        sqlx::query(sql).execute(&mut other).await.unwrap();
        for _ in 0..2 {
            let found = found().await.key.revoked_at.map(|at| at.micros());
            assert_eq!(found, revoked, "after {sql}");
        }
    }
}
