//! Lists and single rows for people and programs, each query in a transaction of its own.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, params, params_from_iter};
use switchboard_core::attempt::Attempt;
use switchboard_core::record::Kind;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, Baseline, Delivery, EngramText, Head, Learning, Lease, Logged, Message,
    MessageId, Priority, Record, RecordKey, RecordRange, Snapshot, Task, TaskId, Timestamp, limits,
};

use super::alarm::Alarm;
use super::condition::Condition;
use super::errors::open_error;
use super::load::{self, list, rows_max, select, signed};
use super::rows;
use super::text::Iso;
use crate::paging::{self, LANES_LOOKED_AT, LANES_SCANNED, cursor, pages};
use crate::table::{SNAPSHOTS, at, qualified};
use crate::{
    AgentCounts, AgentFilter, Error, HeldTask, LeaseFilter, MessageFilter, MessageSince, Page,
    Pages, Readable, Since, SnapshotFilter, TaskFilter, TaskRef,
};

pub(super) struct SqliteReader {
    db: Connection,
    condition: Arc<Condition>,
    alarm: Alarm,
}

/// Each word as a quoted prefix: nothing a person types is query syntax. `None` if there are no words.
fn prefixes(words: &str) -> Option<String> {
    let quoted = paging::words(words).map(|word| format!("\"{}\"*", word.replace('"', "\"\"")));
    let quoted: Vec<String> = quoted.collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

impl SqliteReader {
    pub fn open(condition: &Arc<Condition>, alarm: Alarm) -> Result<SqliteReader, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(condition.path(), flags).map_err(open_error)?;
        db.busy_timeout(Duration::from_secs(2))
            .map_err(open_error)?;
        db.execute_batch(
            "PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON;",
        )
        .map_err(open_error)?;
        db.set_prepared_statement_cache_capacity(64);
        super::keep_plans(&db)?;
        Ok(SqliteReader {
            db,
            condition: Arc::clone(condition),
            alarm,
        })
    }
}

/// Conditions with their values, joined by AND.
#[derive(Default)]
struct Where {
    parts: Vec<String>,
    values: Vec<Value>,
}

impl Where {
    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.parts.push(condition.to_owned());
        self.values.push(value.into());
    }

    fn one_of<S: Into<String>>(&mut self, column: &str, words: impl IntoIterator<Item = S>) {
        let words: Vec<Value> = words
            .into_iter()
            .map(|word| Value::from(word.into()))
            .collect();
        if !words.is_empty() {
            let marks = vec!["?"; words.len()].join(", ");
            self.parts.push(format!("{column} IN ({marks})"));
            self.values.extend(words);
        }
    }

    fn sql(&self) -> String {
        if self.parts.is_empty() {
            "1".to_owned()
        } else {
            self.parts.join(" AND ")
        }
    }
}

impl Readable for SqliteReader {
    type Error = Error;

    fn check(&self) -> Result<(), Error> {
        self.condition.is_there()
    }

    fn is_ready(&self) -> Result<(), Error> {
        self.condition.is_ready()
    }

    fn warnings(&self) -> Vec<String> {
        self.condition.warnings()
    }

    fn head(&self) -> Result<Head, Error> {
        select(&self.db, rows::HEAD, "sb_head")
            .and_then(|mut s| s.query_row([], rows::head))
            .map_err(|error| self.alarm.hear(error))
    }

    fn task(&self, which: &TaskRef) -> Result<Option<Task>, Error> {
        let (condition, value) = match which {
            TaskRef::Id(id) => (
                "tasks WHERE id = ? AND number > 0",
                Value::from(id.as_str().to_owned()),
            ),
            TaskRef::Number(number) => ("tasks WHERE number = ?", Value::from(signed(*number))),
        };
        select(&self.db, rows::TASK, condition)
            .and_then(|mut s| s.query_row([value], rows::task).optional())
            .map_err(|error| self.alarm.hear(error))
    }

    fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Pages<Task>, Error> {
        let mut conditions = Where::default();
        conditions.one_of("status", filter.statuses.iter().map(|word| word.as_str()));
        conditions.one_of(
            "priority",
            filter.priorities.iter().map(|word| word.as_str()),
        );
        conditions.one_of("type", filter.kinds.iter().map(|word| word.as_str()));
        if let Some(holder) = &filter.holder {
            conditions.and("assigned_agent = ?", holder.as_str().to_owned());
        }
        if let Some(branch) = &filter.branch {
            conditions.and("branch = ?", branch.clone());
        }
        if let Some(skill) = &filter.skill {
            conditions.and(
                "EXISTS (SELECT 1 FROM json_each(required_skills) WHERE value = ?)",
                paging::skill(skill),
            );
        }
        let (compare, order) = if filter.newest_first {
            ("<", "DESC")
        } else {
            (">", "ASC")
        };
        let start = if filter.newest_first { i64::MAX } else { 0 };
        let after = cursor(page)?.unwrap_or(start);
        if paging::all_rare(&filter.statuses) {
            conditions.and(&format!("number {compare} ?"), after);
            conditions.values.push(rows_max(page.limit + 1).into());
            let mut found: Vec<Task> = Vec::new();
            for status in &filter.statuses {
                // The word stands in the query itself: only then is its index used.
                let sql = format!(
                    "tasks WHERE status = '{status}' AND number > 0 AND {} ORDER BY number {order} LIMIT ?",
                    conditions.sql()
                );
                found.extend(self.rows(rows::TASK, &sql, &conditions.values, rows::task)?);
            }
            found.sort_by_key(|task| task.number);
            if filter.newest_first {
                found.reverse();
            }
            return Ok(pages(found, page, |task| task.number.to_string()));
        }
        // At most so many rows are looked at; a short page with a cursor is the answer to a rare filter.
        let sql = format!(
            "(SELECT * FROM tasks WHERE number {compare} ? AND number > 0 ORDER BY number {order} LIMIT {scan}) WHERE {filter} LIMIT ?",
            scan = limits::PAGE_SCAN_MAX,
            filter = conditions.sql(),
        );
        let mut values = vec![Value::from(after)];
        values.append(&mut conditions.values);
        values.push(Value::from(rows_max(page.limit + 1)));
        let found: Vec<Task> = self.rows(rows::TASK, &sql, &values, rows::task)?;
        let mut found = pages(found, page, |task| task.number.to_string());
        if found.next.is_none() {
            found.next = self.edge(
                "tasks",
                &format!("number {compare} ? AND number > 0"),
                order,
                after,
            )?;
        }
        Ok(found)
    }

    fn attempts(&self, task: u64) -> Result<Vec<Attempt>, Error> {
        self.rows(
            rows::ATTEMPT,
            "sb_attempt WHERE number = ? ORDER BY epoch LIMIT 1000",
            &[signed(task).into()],
            rows::attempt,
        )
    }

    fn dependants(&self, task: &TaskId) -> Result<Vec<TaskId>, Error> {
        list(
            &self.db,
            "SELECT task FROM sb_dep WHERE needs = ? ORDER BY number LIMIT ?",
            params![task.as_str(), rows_max(limits::PAGE_MAX)],
            |row| row.get::<_, String>(0).map(TaskId::from),
        )
        .map_err(|error| self.alarm.hear(error))
    }

