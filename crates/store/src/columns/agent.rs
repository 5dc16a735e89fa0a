//! An agent and its columns, both ways.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard_core::agent::{AgentMetrics, Current, Stream};
use switchboard_core::{
    Agent, AgentKind, Capabilities, Doing, Door, Machine, Phase, Presence, Skills, Timestamp,
    limits,
};

use super::Values;
use crate::rows::{
    Columns, id, ids, int, number, optional_number, optional_text, optional_unsigned, strings,
    text, unreadable, unsigned, when, word, yes,
};
use crate::table::{AGENTS, READ, at, list};
use crate::text::unlist;

pub(crate) const AGENT: &str = list!(AGENTS, READ);

#[derive(Serialize, Deserialize)]
struct StoredMetrics {
    memory_used_mb: f64,
    tasks_completed_session: u64,
    at: Timestamp,
}

pub(crate) fn agent<R: Columns>(row: &R) -> Result<Agent, R::Error> {
    let presence = text(row, at!(AGENTS.presence))?;
    let at = Timestamp(int(row, at!(AGENTS.presence_at))?);
    let presence = match presence.as_str() {
        "live" => {
            Presence::Live(Doing::parse(&text(row, at!(AGENTS.status))?).unwrap_or(Doing::Idle))
        }
        "silent" => Presence::Silent { since: at },
        "gone" => Presence::Gone { at },
        other => return Err(unreadable(at!(AGENTS.presence), other).into()),
    };
    let machine_id = optional_text(row, at!(AGENTS.machine_id))?;
    let (hostname, pid): (Option<String>, Option<u32>) = (
        optional_text(row, at!(AGENTS.machine_hostname))?,
        optional_number(row, at!(AGENTS.pid))?,
    );
    let current = optional_text(row, at!(AGENTS.current_task_id))?;
    let since = when(row, at!(AGENTS.current_task_started_at))?;
    let (percent, phase): (Option<u8>, Option<String>) = (
        optional_number(row, at!(AGENTS.current_task_progress))?,
        optional_text(row, at!(AGENTS.current_task_phase))?,
    );
    let metrics = optional_text(row, at!(AGENTS.metrics))?;
    let metrics: Option<StoredMetrics> = metrics.and_then(|text| serde_json::from_str(&text).ok());
    let commands = text(row, at!(AGENTS.commands))?;
    Ok(Agent {
        id: id(row, at!(AGENTS.id))?,
        name: text(row, at!(AGENTS.name))?,
        kind: word(row, at!(AGENTS.type), AgentKind::parse)?,
        presence,
        skills: Skills::new(strings(row, at!(AGENTS.skills))?),
        capabilities: Capabilities {
            max_task_minutes: number(row, at!(AGENTS.max_task_minutes))?,
            can_run_tests: yes(row, at!(AGENTS.can_run_tests))?,
            can_run_build: yes(row, at!(AGENTS.can_run_build))?,
            can_access_browser: yes(row, at!(AGENTS.can_access_browser))?,
        },
        machine: machine_id.map(|id| Machine {
            id,
            hostname: hostname.unwrap_or_default(),
            pid: pid.unwrap_or_default(),
        }),
        registered_at: when(row, at!(AGENTS.registered_at))?.unwrap_or_default(),
        seen_at: Timestamp(int(row, at!(AGENTS.seen_at))?),
        heartbeats: unsigned(row, at!(AGENTS.heartbeat_count))?,
        last_active_at: when(row, at!(AGENTS.last_active_at))?.unwrap_or_default(),
        holds: ids(row, at!(AGENTS.holds))?,
        current: current.map(|task| Current {
            task: task.into(),
            since: since.unwrap_or_default(),
            percent,
            phase: phase.as_deref().and_then(Phase::parse),
        }),
        completed: unsigned(row, at!(AGENTS.tasks_completed))?,
        failed: unsigned(row, at!(AGENTS.tasks_failed))?,
        runtime_ms: unsigned(row, at!(AGENTS.runtime_ms))?,
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
        key_generation: number(row, at!(AGENTS.key_generation))?,
        inbox: number(row, at!(AGENTS.inbox))?,
        doors: read_doors(row, at!(AGENTS.doors))?,
        silent_after: optional_unsigned(row, at!(AGENTS.silent_ms))?
            .map_or(Some(limits::SILENT_AFTER), silence),
        stream: read_stream(row, at!(AGENTS.stream))?,
        rev: unsigned(row, at!(AGENTS.rev))?,
    })
}

