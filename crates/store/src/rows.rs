//! Rows of a ledger as nouns of the rules, whichever engine keeps them.
//!
//! Direct clients may have written some of them, so nothing here trusts a word: what cannot be read is
//! reported with what stood there. How nouns are written is in [`crate::columns`].

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use serde::de::DeserializeOwned;
use switchboard_core::attempt::{Attempt, Outcome};
use switchboard_core::lane::Rep;
use switchboard_core::slice::Kept;
use switchboard_core::talk::Given;
use switchboard_core::token::Token;
use switchboard_core::{
    AgentId, Baseline, CorrId, Delivery, DeliveryState, Door, FailureKind, FormerAgent, Head, Lane,
    LaneId, LaneKey, Learning, Lease, LeasePath, LedgerEpoch, Message, MessageId, Metrics,
    Priority, Snapshot, TaskId, Timestamp, To, iso,
};

use crate::clock::Mark;
use crate::columns::task::read_progress;
use crate::table::{
    ATTEMPTS, BASELINES, BESIDE, DELIVERIES, FORMER_AGENTS, HEADS, LANES, LEARNINGS, LEASES,
    MESSAGES, READ, SNAPSHOTS, TOKENS, at, list,
};
use crate::text::unlist;

mod stream;

pub(crate) use crate::columns::agent::{AGENT, agent};
pub(crate) use crate::columns::task::{TASK, TASK_COLUMNS, task};

pub(crate) use stream::{HELD, held, record, record_range};

/// One row of a table, read by the number of a column.
pub(crate) trait Columns {
    type Error: From<Unreadable>;

    fn text(&self, column: usize) -> Result<Option<Cow<'_, str>>, Self::Error>;
    fn int(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn real(&self, column: usize) -> Result<Option<f64>, Self::Error>;
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;
}

/// A row holds something that no build of the hub writes.
#[derive(Debug, thiserror::Error)]
#[error("a row of the ledger has {found} in column {column}, expected {expected}")]
pub(crate) struct Unreadable {
    pub column: usize,
    found: String,
    expected: &'static str,
}

/// Those that signed off are kept apart.
pub(crate) static EVERY_AGENT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "(SELECT {AGENT} FROM agents WHERE rev > 0 UNION ALL SELECT {AGENT} FROM sb_gone_agent) AS every_agent"
    )
});

pub(crate) const FORMER_AGENT: &str = list!(FORMER_AGENTS, READ);

pub(crate) fn former_agent<R: Columns>(row: &R) -> Result<FormerAgent, R::Error> {
    Ok(FormerAgent {
        id: id(row, at!(FORMER_AGENTS.id))?,
        name: text(row, at!(FORMER_AGENTS.name))?,
        completed: unsigned(row, at!(FORMER_AGENTS.completed))?,
        failed: unsigned(row, at!(FORMER_AGENTS.failed))?,
        runtime_ms: unsigned(row, at!(FORMER_AGENTS.runtime_ms))?,
        registered_at: Timestamp(int(row, at!(FORMER_AGENTS.registered_at))?),
        gone_at: Timestamp(int(row, at!(FORMER_AGENTS.gone_at))?),
    })
}

pub(crate) const LANE: &str = list!(LANES, READ);

pub(crate) fn lane<R: Columns>(row: &R) -> Result<Lane, R::Error> {
    let key = text(row, at!(LANES.key))?;
    Ok(Lane {
        id: LaneId(unsigned(row, at!(LANES.lane))?),
        key: LaneKey::from_text(&key).ok_or_else(|| unreadable(at!(LANES.key), &key))?,
        rep: Rep(text(row, at!(LANES.rep))?.into()),
        ready: unsigned(row, at!(LANES.ready))?,
        held: unsigned(row, at!(LANES.held))?,
        head: unsigned(row, at!(LANES.head))?,
    })
}

pub(crate) const LEASE: &str = list!(LEASES, READ);

