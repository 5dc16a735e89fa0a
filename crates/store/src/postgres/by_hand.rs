//! What was written into the tables by hand: its notes, rows as they were before, and rows that no hub made.
//!
//! Who may write what is said by the triggers, whose functions are in `guards`. A row that a hand made has `rev` 0 and a number
//! below zero; the hub's own is written over it, so that a statement that waits for its turn still finds it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use switchboard_core::changes::{Adopted, AdoptedRow};
use switchboard_core::slice::Save;
use switchboard_core::{AgentId, Ask, Lease, LeasePath, RowKey, Slice, limits};
use tokio_postgres::Row;

use super::Taken;
use super::load::{Load, load};
use super::rows::{Batch, Behind, rows_max, signed};
use super::session::Query;
use crate::by_hand::{RawNote, put_right};
use crate::rows::{self, Columns};
use crate::table::qualified;
use crate::{Error, HandPage};

/// What an open batch knows of hands.
#[derive(Default)]
pub(super) struct Hand {
    /// It began with notes to take in.
    is_noted: bool,
    has_sql_agents: bool,
    /// There is no note up to this one any more.
    gone_upto: i64,
    /// Keys of rows whose notes were taken up, by table.
    raw: [Vec<String>; TABLES.len()],
}

/// Tables in which a row may be left that no hub made, and their keys.
const TABLES: [(&str, &str); 4] = [
    ("tasks", "id"),
    ("agents", "id"),
    ("messages", "id"),
    ("leases", "file_path"),
];

impl Hand {
    pub fn begins(&mut self, taken: &Taken) {
        self.is_noted = taken.by_hand;
        self.has_sql_agents = taken.has_sql_agents;
        self.raw.iter_mut().for_each(Vec::clear);
    }

    pub fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// Whether some agents read messages by SQL.
    pub fn has_sql_agents(&self) -> bool {
        self.has_sql_agents
    }

    pub fn gone_upto(&self) -> i64 {
        self.gone_upto
    }

