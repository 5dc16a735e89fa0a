//! The triggers of the public tables: they refuse what no rule allows, and note what was written.
//!
//! The hub's own connection has triggers switched off, so whatever fires one was written by hand. They run inside
//! the clients' SQLite: nothing here is newer than 3.37, and `RAISE` takes only literal texts.

use rusqlite::{Connection, OptionalExtension, params};
use switchboard_core::verb::TRANSITIONS;

use crate::table::Table;

mod agents;
mod guard;
mod leases;
mod messages;
mod quality;
mod steward;
mod tasks;

struct Trigger {
    name: &'static str,
    /// From the instant on: `BEFORE INSERT ON tasks …`.
    on: String,
    body: Vec<String>,
}

impl Trigger {
    fn sql(&self) -> String {
        let Trigger { name, on, body } = self;
        format!(
            "CREATE TRIGGER {name} {on} BEGIN\n  {}\nEND",
            body.join("\n  ")
        )
    }
}

/// Sees to it that the file has the triggers of this build.
pub(super) fn install(db: &Connection) -> rusqlite::Result<()> {
    for trigger in guarding().into_iter().chain(taken_names()) {
        let sql = trigger.sql();
        // As bytes: what a flipped bit made no text of is made anew, too.
        let there: Option<Vec<u8>> = db
            .query_row(
                "SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE type = 'trigger' AND name = ?",
                [trigger.name],
                |row| row.get(0),
            )
            .optional()?;
        if there.as_deref() != Some(sql.as_bytes()) {
            db.execute_batch(&format!("DROP TRIGGER IF EXISTS {};\n{sql};", trigger.name))?;
        }
    }
    let known: i64 = db.query_row("SELECT count(*) FROM sb_task_transition", [], |row| {
        row.get(0)
    })?;
    for (a, b) in TRANSITIONS {
        db.execute(
            "INSERT OR IGNORE INTO sb_task_transition(a, b) VALUES (?, ?)",
            params![a, b],
        )?;
    }
    if known > i64::try_from(TRANSITIONS.len()).unwrap_or(i64::MAX) {
        let list = serde_json::to_string(TRANSITIONS).unwrap_or_default();
        db.execute(
            "DELETE FROM sb_task_transition WHERE NOT EXISTS (SELECT 1 FROM json_each(?) known
               WHERE json_extract(known.value, '$[0]') = a AND json_extract(known.value, '$[1]') = b)",
            [list],
        )?;
    }
    Ok(())
}

/// Has a connection that serves others refuse what only a steward may, unless [`IS_STEWARD`] tells that it serves one.
///
/// These triggers are the connection's own: whoever opens the file itself has none of them.
pub(super) fn install_stewards(db: &Connection) -> rusqlite::Result<()> {
    for trigger in steward::triggers() {
        db.execute_batch(&trigger.sql().replacen("CREATE", "CREATE TEMP", 1))?;
    }
    Ok(())
}

/// The function that tells it, for these triggers alone.
pub(super) const IS_STEWARD: &str = "sb_is_steward";

/// All that touch more than what a client may.
pub(super) fn names() -> Vec<&'static str> {
    let all = guarding().into_iter().chain(steward::triggers());
    all.map(|trigger| trigger.name).collect()
}

fn guarding() -> Vec<Trigger> {
    [
        tasks::triggers(),
        agents::triggers(),
        messages::triggers(),
        leases::triggers(),
        quality::triggers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The row as JSON, without the columns that are read from the row itself.
fn image(of: &str, columns: &str, without: &[&str], more: &str) -> String {
    let columns = columns.split(", ").filter(|name| !without.contains(name));
    let pairs: Vec<String> = columns
        .map(|name| format!("'{name}', {of}.{name}"))
        .collect();
    format!("json_object({}{more})", pairs.join(", "))
}

/// Columns that must stay as they are.
fn kept(columns: &[&str]) -> String {
    let changed = |name: &&str| format!("NEW.{name} IS NOT OLD.{name}");
    let list: Vec<String> = columns.iter().map(changed).collect();
    list.join(" OR ")
}

/// Notes which row an INSERT finds under its key.
fn remember(table: &str, key: &str, was: &str) -> String {
    format!(
        "DELETE FROM sb_was WHERE tbl = '{table}' AND key = NEW.{key};
  INSERT INTO sb_was(tbl, key, was) SELECT '{table}', {key}, {was} FROM {table} WHERE {key} = NEW.{key};"
    )
}

/// Where a client has recursive triggers on, REPLACE also deletes, which is no deed of its own.
fn forget_replaced(table: &str, key: &str) -> String {
    format!(
        "DELETE FROM sb_hand WHERE n = (SELECT max(n) FROM sb_hand) AND tbl = '{table}' AND key = NEW.{key} AND deed = 'delete'
    AND EXISTS (SELECT 1 FROM sb_was WHERE tbl = '{table}' AND key = NEW.{key});"
    )
}

/// What is deleted stays, for its history: DELETE counts the row, and finds it put back.
fn put_back(table: &Table) -> String {
    let names = table.columns.iter().map(|column| column.name);
    let names: Vec<&str> = names.collect();
    format!(
        "INSERT OR IGNORE INTO sb_was(tbl, key) VALUES ('back', OLD.id);
  INSERT INTO {}({}) VALUES (OLD.{});
  DELETE FROM sb_was WHERE tbl = 'back' AND key = OLD.id;",
        table.name,
        names.join(", "),
        names.join(", OLD.")
    )
}

/// Not of a row that [`put_back`] inserts.
const IS_NEW: &str = "WHEN NOT EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'back' AND key = NEW.id)";

/// Names under which direct clients would make triggers of their own, which would write after every write.
fn taken_names() -> Vec<Trigger> {
    [
        ("tasks_updated_at", "tasks", "id"),
        ("baseline_updated_at", "quality_baseline", "id"),
        ("metadata_updated_at", "swarm_metadata", "key"),
    ]
    .map(|(name, table, column)| Trigger {
        name,
        on: format!("AFTER UPDATE OF {column} ON {table} WHEN 0"),
        body: vec!["SELECT 1;".to_owned()],
    })
    .into()
}
