//! The hub's own tables.

use super::Kind::{Bytes as B, Int as I, Text as T};
use super::public::AGENTS;
use super::{Column, NEW, Owner, Table, WORK, own};

/// One row that is there from the beginning.
#[rustfmt::skip]
pub(crate) const HEADS: Table = table("sb_head", &["id"], &[
    own(I, "id").shown(), own(I, "seq"), own(I, "last_at"), own(I, "task_number"), own(I, "message_number"),
    own(I, "lane"), own(I, "fencing"), own(T, "tasks"), own(I, "queued_deliveries"), own(I, "leases"),
    own(I, "answer_rows"), own(I, "answer_bytes"), own(I, "served_at"), own(I, "floor"),
    own(I, "last_message_at"), own(I, "epoch"), own(I, "epoch_after"),
    own(I, "outbox").born("0"),
    // Where the clock stood when the head was written.
    own(I, "clock_at").beside(), own(I, "clock_wall").beside(), own(T, "clock_boot").beside(),
    own(I, "clock_ran_ms").beside(), own(I, "writer").only_postgres(""),
    own(I, "generation").only_postgres(""), own(I, "schema_floor").only_postgres(""),
    own(I, "by_hand").only_postgres(""),
]);

/// The event log.
#[rustfmt::skip]
pub(crate) const LOG: Table = table("sb_log", &["first"], &[
    own(I, "first"), own(I, "last"), own(I, "at"), own(T, "body"), own(B, "before"), own(B, "hash"),
    // Nobody's number: every coordinator takes what was logged before for someone else's.
    own(I, "writer").only_postgres("0"),
]);

#[rustfmt::skip]
pub(crate) const DEPS: Table = table("sb_dep", &["needs", "number"], &[
    own(T, "needs"), own(I, "number"), own(T, "task"),
]);

#[rustfmt::skip]
pub(crate) const LANES: Table = table("sb_lane", &["lane"], &[
    own(I, "lane"), own(T, "key"), own(T, "rep"), own(I, "prio").shown(), own(I, "head").to(NEW | WORK),
    own(I, "ready").to(NEW | WORK), own(I, "held").to(NEW | WORK),
]);

#[rustfmt::skip]
pub(crate) const REPS: Table = table("sb_rep", &["rep"], &[own(T, "rep"), own(I, "lanes")]);

#[rustfmt::skip]
pub(crate) const ATTEMPTS: Table = table("sb_attempt", &["number", "epoch"], &[
    own(I, "number"), own(I, "epoch"), own(T, "task"), own(T, "agent"), own(I, "claimed_at"),
    own(I, "ended_at"), own(T, "outcome"), own(T, "failure"), own(T, "message"), own(T, "details"),
    own(T, "suggested"), own(T, "progress"), own(T, "evidence").born("NULL"),
]);

#[rustfmt::skip]
pub(crate) const DELIVERIES: Table = table("sb_delivery", &["number", "agent"], &[
    own(T, "agent"), own(I, "number"), own(T, "message"), own(T, "state").to(NEW | WORK),
    own(I, "delivered_at").to(NEW | WORK), own(I, "acknowledged_at").to(NEW | WORK), own(I, "expires_at"),
    own(I, "handing_until").to(NEW | WORK), own(I, "prio"), own(T, "via").to(NEW | WORK),
    own(T, "stream").to(NEW | WORK), own(T, "reason").to(NEW | WORK),
]);

#[rustfmt::skip]
pub(crate) const LEARNINGS: Table = table("sb_learning", &["n"], &[
    own(I, "n").shown(), own(T, "id"), own(T, "text"), own(T, "task"), own(T, "agent"), own(I, "created_at"),
]);

/// Nouns that are few or slow, each as JSON.
#[rustfmt::skip]
pub(crate) const RECORDS: Table = table("sb_record", &["kind", "key"], &[
    own(T, "kind").shown(), own(T, "key").shown(), own(T, "value"), own(T, "owner"), own(I, "position"),
    own(I, "due_at"),
]);

#[rustfmt::skip]
pub(crate) const ANSWERS: Table = table("sb_answer", &["n"], &[
    own(I, "n"), own(T, "principal"), own(T, "operation"), own(T, "key"), own(B, "body_hash"),
    own(B, "answer"), own(I, "at"),
]);

#[rustfmt::skip]
pub(crate) const NONCES: Table = table("sb_nonce", &["agent", "value"], &[
    own(T, "agent"), own(T, "value"), own(I, "valid_until"),
]);

#[rustfmt::skip]
pub(crate) const TOKENS: Table = table("sb_token", &["id"], &[
    own(T, "id"), own(T, "name"), own(T, "scope"), own(B, "hash"), own(I, "created_at"), own(I, "revoked_at"),
]);

#[rustfmt::skip]
pub(crate) const SQL_AGENTS: Table = table("sb_sql_agent", &["id"], &[own(T, "id")]);

#[rustfmt::skip]
pub(crate) const FORMER_AGENTS: Table = table("sb_former_agent", &["id"], &[
    own(T, "id"), own(T, "name"), own(I, "completed"), own(I, "failed"), own(I, "runtime_ms"),
    own(I, "registered_at"), own(I, "gone_at"),
]);

/// Agents that signed off: as they were in `agents`, where strangers no longer see them.
pub(crate) const GONE_AGENTS: Table = table("sb_gone_agent", AGENTS.key, &GONE_COLUMNS);

const GONE_COLUMNS: [Column; AGENTS.columns.len()] = {
    let mut columns = [AGENTS.columns[0]; AGENTS.columns.len()];
    let mut at = 0;
    while at < columns.len() {
        columns[at] = AGENTS.columns[at];
        columns[at].owner = Owner::Hub;
        at += 1;
    }
    columns
};

const fn table(
    name: &'static str,
    key: &'static [&'static str],
    columns: &'static [Column],
) -> Table {
    Table {
        name,
        key,
        columns,
        rules: &[],
    }
}
