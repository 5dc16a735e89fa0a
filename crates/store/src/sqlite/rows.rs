//! Rows of the file as nouns of the rules.
//!
//! Direct clients may have written some of them, so nothing here trusts a word: what cannot be read is
//! reported with its table and column.

use rusqlite::Row;
use serde::{Deserialize, Serialize};
use switchboard_core::agent::{AgentMetrics, Current};
use switchboard_core::attempt::{Attempt, Outcome};
use switchboard_core::lane::Rep;
use switchboard_core::task::{Failure, OnDependencyFailure};
use switchboard_core::token::{Scope, Token};
use switchboard_core::{
    Agent, AgentId, AgentKind, Baseline, Capabilities, CorrId, Delivery, DeliveryState, Doing,
    FailureKind, FormerAgent, Head, Lane, LaneId, LaneKey, Learning, Lease, LeasePath, Machine,
    Message, MessageId, Metrics, Phase, Presence, Priority, Progress, Skills, Snapshot, Task,
    TaskId, TaskKind, TaskState, Timestamp, iso,
};

use super::text::unlist;

pub(super) const TASK: &str = "number, id, title, description, status, priority, type, assigned_agent, dependencies, blockers, \
    required_skills, files, estimated_minutes, branch, audience, on_dependency_failure, corr_id, retry_count, max_retries, \
    previous_agents, failure_type, last_error, epoch, started_at, worked_ms, progress, result, quality_snapshot_id, dependants, \
    lane, created_at, updated_at, rev, state_at, claimed_at";

/// How many columns [`TASK`] names.
pub(super) const TASK_COLUMNS: usize = 35;

pub(super) fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let status: String = row.get(4)?;
    let by = || -> rusqlite::Result<AgentId> {
        let by: Option<String> = row.get(7)?;
        Ok(AgentId::from(by.unwrap_or_default()))
    };
    let at = Timestamp(row.get(33)?);
    let state = match status.as_str() {
        "blocked" => TaskState::Waiting,
        "ready" => TaskState::Ready,
        "claimed" => TaskState::Claimed { by: by()?, at },
        "in_progress" => TaskState::InProgress { by: by()?, at },
        "pending_retry" => TaskState::RetryWait { until: at },
        "needs_review" => TaskState::NeedsPerson { by: by()?, at },
        "completed" => TaskState::Completed { by: by()?, at },
        "failed" => TaskState::Failed { at },
        "canceled" => TaskState::Canceled { at },
        other => return Err(unreadable(4, other)),
    };
    let failure_kind: Option<String> = row.get(20)?;
    let failure_text: Option<String> = row.get(21)?;
    Ok(Task {
        number: unsigned(row, 0)?,
        id: id(row, 1)?,
        title: row.get(2)?,
        description: row.get(3)?,
        state,
        priority: word(row, 5, Priority::parse)?,
        kind: word(row, 6, TaskKind::parse)?,
        dependencies: ids(row, 8)?,
        blockers: ids(row, 9)?,
        required_skills: Skills::new(strings(row, 10)?),
        files: strings(row, 11)?,
        estimated_minutes: row.get(12)?,
        branch: row.get(13)?,
        audience: ids(row, 14)?,
        on_dependency_failure: word(row, 15, OnDependencyFailure::parse)?,
        corr_id: CorrId::from(row.get::<_, String>(16)?),
        retries: row.get(17)?,
        max_retries: row.get(18)?,
        previous_agents: ids(row, 19)?,
        last_failure: failure_kind
            .as_deref()
            .and_then(FailureKind::parse)
            .map(|kind| Failure {
                kind,
                message: failure_text.unwrap_or_default(),
            }),
        epoch: unsigned(row, 22)?,
        started_at: when(row, 23)?,
        worked_ms: optional_unsigned(row, 24)?,
        progress: progress(row, 25)?,
        result: row
            .get::<_, Option<String>>(26)?
            .map(String::into_boxed_str),
        snapshot: row.get::<_, Option<String>>(27)?.map(Into::into),
        dependants: row.get(28)?,
        lane: optional_unsigned(row, 29)?.map(LaneId),
        created_at: when(row, 30)?.unwrap_or_default(),
        updated_at: when(row, 31)?.unwrap_or_default(),
        rev: unsigned(row, 32)?,
    })
}

