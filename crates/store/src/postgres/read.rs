//! Lists and single rows for people and programs, each statement a transaction of its own.

use std::cell::RefCell;

use switchboard_core::attempt::Attempt;
use switchboard_core::record::Kind;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, Baseline, Delivery, EngramText, Head, Learning, Lease, Logged, Message,
    MessageId, Record, RecordKey, RecordRange, Snapshot, Task, TaskId, Timestamp, limits,
};
use tokio_postgres::Row;

use super::address::Address;
use super::filter::{ENGRAM_WORDS, LEARNING_WORDS, Scan, Way, Where, prefixes, select};
use super::line::{Here, Line, Reached};
use super::load;
use super::rows::{rows_max, signed};
use super::secret;
use super::session::Query;
use crate::paging::{self, LANES_LOOKED_AT, LANES_SCANNED, cursor, pages};
use crate::rows::{self, Columns};
use crate::table::{SNAPSHOTS, at, qualified};
use crate::text::Iso;
use crate::{
    AgentCounts, AgentFilter, Error, HeldTask, LeaseFilter, MessageFilter, MessageSince, Page,
    Pages, Readable, Since, SnapshotFilter, TaskFilter, TaskRef,
};

/// Events that are fetched in one piece, give or take a batch at its ends.
const EVENTS_PER_PIECE: usize = 1024;
/// Of the learnings that have the words, the best of so many newest are found.
const LEARNINGS_RANKED_MAX: usize = 2000;

pub(super) struct PostgresReader {
    here: Here,
    line: RefCell<Line>,
}

impl PostgresReader {
    /// Connects when it is first asked.
    pub fn open(address: Address, reached: Reached) -> Result<PostgresReader, Error> {
        Ok(PostgresReader {
            here: Here::new()?,
            line: RefCell::new(Line::new(address, None, reached)),
        })
    }

    fn ask(&self, query: &Query) -> Result<Vec<Row>, Error> {
        let mut line = self.line.borrow_mut();
        self.here.run(line.ask(query))
    }

    fn rows<T>(
        &self,
        query: &Query,
        read: impl FnMut(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.ask(query)?.iter().map(read).collect()
    }

    fn row<T>(
        &self,
        query: &Query,
        read: impl FnMut(&Row) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.ask(query)?.first().map(read).transpose()
    }

    /// A page of a long table by number.
    ///
    /// At most so many rows are looked at: a short page with a cursor is the answer to a rare filter. Where the look
    /// ended comes as one more row, which the server works out only if the page is not full without it.
    fn scan<T>(
        &self,
        scan: Scan<'_>,
        page: &Page,
        read: impl Fn(&Row) -> Result<T, Error>,
        number: impl Fn(&T) -> u64,
    ) -> Result<Pages<T>, Error> {
        let width = scan.columns.split(',').count();
        let (query, mut edge) = (scan.query(page, width), None);
        let mut found = Vec::new();
        for row in &self.ask(&query)? {
            match row.text(0)? {
                Some(_) => found.push(read(row)?),
                None => edge = row.int(width)?.map(|number| number.to_string()),
            }
        }
        let mut found = pages(found, page, |row| number(row).to_string());
        found.next = found.next.or(edge);
        Ok(found)
    }

    /// Tasks in statuses that have an index: nothing else is looked at.
    fn rare_tasks(
        &self,
        filter: &TaskFilter,
        mut conditions: Where,
        after: i64,
        page: &Page,
    ) -> Result<Pages<Task>, Error> {
        let Way { compare, order, .. } = Way::of(filter.newest_first);
        let after = conditions.int(after);
        conditions.and(format!("number {compare} {after}"));
        let limit = conditions.int(rows_max(page.limit + 1));
        // The word stands in the statement itself: only then is its index used.
        let one = |status| {
            format!(
                "(SELECT {} FROM tasks WHERE status = '{status}' AND number > 0 AND {} ORDER BY number {order} LIMIT {limit})",
                rows::TASK,
                conditions.sql()
            )
        };
        let parts: Vec<String> = filter.statuses.iter().map(one).collect();
        let query = conditions.query(parts.join(" UNION ALL "));
        let mut found = self.rows(&query, rows::task)?;
        found.sort_by_key(|task| task.number);
        found.dedup_by_key(|task| task.number);
        if filter.newest_first {
            found.reverse();
        }
        Ok(pages(found, page, |task| task.number.to_string()))
    }
}

impl Readable for PostgresReader {
    type Error = Error;

