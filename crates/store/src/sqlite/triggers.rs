//! The triggers of the public tables: they refuse what no rule allows, and note what was written.
//!
//! The hub's own connection has triggers switched off, so whatever fires one was written by hand. They run inside
//! the clients' SQLite: nothing here is newer than 3.37, and `RAISE` takes only literal texts.

use rusqlite::{Connection, OptionalExtension, params};
use switchboard_core::limits;
use switchboard_core::verb::{DEPENDS_ON_DEPENDENCIES, TRANSITIONS};

use super::rows;

mod guard;

use guard::{array, bytes, control, flag, id, number, refuse, time, words};

struct Trigger {
    name: &'static str,
    /// From the instant on: `BEFORE INSERT ON tasks …`.
    on: String,
    body: Vec<String>,
}

impl Trigger {
    fn sql(&self) -> String {
        let Trigger { name, on, body } = self;
        format!(
            "CREATE TRIGGER {name} {on} BEGIN\n  {}\nEND",
            body.join("\n  ")
        )
    }
}

/// Sees to it that the file has the triggers of this build.
pub(super) fn install(db: &Connection) -> rusqlite::Result<()> {
    for trigger in tasks()
        .into_iter()
        .chain(agents())
        .chain(messages())
        .chain(leases())
        .chain(quality())
        .chain(taken_names())
    {
        let sql = trigger.sql();
        let there: Option<String> = db
            .query_row(
                "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?",
                [trigger.name],
                |row| row.get(0),
            )
            .optional()?;
        if there.as_ref() != Some(&sql) {
            db.execute_batch(&format!("DROP TRIGGER IF EXISTS {};\n{sql};", trigger.name))?;
        }
    }
    let known: i64 = db.query_row("SELECT count(*) FROM sb_task_transition", [], |row| {
        row.get(0)
    })?;
    for (a, b) in TRANSITIONS {
        db.execute(
            "INSERT OR IGNORE INTO sb_task_transition(a, b) VALUES (?, ?)",
            params![a, b],
        )?;
    }
    if known > i64::try_from(TRANSITIONS.len()).unwrap_or(i64::MAX) {
        let list = serde_json::to_string(TRANSITIONS).unwrap_or_default();
        db.execute(
            "DELETE FROM sb_task_transition WHERE NOT EXISTS (SELECT 1 FROM json_each(?) known
               WHERE json_extract(known.value, '$[0]') = a AND json_extract(known.value, '$[1]') = b)",
            [list],
        )?;
    }
    Ok(())
}

/// The row as JSON, without the columns that are read from the row itself.
fn image(of: &str, columns: &str, without: &[&str], more: &str) -> String {
    let columns = columns.split(", ").filter(|name| !without.contains(name));
    let pairs: Vec<String> = columns
        .map(|name| format!("'{name}', {of}.{name}"))
        .collect();
    format!("json_object({}{more})", pairs.join(", "))
}

/// Columns that must stay as they are.
fn kept(columns: &[&str]) -> String {
    let changed = |name: &&str| format!("NEW.{name} IS NOT OLD.{name}");
    let list: Vec<String> = columns.iter().map(changed).collect();
    list.join(" OR ")
}

/// Notes which row an INSERT finds under its key.
fn remember(table: &str, key: &str, was: &str) -> String {
    format!(
        "DELETE FROM sb_was WHERE tbl = '{table}' AND key = NEW.{key};
  INSERT INTO sb_was(tbl, key, was) SELECT '{table}', {key}, {was} FROM {table} WHERE {key} = NEW.{key};"
    )
}

/// Large texts that a claim does not touch: in a note only when one of them changed.
const TASK_TEXTS: &[&str] = &["description", "result"];

fn task_image(of: &str) -> String {
    let more = format!(
        ", 'texts', CASE WHEN NEW.description IS NOT OLD.description OR NEW.result IS NOT OLD.result
    THEN json_array({of}.description, {of}.result) END"
    );
    image(of, rows::TASK, TASK_TEXTS, &more)
}

