//! Answers asks into the working set: asks of one kind by one query, all queries of a round in one trip.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::lane::Position;
use switchboard_core::{
    Agent, AgentId, Ask, LaneId, LeasePath, Record, RecordKey, RecordRange, RowKey, Slice, TaskId,
    Timestamp,
};
use tokio_postgres::Row;

mod lanes;
mod leases;
mod messages;

use super::rows::{Batch, rows_max, signed};
use super::session::Query;
use crate::rows::{self, Columns};
use crate::text::Iso;
use crate::{Error, finished};

type Result<T = ()> = std::result::Result<T, Error>;

/// A query, and what becomes of its rows.
pub(super) struct Load<'a> {
    pub query: Query,
    pub take: Take<'a>,
}

type Take<'a> = Box<dyn FnOnce(Vec<Row>, &mut Slice) -> Result + 'a>;

/// Descriptions longer than this are read only for the task that is taken.
const PREFETCH_BYTES_MAX: i64 = 4096;

/// The queries that answer all asks. Kinds that come in numbers are asked for together, and so many of a queue are read.
pub(super) fn loads(asks: &[Ask], queue_page: usize) -> Vec<Load<'_>> {
    let mut many = Many::default();
    let mut loads = Vec::new();
    for ask in asks {
        match ask {
            Ask::Row(RowKey::Agent(id)) => many.agents.push(id),
            Ask::Row(RowKey::Task(id)) => many.tasks.push(id),
            Ask::Dependants(id) => many.dependants.push(id),
            Ask::LaneById(id) => many.lane_ids.push(*id),
            Ask::LaneByKey(_)
            | Ask::Lanes { .. }
            | Ask::HeldLanes(_)
            | Ask::LanesUnder(_)
            | Ask::Queue { .. } => many.lanes.push(ask),
            Ask::LeasesOfTask(_) | Ask::LeasesOfAgent(_) | Ask::LeasesNear(_) => {
                many.leases.push(ask);
            }
            Ask::Row(RowKey::Message(_) | RowKey::Delivery(_)) | Ask::Inbox(_) => {
                many.messages.push(ask);
            }
            Ask::Row(RowKey::Remembered(_) | RowKey::Nonce(_)) => many.calls.push(ask),
            Ask::SnapshotOf(task) => many.snapshots.push(task),
            Ask::PresentAgents
            | Ask::QuietAgents { .. }
            | Ask::GoneAgents { .. }
            | Ask::Numbered(_)
            | Ask::Row(_)
            | Ask::Records(_)
            | Ask::DueRecords { .. }
            | Ask::Kept
            | Ask::WatchedTasks { .. }
            | Ask::DueRetries { .. }
            | Ask::DueLeases { .. }
            | Ask::DueDeliveries { .. }
            | Ask::FinishedTasks { .. } => loads.push(one(ask)),
        }
    }
    many.into_loads(queue_page, &mut loads);
    loads
}

#[derive(Default)]
struct Many<'a> {
    agents: Vec<&'a AgentId>,
    tasks: Vec<&'a TaskId>,
    dependants: Vec<&'a TaskId>,
    lane_ids: Vec<LaneId>,
    lanes: Vec<&'a Ask>,
    leases: Vec<&'a Ask>,
    messages: Vec<&'a Ask>,
    calls: Vec<&'a Ask>,
    snapshots: Vec<&'a TaskId>,
}

impl<'a> Many<'a> {
    fn into_loads(self, queue_page: usize, loads: &mut Vec<Load<'a>>) {
        if !self.agents.is_empty() {
            agents(self.agents, loads);
        }
        if !self.tasks.is_empty() {
            loads.push(tasks(self.tasks));
        }
        if !self.dependants.is_empty() {
            loads.push(dependants(self.dependants));
        }
        if !self.lane_ids.is_empty() {
            loads.push(lanes_by_id(self.lane_ids));
        }
        if !self.snapshots.is_empty() {
            loads.push(snapshots(self.snapshots));
        }
        lanes::loads(&self.lanes, queue_page, loads);
        leases::loads(&self.leases, loads);
        messages::loads(&self.messages, loads);
        calls(&self.calls, loads);
    }
}

