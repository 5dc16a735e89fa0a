//! Verifies the hash chain of the log where it lies: the database hashes, and only hashes travel.

use super::address::Address;
use super::errors::world;
use super::rows::signed;
use super::runtime;
use super::session::{Query, Session};
use crate::Error;
use crate::chain::{Link, Verified, Walk};
use crate::rows::Columns as _;

/// Rows that are looked at in one piece, which is one snapshot.
const ROWS_PER_PIECE: usize = 1000;

/// Verifies the last rows of the log, or all of them. Hubs may write meanwhile.
pub fn verify_log(address: &Address, rows: Option<u64>) -> Result<Verified, Error> {
    let runtime = runtime()?;
    let session = runtime.block_on(Session::open(address, None))?;
    runtime.block_on(verify(&session, rows))
}

pub(super) async fn verify(session: &Session, rows: Option<u64>) -> Result<Verified, Error> {
    if !has_chain(session).await? {
        return Ok(Verified::default());
    }
    let mut after = match rows {
        Some(rows) => last_but(session, rows).await?,
        None => None,
    };
    let mut walk = Walk::default();
    loop {
        let piece = Query::new(format!(
            "SELECT first, last, at, before, hash, (hash IS NULL OR hash = sb_log_hash(before, first, last, at, body))::int::bigint,
               (SELECT seq FROM sb_head) FROM sb_log WHERE first > $1 ORDER BY first LIMIT {ROWS_PER_PIECE}"
        ));
        let found = session.query(&piece.int(after.unwrap_or(i64::MIN))).await;
        let found = found.map_err(world)?;
        for row in &found {
            let int = |at: usize| -> Result<i64, Error> { Ok(row.int(at)?.unwrap_or(0)) };
            let link = Link {
                first: int(0)?,
                last: int(1)?,
                at: int(2)?,
                body: b"",
                before: row.bytes(3)?,
                hash: row.bytes(4)?,
            };
            walk.step(&link, int(5)? != 0).map_err(broken)?;
            after = Some(link.first);
        }
        if found.len() < ROWS_PER_PIECE {
            let Some(last) = found.last() else {
                // What was there a moment ago filled its pieces: the end was not seen together with the head.
                return Ok(walk.verified());
            };
            let seq = last.int(6)?.unwrap_or(0);
            return walk.end(seq).map_err(broken);
        }
    }
}

fn broken(what: String) -> Error {
    Error::Corrupt(format!(
        "the event log is damaged: {what}; run 'switchboard doctor', and restore a backup of the database"
    ))
}

/// An older schema has none.
async fn has_chain(session: &Session) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('sb_log') AND attname = 'hash' AND NOT attisdropped";
    let found = session.query(&Query::new(sql)).await.map_err(world)?;
    Ok(!found.is_empty())
}

/// The row before the last so many.
async fn last_but(session: &Session, rows: u64) -> Result<Option<i64>, Error> {
    let sql = "SELECT first FROM sb_log ORDER BY first DESC LIMIT 1 OFFSET $1";
    let query = Query::new(sql).int(signed(rows));
    let found = session.query(&query).await.map_err(world)?;
    found.first().map_or(Ok(None), |row| row.int(0))
}
