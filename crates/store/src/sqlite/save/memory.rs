//! Records and engrams.

use rusqlite::{Connection, OptionalExtension, params};
use switchboard_core::slice::Save;
use switchboard_core::{Engram, Record};

use super::{Result, put, statements};
use crate::columns::{self, Values};
use crate::table::print::sqlite::{append, upsert};
use crate::table::{ENGRAMS, NEW, RECORDS};

statements! {
    RECORD = upsert(&RECORDS, &[NEW], &[NEW]);
    ENGRAM = append(&ENGRAMS, NEW);
}

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    for (record, _) in save.puts::<Record>() {
        let (kind, name) = record.key().names();
        let value = serde_json::to_string(record)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        put(db, &RECORD, |row| {
            row.text(value.as_str()).text(kind).text(name);
        })?;
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
