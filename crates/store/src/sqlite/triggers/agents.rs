//! Agents: who may write what of them, and what is noted.

use switchboard_core::limits;

use super::guard::{array, bytes, flag, id, number, refuse, time, words};
use super::{Trigger, forget_replaced, image, kept, remember};
use crate::sqlite::rows;

/// An update that is a sign of life.
const BEAT: &str = "NEW.last_heartbeat IS NOT OLD.last_heartbeat OR NEW.heartbeat_count IS NOT OLD.heartbeat_count";

pub(super) fn triggers() -> Vec<Trigger> {
    // The word for a silent agent is offline too: only who turns to it signs off.
    let became = |offline: &str| {
        let presence = format!(", 'presence', CASE WHEN {offline} ELSE 'live' END");
        image("NEW", rows::AGENT, &["presence"], &presence)
    };
    vec![
        Trigger {
            name: "sb_agents_insert_guard",
            on: "BEFORE INSERT ON agents".to_owned(),
            body: inserted(),
        },
        Trigger {
            name: "sb_agents_insert",
            on: "AFTER INSERT ON agents".to_owned(),
            body: vec![
                forget_replaced("agents", "id"),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('agents', NEW.id, 'insert',
    (SELECT was FROM sb_was WHERE tbl = 'agents' AND key = NEW.id), {});",
                    became("NEW.status = 'offline' THEN 'gone'")
                ),
                "DELETE FROM sb_was WHERE tbl = 'agents' AND key = NEW.id;".to_owned(),
                "INSERT OR IGNORE INTO sb_sql_agent(id) VALUES (NEW.id);".to_owned(),
            ],
        },
        Trigger {
            name: "sb_agents_update_guard",
            on: "BEFORE UPDATE ON agents".to_owned(),
            body: updated(),
        },
        Trigger {
            name: "sb_agents_update",
            on: "AFTER UPDATE ON agents".to_owned(),
            body: vec![format!(
                "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('agents', NEW.id,
    CASE WHEN {BEAT} THEN 'beat' ELSE 'update' END, {}, {});",
                image("OLD", rows::AGENT, &[], ""),
                became(&format!(
                    "NEW.status = 'offline' AND OLD.status <> 'offline' THEN 'gone' WHEN NEW.status = OLD.status AND NOT ({BEAT}) THEN OLD.presence"
                ))
            )],
        },
        Trigger {
            name: "sb_agents_delete",
            on: "AFTER DELETE ON agents".to_owned(),
            body: vec![format!(
                "INSERT INTO sb_hand(tbl, key, deed, was) VALUES ('agents', OLD.id, 'delete', {});",
                image("OLD", rows::AGENT, &[], "")
            )],
        },
    ]
}

/// Of a new agent.
fn inserted() -> Vec<String> {
    let mut new = vec![id("agents.id", "id", true)];
    new.extend(described());
    new.extend([
        refuse(
            "agents: the columns after last_active_at belong to the hub",
            "NEW.rev <> 0 OR NEW.presence <> 'live' OR NEW.presence_at <> 0 OR NEW.seen_at <> 0 OR NEW.runtime_ms <> 0 OR NEW.holds <> '[]'
      OR NEW.commands <> '[]' OR NEW.metrics IS NOT NULL OR NEW.key_generation <> 0 OR NEW.inbox <> 0
      OR NEW.doors <> '[\"jetpack\"]' OR NEW.silent_ms <> 120000 OR NEW.stream <> '{}'",
        ),
        // The id of one that signed off or fell silent is free.
        "DELETE FROM agents WHERE id = NEW.id AND presence <> 'live';".to_owned(),
        remember("agents", "id", &image("agents", rows::AGENT, &[], "")),
    ]);
    new
}

/// Of one that is there.
fn updated() -> Vec<String> {
    let mut changed = vec![refuse(
        "agents: id and the columns after last_active_at belong to the hub",
        &kept(&[
            "id",
            "rev",
            "presence",
            "presence_at",
            "seen_at",
            "runtime_ms",
            "holds",
            "commands",
            "metrics",
            "key_generation",
            "inbox",
            "doors",
            "silent_ms",
            "stream",
        ]),
    )];
    changed.extend(described());
    changed
}

fn described() -> Vec<String> {
    vec![
        bytes("agents.name", "name", 1, limits::NAME_BYTES_MAX),
        words("agents.type", "type", &["claude-code", "codex", "gemini", "browser", "custom"]),
        words("agents.status", "status", &["idle", "busy", "error", "offline", "shutting_down"]),
        array("agents.skills", "skills", limits::SKILLS_MAX, limits::SKILL_BYTES_MAX, true),
        number("agents.max_task_minutes", "max_task_minutes", i64::from(limits::MINUTES_MAX), false),
        flag("agents.can_run_tests", "can_run_tests"),
        flag("agents.can_run_build", "can_run_build"),
        flag("agents.can_access_browser", "can_access_browser"),
        number("agents.heartbeat_count", "heartbeat_count", i64::MAX, false),
        number("agents.tasks_completed", "tasks_completed", i64::MAX, false),
        number("agents.tasks_failed", "tasks_failed", i64::MAX, false),
        number("agents.pid", "pid", i64::from(u32::MAX), true),
        number("agents.current_task_progress", "current_task_progress", 100, true),
        refuse(
            "agents: current_task_id, current_task_phase, machine_id, machine_hostname: text of at most 256 bytes, or NULL",
            &["current_task_id", "current_task_phase", "machine_id", "machine_hostname"]
                .map(|name| {
                    format!("typeof(NEW.{name}) NOT IN ('text', 'null') OR length(CAST(coalesce(NEW.{name}, '') AS BLOB)) > 256")
                })
                .join(" OR "),
        ),
        time("agents.current_task_started_at", "current_task_started_at", true),
        time("agents.last_heartbeat", "last_heartbeat", true),
        time("agents.last_active_at", "last_active_at", true),
        time("agents.registered_at", "registered_at", false),
    ]
}
