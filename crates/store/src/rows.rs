//! Rows of a ledger as nouns of the rules, whichever engine keeps them.
//!
//! Direct clients may have written some of them, so nothing here trusts a word: what cannot be read is
//! reported with what stood there. How nouns are written is in [`crate::columns`].

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_core::agent::{AgentMetrics, Current, Stream};
use switchboard_core::attempt::{Attempt, Outcome};
use switchboard_core::lane::Rep;
use switchboard_core::slice::Kept;
use switchboard_core::task::{Failure, OnDependencyFailure};
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, AgentKind, Baseline, Capabilities, CorrId, Delivery, DeliveryState, Doing,
    Door, FailureKind, FormerAgent, Head, Lane, LaneId, LaneKey, Learning, Lease, LeasePath,
    LedgerEpoch, Machine, Message, MessageId, Metrics, Phase, Presence, Priority, Progress, Skills,
    Snapshot, Task, TaskId, TaskKind, TaskState, Timestamp, Watch, WhenSpent, iso, limits,
};

use crate::clock::Mark;
use crate::text::unlist;

mod stream;

pub(crate) use stream::{ENGRAM, HELD, WHOLE_ENGRAM, engram, held, record, whole_engram};

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
#[error("a row of the ledger has {found} in column {column}, where {expected} is expected")]
pub(crate) struct Unreadable {
    pub column: usize,
    found: String,
    expected: &'static str,
}

pub(crate) const TASK: &str = "number, id, title, description, status, priority, type, assigned_agent, dependencies, blockers, \
    required_skills, files, estimated_minutes, branch, audience, on_dependency_failure, corr_id, retry_count, max_retries, \
    previous_agents, failure_type, last_error, epoch, started_at, worked_ms, progress, result, quality_snapshot_id, dependants, \
    lane, created_at, updated_at, rev, state_at, claimed_at, when_spent, deadline_at, stale_ms, look_at, epoch_needed";

/// How many columns [`TASK`] names.
pub(crate) const TASK_COLUMNS: usize = 40;

pub(crate) fn task<R: Columns>(row: &R) -> Result<Task, R::Error> {
    let status = text(row, 4)?;
    let by = || -> Result<AgentId, R::Error> {
        let by = optional_text(row, 7)?;
        Ok(AgentId::from(by.unwrap_or_default()))
    };
    let at = Timestamp(int(row, 33)?);
    let state = match status.as_str() {
        "blocked" => TaskState::Waiting,
        "ready" => TaskState::Ready,
        // Written by hand, and not seen yet.
        "pending" => TaskState::Ready,
        "claimed" => TaskState::Claimed { by: by()?, at },
        "in_progress" => TaskState::InProgress { by: by()?, at },
        "pending_retry" => TaskState::RetryWait { until: at },
        "needs_review" => TaskState::NeedsPerson { by: by()?, at },
        "completed" => TaskState::Completed { by: by()?, at },
        "failed" => TaskState::Failed { at },
        "canceled" => TaskState::Canceled { at },
        other => return Err(unreadable(4, other).into()),
    };
    let failure_kind = optional_text(row, 20)?;
    let failure_text = optional_text(row, 21)?;
    Ok(Task {
        number: unsigned(row, 0)?,
        id: id(row, 1)?,
        title: text(row, 2)?,
        description: optional_text(row, 3)?,
        state,
        priority: word(row, 5, Priority::parse)?,
        kind: word(row, 6, TaskKind::parse)?,
        dependencies: ids(row, 8)?,
        blockers: ids(row, 9)?,
        required_skills: Skills::new(strings(row, 10)?),
        files: strings(row, 11)?,
        estimated_minutes: optional_number(row, 12)?,
        branch: optional_text(row, 13)?,
        audience: ids(row, 14)?,
        on_dependency_failure: word(row, 15, OnDependencyFailure::parse)?,
        corr_id: CorrId::from(text(row, 16)?),
        retries: number(row, 17)?,
        max_retries: number(row, 18)?,
        when_spent: optional_text(row, 35)?
            .and_then(|word| WhenSpent::parse(&word))
            .unwrap_or(WhenSpent::Fail),
        previous_agents: ids(row, 19)?,
        last_failure: (failure_kind.is_some() || failure_text.is_some()).then(|| Failure {
            kind: failure_kind
                .as_deref()
                .and_then(FailureKind::parse)
                .unwrap_or(FailureKind::TaskError),
            message: failure_text.unwrap_or_default(),
        }),
        epoch: unsigned(row, 22)?,
        epoch_needed: int(row, 39)? != 0,
        started_at: when(row, 23)?,
        worked_ms: optional_unsigned(row, 24)?,
        progress: progress(row, 25)?,
        result: optional_text(row, 26)?.map(String::into_boxed_str),
        snapshot: optional_text(row, 27)?.map(Into::into),
        dependants: number(row, 28)?,
        lane: optional_unsigned(row, 29)?.map(LaneId),
        watch: watch(row, 36)?,
        created_at: when(row, 30)?.unwrap_or_default(),
        updated_at: when(row, 31)?.unwrap_or_default(),
        rev: unsigned(row, 32)?,
    })
}

