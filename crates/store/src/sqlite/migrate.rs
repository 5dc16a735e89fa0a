//! Brings a file to the schema of this build: ordered steps, each in one transaction, checked by checksum.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::errors::{open_error, world};
use crate::Error;
use crate::schema::{is_step, missing};
use crate::table::Kind;
use crate::text::checksum;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

const STEPS: &[Migration] = &[
    Migration {
        name: "0001_ledger",
        sql: include_str!("schema/0001_ledger.sql"),
    },
    Migration {
        name: "0002_former_agents",
        sql: include_str!("schema/0002_former_agents.sql"),
    },
    Migration {
        name: "0003_by_hand",
        sql: include_str!("schema/0003_by_hand.sql"),
    },
    Migration {
        name: "0004_bus",
        sql: include_str!("schema/0004_bus.sql"),
    },
    Migration {
        name: "0005_resumed",
        sql: include_str!("schema/0005_resumed.sql"),
    },
    Migration {
        name: "0006_epoch",
        sql: include_str!("schema/0006_epoch.sql"),
    },
    Migration {
        name: "0007_streams",
        sql: include_str!("schema/0007_streams.sql"),
    },
    Migration {
        name: "0008_clock",
        sql: include_str!("schema/0008_clock.sql"),
    },
    Migration {
        name: "0009_log_chain",
        sql: include_str!("schema/0009_log_chain.sql"),
    },
    Migration {
        name: "0010_private_rows",
        sql: include_str!("schema/0010_private_rows.sql"),
    },
    Migration {
        name: "0011_deliveries",
        sql: include_str!("schema/0011_deliveries.sql"),
    },
    Migration {
        name: "0012_gone_agents",
        sql: include_str!("schema/0012_gone_agents.sql"),
    },
];

/// The newest schema this build knows.
pub const VERSION: u32 = STEPS.len() as u32;

/// Whether the steps that a file has are those of this build.
pub(crate) fn verify(db: &Connection) -> Result<(), Error> {
    let mut steps = (1_u32..).zip(STEPS);
    steps.try_for_each(|(version, step)| is_applied(db, version, step).map(drop))
}

fn is_applied(db: &Connection, version: u32, step: &Migration) -> Result<bool, Error> {
    let applied: Option<Vec<u8>> = db
        .query_row(
            "SELECT CAST(checksum AS BLOB) FROM sb_migration WHERE version = ?",
            [version],
            |row| row.get(0),
        )
        .optional()
        .map_err(world)?;
    match applied {
        None => Ok(false),
        Some(applied) if is_step(step.name, step.sql, &String::from_utf8_lossy(&applied)) => {
            Ok(true)
        }
        Some(_) => Err(Error::Open(format!(
            "migration step {} was changed after this file was created; use the build that created it, or restore a backup",
            step.name
        ))),
    }
}

pub(super) fn run(connection: &mut Connection) -> Result<(), Error> {
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(open_error)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS sb_migration (
           version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
           applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))",
    )
    .map_err(open_error)?;
    let found: u32 = tx
        .query_row(
            "SELECT coalesce(max(version), 0) FROM sb_migration",
            [],
            |row| row.get(0),
        )
        .map_err(world)?;
    if found > VERSION {
        return Err(Error::NewerSchema {
            found,
            known: VERSION,
        });
    }
    for (version, step) in (1_u32..).zip(STEPS) {
        if !is_applied(&tx, version, step)? {
            tx.execute_batch(step.sql).map_err(open_error)?;
            tx.execute(
                "INSERT INTO sb_migration(version, name, checksum) VALUES (?, ?, ?)",
                params![version, step.name, checksum(step.sql)],
            )
            .map_err(open_error)?;
        }
    }
    add_columns(&tx).map_err(open_error)?;
    super::triggers::install(&tx).map_err(open_error)?;
    tx.commit().map_err(open_error)
}

