//! Answers asks into the working set, one prepared statement each.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::lane::Position;
use switchboard_core::slice::{FinishedPage, InboxAsk, InboxOrder};
use switchboard_core::{
    Agent, AgentId, Ask, Baseline, Delivery, LaneId, Lease, LeasePath, Message, MessageId, Record,
    RecordRange, RowKey, Slice, TaskId, Timestamp, limits,
};

use super::rows;
use super::text::Iso;
use crate::finished;
use crate::table::{TASKS, at};

type Result<T = ()> = rusqlite::Result<T>;

pub(super) fn load(db: &Connection, ask: &Ask, slice: &mut Slice) -> Result {
    match ask {
        Ask::Row(RowKey::Agent(id)) => agent(db, id, slice),
        Ask::PresentAgents => {
            let found = agents(
                db,
                slice,
                "agents WHERE rev > 0 AND presence <> 'gone' ORDER BY id",
                [],
            )?;
            slice.ranges.present_agents = Some(found);
            Ok(())
        }
        Ask::QuietAgents { now, floor, limit } => {
            let found = agents(
                db,
                slice,
                "agents WHERE rev > 0 AND presence = 'live' AND seen_at + silent_ms <= ?1 AND silent_ms <= ?1 - ?2
                 ORDER BY seen_at + silent_ms, id LIMIT ?3",
                params![now.0, floor.0, rows_max(*limit)],
            )?;
            let asked = (*now, *floor, *limit);
            slice.ranges.quiet_agents.insert(asked, found);
            Ok(())
        }
        Ask::GoneAgents { before, limit } => {
            let params = params![before.0, rows_max(*limit)];
            let found = agents(db, slice, &rows::GONE_AGENTS, params)?;
            slice.ranges.gone_agents.insert((*before, *limit), found);
            Ok(())
        }
        Ask::Row(RowKey::Task(id)) => {
            let row = select(db, rows::TASK, "tasks WHERE id = ? AND rev > 0")?
                .query_row([id.as_str()], rows::task)
                .optional()?;
            slice.put_task(id, row);
            Ok(())
        }
        Ask::Numbered(number) => {
            let row = select(db, rows::TASK, "tasks WHERE number = ? AND rev > 0")?
                .query_row([signed(*number)], rows::task)
                .optional()?;
            let id = row.as_ref().map(|task| task.id.clone());
            if let Some(id) = &id {
                slice.put_task(id, row);
            }
            slice.ranges.numbered.insert(*number, id);
            Ok(())
        }
        Ask::Dependants(id) => {
            let found = list(
                db,
                "SELECT task FROM sb_dep WHERE needs = ? ORDER BY number",
                [id.as_str()],
                text::<TaskId>,
            )?;
            slice.ranges.dependants.insert(id.clone(), found);
            Ok(())
        }
        Ask::LaneById(_)
        | Ask::LaneByKey(_)
        | Ask::Lanes { .. }
        | Ask::HeldLanes(_)
        | Ask::LanesUnder(_)
        | Ask::Queue { .. } => lanes(db, ask, slice),
        Ask::LeasesNear(path) => {
            let found = leases_near(db, path, slice)?;
            slice.ranges.leases_near.insert(path.clone(), found);
            Ok(())
        }
        Ask::LeasesOfAgent(agent) => {
            let found = leases(
                db,
                slice,
                "agent_id = ? ORDER BY file_path",
                [agent.as_str()],
            )?;
            slice.ranges.leases_of_agent.insert(agent.clone(), found);
            Ok(())
        }
        Ask::LeasesOfTask(task) => {
            let found = leases(db, slice, "task_id = ? ORDER BY file_path", [task.as_str()])?;
            slice.ranges.leases_of_task.insert(task.clone(), found);
            Ok(())
        }
        Ask::Row(RowKey::Message(id)) => {
            let row = select(db, rows::MESSAGE, "messages WHERE id = ? AND rev > 0")?
                .query_row([id.as_str()], rows::message)
                .optional()?;
            slice.load::<Message>(id.clone(), row);
            Ok(())
        }
        Ask::Row(RowKey::Delivery((message, agent))) => delivery(db, message, agent, slice),
        Ask::Inbox(ask) => inbox(db, ask, slice),
        Ask::Row(RowKey::Baseline(())) => {
            let row = select(db, rows::BASELINE, "quality_baseline")?
                .query_row([], rows::baseline)
                .optional()?;
            slice.load::<Baseline>((), row);
            Ok(())
        }
        Ask::SnapshotOf(task) => {
            let row = select(
                db,
                rows::SNAPSHOT,
                "quality_snapshots WHERE task_id = ? ORDER BY rowid DESC LIMIT 1",
            )?
            .query_row([task.as_str()], rows::snapshot)
            .optional()?;
            slice.ranges.snapshots.insert(task.clone(), row);
            Ok(())
        }
        Ask::Row(RowKey::Remembered(_) | RowKey::Nonce(_) | RowKey::Token(_)) => {
            calls(db, ask, slice)
        }
        Ask::Row(RowKey::Record(_)) | Ask::Records(_) | Ask::DueRecords { .. } | Ask::Kept => {
            memory(db, ask, slice)
        }
        Ask::DueRetries { .. }
        | Ask::WatchedTasks { .. }
        | Ask::DueLeases { .. }
        | Ask::DueDeliveries { .. }
        | Ask::FinishedTasks { .. } => due(db, ask, slice),
        Ask::Row(other) => unreachable!("no verb asks for {other:?}"),
    }
}

