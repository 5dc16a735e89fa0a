//! Turns a batch's changes into a few statements, each for all rows of a kind. Deletions come first, so that a key
//! may be freed and taken in one batch.

use std::sync::LazyLock;

use switchboard_core::changes::Prune;
use switchboard_core::slice::Save;
use switchboard_core::{Delivery, Engram, Head, Lease, Logged, Message};

mod agents;
mod appended;
mod copies;
mod shape;
mod tasks;

use super::by_hand::Hand;
use super::rows::{Batch, escape, rows_max, signed};
use super::session::Query;
use crate::Error;
use crate::chain::Link;
use crate::clock::Mark;
use crate::columns::{counts, log_body, shown_message};
use crate::text::Iso;
use shape::{insert, update, upsert};

/// Who writes, and which of its batches this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub writer: i64,
    pub generation: i64,
    /// Where the clock stands.
    pub mark: Mark,
}

const MESSAGE: [&str; 16] = [
    "number",
    "id",
    "type",
    "from_agent",
    "to_agent",
    "payload",
    "ack_required",
    "acknowledged_at",
    "acknowledged_by",
    "delivered_at",
    "expires_at",
    "created_at",
    "rev",
    "corr_id",
    "handoff_task",
    "handoff_epoch",
];

macro_rules! statements {
    ($($name:ident = $made:expr;)*) => { $(static $name: LazyLock<String> = LazyLock::new(|| $made);)* };
}

statements! {
    LANES = upsert("sb_lane", &["lane"], &["lane", "key", "rep", "prio", "head", "ready", "held"]);
    REPS = upsert("sb_rep", &["rep"], &["rep", "lanes"]);
    LEASES = upsert("leases", &["file_path"], &[
        "file_path", "agent_id", "task_id", "acquired_at", "expires_at", "renewed_count", "rev", "prefix", "fencing",
    ]);
    NEW_MESSAGES = insert("messages", &MESSAGE);
    // Over what a hand made of them.
    TAKEN_MESSAGES = upsert("messages", &["id"], &MESSAGE);
    MESSAGES = update("messages", 1, &["number", "acknowledged_at", "acknowledged_by", "delivered_at", "rev"]);
    NEW_DELIVERIES = insert("sb_delivery", &[
        "agent", "number", "message", "state", "delivered_at", "acknowledged_at", "expires_at", "handing_until",
    ]);
    DELIVERIES = update("sb_delivery", 2, &["agent", "number", "state", "delivered_at", "acknowledged_at", "handing_until"]);
}

pub(super) fn queries(
    save: &Save<'_>,
    by: &Signature,
    hand: &mut Hand,
    log_hash: &mut Option<Vec<u8>>,
) -> Result<Vec<Query>, Error> {
    let mut queries = Vec::with_capacity(16);
    hand.drop_notes(save.adopted, &mut queries);
    delete(save, &mut queries);
    hand.leases_ended(save, &mut queries);
    tasks::save(save, hand, &mut queries);
    agents::save(save, hand, &mut queries);
    lanes(save, &mut queries);
    leases(save, &mut queries);
    messages(save, hand, &mut queries);
    deliveries(save, &mut queries);
    if hand.has_sql_agents() {
        copies::save(save, &mut queries);
    }
    appended::save(save, &mut queries)?;
    if let Some(head) = save.head {
        hand.drop_raw(&mut queries);
        log(save.log, by, log_hash, &mut queries)?;
        queries.push(put_head(head, by, hand));
    }
    // After the head, which counts what these take away.
    for prune in save.prunes {
        self::prune(prune, &mut queries);
    }
    Ok(queries)
}

fn push(queries: &mut Vec<Query>, sql: &str, batch: Batch) {
    if !batch.is_empty() {
        queries.push(Query::rows(sql, batch));
    }
}

fn delete(save: &Save<'_>, queries: &mut Vec<Query>) {
    agents::forget(save, queries);
    tasks::forget(save, queries);
    let evicted: Vec<&str> = save.drops::<Engram>().map(|(id, _)| id.as_str()).collect();
    if !evicted.is_empty() {
        let ids = evicted;
        queries.push(Query::new("DELETE FROM sb_engram WHERE id = ANY($1)").texts(ids));
    }
    if !save.closed_lanes.is_empty() {
        let lanes = save.closed_lanes.iter().map(|lane| signed(lane.0));
        queries.push(Query::new("DELETE FROM sb_lane WHERE lane = ANY($1)").ints(lanes));
    }
    let paths: Vec<&str> = save
        .drops::<Lease>()
        .map(|(path, _)| path.as_str())
        .collect();
    if !paths.is_empty() {
        queries.push(Query::new("DELETE FROM leases WHERE file_path = ANY($1)").texts(paths));
    }
}

