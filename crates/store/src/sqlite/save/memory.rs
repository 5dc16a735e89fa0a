//! Records and engrams.

use rusqlite::{Connection, OptionalExtension, params};
use switchboard_core::slice::Save;
use switchboard_core::{Engram, Record};

use super::Result;
use crate::sqlite::load::signed;
use crate::sqlite::text::list;

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    for (record, _) in save.puts::<Record>() {
        let (kind, name) = record.key().names();
        let value = serde_json::to_string(record)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        db.prepare_cached("INSERT OR REPLACE INTO sb_record(kind, key, value) VALUES (?, ?, ?)")?
            .execute(params![kind, name, value])?;
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
        let entry = &engram.entry;
        db.prepare_cached(
            "INSERT INTO sb_engram(id, scope, version, created_at, hash, bytes, topics, from_seq, to_seq, body, words)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            entry.id.as_str(),
            entry.scope.as_str(),
            entry.version,
            entry.created_at.0,
            entry.hash,
            signed(entry.bytes),
            list(&entry.topics),
            signed(entry.from_seq),
            signed(entry.to_seq),
            &*engram.body,
            &*engram.words,
        ])?;
        db.prepare_cached(
            "INSERT INTO sb_engram_words(rowid, words) VALUES (last_insert_rowid(), ?)",
        )?
        .execute([&*engram.words])?;
    }
    Ok(())
}
