//! The rows of a file that Jetpack's own tools made, as the hub could have written them.
//!
//! Older files lack columns, newer ones have tables of their own; nothing here relies on a column being there.
//! Where the rows go is the business of `import`.

mod agent;
mod field;
mod message;
mod quality;
mod task;

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _};

pub use agent::Agent;
pub use field::{Fields, Reason};
pub use message::{Fate, Message};
pub use quality::{Baseline, Snapshot};
pub use task::Task;

/// The tables whose rows come along. Whatever else is in the file stays there.
pub const TABLES: [&str; 8] = [
    "agents",
    "tasks",
    "messages",
    "leases",
    "quality_snapshots",
    "quality_baseline",
    "migrations",
    "swarm_metadata",
];

/// Hands out every row of a table, if there is such a table.
pub fn each<E: From<rusqlite::Error>>(
    db: &Connection,
    table: &'static str,
    mut take: impl FnMut(&Fields<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let known = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let name: Option<String> = db.query_row(known, [table], |row| row.get(0)).optional()?;
    if name.is_none() {
        return Ok(());
    }
    let mut statement = db.prepare(&format!("SELECT * FROM {table}"))?;
    let names = statement.column_names().enumerate();
    let columns: HashMap<String, usize> = names
        .map(|(at, name)| (name.to_ascii_lowercase(), at))
        .collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(&Fields::new(row, &columns))?;
    }
    Ok(())
}

/// Tables with rows in them that do not come along.
pub fn others(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY name LIMIT 100",
    )?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut others = Vec::new();
    for name in names {
        let name = name?;
        let ours = TABLES.iter().any(|table| name.eq_ignore_ascii_case(table));
        if !ours && has_rows(db, &name) {
            others.push(name);
        }
    }
    Ok(others)
}

fn has_rows(db: &Connection, table: &str) -> bool {
    let quoted = table.replace('"', "\"\"");
    let sql = format!("SELECT EXISTS (SELECT 1 FROM \"{quoted}\")");
    // A table that only its own program can read is not missed here.
    db.query_row(&sql, [], |row| row.get(0)).unwrap_or(true)
}