fn lanes(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for lane in &save.lanes {
        batch
            .count(lane.id.0)
            .text(lane.key.to_text().as_str())
            .text(&*lane.rep.0)
            .int(lane.key.priority as i64)
            .count(lane.head)
            .count(lane.ready)
            .count(lane.held)
            .end();
    }
    push(queries, &LANES, batch);
    let mut batch = Batch::default();
    for (rep, lanes) in &save.reps {
        batch.text(&*rep.0).count(*lanes).end();
    }
    push(queries, &REPS, batch);
}

fn leases(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (lease, _) in save.puts::<Lease>() {
        batch
            .text(lease.path.as_str())
            .text(lease.agent.as_str())
            .text(lease.task.as_ref().map(|id| id.as_str()))
            .text(Iso::new(lease.acquired_at).as_str())
            .text(Iso::new(lease.expires_at).as_str())
            .int(i64::from(lease.renewals))
            .count(lease.rev)
            .text(lease.path.prefix())
            .count(lease.fencing)
            .end();
    }
    push(queries, &LEASES, batch);
}

fn messages(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut new, mut changed) = (Batch::default(), Batch::default());
    for (message, put) in save.puts::<Message>() {
        let (delivered_at, acknowledged_at) = shown_message(message);
        let (delivered_at, acknowledged_at) =
            (delivered_at.map(Iso::new), acknowledged_at.map(Iso::new));
        let delivered_at = delivered_at.as_ref().map(Iso::as_str);
        let acknowledged_at = acknowledged_at.as_ref().map(Iso::as_str);
        let acknowledged_by = message.acknowledged.as_ref().map(|(by, _)| by.as_str());
        if !put.is_new {
            changed
                .count(message.number)
                .text(acknowledged_at)
                .text(acknowledged_by)
                .text(delivered_at)
                .count(message.rev)
                .end();
            continue;
        }
        let expires_at = message.expires_at.map(Iso::new);
        let handoff = message.handoff.as_ref();
        new.count(message.number)
            .text(message.id.as_str())
            .text(message.kind.as_str())
            .text(message.from.as_str())
            .text(message.to.as_ref().map(|id| id.as_str()))
            .text(&*message.payload)
            .int(i64::from(message.ack_required))
            .text(acknowledged_at)
            .text(acknowledged_by)
            .text(delivered_at)
            .text(expires_at.as_ref().map(Iso::as_str))
            .text(Iso::new(message.created_at).as_str())
            .count(message.rev)
            .text(message.corr_id.as_str())
            .text(handoff.map(|(task, _)| task.as_str()))
            .int(handoff.map(|(_, epoch)| signed(*epoch)))
            .end();
    }
    let insert = match hand.is_noted() {
        true => &TAKEN_MESSAGES,
        false => &NEW_MESSAGES,
    };
    push(queries, insert, new);
    push(queries, &MESSAGES, changed);
}

fn deliveries(save: &Save<'_>, queries: &mut Vec<Query>) {
    let (mut new, mut changed) = (Batch::default(), Batch::default());
    for (delivery, put) in save.puts::<Delivery>() {
        let delivered_at = delivery.delivered_at.map(|at| at.0);
        let acknowledged_at = delivery.acknowledged_at.map(|at| at.0);
        if put.is_new {
            new.text(delivery.agent.as_str())
                .count(delivery.number)
                .text(delivery.message.as_str())
                .text(delivery.state.as_str())
                .int(delivered_at)
                .int(acknowledged_at)
                .int(delivery.expires_at.map(|at| at.0))
                .int(delivery.handing_until.map(|at| at.0))
                .end();
        } else {
            changed
                .text(delivery.agent.as_str())
                .count(delivery.number)
                .text(delivery.state.as_str())
                .int(delivered_at)
                .int(acknowledged_at)
                .int(delivery.handing_until.map(|at| at.0))
                .end();
        }
    }
    push(queries, &NEW_DELIVERIES, new);
    push(queries, &DELIVERIES, changed);
}

