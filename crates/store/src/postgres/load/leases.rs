//! Asks about leases.

use switchboard_core::{Ask, LeasePath, Slice};
use tokio_postgres::Row;

use super::{Load, load, ordinal};
use crate::Error;
use crate::postgres::rows::Batch;
use crate::postgres::session::Query;
use crate::rows;

type Result<T = ()> = std::result::Result<T, Error>;

pub(super) fn loads<'a>(asks: &[&'a Ask], loads: &mut Vec<Load<'a>>) {
    let (mut tasks, mut agents, mut near) = (Vec::new(), Vec::new(), Vec::new());
    for ask in asks {
        match ask {
            Ask::LeasesOfTask(task) => tasks.push(task),
            Ask::LeasesOfAgent(agent) => agents.push(agent),
            Ask::LeasesNear(path) => near.push(path),
            _ => unreachable!("only asks about leases come here"),
        }
    }
    if !tasks.is_empty() {
        let query =
            Query::new(sql("l.task_id = q.k")).texts(tasks.iter().map(|task| task.as_str()));
        loads.push(load(query, move |rows, slice| {
            let found = paths(tasks.len(), &rows, slice)?;
            let answers = tasks.into_iter().cloned().zip(found);
            slice.ranges.leases_of_task.extend(answers);
            Ok(())
        }));
    }
    if !agents.is_empty() {
        let query =
            Query::new(sql("l.agent_id = q.k")).texts(agents.iter().map(|agent| agent.as_str()));
        loads.push(load(query, move |rows, slice| {
            let found = paths(agents.len(), &rows, slice)?;
            let answers = agents.into_iter().cloned().zip(found);
            slice.ranges.leases_of_agent.extend(answers);
            Ok(())
        }));
    }
    if !near.is_empty() {
        loads.push(near_by(near));
    }
}

fn sql(condition: &str) -> String {
    format!(
        "SELECT {}, q.i FROM unnest($1) WITH ORDINALITY AS q(k, i) JOIN leases l ON {condition} AND l.rev > 0 ORDER BY q.i, file_path",
        rows::LEASE
    )
}

/// Leases at a path's literal prefix, above it, and below it.
fn near_by(near: Vec<&LeasePath>) -> Load<'_> {
    let (mut above, mut below) = (Batch::default(), Batch::default());
    for (at, path) in (1_i64..).zip(&near) {
        for prefix in path.prefix_ancestors() {
            above.text(prefix).int(at).end();
        }
        let prefix = path.prefix();
        if prefix.is_empty() {
            below.text("").text("\u{10ffff}").int(at).end();
        } else {
            // '0' is the character after '/': everything below the prefix lies in between.
            let (from, to) = (format!("{prefix}/"), format!("{prefix}0"));
            below.text(from.as_str()).text(to.as_str()).int(at).end();
        }
    }
    let sql = format!(
        "SELECT {columns}, q.i FROM unnest($1, $2) AS q(p, i) JOIN leases l ON l.prefix = q.p AND l.rev > 0
         UNION SELECT {columns}, q.i FROM unnest($3, $4, $5) AS q(f, t, i) JOIN leases l ON l.prefix > q.f AND l.prefix < q.t AND l.rev > 0",
        columns = rows::LEASE
    );
    let query = Query::rows(sql, above).and(below);
    load(query, move |rows, slice| {
        let found = paths(near.len(), &rows, slice)?;
        for (path, mut leases) in near.into_iter().zip(found) {
            leases.sort();
            leases.dedup();
            slice.ranges.leases_near.insert(path.clone(), leases);
        }
        Ok(())
    })
}

fn paths(asked: usize, rows: &[Row], slice: &mut Slice) -> Result<Vec<Vec<LeasePath>>> {
    let mut found = vec![Vec::new(); asked];
    for row in rows {
        let lease = rows::lease(row)?;
        found[ordinal(row)?].push(lease.path.clone());
        slice.put_row(lease);
    }
    Ok(found)
}