/// Three columns from `first` on, all or none of them there.
fn watch<R: Columns>(row: &R, first: usize) -> Result<Option<Watch>, R::Error> {
    let (Some(deadline_at), Some(stale_after), Some(look_at)) = (
        instant(row, first)?,
        optional_unsigned(row, first + 1)?,
        instant(row, first + 2)?,
    ) else {
        return Ok(None);
    };
    Ok(Some(Watch {
        deadline_at,
        stale_after: Duration::from_millis(stale_after),
        look_at,
    }))
}

/// Progress as it stands in a text column.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredProgress {
    pub phase: Phase,
    pub percent: u8,
    pub note: String,
    pub files: Vec<String>,
    pub told_at: Timestamp,
    pub told_percent: u8,
}

fn progress<R: Columns>(row: &R, column: usize) -> Result<Option<Progress>, R::Error> {
    let text = optional_text(row, column)?;
    let stored: Option<StoredProgress> = text
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    Ok(stored.map(|stored| Progress {
        phase: stored.phase,
        percent: stored.percent,
        note: stored.note,
        files: stored.files,
        told_at: stored.told_at,
        told_percent: stored.told_percent,
    }))
}

pub(crate) const FORMER_AGENT: &str =
    "id, name, completed, failed, runtime_ms, registered_at, gone_at";

pub(crate) fn former_agent<R: Columns>(row: &R) -> Result<FormerAgent, R::Error> {
    Ok(FormerAgent {
        id: id(row, 0)?,
        name: text(row, 1)?,
        completed: unsigned(row, 2)?,
        failed: unsigned(row, 3)?,
        runtime_ms: unsigned(row, 4)?,
        registered_at: Timestamp(int(row, 5)?),
        gone_at: Timestamp(int(row, 6)?),
    })
}

pub(crate) const AGENT: &str = "id, name, type, status, presence, presence_at, skills, max_task_minutes, can_run_tests, \
    can_run_build, can_access_browser, machine_id, machine_hostname, pid, registered_at, seen_at, heartbeat_count, \
    last_active_at, holds, current_task_id, current_task_started_at, current_task_progress, current_task_phase, \
    tasks_completed, tasks_failed, runtime_ms, metrics, commands, key_generation, inbox, rev, doors, silent_ms, stream";

#[derive(Serialize, Deserialize)]
pub(crate) struct StoredMetrics {
    pub memory_used_mb: f64,
    pub tasks_completed_session: u64,
    pub at: Timestamp,
}