    fn head(&self) -> Result<Head, Error> {
        let head = self.row(&select(rows::HEAD, "sb_head"), rows::head)?;
        head.ok_or_else(|| Error::Corrupt("it has no head".to_owned()))
    }

    fn task(&self, which: &TaskRef) -> Result<Option<Task>, Error> {
        let query = match which {
            TaskRef::Id(id) => {
                select(rows::TASK, "tasks WHERE id = $1 AND number > 0").text(id.as_str())
            }
            TaskRef::Number(number) => {
                select(rows::TASK, "tasks WHERE number = $1").int(signed(*number))
            }
        };
        self.row(&query, rows::task)
    }

    fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Pages<Task>, Error> {
        let way = Way::of(filter.newest_first);
        let after = cursor(page)?.unwrap_or(way.start);
        let mut conditions = Where::new();
        conditions.one_of("priority", filter.priorities.iter().map(|it| it.as_str()));
        conditions.one_of("type", filter.kinds.iter().map(|it| it.as_str()));
        conditions.is(
            "assigned_agent",
            filter.holder.as_ref().map(AgentId::as_str),
        );
        conditions.is("branch", filter.branch.as_deref());
        if let Some(skill) = &filter.skill {
            let skill = conditions.text(&paging::skill(skill));
            conditions.and(format!("required_skills::jsonb ? {skill}"));
        }
        if paging::all_rare(&filter.statuses) {
            return self.rare_tasks(filter, conditions, after, page);
        }
        conditions.one_of("status", filter.statuses.iter().map(|it| it.as_str()));
        let scan = Scan {
            columns: rows::TASK,
            table: "tasks",
            way,
            after,
            conditions,
        };
        self.scan(scan, page, rows::task, |task| task.number)
    }

    fn attempts(&self, task: u64) -> Result<Vec<Attempt>, Error> {
        let query = select(
            rows::ATTEMPT,
            "sb_attempt WHERE number = $1 ORDER BY epoch LIMIT 1000",
        );
        self.rows(&query.int(signed(task)), rows::attempt)
    }

    fn dependants(&self, task: &TaskId) -> Result<Vec<TaskId>, Error> {
        let query = select("task", "sb_dep WHERE needs = $1 ORDER BY number LIMIT $2");
        let query = query.text(task.as_str()).int(rows_max(limits::PAGE_MAX));
        self.rows(&query, |row| text(row, 0).map(TaskId::from))
    }

    fn next_in_queue(&self, limit: usize) -> Result<Vec<u64>, Error> {
        let sql = format!(
            "WITH lanes AS MATERIALIZED (SELECT lane, prio, head FROM sb_lane WHERE ready > 0 LIMIT {LANES_SCANNED})
             SELECT t.number FROM generate_series(0, 3) p, LATERAL (
               SELECT n.number FROM (
                 SELECT lane FROM lanes WHERE prio = p ORDER BY head LIMIT {LANES_LOOKED_AT}) l, LATERAL (
                 SELECT number FROM tasks WHERE status = 'ready' AND lane = l.lane ORDER BY number LIMIT $1) n
               ORDER BY n.number LIMIT $1) t
             ORDER BY p, t.number LIMIT $1"
        );
        let query = Query::new(sql).int(rows_max(limit));
        self.rows(&query, |row| Ok(row.int(0)?.unwrap_or(0).unsigned_abs()))
    }

