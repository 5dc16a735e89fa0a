//! Connections for statements of strangers, in the words of `switchboard_wire::hrana`.
//!
//! What a statement may do and for how long is `switchboard_store::sqlite::door`'s business; who sends it and when is
//! that of [`crate::sql`], which knows no store.

use std::time::{Duration, Instant};

use switchboard_core::rights::Right;
use switchboard_store::sqlite::door;
use switchboard_wire::hrana::{
    Column, DescribeResult, Described, Error, Parameter, Stmt, StmtResult, Value,
};

/// A transaction is rolled back after this, whatever it is doing.
pub const TRANSACTION_FOR_MAX: Duration = door::TRANSACTION_FOR_MAX;
/// The hub waits no longer than this for a transaction from here.
pub const HUB_WAITS_MAX: Duration = door::HUB_WAITS_MAX;

/// Where sessions come from.
pub struct Door(pub door::Door);

impl Door {
    pub fn open(&self) -> Result<Session, Error> {
        let opened = self.0.open();
        opened.map(Session).map_err(|error| {
            tracing::warn!(%error, "no connection for a statement of a libSQL client");
            Error::new(
                "SQLITE_CANTOPEN",
                "the ledger cannot be opened right now; retry later",
            )
        })
    }

    /// Whether the hub has waited to write for longer than it should.
    pub fn keeps_hub_waiting(&self) -> bool {
        let waited = self.0.hub_waited();
        waited.is_some_and(|waited| waited > HUB_WAITS_MAX)
    }

    /// Ends what runs; nothing is begun any more.
    pub fn close(&self) {
        self.0.close();
    }
}

/// One connection.
pub struct Session(door::Session);

impl Session {
    /// Serves whoever has this right from now on.
    pub fn serve(&mut self, right: Right) {
        self.0.serve(match right == Right::SqlSteward {
            true => door::Rank::Steward,
            false => door::Rank::Agent,
        });
    }

    /// Runs a statement; tells also what its rows take, of `bytes` at most.
    pub fn execute(
        &mut self,
        sql: &str,
        stmt: Stmt,
        (rows_max, bytes): (usize, usize),
        until: Instant,
    ) -> Result<(StmtResult, usize), Error> {
        let began = Instant::now();
        let args: Vec<_> = stmt.args.into_iter().map(value).collect();
        let named = stmt.named_args.into_iter();
        let named: Vec<_> = named.map(|arg| (arg.name, value(arg.value))).collect();
        let query = door::Query {
            sql,
            args: &args,
            named: &named,
            want_rows: stmt.want_rows.unwrap_or(true),
        };
        let allowance = door::Allowance {
            rows: rows_max,
            bytes,
            until,
        };
        let found = self.0.execute(&query, &allowance).map_err(error)?;
        let bytes = found.bytes;
        Ok((rows(found, began.elapsed()), bytes))
    }

    pub fn sequence(&mut self, sql: &str, until: Instant) -> Result<(), Error> {
        self.0.sequence(sql, until).map_err(error)
    }

    pub fn describe(&mut self, sql: &str, until: Instant) -> Result<DescribeResult, Error> {
        let found = self.0.describe(sql, until);
        found.map(described).map_err(error)
    }

    pub fn is_autocommit(&self) -> bool {
        self.0.is_autocommit()
    }

    /// Whether it keeps others from writing.
    pub fn has_turn(&self) -> bool {
        self.0.has_turn()
    }

    /// Since when a transaction is open.
    pub fn since(&self) -> Option<Instant> {
        self.0.since()
    }

    /// Rolls back what is open.
    pub fn reset(&mut self) {
        self.0.reset();
    }
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

fn rows(rows: door::Rows, took: Duration) -> StmtResult {
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

fn described(described: door::Described) -> DescribeResult {
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

fn error(refused: door::Refused) -> Error {
    Error::new(refused.code, refused.message)
}