fn agent(db: &Connection, id: &AgentId, slice: &mut Slice) -> Result {
    let row = select(db, rows::AGENT, &rows::ONE_AGENT)?
        .query_row([id.as_str()], rows::agent)
        .optional()?;
    if row.is_none() {
        let former = select(db, rows::FORMER_AGENT, "sb_former_agent WHERE id = ?")?
            .query_row([id.as_str()], rows::former_agent)
            .optional()?;
        former.into_iter().for_each(|row| slice.put_row(row));
    }
    slice.put_agent(id, row);
    Ok(())
}

fn agents(
    db: &Connection,
    slice: &mut Slice,
    which: &str,
    params: impl Params,
) -> Result<Vec<AgentId>> {
    let mut statement = select(db, rows::AGENT, which)?;
    let found: Vec<Agent> = statement
        .query_map(params, rows::agent)?
        .collect::<Result<_>>()?;
    Ok(found
        .into_iter()
        .map(|agent| {
            let id = agent.id.clone();
            slice.put_agent(&id, Some(agent));
            id
        })
        .collect())
}

fn lanes(db: &Connection, ask: &Ask, slice: &mut Slice) -> Result {
    match ask {
        Ask::LaneById(id) => {
            let row = select(db, rows::LANE, "sb_lane WHERE lane = ?")?
                .query_row([signed(id.0)], rows::lane)
                .optional()?;
            match row {
                Some(lane) => slice.lanes.put(lane),
                None => slice.lanes.put_absent_id(*id),
            }
        }
        Ask::LaneByKey(key) => {
            let row = select(db, rows::LANE, "sb_lane WHERE key = ?")?
                .query_row([key.to_text()], rows::lane)
                .optional()?;
            match row {
                Some(lane) => slice.lanes.put(lane),
                None => slice.lanes.put_absent(key),
            }
        }
        Ask::Lanes { rep, from } => {
            let from = from.map_or(
                (0, 0, 0),
                |Position {
                     priority,
                     head,
                     lane,
                 }| { (priority as i64, signed(head), signed(lane.0)) },
            );
            let page = select(
                db,
                rows::LANE,
                &format!(
                    "sb_lane INDEXED BY sb_lane_ready
                     WHERE rep = ? AND ready > 0 AND (prio, head, lane) >= (?, ?, ?)
                     ORDER BY prio, head, lane LIMIT {}",
                    limits::LANES_PER_LOAD
                ),
            )?
            .query_map(params![&*rep.0, from.0, from.1, from.2], rows::lane)?
            .collect::<Result<_>>()?;
            slice.lanes.put_ready(rep, page);
        }
        Ask::HeldLanes(rep) => {
            let found = select(
                db,
                rows::LANE,
                "sb_lane INDEXED BY sb_lane_held WHERE rep = ? AND held > 0",
            )?
            .query_map([&*rep.0], rows::lane)?
            .collect::<Result<_>>()?;
            slice.lanes.put_held(rep, found);
        }
        Ask::LanesUnder(rep) => {
            let count: Option<i64> = db
                .prepare_cached("SELECT lanes FROM sb_rep WHERE rep = ?")?
                .query_row([&*rep.0], |row| row.get(0))
                .optional()?;
            slice
                .lanes
                .put_lanes_under(rep, u64::try_from(count.unwrap_or(0)).unwrap_or(0));
        }
        Ask::Queue { lane, from } => queue(db, *lane, *from, slice)?,
        _ => unreachable!("only asks about lanes come here"),
    }
    Ok(())
}

