//! Messages: sent, read and confirmed by hand.

use super::guard::{guard, refuse};
use super::{IS_NEW, Trigger, image, put_back, remember};
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
    let mut insert_guard = guard("sb_messages_insert_guard", &MESSAGES, Insert, found);
    insert_guard.on = format!("{} {IS_NEW}", insert_guard.on);
    vec![
        insert_guard,
        Trigger {
            name: "sb_messages_insert",
            on: format!("AFTER INSERT ON messages {IS_NEW}"),
            body: vec![
                refuse(
                    "messages: a sent message cannot be replaced",
                    "EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'messages' AND key = NEW.id)",
                ),
                // What is for everyone is read in the copies that the hub makes of it, and only there.
                "UPDATE messages SET number = min(-1, (SELECT min(number) FROM messages)) - 1,
    delivered_at = CASE WHEN to_agent IS NULL THEN created_at END, acknowledged_at = CASE WHEN to_agent IS NULL THEN created_at END
    WHERE id = NEW.id;".to_owned(),
                format!(
                    "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('messages', NEW.id, 'insert', {});",
                    image_of("NEW")
                ),
            ],
        },
        guard("sb_messages_update_guard", &MESSAGES, Update, everyones),
        Trigger {
            name: "sb_messages_update",
            on: format!(
                "AFTER UPDATE OF {} ON messages WHEN OLD.to_agent IS NOT NULL",
                changed.join(", ")
            ),
            body: vec![format!(
                "INSERT INTO sb_hand(tbl, key, deed, was, became) VALUES ('messages', {key}, 'update', {}, {});",
                image("OLD", rows::MESSAGE, &["payload"], ""),
                image_of("NEW")
            )],
        },
        Trigger {
            name: "sb_messages_delete",
            on: "AFTER DELETE ON messages".to_owned(),
            body: vec![
                put_back(&MESSAGES),
                "UPDATE messages SET delivered_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE id = OLD.id AND delivered_at IS NULL;".to_owned(),
            ],
        },
    ]
}
