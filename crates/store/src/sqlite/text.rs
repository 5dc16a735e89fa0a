//! How SQLite takes an instant that stands in a text column.

use rusqlite::ToSql;
use rusqlite::types::ToSqlOutput;

pub(super) use crate::text::{Iso, list};

impl ToSql for Iso {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.as_str()))
    }
}
