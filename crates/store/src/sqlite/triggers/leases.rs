//! Leases: taken, renewed and given back by hand.

use super::guard::{NEW_PATH, guard, normal_path, over, refuse};
use super::{Trigger, forget_replaced, image, remember};
use crate::sqlite::rows;
use crate::table::Deed::{Insert, Update};
use crate::table::LEASES;

pub(super) fn triggers() -> Vec<Trigger> {
    let was = image("leases", rows::LEASE, &[], "");
    let found = [remember("leases", "file_path", &was)];
    let mut insert_guard = guard("sb_leases_insert_guard", &LEASES, Insert, found);
    insert_guard.body.insert(0, normal_path());
    let path = format!(", 'path', nullif({NEW_PATH}, NEW.file_path)");
    vec![
        insert_guard,
        Trigger {
            name: "sb_leases_insert",
            on: "AFTER INSERT ON leases".to_owned(),
            body: vec![
                refuse(
                    "leases.file_path: another agent holds this lease, and it has not expired",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path AND json_extract(was, '$.agent_id') <> NEW.agent_id
      AND NOT {OVER})"
                        .replace("{OVER}", &over("json_extract(was, '$.expires_at')"))
                        .as_str(),
                ),
                forget_replaced("leases", "file_path"),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('leases', NEW.file_path, 'insert',
    (SELECT was FROM sb_was WHERE tbl = 'leases' AND key = NEW.file_path), {});",
                    image("NEW", rows::LEASE, &["path"], &path)
                ),
                format!(
                    "UPDATE leases SET path = nullif({NEW_PATH}, file_path), prefix = CASE WHEN {NEW_PATH} GLOB '*[*?{{]*' THEN NULL
    WHEN {NEW_PATH} = '.' THEN '' ELSE {NEW_PATH} END WHERE file_path = NEW.file_path;"
                ),
                "DELETE FROM sb_was WHERE tbl IN ('leases', 'path') AND key = NEW.file_path;".to_owned(),
            ],
        },
        guard("sb_leases_update_guard", &LEASES, Update, []),
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
