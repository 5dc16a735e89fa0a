//! Writes a batch's rows. Deletions come first, so that a key may be freed and taken in one batch.

use rusqlite::{CachedStatement, Connection, ToSql, params};
use switchboard_core::changes::{Nonce, Prune};
use switchboard_core::idempotency::Remembered;
use switchboard_core::slice::Save;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, Attempt, Baseline, Delivery, FormerAgent, Head, Learning, Lease, Message, Snapshot, Task,
};

use super::by_hand;
use super::load::{rows_max, signed};
use super::log;
use super::text::Iso;
use crate::clock::Mark;
use crate::columns::{self, Values};
use crate::table::print::sqlite::{append as added, insert, update, upsert};
use crate::table::print::statements;
use crate::table::{
    ANSWERS, ATTEMPTS, BASELINES, BESIDE, DELIVERIES, HEADS, LANES, LEARNINGS, LEASES, MESSAGES,
    NEW, NONCES, READ, REPS, SNAPSHOTS, TOKENS, WORK,
};

mod agents;
mod copies;
mod records;
mod tasks;

use agents::{drop_from, put_agent, put_gone, put_pulse, update_agent};
use tasks::{describe_task, insert_task, requeue_task, update_task};

type Result = rusqlite::Result<()>;

statements! {
    LANE = upsert(&LANES, &[NEW], &[WORK]);
    REP = upsert(&REPS, &[NEW], &[NEW]);
    LEASE = upsert(&LEASES, &[NEW], &[NEW]);
    NEW_MESSAGE = insert(&MESSAGES, &[NEW]);
    MESSAGE = update(&MESSAGES, &[WORK]);
    NEW_DELIVERY = insert(&DELIVERIES, &[NEW]);
    DELIVERY = update(&DELIVERIES, &[WORK]);
    ATTEMPT = insert(&ATTEMPTS, &[NEW]);
    SNAPSHOT = added(&SNAPSHOTS, NEW);
    BASELINE = upsert(&BASELINES, &[NEW], &[NEW]);
    LEARNING = added(&LEARNINGS, NEW);
    ANSWER = added(&ANSWERS, NEW).replacen("INSERT", "INSERT OR REPLACE", 1);
    NONCE = insert(&NONCES, &[NEW]).replacen("INSERT", "INSERT OR IGNORE", 1);
    TOKEN = upsert(&TOKENS, &[NEW], &[NEW]);
    HEAD = update(&HEADS, &[READ, BESIDE]);
}

/// A statement whose values are bound one after the other.
struct Bind<'a> {
    statement: CachedStatement<'a>,
    at: usize,
    failed: Option<rusqlite::Error>,
}

impl Bind<'_> {
    fn bind(&mut self, value: impl ToSql) -> &mut Self {
        self.at += 1;
        if let Err(error) = self.statement.raw_bind_parameter(self.at, value) {
            self.failed.get_or_insert(error);
        }
        self
    }
}

impl Values for Bind<'_> {
    fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        self.bind(value.into())
    }

    fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        self.bind(value.into())
    }

    fn real(&mut self, value: impl Into<Option<f64>>) -> &mut Self {
        self.bind(value.into())
    }

    fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) -> &mut Self {
        self.bind(value.into())
    }
}

/// Writes a row with the values that it is given.
fn put<'a>(db: &'a Connection, sql: &str, fill: impl FnOnce(&mut Bind<'a>)) -> Result {
    let mut row = Bind {
        statement: db.prepare_cached(sql)?,
        at: 0,
        failed: None,
    };
    fill(&mut row);
    debug_assert_eq!(row.at, row.statement.parameter_count(), "{sql}");
    match row.failed {
        Some(error) => Err(error),
        None => row.statement.raw_execute().map(drop),
    }
}

/// What a prune took away that the head still counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pruned {
    pub answers: u64,
    pub answer_bytes: u64,
}

