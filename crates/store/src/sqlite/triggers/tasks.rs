//! Tasks: who may write what of them, and what is noted.

use switchboard_core::limits;
use switchboard_core::verb::DEPENDS_ON_DEPENDENCIES;

use super::guard::{array, bytes, id, number, refuse, time, words};
use super::{Trigger, image, kept, remember};
use crate::sqlite::rows;

pub(super) fn triggers() -> Vec<Trigger> {
    vec![
        Trigger {
            name: "sb_tasks_insert_guard",
            on: "BEFORE INSERT ON tasks".to_owned(),
            body: inserted(),
        },
        Trigger {
            name: "sb_tasks_insert",
            on: "AFTER INSERT ON tasks".to_owned(),
            body: vec![
                refuse(
                    "tasks: REPLACE would erase the history of this task; use UPDATE",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'tasks' AND key = NEW.id)",
                ),
                "UPDATE tasks SET number = min(-1, (SELECT min(number) FROM tasks)) - 1 WHERE id = NEW.id;".to_owned(),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('tasks', NEW.id, 'insert', {});",
                    image("NEW", rows::TASK, TEXTS, "")
                ),
            ],
        },
        Trigger {
            name: "sb_tasks_update_guard",
            on: "BEFORE UPDATE ON tasks".to_owned(),
            body: updated(),
        },
        Trigger {
            name: "sb_tasks_update",
            on: "AFTER UPDATE OF title, description, status, priority, type, assigned_agent, claimed_at, blockers, required_skills,
  files, started_at, completed_at, estimated_minutes, actual_minutes, retry_count, max_retries, last_error, failure_type, next_retry_at,
  previous_agents, result, branch, quality_snapshot_id, audience ON tasks".to_owned(),
            body: vec![
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('tasks', NEW.id, 'update', {}, {});",
                    with_texts("OLD"),
                    with_texts("NEW")
                ),
                format!(
                    "UPDATE tasks SET lane = NULL, epoch = CASE WHEN NEW.status {HELD} AND OLD.status NOT {HELD} AND NEW.epoch = OLD.epoch
    THEN OLD.epoch + 1 ELSE NEW.epoch END WHERE id = NEW.id;"
                ),
            ],
        },
        Trigger {
            name: "sb_tasks_delete",
            on: "BEFORE DELETE ON tasks".to_owned(),
            body: vec![
                refuse(
                    "tasks: finished tasks are history; the hub prunes them by its [retention]",
                    "OLD.status IN ('completed', 'failed', 'canceled')",
                ),
                "UPDATE tasks SET status = 'canceled' WHERE id = OLD.id;".to_owned(),
                "SELECT RAISE(IGNORE);".to_owned(),
            ],
        },
    ]
}

/// Held by an agent.
const HELD: &str = "IN ('claimed', 'in_progress')";

/// Of a new task.
fn inserted() -> Vec<String> {
    let mut new = vec![id("tasks.id", "id", false)];
    new.extend(described());
    new.extend([
        words("tasks.status: of a new task", "status", &["pending", "ready", "blocked"]),
        refuse("tasks.assigned_agent: a new task belongs to nobody yet; insert it, then claim it", "NEW.assigned_agent IS NOT NULL"),
        array("tasks.dependencies", "dependencies", limits::DEPENDENCIES_MAX, limits::ID_BYTES_MAX, true),
        refuse(
            "tasks.dependencies: names a task that does not exist; insert that one first",
            "EXISTS (SELECT 1 FROM json_each(NEW.dependencies) needs WHERE NOT EXISTS (SELECT 1 FROM tasks known WHERE known.id = needs.value))",
        ),
        words("tasks.on_dependency_failure", "on_dependency_failure", &["block", "fail"]),
        refuse("tasks.number: belongs to the hub", "NEW.number <> -1"),
        refuse(
            "tasks: rev, epoch, lane, state_at, worked_ms, progress, dependants, corr_id and the columns after it belong to the hub",
            "NEW.rev <> 0 OR NEW.epoch <> 0 OR NEW.lane IS NOT NULL OR NEW.state_at <> 0 OR NEW.worked_ms IS NOT NULL OR NEW.progress IS NOT NULL OR NEW.dependants <> 0 OR NEW.corr_id <> ''
      OR NEW.when_spent <> 'fail' OR NEW.deadline_at IS NOT NULL OR NEW.stale_ms IS NOT NULL OR NEW.look_at IS NOT NULL
      OR NEW.epoch_needed <> 0",
        ),
        time("tasks.created_at", "created_at", false),
        remember("tasks", "id", "NULL"),
    ]);
    new
}

