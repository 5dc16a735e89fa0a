//! The hub's own tables.

use super::Kind::{Bytes as B, Int as I, Text as T};
use super::{BESIDE, Column, Table, own};

/// One row that is there from the beginning.
pub(crate) const HEADS: Table = table(
    "sb_head",
    &["id"],
    &[
        own(I, "id").shown(),
        own(I, "seq"),
        own(I, "last_at"),
        own(I, "task_number"),
        own(I, "message_number"),
        own(I, "lane"),
        own(I, "fencing"),
        own(T, "tasks"),
        own(I, "queued_deliveries"),
        own(I, "leases"),
        own(I, "answer_rows"),
        own(I, "answer_bytes"),
        own(I, "served_at"),
        own(I, "floor"),
        own(I, "last_message_at"),
        own(I, "epoch"),
        own(I, "epoch_after"),
        // Where the clock stood when the head was written.
        own(I, "clock_at").groups(BESIDE),
        own(I, "clock_wall").groups(BESIDE),
        own(T, "clock_boot").groups(BESIDE),
        own(I, "clock_ran_ms").groups(BESIDE),
        own(I, "writer").only_postgres(""),
        own(I, "generation").only_postgres(""),
        own(I, "schema_floor").only_postgres(""),
        own(I, "by_hand").only_postgres(""),
    ],
);

/// The event log.
pub(crate) const LOG: Table = table(
    "sb_log",
    &["first"],
    &[
        own(I, "first"),
        own(I, "last"),
        own(I, "at"),
        own(T, "body"),
        own(B, "before"),
        own(B, "hash"),
        // Nobody's number: every coordinator takes what was logged before for someone else's.
        own(I, "writer").only_postgres("0"),
    ],
);

pub(crate) const DEPS: Table = table(
    "sb_dep",
    &["needs", "number"],
    &[own(T, "needs"), own(I, "number"), own(T, "task")],
);

pub(crate) const LANES: Table = table(
    "sb_lane",
    &["lane"],
    &[
        own(I, "lane"),
        own(T, "key"),
        own(T, "rep"),
        own(I, "prio").shown(),
        own(I, "head"),
        own(I, "ready"),
        own(I, "held"),
    ],
);

pub(crate) const REPS: Table = table("sb_rep", &["rep"], &[own(T, "rep"), own(I, "lanes")]);

pub(crate) const ATTEMPTS: Table = table(
    "sb_attempt",
    &["number", "epoch"],
    &[
        own(I, "number"),
        own(I, "epoch"),
        own(T, "task"),
        own(T, "agent"),
        own(I, "claimed_at"),
        own(I, "ended_at"),
        own(T, "outcome"),
        own(T, "failure"),
        own(T, "message"),
        own(T, "details"),
        own(T, "suggested"),
        own(T, "progress"),
    ],
);

pub(crate) const DELIVERIES: Table = table(
    "sb_delivery",
    &["number", "agent"],
    &[
        own(T, "agent"),
        own(I, "number"),
        own(T, "message"),
        own(T, "state"),
        own(I, "delivered_at"),
        own(I, "acknowledged_at"),
        own(I, "expires_at"),
        own(I, "handing_until"),
    ],
);

pub(crate) const LEARNINGS: Table = table(
    "sb_learning",
    &["n"],
    &[
        own(I, "n").shown(),
        own(T, "id"),
        own(T, "text"),
        own(T, "task"),
        own(T, "agent"),
        own(I, "created_at"),
    ],
);

pub(crate) const RECORDS: Table = table(
    "sb_record",
    &["kind", "key"],
    &[
        own(T, "kind").shown(),
        own(T, "key").shown(),
        own(T, "value"),
    ],
);

pub(crate) const ENGRAMS: Table = table(
    "sb_engram",
    &["n"],
    &[
        own(I, "n").shown(),
        own(T, "id"),
        own(T, "scope"),
        own(T, "version"),
        own(I, "created_at"),
        own(T, "hash"),
        own(I, "bytes"),
        own(T, "topics"),
        own(I, "from_seq"),
        own(I, "to_seq"),
        own(T, "body").groups(BESIDE),
        own(T, "words").groups(BESIDE),
    ],
);

pub(crate) const ANSWERS: Table = table(
    "sb_answer",
    &["n"],
    &[
        own(I, "n"),
        own(T, "principal"),
        own(T, "operation"),
        own(T, "key"),
        own(B, "body_hash"),
        own(B, "answer"),
        own(I, "at"),
    ],
);

pub(crate) const NONCES: Table = table(
    "sb_nonce",
    &["agent", "value"],
    &[own(T, "agent"), own(T, "value"), own(I, "valid_until")],
);

pub(crate) const TOKENS: Table = table(
    "sb_token",
    &["id"],
    &[
        own(T, "id"),
        own(T, "name"),
        own(T, "scope"),
        own(B, "hash"),
        own(I, "created_at"),
        own(I, "revoked_at"),
    ],
);

pub(crate) const SQL_AGENTS: Table = table("sb_sql_agent", &["id"], &[own(T, "id")]);

pub(crate) const FORMER_AGENTS: Table = table(
    "sb_former_agent",
    &["id"],
    &[
        own(T, "id"),
        own(T, "name"),
        own(I, "completed"),
        own(I, "failed"),
        own(I, "runtime_ms"),
        own(I, "registered_at"),
        own(I, "gone_at"),
    ],
);

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