pub(crate) fn lease<R: Columns>(row: &R) -> Result<Lease, R::Error> {
    let key = text(row, at!(LEASES.file_path))?;
    let path = optional_text(row, at!(LEASES.path))?;
    Ok(Lease {
        path: LeasePath::stored(path.as_deref().unwrap_or(&key)),
        spelled: path.is_some().then(|| key.into()),
        agent: id(row, at!(LEASES.agent_id))?,
        task: optional_text(row, at!(LEASES.task_id))?.map(Into::into),
        acquired_at: when(row, at!(LEASES.acquired_at))?.unwrap_or_default(),
        expires_at: when(row, at!(LEASES.expires_at))?.unwrap_or_default(),
        renewals: number(row, at!(LEASES.renewed_count))?,
        fencing: unsigned(row, at!(LEASES.fencing))?,
        rev: unsigned(row, at!(LEASES.rev))?,
    })
}

pub(crate) const MESSAGE: &str = list!(MESSAGES, READ);

pub(crate) fn message<R: Columns>(row: &R) -> Result<Message, R::Error> {
    let acknowledged_by = optional_text(row, at!(MESSAGES.acknowledged_by))?;
    let handoff = optional_text(row, at!(MESSAGES.handoff_task))?;
    let payload = optional_text(row, at!(MESSAGES.payload))?;
    let to = recipients(optional_text(row, at!(MESSAGES.to_agent))?);
    let is_to_one = to.one().is_some();
    Ok(Message {
        number: unsigned(row, at!(MESSAGES.number))?,
        id: id(row, at!(MESSAGES.id))?,
        kind: text(row, at!(MESSAGES.type))?,
        from: id(row, at!(MESSAGES.from_agent))?,
        to,
        payload: payload
            .unwrap_or_else(|| "null".to_owned())
            .into_boxed_str(),
        ack_required: yes(row, at!(MESSAGES.ack_required))?,
        acknowledged: acknowledged_by
            .map(AgentId::from)
            .zip(when(row, at!(MESSAGES.acknowledged_at))?),
        // Everyone's row says nothing of anyone.
        delivered_at: when(row, at!(MESSAGES.delivered_at))?.filter(|_| is_to_one),
        expires_at: when(row, at!(MESSAGES.expires_at))?,
        created_at: when(row, at!(MESSAGES.created_at))?.unwrap_or_default(),
        rev: unsigned(row, at!(MESSAGES.rev))?,
        corr_id: CorrId::from(text(row, at!(MESSAGES.corr_id))?),
        handoff: handoff
            .map(TaskId::from)
            .zip(optional_unsigned(row, at!(MESSAGES.handoff_epoch))?),
        afar: private_json(row, at!(MESSAGES.afar))?,
        given: optional_number(row, at!(MESSAGES.given_session))?
            .zip(optional_number(row, at!(MESSAGES.given_number))?)
            .map(|(session, number)| Given { session, number }),
    })
}

/// Several ids stand there with spaces in between.
fn recipients(text: Option<String>) -> To {
    match text {
        Some(text) if text.contains(' ') => {
            To::Several(text.split(' ').map(AgentId::from).collect())
        }
        text => text.map(AgentId::from).into(),
    }
}

pub(crate) const DELIVERY: &str = list!(DELIVERIES, READ);

pub(crate) fn delivery<R: Columns>(row: &R) -> Result<Delivery, R::Error> {
    let reason = optional_text(row, at!(DELIVERIES.reason))?;
    let prio = row.int(at!(DELIVERIES.prio))?;
    let prio = prio.and_then(|prio| usize::try_from(prio).ok());
    let via = optional_text(row, at!(DELIVERIES.via))?;
    let stream = optional_text(row, at!(DELIVERIES.stream))?;
    Ok(Delivery {
        message: MessageId::from(text(row, at!(DELIVERIES.message))?),
        number: unsigned(row, at!(DELIVERIES.number))?,
        agent: id(row, at!(DELIVERIES.agent))?,
        state: match word(row, at!(DELIVERIES.state), DeliveryState::parse)? {
            DeliveryState::Expired if reason.is_some() => DeliveryState::Failed,
            state => state,
        },
        priority: prio
            .and_then(|prio| Priority::ALL.get(prio).copied())
            .unwrap_or(Priority::Medium),
        // That of a newer build is not known here.
        via: via.and_then(|via| Door::parse(&via)),
        stream: stream.map(Into::into),
        reason: reason.map(Into::into),
        delivered_at: instant(row, at!(DELIVERIES.delivered_at))?,
        acknowledged_at: instant(row, at!(DELIVERIES.acknowledged_at))?,
        expires_at: instant(row, at!(DELIVERIES.expires_at))?,
        handing_until: instant(row, at!(DELIVERIES.handing_until))?,
    })
}

