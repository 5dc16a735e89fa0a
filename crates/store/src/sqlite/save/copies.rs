//! Broadcasts for agents that read the table themselves: a row for each, so that reading it is one agent's own deed.

use rusqlite::{Connection, params};
use switchboard_core::slice::Save;

use super::Result;
use crate::sqlite::load::signed;
use crate::sqlite::text::Iso;

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    if save.deliveries.is_empty() || !has_readers(db)? {
        return Ok(());
    }
    for (message, new) in &save.messages {
        if *new && message.to.is_none() {
            db.prepare_cached(
                "INSERT INTO messages(number, id, type, from_agent, to_agent, payload, ack_required, expires_at, created_at, rev, copy_of)
                 SELECT (SELECT min(-1, min(number)) FROM messages) - row_number() OVER (), m.id || ':' || s.id, m.type, m.from_agent, s.id,
                   m.payload, m.ack_required, m.expires_at, m.created_at, m.rev, m.number
                 FROM messages m JOIN sb_delivery d ON d.number = m.number JOIN sb_sql_agent s ON s.id = d.agent WHERE m.number = ?",
            )?
            .execute([signed(message.number)])?;
        }
    }
    for (delivery, new) in &save.deliveries {
        if !new {
            db.prepare_cached(
                "UPDATE messages SET delivered_at = ?, acknowledged_at = ?, acknowledged_by = ? WHERE copy_of = ? AND to_agent = ?",
            )?
            .execute(params![
                delivery.delivered_at.map(Iso::new),
                delivery.acknowledged_at.map(Iso::new),
                delivery.acknowledged_at.map(|_| delivery.agent.as_str()),
                signed(delivery.number),
                delivery.agent.as_str(),
            ])?;
        }
    }
    Ok(())
}

fn has_readers(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM sb_sql_agent LIMIT 1")?
        .exists([])
}