/// Progress as it stands in a text column.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredProgress {
    pub phase: Phase,
    pub percent: u8,
    pub note: String,
    pub files: Vec<String>,
    pub told_at: Timestamp,
    pub told_percent: u8,
}

fn progress(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Progress>> {
    let text: Option<String> = row.get(column)?;
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

pub(super) fn store_progress(progress: Option<&Progress>) -> Option<String> {
    let progress = progress?;
    let stored = StoredProgress {
        phase: progress.phase,
        percent: progress.percent,
        note: progress.note.clone(),
        files: progress.files.clone(),
        told_at: progress.told_at,
        told_percent: progress.told_percent,
    };
    serde_json::to_string(&stored).ok()
}

pub(super) const FORMER_AGENT: &str =
    "id, name, completed, failed, runtime_ms, registered_at, gone_at";

pub(super) fn former_agent(row: &Row<'_>) -> rusqlite::Result<FormerAgent> {
    Ok(FormerAgent {
        id: id(row, 0)?,
        name: row.get(1)?,
        completed: unsigned(row, 2)?,
        failed: unsigned(row, 3)?,
        runtime_ms: unsigned(row, 4)?,
        registered_at: Timestamp(row.get(5)?),
        gone_at: Timestamp(row.get(6)?),
    })
}

pub(super) const AGENT: &str = "id, name, type, status, presence, presence_at, skills, max_task_minutes, can_run_tests, \
    can_run_build, can_access_browser, machine_id, machine_hostname, pid, registered_at, seen_at, heartbeat_count, \
    last_active_at, holds, current_task_id, current_task_started_at, current_task_progress, current_task_phase, \
    tasks_completed, tasks_failed, runtime_ms, metrics, commands, key_generation, inbox, rev";

#[derive(Serialize, Deserialize)]
pub(super) struct StoredMetrics {
    pub memory_used_mb: f64,
    pub tasks_completed_session: u64,
    pub at: Timestamp,
}

pub(super) fn agent(row: &Row<'_>) -> rusqlite::Result<Agent> {
    let presence: String = row.get(4)?;
    let at = Timestamp(row.get(5)?);
    let presence = match presence.as_str() {
        "live" => Presence::Live(Doing::parse(&row.get::<_, String>(3)?).unwrap_or(Doing::Idle)),
        "silent" => Presence::Silent { since: at },
        "gone" => Presence::Gone { at },
        other => return Err(unreadable(4, other)),
    };
    let machine_id: Option<String> = row.get(11)?;
    let (hostname, pid): (Option<String>, Option<u32>) = (row.get(12)?, row.get(13)?);
    let current: Option<String> = row.get(19)?;
    let since = when(row, 20)?;
    let (percent, phase): (Option<u8>, Option<String>) = (row.get(21)?, row.get(22)?);
    let metrics: Option<String> = row.get(26)?;
    let metrics: Option<StoredMetrics> = metrics.and_then(|text| serde_json::from_str(&text).ok());
    let commands: String = row.get(27)?;
    Ok(Agent {
        id: id(row, 0)?,
        name: row.get(1)?,
        kind: word(row, 2, AgentKind::parse)?,
        presence,
        skills: Skills::new(strings(row, 6)?),
        capabilities: Capabilities {
            max_task_minutes: row.get(7)?,
            can_run_tests: row.get(8)?,
            can_run_build: row.get(9)?,
            can_access_browser: row.get(10)?,
        },
        machine: machine_id.map(|id| Machine {
            id,
            hostname: hostname.unwrap_or_default(),
            pid: pid.unwrap_or_default(),
        }),
        registered_at: when(row, 14)?.unwrap_or_default(),
        seen_at: Timestamp(row.get(15)?),
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
        key_generation: row.get(28)?,
        inbox: row.get(29)?,
        rev: unsigned(row, 30)?,
    })
}

pub(super) const LANE: &str = "lane, key, rep, ready, held, head";

pub(super) fn lane(row: &Row<'_>) -> rusqlite::Result<Lane> {
    let key: String = row.get(1)?;
    Ok(Lane {
        id: LaneId(unsigned(row, 0)?),
        key: LaneKey::from_text(&key).ok_or_else(|| unreadable(1, &key))?,
        rep: Rep(row.get::<_, String>(2)?.into()),
        ready: unsigned(row, 3)?,
        held: unsigned(row, 4)?,
        head: unsigned(row, 5)?,
    })
}

pub(super) const LEASE: &str =
    "file_path, agent_id, task_id, acquired_at, expires_at, renewed_count, fencing, rev";

pub(super) fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        path: LeasePath::stored(&row.get::<_, String>(0)?),
        agent: id(row, 1)?,
        task: row.get::<_, Option<String>>(2)?.map(Into::into),
        acquired_at: when(row, 3)?.unwrap_or_default(),
        expires_at: when(row, 4)?.unwrap_or_default(),
        renewals: row.get(5)?,
        fencing: unsigned(row, 6)?,
        rev: unsigned(row, 7)?,
    })
}

