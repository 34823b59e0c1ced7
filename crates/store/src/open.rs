//! Opening a database: which one, whether it can be used, and its migrations.

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    Connection, PgPool, SqlitePool,
    migrate::{Migrate, MigrateError, Migrator},
    postgres::{PgConnectOptions, PgConnection, PgPoolOptions},
    sqlite::{
        SqliteConnectOptions, SqliteConnection, SqliteError, SqliteJournalMode, SqlitePoolOptions,
        SqliteSynchronous,
    },
};

use crate::{Database, cache::Cache, dialect, errors::sqlite_code};

static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// How long a SQLite statement waits for another process (a backup, the command line) that holds the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call waits for a free connection before it answers *unavailable*.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the first connection to PostgreSQL may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLite's readers.
const SQLITE_READERS: u32 = 4;
/// PostgreSQL connections, without the one that rings the doorbell.
const POSTGRES_CONNECTIONS: u32 = 12;
/// Bytes that SQLite's write-ahead log is cut back to once it is folded into the file.
const WAL_KEPT_BYTES: &str = "67108864";

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bring the schema up to date. Without it, a database that is not up to date is refused.
    pub migrate: bool,
}

/// Why a database cannot be used, and how to mend it. Never holds the URL: there may be a password in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no database that we know.
    #[error(
        "The database URL cannot be read: use sqlite:///absolute/path.db or postgres://user:password@host:5432/name."
    )]
    Url,
    /// The SQLite file cannot be written.
    #[error(
        "The database file {} cannot be written: create its directory and let this program's user write to both.", path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is something else.
    #[error(
        "The file {} is not a SQLite database: move it away, or name another file in the database URL.", .0.display()
    )]
    NotADatabase(PathBuf),
    /// The file is a database of another program.
    #[error(
        "The file {} is another program's database: name another file in the database URL.", .0.display()
    )]
    NotOurs(PathBuf),
    /// The file is damaged.
    #[error("The database file {} is damaged: stop the program and restore it from a backup.", .0.display())]
    Corrupt(PathBuf),
    /// Another process holds the file.
    #[error("The database file {} is locked by another process: stop that one first.", .0.display())]
    Busy(PathBuf),
    /// PostgreSQL refused user or password.
    #[error(
        "PostgreSQL at {address} refused the user {user:?} or its password: correct them in the database URL."
    )]
    Password {
        /// Host and port, or socket.
        address: String,
        /// The user tried.
        user: String,
    },
    /// PostgreSQL has no such database.
    #[error(
        "PostgreSQL at {address} has no database {database:?}: create it, or correct the name in the database URL."
    )]
    NoDatabase {
        /// Host and port, or socket.
        address: String,
        /// The name tried.
        database: String,
    },
    /// PostgreSQL does not answer.
    #[error(
        "PostgreSQL at {address} does not answer: check host and port in the database URL, and that it runs and lets this machine in."
    )]
    Unreachable {
        /// Host and port, or socket.
        address: String,
        /// What the driver said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No encrypted connection could be made.
    #[error(
        "PostgreSQL at {address} and this program found no TLS connection that both accept: check sslmode and sslrootcert in the database URL, and the server's certificate."
    )]
    Tls {
        /// Host and port, or socket.
        address: String,
        /// What the driver said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A later program has migrated it.
    #[error(
        "The database was migrated by a newer version of this program (step {0}): install that version, or restore a backup from before."
    )]
    Newer(i64),
    /// It is older than this program and was not to be migrated.
    #[error(
        "The database lacks {0} migration step(s) of this version: back it up, then start the server, which migrates it."
    )]
    Older(usize),
    /// A step that was applied reads differently in this program.
    #[error(
        "Migration step {0} of the database differs from this program's: use an unmodified build, since applied steps must never be edited."
    )]
    Edited(i64),
    /// A step failed; it was undone.
    #[error("Migration step {step} failed and was undone: {source}.")]
    Migration {
        /// The step.
        step: i64,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Anything else.
    #[error("The database cannot be opened: {0}.")]
    Other(#[source] sqlx::Error),
}

/// Opens `sqlite:///path`, `sqlite::memory:` (for tests) or `postgres://…`. A missing SQLite file is made, readable by
/// its owner only; a missing directory is not.
///
/// # Errors
/// [`OpenError`], each with a sentence for the operator.
pub async fn open(url: &str, options: OpenOptions) -> Result<Arc<Database>, OpenError> {
    let database = if url.starts_with("sqlite:") {
        open_sqlite(url, options).await?
    } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        open_postgres(url, options).await?
    } else {
        return Err(OpenError::Url);
    };
    Ok(Arc::new(database))
}