/// The next of a lane, and with them the rows of those that are not large: a claim will want them next.
fn queue(db: &Connection, lane: LaneId, from: u64, slice: &mut Slice) -> Result {
    let mut statement = select(
        db,
        &format!("{}, coalesce(octet_length(description), 0)", rows::TASK),
        // A bound LIMIT would be planned anew at every call.
        &format!(
            "tasks INDEXED BY sb_tasks_queue
             WHERE status = 'ready' AND lane = ? AND number >= ? ORDER BY number LIMIT {}",
            limits::QUEUE_PER_LOAD
        ),
    )?;
    let mut found = statement.query(params![signed(lane.0), signed(from)])?;
    let mut page = Vec::with_capacity(limits::QUEUE_PER_LOAD);
    while let Some(row) = found.next()? {
        let id = TaskId::from(row.get::<_, String>(at!(TASKS.id))?);
        if row.get::<_, i64>(rows::TASK_COLUMNS)? <= PREFETCH_BYTES_MAX {
            slice.put_task(&id, Some(rows::task(row)?));
        }
        page.push((row.get::<_, i64>(at!(TASKS.number))?.unsigned_abs(), id));
    }
    slice
        .lanes
        .put_queue(lane, from, page, limits::QUEUE_PER_LOAD);
    Ok(())
}

/// Descriptions longer than this are read only for the task that is taken.
const PREFETCH_BYTES_MAX: i64 = 4096;

fn leases(
    db: &Connection,
    slice: &mut Slice,
    which: &str,
    params: impl Params,
) -> Result<Vec<LeasePath>> {
    let found: Vec<Lease> = select(
        db,
        rows::LEASE,
        &format!("leases WHERE rev > 0 AND {which}"),
    )?
    .query_map(params, rows::lease)?
    .collect::<Result<_>>()?;
    Ok(found
        .into_iter()
        .map(|lease| {
            let path = lease.path.clone();
            slice.put_row(lease);
            path
        })
        .collect())
}

/// Leases at the path's literal prefix, above it, and below it.
fn leases_near(db: &Connection, path: &LeasePath, slice: &mut Slice) -> Result<Vec<LeasePath>> {
    let mut found = Vec::new();
    for prefix in path.prefix_ancestors() {
        found.extend(leases(db, slice, "prefix = ?", [prefix])?);
    }
    let prefix = path.prefix();
    if prefix.is_empty() {
        found.extend(leases(db, slice, "prefix > ''", [])?);
    } else {
        // '0' is the character after '/': everything below the prefix lies in between.
        found.extend(leases(
            db,
            slice,
            "prefix > ? AND prefix < ?",
            [format!("{prefix}/"), format!("{prefix}0")],
        )?);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn delivery(db: &Connection, message: &MessageId, agent: &AgentId, slice: &mut Slice) -> Result {
    let row = select(
        db,
        rows::DELIVERY,
        "sb_delivery WHERE number = (SELECT number FROM messages WHERE id = ?) AND agent = ?",
    )?
    .query_row([message.as_str(), agent.as_str()], rows::delivery)
    .optional()?;
    slice.load::<Delivery>((message.clone(), agent.clone()), row);
    Ok(())
}

/// The parts of an inbox one after the other: their index, what is in them, their order.
fn inbox_ranges(order: InboxOrder) -> &'static [(&'static str, &'static str, &'static str)] {
    match order {
        InboxOrder::Oldest => &[("sb_delivery_inbox", "true", "number")],
        InboxOrder::MostUrgent => &[
            ("sb_delivery_prio", "prio < 2", "prio, number"),
            ("sb_delivery_inbox", "prio IS NULL", "number"),
            ("sb_delivery_prio", "prio > 2", "prio, number"),
        ],
    }
}

