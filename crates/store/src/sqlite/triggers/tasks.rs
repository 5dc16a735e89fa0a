//! Tasks: what is noted of them.

use super::guard::{guard, refuse};
use super::{IS_NEW, Trigger, image, put_back, remember};
use crate::sqlite::rows;
use crate::table::Deed::{Insert, Update};
use crate::table::{HELD, TASKS};

pub(super) fn triggers() -> Vec<Trigger> {
    let insert = Trigger {
        name: "sb_tasks_insert",
        on: format!("AFTER INSERT ON tasks {IS_NEW}"),
        body: vec![
            refuse(
                "tasks: REPLACE would delete the history of this task; use UPDATE",
                "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'tasks' AND key = NEW.id)",
            ),
            "UPDATE tasks SET number = min(-1, (SELECT min(number) FROM tasks)) - 1 WHERE id = NEW.id;".to_owned(),
            format!(
                "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('tasks', NEW.id, 'insert', {});",
                image("NEW", rows::TASK, TEXTS, "")
            ),
        ],
    };
    // A client's own trigger writes the instant of an update; an epoch changes with the status.
    let changed = TASKS
        .changeable()
        .filter(|name| !["updated_at", "epoch"].contains(name));
    let changed: Vec<&str> = changed.collect();
    let update = Trigger {
        name: "sb_tasks_update",
        on: format!("AFTER UPDATE OF {} ON tasks", changed.join(", ")),
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
    };
    let delete = Trigger {
        name: "sb_tasks_delete",
        on: "AFTER DELETE ON tasks".to_owned(),
        body: vec![
            refuse(
                "tasks: finished tasks cannot be deleted; the hub prunes them by its [retention]",
                "OLD.status IN ('completed', 'failed', 'canceled')",
            ),
            put_back(&TASKS),
            "UPDATE tasks SET status = 'canceled' WHERE id = OLD.id;".to_owned(),
        ],
    };
    let mut update_guard = guard("sb_tasks_update_guard", &TASKS, Update, []);
    // While work is paused a claim finds nothing, and is no error. A pause that is over is taken away by the hub.
    let paused = format!(
        "SELECT RAISE(IGNORE) WHERE NEW.status {HELD} AND OLD.status NOT {HELD} AND NEW.assigned_agent IS NOT NULL AND EXISTS (SELECT 1 FROM sb_record
    WHERE kind = 'director' AND coalesce(json_extract(value, '$.paused.at'), json_extract(value, '$.cooldown_until')) IS NOT NULL);"
    );
    update_guard.body.insert(0, paused);
    let found = [remember("tasks", "id", "NULL")];
    let mut insert_guard = guard("sb_tasks_insert_guard", &TASKS, Insert, found);
    insert_guard.on = format!("{} {IS_NEW}", insert_guard.on);
    vec![insert_guard, insert, update_guard, update, delete]
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
