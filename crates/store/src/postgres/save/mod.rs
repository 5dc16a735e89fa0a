//! Turns a batch's changes into a few statements, each for all rows of a kind. Deletions come first, so that a key
//! may be freed and taken in one batch.

use switchboard_core::changes::Prune;
use switchboard_core::slice::Save;
use switchboard_core::{Delivery, Head, Lease, Logged, Message, Record, RecordKey};

mod agents;
mod appended;
mod copies;
mod tasks;

use super::by_hand::Hand;
use super::rows::{Batch, escape, rows_max, signed};
use super::session::Query;
use crate::Error;
use crate::chain::Link;
use crate::clock::Mark;
use crate::columns::{self, log_body};
use crate::table::print::postgres::{assign, insert, update, upsert};
use crate::table::print::statements;
use crate::table::{BESIDE, DELIVERIES, HEADS, LANES, LEASES, MESSAGES, NEW, READ, REPS, WORK};
use crate::text::Iso;

/// Who writes, and which of its batches this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub writer: i64,
    pub generation: i64,
    /// Where the clock stands.
    pub mark: Mark,
}

statements! {
    HEAD = format!(
        "UPDATE sb_head SET {}, writer = ${}, generation = ${}",
        assign(&HEADS, &[READ, BESIDE], 1),
        HEAD_VALUES + 1,
        HEAD_VALUES + 2
    );
    LANE = upsert(&LANES, "lane", &[NEW]);
    REP = upsert(&REPS, "rep", &[NEW]);
    LEASE = upsert(&LEASES, "file_path", &[NEW]);
    NEW_MESSAGE = insert(&MESSAGES, &[NEW]);
    // Over what a hand made of them.
    TAKEN_MESSAGE = upsert(&MESSAGES, "id", &[NEW]);
    MESSAGE = update(&MESSAGES, &[WORK]);
    NEW_DELIVERY = insert(&DELIVERIES, &[NEW]);
    DELIVERY = update(&DELIVERIES, &[WORK]);
}

/// What is written of the head, beside who writes it.
const HEAD_VALUES: usize = HEADS.count(READ) + HEADS.count(BESIDE);

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
    let dropped: Vec<&RecordKey> = save.drops::<Record>().map(|(key, _)| key).collect();
    if !dropped.is_empty() {
        let (kinds, keys) = dropped
            .iter()
            .map(|key| (key.kind.as_str(), &*key.key))
            .unzip();
        let sql = "DELETE FROM sb_record WHERE (kind, key) IN (SELECT * FROM unnest($1::text[], $2::text[]))";
        let (kinds, keys): (Vec<&str>, Vec<&str>) = (kinds, keys);
        queries.push(Query::new(sql).texts(kinds).texts(keys));
    }
    if !save.closed_lanes.is_empty() {
        let lanes = save.closed_lanes.iter().map(|lane| signed(lane.0));
        queries.push(Query::new("DELETE FROM sb_lane WHERE lane = ANY($1)").ints(lanes));
    }
    let paths = save.drops::<Lease>().map(|(path, _)| path);
    let (prefixes, paths): (Vec<&str>, Vec<&str>) =
        paths.map(|path| (path.prefix(), path.as_str())).unzip();
    if !paths.is_empty() {
        let sql =
            "DELETE FROM leases WHERE prefix = ANY($1) AND coalesce(path, file_path) = ANY($2)";
        queries.push(Query::new(sql).texts(prefixes).texts(paths));
    }
}

fn lanes(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for lane in &save.lanes {
        columns::lane(lane, &mut batch);
        batch.end();
    }
    push(queries, &LANE, batch);
    let mut batch = Batch::default();
    for (rep, lanes) in &save.reps {
        batch.count(*lanes).text(&*rep.0).end();
    }
    push(queries, &REP, batch);
}

fn leases(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (lease, _) in save.puts::<Lease>() {
        columns::lease(lease, &mut batch);
        batch.end();
    }
    push(queries, &LEASE, batch);
}

fn messages(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut new, mut changed) = (Batch::default(), Batch::default());
    for (message, put) in save.puts::<Message>() {
        if put.is_new {
            columns::new_message(message, &mut new);
            new.end();
        } else {
            columns::fate_of_message(message, &mut changed);
            changed.end();
        }
    }
    let insert = match hand.is_noted() {
        true => &TAKEN_MESSAGE,
        false => &NEW_MESSAGE,
    };
    push(queries, insert, new);
    push(queries, &MESSAGE, changed);
}

fn deliveries(save: &Save<'_>, queries: &mut Vec<Query>) {
    let (mut new, mut changed) = (Batch::default(), Batch::default());
    for (delivery, put) in save.puts::<Delivery>() {
        if put.is_new {
            columns::new_delivery(delivery, &mut new);
            new.end();
        } else {
            columns::fate_of_delivery(delivery, &mut changed);
            changed.end();
        }
    }
    push(queries, &NEW_DELIVERY, new);
    push(queries, &DELIVERY, changed);
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
    let mut query = match hand.is_noted() {
        false => Query::new(format!("{} WHERE id = 1", *HEAD)),
        true => Query::new(format!(
            "{}, by_hand = (EXISTS (SELECT 1 FROM sb_hand WHERE n > ${}))::int WHERE id = 1",
            *HEAD,
            HEAD_VALUES + 3
        )),
    };
    columns::head(head, &by.mark, &mut query);
    let query = query.int(by.writer).int(by.generation);
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
        Prune::Records {
            kind,
            owner,
            before,
            limit,
        } => {
            let sql = "DELETE FROM sb_record WHERE (kind, key) IN (
               SELECT kind, key FROM sb_record WHERE kind = $3 AND owner = $4 AND position IS NOT NULL AND position < $1
               ORDER BY position, key LIMIT $2)";
            let query = Query::new(sql).int(before.0).int(rows_max(*limit));
            queries.push(query.text(kind.as_str()).text(owner));
            return;
        }
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