    fn held_tasks(&self, limit: usize) -> Result<Vec<HeldTask>, Error> {
        let query = select(
            rows::HELD,
            "agents a, jsonb_array_elements_text(a.holds::jsonb) AS h(id) JOIN tasks t ON t.id = h.id
             WHERE a.holds <> '[]' AND t.status IN ('claimed', 'in_progress') LIMIT $1",
        );
        self.rows(&query.int(rows_max(limit)), rows::held)
    }

    fn agent(&self, id: &AgentId) -> Result<Option<Agent>, Error> {
        let query = select(
            rows::AGENT,
            &format!("{} WHERE id = $1", *rows::EVERY_AGENT),
        );
        self.row(&query.text(id.as_str()), rows::agent)
    }

    fn agents(&self, filter: &AgentFilter, page: &Page) -> Result<Pages<Agent>, Error> {
        let mut conditions = Where::new();
        let after = conditions.text(page.after.as_deref().unwrap_or_default());
        conditions.and(format!("id > {after}"));
        conditions.one_of("status", filter.statuses.iter().map(String::as_str));
        if !filter.with_gone {
            conditions.and("presence <> 'gone'".to_owned());
        }
        let limit = conditions.int(rows_max(page.limit + 1));
        let sql = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY id LIMIT {limit}",
            rows::AGENT,
            *rows::EVERY_AGENT,
            conditions.sql()
        );
        let found = self.rows(&conditions.query(sql), rows::agent)?;
        Ok(pages(found, page, |agent| agent.id.to_string()))
    }

    fn agent_counts(&self) -> Result<AgentCounts, Error> {
        let query = select(
            "status, count(*)",
            "agents WHERE presence <> 'gone' AND rev > 0 GROUP BY status",
        );
        let found = self.rows(&query, |row| {
            let count = row.int(1)?.unwrap_or_default();
            Ok((text(row, 0)?, count.unsigned_abs()))
        })?;
        Ok(paging::agent_counts(found))
    }

    fn leases(&self, filter: &LeaseFilter, page: &Page) -> Result<Pages<Lease>, Error> {
        let mut conditions = Where::new();
        conditions.is("agent_id", filter.agent.as_ref().map(AgentId::as_str));
        conditions.is("task_id", filter.task.as_ref().map(TaskId::as_str));
        // An agent's or task's leases are few and are looked for first (OFFSET 0), then put in order.
        let leases = if conditions.is_empty() {
            "leases".to_owned()
        } else {
            let own = conditions.sql();
            format!("(SELECT * FROM leases WHERE {own} OFFSET 0) own")
        };
        let after = conditions.text(page.after.as_deref().unwrap_or_default());
        let limit = conditions.int(rows_max(paging::leases_to_read(filter, page)));
        let sql = format!(
            "SELECT {} FROM {leases} WHERE file_path > {after} AND rev > 0 ORDER BY file_path LIMIT {limit}",
            rows::LEASE
        );
        let read = self.rows(&conditions.query(sql), rows::lease)?;
        Ok(paging::leases_page(read, filter, page))
    }

    fn message(&self, id: &MessageId) -> Result<Option<(Message, Vec<Delivery>)>, Error> {
        let query = select(rows::MESSAGE, "messages WHERE id = $1 AND number > 0");
        let Some(message) = self.row(&query.text(id.as_str()), rows::message)? else {
            return Ok(None);
        };
        let query = select(
            rows::DELIVERY,
            "sb_delivery WHERE number = $1 ORDER BY agent LIMIT 10000",
        );
        let deliveries = self.rows(&query.int(signed(message.number)), rows::delivery)?;
        Ok(Some((message, deliveries)))
    }

    fn messages(&self, filter: &MessageFilter, page: &Page) -> Result<Pages<Message>, Error> {
        let mut conditions = Where::new();
        conditions.is("from_agent", filter.from.as_ref().map(AgentId::as_str));
        if let Some(to) = &filter.to {
            let to = conditions.text(to.as_str());
            conditions.and(format!(
                "strpos(' ' || to_agent || ' ', ' ' || {to} || ' ') > 0"
            ));
        }
        conditions.one_of("type", filter.kinds.iter().map(String::as_str));
        let way = Way::of(true);
        let scan = Scan {
            columns: rows::MESSAGE,
            table: "messages",
            after: cursor(page)?.unwrap_or(way.start),
            way,
            conditions,
        };
        self.scan(scan, page, rows::message, |message| message.number)
    }