pub(super) const MESSAGE: &str = "number, id, type, from_agent, to_agent, payload, ack_required, acknowledged_at, acknowledged_by, \
    delivered_at, expires_at, created_at, rev, corr_id, handoff_task, handoff_epoch";

pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    let acknowledged_by: Option<String> = row.get(8)?;
    let handoff: Option<String> = row.get(14)?;
    let payload: Option<String> = row.get(5)?;
    Ok(Message {
        number: unsigned(row, 0)?,
        id: id(row, 1)?,
        kind: row.get(2)?,
        from: id(row, 3)?,
        to: row.get::<_, Option<String>>(4)?.map(Into::into),
        payload: payload
            .unwrap_or_else(|| "null".to_owned())
            .into_boxed_str(),
        ack_required: row.get(6)?,
        acknowledged: acknowledged_by.map(AgentId::from).zip(when(row, 7)?),
        delivered_at: when(row, 9)?,
        expires_at: when(row, 10)?,
        created_at: when(row, 11)?.unwrap_or_default(),
        rev: unsigned(row, 12)?,
        corr_id: CorrId::from(row.get::<_, String>(13)?),
        handoff: handoff.map(TaskId::from).zip(optional_unsigned(row, 15)?),
    })
}

pub(super) const DELIVERY: &str =
    "message, number, agent, state, delivered_at, acknowledged_at, expires_at";

pub(super) fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        message: MessageId::from(row.get::<_, String>(0)?),
        number: unsigned(row, 1)?,
        agent: id(row, 2)?,
        state: word(row, 3, DeliveryState::parse)?,
        delivered_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        acknowledged_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        expires_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
    })
}

pub(super) const ATTEMPT: &str = "task, number, epoch, agent, claimed_at, ended_at, progress, outcome, failure, message, details, suggested";

pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let failure: Option<String> = row.get(8)?;
    Ok(Attempt {
        task: id(row, 0)?,
        number: unsigned(row, 1)?,
        epoch: unsigned(row, 2)?,
        agent: id(row, 3)?,
        claimed_at: Timestamp(row.get(4)?),
        ended_at: Timestamp(row.get(5)?),
        progress: progress(row, 6)?,
        outcome: word(row, 7, Outcome::parse)?,
        failure: failure.as_deref().and_then(FailureKind::parse),
        message: row.get(9)?,
        details: row.get(10)?,
        suggested_action: row.get(11)?,
    })
}

const METRICS: usize = 7;

/// Seven columns, in the order of both quality tables, from `first` on.
fn metrics(row: &Row<'_>, first: usize) -> rusqlite::Result<Metrics> {
    debug_assert_eq!(METRICS, 7);
    Ok(Metrics {
        build_success: row.get::<_, Option<bool>>(first)?.unwrap_or(false),
        type_errors: row.get(first + 1)?,
        lint_errors: row.get(first + 2)?,
        lint_warnings: row.get(first + 3)?,
        tests_passing: row.get(first + 4)?,
        tests_failing: row.get(first + 5)?,
        test_coverage: row.get(first + 6)?,
    })
}