fn described_tasks() -> Vec<String> {
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

fn tasks() -> Vec<Trigger> {
    let mut new = vec![id("tasks.id", "id", false)];
    new.extend(described_tasks());
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
            "tasks: rev, epoch, lane, state_at, worked_ms, progress, dependants and corr_id belong to the hub",
            "NEW.rev <> 0 OR NEW.epoch <> 0 OR NEW.lane IS NOT NULL OR NEW.state_at <> 0 OR NEW.worked_ms IS NOT NULL OR NEW.progress IS NOT NULL OR NEW.dependants <> 0 OR NEW.corr_id <> ''",
        ),
        time("tasks.created_at", "created_at", false),
        remember("tasks", "id", "NULL"),
    ]);
    let held = "IN ('claimed', 'in_progress')";
    // Then it is written anew anyway.
    let noted = "EXISTS (SELECT 1 FROM sb_hand WHERE tbl = 'tasks' AND key = OLD.id)";
    let mut changed = vec![
        refuse(
            "tasks: id, number, created_at, dependencies and the columns after updated_at belong to the hub",
            &format!(
                "{} OR (NEW.number IS NOT OLD.number AND (OLD.rev <> 0 OR NEW.number IS NOT (SELECT min(-1, min(number)) - 1 FROM tasks)))
      OR (NEW.lane IS NOT OLD.lane AND (NEW.lane IS NOT NULL OR NOT {noted}))
      OR (NEW.epoch IS NOT OLD.epoch AND (NEW.epoch IS NOT OLD.epoch + 1 OR NOT ({noted} OR NEW.status {held} AND OLD.status NOT {held})))",
                kept(&[
                    "id", "rev", "state_at", "worked_ms", "progress", "dependants", "corr_id", "created_at",
                    "dependencies", "on_dependency_failure",
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
                "NEW.status {held} AND OLD.status NOT {held}
      AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.assigned_agent AND presence <> 'gone')"
            ),
        ),
        refuse(
            "tasks.assigned_agent: another agent holds this task",
            &format!(
                "OLD.status {held} AND NEW.assigned_agent IS NOT OLD.assigned_agent
      AND (NEW.assigned_agent IS NOT NULL OR NEW.status {held})"
            ),
        ),
    ];
    changed.extend(described_tasks());
    vec![
        Trigger {
            name: "sb_tasks_insert_guard",
            on: "BEFORE INSERT ON tasks".to_owned(),
            body: new,
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
                    image("NEW", rows::TASK, TASK_TEXTS, "")
                ),
            ],
        },
        Trigger {
            name: "sb_tasks_update_guard",
            on: "BEFORE UPDATE ON tasks".to_owned(),
            body: changed,
        },
        Trigger {
            name: "sb_tasks_update",
            on: "AFTER UPDATE OF title, description, status, priority, type, assigned_agent, claimed_at, blockers, required_skills,
  files, started_at, completed_at, estimated_minutes, actual_minutes, retry_count, max_retries, last_error, failure_type, next_retry_at,
  previous_agents, result, branch, quality_snapshot_id, audience ON tasks".to_owned(),
            body: vec![
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('tasks', NEW.id, 'update', {}, {});",
                    task_image("OLD"),
                    task_image("NEW")
                ),
                format!(
                    "UPDATE tasks SET lane = NULL, epoch = CASE WHEN NEW.status {held} AND OLD.status NOT {held} AND NEW.epoch = OLD.epoch
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

fn described_agents() -> Vec<String> {
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

/// An update that is a sign of life.
const BEAT: &str = "NEW.last_heartbeat IS NOT OLD.last_heartbeat OR NEW.heartbeat_count IS NOT OLD.heartbeat_count";

/// Where a client has recursive triggers on, REPLACE also deletes, which is no deed of its own.
fn forget_replaced(table: &str, key: &str) -> String {
    format!(
        "DELETE FROM sb_hand WHERE n = (SELECT max(n) FROM sb_hand) AND tbl = '{table}' AND key = NEW.{key} AND deed = 'delete'
    AND EXISTS (SELECT 1 FROM sb_was WHERE tbl = '{table}' AND key = NEW.{key});"
    )
}

fn agents() -> Vec<Trigger> {
    let mut new = vec![id("agents.id", "id", true)];
    new.extend(described_agents());
    new.extend([
        refuse(
            "agents: the columns after last_active_at belong to the hub",
            "NEW.rev <> 0 OR NEW.presence <> 'live' OR NEW.presence_at <> 0 OR NEW.seen_at <> 0 OR NEW.runtime_ms <> 0 OR NEW.holds <> '[]'
      OR NEW.commands <> '[]' OR NEW.metrics IS NOT NULL OR NEW.key_generation <> 0 OR NEW.inbox <> 0",
        ),
        // The id of one that signed off or fell silent is free.
        "DELETE FROM agents WHERE id = NEW.id AND presence <> 'live';".to_owned(),
        remember("agents", "id", &image("agents", rows::AGENT, &[], "")),
    ]);
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
        ]),
    )];
    changed.extend(described_agents());
    // The word for a silent agent is offline too: only who turns to it signs off.
    let became = |offline: &str| {
        let presence = format!(", 'presence', CASE WHEN {offline} ELSE 'live' END");
        image("NEW", rows::AGENT, &["presence"], &presence)
    };
    vec![
        Trigger {
            name: "sb_agents_insert_guard",
            on: "BEFORE INSERT ON agents".to_owned(),
            body: new,
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
            body: changed,
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

fn messages() -> Vec<Trigger> {
    let image_of = |of: &str| {
        let more = format!(
            ", 'acknowledged_by', coalesce({of}.acknowledged_by, {of}.to_agent), 'reader', CASE WHEN {of}.copy_of IS NOT NULL THEN {of}.to_agent END"
        );
        image(of, rows::MESSAGE, &["payload", "acknowledged_by"], &more)
    };
    let key = "coalesce((SELECT id FROM messages WHERE number = OLD.copy_of), OLD.id)";
    vec![
        Trigger {
            name: "sb_messages_insert_guard",
            on: "BEFORE INSERT ON messages".to_owned(),
            body: vec![
                id("messages.id", "id", false),
                id("messages.from_agent", "from_agent", false),
                refuse(
                    "messages.type: custom, or words with dots between such as info.discovery",
                    &format!(
                        "typeof(NEW.type) <> 'text' OR length(NEW.type) NOT BETWEEN 1 AND {} OR {}
      OR (NEW.type <> 'custom' AND NEW.type NOT GLOB '?*.?*')",
                        limits::ID_BYTES_MAX,
                        control("NEW.type", 32)
                    ),
                ),
                refuse(
                    "messages.to_agent: no agent of this id was ever seen; NULL sends to everyone",
                    "NEW.to_agent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.to_agent)",
                ),
                refuse(
                    "messages.payload: JSON as text, of at most 262144 bytes",
                    &format!(
                        "typeof(NEW.payload) NOT IN ('text', 'null') OR length(CAST(coalesce(NEW.payload, '') AS BLOB)) > {}",
                        limits::PAYLOAD_BYTES_MAX
                    ),
                ),
                flag("messages.ack_required", "ack_required"),
                time("messages.expires_at", "expires_at", true),
                time("messages.created_at", "created_at", false),
                refuse(
                    "messages: a new one is neither delivered nor acknowledged; number and the columns after created_at belong to the hub",
                    "NEW.number <> -1 OR NEW.delivered_at IS NOT NULL OR NEW.acknowledged_at IS NOT NULL OR NEW.acknowledged_by IS NOT NULL OR NEW.rev <> 0
      OR NEW.corr_id <> '' OR NEW.handoff_task IS NOT NULL OR NEW.handoff_epoch IS NOT NULL OR NEW.copy_of IS NOT NULL",
                ),
                remember("messages", "id", "NULL"),
            ],
        },
        Trigger {
            name: "sb_messages_insert",
            on: "AFTER INSERT ON messages".to_owned(),
            body: vec![
                refuse(
                    "messages: a message that was sent is not replaced",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'messages' AND key = NEW.id)",
                ),
                "UPDATE messages SET number = min(-1, (SELECT min(number) FROM messages)) - 1 WHERE id = NEW.id;".to_owned(),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('messages', NEW.id, 'insert', {});",
                    image_of("NEW")
                ),
            ],
        },
        Trigger {
            name: "sb_messages_update_guard",
            on: "BEFORE UPDATE ON messages".to_owned(),
            body: vec![
                refuse(
                    "messages: only delivered_at, acknowledged_at and acknowledged_by may change",
                    &format!(
                        "{} OR (NEW.number IS NOT OLD.number AND (OLD.rev <> 0 OR NEW.number IS NOT (SELECT min(-1, min(number)) - 1 FROM messages)))",
                        kept(&[
                            "id", "type", "from_agent", "to_agent", "payload", "ack_required", "expires_at", "created_at", "rev",
                            "corr_id", "handoff_task", "handoff_epoch", "copy_of",
                        ])
                    ),
                ),
                refuse(
                    "messages.acknowledged_by: only the agent it was sent to acknowledges it",
                    "OLD.to_agent IS NOT NULL AND NEW.acknowledged_by IS NOT OLD.acknowledged_by AND NEW.acknowledged_by IS NOT NULL
      AND NEW.acknowledged_by <> OLD.to_agent",
                ),
                time("messages.delivered_at", "delivered_at", true),
                time("messages.acknowledged_at", "acknowledged_at", true),
                // A flag on everyone's row would be one flag for all.
                "SELECT RAISE(IGNORE) WHERE OLD.to_agent IS NULL AND NEW.number = OLD.number;".to_owned(),
            ],
        },
        Trigger {
            name: "sb_messages_update",
            on: "AFTER UPDATE OF delivered_at, acknowledged_at, acknowledged_by ON messages".to_owned(),
            body: vec![format!(
                "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('messages', {key}, 'update', {}, {});",
                image("OLD", rows::MESSAGE, &["payload"], ""),
                image_of("NEW")
            )],
        },
        Trigger {
            name: "sb_messages_delete",
            on: "BEFORE DELETE ON messages".to_owned(),
            body: vec![
                "UPDATE messages SET delivered_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE id = OLD.id AND delivered_at IS NULL;".to_owned(),
                "SELECT RAISE(IGNORE);".to_owned(),
            ],
        },
    ]
}

