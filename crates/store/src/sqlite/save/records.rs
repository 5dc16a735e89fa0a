//! Private rows, and the index of the words of those that are found by them.

use rusqlite::Connection;
use switchboard_core::record::Listed;
use switchboard_core::slice::Save;
use switchboard_core::{EngramText, Record};

use super::{Result, put, statements};
use crate::columns;
use crate::table::print::sqlite::upsert;
use crate::table::{NEW, RECORDS};

statements! {
    RECORD = upsert(&RECORDS, &[NEW], &[NEW]);
}

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    for (key, _) in save.drops::<Record>() {
        db.prepare_cached("DELETE FROM sb_record WHERE kind = ? AND key = ?")?
            .execute([key.kind.as_str(), &*key.key])?;
        if key.kind == EngramText::KIND {
            forget_words(db, &key.key)?;
        }
    }
    for (record, _) in save.puts::<Record>() {
        let mut written = Ok(());
        put(db, &RECORD, |row| written = columns::record(record, row))?;
        written.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        if let Record::EngramText(text) = record {
            forget_words(db, text.id.as_str())?;
            db.prepare_cached("INSERT INTO sb_engram_words(key, words) VALUES (?, ?)")?
                .execute([text.id.as_str(), &*text.words])?;
        }
    }
    Ok(())
}

/// There are never many engrams: budgets bound them.
fn forget_words(db: &Connection, key: &str) -> Result {
    db.prepare_cached("DELETE FROM sb_engram_words WHERE key = ?")?
        .execute([key])?;
    Ok(())
}