/// The hub's own columns need no step.
fn add_columns(db: &Connection) -> rusqlite::Result<()> {
    let mut columns = db.prepare(
        "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table'",
    )?;
    let found = columns.query_map([], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<HashSet<String>>>()?;
    let types = |kind| match kind {
        Kind::Int => "INTEGER",
        Kind::Real => "REAL",
        Kind::Text => "TEXT",
        Kind::Bytes => "BLOB",
    };
    let missing = missing(types, |table, column| {
        found.contains(&format!("{}.{}", table.name, column.name))
    });
    missing.iter().try_for_each(|sql| db.execute_batch(sql))
}

#[cfg(test)]
mod tests {
    use switchboard_core::query::Readable;

    use super::*;
    use crate::sqlite::SqliteEngine;
    use crate::{Engine as _, ManualClock, conformance};

    #[test]
    fn a_column_of_the_hubs_own_is_added_and_a_former_step_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let clock = || Box::new(ManualClock::at(conformance::START));
        let open = || SqliteEngine::open(&path, clock()).map(drop);
        open().unwrap();
        let db = Connection::open(&path).unwrap();
        let columns = "SELECT count(*) FROM pragma_table_info('tasks') WHERE name = 'epoch_needed'";
        let count = || {
            db.query_row(columns, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        let triggers = "SELECT group_concat('DROP TRIGGER ' || name, ';') FROM sqlite_schema WHERE type = 'trigger'";
        let drops: String = db.query_row(triggers, [], |row| row.get(0)).unwrap();
        db.execute_batch(&drops).unwrap();
        db.execute_batch("ALTER TABLE tasks DROP COLUMN epoch_needed")
            .unwrap();
        assert_eq!(count(), 0);
        for (checksum, opens) in [("e23e287832558646", true), ("another", false)] {
            let sql = "UPDATE sb_migration SET checksum = ? WHERE version = 1";
            db.execute(sql, [checksum]).unwrap();
            assert_eq!(open().is_ok(), opens, "{checksum}");
        }
        assert_eq!(count(), 1);
    }

    #[test]
    fn engrams_of_an_older_file_are_found_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "CREATE TABLE sb_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
               applied_at TEXT NOT NULL DEFAULT '')",
        )
        .unwrap();
        let before = STEPS
            .iter()
            .take_while(|step| step.name != "0010_private_rows");
        for (version, step) in (1_u32..).zip(before) {
            db.execute_batch(step.sql).unwrap();
            db.execute(
                "INSERT INTO sb_migration(version, name, checksum) VALUES (?, ?, ?)",
                params![version, step.name, checksum(step.sql)],
            )
            .unwrap();
        }
        db.execute_batch(
            r#"INSERT INTO sb_record VALUES ('director', '', '{"kind":"director","paused":null,"cooldown_until":7,
                 "cooldown":null,"release":null}');
               INSERT INTO sb_engram VALUES
                 (1, 'e_b', 'lt', '20260212-120000Z', 5, 'sha256:1', 4, '["é","\"q\""]', 1, 10, '{"b' || char(10), 'Mind the lock'),
                 (2, 'e_a', 'st', '20260212-120001Z', 6, 'sha256:2', 2, '[]', 11, 20, '{}', 'late orders');
               INSERT INTO sb_engram_words(sb_engram_words) VALUES ('rebuild');"#,
        )
        .unwrap();
        drop(db);
        let clock = ManualClock::at(conformance::START);
        let engine = SqliteEngine::open(&path, Box::new(clock)).unwrap();
        let reader = engine.reader().unwrap();
        let reader = &*reader as &dyn Readable<Error = Error>;
        let told: Option<switchboard_core::Director> = reader.private("").unwrap();
        assert_eq!(
            told.and_then(|told| told.cooldown_until).map(|at| at.0),
            Some(7)
        );
        let ids: Vec<String> = reader
            .engrams()
            .unwrap()
            .iter()
            .map(|it| it.id.to_string())
            .collect();
        assert_eq!(ids, ["e_b", "e_a"], "in the order in which they were kept");
        let found = reader.engrams_with("loc", 9).unwrap();
        assert_eq!(found.len(), 1);
        let (entry, body) = (&found[0].entry, &*found[0].body);
        assert_eq!((entry.id.as_str(), body), ("e_b", "{\"b\n"));
        assert_eq!(entry.topics, ["é", "\"q\""]);
        assert_eq!((entry.from_seq, entry.to_seq, entry.bytes), (1, 10, 4));
        assert_eq!(&*found[0].words, "Mind the lock");
    }
}
