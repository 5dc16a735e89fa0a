//! What was written into the file by hand: its notes, and rows as they were before.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Row, params};
use switchboard_core::changes::{Adopted, AdoptedRow};
use switchboard_core::slice::Save;
use switchboard_core::verb::Note;
use switchboard_core::{AgentId, Ask, Slice};

use super::load::{rows_max, signed};
use super::rows;
use crate::by_hand::RawNote;
use crate::rows::Columns;

/// Whether there is anything to take in.
pub(super) fn is_noted(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM sb_hand LIMIT 1")?
        .exists([])
}

const NOTE: &str = "h.n, h.tbl, h.key, h.deed, h.was, h.became,
    CASE h.tbl WHEN 'tasks' THEN t.description WHEN 'messages' THEN m.payload END, t.result, t.quality_snapshot_id,
    coalesce(t.rev, m.rev, a.rev, l.rev), (SELECT json_extract(later.was, '$.texts') FROM sb_hand later
      WHERE h.tbl = 'tasks' AND later.tbl = h.tbl AND later.key = h.key AND later.n > h.n
        AND json_type(later.was, '$.texts') = 'array' ORDER BY later.n LIMIT 1)";
const ROW: &str = "LEFT JOIN tasks t ON h.tbl = 'tasks' AND t.id = h.key LEFT JOIN messages m ON h.tbl = 'messages' AND m.id = h.key
    LEFT JOIN agents a ON h.tbl = 'agents' AND a.id = h.key LEFT JOIN leases l ON h.tbl = 'leases' AND l.file_path = h.key";

/// The oldest notes; what the hub knew of their rows goes into the working set.
pub(super) fn notes(
    db: &Connection,
    limit: usize,
    slice: &mut Slice,
) -> rusqlite::Result<Vec<Note>> {
    let raw: Vec<RawNote> = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {ROW} ORDER BY h.n LIMIT ?"
        ))?
        .query_map([rows_max(limit)], |row| raw(db, row))?
        .collect::<rusqlite::Result<_>>()?;
    raw.iter().for_each(|note| note.put_before(slice));
    Ok(raw.into_iter().map(RawNote::read).collect())
}

/// What is not even text is read as well as may be: a note that could not be read at all would stop the hub.
fn raw(db: &Connection, row: &Row<'_>) -> rusqlite::Result<RawNote> {
    let metrics = match row.text(8)? {
        Some(id) => super::load::select(db, rows::SNAPSHOT, "quality_snapshots WHERE id = ?")?
            .query_row([id], rows::snapshot)
            .optional()
            .unwrap_or(None)
            .map(|snapshot| snapshot.metrics),
        None => None,
    };
    let text = |column| Ok::<_, rusqlite::Error>(row.text(column)?.map(Cow::into_owned));
    Ok(RawNote {
        number: row.get::<_, i64>(0)?.unsigned_abs(),
        table: text(1)?.unwrap_or_default(),
        key: text(2)?.unwrap_or_default(),
        deed: text(3)?.unwrap_or_default(),
        was: text(4)?,
        became: text(5)?,
        text: text(6)?,
        result: text(7)?,
        rev: row.int(9)?,
        texts: text(10)?,
        metrics,
    })
}

/// While notes are left, a row that one of them is about is what it was before it.
pub(super) fn load_before(db: &Connection, ask: &Ask, slice: &mut Slice) -> rusqlite::Result<()> {
    let (table, key) = match ask {
        Ask::Task(id) => ("tasks", id.as_str()),
        Ask::Agent(id) => ("agents", id.as_str()),
        Ask::Message(id) => ("messages", id.as_str()),
        Ask::PresentAgents => return agents_before(db, slice),
        _ => return Ok(()),
    };
    let first = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {ROW} WHERE h.tbl = ? AND h.key = ? ORDER BY h.n LIMIT 1"
        ))?
        .query_row(params![table, key], |row| raw(db, row))
        .optional()?;
    if let Some(first) = first {
        first.put_before(slice);
    }
    Ok(())
}

/// Every agent that a note is about, as the hub knew it.
fn agents_before(db: &Connection, slice: &mut Slice) -> rusqlite::Result<()> {
    let first: Vec<RawNote> = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {ROW} WHERE h.n IN (SELECT min(n) FROM sb_hand WHERE tbl = 'agents' GROUP BY key)"
        ))?
        .query_map([], |row| raw(db, row))?
        .collect::<rusqlite::Result<_>>()?;
    first.iter().for_each(|note| note.put_before(slice));
    Ok(())
}

