//! Rows that only streams and their operators look at: engrams, records, what is in whose hands.

use switchboard_core::engram::Scope;
use switchboard_core::{Engram, EngramEntry, EngramId, Record, TaskStatus, Timestamp};

use super::{Columns, id, int, number, progress, strings, text, unreadable, unsigned, word};
use crate::query::HeldTask;

/// Of a task `t` that agent `a` holds.
pub(crate) const HELD: &str = "a.id, t.id, t.number, t.status, t.retry_count, t.progress";

pub(crate) fn held<R: Columns>(row: &R) -> Result<HeldTask, R::Error> {
    Ok(HeldTask {
        agent: id(row, 0)?,
        id: id(row, 1)?,
        number: unsigned(row, 2)?,
        status: word(row, 3, TaskStatus::parse)?,
        retries: number(row, 4)?,
        phase: progress(row, 5)?.map(|progress| progress.phase),
    })
}

pub(crate) const ENGRAM: &str =
    "id, scope, version, created_at, hash, bytes, topics, from_seq, to_seq";

pub(crate) const WHOLE_ENGRAM: &str =
    "id, scope, version, created_at, hash, bytes, topics, from_seq, to_seq, body, words";

pub(crate) fn engram<R: Columns>(row: &R) -> Result<EngramEntry, R::Error> {
    Ok(EngramEntry {
        id: EngramId::from(text(row, 0)?),
        scope: word(row, 1, Scope::parse)?,
        version: text(row, 2)?,
        created_at: Timestamp(int(row, 3)?),
        hash: text(row, 4)?,
        bytes: unsigned(row, 5)?,
        topics: strings(row, 6)?,
        from_seq: unsigned(row, 7)?,
        to_seq: unsigned(row, 8)?,
    })
}

/// With its texts, as [`WHOLE_ENGRAM`] has them.
pub(crate) fn whole_engram<R: Columns>(row: &R) -> Result<Engram, R::Error> {
    Ok(Engram {
        entry: engram(row)?,
        body: text(row, 9)?.into_boxed_str(),
        words: text(row, 10)?.into_boxed_str(),
    })
}

/// The one column of a record.
pub(crate) fn record<R: Columns>(row: &R) -> Result<Record, R::Error> {
    let value = text(row, 0)?;
    serde_json::from_str(&value).map_err(|_| unreadable(0, &value).into())
}