pub(super) const SNAPSHOT: &str = "id, task_id, agent_id, recorded_at, build_success, type_errors, lint_errors, lint_warnings, \
    tests_passing, tests_failing, test_coverage, rowid";

pub(super) fn snapshot(row: &Row<'_>) -> rusqlite::Result<Snapshot> {
    Ok(Snapshot {
        id: row.get::<_, String>(0)?.into(),
        task: row.get::<_, Option<String>>(1)?.map(Into::into),
        agent: row.get::<_, Option<String>>(2)?.map(Into::into),
        recorded_at: when(row, 3)?.unwrap_or_default(),
        metrics: metrics(row, 4)?,
    })
}

pub(super) const BASELINE: &str = "set_by, created_at, updated_at, rev, build_success, type_errors, lint_errors, lint_warnings, \
    tests_passing, tests_failing, test_coverage";

pub(super) fn baseline(row: &Row<'_>) -> rusqlite::Result<Baseline> {
    Ok(Baseline {
        set_by: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
        created_at: when(row, 1)?.unwrap_or_default(),
        updated_at: when(row, 2)?.unwrap_or_default(),
        rev: unsigned(row, 3)?,
        metrics: metrics(row, 4)?,
    })
}

pub(super) fn learning(row: &Row<'_>) -> rusqlite::Result<Learning> {
    Ok(Learning {
        id: row.get::<_, String>(0)?.into(),
        text: row.get(1)?,
        task: row.get::<_, Option<String>>(2)?.map(Into::into),
        agent: row.get::<_, Option<String>>(3)?.map(Into::into),
        created_at: Timestamp(row.get(4)?),
    })
}

pub(super) const TOKEN: &str = "id, name, scope, hash, created_at, revoked_at";

pub(super) fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get::<_, String>(0)?.into(),
        name: row.get(1)?,
        scope: word(row, 2, Scope::parse)?,
        hash: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

pub(super) const HEAD: &str = "seq, last_at, task_number, message_number, lane, fencing, tasks, queued_deliveries, leases, \
    answer_rows, answer_bytes, served_at, floor, last_message_at";

pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let counts: String = row.get(6)?;
    Ok(Head {
        seq: unsigned(row, 0)?,
        last_at: Timestamp(row.get(1)?),
        task_number: unsigned(row, 2)?,
        message_number: unsigned(row, 3)?,
        lane: unsigned(row, 4)?,
        fencing: unsigned(row, 5)?,
        tasks: serde_json::from_str(&counts).map_err(|_| unreadable(6, &counts))?,
        queued_deliveries: unsigned(row, 7)?,
        leases: unsigned(row, 8)?,
        idempotency_rows: unsigned(row, 9)?,
        idempotency_bytes: unsigned(row, 10)?,
        served_at: Timestamp(row.get(11)?),
        floor: Timestamp(row.get(12)?),
        last_message_at: Timestamp(row.get(13)?),
    })
}

fn id<T: From<String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, String>(column).map(T::from)
}

fn strings(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    Ok(text.map(unlist).unwrap_or_default())
}

fn ids<T: From<String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<T>> {
    Ok(strings(row, column)?.into_iter().map(T::from).collect())
}

fn when(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| iso::parse(text).ok_or_else(|| unreadable(column, text)))
        .transpose()
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn optional_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row
        .get::<_, Option<i64>>(column)?
        .map(|value| u64::try_from(value).unwrap_or(0)))
}

fn word<T>(row: &Row<'_>, column: usize, parse: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    parse(text).ok_or_else(|| unreadable(column, text))
}

fn unreadable(column: usize, text: &str) -> rusqlite::Error {
    let message =
        format!("a row of the ledger has {text:?} where a known word or instant is expected");
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, message.into())
}
