//! Nouns of the rules as columns of a row, whichever engine keeps them. How rows are read is in [`crate::rows`].

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use switchboard_core::agent::{Current, Stream};
use switchboard_core::{
    Agent, Head, Logged, Message, Presence, Progress, Task, TaskState, Timestamp,
};

use crate::rows::{StoredMetrics, StoredProgress};
use crate::text::{Iso, list};

mod writers;

pub(crate) use writers::*;

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

fn store_progress(progress: Option<&Progress>) -> Option<String> {
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

/// What the columns show of an agent's work.
struct AtWork<'a> {
    current: Option<&'a Current>,
    commands: String,
    metrics: Option<String>,
    stream: String,
}

fn doing(agent: &Agent) -> AtWork<'_> {
    let metrics = agent.metrics.map(|kept| StoredMetrics {
        memory_used_mb: kept.memory_used_mb,
        tasks_completed_session: kept.tasks_completed_session,
        at: kept.at,
    });
    let commands = match agent.commands.as_slice() {
        [] => "[]".to_owned(),
        commands => serde_json::to_string(commands).unwrap_or_else(|_| "[]".to_owned()),
    };
    let stream = if agent.stream == Stream::default() {
        "{}".to_owned()
    } else {
        serde_json::to_string(&agent.stream).unwrap_or_else(|_| "{}".to_owned())
    };
    AtWork {
        stream,
        current: agent.current.as_ref(),
        commands,
        metrics: metrics.and_then(|kept| serde_json::to_string(&kept).ok()),
    }
}

/// When a message was delivered and acknowledged, as its row shows it. To those who read the table a broadcast is dealt
/// with: each of them has a copy of its own.
fn shown_message(message: &Message) -> (Option<Timestamp>, Option<Timestamp>) {
    let acknowledged = message.acknowledged.as_ref().map(|(_, at)| *at);
    match message.to {
        Some(_) => (message.delivered_at, acknowledged),
        None => (
            Some(message.created_at),
            Some(acknowledged.unwrap_or(message.created_at)),
        ),
    }
}

/// The word of an agent's presence, and since when.
fn presence(agent: &Agent) -> (&'static str, Timestamp) {
    match &agent.presence {
        Presence::Live(_) => ("live", agent.registered_at),
        Presence::Silent { since } => ("silent", *since),
        Presence::Gone { at } => ("gone", *at),
    }
}

#[allow(clippy::cast_precision_loss)]
fn minutes(ms: u64) -> f64 {
    ms as f64 / 60_000.0
}

/// Tasks by status, as a JSON array.
fn counts(head: &Head) -> String {
    let mut counts = String::from("[");
    for (at, count) in head.tasks.iter().enumerate() {
        let _ = write!(counts, "{}{count}", if at == 0 { "" } else { "," });
    }
    counts.push(']');
    counts
}

/// The events of a batch, one line each.
pub(crate) fn log_body(log: &[Logged]) -> serde_json::Result<String> {
    let mut body = String::with_capacity(log.len() * 128);
    for logged in log {
        body.push_str(&serde_json::to_string(logged)?);
        body.push('\n');
    }
    Ok(body)
}

/// Whoever may be silent for so long is never taken for dead: a century, so that sums with it stay instants.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// For how long an agent may be silent, as it is stored; `None` is without limit.
pub(crate) fn silence(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms)).filter(|limit| *limit < NEVER)
}

/// The doors of an agent as a list of words, and for how long it may be silent.
fn doors(agent: &Agent) -> (Cow<'static, str>, i64) {
    let words = agent.doors.iter().map(|door| door.as_str());
    let limit = agent.silent_after.unwrap_or(NEVER);
    let silent_ms = i64::try_from(limit.min(NEVER).as_millis()).unwrap_or(i64::MAX);
    (list(words), silent_ms)
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
