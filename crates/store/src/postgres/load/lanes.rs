//! Asks about lanes and their queues.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use switchboard_core::lane::{Position, Rep};
use switchboard_core::{Ask, Lane, LaneId, Slice, TaskId, limits};
use tokio_postgres::Row;

use super::{Load, by_ordinal, load, ordinal, task_columns_without_long_text, walk_from, word};
use crate::Error;
use crate::postgres::rows::{Batch, signed};
use crate::postgres::session::Query;
use crate::rows::{self, Columns};
use crate::table::{LANES, READ, TASKS, at};

type Result<T = ()> = std::result::Result<T, Error>;

pub(super) fn loads<'a>(asks: &[&'a Ask], page: usize, loads: &mut Vec<Load<'a>>) {
    let (mut keys, mut key_rows) = (Vec::new(), Batch::default());
    let (mut walks, mut walk_rows) = (Vec::new(), Batch::default());
    let (mut held, mut under) = (Vec::new(), Vec::new());
    let (mut queues, mut queue_rows) = (Vec::new(), Batch::default());
    for ask in asks {
        match ask {
            Ask::LaneByKey(key) => {
                keys.push(key);
                key_rows.text(key.to_text().as_str()).end();
            }
            Ask::Lanes { rep, from } => {
                walks.push((rep, *from));
                let (priority, head, lane) = walk_from(*from);
                walk_rows
                    .text(&*rep.0)
                    .int(priority)
                    .int(head)
                    .int(lane)
                    .end();
            }
            Ask::HeldLanes(rep) => held.push(rep),
            Ask::LanesUnder(rep) => under.push(rep),
            Ask::Queue { lane, from } => {
                queues.push((*lane, *from));
                queue_rows.int(signed(lane.0)).int(signed(*from)).end();
            }
            _ => unreachable!("only asks about lanes come here"),
        }
    }
    if !keys.is_empty() {
        let sql = format!(
            "SELECT {}, q.i FROM unnest($1) WITH ORDINALITY AS q(k, i) JOIN sb_lane l ON md5(l.key) = md5(q.k) AND l.key = q.k",
            *LANE
        );
        loads.push(load(Query::rows(sql, key_rows), move |rows, slice| {
            let found = lanes(keys.len(), &rows, slice)?;
            for (key, mut lane) in keys.into_iter().zip(found) {
                match lane.pop() {
                    Some(lane) => slice.lanes.put(lane),
                    None => slice.lanes.put_absent(key),
                }
            }
            Ok(())
        }));
    }
    if !walks.is_empty() {
        walk(walks, walk_rows, page, loads);
    }
    if !held.is_empty() {
        let sql = format!(
            "SELECT {}, q.i FROM unnest($1) WITH ORDINALITY AS q(r, i) JOIN sb_lane l ON l.rep = q.r AND l.held > 0",
            *LANE
        );
        let query = Query::new(sql).texts(held.iter().map(|rep| &*rep.0));
        loads.push(load(query, move |rows, slice| {
            let found = lanes(held.len(), &rows, slice)?;
            for (rep, lanes) in held.into_iter().zip(found) {
                slice.lanes.put_held(rep, lanes);
            }
            Ok(())
        }));
    }
    if !under.is_empty() {
        let sql = "SELECT s.lanes, q.i FROM unnest($1) WITH ORDINALITY AS q(r, i) JOIN sb_rep s ON s.rep = q.r";
        let query = Query::new(sql).texts(under.iter().map(|rep| &*rep.0));
        loads.push(load(query, move |rows, slice| {
            let count = |row: &Row| Ok(row.int(0)?.unwrap_or(0).unsigned_abs());
            let found = by_ordinal(under.len(), &rows, count)?;
            for (rep, count) in under.into_iter().zip(found) {
                let count = count.first().copied().unwrap_or(0);
                slice.lanes.put_lanes_under(rep, count);
            }
            Ok(())
        }));
    }
    if !queues.is_empty() {
        // From the lane's head on: before it lies nothing but what was taken and not yet vacuumed.
        let sql = format!(
            "SELECT {}, q.i FROM unnest($1, $2) WITH ORDINALITY AS q(l, f, i)
             CROSS JOIN LATERAL (SELECT lane AS n, head AS h FROM sb_lane WHERE lane = q.l) s
             CROSS JOIN LATERAL (
               SELECT * FROM tasks WHERE status = 'ready' AND lane = s.n AND number >= greatest(q.f, s.h)
               ORDER BY number LIMIT {page}) t
             ORDER BY q.i, number",
            task_columns_without_long_text(),
        );
        loads.push(load(Query::rows(sql, queue_rows), move |rows, slice| {
            let mut pages: Vec<Vec<(u64, TaskId)>> = vec![Vec::new(); queues.len()];
            for row in &rows {
                pages[ordinal(row)?].push(waiting(row, slice)?);
            }
            for ((lane, from), found) in queues.into_iter().zip(pages) {
                slice.lanes.put_queue(lane, from, found, page);
            }
            Ok(())
        }));
    }
}