pub(super) fn record(key: &RecordKey) -> Query {
    let query = select("value", "sb_record WHERE kind = $1 AND key = $2");
    query.text(key.kind.as_str()).text(&key.key)
}

/// Private rows of an owner, by position.
pub(super) fn records(range: &RecordRange) -> Query {
    let (is_behind, order) = rows::record_range(range);
    let (position, key) = range.begins_after();
    let rest = format!(
        "sb_record WHERE kind = $1 AND owner = $2 AND position IS NOT NULL AND (position, key) {is_behind} ($3, $4)
         ORDER BY {order} LIMIT $5"
    );
    let query = select("value", &rest).text(range.kind.as_str());
    query
        .text(&range.owner)
        .int(position)
        .text(key)
        .int(rows_max(range.limit))
}

fn put_records(rows: &[Row], slice: &mut Slice) -> Result<Vec<RecordKey>> {
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        let row = rows::record(row)?;
        keys.push(row.key());
        slice.put_row(row);
    }
    Ok(keys)
}

pub(super) fn load<'a>(
    query: Query,
    take: impl FnOnce(Vec<Row>, &mut Slice) -> Result + 'a,
) -> Load<'a> {
    Load {
        query,
        take: Box::new(take),
    }
}

pub(super) fn select(columns: &str, rest: &str) -> Query {
    Query::new(format!("SELECT {columns} FROM {rest}"))
}

/// Which of the asked rows this one answers: the last column is its ordinal, from one.
pub(super) fn ordinal(row: &Row) -> Result<usize> {
    let at = row.int(row.len() - 1)?.unwrap_or(0);
    Ok(usize::try_from(at - 1).unwrap_or(0))
}

/// Answers by ordinal, so that an ask without an answer has an empty one.
pub(super) fn by_ordinal<T>(
    asked: usize,
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut found: Vec<Vec<T>> = std::iter::repeat_with(Vec::new).take(asked).collect();
    for row in rows {
        found[ordinal(row)?].push(read(row)?);
    }
    Ok(found)
}

fn agents<'a>(ids: Vec<&'a AgentId>, loads: &mut Vec<Load<'a>>) {
    let words = || ids.iter().map(|id| id.as_str());
    // First the former ones: an agent's row, where there is one, stands over them.
    loads.push(load(
        select(rows::FORMER_AGENT, "sb_former_agent WHERE id = ANY($1)").texts(words()),
        |rows, slice| {
            for row in &rows {
                slice.put_row(rows::former_agent(row)?);
            }
            Ok(())
        },
    ));
    let query = format!("{} WHERE id = ANY($1)", *rows::EVERY_AGENT);
    let query = select(rows::AGENT, &query).texts(words());
    loads.push(load(query, move |rows, slice| {
        put_agents(&rows, slice)?;
        ids.into_iter().for_each(|id| slice.put_agent(id, None));
        Ok(())
    }));
}

fn put_agents(rows: &[Row], slice: &mut Slice) -> Result<Vec<AgentId>> {
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        let agent: Agent = rows::agent(row)?;
        let id = agent.id.clone();
        slice.put_agent(&id, Some(agent));
        ids.push(id);
    }
    Ok(ids)
}

fn tasks(ids: Vec<&TaskId>) -> Load<'_> {
    let query = select(rows::TASK, "tasks WHERE id = ANY($1) AND rev > 0");
    let query = query.texts(ids.iter().map(|id| id.as_str()));
    load(query, move |rows, slice| {
        for row in &rows {
            let task = rows::task(row)?;
            let id = task.id.clone();
            slice.put_task(&id, Some(task));
        }
        ids.into_iter().for_each(|id| slice.put_task(id, None));
        Ok(())
    })
}

fn dependants(ids: Vec<&TaskId>) -> Load<'_> {
    let query = select(
        "task, needs",
        "sb_dep WHERE needs = ANY($1) ORDER BY needs, number",
    );
    let query = query.texts(ids.iter().map(|id| id.as_str()));
    load(query, move |rows, slice| {
        let mut found: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
        for row in &rows {
            let (task, needs) = (word(row, 0)?, word(row, 1)?);
            found.entry(needs.into()).or_default().push(task.into());
        }
        for id in ids {
            let tasks = found.remove(id).unwrap_or_default();
            slice.ranges.dependants.insert(id.clone(), tasks);
        }
        Ok(())
    })
}