/// Of one that is there.
fn updated() -> Vec<String> {
    // Then it is written anew anyway.
    let noted = "EXISTS (SELECT 1 FROM sb_hand WHERE tbl = 'tasks' AND key = OLD.id)";
    let mut changed = vec![
        // While work is paused a claim finds nothing, and is no error. A pause that is over is taken away by the hub.
        format!(
            "SELECT RAISE(IGNORE) WHERE NEW.status {HELD} AND OLD.status NOT {HELD} AND EXISTS (SELECT 1 FROM sb_record
    WHERE kind = 'director' AND coalesce(json_extract(value, '$.paused.at'), json_extract(value, '$.cooldown_until')) IS NOT NULL);"
        ),
        refuse(
            "tasks: id, number, created_at, dependencies and the columns after updated_at belong to the hub",
            &format!(
                "{} OR (NEW.number IS NOT OLD.number AND (OLD.rev <> 0 OR NEW.number IS NOT (SELECT min(-1, min(number)) - 1 FROM tasks)))
      OR (NEW.lane IS NOT OLD.lane AND (NEW.lane IS NOT NULL OR NOT {noted}))
      OR (NEW.epoch IS NOT OLD.epoch AND (NEW.epoch IS NOT OLD.epoch + 1 OR NOT ({noted} OR NEW.status {HELD} AND OLD.status NOT {HELD})))",
                kept(&[
                    "id", "rev", "state_at", "worked_ms", "progress", "dependants", "corr_id", "created_at",
                    "dependencies", "on_dependency_failure", "when_spent", "deadline_at", "stale_ms", "look_at", "epoch_needed",
                ])
            ),
        ),
        refuse(
            "tasks.status: this change is not allowed; the table sb_task_transition lists those that are",
            "NEW.status IS NOT OLD.status AND NOT EXISTS (SELECT 1 FROM sb_task_transition WHERE a = OLD.status AND b = NEW.status)",
        ),
        refuse(
            "tasks.status: it waits for dependencies that are not completed",
            &format!(
                "OLD.status = '{}' AND NEW.status = '{}' AND EXISTS (SELECT 1 FROM json_each(OLD.dependencies) needs
      JOIN tasks known ON known.id = needs.value WHERE known.status <> 'completed')",
                DEPENDS_ON_DEPENDENCIES.0, DEPENDS_ON_DEPENDENCIES.1
            ),
        ),
        refuse(
            "tasks.assigned_agent: no such agent is registered; insert it into agents first",
            &format!(
                "NEW.status {HELD} AND OLD.status NOT {HELD}
      AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.assigned_agent AND presence <> 'gone')"
            ),
        ),
        refuse(
            "tasks.assigned_agent: another agent holds this task",
            &format!(
                "OLD.status {HELD} AND NEW.assigned_agent IS NOT OLD.assigned_agent
      AND (NEW.assigned_agent IS NOT NULL OR NEW.status {HELD})"
            ),
        ),
    ];
    changed.extend(described());
    changed
}

/// Large texts that a claim does not touch: in a note only when one of them changed.
const TEXTS: &[&str] = &["description", "result"];

fn with_texts(of: &str) -> String {
    let more = format!(
        ", 'texts', CASE WHEN NEW.description IS NOT OLD.description OR NEW.result IS NOT OLD.result
    THEN json_array({of}.description, {of}.result) END"
    );
    image(of, rows::TASK, TEXTS, &more)
}

fn described() -> Vec<String> {
    vec![
        bytes("tasks.title", "title", 1, limits::TITLE_BYTES_MAX),
        format!(
            "SELECT RAISE(ABORT, 'tasks.description: text of at most {max} bytes') WHERE NEW.description IS NOT NULL
    AND (typeof(NEW.description) <> 'text' OR length(CAST(NEW.description AS BLOB)) > {max});",
            max = limits::DESCRIPTION_BYTES_MAX
        ),
        words("tasks.priority", "priority", &["critical", "high", "medium", "low"]),
        words(
            "tasks.type",
            "type",
            &["code", "test", "browser_test", "documentation", "review", "custom"],
        ),
        array("tasks.required_skills", "required_skills", limits::SKILLS_MAX, limits::SKILL_BYTES_MAX, true),
        array("tasks.files", "files", limits::FILES_MAX, limits::PATH_BYTES_MAX, false),
        array("tasks.audience", "audience", limits::AUDIENCE_MAX, limits::ID_BYTES_MAX, true),
        array("tasks.previous_agents", "previous_agents", 10_000, limits::ID_BYTES_MAX, true),
        array("tasks.blockers", "blockers", limits::DEPENDENCIES_MAX, limits::ID_BYTES_MAX, true),
        number("tasks.estimated_minutes", "estimated_minutes", i64::from(limits::MINUTES_MAX), true),
        number("tasks.max_retries", "max_retries", i64::from(limits::RETRIES_MAX), false),
        number("tasks.retry_count", "retry_count", i64::from(u32::MAX), false),
        refuse(
            "tasks.branch, last_error, failure_type, result, quality_snapshot_id: text, or NULL",
            &["branch", "last_error", "failure_type", "result", "quality_snapshot_id"]
                .map(|name| format!("typeof(NEW.{name}) NOT IN ('text', 'null')"))
                .join(" OR "),
        ),
        refuse(
            "tasks: last_error, result: at most 262144 bytes",
            "length(CAST(coalesce(NEW.last_error, '') AS BLOB)) > 16384 OR length(CAST(coalesce(NEW.result, '') AS BLOB)) > 262144",
        ),
        time("tasks.started_at", "started_at", true),
        time("tasks.claimed_at", "claimed_at", true),
        time("tasks.completed_at", "completed_at", true),
        time("tasks.next_retry_at", "next_retry_at", true),
        time("tasks.updated_at", "updated_at", false),
    ]
}
