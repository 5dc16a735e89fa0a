//! The row of an agent: what it says about itself, and what it does.

use rusqlite::{Connection, params};
use switchboard_core::{Agent, FormerAgent};

use super::Result;
use crate::columns::{doing, doors, minutes, presence};
use crate::sqlite::load::signed;
use crate::sqlite::text::{Iso, list};

/// A new agent, or one that says something new about itself.
pub(super) fn put_agent(db: &Connection, agent: &Agent) -> Result {
    let machine = agent.machine.as_ref();
    let (presence, presence_at) = presence(agent);
    let (doors, silent_ms) = doors(agent);
    db.prepare_cached(
        "INSERT INTO agents(id, name, type, skills, max_task_minutes, can_run_tests, can_run_build, can_access_browser,
           machine_id, machine_hostname, pid, registered_at, key_generation, presence, presence_at, seen_at,
           last_heartbeat, heartbeat_count, doors, silent_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
         ON CONFLICT(id) DO UPDATE SET name = ?2, type = ?3, skills = ?4, max_task_minutes = ?5, can_run_tests = ?6,
           can_run_build = ?7, can_access_browser = ?8, machine_id = ?9, machine_hostname = ?10, pid = ?11,
           registered_at = ?12, key_generation = ?13, presence = ?14, presence_at = ?15, doors = ?19, silent_ms = ?20",
    )?
    .execute(params![
        agent.id.as_str(),
        agent.name,
        agent.kind.as_str(),
        list(agent.skills.iter()),
        agent.capabilities.max_task_minutes,
        agent.capabilities.can_run_tests,
        agent.capabilities.can_run_build,
        agent.capabilities.can_access_browser,
        machine.map(|machine| &machine.id),
        machine.map(|machine| &machine.hostname),
        machine.map(|machine| machine.pid),
        Iso::new(agent.registered_at),
        agent.key_generation,
        presence,
        presence_at.0,
        agent.seen_at.0,
        Iso::new(agent.seen_at),
        signed(agent.heartbeats),
        doors,
        silent_ms,
    ])?;
    update_agent(db, agent)
}

pub(super) fn update_agent(db: &Connection, agent: &Agent) -> Result {
    let doing = doing(agent);
    db.prepare_cached(
        "UPDATE agents SET status = ?, current_task_id = ?,
           current_task_started_at = ?, current_task_progress = ?, current_task_phase = ?, tasks_completed = ?,
           tasks_failed = ?, total_runtime_minutes = ?, last_active_at = ?, rev = ?, runtime_ms = ?, holds = ?, commands = ?, metrics = ?, inbox = ?, stream = ? WHERE id = ?",
    )?
    .execute(params![
        agent.status(),
        doing.current.map(|current| current.task.as_str()),
        doing.current.map(|current| Iso::new(current.since)),
        doing.current.and_then(|current| current.percent),
        doing.current.and_then(|current| current.phase).map(|phase| phase.as_str()),
        signed(agent.completed),
        signed(agent.failed),
        minutes(agent.runtime_ms),
        Iso::new(agent.last_active_at),
        signed(agent.rev),
        signed(agent.runtime_ms),
        list(agent.holds.iter().map(|id| id.as_str())),
        doing.commands,
        doing.metrics,
        agent.inbox,
        doing.stream,
        agent.id.as_str(),
    ])?;
    Ok(())
}

/// What stays of an agent whose row is dropped.
pub(super) fn put_former(db: &Connection, former: &FormerAgent) -> Result {
    db.prepare_cached(
        "INSERT OR REPLACE INTO sb_former_agent(id, name, completed, failed, runtime_ms, registered_at, gone_at)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        former.id.as_str(),
        former.name,
        signed(former.completed),
        signed(former.failed),
        signed(former.runtime_ms),
        former.registered_at.0,
        former.gone_at.0,
    ])?;
    Ok(())
}
