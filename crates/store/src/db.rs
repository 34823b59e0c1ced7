//! The open database: pools, transactions, and the dispatch of one statement to either database.

use std::sync::Arc;

use control::ports::{Doorbell, StoreError, Topic};
use domain::{
    ids::{Id, Kind},
    timestamp::Timestamp,
};
use sqlx::{
    Database as Driver, Decode, Encode, PgPool, Postgres, Row as _, Sqlite, SqlitePool,
    Transaction, Type,
    postgres::{PgConnectOptions, PgRow},
    query::Query,
    sqlite::SqliteRow,
};

use crate::{
    bells::{self, Bells, Connected},
    cache::{Cache, Keep},
    dialect::{self, Sql},
    errors::translate,
};

/// An open database: the application layer's [`control::ports::Store`] and [`Doorbell`]. Made by [`crate::open()`].
pub struct Database {
    db: Db,
    bells: Arc<Bells>,
    /// Of a SQLite file; another server may change PostgreSQL without a sign that could be read as cheaply.
    cache: Option<Cache>,
    _connected: Option<Connected>,
}

/// The pools of whichever database it is.
pub(crate) enum Db {
    /// One connection writes, several read.
    Sqlite {
        /// Its only connection.
        writer: SqlitePool,
        /// Query-only connections; the writer itself for a database in memory.
        readers: SqlitePool,
    },
    /// One pool for everything.
    Postgres(PgPool),
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.db {
            Db::Sqlite { .. } => "Database(SQLite)",
            Db::Postgres(_) => "Database(PostgreSQL)",
        })
    }
}

impl Database {
    pub(crate) fn sqlite(writer: SqlitePool, readers: SqlitePool, cache: Option<Cache>) -> Self {
        Self {
            db: Db::Sqlite { writer, readers },
            bells: Arc::new(Bells::default()),
            cache,
            _connected: None,
        }
    }

    pub(crate) async fn postgres(
        pool: PgPool,
        options: PgConnectOptions,
    ) -> Result<Self, sqlx::Error> {
        let bells = Arc::new(Bells::shared());
        let connected = bells::connect(&bells, options, pool.clone()).await?;
        Ok(Self {
            db: Db::Postgres(pool),
            bells,
            cache: None,
            _connected: Some(connected),
        })
    }

    /// Waits for the statements under way and closes every connection; SQLite's write-ahead log is folded into the file.
    /// Later calls answer [`StoreError::Unavailable`].
    pub async fn close(&self) {
        if let Some(cache) = &self.cache {
            cache.empty();
        }
        self.close_pools().await;
        if let Some(cache) = &self.cache {
            cache.close().await;
        }
    }

    pub(crate) async fn close_pools(&self) {
        match &self.db {
            Db::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Db::Postgres(pool) => pool.close().await,
        }
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> Option<crate::cache::Header> {
        self.cache.as_ref().and_then(Cache::state)
    }

    /// What was read before under `key` if nothing was committed since, else what `ask` reads now, which comes with the
    /// bytes of its text.
    pub(crate) async fn kept<T: Keep>(
        &self,
        key: T::Key,
        ask: impl Future<Output = Result<Option<(T, usize)>, StoreError>>,
    ) -> Result<Option<Arc<T>>, StoreError> {
        // Before `ask` reads: an answer may be newer than the state that it is kept under, never older.
        let state = self
            .cache
            .as_ref()
            .and_then(|cache| cache.state().map(|state| (cache, state)));
        if let Some((cache, state)) = state
            && let Some(found) = cache.find(state, &key)
        {
            return Ok(Some(found));
        }
        let Some((value, bytes)) = ask.await? else {
            return Ok(None);
        };
        let value = Arc::new(value);
        if let Some((cache, state)) = state {
            cache.keep(state, key, &value, bytes);
        }
        Ok(Some(value))
    }

    /// Begins a transaction that writes; dropping it undoes it.
    pub(crate) async fn begin(&self) -> Result<Tx<'_>, StoreError> {
        let open = match &self.db {
            Db::Sqlite { writer, .. } => Open::Sqlite(
                writer
                    .begin_with(dialect::BEGIN_WRITE.sqlite)
                    .await
                    .map_err(translate)?,
            ),
            Db::Postgres(pool) => Open::Postgres(
                pool.begin_with(dialect::BEGIN_WRITE.postgres)
                    .await
                    .map_err(translate)?,
            ),
        };
        Ok(Tx {
            open,
            bells: &self.bells,
            rung: Vec::new(),
        })
    }

    /// The rows of one reading statement.
    pub(crate) async fn rows(
        &self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        match &self.db {
            Db::Sqlite { readers, .. } => bind(sqlx::query(sql), values)
                .fetch_all(readers)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Db::Postgres(pool) => bind(sqlx::query(sql), values)
                .fetch_all(pool)
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        }
        .map_err(translate)
    }