fn inbox(db: &Connection, ask: &InboxAsk, slice: &mut Slice) -> Result {
    let kinds = super::text::list(&ask.kinds);
    let filter = if ask.kinds.is_empty() {
        "?2 IS NOT NULL"
    } else {
        "(SELECT type FROM messages m WHERE m.number = sb_delivery.number) IN (SELECT value FROM json_each(?2))"
    };
    let mut waiting = Vec::new();
    for (index, range, order) in inbox_ranges(ask.order) {
        let rows = select(
            db,
            rows::DELIVERY,
            &format!(
                "sb_delivery INDEXED BY {index} WHERE state = 'queued' AND agent = ?1 AND {range} AND {filter} ORDER BY {order} LIMIT ?3"
            ),
        )?
        .query_map(
            params![ask.agent.as_str(), kinds, rows_max(ask.limit - waiting.len())],
            rows::delivery,
        )?
        .collect::<Result<Vec<_>>>()?;
        waiting.extend(rows);
        if waiting.len() >= ask.limit {
            break;
        }
    }
    let mut ids = Vec::with_capacity(waiting.len());
    let mut bytes = 0;
    for delivery in waiting {
        // A verb hands out less than this at a time; the rest stays on disk.
        if bytes > 4 * limits::RECEIVE_BYTES {
            break;
        }
        let row = select(db, rows::MESSAGE, "messages WHERE number = ?")?
            .query_row([signed(delivery.number)], rows::message)
            .optional()?;
        bytes += row.as_ref().map_or(0, |row| row.payload.len());
        let id = delivery.message.clone();
        slice.load::<Message>(id.clone(), row);
        slice.put_row(delivery);
        ids.push(id);
    }
    slice.ranges.inbox.insert(ask.clone(), ids);
    Ok(())
}

fn calls(db: &Connection, ask: &Ask, slice: &mut Slice) -> Result {
    match ask {
        Ask::Row(RowKey::Remembered(key)) => {
            let row = db
                .prepare_cached(
                    "SELECT body_hash, answer, at FROM sb_answer WHERE principal = ? AND operation = ? AND key = ?",
                )?
                .query_row(params![&*key.principal, key.operation, &*key.key], |row| {
                    Ok(Remembered {
                        key: key.clone(),
                        body_hash: row.get(0)?,
                        answer: row.get::<_, Vec<u8>>(1)?.into(),
                        at: Timestamp(row.get(2)?),
                    })
                })
                .optional()?;
            slice.load(key.clone(), row);
        }
        Ask::Row(RowKey::Nonce((agent, value))) => {
            let row = db
                .prepare_cached("SELECT valid_until FROM sb_nonce WHERE agent = ? AND value = ?")?
                .query_row(params![agent.as_str(), &**value], |row| {
                    Ok(Nonce {
                        agent: agent.clone(),
                        value: value.clone(),
                        valid_until: Timestamp(row.get(0)?),
                    })
                })
                .optional()?;
            slice.load((agent.clone(), value.clone()), row);
        }
        Ask::Row(RowKey::Token(id)) => {
            let row = select(db, rows::TOKEN, "sb_token WHERE id = ?")?
                .query_row([id.as_str()], rows::token)
                .optional()?;
            slice.load(id.clone(), row);
        }
        _ => unreachable!("only asks about calls come here"),
    }
    Ok(())
}

fn memory(db: &Connection, ask: &Ask, slice: &mut Slice) -> Result {
    match ask {
        Ask::Row(RowKey::Record(key)) => {
            let row = select(db, "value", "sb_record WHERE kind = ? AND key = ?")?
                .query_row([key.kind.as_str(), &*key.key], rows::record)
                .optional()?;
            slice.load::<Record>(key.clone(), row);
        }
        Ask::Records(range) => {
            let found = records(db, range)?;
            let keys = found.iter().map(Record::key).collect();
            found.into_iter().for_each(|row| slice.put_row(row));
            slice.ranges.records.insert(range.clone(), keys);
        }
        Ask::DueRecords { kind, until, limit } => {
            let found = list(
                db,
                "SELECT value FROM sb_record INDEXED BY sb_record_due
                 WHERE kind = ? AND due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, key LIMIT ?",
                params![kind.as_str(), until.0, rows_max(*limit)],
                rows::record,
            )?;
            let keys = found.iter().map(Record::key).collect();
            found.into_iter().for_each(|row| slice.put_row(row));
            let asked = (*kind, *until, *limit);
            slice.ranges.due_records.insert(asked, keys);
        }
        Ask::Kept => {
            let kept = select(db, rows::KEPT, "sb_head")?.query_row([], rows::kept)?;
            slice.ranges.kept = Some(kept);
        }
        _ => unreachable!("only asks about memory come here"),
    }
    Ok(())
}