    pub fn oldest(&self, limit: usize) -> Query {
        let sql = format!(
            "SELECT {} FROM (
               SELECT sized.*, sum(size) OVER (ORDER BY n) - size AS before FROM (
                 SELECT h.*, {SIZE} AS size FROM sb_hand h {ROWS} WHERE h.n > $1 ORDER BY h.n LIMIT $2) sized) h
             {ROWS} WHERE h.before <= {} ORDER BY h.n",
            *NOTE,
            limits::HAND_NOTES_BYTES
        );
        Query::new(sql).int(self.gone_upto).int(rows_max(limit))
    }

    /// The notes in rows of [`Hand::oldest`]; what the hub knew of their rows goes into the working set.
    pub fn read(
        &mut self,
        rows: &[Row],
        limit: usize,
        slice: &mut Slice,
    ) -> Result<HandPage, Error> {
        if let Some(first) = rows.first() {
            self.gone_upto = first.int(0)?.unwrap_or(0) - 1;
        }
        let notes: Vec<RawNote> = rows.iter().map(note).collect::<Result<_, Error>>()?;
        notes.iter().for_each(|note| note.put_before(slice));
        // Counted a little differently than the database does: near the bound nobody knows.
        let bytes: usize = notes.iter().map(RawNote::bytes).sum();
        Ok(HandPage {
            is_last: rows.len() < limit && bytes < limits::HAND_NOTES_BYTES / 2,
            notes: notes.into_iter().map(RawNote::read).collect(),
        })
    }

    /// While notes are left, a row that one of them is about is what it was before it.
    pub fn rows_before<'a>(&self, asks: &[Ask]) -> Vec<Load<'a>> {
        let mut loads = Vec::new();
        let mut keys = Batch::default();
        for ask in asks.iter().filter(|_| self.is_noted) {
            match ask {
                Ask::Row(RowKey::Task(id)) => keys.text("tasks").text(id.as_str()).end(),
                Ask::Row(RowKey::Agent(id)) => keys.text("agents").text(id.as_str()).end(),
                Ask::Row(RowKey::Message(id)) => keys.text("messages").text(id.as_str()).end(),
                _ => {}
            }
        }
        let ranges = asks.iter().filter(|_| self.is_noted).filter_map(table_of);
        let ranges: BTreeSet<&str> = ranges.collect();
        if !ranges.is_empty() {
            let sql = format!(
                "SELECT {} FROM sb_hand h {ROWS} WHERE h.n IN (
                   SELECT min(n) FROM sb_hand WHERE tbl = ANY($1) GROUP BY tbl, key)",
                *NOTE
            );
            loads.push(before(Query::new(sql).texts(ranges)));
        }
        if !keys.is_empty() {
            let sql = format!(
                "SELECT {} FROM unnest($1, $2) AS q(tbl, key) CROSS JOIN LATERAL (
                   SELECT * FROM sb_hand o WHERE o.tbl = q.tbl AND o.key = q.key ORDER BY o.n LIMIT 1) h {ROWS}",
                *NOTE
            );
            loads.push(before(Query::rows(sql, keys)));
        }
        loads
    }

    /// While notes are left, a range that was read from the rows has what a hand made of them: put right by the working
    /// set.
    pub fn ranges_before<'a>(&self, asks: &'a [Ask]) -> Option<Load<'a>> {
        if !self.is_noted || !asks.iter().any(|ask| table_of(ask).is_some()) {
            return None;
        }
        let query = Query::new(
            "SELECT DISTINCT tbl, coalesce(was ->> 'path', became ->> 'path', key) FROM sb_hand WHERE tbl IN ('agents', 'leases')",
        );
        Some(load(query, |rows, slice| {
            let (mut agents, mut leases) = (Vec::new(), Vec::new());
            for row in &rows {
                let key = row.text(1)?.unwrap_or_default();
                match row.text(0)?.as_deref() {
                    Some("agents") => agents.push(AgentId::from(key.into_owned())),
                    _ => leases.push(LeasePath::stored(&key)),
                }
            }
            asks.iter()
                .for_each(|ask| put_right(ask, &agents, &leases, slice));
            Ok(())
        }))
    }

    /// Drops notes that are taken up.
    pub fn drop_notes(&mut self, adopted: &[Adopted], queries: &mut Vec<Query>) {
        if adopted.is_empty() {
            return;
        }
        let notes = adopted.iter().map(|adopted| signed(adopted.note));
        queries.push(Query::new("DELETE FROM sb_hand WHERE n = ANY($1)").ints(notes));
        for Adopted { row, .. } in adopted {
            match row {
                AdoptedRow::Task(id) => self.raw[0].push(id.to_string()),
                AdoptedRow::Agent(id) => self.raw[1].push(id.to_string()),
                AdoptedRow::Message(id) => self.raw[2].push(id.to_string()),
                AdoptedRow::Lease(path) => self.raw[3].push(path.to_string()),
                AdoptedRow::Baseline => {}
            }
        }
    }

    /// The hub has ended these leases: notes of them that are left tell of what the hub no longer knows.
    pub fn leases_ended(&self, save: &Save<'_>, queries: &mut Vec<Query>) {
        let ended: Vec<_> = save.drops::<Lease>().map(|(path, _)| path).collect();
        if self.is_noted && !ended.is_empty() {
            let sql = "UPDATE sb_hand SET was = jsonb_set(was, '{rev}', '0') WHERE tbl = 'leases' AND coalesce(was ->> 'path', key) = ANY($1) AND was IS NOT NULL";
            queries.push(Query::new(sql).texts(ended.into_iter().map(LeasePath::as_str)));
        }
    }

    /// Drops what hands made and the hub has not written over, once all is written.
    pub fn drop_raw(&mut self, queries: &mut Vec<Query>) {
        for ((table, key), raw) in TABLES.iter().zip(&mut self.raw) {
            if !raw.is_empty() {
                let sql = match *table {
                    // However they are spelled: the last one that was written is the hub's.
                    "leases" => "DELETE FROM leases old WHERE coalesce(old.path, old.file_path) = ANY($1) AND (old.rev = 0 OR EXISTS (
                       SELECT 1 FROM leases new WHERE new.prefix = old.prefix AND (new.fencing, new.rev) > (old.fencing, old.rev)
                         AND coalesce(new.path, new.file_path) = coalesce(old.path, old.file_path)))".to_owned(),
                    _ => format!("DELETE FROM {table} WHERE {key} = ANY($1) AND rev = 0"),
                };
                let raw = std::mem::take(raw);
                queries.push(Query::new(sql).texts(raw.iter().map(String::as_str)));
            }
        }
    }
}

/// The table that a range is read from.
fn table_of(ask: &Ask) -> Option<&'static str> {
    match ask {
        Ask::PresentAgents => Some("agents"),
        Ask::LeasesNear(_) | Ask::LeasesOfAgent(_) | Ask::LeasesOfTask(_) => Some("leases"),
        _ => None,
    }
}