pub(crate) const ATTEMPT: &str = list!(ATTEMPTS, READ);

pub(crate) fn attempt<R: Columns>(row: &R) -> Result<Attempt, R::Error> {
    let failure = optional_text(row, at!(ATTEMPTS.failure))?;
    Ok(Attempt {
        task: id(row, at!(ATTEMPTS.task))?,
        number: unsigned(row, at!(ATTEMPTS.number))?,
        epoch: unsigned(row, at!(ATTEMPTS.epoch))?,
        agent: id(row, at!(ATTEMPTS.agent))?,
        claimed_at: Timestamp(int(row, at!(ATTEMPTS.claimed_at))?),
        ended_at: Timestamp(int(row, at!(ATTEMPTS.ended_at))?),
        progress: read_progress(row, at!(ATTEMPTS.progress))?,
        outcome: word(row, at!(ATTEMPTS.outcome), Outcome::parse)?,
        failure: failure.as_deref().and_then(FailureKind::parse),
        message: optional_text(row, at!(ATTEMPTS.message))?,
        details: optional_text(row, at!(ATTEMPTS.details))?,
        suggested_action: optional_text(row, at!(ATTEMPTS.suggested))?,
        evidence: private_json(row, at!(ATTEMPTS.evidence))?
            .map(|all: Box<Vec<_>>| *all)
            .unwrap_or_default(),
    })
}

/// Seven columns from `first` on, which both quality tables have in one order.
fn metrics<R: Columns>(row: &R, first: usize) -> Result<Metrics, R::Error> {
    Ok(Metrics {
        build_success: row.int(first)?.unwrap_or(0) != 0,
        type_errors: number(row, first + 1)?,
        lint_errors: number(row, first + 2)?,
        lint_warnings: number(row, first + 3)?,
        tests_passing: number(row, first + 4)?,
        tests_failing: number(row, first + 5)?,
        test_coverage: row.real(first + 6)?,
    })
}

pub(crate) const SNAPSHOT: &str = list!(SNAPSHOTS, READ);

pub(crate) fn snapshot<R: Columns>(row: &R) -> Result<Snapshot, R::Error> {
    Ok(Snapshot {
        id: text(row, at!(SNAPSHOTS.id))?.into(),
        task: optional_text(row, at!(SNAPSHOTS.task_id))?.map(Into::into),
        agent: optional_text(row, at!(SNAPSHOTS.agent_id))?.map(Into::into),
        recorded_at: when(row, at!(SNAPSHOTS.recorded_at))?.unwrap_or_default(),
        metrics: metrics(row, at!(SNAPSHOTS.build_success))?,
    })
}

pub(crate) const BASELINE: &str = list!(BASELINES, READ);

pub(crate) fn baseline<R: Columns>(row: &R) -> Result<Baseline, R::Error> {
    Ok(Baseline {
        set_by: optional_text(row, at!(BASELINES.set_by))?.unwrap_or_default(),
        created_at: when(row, at!(BASELINES.created_at))?.unwrap_or_default(),
        updated_at: when(row, at!(BASELINES.updated_at))?.unwrap_or_default(),
        rev: unsigned(row, at!(BASELINES.rev))?,
        metrics: metrics(row, at!(BASELINES.build_success))?,
    })
}

pub(crate) const LEARNING: &str = list!(LEARNINGS, READ);

pub(crate) fn learning<R: Columns>(row: &R) -> Result<Learning, R::Error> {
    Ok(Learning {
        id: text(row, at!(LEARNINGS.id))?.into(),
        text: text(row, at!(LEARNINGS.text))?,
        task: optional_text(row, at!(LEARNINGS.task))?.map(Into::into),
        agent: optional_text(row, at!(LEARNINGS.agent))?.map(Into::into),
        created_at: Timestamp(int(row, at!(LEARNINGS.created_at))?),
    })
}

