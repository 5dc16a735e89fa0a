//! What was written into the file by hand: its notes, and rows as they were before.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, Row, params};
use switchboard_core::changes::{Adopted, AdoptedRow};
use switchboard_core::slice::Save;
use switchboard_core::{AgentId, Ask, LeasePath, RowKey, Slice, Task, limits};

use super::load::{rows_max, signed};
use super::rows;
use crate::HandPage;
use crate::by_hand::{RawNote, put_right};
use crate::rows::Columns;

/// Whether there is anything to take in.
pub(super) fn is_noted(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM sb_hand WHERE n > 0 LIMIT 1")?
        .exists([])
}

const NOTE: &str = "h.n, h.tbl, h.key, h.deed, h.was, h.became,
    CASE h.tbl WHEN 'tasks' THEN t.description WHEN 'messages' THEN m.payload END, t.result, t.quality_snapshot_id,
    coalesce(t.rev, m.rev, l.rev, max(coalesce(a.rev, 0), coalesce(g.rev, 0))), (SELECT json_extract(later.was, '$.texts') FROM sb_hand later
      WHERE h.tbl = 'tasks' AND later.tbl = h.tbl AND later.key = h.key AND later.n > h.n
        AND json_type(later.was, '$.texts') = 'array'
        AND NOT EXISTS (SELECT 1 FROM sb_hand earlier WHERE earlier.tbl = h.tbl AND earlier.key = h.key AND earlier.n < h.n)
      ORDER BY later.n LIMIT 1)";
const ROW: &str = "LEFT JOIN tasks t ON h.tbl = 'tasks' AND t.id = h.key LEFT JOIN messages m ON h.tbl = 'messages' AND m.id = h.key
    LEFT JOIN agents a ON h.tbl = 'agents' AND a.id = h.key LEFT JOIN sb_gone_agent g ON h.tbl = 'agents' AND g.id = h.key
    LEFT JOIN leases l ON h.tbl = 'leases' AND l.file_path = h.key";

/// The oldest notes; what the hub knew of their rows goes into the working set.
pub(super) fn notes(
    db: &Connection,
    limit: usize,
    slice: &mut Slice,
) -> rusqlite::Result<HandPage> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {NOTE} FROM sb_hand h {ROW} WHERE h.n > 0 ORDER BY h.n LIMIT ?"
    ))?;
    let mut rows = statement.query([rows_max(limit)])?;
    let mut found: Vec<RawNote> = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let note = raw(db, row)?;
        bytes += note.bytes();
        found.push(note);
        if bytes > limits::HAND_NOTES_BYTES {
            break;
        }
    }
    found.iter().for_each(|note| note.put_before(slice));
    Ok(HandPage {
        is_last: found.len() < limit && bytes <= limits::HAND_NOTES_BYTES,
        notes: found.into_iter().map(RawNote::read).collect(),
    })
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

/// What the hub knew of rows that notes are about; for one batch, during which no note comes to it.
#[derive(Default)]
pub(super) struct Before {
    /// The keys of agents and leases; everything the hub knew of those is in the working set then.
    agents: Option<Vec<AgentId>>,
    leases: Option<Vec<LeasePath>>,
}

impl Before {
    /// Goes before the answer to an ask: a row that a note is about is what it was before it.
    pub fn put(&mut self, db: &Connection, ask: &Ask, slice: &mut Slice) -> rusqlite::Result<()> {
        let (table, key) = match ask {
            Ask::Row(RowKey::Task(id)) => ("tasks", id.as_str()),
            Ask::Row(RowKey::Agent(id)) => ("agents", id.as_str()),
            Ask::Row(RowKey::Message(id)) => ("messages", id.as_str()),
            Ask::PresentAgents if self.agents.is_none() => {
                let notes = put_all(db, "agents", slice)?;
                self.agents = Some(notes.into_iter().map(|note| note.key.into()).collect());
                return Ok(());
            }
            Ask::LeasesNear(_) | Ask::LeasesOfAgent(_) | Ask::LeasesOfTask(_)
                if self.leases.is_none() =>
            {
                let notes = put_all(db, "leases", slice)?;
                self.leases = Some(notes.iter().map(RawNote::lease_path).collect());
                return Ok(());
            }
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

    /// Comes after it, for ranges.
    pub fn correct(&self, ask: &Ask, slice: &mut Slice) {
        let (agents, leases) = (self.agents.as_deref(), self.leases.as_deref());
        put_right(
            ask,
            agents.unwrap_or_default(),
            leases.unwrap_or_default(),
            slice,
        );
    }
}

/// Puts every row of a table that a note is about as the hub knew it; returns the first note of each.
fn put_all(db: &Connection, table: &str, slice: &mut Slice) -> rusqlite::Result<Vec<RawNote>> {
    let first: Vec<RawNote> = db
        .prepare_cached(&format!(
            "SELECT {NOTE} FROM sb_hand h {ROW} WHERE h.n IN (SELECT min(n) FROM sb_hand WHERE tbl = ? GROUP BY key)"
        ))?
        .query_map([table], |row| raw(db, row))?
        .collect::<rusqlite::Result<_>>()?;
    first.iter().for_each(|note| note.put_before(slice));
    Ok(first)
}

/// The hub has ended this lease: notes of it that are left tell of one that the hub no longer knows.
pub(super) fn lease_ended(db: &Connection, path: &LeasePath) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE sb_hand SET was = json_set(was, '$.rev', 0) WHERE tbl = 'leases' AND coalesce(json_extract(was, '$.path'), key) = ? AND was IS NOT NULL",
    )?
    .execute([path.as_str()])?;
    Ok(())
}

/// Drops the rows of a lease, however its path is spelled.
pub(super) fn drop_lease(db: &Connection, path: &LeasePath) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM leases WHERE prefix = ? AND coalesce(path, file_path) = ?")?
        .execute([path.prefix(), path.as_str()])?;
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
                .puts::<Task>()
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