pub(crate) fn agent<R: Columns>(row: &R) -> Result<Agent, R::Error> {
    let presence = text(row, 4)?;
    let at = Timestamp(int(row, 5)?);
    let presence = match presence.as_str() {
        "live" => Presence::Live(Doing::parse(&text(row, 3)?).unwrap_or(Doing::Idle)),
        "silent" => Presence::Silent { since: at },
        "gone" => Presence::Gone { at },
        other => return Err(unreadable(4, other).into()),
    };
    let machine_id = optional_text(row, 11)?;
    let (hostname, pid): (Option<String>, Option<u32>) =
        (optional_text(row, 12)?, optional_number(row, 13)?);
    let current = optional_text(row, 19)?;
    let since = when(row, 20)?;
    let (percent, phase): (Option<u8>, Option<String>) =
        (optional_number(row, 21)?, optional_text(row, 22)?);
    let metrics = optional_text(row, 26)?;
    let metrics: Option<StoredMetrics> = metrics.and_then(|text| serde_json::from_str(&text).ok());
    let commands = text(row, 27)?;
    Ok(Agent {
        id: id(row, 0)?,
        name: text(row, 1)?,
        kind: word(row, 2, AgentKind::parse)?,
        presence,
        skills: Skills::new(strings(row, 6)?),
        capabilities: Capabilities {
            max_task_minutes: number(row, 7)?,
            can_run_tests: yes(row, 8)?,
            can_run_build: yes(row, 9)?,
            can_access_browser: yes(row, 10)?,
        },
        machine: machine_id.map(|id| Machine {
            id,
            hostname: hostname.unwrap_or_default(),
            pid: pid.unwrap_or_default(),
        }),
        registered_at: when(row, 14)?.unwrap_or_default(),
        seen_at: Timestamp(int(row, 15)?),
        heartbeats: unsigned(row, 16)?,
        last_active_at: when(row, 17)?.unwrap_or_default(),
        holds: ids(row, 18)?,
        current: current.map(|task| Current {
            task: task.into(),
            since: since.unwrap_or_default(),
            percent,
            phase: phase.as_deref().and_then(Phase::parse),
        }),
        completed: unsigned(row, 23)?,
        failed: unsigned(row, 24)?,
        runtime_ms: unsigned(row, 25)?,
        metrics: metrics.map(|kept| AgentMetrics {
            memory_used_mb: kept.memory_used_mb,
            tasks_completed_session: kept.tasks_completed_session,
            at: kept.at,
        }),
        commands: if commands == "[]" {
            Vec::new()
        } else {
            serde_json::from_str(&commands).unwrap_or_default()
        },
        key_generation: number(row, 28)?,
        inbox: number(row, 29)?,
        doors: doors(row, 31)?,
        silent_after: optional_unsigned(row, 32)?
            .map_or(limits::SILENT_AFTER, Duration::from_millis),
        stream: stream(row, 33)?,
        rev: unsigned(row, 30)?,
    })
}

/// Most agents have nothing there, and notes of older builds not even that.
fn stream<R: Columns>(row: &R, column: usize) -> Result<Stream, R::Error> {
    let text = optional_text(row, column)?.filter(|text| text != "{}");
    Ok(text
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default())
}

/// A note of an older build has none: its agents came by the only door there was.
fn doors<R: Columns>(row: &R, column: usize) -> Result<Vec<Door>, R::Error> {
    let Some(text) = optional_text(row, column)? else {
        return Ok(vec![Door::Jetpack]);
    };
    Ok(unlist(&text)
        .iter()
        .filter_map(|word| Door::parse(word))
        .collect())
}

pub(crate) const LANE: &str = "lane, key, rep, ready, held, head";

pub(crate) fn lane<R: Columns>(row: &R) -> Result<Lane, R::Error> {
    let key = text(row, 1)?;
    Ok(Lane {
        id: LaneId(unsigned(row, 0)?),
        key: LaneKey::from_text(&key).ok_or_else(|| unreadable(1, &key))?,
        rep: Rep(text(row, 2)?.into()),
        ready: unsigned(row, 3)?,
        held: unsigned(row, 4)?,
        head: unsigned(row, 5)?,
    })
}

pub(crate) const LEASE: &str =
    "file_path, agent_id, task_id, acquired_at, expires_at, renewed_count, fencing, rev";

pub(crate) fn lease<R: Columns>(row: &R) -> Result<Lease, R::Error> {
    Ok(Lease {
        path: LeasePath::stored(&text(row, 0)?),
        agent: id(row, 1)?,
        task: optional_text(row, 2)?.map(Into::into),
        acquired_at: when(row, 3)?.unwrap_or_default(),
        expires_at: when(row, 4)?.unwrap_or_default(),
        renewals: number(row, 5)?,
        fencing: unsigned(row, 6)?,
        rev: unsigned(row, 7)?,
    })
}

pub(crate) const MESSAGE: &str = "number, id, type, from_agent, to_agent, payload, ack_required, acknowledged_at, acknowledged_by, \
    delivered_at, expires_at, created_at, rev, corr_id, handoff_task, handoff_epoch";

pub(crate) fn message<R: Columns>(row: &R) -> Result<Message, R::Error> {
    let acknowledged_by = optional_text(row, 8)?;
    let handoff = optional_text(row, 14)?;
    let payload = optional_text(row, 5)?;
    let to = optional_text(row, 4)?;
    let is_to_one = to.is_some();
    Ok(Message {
        number: unsigned(row, 0)?,
        id: id(row, 1)?,
        kind: text(row, 2)?,
        from: id(row, 3)?,
        to: to.map(Into::into),
        payload: payload
            .unwrap_or_else(|| "null".to_owned())
            .into_boxed_str(),
        ack_required: yes(row, 6)?,
        acknowledged: acknowledged_by.map(AgentId::from).zip(when(row, 7)?),
        // Everyone's row says nothing of anyone.
        delivered_at: when(row, 9)?.filter(|_| is_to_one),
        expires_at: when(row, 10)?,
        created_at: when(row, 11)?.unwrap_or_default(),
        rev: unsigned(row, 12)?,
        corr_id: CorrId::from(text(row, 13)?),
        handoff: handoff.map(TaskId::from).zip(optional_unsigned(row, 15)?),
    })
}