/// Who is present although a hand has deleted or replaced its row, which the hub has not heard of yet.
pub(super) fn also_present(db: &Connection, slice: &mut Slice) -> rusqlite::Result<()> {
    let noted: Vec<String> = db
        .prepare_cached("SELECT DISTINCT key FROM sb_hand WHERE tbl = 'agents'")?
        .query_map([], |row| Ok(row.text(0)?.unwrap_or_default().into_owned()))?
        .collect::<rusqlite::Result<_>>()?;
    let Some(mut present) = slice.ranges.present_agents.take() else {
        return Ok(());
    };
    let is_there = |id: &AgentId| {
        slice
            .known_agent(id)
            .flatten()
            .is_some_and(|agent| !agent.is_gone())
    };
    present.extend(noted.into_iter().map(AgentId::from).filter(is_there));
    present.sort();
    present.dedup();
    slice.ranges.present_agents = Some(present);
    Ok(())
}

/// Drops notes that are taken up, and what the hand made of their rows: the hub's own are written after this.
pub(super) fn drop_notes(db: &Connection, save: &Save<'_>) -> rusqlite::Result<()> {
    if save.adopted.is_empty() {
        return Ok(());
    }
    if has_direct_agents(save) {
        serve_direct_agents(db)?;
    }
    for Adopted { note, row } in save.adopted {
        // By the note's own key: it may be no text that the hub could hold.
        let made = match row {
            AdoptedRow::Task(_) => Some("DELETE FROM tasks WHERE rev = 0 AND id"),
            AdoptedRow::Message(_) => Some("DELETE FROM messages WHERE rev = 0 AND id"),
            AdoptedRow::Agent(_) => Some("DELETE FROM agents WHERE id"),
            AdoptedRow::Lease(_) => Some("DELETE FROM leases WHERE rev = 0 AND file_path"),
            AdoptedRow::Baseline => None,
        };
        if let Some(made) = made {
            db.prepare_cached(&format!("{made} = (SELECT key FROM sb_hand WHERE n = ?)"))?
                .execute([signed(*note)])?;
        }
        db.prepare_cached("DELETE FROM sb_hand WHERE n = ?")?
            .execute([signed(*note)])?;
    }
    // Nobody is inserting while the hub writes: what is left of statements that came to nothing.
    db.prepare_cached("DELETE FROM sb_was")?.execute([])?;
    Ok(())
}

/// Indexes for claims and inboxes in SQL: the document's order of tasks, that of clients in the wild, unread messages.
/// Every claim over any door pays for them, so they are made for the first agent that works by SQL.
const FOR_DIRECT_AGENTS: &str = "
    CREATE INDEX sb_tasks_claims ON tasks(status, CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2
      WHEN 'low' THEN 3 END, created_at) WHERE status = 'ready';
    CREATE INDEX sb_tasks_order ON tasks(status, priority_order, created_at) WHERE status = 'ready';
    CREATE INDEX sb_messages_unread ON messages(to_agent, number) WHERE delivered_at IS NULL AND to_agent IS NOT NULL;";

/// Whether an agent registered by hand, or a task was claimed by one.
fn has_direct_agents(save: &Save<'_>) -> bool {
    let mut rows = save.adopted.iter().map(|adopted| &adopted.row);
    rows.any(|row| match row {
        AdoptedRow::Agent(_) => true,
        AdoptedRow::Task(id) => {
            let mut held = save
                .tasks
                .iter()
                .filter(|(task, _)| task.holder().is_some());
            held.any(|(task, _)| task.id == *id)
        }
        AdoptedRow::Message(_) | AdoptedRow::Lease(_) | AdoptedRow::Baseline => false,
    })
}

fn serve_direct_agents(db: &Connection) -> rusqlite::Result<()> {
    let there = db
        .prepare_cached("SELECT 1 FROM sqlite_master WHERE name = 'sb_tasks_claims'")?
        .exists([])?;
    if !there {
        db.execute_batch(FOR_DIRECT_AGENTS)?;
    }
    Ok(())
}