/// In a batch with hand writes rows are written whole: a hand may have changed any part of them.
pub(super) fn save(
    db: &Connection,
    save: &Save<'_>,
    mark: &Mark,
    whole: bool,
) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    delete(db, save, whole)?;
    for (task, how) in save.puts::<Task>() {
        if how.is_new {
            insert_task(db, task)?;
            // Created and taken, or failed, within one batch.
            if task.epoch > 0 || task.status().is_final() {
                requeue_task(db, task)?;
                update_task(db, task)?;
            }
            continue;
        }
        if whole || how.has(Task::DESCRIBED) {
            describe_task(db, task)?;
        }
        if whole || how.has(Task::QUEUED) {
            requeue_task(db, task)?;
        }
        update_task(db, task)?;
    }
    for (agent, how) in save.puts::<Agent>() {
        let described = how.is_new || whole || how.has(Agent::DESCRIBED);
        save_agent(db, agent, how.is_new, described)?;
    }
    for (agent, at, heartbeats) in &save.pulses {
        put_pulse(db, agent, *at, *heartbeats)?;
    }
    for lane in &save.lanes {
        put(db, &LANE, |row| columns::lane(lane, row))?;
    }
    for (rep, lanes) in &save.reps {
        put(db, &REP, |row| {
            row.count(*lanes).text(&*rep.0);
        })?;
    }
    for (lease, _) in save.puts::<Lease>() {
        if whole {
            by_hand::drop_lease(db, &lease.path)?;
        }
        put(db, &LEASE, |row| columns::lease(lease, row))?;
    }
    for (message, how) in save.puts::<Message>() {
        match how.is_new {
            true => put(db, &NEW_MESSAGE, |row| columns::new_message(message, row))?,
            false => put(db, &MESSAGE, |row| columns::fate_of_message(message, row))?,
        }
    }
    for (delivery, how) in save.puts::<Delivery>() {
        match how.is_new {
            true => put(db, &NEW_DELIVERY, |row| {
                columns::new_delivery(delivery, row)
            })?,
            false => put(db, &DELIVERY, |row| {
                columns::fate_of_delivery(delivery, row)
            })?,
        }
    }
    copies::save(db, save)?;
    append(db, save)?;
    for prune in save.prunes {
        self::prune(db, prune, &mut pruned)?;
    }
    if let Some(head) = save.head {
        log::append(db, save.log)?;
        put_head(db, head, mark, &pruned)?;
    }
    Ok(pruned)
}

fn save_agent(db: &Connection, agent: &Agent, is_new: bool, described: bool) -> Result {
    if agent.is_gone() {
        return put_gone(db, agent);
    }
    if !described {
        return update_agent(db, agent);
    }
    put_agent(db, agent)?;
    match is_new {
        true => Ok(()),
        false => drop_from(db, "sb_gone_agent", &agent.id),
    }
}

fn delete(db: &Connection, save: &Save<'_>, whole: bool) -> Result {
    by_hand::drop_notes(db, save)?;
    for (id, _) in save.drops::<Agent>() {
        for table in ["agents", "sb_gone_agent", "sb_sql_agent"] {
            drop_from(db, table, id)?;
        }
    }
    for (former, _) in save.puts::<FormerAgent>() {
        agents::put_former(db, former)?;
    }
    for task in save.drops::<Task>().filter_map(|(_, task)| task) {
        db.prepare_cached("DELETE FROM tasks WHERE number = ?")?
            .execute([signed(task.number)])?;
        db.prepare_cached("DELETE FROM sb_attempt WHERE number = ?")?
            .execute([signed(task.number)])?;
        db.prepare_cached("DELETE FROM sb_dep WHERE needs = ?")?
            .execute([task.id.as_str()])?;
    }
    for lane in save.closed_lanes {
        db.prepare_cached("DELETE FROM sb_lane WHERE lane = ?")?
            .execute([signed(lane.0)])?;
    }
    for (path, _) in save.drops::<Lease>() {
        by_hand::drop_lease(db, path)?;
        if whole {
            by_hand::lease_ended(db, path)?;
        }
    }
    Ok(())
}