    fn messages_since(&self, since: &MessageSince, now: Timestamp) -> Result<Vec<Message>, Error> {
        let mut conditions = Where::new();
        conditions.is("d.agent", Some(since.agent.as_str()));
        match &since.since {
            Since::Instant(at) => {
                let at = conditions.text(Iso::new(*at).as_str());
                conditions.and(format!("m.created_at > {at}"));
                // Numbers grow with time, so earlier ones need no look at the message.
                conditions.and(format!(
                    "d.number >= (SELECT number FROM messages WHERE created_at > {at} AND number > 0 ORDER BY created_at, number LIMIT 1)"
                ));
            }
            Since::Message(id) => {
                let id = conditions.text(id.as_str());
                conditions.and(format!(
                    "d.number > coalesce((SELECT number FROM messages WHERE id = {id} AND number > 0), 0)"
                ));
            }
        }
        let now = conditions.text(Iso::new(now).as_str());
        conditions.and("d.reason IS NULL".to_owned());
        conditions.and(format!("(m.expires_at IS NULL OR m.expires_at > {now})"));
        conditions.one_of("m.type", since.kinds.iter().map(String::as_str));
        let limit = conditions.int(rows_max(since.limit));
        let sql = format!(
            "SELECT {} FROM sb_delivery d JOIN messages m ON m.number = d.number WHERE {} ORDER BY d.number LIMIT {limit}",
            qualified(rows::MESSAGE, "m"),
            conditions.sql()
        );
        self.rows(&conditions.query(sql), rows::message)
    }

    fn baseline(&self) -> Result<Option<Baseline>, Error> {
        self.row(&select(rows::BASELINE, "quality_baseline"), rows::baseline)
    }

    fn snapshots(&self, filter: &SnapshotFilter, page: &Page) -> Result<Pages<Snapshot>, Error> {
        let mut conditions = Where::new();
        let after = conditions.int(cursor(page)?.unwrap_or(i64::MAX));
        conditions.and(format!("rowid < {after}"));
        conditions.is("task_id", filter.task.as_ref().map(TaskId::as_str));
        let limit = conditions.int(rows_max(page.limit + 1));
        let sql = format!(
            "SELECT {} FROM quality_snapshots WHERE {} ORDER BY rowid DESC LIMIT {limit}",
            rows::SNAPSHOT,
            conditions.sql()
        );
        let found = self.rows(&conditions.query(sql), |row| {
            Ok((
                rows::snapshot(row)?,
                row.int(at!(SNAPSHOTS.rowid))?.unwrap_or_default(),
            ))
        })?;
        let found = pages(found, page, |(_, rowid)| rowid.to_string());
        Ok(Pages {
            rows: found.rows.into_iter().map(|(row, _)| row).collect(),
            next: found.next,
        })
    }