fn leases() -> Vec<Trigger> {
    let over = |of: &str| format!("julianday({of}.expires_at) <= julianday('now')");
    let checks = || {
        vec![
            refuse(
                "leases.agent_id: no such agent is registered; insert it into agents first",
                "NOT EXISTS (SELECT 1 FROM agents WHERE id = NEW.agent_id AND presence <> 'gone')",
            ),
            refuse(
                "leases.task_id: this agent does not hold that task; NULL is allowed",
                "NEW.task_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.task_id AND assigned_agent = NEW.agent_id
      AND status IN ('claimed', 'in_progress'))",
            ),
            time("leases.acquired_at", "acquired_at", false),
            time("leases.expires_at", "expires_at", false),
            number("leases.renewed_count", "renewed_count", i64::from(u32::MAX), false),
            refuse(
                "leases.file_path: a lease of another agent covers it",
                &format!(
                    "EXISTS (SELECT 1 FROM leases held WHERE held.agent_id <> NEW.agent_id AND held.file_path <> NEW.file_path AND NOT {}
      AND (held.prefix = '' OR held.prefix = NEW.file_path
        OR substr(held.prefix, 1, length(NEW.file_path) + 1) = NEW.file_path || '/'
        OR substr(NEW.file_path, 1, length(held.prefix) + 1) = held.prefix || '/'))",
                    over("held")
                ),
            ),
        ]
    };
    let mut new = vec![refuse(
        "leases.file_path: a path relative to the project, written plainly (no ./ // .. or \\\\), without * ? {",
        &format!(
            "typeof(NEW.file_path) <> 'text' OR length(CAST(NEW.file_path AS BLOB)) NOT BETWEEN 1 AND {} OR {}
      OR NEW.file_path GLOB '*[*?{{]*' OR instr(NEW.file_path, char(92)) > 0 OR instr('/' || NEW.file_path || '/', '//') > 0
      OR instr('/' || NEW.file_path || '/', '/./') > 0 OR instr('/' || NEW.file_path || '/', '/../') > 0
      OR length(NEW.file_path) - length(replace(NEW.file_path, '/', '')) >= {}",
            limits::PATH_BYTES_MAX,
            control("NEW.file_path", 31),
            limits::PATH_SEGMENTS_MAX
        ),
    )];
    new.extend(checks());
    new.extend([
        refuse("leases.expires_at: must lie ahead", &over("NEW")),
        refuse(
            "leases: rev, prefix and fencing belong to the hub",
            "NEW.rev <> 0 OR NEW.prefix IS NOT NULL OR NEW.fencing <> 0",
        ),
        remember(
            "leases",
            "file_path",
            &image("leases", rows::LEASE, &[], ""),
        ),
    ]);
    let mut changed = vec![
        refuse(
            "leases: file_path, rev, prefix and fencing belong to the hub",
            "NEW.file_path IS NOT OLD.file_path OR NEW.fencing IS NOT OLD.fencing
      OR (NEW.prefix IS NOT OLD.prefix AND (OLD.prefix IS NOT NULL OR NEW.prefix IS NOT NEW.file_path))
      OR (NEW.rev IS NOT OLD.rev AND NOT (NEW.rev = 0 AND EXISTS (SELECT 1 FROM sb_hand WHERE tbl = 'leases' AND key = OLD.file_path)))",
        ),
        refuse(
            "leases.agent_id: another agent holds this lease, and it has not run out",
            &format!("NEW.agent_id IS NOT OLD.agent_id AND NOT {}", over("OLD")),
        ),
    ];
    changed.extend(checks());
    vec![
        Trigger {
            name: "sb_leases_insert_guard",
            on: "BEFORE INSERT ON leases".to_owned(),
            body: new,
        },
        Trigger {
            name: "sb_leases_insert",
            on: "AFTER INSERT ON leases".to_owned(),
            body: vec![
                refuse(
                    "leases.file_path: another agent holds this lease, and it has not run out",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path AND json_extract(was, '$.agent_id') <> NEW.agent_id
      AND julianday(json_extract(was, '$.expires_at')) > julianday('now'))",
                ),
                forget_replaced("leases", "file_path"),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('leases', NEW.file_path, 'insert',
    (SELECT was FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path), {});",
                    image("NEW", rows::LEASE, &[], "")
                ),
                "DELETE FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path;".to_owned(),
                "UPDATE leases SET prefix = NEW.file_path WHERE file_path = NEW.file_path;".to_owned(),
            ],
        },
        Trigger {
            name: "sb_leases_update_guard",
            on: "BEFORE UPDATE ON leases".to_owned(),
            body: changed,
        },
        Trigger {
            name: "sb_leases_update",
            on: "AFTER UPDATE OF agent_id, task_id, expires_at, renewed_count ON leases".to_owned(),
            body: vec![
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('leases', NEW.file_path, 'update', {}, {});",
                    image("OLD", rows::LEASE, &[], ""),
                    image("NEW", rows::LEASE, &[], "")
                ),
                "UPDATE leases SET rev = 0 WHERE file_path = NEW.file_path AND NEW.agent_id <> OLD.agent_id;".to_owned(),
            ],
        },
        Trigger {
            name: "sb_leases_delete",
            on: "AFTER DELETE ON leases".to_owned(),
            body: vec![format!(
                "INSERT INTO sb_hand(tbl, key, deed, was) VALUES ('leases', OLD.file_path, 'delete', {});",
                image("OLD", rows::LEASE, &[], "")
            )],
        },
    ]
}

