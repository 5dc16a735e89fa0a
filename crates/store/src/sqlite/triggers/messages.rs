//! Messages: sent, read and confirmed by hand.

use super::guard::{guard, refuse};
use super::{Trigger, image, remember};
use crate::sqlite::rows;
use crate::table::Deed::{Insert, Update};
use crate::table::MESSAGES;

pub(super) fn triggers() -> Vec<Trigger> {
    let image_of = |of: &str| {
        let more = format!(
            ", 'acknowledged_by', coalesce({of}.acknowledged_by, {of}.to_agent), 'reader', CASE WHEN {of}.copy_of IS NOT NULL THEN {of}.to_agent END"
        );
        image(of, rows::MESSAGE, &["payload", "acknowledged_by"], &more)
    };
    let key = "coalesce((SELECT id FROM messages WHERE number = OLD.copy_of), OLD.id)";
    let changed: Vec<&str> = MESSAGES.changeable().collect();
    let found = [remember("messages", "id", "NULL")];
    // A flag on everyone's row would be one flag for all.
    let everyones = [
        "SELECT RAISE(IGNORE) WHERE OLD.to_agent IS NULL AND NEW.number = OLD.number;".to_owned(),
    ];
    vec![
        guard("sb_messages_insert_guard", &MESSAGES, Insert, found),
        Trigger {
            name: "sb_messages_insert",
            on: "AFTER INSERT ON messages".to_owned(),
            body: vec![
                refuse(
                    "messages: a sent message cannot be replaced",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'messages' AND key = NEW.id)",
                ),
                "UPDATE messages SET number = min(-1, (SELECT min(number) FROM messages)) - 1 WHERE id = NEW.id;".to_owned(),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('messages', NEW.id, 'insert', {});",
                    image_of("NEW")
                ),
            ],
        },
        guard("sb_messages_update_guard", &MESSAGES, Update, everyones),
        Trigger {
            name: "sb_messages_update",
            on: format!("AFTER UPDATE OF {} ON messages", changed.join(", ")),
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