/// Most agents have nothing there, and notes of older builds not even that.
fn read_stream<R: Columns>(row: &R, column: usize) -> Result<Stream, R::Error> {
    let text = optional_text(row, column)?.filter(|text| text != "{}");
    Ok(text
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default())
}

/// A note of an older build has none: its agents came by the only door there was.
fn read_doors<R: Columns>(row: &R, column: usize) -> Result<Vec<Door>, R::Error> {
    let Some(text) = optional_text(row, column)? else {
        return Ok(vec![Door::BY_HAND]);
    };
    Ok(unlist(&text)
        .iter()
        .filter_map(|word| Door::parse(word))
        .collect())
}

/// What an agent does.
pub(crate) fn work_of_agent(agent: &Agent, row: &mut impl Values) {
    let doing = doing(agent);
    let current = doing.current;
    let phase = current.and_then(|current| current.phase);
    row.text(agent.status())
        .text(current.map(|current| current.task.as_str()))
        .iso(current.map(|current| current.since))
        .int(current.and_then(|current| current.percent).map(i64::from))
        .text(phase.map(|phase| phase.as_str()))
        .count(agent.completed)
        .count(agent.failed)
        .real(minutes(agent.runtime_ms))
        .iso(agent.last_active_at)
        .count(agent.rev)
        .count(agent.runtime_ms)
        .list(agent.holds.iter().map(|id| id.as_str()))
        .text(doing.commands.as_str())
        .text(doing.metrics.as_deref())
        .int(i64::from(agent.inbox))
        .text(doing.stream.as_str());
}

/// What an agent says about itself.
pub(crate) fn words_of_agent(agent: &Agent, row: &mut impl Values) {
    let machine = agent.machine.as_ref();
    let (presence, presence_at) = presence(agent);
    let (doors, silent_ms) = doors(agent);
    row.text(agent.name.as_str())
        .text(agent.kind.as_str())
        .list(agent.skills.iter())
        .int(i64::from(agent.capabilities.max_task_minutes))
        .int(i64::from(agent.capabilities.can_run_tests))
        .int(i64::from(agent.capabilities.can_run_build))
        .int(i64::from(agent.capabilities.can_access_browser))
        .text(machine.map(|machine| machine.id.as_str()))
        .text(machine.map(|machine| machine.hostname.as_str()))
        .int(machine.map(|machine| i64::from(machine.pid)))
        .iso(agent.registered_at)
        .text(presence)
        .int(presence_at.0)
        .int(i64::from(agent.key_generation))
        .text(&*doors)
        .int(silent_ms);
}

/// A sign of life.
pub(crate) fn pulse(at: Timestamp, heartbeats: u64, row: &mut impl Values) {
    row.iso(at).count(heartbeats).int(at.0);
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

/// Whoever may be silent for so long is never taken for dead: a century, so that sums with it stay instants.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// For how long an agent may be silent, as it is stored; `None` is without limit.
fn silence(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms)).filter(|limit| *limit < NEVER)
}

/// The doors of an agent as a list of words, and for how long it may be silent.
fn doors(agent: &Agent) -> (Cow<'static, str>, i64) {
    let words = agent.doors.iter().map(|door| door.as_str());
    let limit = agent.silent_after.unwrap_or(NEVER);
    let silent_ms = i64::try_from(limit.min(NEVER).as_millis()).unwrap_or(i64::MAX);
    (crate::text::list(words), silent_ms)
}
