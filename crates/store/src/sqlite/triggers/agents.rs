//! Agents: what is noted of them.

use super::guard::guard;
use super::{Trigger, forget_replaced, image, remember};
use crate::sqlite::rows;
use crate::table::AGENTS;
use crate::table::Deed::{Insert, Update};

/// An update that is a sign of life.
const BEAT: &str = "NEW.last_heartbeat IS NOT OLD.last_heartbeat OR NEW.heartbeat_count IS NOT OLD.heartbeat_count";

pub(super) fn triggers() -> Vec<Trigger> {
    // The word for a silent agent is offline too: only who turns to it signs off.
    let became = |offline: &str| {
        let presence = format!(", 'presence', CASE WHEN {offline} ELSE 'live' END");
        image("NEW", rows::AGENT, &["presence"], &presence)
    };
    let found = [
        // The id of one that signed off or fell silent is free.
        "DELETE FROM agents WHERE id = NEW.id AND presence <> 'live';".to_owned(),
        remember("agents", "id", &image("agents", rows::AGENT, &[], "")),
    ];
    vec![
        guard("sb_agents_insert_guard", &AGENTS, Insert, found),
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
        guard("sb_agents_update_guard", &AGENTS, Update, []),
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
