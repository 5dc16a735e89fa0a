//! Rows of agents: what they say about themselves, what they do, and when they were last heard of.

use std::collections::HashSet;
use std::sync::LazyLock;

use switchboard_core::slice::Save;
use switchboard_core::{Agent, AgentId, FormerAgent};

use super::shape::{update, upsert};
use crate::columns::{doing, doors, minutes, presence};
use crate::postgres::by_hand::Hand;
use crate::postgres::rows::Batch;
use crate::postgres::session::Query;
use crate::text::{Iso, list};

const DOES: [&str; 20] = [
    "id",
    "status",
    "current_task_id",
    "current_task_started_at",
    "current_task_progress",
    "current_task_phase",
    "tasks_completed",
    "tasks_failed",
    "total_runtime_minutes",
    "last_active_at",
    "rev",
    "runtime_ms",
    "holds",
    "commands",
    "metrics",
    "inbox",
    "stream",
    "seen_at",
    "last_heartbeat",
    "heartbeat_count",
];
const IS: [&str; 16] = [
    "name",
    "type",
    "skills",
    "max_task_minutes",
    "can_run_tests",
    "can_run_build",
    "can_access_browser",
    "machine_id",
    "machine_hostname",
    "pid",
    "registered_at",
    "key_generation",
    "presence",
    "presence_at",
    "doors",
    "silent_ms",
];

static PUT: LazyLock<String> =
    LazyLock::new(|| upsert("agents", &["id"], &[&DOES[..], &IS[..]].concat()));
static UPDATE: LazyLock<String> = LazyLock::new(|| update("agents", 1, &DOES));
static PULSE: LazyLock<String> = LazyLock::new(|| {
    update(
        "agents",
        1,
        &["id", "seen_at", "last_heartbeat", "heartbeat_count"],
    )
});
static FORMER: LazyLock<String> = LazyLock::new(|| {
    upsert(
        "sb_former_agent",
        &["id"],
        &[
            "id",
            "name",
            "completed",
            "failed",
            "runtime_ms",
            "registered_at",
            "gone_at",
        ],
    )
});

pub(super) fn save(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut put, mut changed, mut pulses) = (Batch::default(), Batch::default(), Batch::default());
    let mut written: HashSet<&AgentId> = HashSet::new();
    for (agent, how) in save.puts::<Agent>() {
        written.insert(&agent.id);
        if how.is_new || hand.is_noted() || how.has(Agent::DESCRIBED) {
            push_doing(agent, &mut put);
            push_being(agent, &mut put);
            put.end();
        } else {
            push_doing(agent, &mut changed);
            changed.end();
        }
    }
    // A row that is written anyway carries its last sign of life.
    for (agent, at, heartbeats) in &save.pulses {
        if !written.contains(agent) {
            pulses
                .text(agent.as_str())
                .int(at.0)
                .text(Iso::new(*at).as_str())
                .count(*heartbeats)
                .end();
        }
    }
    for (sql, batch) in [(&PUT, put), (&UPDATE, changed), (&PULSE, pulses)] {
        if !batch.is_empty() {
            queries.push(Query::rows(sql.as_str(), batch));
        }
    }
}

pub(super) fn forget(save: &Save<'_>, queries: &mut Vec<Query>) {
    let gone: Vec<&str> = save.drops::<Agent>().map(|(id, _)| id.as_str()).collect();
    if !gone.is_empty() {
        let delete = |table: &str| Query::new(format!("DELETE FROM {table} WHERE id = ANY($1)"));
        queries.push(delete("agents").texts(gone.iter().copied()));
        queries.push(delete("sb_sql_agent").texts(gone));
    }
    let mut batch = Batch::default();
    for (former, _) in save.puts::<FormerAgent>() {
        batch
            .text(former.id.as_str())
            .text(former.name.as_str())
            .count(former.completed)
            .count(former.failed)
            .count(former.runtime_ms)
            .int(former.registered_at.0)
            .int(former.gone_at.0)
            .end();
    }
    super::push(queries, &FORMER, batch);
}

fn push_doing(agent: &Agent, batch: &mut Batch) {
    let doing = doing(agent);
    let current = doing.current;
    let since = current.map(|current| Iso::new(current.since));
    let phase = current.and_then(|current| current.phase);
    batch
        .text(agent.id.as_str())
        .text(agent.status())
        .text(current.map(|current| current.task.as_str()))
        .text(since.as_ref().map(Iso::as_str))
        .int(current.and_then(|current| current.percent).map(i64::from))
        .text(phase.map(|phase| phase.as_str()))
        .count(agent.completed)
        .count(agent.failed)
        .real(minutes(agent.runtime_ms))
        .text(Iso::new(agent.last_active_at).as_str())
        .count(agent.rev)
        .count(agent.runtime_ms)
        .text(&*list(agent.holds.iter().map(|id| id.as_str())))
        .text(doing.commands.as_str())
        .text(doing.metrics.as_deref())
        .int(i64::from(agent.inbox))
        .text(doing.stream.as_str())
        .int(agent.seen_at.0)
        .text(Iso::new(agent.seen_at).as_str())
        .count(agent.heartbeats);
}

fn push_being(agent: &Agent, batch: &mut Batch) {
    let machine = agent.machine.as_ref();
    let (presence, presence_at) = presence(agent);
    let (doors, silent_ms) = doors(agent);
    batch
        .text(agent.name.as_str())
        .text(agent.kind.as_str())
        .text(&*list(agent.skills.iter()))
        .int(i64::from(agent.capabilities.max_task_minutes))
        .int(i64::from(agent.capabilities.can_run_tests))
        .int(i64::from(agent.capabilities.can_run_build))
        .int(i64::from(agent.capabilities.can_access_browser))
        .text(machine.map(|machine| machine.id.as_str()))
        .text(machine.map(|machine| machine.hostname.as_str()))
        .int(machine.map(|machine| i64::from(machine.pid)))
        .text(Iso::new(agent.registered_at).as_str())
        .int(i64::from(agent.key_generation))
        .text(presence)
        .int(presence_at.0)
        .text(&*doors)
        .int(silent_ms);
}