/// Private rows of an owner, by position.
pub(super) fn records(db: &Connection, range: &RecordRange) -> Result<Vec<Record>> {
    let (is_behind, order) = rows::record_range(range);
    let (position, key) = range.begins_after();
    let sql = format!(
        "SELECT value FROM sb_record INDEXED BY sb_record_owned WHERE kind = ? AND owner = ? AND position IS NOT NULL
         AND (position, key) {is_behind} (?, ?) ORDER BY {order} LIMIT ?"
    );
    let (kind, limit) = (range.kind.as_str(), rows_max(range.limit));
    let values = params![kind, &*range.owner, position, key, limit];
    list(db, &sql, values, rows::record)
}

fn due(db: &Connection, ask: &Ask, slice: &mut Slice) -> Result {
    match ask {
        Ask::DueRetries { until, limit } => {
            let found = list(
                db,
                "SELECT id FROM tasks INDEXED BY sb_tasks_retry WHERE status = 'pending_retry' AND state_at <= ?
                 ORDER BY state_at, number LIMIT ?",
                params![until.0, rows_max(*limit)],
                text::<TaskId>,
            )?;
            slice.ranges.due_retries.insert((*until, *limit), found);
        }
        Ask::WatchedTasks { until, limit } => {
            let found = list(
                db,
                "SELECT id FROM tasks INDEXED BY sb_tasks_watched WHERE look_at IS NOT NULL AND look_at <= ? AND rev > 0
                 ORDER BY look_at, number LIMIT ?",
                params![until.0, rows_max(*limit)],
                text::<TaskId>,
            )?;
            slice.ranges.watched_tasks.insert((*until, *limit), found);
        }
        Ask::DueLeases { until, limit } => {
            let found = leases(
                db,
                slice,
                "expires_at <= ? ORDER BY expires_at, file_path LIMIT ?",
                params![Iso::new(*until), rows_max(*limit)],
            )?;
            slice.ranges.due_leases.insert((*until, *limit), found);
        }
        Ask::DueDeliveries { until, limit } => {
            let found = list(
                db,
                "SELECT message, agent FROM sb_delivery INDEXED BY sb_delivery_due
                 WHERE state = 'queued' AND expires_at IS NOT NULL AND expires_at <= ? ORDER BY expires_at, number, agent LIMIT ?",
                params![until.0, rows_max(*limit)],
                |row| Ok((MessageId::from(row.get::<_, String>(0)?), AgentId::from(row.get::<_, String>(1)?))),
            )?;
            slice.ranges.due_deliveries.insert((*until, *limit), found);
        }
        Ask::FinishedTasks {
            from,
            before,
            limit,
        } => {
            let page = finished_tasks(db, *from, *before, *limit)?;
            slice.ranges.finished.insert((*from, *before, *limit), page);
        }
        _ => unreachable!("only asks about what is due come here"),
    }
    Ok(())
}

fn finished_tasks(
    db: &Connection,
    from: u64,
    before: Timestamp,
    limit: usize,
) -> Result<FinishedPage> {
    let seen: Vec<finished::Seen> = list(
        db,
        "SELECT number, id, status IN ('completed', 'failed', 'canceled') AND updated_at < ?2, created_at >= ?2 FROM tasks
         WHERE number >= ?1 ORDER BY number LIMIT ?3",
        params![signed(from), Iso::new(before), rows_max(finished::stretch(limit))],
        |row| {
            Ok(finished::Seen {
                number: row.get::<_, i64>(0)?.unsigned_abs(),
                id: TaskId::from(row.get::<_, String>(1)?),
                is_old: row.get(2)?,
                is_young: row.get(3)?,
            })
        },
    )?;
    Ok(finished::page(&seen, limit))
}

pub(super) fn select<'db>(
    db: &'db Connection,
    columns: &str,
    rest: &str,
) -> Result<CachedStatement<'db>> {
    let mut sql = String::with_capacity(16 + columns.len() + rest.len());
    sql.push_str("SELECT ");
    sql.push_str(columns);
    sql.push_str(" FROM ");
    sql.push_str(rest);
    db.prepare_cached(&sql)
}

pub(super) fn list<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn text<T: From<String>>(row: &Row<'_>) -> Result<T> {
    row.get::<_, String>(0).map(T::from)
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