/// The row names the hash before it and its own where this process knows them; else the database sees to that.
fn log(
    log: &[Logged],
    by: &Signature,
    log_hash: &mut Option<Vec<u8>>,
    queries: &mut Vec<Query>,
) -> Result<(), Error> {
    let (Some(first), Some(last)) = (log.first(), log.last()) else {
        return Ok(());
    };
    let body = log_body(log).map_err(|error| Error::Unavailable(error.to_string()))?;
    let (first, last, at) = (signed(first.seq), signed(last.seq), last.at.0);
    let (before, kept) = (log_hash.take(), escape(&body));
    *log_hash = before.as_deref().map(|before| {
        let link = Link {
            first,
            last,
            at,
            body: kept.as_bytes(),
            before: Some(before),
            hash: None,
        };
        link.expected().to_vec()
    });
    queries.push(
        Query::new("INSERT INTO sb_log(first, last, at, writer, body, before, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)")
            .int(first)
            .int(last)
            .int(at)
            .int(by.writer)
            .text(&body)
            .bytes_or_null(before.as_deref().filter(|before| !before.is_empty()))
            .bytes_or_null(log_hash.as_deref()),
    );
    Ok(())
}

fn put_head(head: &Head, by: &Signature, hand: &Hand) -> Query {
    let put = "UPDATE sb_head SET seq = $1, last_at = $2, task_number = $3, message_number = $4, lane = $5, fencing = $6, tasks = $7,
           queued_deliveries = $8, leases = $9, answer_rows = $10, answer_bytes = $11, served_at = $12, floor = $13,
           last_message_at = $14, epoch = $15, epoch_after = $16, writer = $17, generation = $18,
           clock_at = $19, clock_wall = $20, clock_boot = $21, clock_ran_ms = $22";
    let query = match hand.is_noted() {
        false => Query::new(format!("{put} WHERE id = 1")),
        true => Query::new(format!(
            "{put}, by_hand = (EXISTS (SELECT 1 FROM sb_hand WHERE n > $23))::int WHERE id = 1"
        )),
    };
    let query = query
        .int(signed(head.seq))
        .int(head.last_at.0)
        .int(signed(head.task_number))
        .int(signed(head.message_number))
        .int(signed(head.lane))
        .int(signed(head.fencing))
        .text(&counts(head))
        .int(signed(head.queued_deliveries))
        .int(signed(head.leases))
        .int(signed(head.idempotency_rows))
        .int(signed(head.idempotency_bytes))
        .int(head.served_at.0)
        .int(head.floor.0)
        .int(head.last_message_at.0)
        .int(signed(head.epoch.number))
        .int(signed(head.epoch.after))
        .int(by.writer)
        .int(by.generation)
        .int(by.mark.at.0)
        .int(by.mark.wall.0)
        .text(&by.mark.boot)
        .int(by.mark.ran_ms());
    match hand.is_noted() {
        false => query,
        true => query.int(hand.gone_upto()),
    }
}

fn prune(prune: &Prune, queries: &mut Vec<Query>) {
    let (sql, before, limit) = match prune {
        Prune::Events {
            before,
            upto,
            limit,
        } => {
            let sql = "DELETE FROM sb_log WHERE at < $1 AND first < $3 AND first IN (SELECT first FROM sb_log ORDER BY first LIMIT $2)";
            let query = Query::new(sql).int(before.0).int(rows_max(*limit));
            queries.push(query.int(signed(*upto)));
            return;
        }
        Prune::Remembered { before, limit } => (
            "WITH old AS (
               DELETE FROM sb_answer WHERE n IN (SELECT n FROM sb_answer WHERE at < $1 ORDER BY n LIMIT $2)
               RETURNING length(answer) AS bytes),
             gone AS (SELECT count(*) AS rows, coalesce(sum(bytes), 0)::bigint AS bytes FROM old)
             UPDATE sb_head SET answer_rows = greatest(0, answer_rows - gone.rows),
               answer_bytes = greatest(0, answer_bytes - gone.bytes) FROM gone WHERE id = 1",
            before,
            limit,
        ),
        Prune::Nonces { before, limit } => (
            "DELETE FROM sb_nonce WHERE (agent, value) IN (
               SELECT agent, value FROM sb_nonce WHERE valid_until < $1 ORDER BY valid_until LIMIT $2)",
            before,
            limit,
        ),
        Prune::Messages { before, limit } => {
            queries.push(
                Query::new(
                    "WITH old AS (
                       DELETE FROM messages WHERE number IN (
                         SELECT m.number FROM messages m WHERE m.created_at < $1 AND m.number > 0 AND NOT EXISTS (
                           SELECT 1 FROM sb_delivery d WHERE d.number = m.number AND d.state = 'queued')
                         ORDER BY m.created_at LIMIT $2)
                       RETURNING number),
                     copies AS (DELETE FROM messages WHERE copy_of IN (SELECT number FROM old))
                     DELETE FROM sb_delivery WHERE number IN (SELECT number FROM old)",
                )
                .text(Iso::new(*before).as_str())
                .int(rows_max(*limit)),
            );
            return;
        }
    };
    queries.push(Query::new(sql).int(before.0).int(rows_max(*limit)));
}