const COUNTED: [&str; 5] = [
    "type_errors",
    "lint_errors",
    "lint_warnings",
    "tests_passing",
    "tests_failing",
];

fn quality() -> Vec<Trigger> {
    let measured = |table: &str| -> Vec<String> {
        let mut checks: Vec<String> = COUNTED
            .iter()
            .map(|name| number(&format!("{table}.{name}"), name, i64::from(u32::MAX), false))
            .collect();
        checks.push(refuse(
            &format!("{table}.test_coverage: a number from 0 to 100, or NULL"),
            "NEW.test_coverage IS NOT NULL AND (typeof(NEW.test_coverage) NOT IN ('real', 'integer') OR NEW.test_coverage NOT BETWEEN 0 AND 100)",
        ));
        checks.push(refuse(
            &format!("{table}.build_success: 0 or 1, or NULL"),
            "NEW.build_success IS NOT NULL AND NEW.build_success NOT IN (0, 1)",
        ));
        checks
    };
    let note = || {
        vec![format!(
            "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('quality_baseline', '1', 'update', {});",
            image("NEW", rows::BASELINE, &[], "")
        )]
    };
    let mut snapshot = vec![
        id("quality_snapshots.id", "id", false),
        refuse(
            &format!("quality_snapshots.task_id, agent_id: text of at most {} bytes, or NULL", limits::ID_BYTES_MAX),
            &["task_id", "agent_id"]
                .map(|name| {
                    format!(
                        "typeof(NEW.{name}) NOT IN ('text', 'null') OR length(CAST(coalesce(NEW.{name}, '') AS BLOB)) > {}",
                        limits::ID_BYTES_MAX
                    )
                })
                .join(" OR "),
        ),
    ];
    snapshot.extend(measured("quality_snapshots"));
    snapshot.push(time("quality_snapshots.recorded_at", "recorded_at", false));
    let baseline = || {
        let mut checks = measured("quality_baseline");
        checks.push(time("quality_baseline.created_at", "created_at", false));
        checks.push(time("quality_baseline.updated_at", "updated_at", false));
        checks.push(number("quality_baseline.rev", "rev", i64::MAX, false));
        checks
    };
    let trigger = |name, on: &str, body| Trigger {
        name,
        on: on.to_owned(),
        body,
    };
    vec![
        trigger(
            "sb_snapshots_insert_guard",
            "BEFORE INSERT ON quality_snapshots",
            snapshot.clone(),
        ),
        trigger(
            "sb_snapshots_update_guard",
            "BEFORE UPDATE ON quality_snapshots",
            snapshot,
        ),
        trigger(
            "sb_baseline_insert_guard",
            "BEFORE INSERT ON quality_baseline",
            baseline(),
        ),
        trigger(
            "sb_baseline_update_guard",
            "BEFORE UPDATE ON quality_baseline",
            baseline(),
        ),
        trigger(
            "sb_baseline_insert",
            "AFTER INSERT ON quality_baseline",
            note(),
        ),
        trigger(
            "sb_baseline_update",
            "AFTER UPDATE ON quality_baseline",
            note(),
        ),
    ]
}

/// Names under which direct clients would make triggers of their own, which would write after every write.
fn taken_names() -> Vec<Trigger> {
    [
        ("tasks_updated_at", "tasks", "id"),
        ("baseline_updated_at", "quality_baseline", "id"),
        ("metadata_updated_at", "swarm_metadata", "key"),
    ]
    .map(|(name, table, column)| Trigger {
        name,
        on: format!("AFTER UPDATE OF {column} ON {table} WHEN 0"),
        body: vec!["SELECT 1;".to_owned()],
    })
    .into()
}