pub(crate) const DELIVERY: &str =
    "message, number, agent, state, delivered_at, acknowledged_at, expires_at, handing_until";

pub(crate) fn delivery<R: Columns>(row: &R) -> Result<Delivery, R::Error> {
    Ok(Delivery {
        message: MessageId::from(text(row, 0)?),
        number: unsigned(row, 1)?,
        agent: id(row, 2)?,
        state: word(row, 3, DeliveryState::parse)?,
        delivered_at: instant(row, 4)?,
        acknowledged_at: instant(row, 5)?,
        expires_at: instant(row, 6)?,
        handing_until: instant(row, 7)?,
    })
}

pub(crate) const ATTEMPT: &str = "task, number, epoch, agent, claimed_at, ended_at, progress, outcome, failure, message, details, suggested";

pub(crate) fn attempt<R: Columns>(row: &R) -> Result<Attempt, R::Error> {
    let failure = optional_text(row, 8)?;
    Ok(Attempt {
        task: id(row, 0)?,
        number: unsigned(row, 1)?,
        epoch: unsigned(row, 2)?,
        agent: id(row, 3)?,
        claimed_at: Timestamp(int(row, 4)?),
        ended_at: Timestamp(int(row, 5)?),
        progress: progress(row, 6)?,
        outcome: word(row, 7, Outcome::parse)?,
        failure: failure.as_deref().and_then(FailureKind::parse),
        message: optional_text(row, 9)?,
        details: optional_text(row, 10)?,
        suggested_action: optional_text(row, 11)?,
    })
}

const METRICS: usize = 7;