pub(crate) const TOKEN: &str = list!(TOKENS, READ);

pub(crate) fn token<R: Columns>(row: &R) -> Result<Token, R::Error> {
    let (scope, agent) = word(row, at!(TOKENS.scope), Token::read_grant)?;
    Ok(Token {
        id: text(row, at!(TOKENS.id))?.into(),
        name: text(row, at!(TOKENS.name))?,
        scope,
        agent,
        hash: hash(row, at!(TOKENS.hash))?,
        created_at: Timestamp(int(row, at!(TOKENS.created_at))?),
        revoked_at: instant(row, at!(TOKENS.revoked_at))?,
    })
}

pub(crate) const HEAD: &str = list!(HEADS, READ);

pub(crate) fn head<R: Columns>(row: &R) -> Result<Head, R::Error> {
    let counts = text(row, at!(HEADS.tasks))?;
    Ok(Head {
        seq: unsigned(row, at!(HEADS.seq))?,
        last_at: Timestamp(int(row, at!(HEADS.last_at))?),
        task_number: unsigned(row, at!(HEADS.task_number))?,
        message_number: unsigned(row, at!(HEADS.message_number))?,
        lane: unsigned(row, at!(HEADS.lane))?,
        fencing: unsigned(row, at!(HEADS.fencing))?,
        tasks: serde_json::from_str(&counts).map_err(|_| unreadable(at!(HEADS.tasks), &counts))?,
        queued_deliveries: unsigned(row, at!(HEADS.queued_deliveries))?,
        leases: unsigned(row, at!(HEADS.leases))?,
        idempotency_rows: unsigned(row, at!(HEADS.answer_rows))?,
        idempotency_bytes: unsigned(row, at!(HEADS.answer_bytes))?,
        served_at: Timestamp(int(row, at!(HEADS.served_at))?),
        floor: Timestamp(int(row, at!(HEADS.floor))?),
        last_message_at: Timestamp(int(row, at!(HEADS.last_message_at))?),
        epoch: LedgerEpoch {
            number: unsigned(row, at!(HEADS.epoch))?,
            after: unsigned(row, at!(HEADS.epoch_after))?,
        },
        outbox: unsigned(row, at!(HEADS.outbox))?,
    })
}

/// Where the clock stood when the head was written.
pub(crate) const MARK: &str = list!(HEADS, BESIDE);

pub(crate) fn mark<R: Columns>(row: &R) -> Result<Mark, R::Error> {
    mark_from(row, 0)
}

/// The same from a column on.
pub(crate) fn mark_from<R: Columns>(row: &R, column: usize) -> Result<Mark, R::Error> {
    Ok(Mark {
        at: Timestamp(int(row, column)?),
        wall: Timestamp(int(row, column + at!(BESIDE, HEADS.clock_wall))?),
        boot: text(row, column + at!(BESIDE, HEADS.clock_boot))?,
        ran: Duration::from_millis(unsigned(row, column + at!(BESIDE, HEADS.clock_ran_ms))?),
    })
}

/// Without the copies of a message for each reader.
pub(crate) const KEPT: &str = "coalesce((SELECT min(first) FROM sb_log), seq + 1),
    (SELECT count(*) FROM messages) - (SELECT count(*) FROM messages WHERE copy_of IS NOT NULL)";

pub(crate) fn kept<R: Columns>(row: &R) -> Result<Kept, R::Error> {
    Ok(Kept {
        oldest_event: unsigned(row, 0)?,
        messages: unsigned(row, 1)?,
    })
}

impl Unreadable {
    /// There is nothing of use in this column.
    pub fn absent(column: usize) -> Unreadable {
        nothing(column)
    }
}

pub(crate) fn optional_text<R: Columns>(
    row: &R,
    column: usize,
) -> Result<Option<String>, R::Error> {
    Ok(row.text(column)?.map(Cow::into_owned))
}

