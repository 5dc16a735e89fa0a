//! The rows of the event log and their hash chain.

use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::Logged;

use super::errors::world;
use super::inspect::damaged;
use super::load::signed;
use crate::Error;
use crate::chain::{Hash, Link, Verified, Walk};
use crate::columns::log_body;

/// Adds the events of a batch as one row.
pub(super) fn append(db: &Connection, log: &[Logged]) -> rusqlite::Result<()> {
    let (Some(first), Some(last)) = (log.first(), log.last()) else {
        return Ok(());
    };
    let body =
        log_body(log).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let before: Option<Hash> = db
        .prepare_cached("SELECT hash FROM sb_log ORDER BY first DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?
        .flatten();
    let link = Link {
        first: signed(first.seq),
        last: signed(last.seq),
        at: last.at.0,
        body: body.as_bytes(),
        before: before.as_ref().map(Hash::as_slice),
        hash: None,
    };
    db.prepare_cached(
        "INSERT INTO sb_log(first, last, at, body, before, hash) VALUES (?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        link.first,
        link.last,
        link.at,
        body,
        before,
        link.expected()
    ])?;
    Ok(())
}

/// Verifies the last rows of the log, or all of them. One snapshot, so that a hub may write meanwhile.
///
/// A file that has no chain, since it is older or no ledger at all, has nothing to verify.
pub fn verify_log(db: &Connection, rows: Option<u64>) -> Result<Verified, Error> {
    let nested = !db.is_autocommit();
    if !nested {
        db.execute_batch("BEGIN").map_err(world)?;
    }
    let walked = walk(db, rows).map_err(world);
    if !nested {
        let _ = db.execute_batch("ROLLBACK");
    }
    walked?.map_err(|what| damaged(&format!("the event log is damaged: {what}")))
}

fn walk(db: &Connection, rows: Option<u64>) -> rusqlite::Result<Result<Verified, String>> {
    let has_chain = "SELECT count(*) FROM pragma_table_info('sb_log') WHERE name = 'hash'";
    if !db.query_row(has_chain, [], |row| row.get::<_, bool>(0))? {
        return Ok(Ok(Verified::default()));
    }
    let last = "SELECT first FROM sb_log ORDER BY first DESC LIMIT 1 OFFSET ?";
    let from: Option<i64> = match rows.and_then(|rows| rows.checked_sub(1)) {
        Some(skip) => db
            .query_row(last, [signed(skip)], |row| row.get(0))
            .optional()?,
        None => None,
    };
    let mut statement = db.prepare(
        "SELECT first, last, at, body, before, hash FROM sb_log WHERE first >= ? ORDER BY first",
    )?;
    let mut found = statement.query([from.unwrap_or(i64::MIN)])?;
    let mut walk = Walk::default();
    while let Some(row) = found.next()? {
        let link = Link {
            first: row.get(0)?,
            last: row.get(1)?,
            at: row.get(2)?,
            body: row.get_ref(3)?.as_bytes()?,
            before: row.get_ref(4)?.as_blob_or_null()?,
            hash: row.get_ref(5)?.as_blob_or_null()?,
        };
        if let Err(what) = walk.step(&link, link.holds()) {
            return Ok(Err(what));
        }
    }
    let seq = db.query_row("SELECT seq FROM sb_head", [], |row| row.get(0))?;
    Ok(walk.end(seq))
}
