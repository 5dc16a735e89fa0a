//! What was written into the file by hand: its notes, and rows as they were before.

use rusqlite::{Connection, OptionalExtension, Row, params};
use switchboard_core::changes::{Adopted, AdoptedRow};
use switchboard_core::verb::Note;
use switchboard_core::{Ask, Slice};

use super::load::{rows_max, signed};
use super::rows;
use crate::by_hand::{RawNote, put_before};

/// Whether there is anything to take in.
pub(super) fn is_noted(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM sb_hand LIMIT 1")?
        .exists([])
}

const NOTE: &str = "h.n, h.tbl, h.key, h.deed, h.was, h.became,
    CASE h.tbl WHEN 'tasks' THEN t.description WHEN 'messages' THEN m.payload END, t.result, t.quality_snapshot_id";
const TEXTS: &str = "LEFT JOIN tasks t ON h.tbl = 'tasks' AND t.id = h.key LEFT JOIN messages m ON h.tbl = 'messages' AND m.id = h.key";

/// The oldest notes; what the hub knew of their rows goes into the working set.
pub(super) fn notes(
    db: &Connection,
    limit: usize,
    slice: &mut Slice,
) -> rusqlite::Result<Vec<Note>> {
    let raw: Vec<RawNote> = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {TEXTS} ORDER BY h.n LIMIT ?"
        ))?
        .query_map([rows_max(limit)], |row| raw(db, row))?
        .collect::<rusqlite::Result<_>>()?;
    let notes: Vec<Note> = raw.into_iter().map(RawNote::read).collect();
    put_before(&notes, slice);
    Ok(notes)
}

fn raw(db: &Connection, row: &Row<'_>) -> rusqlite::Result<RawNote> {
    let snapshot: Option<String> = row.get(8)?;
    let metrics = match snapshot {
        Some(id) => super::load::select(db, rows::SNAPSHOT, "quality_snapshots WHERE id = ?")?
            .query_row([id], rows::snapshot)
            .optional()?
            .map(|snapshot| snapshot.metrics),
        None => None,
    };
    Ok(RawNote {
        number: row.get::<_, i64>(0)?.unsigned_abs(),
        table: row.get(1)?,
        key: row.get(2)?,
        deed: row.get(3)?,
        was: row.get(4)?,
        became: row.get(5)?,
        text: row.get(6)?,
        result: row.get(7)?,
        metrics,
    })
}

/// While notes are left, a row that one of them is about is what it was before it.
pub(super) fn load_before(db: &Connection, ask: &Ask, slice: &mut Slice) -> rusqlite::Result<()> {
    let (table, key) = match ask {
        Ask::Task(id) => ("tasks", id.as_str()),
        Ask::Agent(id) => ("agents", id.as_str()),
        _ => return Ok(()),
    };
    let first = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {TEXTS} WHERE h.tbl = ? AND h.key = ? ORDER BY h.n LIMIT 1"
        ))?
        .query_row(params![table, key], |row| raw(db, row))
        .optional()?;
    if let Some(first) = first {
        put_before(&[first.read()], slice);
    }
    Ok(())
}

/// Drops notes that are taken up, and what the hand made of their rows: the hub's own are written after this.
pub(super) fn drop_notes(db: &Connection, adopted: &[Adopted]) -> rusqlite::Result<()> {
    for Adopted { note, row } in adopted {
        db.prepare_cached("DELETE FROM sb_hand WHERE n = ?")?
            .execute([signed(*note)])?;
        match row {
            AdoptedRow::Task(id) => db
                .prepare_cached("DELETE FROM tasks WHERE id = ? AND rev = 0")?
                .execute([id.as_str()])?,
            AdoptedRow::Message(id) => db
                .prepare_cached("DELETE FROM messages WHERE id = ? AND rev = 0")?
                .execute([id.as_str()])?,
            AdoptedRow::Agent(id) => {
                serve_direct_agents(db)?;
                db.prepare_cached("DELETE FROM agents WHERE id = ?")?
                    .execute([id.as_str()])?
            }
            AdoptedRow::Lease(_) | AdoptedRow::Baseline => 0,
        };
    }
    Ok(())
}

/// Indexes for claims and inboxes in SQL: the document's order of tasks, that of clients in the wild, unread messages.
/// Every claim over any door pays for them, so they are made for the first agent that works by SQL.
const FOR_DIRECT_AGENTS: &str = "
    CREATE INDEX sb_tasks_claims ON tasks(status, CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2
      WHEN 'low' THEN 3 END, created_at) WHERE status = 'ready';
    CREATE INDEX sb_tasks_order ON tasks(status, priority_order, created_at) WHERE status = 'ready';
    CREATE INDEX sb_messages_unread ON messages(to_agent, number) WHERE delivered_at IS NULL AND to_agent IS NOT NULL;";

fn serve_direct_agents(db: &Connection) -> rusqlite::Result<()> {
    let there = db
        .prepare_cached("SELECT 1 FROM sqlite_master WHERE name = 'sb_tasks_claims'")?
        .exists([])?;
    if !there {
        db.execute_batch(FOR_DIRECT_AGENTS)?;
    }
    Ok(())
}
