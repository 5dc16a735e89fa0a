//! Writes a batch's rows. Deletions come first, so that a key may be freed and taken in one batch.

use rusqlite::{Connection, params};
use switchboard_core::changes::{Nonce, Prune};
use switchboard_core::idempotency::Remembered;
use switchboard_core::slice::Save;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, Attempt, Baseline, Delivery, FormerAgent, Head, Lane, Learning, Lease, Message,
    Snapshot, Task,
};

use super::by_hand;
use super::load::{rows_max, signed};
use super::log;
use super::text::Iso;
use crate::clock::Mark;
use crate::columns::{counts, shown_message, store_progress};

mod agents;
mod copies;
mod memory;
mod tasks;

use agents::{put_agent, update_agent};
use tasks::{describe_task, insert_task, requeue_task, update_task};

type Result = rusqlite::Result<()>;

/// What a prune took away that the head still counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pruned {
    pub answers: u64,
    pub answer_bytes: u64,
}

/// With hand writes left to take in, rows are written whole: a hand may have changed any part of them.
pub(super) fn save(
    db: &Connection,
    save: &Save<'_>,
    mark: &Mark,
    whole: bool,
) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    delete(db, save, whole)?;
    for (task, put) in save.puts::<Task>() {
        if put.is_new {
            insert_task(db, task)?;
            // Created and taken, or failed, within one batch.
            if task.epoch > 0 || task.status().is_final() {
                requeue_task(db, task)?;
                update_task(db, task)?;
            }
            continue;
        }
        if whole || put.has(Task::DESCRIBED) {
            describe_task(db, task)?;
        }
        if whole || put.has(Task::QUEUED) {
            requeue_task(db, task)?;
        }
        update_task(db, task)?;
    }
    for (agent, put) in save.puts::<Agent>() {
        if put.is_new || whole || put.has(Agent::DESCRIBED) {
            put_agent(db, agent)?;
        } else {
            update_agent(db, agent)?;
        }
    }
    for (agent, at, heartbeats) in &save.pulses {
        db.prepare_cached(
            "UPDATE agents SET seen_at = ?, last_heartbeat = ?, heartbeat_count = ? WHERE id = ?",
        )?
        .execute(params![
            at.0,
            Iso::new(*at),
            signed(*heartbeats),
            agent.as_str()
        ])?;
    }
    for lane in &save.lanes {
        put_lane(db, lane)?;
    }
    for (rep, lanes) in &save.reps {
        db.prepare_cached("INSERT OR REPLACE INTO sb_rep(rep, lanes) VALUES (?, ?)")?
            .execute(params![&*rep.0, signed(*lanes)])?;
    }
    for (lease, _) in save.puts::<Lease>() {
        put_lease(db, lease)?;
    }
    for (message, put) in save.puts::<Message>() {
        put_message(db, message, put.is_new)?;
    }
    for (delivery, put) in save.puts::<Delivery>() {
        put_delivery(db, delivery, put.is_new)?;
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

fn delete(db: &Connection, save: &Save<'_>, whole: bool) -> Result {
    by_hand::drop_notes(db, save)?;
    for (id, _) in save.drops::<Agent>() {
        db.prepare_cached("DELETE FROM agents WHERE id = ?")?
            .execute([id.as_str()])?;
        db.prepare_cached("DELETE FROM sb_sql_agent WHERE id = ?")?
            .execute([id.as_str()])?;
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
        db.prepare_cached("DELETE FROM leases WHERE file_path = ?")?
            .execute([path.as_str()])?;
        if whole {
            by_hand::lease_ended(db, path)?;
        }
    }
    Ok(())
}

fn put_lane(db: &Connection, lane: &Lane) -> Result {
    db.prepare_cached(
        "INSERT INTO sb_lane(lane, key, rep, prio, head, ready, held) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT(lane) DO UPDATE SET head = ?5, ready = ?6, held = ?7",
    )?
    .execute(params![
        signed(lane.id.0),
        lane.key.to_text(),
        &*lane.rep.0,
        lane.key.priority as i64,
        signed(lane.head),
        signed(lane.ready),
        signed(lane.held),
    ])?;
    Ok(())
}

fn put_lease(db: &Connection, lease: &Lease) -> Result {
    db.prepare_cached(
        "INSERT INTO leases(file_path, agent_id, task_id, acquired_at, expires_at, renewed_count, rev, prefix, fencing)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT(file_path) DO UPDATE SET agent_id = ?2, task_id = ?3, acquired_at = ?4, expires_at = ?5,
           renewed_count = ?6, rev = ?7, prefix = ?8, fencing = ?9",
    )?
    .execute(params![
        lease.path.as_str(),
        lease.agent.as_str(),
        lease.task.as_ref().map(|id| id.as_str()),
        Iso::new(lease.acquired_at),
        Iso::new(lease.expires_at),
        lease.renewals,
        signed(lease.rev),
        lease.path.prefix(),
        signed(lease.fencing),
    ])?;
    Ok(())
}

fn put_message(db: &Connection, message: &Message, new: bool) -> Result {
    let (delivered_at, acknowledged_at) = shown_message(message);
    if !new {
        db.prepare_cached(
            "UPDATE messages SET acknowledged_at = ?, acknowledged_by = ?, delivered_at = ?, rev = ? WHERE number = ?",
        )?
        .execute(params![
            acknowledged_at.map(Iso::new),
            message.acknowledged.as_ref().map(|(by, _)| by.as_str()),
            delivered_at.map(Iso::new),
            signed(message.rev),
            signed(message.number),
        ])?;
        return Ok(());
    }
    db.prepare_cached(
        "INSERT INTO messages(number, id, type, from_agent, to_agent, payload, ack_required, acknowledged_at, acknowledged_by,
           delivered_at, expires_at, created_at, rev, corr_id, handoff_task, handoff_epoch)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        signed(message.number),
        message.id.as_str(),
        message.kind,
        message.from.as_str(),
        message.to.as_ref().map(|id| id.as_str()),
        &*message.payload,
        message.ack_required,
        acknowledged_at.map(Iso::new),
        message.acknowledged.as_ref().map(|(by, _)| by.as_str()),
        delivered_at.map(Iso::new),
        message.expires_at.map(Iso::new),
        Iso::new(message.created_at),
        signed(message.rev),
        message.corr_id.as_str(),
        message.handoff.as_ref().map(|(task, _)| task.as_str()),
        message.handoff.as_ref().map(|(_, epoch)| signed(*epoch)),
    ])?;
    Ok(())
}

