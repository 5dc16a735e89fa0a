//! Leases: taken, renewed and given back by hand.

use switchboard_core::limits;

use super::guard::{control, number, refuse, time};
use super::{Trigger, forget_replaced, image, remember};
use crate::sqlite::rows;

pub(super) fn triggers() -> Vec<Trigger> {
    vec![
        Trigger {
            name: "sb_leases_insert_guard",
            on: "BEFORE INSERT ON leases".to_owned(),
            body: inserted(),
        },
        Trigger {
            name: "sb_leases_insert",
            on: "AFTER INSERT ON leases".to_owned(),
            body: vec![
                refuse(
                    "leases.file_path: another agent holds this lease, and it has not run out",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path AND json_extract(was, '$.agent_id') <> NEW.agent_id
      AND NOT {OVER})"
                        .replace("{OVER}", &over_at("json_extract(was, '$.expires_at')"))
                        .as_str(),
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
            body: updated(),
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

/// Whether it has run out.
fn over(of: &str) -> String {
    over_at(&format!("{of}.expires_at"))
}

/// By the ledger's time: where it was when the hub last wrote, and what the machine's clock has counted since.
fn over_at(expires_at: &str) -> String {
    format!(
        "julianday({expires_at}) <= (SELECT CASE WHEN clock_wall = 0 THEN julianday('now') ELSE julianday(clock_at / 1000.0, 'unixepoch')
        + max(0, julianday('now') - julianday(clock_wall / 1000.0, 'unixepoch')) END FROM sb_head)"
    )
}

/// Of a new lease.
fn inserted() -> Vec<String> {
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
    new
}

/// Of one that is there.
fn updated() -> Vec<String> {
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
    changed
}

fn checks() -> Vec<String> {
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
}