/// What only the hub reads, as JSON.
pub(crate) fn private_json<R: Columns, T: DeserializeOwned>(
    row: &R,
    column: usize,
) -> Result<Option<Box<T>>, R::Error> {
    let Some(text) = row.text(column)? else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text).map_err(|_| unreadable(column, &text))?;
    Ok(Some(Box::new(value)))
}

pub(crate) fn text<R: Columns>(row: &R, column: usize) -> Result<String, R::Error> {
    optional_text(row, column)?.ok_or_else(|| nothing(column).into())
}

pub(crate) fn id<R: Columns, T: From<String>>(row: &R, column: usize) -> Result<T, R::Error> {
    text(row, column).map(T::from)
}

pub(crate) fn strings<R: Columns>(row: &R, column: usize) -> Result<Vec<String>, R::Error> {
    Ok(row
        .text(column)?
        .map(|text| unlist(&text))
        .unwrap_or_default())
}

pub(crate) fn ids<R: Columns, T: From<String>>(row: &R, column: usize) -> Result<Vec<T>, R::Error> {
    Ok(strings(row, column)?.into_iter().map(T::from).collect())
}

pub(crate) fn when<R: Columns>(row: &R, column: usize) -> Result<Option<Timestamp>, R::Error> {
    let parse = |text: Cow<'_, str>| iso::parse(&text).ok_or_else(|| unreadable(column, &text));
    Ok(row.text(column)?.map(parse).transpose()?)
}

pub(crate) fn instant<R: Columns>(row: &R, column: usize) -> Result<Option<Timestamp>, R::Error> {
    Ok(row.int(column)?.map(Timestamp))
}

pub(crate) fn int<R: Columns>(row: &R, column: usize) -> Result<i64, R::Error> {
    row.int(column)?.ok_or_else(|| nothing(column).into())
}

pub(crate) fn optional_number<R: Columns, T: TryFrom<i64>>(
    row: &R,
    column: usize,
) -> Result<Option<T>, R::Error> {
    let fit = |value: i64| {
        T::try_from(value).map_err(|_| Unreadable {
            column,
            found: value.to_string(),
            expected: "a smaller number",
        })
    };
    Ok(row.int(column)?.map(fit).transpose()?)
}

pub(crate) fn number<R: Columns, T: TryFrom<i64>>(row: &R, column: usize) -> Result<T, R::Error> {
    optional_number(row, column)?.ok_or_else(|| nothing(column).into())
}

pub(crate) fn yes<R: Columns>(row: &R, column: usize) -> Result<bool, R::Error> {
    Ok(int(row, column)? != 0)
}

pub(crate) fn unsigned<R: Columns>(row: &R, column: usize) -> Result<u64, R::Error> {
    Ok(u64::try_from(int(row, column)?).unwrap_or(0))
}

pub(crate) fn optional_unsigned<R: Columns>(
    row: &R,
    column: usize,
) -> Result<Option<u64>, R::Error> {
    Ok(row
        .int(column)?
        .map(|value| u64::try_from(value).unwrap_or(0)))
}

fn hash<R: Columns>(row: &R, column: usize) -> Result<[u8; 32], R::Error> {
    let found = row.bytes(column)?.unwrap_or_default();
    Ok(<[u8; 32]>::try_from(found).map_err(|_| Unreadable {
        column,
        found: format!("{} bytes", found.len()),
        expected: "a hash of 32 bytes",
    })?)
}

pub(crate) fn word<R: Columns, T>(
    row: &R,
    column: usize,
    parse: fn(&str) -> Option<T>,
) -> Result<T, R::Error> {
    let text = row.text(column)?.ok_or_else(|| nothing(column))?;
    Ok(parse(&text).ok_or_else(|| unreadable(column, &text))?)
}

fn nothing(column: usize) -> Unreadable {
    Unreadable {
        column,
        found: "nothing".to_owned(),
        expected: "a value",
    }
}

pub(crate) fn unreadable(column: usize, text: &str) -> Unreadable {
    Unreadable {
        column,
        found: format!("{text:?}"),
        expected: "a known word or instant",
    }
}