fn put_delivery(db: &Connection, delivery: &Delivery, new: bool) -> Result {
    let delivered_at = delivery.delivered_at.map(|at| at.0);
    let acknowledged_at = delivery.acknowledged_at.map(|at| at.0);
    if new {
        db.prepare_cached(
            "INSERT INTO sb_delivery(agent, number, message, state, delivered_at, acknowledged_at, expires_at, handing_until)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            delivery.agent.as_str(),
            signed(delivery.number),
            delivery.message.as_str(),
            delivery.state.as_str(),
            delivered_at,
            acknowledged_at,
            delivery.expires_at.map(|at| at.0),
            delivery.handing_until.map(|at| at.0),
        ])?;
    } else {
        db.prepare_cached(
            "UPDATE sb_delivery SET state = ?, delivered_at = ?, acknowledged_at = ?, handing_until = ? WHERE number = ? AND agent = ?",
        )?
        .execute(params![
            delivery.state.as_str(),
            delivered_at,
            acknowledged_at,
            delivery.handing_until.map(|at| at.0),
            signed(delivery.number),
            delivery.agent.as_str(),
        ])?;
    }
    Ok(())
}

/// Rows that are only ever added.
fn append(db: &Connection, save: &Save<'_>) -> Result {
    for (attempt, _) in save.puts::<Attempt>() {
        db.prepare_cached(
            "INSERT INTO sb_attempt(number, epoch, task, agent, claimed_at, ended_at, outcome, failure, message, details,
               suggested, progress) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            signed(attempt.number),
            signed(attempt.epoch),
            attempt.task.as_str(),
            attempt.agent.as_str(),
            attempt.claimed_at.0,
            attempt.ended_at.0,
            attempt.outcome.as_str(),
            attempt.failure.map(|kind| kind.as_str()),
            attempt.message,
            attempt.details,
            attempt.suggested_action,
            store_progress(attempt.progress.as_ref()),
        ])?;
    }
    for (snapshot, _) in save.puts::<Snapshot>() {
        let found = &snapshot.metrics;
        db.prepare_cached(
            "INSERT INTO quality_snapshots(id, task_id, agent_id, build_success, type_errors, lint_errors, lint_warnings,
               tests_passing, tests_failing, test_coverage, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            snapshot.id.as_str(),
            snapshot.task.as_ref().map(|id| id.as_str()),
            snapshot.agent.as_ref().map(|id| id.as_str()),
            found.build_success,
            found.type_errors,
            found.lint_errors,
            found.lint_warnings,
            found.tests_passing,
            found.tests_failing,
            found.test_coverage,
            Iso::new(snapshot.recorded_at),
        ])?;
    }
    for (baseline, _) in save.puts::<Baseline>() {
        let found = &baseline.metrics;
        db.prepare_cached(
            "INSERT OR REPLACE INTO quality_baseline(id, build_success, type_errors, lint_errors, lint_warnings, tests_passing,
               tests_failing, test_coverage, set_by, created_at, updated_at, rev) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            found.build_success,
            found.type_errors,
            found.lint_errors,
            found.lint_warnings,
            found.tests_passing,
            found.tests_failing,
            found.test_coverage,
            baseline.set_by,
            Iso::new(baseline.created_at),
            Iso::new(baseline.updated_at),
            signed(baseline.rev),
        ])?;
    }
    for (learning, _) in save.puts::<Learning>() {
        db.prepare_cached(
            "INSERT INTO sb_learning(id, text, task, agent, created_at) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![
            learning.id.as_str(),
            learning.text,
            learning.task.as_ref().map(|id| id.as_str()),
            learning.agent.as_ref().map(|id| id.as_str()),
            learning.created_at.0,
        ])?;
        db.prepare_cached(
            "INSERT INTO sb_learning_words(rowid, text) VALUES (last_insert_rowid(), ?)",
        )?
        .execute([&learning.text])?;
    }
    memory::save(db, save)?;
    for (remembered, _) in save.puts::<Remembered>() {
        let key = &remembered.key;
        db.prepare_cached(
            "INSERT OR REPLACE INTO sb_answer(principal, operation, key, body_hash, answer, at) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            &*key.principal,
            key.operation,
            &*key.key,
            remembered.body_hash,
            &*remembered.answer,
            remembered.at.0,
        ])?;
    }
    for (nonce, _) in save.puts::<Nonce>() {
        db.prepare_cached(
            "INSERT OR IGNORE INTO sb_nonce(agent, value, valid_until) VALUES (?, ?, ?)",
        )?
        .execute(params![
            nonce.agent.as_str(),
            &*nonce.value,
            nonce.valid_until.0
        ])?;
    }
    for (token, _) in save.puts::<Token>() {
        db.prepare_cached(
            "INSERT OR REPLACE INTO sb_token(id, name, scope, hash, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            token.id.as_str(),
            token.name,
            token.grant(),
            token.hash,
            token.created_at.0,
            token.revoked_at.map(|at| at.0),
        ])?;
    }
    Ok(())
}

