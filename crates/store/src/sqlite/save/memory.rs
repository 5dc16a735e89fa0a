//! Records and engrams.

use rusqlite::{Connection, OptionalExtension, params};
use switchboard_core::slice::Save;
use switchboard_core::{Engram, Record};

use super::{Result, put, statements};
use crate::columns;
use crate::table::print::sqlite::{append, upsert};
use crate::table::{ENGRAMS, NEW, RECORDS};

statements! {
    RECORD = upsert(&RECORDS, &[NEW], &[NEW]);
    ENGRAM = append(&ENGRAMS, NEW);
}

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    for (key, _) in save.drops::<Record>() {
        db.prepare_cached("DELETE FROM sb_record WHERE kind = ? AND key = ?")?
            .execute([key.kind.as_str(), &*key.key])?;
    }
    for (record, _) in save.puts::<Record>() {
        let mut written = Ok(());
        put(db, &RECORD, |row| written = columns::record(record, row))?;
        written.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    }
    for (id, _) in save.drops::<Engram>() {
        let row: Option<(i64, String)> = db
            .prepare_cached("DELETE FROM sb_engram WHERE id = ? RETURNING n, words")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((n, words)) = row {
            db.prepare_cached(
                "INSERT INTO sb_engram_words(sb_engram_words, rowid, words) VALUES ('delete', ?, ?)",
            )?
            .execute(params![n, words])?;
        }
    }
    for (engram, _) in save.puts::<Engram>() {
        put(db, &ENGRAM, |row| columns::engram(engram, row))?;
        db.prepare_cached(
            "INSERT INTO sb_engram_words(rowid, words) VALUES (last_insert_rowid(), ?)",
        )?
        .execute([&*engram.words])?;
    }
    Ok(())
}
