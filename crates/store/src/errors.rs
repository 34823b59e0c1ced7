//! From sqlx's errors to the port's.

use control::ports::StoreError;
use sqlx::error::{DatabaseError, ErrorKind};

/// SQLite's primary result codes that pass or that an operator can mend: busy, locked, read-only, I/O, full, cannot open.
const SQLITE_UNAVAILABLE: [u32; 6] = [5, 6, 8, 10, 13, 14];

/// PostgreSQL's classes and codes that pass: connection, resources, operator intervention, serialization, deadlock, lock
/// timeout, read-only standby.
const POSTGRES_UNAVAILABLE: [&str; 7] = ["08", "53", "57", "40001", "40P01", "55P03", "25006"];

/// Translates an error of the driver.
pub(crate) fn translate(error: sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    match &error {
        E::Database(database) => {
            if let Some(name) = constraint(database.as_ref()) {
                return StoreError::Constraint(name);
            }
            if unavailable(database.as_ref()) {
                return StoreError::Unavailable(Box::new(error));
            }
            StoreError::Other(Box::new(error))
        }
        E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed => {
            StoreError::Unavailable(Box::new(error))
        }
        _ => StoreError::Other(Box::new(error)),
    }
}

/// The name of the constraint that refused, the same on both databases: `foreign_key`, `table_pkey`, or the unique
/// index's name (`table_column`).
fn constraint(error: &dyn DatabaseError) -> Option<String> {
    match error.kind() {
        ErrorKind::ForeignKeyViolation => Some("foreign_key".to_owned()),
        ErrorKind::UniqueViolation => Some(match error.constraint() {
            Some(name) => name.to_owned(),
            None => sqlite_unique(error),
        }),
        _ => None,
    }
}

/// SQLite names columns, not the index: `UNIQUE constraint failed: users.email`.
fn sqlite_unique(error: &dyn DatabaseError) -> String {
    const PRIMARY_KEY: &str = "1555";
    let columns = error.message().rsplit(": ").next().unwrap_or_default();
    let mut name = String::new();
    for column in columns.split(", ") {
        let (table, column) = column.split_once('.').unwrap_or((column, ""));
        if name.is_empty() {
            name.push_str(table);
        }
        if error.code().as_deref() == Some(PRIMARY_KEY) {
            return name + "_pkey";
        }
        name.push('_');
        name.push_str(column);
    }
    name
}

fn unavailable(error: &dyn DatabaseError) -> bool {
    let Some(code) = error.code() else {
        return false;
    };
    if let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
        return sqlite_code(error).is_some_and(|code| SQLITE_UNAVAILABLE.contains(&code));
    }
    POSTGRES_UNAVAILABLE
        .iter()
        .any(|prefix| code.starts_with(prefix))
}

/// The primary result code, without the extension in the higher bits.
pub(crate) fn sqlite_code(error: &sqlx::sqlite::SqliteError) -> Option<u32> {
    let code: u32 = error.code()?.parse().ok()?;
    Some(code & 0xff)
}