fn lanes_by_id<'a>(ids: Vec<LaneId>) -> Load<'a> {
    let query = select(&lanes::LANE, "sb_lane l WHERE lane = ANY($1)");
    let query = query.ints(ids.iter().map(|id| signed(id.0)));
    load(query, move |rows, slice| {
        for row in &rows {
            let lane = lanes::lane(row, slice)?;
            slice.lanes.put(lane);
        }
        for id in ids {
            if slice.lanes.known(id).is_none() {
                slice.lanes.put_absent_id(id);
            }
        }
        Ok(())
    })
}

fn snapshots(tasks: Vec<&TaskId>) -> Load<'_> {
    let query = select(
        &format!("DISTINCT ON (task_id) {}", rows::SNAPSHOT),
        "quality_snapshots WHERE task_id = ANY($1) ORDER BY task_id, rowid DESC",
    );
    let query = query.texts(tasks.iter().map(|id| id.as_str()));
    load(query, move |rows, slice| {
        for task in tasks {
            slice.ranges.snapshots.insert(task.clone(), None);
        }
        for row in &rows {
            let snapshot = rows::snapshot(row)?;
            if let Some(task) = snapshot.task.clone() {
                slice.ranges.snapshots.insert(task, Some(snapshot));
            }
        }
        Ok(())
    })
}

fn calls<'a>(asks: &[&'a Ask], loads: &mut Vec<Load<'a>>) {
    let (mut keys, mut nonces) = (Vec::new(), Vec::new());
    let (mut key_rows, mut nonce_rows) = (Batch::default(), Batch::default());
    for ask in asks {
        match ask {
            Ask::Row(RowKey::Remembered(key)) => {
                keys.push(key);
                key_rows
                    .text(&*key.principal)
                    .text(key.operation)
                    .text(&*key.key)
                    .end();
            }
            Ask::Row(RowKey::Nonce(key)) => {
                nonces.push(key);
                nonce_rows.text(key.0.as_str()).text(&*key.1).end();
            }
            _ => unreachable!("only asks about calls come here"),
        }
    }
    if !keys.is_empty() {
        let sql = "SELECT a.body_hash, a.answer, a.at, q.i FROM unnest($1, $2, $3) WITH ORDINALITY AS q(p, o, k, i)
             JOIN sb_answer a ON a.principal = q.p AND a.operation = q.o AND a.key = q.k";
        loads.push(load(Query::rows(sql, key_rows), move |rows, slice| {
            let mut found = by_ordinal(keys.len(), &rows, remembered)?;
            for (key, answers) in keys.into_iter().zip(&mut found) {
                let row = answers.pop().map(|(body_hash, answer, at)| Remembered {
                    key: key.clone(),
                    body_hash,
                    answer,
                    at,
                });
                slice.load(key.clone(), row);
            }
            Ok(())
        }));
    }
    if !nonces.is_empty() {
        let sql = "SELECT n.valid_until, q.i FROM unnest($1, $2) WITH ORDINALITY AS q(a, v, i)
             JOIN sb_nonce n ON n.agent = q.a AND n.value = q.v";
        loads.push(load(Query::rows(sql, nonce_rows), move |rows, slice| {
            let found = by_ordinal(nonces.len(), &rows, |row| row.int(0))?;
            for ((agent, value), mut seen) in nonces.into_iter().zip(found) {
                let row = seen.pop().map(|until| Nonce {
                    agent: agent.clone(),
                    value: value.clone(),
                    valid_until: Timestamp(until.unwrap_or(0)),
                });
                slice.load((agent.clone(), value.clone()), row);
            }
            Ok(())
        }));
    }
}