/// Rows that are only ever added.
fn append(db: &Connection, save: &Save<'_>) -> Result {
    for (attempt, _) in save.puts::<Attempt>() {
        put(db, &ATTEMPT, |row| columns::attempt(attempt, row))?;
    }
    for (snapshot, _) in save.puts::<Snapshot>() {
        put(db, &SNAPSHOT, |row| columns::snapshot(snapshot, row))?;
    }
    for (baseline, _) in save.puts::<Baseline>() {
        put(db, &BASELINE, |row| columns::baseline(baseline, row))?;
    }
    for (learning, _) in save.puts::<Learning>() {
        put(db, &LEARNING, |row| columns::learning(learning, row))?;
        db.prepare_cached(
            "INSERT INTO sb_learning_words(rowid, text) VALUES (last_insert_rowid(), ?)",
        )?
        .execute([&learning.text])?;
    }
    records::save(db, save)?;
    for (remembered, _) in save.puts::<Remembered>() {
        put(db, &ANSWER, |row| columns::answer(remembered, row))?;
    }
    for (nonce, _) in save.puts::<Nonce>() {
        put(db, &NONCE, |row| columns::nonce(nonce, row))?;
    }
    for (token, _) in save.puts::<Token>() {
        put(db, &TOKEN, |row| columns::token(token, row))?;
    }
    Ok(())
}

/// The head, without what this very save has pruned.
fn put_head(db: &Connection, head: &Head, mark: &Mark, pruned: &Pruned) -> Result {
    let head = Head {
        idempotency_rows: head.idempotency_rows.saturating_sub(pruned.answers),
        idempotency_bytes: head.idempotency_bytes.saturating_sub(pruned.answer_bytes),
        ..head.clone()
    };
    put(db, &HEAD, |row| {
        columns::head(&head, mark, row);
        row.int(1);
    })
}

fn prune(db: &Connection, prune: &Prune, pruned: &mut Pruned) -> Result {
    match prune {
        Prune::Events {
            before,
            upto,
            limit,
        } => {
            db.prepare_cached("DELETE FROM sb_log WHERE first IN (SELECT first FROM sb_log ORDER BY first LIMIT ?) AND first < ? AND at < ?")?
                .execute(params![rows_max(*limit), signed(*upto), before.0])?;
        }
        Prune::Messages { before, limit } => {
            let old: Vec<i64> = db
                .prepare_cached(
                    "SELECT m.number FROM messages m WHERE m.created_at < ?1 AND m.copy_of IS NULL AND NOT EXISTS (
                       SELECT 1 FROM sb_delivery d WHERE d.number = m.number AND d.state = 'queued')
                     ORDER BY m.created_at LIMIT ?2",
                )?
                .query_map(params![Iso::new(*before), rows_max(*limit)], |row| {
                    row.get(0)
                })?
                .collect::<rusqlite::Result<_>>()?;
            for number in old {
                db.prepare_cached("DELETE FROM messages WHERE number = ?1 OR copy_of = ?1")?
                    .execute([number])?;
                db.prepare_cached("DELETE FROM sb_delivery WHERE number = ?")?
                    .execute([number])?;
            }
        }
        Prune::Remembered { before, limit } => {
            let old: Vec<(i64, i64)> = db
                .prepare_cached(
                    "SELECT n, length(answer) FROM sb_answer WHERE at < ? ORDER BY n LIMIT ?",
                )?
                .query_map(params![before.0, rows_max(*limit)], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect::<rusqlite::Result<_>>()?;
            for (n, bytes) in old {
                db.prepare_cached("DELETE FROM sb_answer WHERE n = ?")?
                    .execute([n])?;
                pruned.answers += 1;
                pruned.answer_bytes += bytes.unsigned_abs();
            }
        }
        Prune::Nonces { before, limit } => {
            db.prepare_cached(
                "DELETE FROM sb_nonce WHERE (agent, value) IN (
                   SELECT agent, value FROM sb_nonce WHERE valid_until < ? ORDER BY valid_until LIMIT ?)",
            )?
            .execute(params![before.0, rows_max(*limit)])?;
        }
        Prune::Records {
            kind,
            owner,
            before,
            limit,
        } => {
            db.prepare_cached(
                "DELETE FROM sb_record WHERE (kind, key) IN (
                   SELECT kind, key FROM sb_record INDEXED BY sb_record_owned
                   WHERE kind = ? AND owner = ? AND position IS NOT NULL AND position < ? ORDER BY position, key LIMIT ?)",
            )?
            .execute(params![kind.as_str(), owner, before.0, rows_max(*limit)])?;
        }
    }
    Ok(())
}
