//! Messages to several and to everyone, for agents that read the table themselves: a row for each, so that reading it is one agent's own deed.

use rusqlite::{Connection, params};
use switchboard_core::changes::AdoptedRow;
use switchboard_core::slice::Save;
use switchboard_core::{Delivery, Message, MessageId};

use super::Result;
use crate::sqlite::load::signed;
use crate::sqlite::text::Iso;

pub(super) fn save(db: &Connection, save: &Save<'_>) -> Result {
    for adopted in save.adopted {
        if let AdoptedRow::Message(id) = &adopted.row {
            restore(db, id)?;
        }
    }
    if save.puts::<Delivery>().next().is_none() || !has_readers(db)? {
        return Ok(());
    }
    for (message, put) in save.puts::<Message>() {
        if put.is_new && message.to.one().is_none() {
            db.prepare_cached(
                "INSERT OR IGNORE INTO messages(number, id, type, from_agent, to_agent, payload, ack_required, expires_at, created_at, rev, copy_of)
                 SELECT (SELECT min(-1, min(number)) FROM messages) - row_number() OVER (), m.id || ':' || s.id, m.type, m.from_agent, s.id,
                   m.payload, m.ack_required, m.expires_at, m.created_at, m.rev, m.number
                 FROM messages m JOIN sb_delivery d ON d.number = m.number JOIN sb_sql_agent s ON s.id = d.agent WHERE m.number = ?",
            )?
            .execute([signed(message.number)])?;
        }
    }
    for (delivery, put) in save.puts::<Delivery>() {
        if !put.is_new {
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

/// Whatever a hand made of the copies of this message, they show what became of its deliveries.
fn restore(db: &Connection, id: &MessageId) -> Result {
    let shown = |column: &str| {
        format!(
            "(SELECT strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000, 'unixepoch') || printf('.%03dZ', {column} % 1000) FROM sb_delivery
              WHERE sb_delivery.number = copy_of AND agent = to_agent AND {column} IS NOT NULL)"
        )
    };
    let (delivered, acknowledged) = (
        shown("sb_delivery.delivered_at"),
        shown("sb_delivery.acknowledged_at"),
    );
    db.prepare_cached(&format!(
        "UPDATE messages SET delivered_at = {delivered}, acknowledged_at = {acknowledged},
           acknowledged_by = iif({acknowledged} IS NULL, NULL, to_agent)
         WHERE copy_of = (SELECT number FROM messages WHERE id = ?)"
    ))?
    .execute([id.as_str()])?;
    Ok(())
}

fn has_readers(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM sb_sql_agent LIMIT 1")?
        .exists([])
}