fn remembered(row: &Row) -> Result<([u8; 32], Arc<[u8]>, Timestamp)> {
    let hash = row.bytes(0)?.unwrap_or_default();
    let body_hash = hash
        .try_into()
        .map_err(|_| Error::Corrupt("a remembered answer has no hash of 32 bytes".to_owned()))?;
    let answer = row.bytes(1)?.unwrap_or_default().into();
    Ok((body_hash, answer, Timestamp(row.int(2)?.unwrap_or(0))))
}

/// Asks that come one at a time.
fn one(ask: &Ask) -> Load<'_> {
    match ask {
        Ask::PresentAgents => load(
            select(rows::AGENT, "agents WHERE presence <> 'gone' AND rev > 0 ORDER BY id"),
            |rows, slice| {
                slice.ranges.present_agents = Some(put_agents(&rows, slice)?);
                Ok(())
            },
        ),
        Ask::QuietAgents { now, floor, limit } => load(
            select(
                rows::AGENT,
                "agents WHERE presence = 'live' AND rev > 0 AND seen_at + silent_ms <= $1 AND silent_ms <= $1 - $2
                 ORDER BY seen_at + silent_ms, id LIMIT $3",
            )
            .int(now.0)
            .int(floor.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let found = put_agents(&rows, slice)?;
                let asked = (*now, *floor, *limit);
                slice.ranges.quiet_agents.insert(asked, found);
                Ok(())
            },
        ),
        Ask::GoneAgents { before, limit } => load(
            select(
                rows::AGENT,
                &format!("{} WHERE presence = 'gone' AND presence_at < $1 ORDER BY presence_at, id LIMIT $2", *rows::EVERY_AGENT),
            )
            .int(before.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let found = put_agents(&rows, slice)?;
                slice.ranges.gone_agents.insert((*before, *limit), found);
                Ok(())
            },
        ),
        Ask::Row(RowKey::Baseline(())) => load(select(rows::BASELINE, "quality_baseline"), |rows, slice| {
            slice.load((), rows.first().map(rows::baseline).transpose()?);
            Ok(())
        }),
        Ask::Row(RowKey::Token(id)) => load(
            select(rows::TOKEN, "sb_token WHERE id = $1").text(id.as_str()),
            |rows, slice| {
                let row = rows.first().map(rows::token).transpose()?;
                slice.load(id.clone(), row);
                Ok(())
            },
        ),
        Ask::Numbered(number) => load(
            select(rows::TASK, "tasks WHERE number = $1 AND rev > 0").int(signed(*number)),
            |rows, slice| {
                let task = rows.first().map(rows::task).transpose()?;
                let id = task.as_ref().map(|task| task.id.clone());
                if let Some(id) = &id {
                    slice.put_task(id, task);
                }
                slice.ranges.numbered.insert(*number, id);
                Ok(())
            },
        ),
        Ask::Row(RowKey::Record(key)) => load(record(key), |rows, slice| {
            slice.load::<Record>(key.clone(), rows.first().map(rows::record).transpose()?);
            Ok(())
        }),
        Ask::Records(range) => load(records(range), |rows, slice| {
            let keys = put_records(&rows, slice)?;
            slice.ranges.records.insert(range.clone(), keys);
            Ok(())
        }),
        Ask::DueRecords { kind, until, limit } => load(
            select(
                "value",
                "sb_record WHERE kind = $1 AND due_at IS NOT NULL AND due_at <= $2 ORDER BY due_at, key LIMIT $3",
            )
            .text(kind.as_str())
            .int(until.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let keys = put_records(&rows, slice)?;
                slice.ranges.due_records.insert((*kind, *until, *limit), keys);
                Ok(())
            },
        ),
        Ask::Kept => load(select(rows::KEPT, "sb_head"), |rows, slice| {
            slice.ranges.kept = rows.first().map(rows::kept).transpose()?;
            Ok(())
        }),
        Ask::WatchedTasks { until, limit } => load(
            Query::new(
                "SELECT id FROM tasks WHERE look_at IS NOT NULL AND look_at <= $1 AND rev > 0 ORDER BY look_at, number LIMIT $2",
            )
            .int(until.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let found: Result<Vec<TaskId>> = rows.iter().map(|row| Ok(word(row, 0)?.into())).collect();
                slice.ranges.watched_tasks.insert((*until, *limit), found?);
                Ok(())
            },
        ),
        Ask::DueRetries { until, limit } => load(
            Query::new(
                "SELECT id FROM tasks WHERE status = 'pending_retry' AND state_at <= $1 ORDER BY state_at, number LIMIT $2",
            )
            .int(until.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let found: Result<Vec<TaskId>> = rows.iter().map(|row| Ok(word(row, 0)?.into())).collect();
                slice.ranges.due_retries.insert((*until, *limit), found?);
                Ok(())
            },
        ),
        Ask::DueLeases { until, limit } => load(
            select(
                rows::LEASE,
                "leases WHERE rev > 0 AND expires_at <= $1 ORDER BY expires_at, file_path LIMIT $2",
            )
            .text(Iso::new(*until).as_str())
            .int(rows_max(*limit)),
            |rows, slice| {
                let found = put_leases(&rows, slice)?;
                slice.ranges.due_leases.insert((*until, *limit), found);
                Ok(())
            },
        ),
        Ask::DueDeliveries { until, limit } => load(
            Query::new(
                "SELECT message, agent FROM sb_delivery WHERE state = 'queued' AND expires_at IS NOT NULL AND expires_at <= $1
                 ORDER BY expires_at, number, agent LIMIT $2",
            )
            .int(until.0)
            .int(rows_max(*limit)),
            |rows, slice| {
                let pair = |row: &Row| Ok((word(row, 0)?.into(), word(row, 1)?.into()));
                let found: Result<Vec<_>> = rows.iter().map(pair).collect();
                slice.ranges.due_deliveries.insert((*until, *limit), found?);
                Ok(())
            },
        ),
        Ask::FinishedTasks { from, before, limit } => finished_tasks(*from, *before, *limit),
        _ => unreachable!("the other kinds are asked for together"),
    }
}

