//! Values as PostgreSQL takes and gives them, and pieces of statements.

use tokio_postgres::Row as Found;
use tokio_postgres::types::{ToSql, Type};

use crate::Error;
use crate::copy::side::unfit;
use crate::copy::tables::{Kind, Table};
use crate::copy::value::{Row, Value, key, show_key};
use crate::postgres::rows::{Batch, escape};
use crate::rows::Columns;

/// A parameter with its type.
pub(super) type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// A row of the table, beginning with a column of the answer.
pub(super) fn read(table: &Table, found: &Found, from: usize) -> Result<Row, Error> {
    let mut values = Row::with_capacity(table.columns.len());
    for (at, (_, kind)) in (from..).zip(&table.columns) {
        let value = match kind {
            Kind::Int => found.int(at)?.map(Value::Int),
            Kind::Real => found.real(at)?.map(Value::Real),
            Kind::Text => found.text(at)?.map(|text| Value::Text(text.into_owned())),
            Kind::Bytes => found.bytes(at)?.map(|bytes| Value::Bytes(bytes.to_owned())),
        };
        values.push(value.unwrap_or(Value::Null));
    }
    Ok(values)
}

/// Adds a row, or the key of one.
pub(super) fn push(table: &Table, row: &[Value], batch: &mut Batch) -> Result<(), Error> {
    for (value, (name, kind)) in row.iter().zip(&table.columns) {
        match (kind, value) {
            (Kind::Int, Value::Int(number)) => batch.int(*number),
            (Kind::Int, Value::Null) => batch.int(None),
            (Kind::Real, Value::Real(number)) => batch.real(*number),
            (Kind::Real, Value::Null) => batch.real(None),
            (Kind::Text, Value::Text(text)) => batch.text(text.as_str()),
            (Kind::Text, Value::Null) => batch.text(None),
            (Kind::Bytes, Value::Bytes(bytes)) => batch.bytes(&bytes[..]),
            (Kind::Bytes, Value::Null) => batch.bytes(None),
            (Kind::Int | Kind::Real | Kind::Text | Kind::Bytes, other) => {
                let key = show_key(table, key(table, row));
                return Err(unfit(
                    table,
                    &key,
                    name,
                    &other.to_string(),
                    "something else",
                ));
            }
        };
    }
    batch.end();
    Ok(())
}

pub(super) fn arrays(batch: Batch) -> Vec<Param> {
    let columns = batch.columns().into_iter();
    columns
        .map(|column| {
            let kind = column.array_type();
            (Box::new(column) as Box<dyn ToSql + Sync + Send>, kind)
        })
        .collect()
}

pub(super) fn param(value: &Value) -> Param {
    match value {
        Value::Null => (Box::new(None::<String>), Type::TEXT),
        Value::Int(number) => int(*number),
        Value::Real(number) => (Box::new(*number), Type::FLOAT8),
        Value::Text(value) => text(value),
        Value::Bytes(bytes) => (Box::new(bytes.clone()), Type::BYTEA),
    }
}

pub(super) fn text(value: &str) -> Param {
    (Box::new(escape(value).into_owned()), Type::TEXT)
}

pub(super) fn int(value: i64) -> Param {
    (Box::new(value), Type::INT8)
}

pub(super) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn marks(count: usize) -> String {
    let marks: Vec<String> = (1..=count).map(|at| format!("${at}")).collect();
    marks.join(", ")
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