async fn open_sqlite(url: &str, options: OpenOptions) -> Result<Database, OpenError> {
    let in_memory = url == "sqlite::memory:";
    let connect = SqliteConnectOptions::from_str(url)
        .map_err(|_| OpenError::Url)?
        .create_if_missing(true)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // FULL: in WAL mode NORMAL may lose the last commits with the machine's power. A receipt that was answered, or a
        // log line that a worker was told is stored, must not be among them. It costs one sync for each commit.
        .synchronous(SqliteSynchronous::Full)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("journal_size_limit", WAL_KEPT_BYTES)
        .optimize_on_close(!in_memory, 400);
    let path = connect.get_filename().to_owned();
    // Held to the end of opening.
    let _turn = if in_memory {
        None
    } else {
        let unwritable = |source| OpenError::Unwritable {
            path: path.clone(),
            source: Box::new(source),
        };
        let turn = tokio::time::timeout(BUSY_TIMEOUT, turn(&path))
            .await
            .map_err(|_| OpenError::Busy(path.clone()))?
            .map_err(unwritable)?;
        create_private(&path).map_err(unwritable)?;
        Some(turn)
    };
    let name = |error| sqlite_error(error, &path);
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None);
    let writer = pool
        .clone()
        .max_connections(1)
        .connect_with(connect.clone())
        .await
        .map_err(name)?;
    let foreign: i64 = sqlx::query_scalar(dialect::FOREIGN_TABLES)
        .fetch_one(&writer)
        .await
        .map_err(name)?;
    if foreign > 0 {
        return Err(OpenError::NotOurs(path));
    }
    migrate_sqlite(&writer, options)
        .await
        .map_err(|error| migration_error(error, name))?;
    if in_memory {
        return Ok(Database::sqlite(writer.clone(), writer, None));
    }
    let connect = connect.pragma("query_only", "ON");
    let anchor = connect.clone().optimize_on_close(false, None);
    let anchor = SqliteConnection::connect_with(&anchor)
        .await
        .map_err(name)?;
    let cache = match Cache::new(&path, anchor) {
        Ok(cache) => Some(cache),
        Err(error) => {
            tracing::warn!(cause = %error, "the index of the database's log cannot be read: nothing is kept in memory");
            None
        }
    };
    let readers = pool
        .max_connections(SQLITE_READERS)
        .connect_lazy_with(connect);
    Ok(Database::sqlite(writer, readers, cache))
}

/// Waits for this program's turn to open the file: its directory, locked. Where SQLite turns a new file to its
/// write-ahead log it does not wait for another program that does the same, but says at once that the file is busy.
async fn turn(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => std::path::Path::new("."),
    };
    let directory = std::fs::File::open(directory)?;
    tokio::task::spawn_blocking(move || directory.lock().map(|()| directory))
        .await
        .map_err(std::io::Error::other)?
}

/// Makes the file if it is missing, for its owner alone: it holds password hashes and members' variables. SQLite gives
/// its companion files the same permissions. A file that is there is not even opened: closing it would give up the locks
/// of connections that this process has already.
fn create_private(path: &std::path::Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

async fn migrate_sqlite(writer: &SqlitePool, options: OpenOptions) -> Result<(), Refused> {
    if options.migrate {
        // `run_direct` is `run` without a bound that a spawned future cannot meet. One transaction for all steps: SQLite gives sqlx no lock that would keep two programs from migrating at once.
        let mut tx = writer.begin_with(dialect::BEGIN_WRITE.sqlite).await?;
        SQLITE_MIGRATIONS.run_direct(None, &mut *tx, false).await?;
        return Ok(tx.commit().await?);
    }
    let mut connection = writer.acquire().await?;
    check::<SqliteConnection>(&mut connection, &SQLITE_MIGRATIONS).await
}

async fn open_postgres(url: &str, options: OpenOptions) -> Result<Database, OpenError> {
    let connect = PgConnectOptions::from_str(url)
        .map_err(|_| OpenError::Url)?
        .application_name("groundwork");
    let name = |error| postgres_error(error, &connect);
    // One plain connection first: the pool would try a closed port again and again until its own timeout.
    let mut first = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&connect))
        .await
        .unwrap_or(Err(sqlx::Error::PoolTimedOut))
        .map_err(name)?;
    let migrated = if options.migrate {
        POSTGRES_MIGRATIONS
            .run_direct(None, &mut first, false)
            .await
            .map_err(Refused::from)
    } else {
        check(&mut first, &POSTGRES_MIGRATIONS).await
    };
    migrated.map_err(|error| migration_error(error, name))?;
    first.close().await.map_err(name)?;
    let pool: PgPool = PgPoolOptions::new()
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_connections(POSTGRES_CONNECTIONS)
        .connect_lazy_with(connect.clone());
    Database::postgres(pool, connect.clone())
        .await
        .map_err(name)
}