const ROWS: &str = "LEFT JOIN tasks t ON h.tbl = 'tasks' AND t.id = h.key LEFT JOIN messages m ON h.tbl = 'messages' AND m.id = h.key
  LEFT JOIN agents a ON h.tbl = 'agents' AND a.id = h.key LEFT JOIN sb_gone_agent g ON h.tbl = 'agents' AND g.id = h.key
  LEFT JOIN leases l ON h.tbl = 'leases' AND l.file_path = h.key
  LEFT JOIN quality_snapshots s ON s.id = t.quality_snapshot_id";
const SIZE: &str = "coalesce(pg_column_size(h.was), 0) + coalesce(pg_column_size(h.became), 0) + coalesce(octet_length(t.description), 0)
  + coalesce(octet_length(t.result), 0) + coalesce(octet_length(m.payload), 0)";
/// A note with what stands of its row, a task's texts before a later note changed them, and what its snapshot has measured.
static NOTE: LazyLock<String> = LazyLock::new(|| {
    let note = "h.n, h.tbl, h.key, h.deed, h.was::text, h.became::text, coalesce(t.description, m.payload), t.result,
  coalesce(t.rev, m.rev, l.rev, greatest(a.rev, g.rev)), (SELECT (later.was -> 'texts')::text FROM sb_hand later
    WHERE h.tbl = 'tasks' AND later.tbl = h.tbl AND later.key = h.key AND later.n > h.n AND later.was ? 'texts' ORDER BY later.n LIMIT 1)";
    format!("{note}, {}", qualified(rows::SNAPSHOT, "s"))
});
const NOTE_COLUMNS: usize = 10;

fn before<'a>(notes: Query) -> Load<'a> {
    load(notes, |rows, slice| {
        for row in &rows {
            note(row)?.put_before(slice);
        }
        Ok(())
    })
}

fn note(row: &Row) -> Result<RawNote, Error> {
    let text = |column| -> Result<Option<String>, Error> {
        Ok(row.text(column)?.map(|text| text.into_owned()))
    };
    let word = |column| text(column).map(Option::unwrap_or_default);
    let json = |column| -> Result<Option<String>, Error> {
        Ok(row.text(column)?.map(|json| plain(&json)))
    };
    let metrics = match row.text(NOTE_COLUMNS)? {
        // What no build can read has measured nothing.
        Some(_) => rows::snapshot(&Behind(row, NOTE_COLUMNS)).ok(),
        None => None,
    };
    Ok(RawNote {
        number: row.int(0)?.unwrap_or(0).unsigned_abs(),
        table: word(1)?,
        key: word(2)?,
        deed: word(3)?,
        was: json(4)?,
        became: json(5)?,
        text: text(6)?,
        result: text(7)?,
        rev: row.int(8)?,
        texts: json(9)?,
        metrics: metrics.map(|snapshot| snapshot.metrics),
    })
}

/// A row as JSON with its texts as they are meant: what stands for U+0000 and for U+001A in a column (`rows`) is
/// spelled out in JSON.
fn plain(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        let (meant, skipped) = match escape.as_bytes() {
            [_, b'u', b'0', b'0', b'1', b'a', b'0', ..] => ("\\u0000", 7),
            [_, b'u', b'0', b'0', b'1', b'a', b'1', ..] => ("\\u001a", 7),
            _ => (escape.get(..2).unwrap_or(escape), 2),
        };
        plain.push_str(meant);
        rest = escape.get(skipped..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use switchboard_core::verb::TRANSITIONS;
    use switchboard_test_cluster::Cluster;

    use super::*;
    use crate::postgres::rows::escape;
    use crate::postgres::{Address, PostgresEngine};

    #[test]
    fn texts_in_an_image_are_meant_as_they_were_written() {
        for text in [
            "",
            "plain \" \\ \n",
            "a\0b",
            "\u{1a}",
            "\\u001a0",
            "\\\u{1a}0\0",
            "ä\\",
        ] {
            let kept = serde_json::to_string(&escape(text)).expect("a string is JSON");
            let read: String = serde_json::from_str(&plain(&kept)).expect("it is JSON still");
            assert_eq!(read, text, "{kept}");
        }
    }

    #[test]
    fn the_schema_knows_the_changes_of_status_that_the_rules_know() {
        let Some(server) = Cluster::shared("a look at changes of status") else {
            return;
        };
        let database = server.create_database();
        drop(PostgresEngine::open(
            Address::parse(&database.url).expect("an address"),
        ));
        let found = database.sql("SELECT a, b FROM sb_task_transition");
        let mut found: Vec<&str> = found.lines().collect();
        let mut known: Vec<String> = TRANSITIONS
            .iter()
            .map(|(a, b)| format!("{a}|{b}"))
            .collect();
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