    fn learnings(&self, words: &str, limit: usize) -> Result<Vec<Learning>, Error> {
        let prefixes = prefixes(words);
        let query = if paging::words(words).next().is_none() {
            select(rows::LEARNING, "sb_learning ORDER BY n DESC LIMIT $1").int(rows_max(limit))
        } else {
            // The planner must not weigh words and limit: the index of words is always the better way, hence OFFSET 0
            // and the words as something that it cannot see.
            let sql = format!(
                "SELECT {} FROM (SELECT * FROM (
                   SELECT * FROM sb_learning WHERE {LEARNING_WORDS} @@ (SELECT to_tsquery('simple', $1)) OFFSET 0
                 ) found ORDER BY n DESC LIMIT {LEARNINGS_RANKED_MAX}) newest
                 ORDER BY ts_rank({LEARNING_WORDS}, (SELECT to_tsquery('simple', $1))) DESC, n DESC LIMIT $2",
                rows::LEARNING
            );
            Query::new(sql).text(&prefixes).int(rows_max(limit))
        };
        self.rows(&query, rows::learning)
    }

    fn engram_texts(&self, words: &str, limit: usize) -> Result<Vec<Record>, Error> {
        if paging::words(words).next().is_none() {
            return self.records(&RecordRange::newest::<EngramText>("", limit));
        }
        // There are never many engrams: budgets bound them.
        let sql = format!(
            "SELECT value FROM sb_record WHERE kind = 'engram_text' AND {ENGRAM_WORDS} @@ (SELECT to_tsquery('simple', $1))
             ORDER BY ts_rank({ENGRAM_WORDS}, (SELECT to_tsquery('simple', $1))) DESC, position DESC LIMIT $2"
        );
        let query = Query::new(sql).text(&prefixes(words)).int(rows_max(limit));
        self.rows(&query, rows::record)
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Record>, Error> {
        self.row(&load::record(key), rows::record)
    }

    fn records(&self, range: &RecordRange) -> Result<Vec<Record>, Error> {
        self.rows(&load::records(range), rows::record)
    }

    fn record_counts(&self, kind: Kind) -> Result<Vec<(String, u64)>, Error> {
        let query = select(
            "owner, count(*)",
            "sb_record WHERE kind = $1 AND position IS NOT NULL GROUP BY owner ORDER BY owner",
        );
        self.rows(&query.text(kind.as_str()), |row| {
            let count = row.int(1)?.unwrap_or_default();
            Ok((text(row, 0)?, count.unsigned_abs()))
        })
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        // No event has so high a number that counting on from it goes too far.
        let start = signed(after.saturating_add(1)).min(i64::MAX - rows_max(EVENTS_PER_PIECE));
        let (mut next, mut found) = (start, Vec::new());
        while found.len() < limit {
            let wanted = rows_max((limit - found.len()).min(EVENTS_PER_PIECE));
            // Begins with the batch that has the next event, or the first one after it if that is not kept any more.
            let query = Query::new(
                "WITH start AS MATERIALIZED (SELECT coalesce(
                   (SELECT CASE WHEN last >= $1 THEN first END FROM sb_log WHERE first <= $1 ORDER BY first DESC LIMIT 1),
                   (SELECT min(first) FROM sb_log WHERE first > $1)) AS first)
                 SELECT first, last, body FROM sb_log WHERE first >= (SELECT first FROM start)
                   AND first < greatest((SELECT first FROM start), $1) + $2 ORDER BY first",
            );
            let batches = self.ask(&query.int(next).int(wanted))?;
            let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
                break;
            };
            let end = first.int(0)?.unwrap_or_default().max(next) + wanted;
            next = last.int(1)?.unwrap_or_default() + 1;
            for batch in &batches {
                for logged in paging::events(&text(batch, 2)?) {
                    let logged = logged?;
                    if logged.seq > after && found.len() < limit {
                        found.push(logged);
                    }
                }
            }
            // Numbers have no gaps: had there been more, they would have come.
            if next < end {
                break;
            }
        }
        Ok(found)
    }

    fn oldest_event(&self) -> Result<Option<u64>, Error> {
        let oldest = self.row(&select("min(first)", "sb_log"), |row| row.int(0))?;
        Ok(oldest.flatten().map(i64::unsigned_abs))
    }

    fn tokens(&self) -> Result<Vec<Token>, Error> {
        let query = select(rows::TOKEN, "sb_token ORDER BY created_at, id LIMIT 10000");
        self.rows(&query, rows::token)
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, Error> {
        let query = select(rows::TOKEN, "sb_token WHERE hash = $1");
        self.row(&query.bytes(hash), rows::token)
    }

    fn shared_key(&self) -> Result<Option<[u8; 32]>, Error> {
        self.row(&Query::new(secret::KEY), secret::key)
    }
}

fn text(row: &Row, column: usize) -> Result<String, Error> {
    Ok(row.text(column)?.unwrap_or_default().into_owned())
}