    /// The first row of one reading statement.
    pub(crate) async fn row(
        &self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        match &self.db {
            Db::Sqlite { readers, .. } => bind(sqlx::query(sql), values)
                .fetch_optional(readers)
                .await
                .map(|row| row.map(Row::Sqlite)),
            Db::Postgres(pool) => bind(sqlx::query(sql), values)
                .fetch_optional(pool)
                .await
                .map(|row| row.map(Row::Postgres)),
        }
        .map_err(translate)
    }

    /// One writing statement that is a transaction by itself; answers how many rows it touched.
    pub(crate) async fn execute(
        &self,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        match &self.db {
            Db::Sqlite { writer, .. } => bind(sqlx::query(sql), values)
                .execute(writer)
                .await
                .map(|done| done.rows_affected()),
            Db::Postgres(pool) => bind(sqlx::query(sql), values)
                .execute(pool)
                .await
                .map(|done| done.rows_affected()),
        }
        .map_err(translate)
    }
}

impl Doorbell for Database {
    fn ring(&self, topic: Topic) {
        self.bells.ring(topic);
    }
    fn listen(&self, topic: Topic) -> tokio::sync::watch::Receiver<u64> {
        self.bells.listen(topic)
    }
}

enum Open {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

/// A transaction with the bells to ring once it is committed.
pub(crate) struct Tx<'a> {
    open: Open,
    bells: &'a Bells,
    rung: Vec<Topic>,
}

impl Tx<'_> {
    /// Runs a statement; answers how many rows it touched.
    pub(crate) async fn execute(
        &mut self,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        let sql = sql.into();
        match &mut self.open {
            Open::Sqlite(tx) => bind(sqlx::query(sql.sqlite), values)
                .execute(&mut **tx)
                .await
                .map(|done| done.rows_affected()),
            Open::Postgres(tx) => bind(sqlx::query(sql.postgres), values)
                .execute(&mut **tx)
                .await
                .map(|done| done.rows_affected()),
        }
        .map_err(translate)
    }

    /// A statement's rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let sql = sql.into();
        match &mut self.open {
            Open::Sqlite(tx) => bind(sqlx::query(sql.sqlite), values)
                .fetch_all(&mut **tx)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Open::Postgres(tx) => bind(sqlx::query(sql.postgres), values)
                .fetch_all(&mut **tx)
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        }
        .map_err(translate)
    }

    /// A statement's first row.
    pub(crate) async fn row(
        &mut self,
        sql: impl Into<Sql>,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Rings after the commit, and not at all without one.
    pub(crate) fn ring(&mut self, topic: Topic) {
        if !self.rung.contains(&topic) {
            self.rung.push(topic);
        }
    }

    /// Commits, then rings.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        match self.open {
            Open::Sqlite(tx) => tx.commit().await,
            Open::Postgres(tx) => tx.commit().await,
        }
        .map_err(translate)?;
        for topic in self.rung {
            self.bells.ring(topic);
        }
        Ok(())
    }
}

/// A parameter. There are three types, on both databases.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Bool(bool),
}

/// The parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::db::Value::from($value)),*] };
}
pub(crate) use values;

fn bind<'q, DB>(
    mut query: Query<'q, DB, DB::Arguments>,
    values: Vec<Value>,
) -> Query<'q, DB, DB::Arguments>
where
    DB: Driver,
    Option<String>: for<'t> Encode<'t, DB> + Type<DB>,
    Option<i64>: for<'t> Encode<'t, DB> + Type<DB>,
    bool: for<'t> Encode<'t, DB> + Type<DB>,
{
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(text),
            Value::Int(number) => query.bind(number),
            Value::Bool(flag) => query.bind(flag),
        };
    }
    query
}

impl From<String> for Value {
    /// PostgreSQL's TEXT cannot hold U+0000; it becomes U+FFFD on both, so that no input fails on one of them only.
    fn from(text: String) -> Self {
        Self::Text(Some(if text.contains('\0') {
            text.replace('\0', "\u{fffd}")
        } else {
            text
        }))
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}
impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::from(text.clone())
    }
}
impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Text(None), Self::from)
    }
}
impl From<&Option<String>> for Value {
    fn from(text: &Option<String>) -> Self {
        Self::from(text.as_deref())
    }
}
impl<K: Kind> From<Id<K>> for Value {
    fn from(id: Id<K>) -> Self {
        Self::Text(Some(id.to_string()))
    }
}
impl<K: Kind> From<Option<Id<K>>> for Value {
    fn from(id: Option<Id<K>>) -> Self {
        Self::Text(id.map(|id| id.to_string()))
    }
}
impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Int(Some(time.micros()))
    }
}
impl From<Option<Timestamp>> for Value {
    fn from(time: Option<Timestamp>) -> Self {
        Self::Int(time.map(Timestamp::micros))
    }
}
impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}
impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
    }
}
impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(Some(i64::from(number)))
    }
}
impl From<u64> for Value {
    /// Counts that a database row can hold never come near the limit; they stop there.
    fn from(number: u64) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}
impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// A column's value.
    pub(crate) fn get<'r, T>(&'r self, column: &'static str) -> Result<T, sqlx::Error>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}
