//! The mark in a SQLite file. Its triggers run inside the clients' SQLite, where `RAISE` takes only literal texts: the
//! sentence is written into them.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{Kind, MAKE, Mark, SELECT, TABLE, literal, named};
use crate::Error;
use crate::sqlite::{open_error, world};
use crate::table;

const LOCK_WAIT: Duration = Duration::from_secs(5);
const DEEDS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

pub(super) fn of(db: &Connection) -> rusqlite::Result<Option<Mark>> {
    if !has_table(db, TABLE)? {
        return Ok(None);
    }
    let mark = db.query_row(SELECT, [], |row| {
        let kind: String = row.get(0)?;
        Ok(Mark::read(&kind, row.get(1)?, row.get(2)?))
    });
    mark.optional()
}

fn has_table(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)";
    db.query_row(sql, [name], |row| row.get(0))
}

/// Within a transaction of the caller's.
pub(crate) fn write(db: &Connection, file: &Path, mark: &Mark) -> rusqlite::Result<()> {
    db.execute_batch(MAKE)?;
    db.execute(
        "INSERT INTO sb_moved VALUES (1, ?, ?, ?)",
        params![mark.kind.word(), mark.place, mark.at],
    )?;
    let sentence = literal(&mark.sentence(&named(file)));
    for table in table::public().map(|table| table.name) {
        for deed in DEEDS {
            // SQLite fires the newest trigger first, so this is the sentence that is heard.
            db.execute_batch(&format!(
                "CREATE TRIGGER {} BEFORE {deed} ON {table} BEGIN SELECT RAISE(ABORT, '{sentence}'); END",
                trigger(table, deed)
            ))?;
        }
    }
    Ok(())
}

fn clear(db: &Connection) -> rusqlite::Result<()> {
    for table in table::public().map(|table| table.name) {
        for deed in DEEDS {
            db.execute_batch(&format!("DROP TRIGGER IF EXISTS {}", trigger(table, deed)))?;
        }
    }
    db.execute_batch("DROP TABLE IF EXISTS sb_moved")
}

fn trigger(table: &str, deed: &str) -> String {
    format!("sb_moved_{table}_{}", deed.to_ascii_lowercase())
}

/// Refuses to open a ledger that was moved.
pub(crate) fn refuse(db: &Connection, file: &Path) -> Result<(), Error> {
    match of(db).map_err(world)? {
        Some(mark) if mark.kind == Kind::Moved => Err(Error::Moved(mark.sentence(&named(file)))),
        Some(_) | None => Ok(()),
    }
}

/// A ledger that was only left unserved is served from here on.
pub(crate) fn serve(db: &mut Connection, file: &Path) -> Result<(), Error> {
    let Some(mark) = of(db).map_err(world)? else {
        return Ok(());
    };
    within(db, clear)?;
    tracing::info!(
        "{} is served again; since {} the hub served {}, and what was written there is not copied back",
        named(file),
        mark.at,
        mark.place
    );
    Ok(())
}

pub(super) fn abandon(file: &Path) -> Result<Option<Mark>, Error> {
    if !file.is_file() {
        return Ok(None);
    }
    let mut db = open(file)?;
    let mark = of(&db).map_err(world)?;
    if mark.is_some() {
        within(&mut db, clear)?;
    }
    Ok(mark)
}

/// Notes in a ledger that the hub of its data directory serves `place` instead. False if there is nothing to note: it is
/// no ledger, or was marked before.
pub fn leave(file: &Path, place: &str) -> Result<bool, Error> {
    let mut db = open(file)?;
    if !has_table(&db, "sb_head").map_err(world)? || of(&db).map_err(world)?.is_some() {
        return Ok(false);
    }
    let mark = Mark::new(Kind::Unserved, place);
    within(&mut db, |db| write(db, file, &mark))?;
    Ok(true)
}

fn open(file: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(open_error)?;
    db.busy_timeout(LOCK_WAIT).map_err(open_error)?;
    db.execute_batch("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF")
        .map_err(open_error)?;
    Ok(db)
}

fn within(
    db: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), Error> {
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let tx = db.transaction_with_behavior(behavior).map_err(world)?;
    work(&tx).map_err(world)?;
    tx.commit().map_err(world)
}
