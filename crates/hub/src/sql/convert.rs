//! Between the values of the protocol and those of the ledger.

use std::time::Duration;

use switchboard_store::sqlite::door;
use switchboard_wire::hrana::{
    Column, DescribeResult, Described, Error, NamedArg, Parameter, StmtResult, Value,
};

pub fn args(values: Vec<Value>) -> Vec<door::Value> {
    values.into_iter().map(value).collect()
}

pub fn named_args(named: Vec<NamedArg>) -> Vec<(String, door::Value)> {
    let named = named.into_iter();
    named.map(|arg| (arg.name, value(arg.value))).collect()
}

fn value(value: Value) -> door::Value {
    match value {
        Value::Null => door::Value::Null,
        Value::Integer { value } => door::Value::Integer(value),
        Value::Float { value } => door::Value::Real(value),
        Value::Text { value } => door::Value::Text(value),
        Value::Blob { bytes } => door::Value::Blob(bytes),
    }
}

fn cell(value: door::Value) -> Value {
    match value {
        door::Value::Null => Value::Null,
        door::Value::Integer(value) => Value::Integer { value },
        door::Value::Real(value) => Value::Float { value },
        door::Value::Text(value) => Value::Text { value },
        door::Value::Blob(bytes) => Value::Blob { bytes },
    }
}

pub fn rows(rows: door::Rows, took: Duration) -> StmtResult {
    StmtResult {
        cols: rows
            .columns
            .into_iter()
            .map(|column| Column {
                name: Some(column.name),
                decltype: column.decltype,
            })
            .collect(),
        rows_read: rows.rows.len() as u64,
        rows_written: rows.affected,
        rows: rows
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(cell).collect())
            .collect(),
        affected_row_count: rows.affected,
        last_insert_rowid: Some(rows.last_insert_rowid.to_string()),
        replication_index: None,
        query_duration_ms: took.as_secs_f64() * 1e3,
    }
}

pub fn described(described: door::Described) -> DescribeResult {
    let names = described.parameters.into_iter();
    let columns = described.columns.into_iter();
    DescribeResult {
        params: names.map(|name| Parameter { name }).collect(),
        cols: columns
            .map(|column| Described {
                name: column.name,
                decltype: column.decltype,
            })
            .collect(),
        is_explain: described.is_explain,
        is_readonly: described.is_readonly,
    }
}

pub fn error(refused: door::Refused) -> Error {
    Error::new(refused.code, refused.message)
}
