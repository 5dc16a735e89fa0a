//! A task and its columns, both ways.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_core::task::{Failure, OnDependencyFailure};
use switchboard_core::{
    AgentId, CorrId, Description, FailureKind, LaneId, Phase, Priority, Progress, Skills, Task,
    TaskKind, TaskState, Timestamp, Watch, WhenSpent,
};

use super::Values;
use super::writers::{json_of, signed};
use crate::rows::{
    Columns, id, ids, instant, int, number, optional_number, optional_text, optional_unsigned,
    private_json, strings, text, unreadable, unsigned, when, word,
};
use crate::table::{READ, TASKS, at, list};
use crate::text::Iso;

pub(crate) const TASK: &str = list!(TASKS, READ);

/// How many columns [`TASK`] names.
pub(crate) const TASK_COLUMNS: usize = TASKS.count(READ);

pub(crate) fn task<R: Columns>(row: &R) -> Result<Task, R::Error> {
    let status = text(row, at!(TASKS.status))?;
    let by = || -> Result<AgentId, R::Error> {
        let by = optional_text(row, at!(TASKS.assigned_agent))?;
        Ok(AgentId::from(by.unwrap_or_default()))
    };
    let at = Timestamp(int(row, at!(TASKS.state_at))?);
    let state = match status.as_str() {
        "blocked" => TaskState::Waiting,
        "ready" => TaskState::Ready,
        // Written by hand.
        "pending" if text(row, at!(TASKS.blockers))? != "[]" => TaskState::Waiting,
        "pending" => TaskState::Ready,
        "claimed" => TaskState::Claimed { by: by()?, at },
        "in_progress" => TaskState::InProgress { by: by()?, at },
        "pending_retry" => TaskState::RetryWait { until: at },
        "needs_review" => TaskState::NeedsPerson { by: by()?, at },
        "completed" => TaskState::Completed { by: by()?, at },
        "failed" => TaskState::Failed { at },
        "canceled" => TaskState::Canceled { at },
        other => return Err(unreadable(at!(TASKS.status), other).into()),
    };
    let failure_kind = optional_text(row, at!(TASKS.failure_type))?;
    let failure_text = optional_text(row, at!(TASKS.last_error))?;
    Ok(Task {
        number: unsigned(row, at!(TASKS.number))?,
        id: id(row, at!(TASKS.id))?,
        about: Description {
            title: text(row, at!(TASKS.title))?,
            description: optional_text(row, at!(TASKS.description))?,
            files: strings(row, at!(TASKS.files))?,
            branch: optional_text(row, at!(TASKS.branch))?,
            max_retries: number(row, at!(TASKS.max_retries))?,
            when_spent: optional_text(row, at!(TASKS.when_spent))?
                .and_then(|word| WhenSpent::parse(&word))
                .unwrap_or(WhenSpent::Fail),
            priority: word(row, at!(TASKS.priority), Priority::parse)?,
            kind: word(row, at!(TASKS.type), TaskKind::parse)?,
            required_skills: Skills::new(strings(row, at!(TASKS.required_skills))?),
            estimated_minutes: optional_number(row, at!(TASKS.estimated_minutes))?,
            audience: ids(row, at!(TASKS.audience))?,
            barred: private_json(row, at!(TASKS.barred))?.map_or(Vec::new(), |barred| *barred),
        },
        state,
        dependencies: ids(row, at!(TASKS.dependencies))?,
        blockers: ids(row, at!(TASKS.blockers))?,
        on_dependency_failure: word(
            row,
            at!(TASKS.on_dependency_failure),
            OnDependencyFailure::parse,
        )?,
        corr_id: CorrId::from(text(row, at!(TASKS.corr_id))?),
        retries: number(row, at!(TASKS.retry_count))?,
        previous_agents: ids(row, at!(TASKS.previous_agents))?,
        last_failure: (failure_kind.is_some() || failure_text.is_some()).then(|| Failure {
            kind: failure_kind
                .as_deref()
                .and_then(FailureKind::parse)
                .unwrap_or(FailureKind::TaskError),
            message: failure_text.unwrap_or_default(),
        }),
        epoch: unsigned(row, at!(TASKS.epoch))?,
        epoch_needed: int(row, at!(TASKS.epoch_needed))? != 0,
        started_at: when(row, at!(TASKS.started_at))?,
        worked_ms: optional_unsigned(row, at!(TASKS.worked_ms))?,
        progress: read_progress(row, at!(TASKS.progress))?,
        result: optional_text(row, at!(TASKS.result))?.map(String::into_boxed_str),
        snapshot: optional_text(row, at!(TASKS.quality_snapshot_id))?.map(Into::into),
        dependants: number(row, at!(TASKS.dependants))?,
        lane: optional_unsigned(row, at!(TASKS.lane))?.map(LaneId),
        watch: read_watch(row, at!(TASKS.deadline_at))?,
        contract: private_json(row, at!(TASKS.contract))?,
        created_at: when(row, at!(TASKS.created_at))?.unwrap_or_default(),
        updated_at: when(row, at!(TASKS.updated_at))?.unwrap_or_default(),
        rev: unsigned(row, at!(TASKS.rev))?,
    })
}

