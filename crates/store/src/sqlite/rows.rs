//! SQLite's rows as [`Columns`].

use std::borrow::Cow;
use std::sync::LazyLock;

use rusqlite::Row;
use rusqlite::types::{FromSql, Type, ValueRef};
use switchboard_core::attempt::Attempt;
use switchboard_core::slice::Kept;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, Baseline, Delivery, FormerAgent, Head, Lane, Learning, Lease, Message, Record, Snapshot,
    Task,
};

use crate::HeldTask;
use crate::clock::Mark;
use crate::rows::{self, Columns, Unreadable};

pub(super) use crate::rows::{
    AGENT, ATTEMPT, BASELINE, DELIVERY, EVERY_AGENT, FORMER_AGENT, HEAD, HELD, KEPT, LANE,
    LEARNING, LEASE, MARK, MESSAGE, SNAPSHOT, TASK, TASK_COLUMNS, TOKEN, record_range,
};

/// One agent, whether it is there or has signed off.
pub(super) static ONE_AGENT: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE id = ? LIMIT 1", *EVERY_AGENT));

/// Those that signed off before an instant, the first one first.
pub(super) static GONE_AGENTS: LazyLock<String> = LazyLock::new(|| {
    let which = "presence = 'gone' AND presence_at < ? ORDER BY presence_at, id LIMIT ?";
    format!("{} WHERE {which}", *EVERY_AGENT)
});

/// The readers of nouns, in the shape that rusqlite takes.
macro_rules! readers {
    ($($name:ident: $noun:ty),* $(,)?) => {
        $(pub(super) fn $name(row: &Row<'_>) -> rusqlite::Result<$noun> {
            rows::$name(row)
        })*
    };
}

readers! {
    task: Task, agent: Agent, former_agent: FormerAgent, lane: Lane, lease: Lease, message: Message,
    delivery: Delivery, attempt: Attempt, snapshot: Snapshot, baseline: Baseline, learning: Learning,
    token: Token, head: Head, record: Record, held: HeldTask,
    kept: Kept, mark: Mark,
}

impl Columns for Row<'_> {
    type Error = rusqlite::Error;

    fn text(&self, column: usize) -> rusqlite::Result<Option<Cow<'_, str>>> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => None,
            // Other programs write into the file too: one bad byte of theirs must not hide a row.
            ValueRef::Text(text) | ValueRef::Blob(text) => Some(String::from_utf8_lossy(text)),
            ValueRef::Integer(value) => Some(Cow::Owned(value.to_string())),
            ValueRef::Real(value) => Some(Cow::Owned(value.to_string())),
        })
    }

    fn int(&self, column: usize) -> rusqlite::Result<Option<i64>> {
        Ok(Option::<i64>::column_result(self.get_ref(column)?)?)
    }

    fn real(&self, column: usize) -> rusqlite::Result<Option<f64>> {
        Ok(Option::<f64>::column_result(self.get_ref(column)?)?)
    }

    fn bytes(&self, column: usize) -> rusqlite::Result<Option<&[u8]>> {
        Ok(self.get_ref(column)?.as_blob_or_null()?)
    }
}

impl From<Unreadable> for rusqlite::Error {
    fn from(error: Unreadable) -> Self {
        let column = error.column;
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    }
}