fn finished_tasks<'a>(from: u64, before: Timestamp, limit: usize) -> Load<'a> {
    let query = Query::new(
        "SELECT number, id, (status IN ('completed', 'failed', 'canceled') AND updated_at < $2)::int::bigint,
           (created_at >= $2)::int::bigint FROM tasks WHERE number >= $1 ORDER BY number LIMIT $3",
    )
    .int(signed(from))
    .text(Iso::new(before).as_str())
    .int(rows_max(finished::stretch(limit)));
    load(query, move |rows, slice| {
        let seen: Result<Vec<finished::Seen>> = rows
            .iter()
            .map(|row| {
                Ok(finished::Seen {
                    number: row.int(0)?.unwrap_or(0).unsigned_abs(),
                    id: word(row, 1)?.into(),
                    is_old: row.int(2)? == Some(1),
                    is_young: row.int(3)? == Some(1),
                })
            })
            .collect();
        let page = finished::page(&seen?, limit);
        slice.ranges.finished.insert((from, before, limit), page);
        Ok(())
    })
}

pub(super) fn put_leases(rows: &[Row], slice: &mut Slice) -> Result<Vec<LeasePath>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let lease = rows::lease(row)?;
        found.push(lease.path.clone());
        slice.put_row(lease);
    }
    Ok(found)
}

pub(super) fn word(row: &Row, column: usize) -> Result<String> {
    Ok(row.text(column)?.unwrap_or_default().into_owned())
}

/// The start of a walk over lanes, as the three numbers it is ordered by.
pub(super) fn walk_from(from: Option<Position>) -> (i64, i64, i64) {
    from.map_or((0, 0, 0), |at| {
        (at.priority as i64, signed(at.head), signed(at.lane.0))
    })
}

/// A task's columns without a description that is too long to be read for nothing, then its length.
pub(super) fn task_columns_without_long_text() -> String {
    let short =
        format!("CASE WHEN octet_length(description) <= {PREFETCH_BYTES_MAX} THEN description END");
    let columns = rows::TASK.replacen("description", &short, 1);
    format!(
        "{columns}, (coalesce(octet_length(description), 0) <= {PREFETCH_BYTES_MAX})::int::bigint"
    )
}
