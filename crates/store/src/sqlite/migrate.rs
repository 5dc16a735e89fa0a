//! Brings a file to the schema of this build: ordered steps, each in one transaction, checked by checksum.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::errors::{open_error, world};
use crate::Error;
use crate::text::checksum;

struct Step {
    name: &'static str,
    sql: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "0001_ledger",
        sql: include_str!("schema/0001_ledger.sql"),
    },
    Step {
        name: "0002_former_agents",
        sql: include_str!("schema/0002_former_agents.sql"),
    },
    Step {
        name: "0003_by_hand",
        sql: include_str!("schema/0003_by_hand.sql"),
    },
    Step {
        name: "0004_bus",
        sql: include_str!("schema/0004_bus.sql"),
    },
    Step {
        name: "0005_resumed",
        sql: include_str!("schema/0005_resumed.sql"),
    },
    Step {
        name: "0006_epoch",
        sql: include_str!("schema/0006_epoch.sql"),
    },
    Step {
        name: "0007_streams",
        sql: include_str!("schema/0007_streams.sql"),
    },
    Step {
        name: "0008_clock",
        sql: include_str!("schema/0008_clock.sql"),
    },
    Step {
        name: "0009_log_chain",
        sql: include_str!("schema/0009_log_chain.sql"),
    },
    Step {
        name: "0010_private_rows",
        sql: include_str!("schema/0010_private_rows.sql"),
    },
];

/// The newest schema this build knows.
pub const VERSION: u32 = STEPS.len() as u32;

/// Whether the steps that a file has are those of this build.
pub(crate) fn verify(db: &Connection) -> Result<(), Error> {
    let mut steps = (1_u32..).zip(STEPS);
    steps.try_for_each(|(version, step)| is_applied(db, version, step).map(drop))
}

fn is_applied(db: &Connection, version: u32, step: &Step) -> Result<bool, Error> {
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
        Some(applied) if applied == checksum(step.sql).as_bytes() => Ok(true),
        Some(_) => Err(Error::Open(format!(
            "schema step {} was changed after this file was made; use the build that made it, or put a backup in its place",
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
    super::triggers::install(&tx).map_err(open_error)?;
    tx.commit().map_err(open_error)
}