/// Seven columns, in the order of both quality tables, from `first` on.
fn metrics<R: Columns>(row: &R, first: usize) -> Result<Metrics, R::Error> {
    debug_assert_eq!(METRICS, 7);
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

pub(crate) const SNAPSHOT: &str = "id, task_id, agent_id, recorded_at, build_success, type_errors, lint_errors, lint_warnings, \
    tests_passing, tests_failing, test_coverage, rowid";

pub(crate) fn snapshot<R: Columns>(row: &R) -> Result<Snapshot, R::Error> {
    Ok(Snapshot {
        id: text(row, 0)?.into(),
        task: optional_text(row, 1)?.map(Into::into),
        agent: optional_text(row, 2)?.map(Into::into),
        recorded_at: when(row, 3)?.unwrap_or_default(),
        metrics: metrics(row, 4)?,
    })
}

pub(crate) const BASELINE: &str = "set_by, created_at, updated_at, rev, build_success, type_errors, lint_errors, lint_warnings, \
    tests_passing, tests_failing, test_coverage";

pub(crate) fn baseline<R: Columns>(row: &R) -> Result<Baseline, R::Error> {
    Ok(Baseline {
        set_by: optional_text(row, 0)?.unwrap_or_default(),
        created_at: when(row, 1)?.unwrap_or_default(),
        updated_at: when(row, 2)?.unwrap_or_default(),
        rev: unsigned(row, 3)?,
        metrics: metrics(row, 4)?,
    })
}

pub(crate) fn learning<R: Columns>(row: &R) -> Result<Learning, R::Error> {
    Ok(Learning {
        id: text(row, 0)?.into(),
        text: text(row, 1)?,
        task: optional_text(row, 2)?.map(Into::into),
        agent: optional_text(row, 3)?.map(Into::into),
        created_at: Timestamp(int(row, 4)?),
    })
}

pub(crate) const TOKEN: &str = "id, name, scope, hash, created_at, revoked_at";

pub(crate) fn token<R: Columns>(row: &R) -> Result<Token, R::Error> {
    let (scope, agent) = word(row, 2, Token::read_grant)?;
    Ok(Token {
        id: text(row, 0)?.into(),
        name: text(row, 1)?,
        scope,
        agent,
        hash: hash(row, 3)?,
        created_at: Timestamp(int(row, 4)?),
        revoked_at: instant(row, 5)?,
    })
}

pub(crate) const HEAD: &str = "seq, last_at, task_number, message_number, lane, fencing, tasks, queued_deliveries, leases, \
    answer_rows, answer_bytes, served_at, floor, last_message_at, epoch, epoch_after";

pub(crate) fn head<R: Columns>(row: &R) -> Result<Head, R::Error> {
    let counts = text(row, 6)?;
    Ok(Head {
        seq: unsigned(row, 0)?,
        last_at: Timestamp(int(row, 1)?),
        task_number: unsigned(row, 2)?,
        message_number: unsigned(row, 3)?,
        lane: unsigned(row, 4)?,
        fencing: unsigned(row, 5)?,
        tasks: serde_json::from_str(&counts).map_err(|_| unreadable(6, &counts))?,
        queued_deliveries: unsigned(row, 7)?,
        leases: unsigned(row, 8)?,
        idempotency_rows: unsigned(row, 9)?,
        idempotency_bytes: unsigned(row, 10)?,
        served_at: Timestamp(int(row, 11)?),
        floor: Timestamp(int(row, 12)?),
        last_message_at: Timestamp(int(row, 13)?),
        epoch: LedgerEpoch {
            number: unsigned(row, 14)?,
            after: unsigned(row, 15)?,
        },
    })
}

/// Where the clock stood when the head was written.
pub(crate) const MARK: &str = "clock_at, clock_wall, clock_boot, clock_ran_ms";

pub(crate) fn mark<R: Columns>(row: &R) -> Result<Mark, R::Error> {
    mark_from(row, 0)
}

/// The same from a column on.
pub(crate) fn mark_from<R: Columns>(row: &R, column: usize) -> Result<Mark, R::Error> {
    Ok(Mark {
        at: Timestamp(int(row, column)?),
        wall: Timestamp(int(row, column + 1)?),
        boot: text(row, column + 2)?,
        ran: Duration::from_millis(unsigned(row, column + 3)?),
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

fn optional_text<R: Columns>(row: &R, column: usize) -> Result<Option<String>, R::Error> {
    Ok(row.text(column)?.map(Cow::into_owned))
}

fn text<R: Columns>(row: &R, column: usize) -> Result<String, R::Error> {
    optional_text(row, column)?.ok_or_else(|| nothing(column).into())
}

fn id<R: Columns, T: From<String>>(row: &R, column: usize) -> Result<T, R::Error> {
    text(row, column).map(T::from)
}

fn strings<R: Columns>(row: &R, column: usize) -> Result<Vec<String>, R::Error> {
    Ok(row
        .text(column)?
        .map(|text| unlist(&text))
        .unwrap_or_default())
}

fn ids<R: Columns, T: From<String>>(row: &R, column: usize) -> Result<Vec<T>, R::Error> {
    Ok(strings(row, column)?.into_iter().map(T::from).collect())
}

fn when<R: Columns>(row: &R, column: usize) -> Result<Option<Timestamp>, R::Error> {
    let parse = |text: Cow<'_, str>| iso::parse(&text).ok_or_else(|| unreadable(column, &text));
    Ok(row.text(column)?.map(parse).transpose()?)
}

fn instant<R: Columns>(row: &R, column: usize) -> Result<Option<Timestamp>, R::Error> {
    Ok(row.int(column)?.map(Timestamp))
}

fn int<R: Columns>(row: &R, column: usize) -> Result<i64, R::Error> {
    row.int(column)?.ok_or_else(|| nothing(column).into())
}

fn optional_number<R: Columns, T: TryFrom<i64>>(
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

fn number<R: Columns, T: TryFrom<i64>>(row: &R, column: usize) -> Result<T, R::Error> {
    optional_number(row, column)?.ok_or_else(|| nothing(column).into())
}

fn yes<R: Columns>(row: &R, column: usize) -> Result<bool, R::Error> {
    Ok(int(row, column)? != 0)
}

fn unsigned<R: Columns>(row: &R, column: usize) -> Result<u64, R::Error> {
    Ok(u64::try_from(int(row, column)?).unwrap_or(0))
}

fn optional_unsigned<R: Columns>(row: &R, column: usize) -> Result<Option<u64>, R::Error> {
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

fn word<R: Columns, T>(
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

fn unreadable(column: usize, text: &str) -> Unreadable {
    Unreadable {
        column,
        found: format!("{text:?}"),
        expected: "a known word or instant",
    }
}
