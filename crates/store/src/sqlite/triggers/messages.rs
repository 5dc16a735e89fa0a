//! Messages: sent, read and confirmed by hand.

use switchboard_core::limits;

use super::guard::{control, flag, id, refuse, time};
use super::{Trigger, image, kept, remember};
use crate::sqlite::rows;

pub(super) fn triggers() -> Vec<Trigger> {
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
            body: inserted(),
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
            body: updated(),
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

/// Of a new message.
fn inserted() -> Vec<String> {
    vec![
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
            ]
}

/// Of one that is there.
fn updated() -> Vec<String> {
    vec![
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
            ]
}
