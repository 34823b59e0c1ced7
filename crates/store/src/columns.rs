//! Reading columns back. Every failure names table, column and row.

use std::str::FromStr;

use control::ports::StoreError;
use domain::{
    ids::{Id, Kind},
    timestamp::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Decode, Postgres, Sqlite, Type};

use crate::db::Row;

/// One row, and how to name it when it cannot be read.
pub(crate) struct Columns<'r> {
    row: &'r Row,
    table: &'static str,
    id: String,
}

impl<'r> Columns<'r> {
    /// The row of a table whose id stands in `id_column`.
    pub(crate) fn new(row: &'r Row, table: &'static str, id_column: &'static str) -> Self {
        let id = row
            .get::<String>(id_column)
            .unwrap_or_else(|_| "a row without a readable id".to_owned());
        Self { row, table, id }
    }

    /// The error for a column of this row.
    pub(crate) fn corrupt(&self, column: &'static str, reason: impl ToString) -> StoreError {
        StoreError::Corrupt {
            table: self.table,
            column,
            id: self.id.clone(),
            reason: reason.to_string(),
        }
    }

    fn get<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>,
    {
        self.row
            .get(column)
            .map_err(|error| self.corrupt(column, error))
    }

    pub(crate) fn text(&self, column: &'static str) -> Result<String, StoreError> {
        self.get(column)
    }
    pub(crate) fn text_if(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        self.get(column)
    }
    pub(crate) fn number(&self, column: &'static str) -> Result<i64, StoreError> {
        self.get(column)
    }
    pub(crate) fn flag(&self, column: &'static str) -> Result<bool, StoreError> {
        self.get(column)
    }

    /// A number of another type that was stored as BIGINT.
    pub(crate) fn count<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, StoreError> {
        let number = self.number(column)?;
        T::try_from(number).map_err(|_| self.corrupt(column, format!("{number} is out of range")))
    }

    /// As [`Self::count`], of a column that may be empty.
    pub(crate) fn count_if<T: TryFrom<i64>>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.get::<Option<i64>>(column)?
            .map(|number| {
                T::try_from(number)
                    .map_err(|_| self.corrupt(column, format!("{number} is out of range")))
            })
            .transpose()
    }

    pub(crate) fn time(&self, column: &'static str) -> Result<Timestamp, StoreError> {
        self.number(column).map(Timestamp::from_micros)
    }
    pub(crate) fn time_if(&self, column: &'static str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.get::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    pub(crate) fn id<K: Kind>(&self, column: &'static str) -> Result<Id<K>, StoreError> {
        self.word(column)
    }
    pub(crate) fn id_if<K: Kind>(&self, column: &'static str) -> Result<Option<Id<K>>, StoreError> {
        self.text_if(column)?
            .map(|text| self.parse(column, &text))
            .transpose()
    }

    /// A word of a closed list.
    pub(crate) fn word<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        self.parse(column, &self.text(column)?)
    }

    fn parse<T>(&self, column: &'static str, text: &str) -> Result<T, StoreError>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        text.parse().map_err(|error| self.corrupt(column, error))
    }

    /// What [`json`] wrote. The reason names a place, not the text: that may hold a member's secrets.
    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, StoreError> {
        serde_json::from_str(&self.text(column)?).map_err(|error| {
            self.corrupt(
                column,
                format!(
                    "{:?} at line {} column {}",
                    error.classify(),
                    error.line(),
                    error.column()
                ),
            )
        })
    }
}

/// A value as JSON text, for a TEXT column.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(Box::new(error)))
}