/// The next lanes of each rep; and where a walk begins, the first tasks of the first lane, which a claim asks for next.
fn walk<'a>(
    walks: Vec<(&'a Rep, Option<Position>)>,
    rows: Batch,
    page: usize,
    loads: &mut Vec<Load<'a>>,
) {
    let sql = format!(
        "SELECT {}, q.i FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS q(r, p, h, n, i) CROSS JOIN LATERAL (
           SELECT * FROM sb_lane WHERE rep = q.r AND ready > 0 AND (prio, head, lane) >= (q.p, q.h, q.n)
           ORDER BY prio, head, lane LIMIT {}) l ORDER BY q.i, prio, head, lane",
        *LANE,
        limits::LANES_PER_LOAD
    );
    let begun = walks.iter().filter(|(_, from)| from.is_none());
    let begun: Vec<&str> = begun.map(|(rep, _)| &*rep.0).collect();
    let first = format!(
        "SELECT {} FROM unnest($1) AS q(r)
         CROSS JOIN LATERAL (
           SELECT lane AS n, head AS h FROM sb_lane WHERE rep = q.r AND ready > 0 ORDER BY prio, head, lane LIMIT 1) s
         CROSS JOIN LATERAL (
           SELECT * FROM tasks WHERE status = 'ready' AND lane = s.n AND number >= s.h ORDER BY number LIMIT {page}) t
         ORDER BY lane, number",
        task_columns_without_long_text(),
    );
    let first = (!begun.is_empty()).then(|| Query::new(first).texts(begun));
    loads.push(load(Query::rows(sql, rows), move |rows, slice| {
        let found = lanes(walks.len(), &rows, slice)?;
        for ((rep, _), page) in walks.into_iter().zip(found) {
            slice.lanes.put_ready(rep, page);
        }
        Ok(())
    }));
    loads.extend(first.map(|first| {
        load(first, move |rows, slice| {
            let mut pages: BTreeMap<u64, Vec<(u64, TaskId)>> = BTreeMap::new();
            for row in &rows {
                let lane = row.int(at!(TASKS.lane))?.unwrap_or(0).unsigned_abs();
                let task = waiting(row, slice)?;
                pages.entry(lane).or_default().push(task);
            }
            for (lane, found) in pages {
                let lane = LaneId(lane);
                // A queue that is known in part goes on from where it was.
                if slice.lanes.queue(lane).is_none() {
                    slice.lanes.put_queue(lane, 0, found, page);
                }
            }
            Ok(())
        })
    }));
}

/// A lane, and how many are filed under its word: whoever asks for the one asks for the other next.
pub(super) static LANE: LazyLock<String> = LazyLock::new(|| {
    let under = "(SELECT s.lanes FROM sb_rep s WHERE s.rep = l.rep)";
    format!("{}, {under}", rows::LANE)
});

pub(super) fn lane(row: &Row, slice: &mut Slice) -> Result<Lane> {
    let lane = rows::lane(row)?;
    let under = row.int(LANES.count(READ))?.unwrap_or(0).unsigned_abs();
    slice.lanes.put_lanes_under(&lane.rep, under);
    Ok(lane)
}

fn lanes(asked: usize, rows: &[Row], slice: &mut Slice) -> Result<Vec<Vec<Lane>>> {
    let mut found = vec![Vec::new(); asked];
    for row in rows {
        found[ordinal(row)?].push(lane(row, slice)?);
    }
    Ok(found)
}

/// One of a queue. Its row goes along if it is not large: a claim will want it next.
fn waiting(row: &Row, slice: &mut Slice) -> Result<(u64, TaskId)> {
    let id = TaskId::from(word(row, at!(TASKS.id))?);
    if row.int(rows::TASK_COLUMNS)? == Some(1) {
        slice.put_task(&id, Some(rows::task(row)?));
    }
    Ok((row.int(at!(TASKS.number))?.unwrap_or(0).unsigned_abs(), id))
}