/// Three columns from `first` on, all or none of them there.
fn read_watch<R: Columns>(row: &R, first: usize) -> Result<Option<Watch>, R::Error> {
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
struct StoredProgress {
    phase: Phase,
    percent: u8,
    note: String,
    files: Vec<String>,
    told_at: Timestamp,
    told_percent: u8,
}

pub(crate) fn read_progress<R: Columns>(
    row: &R,
    column: usize,
) -> Result<Option<Progress>, R::Error> {
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

pub(crate) fn new_task(task: &Task, row: &mut impl Values) {
    let failure = task.last_failure.as_ref();
    row.text(task.id.as_str())
        .text(task.about.title.as_str())
        .text(task.about.description.as_deref())
        .text(task.status().as_str())
        .text(task.about.priority.as_str())
        .text(task.about.kind.as_str())
        .list(task.dependencies.iter().map(|id| id.as_str()))
        .list(task.blockers.iter().map(|id| id.as_str()))
        .list(task.about.required_skills.iter())
        .list(&task.about.files)
        .int(task.about.estimated_minutes.map(i64::from))
        .int(i64::from(task.retries))
        .int(i64::from(task.about.max_retries))
        .text(failure.map(|failure| failure.message.as_str()))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(task.about.branch.as_deref())
        .iso(task.created_at)
        .iso(task.updated_at)
        .list(task.about.audience.iter().map(|id| id.as_str()))
        .text(task.on_dependency_failure.as_str())
        .count(task.rev)
        .int(task.lane.map(|lane| signed(lane.0)))
        .int(shown(task).at.0)
        .int(i64::from(task.dependants))
        .text(task.corr_id.as_str())
        .text(task.about.when_spent.as_str())
        .text(json_of(task.contract.as_deref()).as_deref())
        .text(barred(task).as_deref())
        .count(task.number);
}

/// What a claim, progress and a completion touch. What people wrote stays untouched, and so do its indexes.
pub(crate) fn work_of_task(task: &Task, row: &mut impl Values) {
    let shown = shown(task);
    row.text(task.status().as_str())
        .text(shown.assigned)
        .text(shown.claimed_at.as_ref().map(Iso::as_str))
        .iso(task.started_at)
        .text(shown.completed_at.as_ref().map(Iso::as_str))
        .int(worked_minutes(task))
        .text(task.result.as_deref())
        .text(task.snapshot.as_ref().map(|id| id.as_str()))
        .iso(task.updated_at)
        .count(task.epoch)
        .count(task.rev)
        .int(shown.at.0)
        .int(task.worked_ms.map(signed))
        .text(store_progress(task.progress.as_ref()).as_deref());
}

/// Where it waits and why: retries, dependencies and lanes.
pub(crate) fn queue_of_task(task: &Task, row: &mut impl Values) {
    let (deadline_at, stale_ms, look_at) = watch(task);
    let failure = task.last_failure.as_ref();
    row.list(task.blockers.iter().map(|id| id.as_str()))
        .int(i64::from(task.retries))
        .text(failure.map(|failure| failure.message.as_str()))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(shown(task).next_retry_at.as_ref().map(Iso::as_str))
        .list(task.previous_agents.iter().map(|id| id.as_str()))
        .int(task.lane.map(|lane| signed(lane.0)))
        .int(i64::from(task.dependants))
        .int(deadline_at)
        .int(stale_ms)
        .int(look_at)
        .int(i64::from(task.epoch_needed));
}

/// What people wrote.
pub(crate) fn words_of_task(task: &Task, row: &mut impl Values) {
    row.text(task.about.title.as_str())
        .text(task.about.description.as_deref())
        .text(task.about.priority.as_str())
        .text(task.about.kind.as_str())
        .list(task.about.required_skills.iter())
        .list(&task.about.files)
        .int(task.about.estimated_minutes.map(i64::from))
        .int(i64::from(task.about.max_retries))
        .text(task.about.branch.as_deref())
        .list(task.about.audience.iter().map(|id| id.as_str()))
        .text(task.about.when_spent.as_str())
        .text(barred(task).as_deref());
}

/// Hardly any task bars anybody: nothing stands there then.
fn barred(task: &Task) -> Option<String> {
    let barred = &task.about.barred;
    json_of((!barred.is_empty()).then_some(barred))
}

/// What the public columns show of a state.
struct Shown<'a> {
    assigned: Option<&'a str>,
    at: Timestamp,
    claimed_at: Option<Iso>,
    completed_at: Option<Iso>,
    next_retry_at: Option<Iso>,
}

fn shown(task: &Task) -> Shown<'_> {
    let plain = |at| Shown {
        assigned: None,
        at,
        claimed_at: None,
        completed_at: None,
        next_retry_at: None,
    };
    match &task.state {
        TaskState::Waiting | TaskState::Ready => plain(task.updated_at),
        TaskState::Claimed { by, at } | TaskState::InProgress { by, at } => Shown {
            assigned: Some(by.as_str()),
            claimed_at: Some(Iso::new(*at)),
            ..plain(*at)
        },
        TaskState::RetryWait { until } => Shown {
            next_retry_at: Some(Iso::new(*until)),
            ..plain(*until)
        },
        TaskState::NeedsPerson { by, at } => Shown {
            assigned: Some(by.as_str()),
            ..plain(*at)
        },
        TaskState::Completed { by, at } => Shown {
            assigned: Some(by.as_str()),
            completed_at: Some(Iso::new(*at)),
            ..plain(*at)
        },
        TaskState::Failed { at } | TaskState::Canceled { at } => plain(*at),
    }
}

/// Time at work in whole minutes, as direct clients read it.
fn worked_minutes(task: &Task) -> Option<i64> {
    task.worked_ms
        .map(|ms| i64::try_from(ms.div_ceil(60_000)).unwrap_or(i64::MAX))
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

/// Deadline, time without progress, next look; all absent for a task that nobody watches.
fn watch(task: &Task) -> (Option<i64>, Option<i64>, Option<i64>) {
    let Some(watch) = &task.watch else {
        return (None, None, None);
    };
    let stale_ms = i64::try_from(watch.stale_after.as_millis()).unwrap_or(i64::MAX);
    (
        Some(watch.deadline_at.0),
        Some(stale_ms),
        Some(watch.look_at.0),
    )
}
