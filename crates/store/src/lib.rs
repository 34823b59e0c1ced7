//! sqlx behind the ports of the application layer: SQLite (the default) and PostgreSQL.
//!
//! There is one SQL text for both: statements use `$n`, `RETURNING`, `ON CONFLICT`, TEXT, BIGINT and BOOLEAN, take every
//! time as a parameter, and are dispatched one by one to whichever database is open (`db`). What must differ stands in
//! `dialect`. Each method of the port is one transaction; doorbells that it collects ring after the commit.
//! On SQLite what every request of the API reads (its key, an environment) is answered from memory while nobody has
//! committed anything (`cache`). `docs/database.md` says how to add a table.

mod bells;
mod cache;
mod columns;
mod db;
mod dialect;
mod errors;
mod open;
mod tables;

pub use db::Database;
pub use open::{OpenError, OpenOptions, open};