/// The head, without what this very save has pruned.
fn put_head(db: &Connection, head: &Head, mark: &Mark, pruned: &Pruned) -> Result {
    db.prepare_cached(
        "UPDATE sb_head SET seq = ?, last_at = ?, task_number = ?, message_number = ?, lane = ?, fencing = ?, tasks = ?,
           queued_deliveries = ?, leases = ?, answer_rows = ?, answer_bytes = ?, served_at = ?, floor = ?,
           last_message_at = ?, epoch = ?, epoch_after = ?, clock_at = ?, clock_wall = ?, clock_boot = ?,
           clock_ran_ms = ? WHERE id = 1",
    )?
    .execute(params![
        signed(head.seq),
        head.last_at.0,
        signed(head.task_number),
        signed(head.message_number),
        signed(head.lane),
        signed(head.fencing),
        counts(head),
        signed(head.queued_deliveries),
        signed(head.leases),
        signed(head.idempotency_rows.saturating_sub(pruned.answers)),
        signed(head.idempotency_bytes.saturating_sub(pruned.answer_bytes)),
        head.served_at.0,
        head.floor.0,
        head.last_message_at.0,
        signed(head.epoch.number),
        signed(head.epoch.after),
        mark.at.0,
        mark.wall.0,
        mark.boot,
        mark.ran_ms(),
    ])?;
    Ok(())
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
    }
    Ok(())
}
