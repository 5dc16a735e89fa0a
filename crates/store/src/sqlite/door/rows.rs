//! A statement's arguments on their way in, and its rows on their way out.

use std::time::Instant;

use rusqlite::Statement;
use rusqlite::types::{Value, ValueRef};

use super::refused::Refused;

/// A statement with its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    pub sql: &'a str,
    pub args: &'a [Value],
    /// With the sign before its name or without.
    pub named: &'a [(String, Value)],
    pub want_rows: bool,
}

/// How much of an answer is taken, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub rows: usize,
    pub bytes: usize,
    pub until: Instant,
}

/// What a statement gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// Roughly what they take.
    pub bytes: usize,
    pub affected: u64,
    pub last_insert_rowid: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub decltype: Option<String>,
}

/// What a statement would take and give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The names of its parameters with their signs; `None` for `?`.
    pub parameters: Vec<Option<String>>,
    pub columns: Vec<Column>,
    pub is_explain: bool,
    pub is_readonly: bool,
}

/// Why a statement did not end well, before it is put into words.
pub(super) enum Failure {
    Refused(Refused),
    Sqlite(rusqlite::Error),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

pub(super) fn bind(statement: &mut Statement<'_>, query: &Query<'_>) -> Result<(), Failure> {
    let wrong = |message: String| Failure::Refused(Refused::new("SQLITE_RANGE", message));
    let count = statement.parameter_count();
    if query.args.len() > count {
        let given = query.args.len();
        return Err(wrong(format!(
            "the statement has {count} parameters, {given} values were given"
        )));
    }
    for (at, value) in query.args.iter().enumerate() {
        statement.raw_bind_parameter(at + 1, value)?;
    }
    for (name, value) in query.named {
        let index = match name.starts_with([':', '@', '$']) {
            true => statement.parameter_index(name)?,
            false => [":", "@", "$"].iter().find_map(|sign| {
                statement
                    .parameter_index(&format!("{sign}{name}"))
                    .ok()
                    .flatten()
            }),
        };
        let index = index.ok_or_else(|| wrong(format!("the statement has no parameter {name}")))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

/// What a cell takes beside its text.
const CELL_BYTES: usize = 32;

pub(super) fn collect(
    statement: &mut Statement<'_>,
    wanted: bool,
    allowance: &Allowance,
) -> Result<Rows, Failure> {
    let too_much = |message: String| Failure::Refused(Refused::new("RESPONSE_TOO_LARGE", message));
    let mut found = Rows {
        columns: if wanted {
            columns(statement)
        } else {
            Vec::new()
        },
        ..Rows::default()
    };
    let width = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if !wanted {
            continue;
        }
        if found.rows.len() == allowance.rows {
            return Err(too_much(format!(
                "the result has more than {} rows; add LIMIT",
                allowance.rows
            )));
        }
        let mut cells = Vec::with_capacity(width);
        for at in 0..width {
            let value = row.get_ref(at)?;
            found.bytes += CELL_BYTES + length(value);
            if found.bytes > allowance.bytes {
                return Err(too_much(format!(
                    "the result is larger than {} bytes; add LIMIT, or name fewer columns",
                    allowance.bytes
                )));
            }
            cells.push(owned(value));
        }
        found.rows.push(cells);
    }
    Ok(found)
}

fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    }
}

/// Text that is no UTF-8 is shown as well as it can be.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

pub(super) fn columns(statement: &Statement<'_>) -> Vec<Column> {
    let columns = statement.columns();
    columns
        .map(|column| Column {
            name: column.name().to_owned(),
            decltype: column.decl_type().map(str::to_owned),
        })
        .collect()
}