    fn next_in_queue(&self, limit: usize) -> Result<Vec<u64>, Error> {
        let mut lanes: Vec<(i64, i64, i64)> = list(
            &self.db,
            "SELECT prio, head, lane FROM sb_lane WHERE ready > 0 LIMIT ?",
            [rows_max(LANES_SCANNED)],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .map_err(|error| self.alarm.hear(error))?;
        lanes.sort_unstable();
        let mut queue = Vec::new();
        for priority in Priority::ALL {
            let of_priority = |lane: &&(i64, i64, i64)| lane.0 == *priority as i64;
            let lanes = lanes.iter().filter(of_priority).take(LANES_LOOKED_AT);
            let room = limit - queue.len();
            let mut found: Vec<i64> = Vec::new();
            let mut last = i64::MAX;
            for (_, head, lane) in lanes {
                if *head > last {
                    break;
                }
                let numbers: Vec<i64> = list(
                    &self.db,
                    "SELECT number FROM tasks INDEXED BY sb_tasks_queue
                     WHERE status = 'ready' AND lane = ? AND number <= ? ORDER BY number LIMIT ?",
                    params![lane, last, rows_max(room)],
                    |row| row.get(0),
                )
                .map_err(|error| self.alarm.hear(error))?;
                found.extend(numbers);
                found.sort_unstable();
                found.truncate(room);
                if found.len() == room {
                    last = found.last().copied().unwrap_or(i64::MAX);
                }
            }
            queue.extend(found.into_iter().map(i64::unsigned_abs));
            if queue.len() >= limit {
                break;
            }
        }
        Ok(queue)
    }

    fn held_tasks(&self, limit: usize) -> Result<Vec<HeldTask>, Error> {
        select(
            &self.db,
            rows::HELD,
            "agents a, json_each(a.holds) h JOIN tasks t ON t.id = h.value
             WHERE a.holds <> '[]' AND t.status IN ('claimed', 'in_progress') LIMIT ?",
        )
        .and_then(|mut s| s.query_map([rows_max(limit)], rows::held)?.collect())
        .map_err(|error| self.alarm.hear(error))
    }

    fn agent(&self, id: &AgentId) -> Result<Option<Agent>, Error> {
        select(&self.db, rows::AGENT, &rows::ONE_AGENT)
            .and_then(|mut s| s.query_row([id.as_str()], rows::agent).optional())
            .map_err(|error| self.alarm.hear(error))
    }

    fn agents(&self, filter: &AgentFilter, page: &Page) -> Result<Pages<Agent>, Error> {
        let mut conditions = Where::default();
        conditions.and("id > ?", page.after.clone().unwrap_or_default());
        conditions.one_of("status", filter.statuses.iter().cloned());
        if !filter.with_gone {
            conditions.parts.push("presence <> 'gone'".to_owned());
        }
        conditions.values.push(rows_max(page.limit + 1).into());
        let sql = format!(
            "{} WHERE {} ORDER BY id LIMIT ?",
            *rows::EVERY_AGENT,
            conditions.sql()
        );
        let found: Vec<Agent> = self.rows(rows::AGENT, &sql, &conditions.values, rows::agent)?;
        Ok(pages(found, page, |agent| agent.id.to_string()))
    }

    fn agent_counts(&self) -> Result<AgentCounts, Error> {
        let found = list(
            &self.db,
            "SELECT status, count(*) FROM agents WHERE presence <> 'gone' AND rev > 0 GROUP BY status",
            [],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?.unsigned_abs(),
                ))
            },
        )
        .map_err(|error| self.alarm.hear(error))?;
        Ok(paging::agent_counts(found))
    }

    fn leases(&self, filter: &LeaseFilter, page: &Page) -> Result<Pages<Lease>, Error> {
        let mut conditions = Where::default();
        conditions.and("file_path > ?", page.after.clone().unwrap_or_default());
        if let Some(agent) = &filter.agent {
            conditions.and("agent_id = ?", agent.as_str().to_owned());
        }
        if let Some(task) = &filter.task {
            conditions.and("task_id = ?", task.as_str().to_owned());
        }
        let scan = paging::leases_to_read(filter, page);
        conditions.values.push(rows_max(scan).into());
        let sql = format!(
            "leases WHERE rev > 0 AND {} ORDER BY file_path LIMIT ?",
            conditions.sql()
        );
        let read: Vec<Lease> = self.rows(rows::LEASE, &sql, &conditions.values, rows::lease)?;
        Ok(paging::leases_page(read, filter, page))
    }

    fn message(&self, id: &MessageId) -> Result<Option<(Message, Vec<Delivery>)>, Error> {
        let found = select(
            &self.db,
            rows::MESSAGE,
            "messages WHERE id = ? AND number > 0",
        )
        .and_then(|mut s| s.query_row([id.as_str()], rows::message).optional())
        .map_err(|error| self.alarm.hear(error))?;
        let Some(message) = found else {
            return Ok(None);
        };
        let deliveries = self.rows(
            rows::DELIVERY,
            "sb_delivery WHERE number = ? ORDER BY agent LIMIT 10000",
            &[signed(message.number).into()],
            rows::delivery,
        )?;
        Ok(Some((message, deliveries)))
    }

    fn messages(&self, filter: &MessageFilter, page: &Page) -> Result<Pages<Message>, Error> {
        let mut conditions = Where::default();
        if let Some(from) = &filter.from {
            conditions.and("from_agent = ?", from.as_str().to_owned());
        }
        if let Some(to) = &filter.to {
            conditions.and(
                "instr(' ' || to_agent || ' ', ' ' || ? || ' ') > 0",
                to.as_str().to_owned(),
            );
        }
        conditions.one_of("type", filter.kinds.iter().cloned());
        let after = cursor(page)?.unwrap_or(i64::MAX);
        let sql = format!(
            "(SELECT * FROM messages WHERE number < ? AND number > 0 ORDER BY number DESC LIMIT {}) WHERE {} LIMIT ?",
            limits::PAGE_SCAN_MAX,
            conditions.sql()
        );
        let mut values = vec![Value::from(after)];
        values.append(&mut conditions.values);
        values.push(rows_max(page.limit + 1).into());
        let found: Vec<Message> = self.rows(rows::MESSAGE, &sql, &values, rows::message)?;
        let mut found = pages(found, page, |message| message.number.to_string());
        if found.next.is_none() {
            found.next = self.edge("messages", "number < ? AND number > 0", "DESC", after)?;
        }
        Ok(found)
    }

    fn messages_since(&self, since: &MessageSince, now: Timestamp) -> Result<Vec<Message>, Error> {
        let (condition, value) = match &since.since {
            Since::Instant(at) => (
                "m.created_at > ?",
                Value::from(Iso::new(*at).as_str().to_owned()),
            ),
            Since::Message(id) => (
                "m.number > coalesce((SELECT number FROM messages WHERE id = ?), 0)",
                Value::from(id.as_str().to_owned()),
            ),
        };
        let mut conditions = Where::default();
        conditions.and("d.agent = ?", since.agent.as_str().to_owned());
        conditions.and(condition, value);
        conditions.and(
            "d.reason IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?)",
            Iso::new(now).as_str().to_owned(),
        );
        conditions.one_of("m.type", since.kinds.iter().cloned());
        conditions.values.push(rows_max(since.limit).into());
        let columns = qualified(rows::MESSAGE, "m");
        let sql = format!(
            "sb_delivery d JOIN messages m ON m.number = d.number WHERE {} ORDER BY m.number LIMIT ?",
            conditions.sql()
        );
        self.rows(&columns, &sql, &conditions.values, rows::message)
    }

    fn baseline(&self) -> Result<Option<Baseline>, Error> {
        select(&self.db, rows::BASELINE, "quality_baseline")
            .and_then(|mut s| s.query_row([], rows::baseline).optional())
            .map_err(|error| self.alarm.hear(error))
    }

    fn snapshots(&self, filter: &SnapshotFilter, page: &Page) -> Result<Pages<Snapshot>, Error> {
        let mut conditions = Where::default();
        conditions.and("rowid < ?", cursor(page)?.unwrap_or(i64::MAX));
        if let Some(task) = &filter.task {
            conditions.and("task_id = ?", task.as_str().to_owned());
        }
        conditions.values.push(rows_max(page.limit + 1).into());
        let sql = format!(
            "quality_snapshots WHERE {} ORDER BY rowid DESC LIMIT ?",
            conditions.sql()
        );
        let found: Vec<(Snapshot, i64)> =
            self.rows(rows::SNAPSHOT, &sql, &conditions.values, |row| {
                Ok((rows::snapshot(row)?, row.get(at!(SNAPSHOTS.rowid))?))
            })?;
        let found = pages(found, page, |(_, rowid)| rowid.to_string());
        Ok(Pages {
            rows: found.rows.into_iter().map(|(row, _)| row).collect(),
            next: found.next,
        })
    }

    fn learnings(&self, words: &str, limit: usize) -> Result<Vec<Learning>, Error> {
        let Some(query) = prefixes(words) else {
            let newest = [Value::Integer(rows_max(limit))];
            let rest = "sb_learning ORDER BY n DESC LIMIT ?";
            return self.rows(rows::LEARNING, rest, &newest, rows::learning);
        };
        self.rows(
            &qualified(rows::LEARNING, "l"),
            "sb_learning_words w JOIN sb_learning l ON l.n = w.rowid WHERE sb_learning_words MATCH ? ORDER BY rank, l.n DESC LIMIT ?",
            &[Value::Text(query), Value::Integer(rows_max(limit))],
            rows::learning,
        )
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        let mut found = Vec::new();
        let mut statement = self
            .db
            .prepare_cached(
                "SELECT body FROM sb_log WHERE first >= coalesce((SELECT max(first) FROM sb_log WHERE first <= ?1), 0)
                 ORDER BY first",
            )
            .map_err(|error| self.alarm.hear(error))?;
        let mut stored = statement
            .query([signed(after.saturating_add(1))])
            .map_err(|error| self.alarm.hear(error))?;
        while let Some(row) = stored.next().map_err(|error| self.alarm.hear(error))? {
            let body = row
                .get_ref(0)
                .and_then(|value| Ok(value.as_str()?))
                .map_err(|error| self.alarm.hear(error))?;
            for logged in paging::events(body) {
                let logged = logged?;
                if logged.seq > after {
                    found.push(logged);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    fn oldest_event(&self) -> Result<Option<u64>, Error> {
        let oldest: Option<i64> = self
            .db
            .query_row("SELECT min(first) FROM sb_log", [], |row| row.get(0))
            .map_err(|error| self.alarm.hear(error))?;
        Ok(oldest.map(i64::unsigned_abs))
    }

    fn engram_texts(&self, words: &str, limit: usize) -> Result<Vec<Record>, Error> {
        let Some(query) = prefixes(words) else {
            return self.records(&RecordRange::newest::<EngramText>("", limit));
        };
        self.rows(
            "r.value",
            "sb_engram_words w JOIN sb_record r ON r.kind = 'engram_text' AND r.key = w.key
             WHERE sb_engram_words MATCH ? ORDER BY rank, r.position DESC LIMIT ?",
            &[Value::Text(query), Value::Integer(rows_max(limit))],
            rows::record,
        )
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Record>, Error> {
        let names = [key.kind.as_str(), &*key.key];
        select(&self.db, "value", "sb_record WHERE kind = ? AND key = ?")
            .and_then(|mut s| s.query_row(names, rows::record).optional())
            .map_err(|error| self.alarm.hear(error))
    }

    fn records(&self, range: &RecordRange) -> Result<Vec<Record>, Error> {
        load::records(&self.db, range).map_err(|error| self.alarm.hear(error))
    }

    fn record_counts(&self, kind: Kind) -> Result<Vec<(String, u64)>, Error> {
        let sql = "SELECT owner, count(*) FROM sb_record INDEXED BY sb_record_owned
                   WHERE kind = ? AND position IS NOT NULL GROUP BY owner ORDER BY owner";
        let found = list(&self.db, sql, [kind.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        });
        found.map_err(|error| self.alarm.hear(error))
    }

    fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.rows(
            rows::TOKEN,
            "sb_token ORDER BY created_at, id LIMIT 10000",
            &[],
            rows::token,
        )
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, Error> {
        select(&self.db, rows::TOKEN, "sb_token WHERE hash = ?")
            .and_then(|mut s| s.query_row([hash], rows::token).optional())
            .map_err(|error| self.alarm.hear(error))
    }
}

impl SqliteReader {
    /// Where a page ends that looked at as many rows as it may, if there are so many.
    fn edge(
        &self,
        table: &str,
        range: &str,
        order: &str,
        after: i64,
    ) -> Result<Option<String>, Error> {
        let last = limits::PAGE_SCAN_MAX - 1;
        let sql = format!(
            "SELECT number FROM {table} WHERE {range} ORDER BY number {order} LIMIT 1 OFFSET {last}"
        );
        let edge = self.db.query_row(&sql, [after], |row| row.get::<_, i64>(0));
        let edge = edge.optional().map_err(|error| self.alarm.hear(error))?;
        Ok(edge.map(|number| number.to_string()))
    }

    fn rows<T>(
        &self,
        columns: &str,
        rest: &str,
        values: &[Value],
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let values = values.iter().map(|value| value as &dyn ToSql);
        select(&self.db, columns, rest)
            .and_then(|mut statement| {
                statement
                    .query_map(params_from_iter(values), read)?
                    .collect()
            })
            .map_err(|error| self.alarm.hear(error))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_prepared_once_whatever_is_bound_to_it() {
        let db = Connection::open_in_memory().unwrap();
        super::super::keep_plans(&db).unwrap();
        db.execute_batch(
            "CREATE TABLE sb_delivery (number INTEGER, agent TEXT, state TEXT, PRIMARY KEY (number, agent)) WITHOUT ROWID;
             CREATE INDEX waiting ON sb_delivery (number) WHERE state = 'queued' AND number > 7;",
        )
        .unwrap();
        let mut statement = db
            .prepare("SELECT agent FROM sb_delivery WHERE number = ? AND state = ?")
            .unwrap();
        for number in 1..20 {
            let found = statement.query_row((number, "queued"), |row| row.get::<_, String>(0));
            assert_eq!(found.optional().unwrap(), None);
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
