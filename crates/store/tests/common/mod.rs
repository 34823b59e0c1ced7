//! What the tests share: a fresh database of either kind, and rows to put in.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, missing_docs)]

pub mod postgres;
pub mod rows;

use std::sync::Arc;

use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{Database, OpenOptions};

/// A fresh, migrated database.
pub struct Bed {
    pub db: Arc<Database>,
    pub url: String,
    _directory: Option<tempfile::TempDir>,
}

pub const MIGRATE: OpenOptions = OpenOptions { migrate: true };

impl Bed {
    pub async fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        Self {
            db: store::open(&url, MIGRATE).await.unwrap(),
            url,
            _directory: Some(directory),
        }
    }

    pub async fn postgres() -> Self {
        let url = postgres::fresh_database();
        Self {
            db: store::open(&url, MIGRATE).await.unwrap(),
            url,
            _directory: None,
        }
    }

    /// The one text column of a statement, behind the store's back.
    pub async fn dump(&self, sql: &'static str) -> Vec<String> {
        if self.url.starts_with("sqlite") {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::query_scalar(sql)
                .fetch_all(&mut connection)
                .await
                .unwrap()
        } else {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            sqlx::query_scalar(sql)
                .fetch_all(&mut connection)
                .await
                .unwrap()
        }
    }

    /// Runs a statement behind the store's back.
    pub async fn raw(&self, sql: &'static str) {
        if self.url.starts_with("sqlite") {
            let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::query(sql).execute(&mut connection).await.unwrap();
        } else {
            let mut connection = PgConnection::connect(&self.url).await.unwrap();
            sqlx::query(sql).execute(&mut connection).await.unwrap();
        }
    }
}
