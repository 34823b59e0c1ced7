//! Opening: every reason not to, with its sentence.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{os::unix::fs::PermissionsExt, path::Path};

use common::{Bed, MIGRATE, postgres, rows};
use control::ports::Store;
use sqlx::{Connection, SqliteConnection};
use store::{OpenError, OpenOptions, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const AS_IT_IS: OpenOptions = OpenOptions { migrate: false };

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

async fn refusal(url: &str, options: OpenOptions) -> OpenError {
    match open(url, options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.ends_with('.') && text.starts_with(char::is_uppercase),
                "{text}"
            );
            error
        }
    }
}

#[tokio::test]
async fn a_url_of_another_kind_is_refused_without_being_repeated() {
    for url in [
        "mysql://me:hunter2@host/x",
        "/var/lib/x.db",
        "postgres://me:hunter2@host:port/x",
        "",
    ] {
        let error = refusal(url, MIGRATE).await;
        assert!(matches!(error, OpenError::Url), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_database_in_memory_works() {
    let db = open("sqlite::memory:", MIGRATE).await.unwrap();
    db.set_setting("a", Some("b")).await.unwrap();
    assert_eq!(db.setting("a").await.unwrap().as_deref(), Some("b"));
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("absent").join("test.db");
    let error = refusal(&url(&path), MIGRATE).await;
    assert!(matches!(&error, OpenError::Unwritable { path: named, .. } if *named == path));
    assert!(
        error.to_string().contains("create its directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_directory_that_takes_no_file_is_named() {
    // Even root cannot make files there.
    let error = refusal("sqlite:///sys/kernel/groundwork.db", MIGRATE).await;
    assert!(matches!(error, OpenError::Unwritable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let error = refusal(&(url(&path) + "?mode=ro"), MIGRATE).await;
    assert!(matches!(error, OpenError::Unwritable { .. }), "{error:?}");
}

#[tokio::test]
async fn another_kind_of_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter.txt");
    let letter = "Dear all, this is no database.\n".repeat(200);
    std::fs::write(&path, &letter).unwrap();
    let error = refusal(&url(&path), MIGRATE).await;
    assert!(matches!(error, OpenError::NotADatabase(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[tokio::test]
async fn another_programs_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.db");
    let mut other = SqliteConnection::connect(&(url(&path) + "?mode=rwc"))
        .await
        .unwrap();
    sqlx::query("CREATE TABLE bookmarks (url TEXT)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let error = refusal(&url(&path), MIGRATE).await;
    assert!(matches!(error, OpenError::NotOurs(_)), "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    open(&url(&path), MIGRATE).await.unwrap().close().await;
    let mut bytes = std::fs::read(&path).unwrap();
    // The file's header is whole, the list of tables behind it is not.
    bytes[100..4_000].fill(0xee);
    std::fs::write(&path, &bytes).unwrap();
    let error = refusal(&url(&path), MIGRATE).await;
    assert!(matches!(error, OpenError::Corrupt(_)), "{error:?}");
    assert!(error.to_string().contains("backup"), "{error}");
}

#[tokio::test]
async fn a_new_file_is_its_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let db = open(&url(&path), MIGRATE).await.unwrap();
    db.set_setting("a", Some("b")).await.unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        files += 1;
    }
    assert_eq!(files, 3, "the file, its log and the log's index");
}

#[tokio::test]
async fn programs_that_start_at_once_migrate_once() {
    let directory = tempfile::tempdir().unwrap();
    let url = url(&directory.path().join("test.db"));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { open(&url, MIGRATE).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    for bed in [Bed::sqlite().await, Bed::postgres().await] {
        bed.db.set_setting("a", Some("b")).await.unwrap();
        bed.db.close().await;
        let again = open(&bed.url, AS_IT_IS).await.unwrap();
        assert_eq!(again.setting("a").await.unwrap().as_deref(), Some("b"));
    }
}

#[tokio::test]
async fn an_older_database_is_migrated_only_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = url(&directory.path().join("test.db"));
    for url in [file, postgres::fresh_database()] {
        let error = refusal(&url, AS_IT_IS).await;
        assert!(
            matches!(error, OpenError::Older(steps) if steps > 0),
            "{error:?}"
        );
        let error = refusal(&url, AS_IT_IS).await;
        assert!(
            matches!(error, OpenError::Older(_)),
            "looking changed nothing: {error:?}"
        );
        open(&url, MIGRATE).await.unwrap().close().await;
        open(&url, AS_IT_IS).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    for bed in [Bed::sqlite().await, Bed::postgres().await] {
        bed.raw(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 9999, 'of the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
        for options in [MIGRATE, AS_IT_IS] {
            let error = refusal(&bed.url, options).await;
            assert!(matches!(error, OpenError::Newer(9_999)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_edited_migration_is_refused() {
    for bed in [Bed::sqlite().await, Bed::postgres().await] {
        bed.raw(if bed.url.starts_with("sqlite") {
            "UPDATE _sqlx_migrations SET checksum = CAST('other' AS BLOB)"
        } else {
            "UPDATE _sqlx_migrations SET checksum = 'other'"
        })
        .await;
        for options in [MIGRATE, AS_IT_IS] {
            let error = refusal(&bed.url, options).await;
            assert!(matches!(error, OpenError::Edited(1)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_step_that_fails_is_undone_and_named() {
    let url = postgres::fresh_database();
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE workers (worker_id TEXT)")
        .execute(&mut connection)
        .await
        .unwrap();
    let error = refusal(&url, MIGRATE).await;
    assert!(
        matches!(error, OpenError::Migration { step: 1, .. }),
        "{error:?}"
    );
    let tables: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'organizations'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(tables, 0);
}

#[tokio::test]
async fn a_wrong_password_is_never_shown() {
    let url = postgres::fresh_database();
    let wrong = url.replace(":test@", ":hunter2@");
    assert_ne!(
        wrong, url,
        "these tests need the temporary server's password"
    );
    let error = refusal(&wrong, MIGRATE).await;
    assert!(matches!(error, OpenError::Password { .. }), "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(
        !shown.contains("hunter2") && shown.contains("127.0.0.1:"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_missing_postgres_database_is_named() {
    let url = postgres::with_database(&postgres::fresh_database(), "absent");
    let error = refusal(&url, MIGRATE).await;
    assert!(
        matches!(&error, OpenError::NoDatabase { database, .. } if database == "absent"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_named() {
    // Nobody listens there, and no system gives it to anybody who asks for any port.
    let port = 1;
    let error = refusal(
        &format!("postgres://me:hunter2@127.0.0.1:{port}/x"),
        MIGRATE,
    )
    .await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(
        shown.contains(&format!("127.0.0.1:{port}")) && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_demanded() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // A server of the PostgreSQL protocol that has no TLS answers the request for it with an N.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 8];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(b"N").await.unwrap();
    });
    let url = format!("postgres://me:hunter2@127.0.0.1:{port}/x?sslmode=require");
    let error = refusal(&url, MIGRATE).await;
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_failed_write_leaves_the_connection_usable() {
    for bed in [Bed::sqlite().await, Bed::postgres().await] {
        for _ in 0..30 {
            let user = rows::user(1, 1, domain::roles::Role::User);
            assert!(bed.db.insert_user(&user, None, rows::none()).await.is_err());
        }
        bed.db.set_setting("a", Some("b")).await.unwrap();
    }
}