enum Refused {
    Migrate(MigrateError),
    Older(usize),
}
impl From<MigrateError> for Refused {
    fn from(error: MigrateError) -> Self {
        Self::Migrate(error)
    }
}
impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::Migrate(MigrateError::Execute(error))
    }
}

/// Whether exactly this program's migrations are applied; changes nothing.
async fn check<C: Migrate>(connection: &mut C, ours: &Migrator) -> Result<(), Refused> {
    let applied = match connection.list_applied_migrations(&ours.table_name).await {
        Ok(applied) => applied,
        Err(MigrateError::Execute(sqlx::Error::Database(error))) if no_such_table(&*error) => {
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    for step in &applied {
        match ours.iter().find(|known| known.version == step.version) {
            None => return Err(MigrateError::VersionMissing(step.version).into()),
            Some(known) if known.checksum != step.checksum => {
                return Err(MigrateError::VersionMismatch(step.version).into());
            }
            Some(_) => {}
        }
    }
    match ours.iter().count().saturating_sub(applied.len()) {
        0 => Ok(()),
        missing => Err(Refused::Older(missing)),
    }
}

fn no_such_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().as_deref() == Some("42P01") || error.message().starts_with("no such table")
}

fn migration_error(refused: Refused, name: impl Fn(sqlx::Error) -> OpenError) -> OpenError {
    match refused {
        Refused::Older(missing) => OpenError::Older(missing),
        Refused::Migrate(MigrateError::VersionMissing(step)) => OpenError::Newer(step),
        Refused::Migrate(MigrateError::VersionMismatch(step)) => OpenError::Edited(step),
        Refused::Migrate(MigrateError::Execute(error)) => name(error),
        Refused::Migrate(MigrateError::ExecuteMigration(source, step)) => match name(source) {
            OpenError::Other(source) => OpenError::Migration { step, source },
            named => named,
        },
        Refused::Migrate(other) => OpenError::Other(sqlx::Error::Migrate(Box::new(other))),
    }
}

fn sqlite_error(error: sqlx::Error, path: &std::path::Path) -> OpenError {
    let code = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<SqliteError>())
        .and_then(sqlite_code);
    let path = path.to_owned();
    match code {
        // SQLITE_PERM, READONLY, CANTOPEN.
        Some(3 | 8 | 14) => OpenError::Unwritable {
            path,
            source: Box::new(error),
        },
        // SQLITE_BUSY, LOCKED.
        Some(5 | 6) => OpenError::Busy(path),
        // SQLITE_CORRUPT.
        Some(11) => OpenError::Corrupt(path),
        // SQLITE_NOTADB.
        Some(26) => OpenError::NotADatabase(path),
        _ => OpenError::Other(error),
    }
}

fn postgres_error(error: sqlx::Error, options: &PgConnectOptions) -> OpenError {
    let address = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let code = error
        .as_database_error()
        .and_then(|error| error.code())
        .map(|code| code.into_owned());
    match (code.as_deref(), &error) {
        (Some("28P01" | "28000"), _) => OpenError::Password {
            address,
            user: options.get_username().to_owned(),
        },
        (Some("3D000"), _) => OpenError::NoDatabase {
            address,
            database: options.get_database().unwrap_or_default().to_owned(),
        },
        (None, sqlx::Error::Tls(_)) => OpenError::Tls {
            address,
            source: Box::new(error),
        },
        // A certificate that is not accepted comes as bad data.
        (None, sqlx::Error::Io(io)) if io.kind() == std::io::ErrorKind::InvalidData => {
            OpenError::Tls {
                address,
                source: Box::new(error),
            }
        }
        (None, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut) | (Some("57P03" | "53300"), _) => {
            OpenError::Unreachable {
                address,
                source: Box::new(error),
            }
        }
        _ => OpenError::Other(error),
    }
}
